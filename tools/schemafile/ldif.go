package schemafile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/schema"
)

func (f *Files) readLDIF(name string, text []byte) error {
	r := ldif.NewReader(bytes.NewReader(text), ldif.Options{File: name, MaxRecord: maxFile, AllowEmpty: true})
	for {
		rec, err := r.Read()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = f.Record(name, rec, r.Raw())
		} else if wrong := (*ldif.Error)(nil); errors.As(err, &wrong) {
			err = f.mistake(err)
		}
		if err != nil {
			return err
		}
	}
}

// Record adds the definitions in an LDIF record. text is the text of the record, in which
// Record finds the line of each value. name is the name of the file, for errors.
func (f *Files) Record(name string, rec *ldif.Record, text []byte) error {
	if f.macros == nil {
		f.macros = schema.Macros{}
	}
	c := record{files: f, name: name, lines: valueLines(text, rec.Line), read: map[string]int{}, derives: f.derives(rec.DN)}
	return c.add(rec)
}

// derives reports whether the server that wrote a subschema entry derives the matching rules
// that a type does not name. 389 Directory Server, eDirectory, OpenDJ and their relatives do so;
// their subschema is cn=schema. Active Directory's is cn=Aggregate. slapd, ApacheDS and ldapd,
// which do not derive rules, have other names for it.
func (f *Files) derives(dn string) bool {
	if f.Derive != nil {
		return *f.Derive
	}
	name := strings.ToLower(strings.ReplaceAll(dn, " ", ""))
	return name == "cn=schema" || strings.HasPrefix(name, "cn=aggregate,cn=schema,")
}

// record is an LDIF record whose definitions are being read.
type record struct {
	files *Files
	name  string
	lines map[string][]int // lines on which the values of each attribute begin; the keys are in lower case
	read  map[string]int   // number of values read so far, by attribute

	derives bool // see schema.Definition.Derive
}

func (c *record) add(rec *ldif.Record) error {
	switch change := rec.Change.(type) {
	case nil:
		return c.entry(rec.DN, rec.Attributes, rec.Line)
	case *op.Add:
		return c.entry(rec.DN, change.Attributes, rec.Line)
	case *op.Modify:
		for _, m := range change.Changes {
			if err := c.change(m, rec.Line); err != nil {
				return err
			}
		}
		return nil
	}
	return c.files.mistake(fmt.Errorf("%s:%d: a schema file adds definitions, it does not delete or rename entries", c.name, rec.Line))
}

// entry adds the definitions in an entry. Either the entry itself defines an element, as
// in ApacheDS, or the values of its attributes are definitions.
func (c *record) entry(dn string, as []op.PartialAttribute, line int) error {
	if d, is := fromMeta(as); is {
		d.Source = fmt.Sprintf("%s:%d", c.name, line)
		return c.files.mistake(c.define(d))
	}
	if c.files.Object == nil && isObject(as) {
		c.files.Object = fmt.Errorf("%s:%d: %s is how Active Directory stores a definition: export the attributeTypes and objectClasses of its entry "+
			"CN=Aggregate,CN=Schema,CN=Configuration,... instead, which have all definitions", c.name, line, dn)
	}
	// Macros are read first, because a file may use a macro before it defines the macro.
	for _, macros := range []bool{true, false} {
		for _, a := range as {
			if strings.EqualFold(a.Description, "olcObjectIdentifier") == macros {
				if err := c.values(a, line); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// isObject reports whether an entry is a definition in the form of Active Directory.
func isObject(as []op.PartialAttribute) bool {
	for _, a := range as {
		if !strings.EqualFold(a.Description, "objectClass") {
			continue
		}
		for _, v := range a.Values {
			if class := string(v); strings.EqualFold(class, "attributeSchema") || strings.EqualFold(class, "classSchema") {
				return true
			}
		}
	}
	return false
}

func (c *record) change(m op.Modification, line int) error {
	if !isElement(m.Description) {
		return nil
	}
	if m.Kind != op.ModAdd {
		return c.files.mistake(fmt.Errorf("%s:%d: a schema file adds values of %s, it does not delete or replace them", c.name, line, m.Description))
	}
	return c.values(m.PartialAttribute, line)
}

// values adds the definitions and the macros among the values of an attribute.
func (c *record) values(a op.PartialAttribute, line int) error {
	key := strings.ToLower(a.Description)
	for _, v := range a.Values {
		source := fmt.Sprintf("%s:%d", c.name, c.next(key, line))
		text := schema.WithoutOrder(string(v))
		var err error
		switch {
		case key == "olcobjectidentifier":
			err = c.macro(text, source)
		case isElement(key):
			err = c.define(schema.Definition{Attribute: a.Description, Text: text, Source: source, Derive: c.derives})
		}
		if err = c.files.mistake(err); err != nil {
			return err
		}
	}
	return nil
}

// The method "next" returns the line of the next value of an attribute.
func (c *record) next(key string, line int) int {
	i := c.read[key]
	c.read[key]++
	if i < len(c.lines[key]) {
		return c.lines[key][i]
	}
	return line
}

func (c *record) define(d schema.Definition) error {
	d, err := c.files.macros.Expand(d)
	if err != nil {
		return err
	}
	c.files.Definitions = append(c.files.Definitions, d)
	return nil
}

func (c *record) macro(text, source string) error {
	fields := strings.Fields(text)
	if len(fields) != 2 {
		return fmt.Errorf("%s: olcObjectIdentifier has a name and an OID, not %q", source, text)
	}
	if err := c.files.macros.Define(fields[0], fields[1]); err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	return nil
}

// isElement reports whether the values of an attribute are definitions.
func isElement(description string) bool {
	switch strings.TrimPrefix(strings.ToLower(description), "olc") {
	case "attributetypes", "objectclasses", "ditcontentrules", "nameforms", "ditstructurerules", "ldapsyntaxes",
		"matchingrules", "matchingruleuse":
		return true
	}
	return false
}

// valueLines returns, for each attribute, the lines of the file on which the values of the
// attribute begin. The parameter raw is the text of the record, and dn is the number of the
// line that contains the record's dn.
func valueLines(raw []byte, dn int) map[string][]int {
	lines := map[string][]int{}
	n := 0
	for line := range bytes.Lines(raw) {
		n++
		description, _, is := bytes.Cut(line, []byte{':'})
		if !is || line[0] == ' ' || line[0] == '#' {
			continue
		}
		key := string(bytes.ToLower(description))
		if key == "dn" && len(lines["dn"]) == 0 {
			dn -= n // dn is now the number of lines of the file before raw
		}
		lines[key] = append(lines[key], n)
	}
	for _, of := range lines {
		for i := range of {
			of[i] += dn
		}
	}
	return lines
}
