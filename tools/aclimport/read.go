package foreign

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/tools/aclimport/aci"
	"github.com/seed-4dac0d86/ldapd/tools/aclimport/draft"
	"github.com/seed-4dac0d86/ldapd/tools/aclimport/olc"
)

// Read adds the originals in an LDIF file or a slapd.conf to the import. If the file contains
// changes, Read takes the access control that they add, and leaves out what they delete or
// replace. Read fails if a file has changes of entries, and none of them is about access control.
func (im *Import) Read(file string, in io.Reader) error {
	text := bufio.NewReaderSize(ldif.UTF8(in), 64<<10)
	if isConf(text) {
		return im.readConf(file, text)
	}
	return im.readLDIF(file, text)
}

// isConf reports whether a text is a slapd.conf and not LDIF. It examines the first line
// that is neither empty nor a comment: in a slapd.conf, the first word of this line
// contains no colon. The head of an audit log of 389 Directory Server begins with a tab.
func isConf(in *bufio.Reader) bool {
	begin, _ := in.Peek(64 << 10)
	for line := range bytes.Lines(begin) {
		indented := line[0] == '\t'
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		if indented {
			return false
		}
		word, _, _ := bytes.Cut(line, []byte(" "))
		word, _, _ = bytes.Cut(word, []byte("\t"))
		return !bytes.Contains(word, []byte(":"))
	}
	return false
}

// readLDIF reads an LDIF file.
func (im *Import) readLDIF(file string, in io.Reader) error {
	r := ldif.NewReader(in, ldif.Options{File: file, AllowEmpty: true})
	var useless *ldif.Record // the first change that is not about access control
	useful := false
	for {
		rec, err := r.Read()
		if errors.Is(err, io.EOF) {
			if useless != nil && !useful {
				return fmt.Errorf("%s:%d: %q: the file has changes, and none of them is about access control", file, useless.Line, useless.DN)
			}
			return nil
		}
		if err != nil {
			return err
		}
		name, err := dn.Parse(rec.DN)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", file, rec.Line, err)
		}
		attributes := rec.Attributes
		switch c := rec.Change.(type) {
		case nil:
		case *op.Add:
			attributes = c.Attributes
		default:
			if m, ok := c.(*op.Modify); ok && im.modify(file, rec, name, m, r.Raw()) {
				useful = true
			} else if useless == nil {
				useless = rec
			}
			continue
		}
		im.values(file, rec, name, attributes, r.Raw())
		im.olcAccess(file, rec, name, attributes, r.Raw())
	}
}

// modify reads the changes of an entry, and reports whether one of them is about access control.
func (im *Import) modify(file string, rec *ldif.Record, name dn.DN, m *op.Modify, raw []byte) (useful bool) {
	var added []op.PartialAttribute
	for _, c := range m.Changes {
		kind := strings.ToLower(c.Description)
		if !slices.Contains(originals, kind) {
			continue
		}
		useful = true
		if c.Kind != op.ModAdd {
			im.forget(name, kind, c)
		}
		if c.Kind != op.ModDelete {
			added = append(added, c.PartialAttribute)
		}
	}
	im.values(file, rec, name, added, raw)
	im.olcAccess(file, rec, name, added, raw)
	return useful
}

// originals are the attributes with access control, in lower case.
var originals = []string{"aci", "ds-cfg-global-aci", "prescriptiveaci", "entryaci", "subentryaci", "olcaccess"}

// forget removes the originals of an entry that a change deletes or replaces.
func (im *Import) forget(name dn.DN, kind string, c op.Modification) {
	gone := func(x *Original) bool {
		at, olc := x.entry, x.db != nil
		return draft.Same(im.Schema, at, name) && olc == (kind == "olcaccess") && (c.Kind == op.ModReplace || len(c.Values) == 0 ||
			slices.ContainsFunc(c.Values, func(v []byte) bool { return string(v) == x.Text }))
	}
	im.Originals = slices.DeleteFunc(im.Originals, gone)
	for _, db := range im.databases {
		db.directives = slices.DeleteFunc(db.directives, gone)
	}
}

// values adds those values of an entry that are originals.
func (im *Import) values(file string, rec *ldif.Record, name dn.DN, attributes []op.PartialAttribute, raw []byte) {
	for _, a := range attributes {
		at := name
		switch strings.ToLower(a.Description) {
		case "aci":
		case "ds-cfg-global-aci":
			at = nil
		case "prescriptiveaci", "entryaci", "subentryaci":
		default:
			continue
		}
		lines := linesOf(raw, a.Description)
		for i, v := range a.Values {
			x := &Original{File: file, Line: rec.Line, Text: string(v), dn: at, entry: name}
			if i < len(lines) {
				x.Line += lines[i]
			}
			im.Originals = append(im.Originals, x)
			if strings.ToLower(a.Description) != "aci" && at != nil {
				x.Note(draft.Not, "%s of X.501 is not translated: write rules that say the same", a.Description)
				continue
			}
			var err error
			if x.aci, err = aci.Parse(x.Text); err != nil {
				x.Note(draft.Not, "%v", err)
			} else if len(name) == 0 {
				x.aci = nil
				x.Note(draft.Not, "it is about the root DSE")
			}
		}
	}
}

// olcAccess adds the values of olcAccess of an entry, in the order of their numbers. If the
// entry has been read before, a value takes its place before those with the same number.
func (im *Import) olcAccess(file string, rec *ldif.Record, name dn.DN, attributes []op.PartialAttribute, raw []byte) {
	db := &database{}
	i := slices.IndexFunc(im.databases, func(db *database) bool { return draft.Same(im.Schema, db.name, name) })
	if i >= 0 {
		db = im.databases[i]
	}
	var added []*Original
	for _, a := range attributes {
		switch strings.ToLower(a.Description) {
		case "olcaccess":
			lines := linesOf(raw, a.Description)
			for i, v := range a.Values {
				x := &Original{File: file, Line: rec.Line, Text: string(v), db: db, entry: name}
				if i < len(lines) {
					x.Line += lines[i]
				}
				added = append(added, x)
			}
		case "olcsuffix":
			for _, v := range a.Values {
				if d, err := dn.Parse(string(v)); err == nil {
					db.suffixes = append(db.suffixes, d)
				}
			}
		}
	}
	if len(added) == 0 {
		return
	}
	db.directives = append(added, db.directives...)
	slices.SortStableFunc(db.directives, func(a, b *Original) int { return number(a.Text) - number(b.Text) })
	db.name = name
	im.add(db, added)
	rdn := strings.ToLower(name.String())
	db.frontend = strings.Contains(rdn, "frontend,")
	db.own = strings.Contains(rdn, "}config,") || strings.Contains(rdn, "}monitor,")
}

// add parses directives of a database and adds them and the database to the import.
func (im *Import) add(db *database, directives []*Original) {
	if !slices.Contains(im.databases, db) {
		im.databases = append(im.databases, db)
	}
	im.Originals = append(im.Originals, directives...)
	for _, x := range directives {
		var err error
		if x.olc, err = olc.Parse(x.Text); err != nil {
			x.Note(draft.Not, "%v; slapd would not start", err)
			x.More = true
		}
	}
}

// number returns the number in braces with which a value of olcAccess begins. If there is
// none, it returns a large number.
func number(text string) int {
	if inside, _, ok := strings.Cut(strings.TrimPrefix(text, "{"), "}"); ok {
		if n, err := strconv.Atoi(inside); err == nil {
			return n
		}
	}
	return 1 << 30
}

// linesOf returns the numbers of those lines of a record in which a value of the
// attribute begins. Lines are counted from the line with the record's DN.
func linesOf(raw []byte, description string) (lines []int) {
	first := -1
	for n, line := range bytes.Split(raw, []byte("\n")) {
		head, _, _ := bytes.Cut(line, []byte(":"))
		if first < 0 && bytes.EqualFold(head, []byte("dn")) {
			first = n
		}
		if first >= 0 && bytes.EqualFold(head, []byte(description)) {
			lines = append(lines, n-first)
		}
	}
	return lines
}
