package ldif

import (
	"strings"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// change parses controls and the change that follows them (RFC 2849, change-record).
func (p *parser) change(rec *Record) error {
	for p.is("control") {
		c, err := p.control()
		if err != nil {
			return err
		}
		rec.Controls = append(rec.Controls, c)
		if err := p.advance(); err != nil {
			return err
		}
	}
	if !p.is("changetype") {
		return p.fail("expected \"changetype:\" after the controls")
	}
	kind, err := p.word()
	if err != nil {
		return err
	}
	if err := p.advance(); err != nil {
		return err
	}
	switch strings.TrimPrefix(strings.ToLower(kind), "ntdsschema") { // as in schema files of Active Directory
	case "add":
		attributes, err := p.entry()
		rec.Change = &op.Add{Name: rec.DN, Attributes: attributes}
		return err
	case "delete":
		rec.Change = &op.Delete{Name: rec.DN}
		return p.atEnd("a delete")
	case "modify":
		changes, err := p.modifications()
		rec.Change = &op.Modify{Name: rec.DN, Changes: changes}
		return err
	case "modrdn", "moddn":
		rec.Change, err = p.modifyDN(rec.DN)
		return err
	}
	return p.fail("the changetype %q is none of add, delete, modify, modrdn, moddn", kind)
}

// word returns the line's value as a string, without trailing spaces.
func (p *parser) word() (string, error) {
	v, err := p.take()
	return strings.TrimRight(string(v), " "), err
}

func (p *parser) atEnd(what string) error {
	if p.audited && p.is("modifiersname") { // says who did it
		if err := p.advance(); err != nil {
			return err
		}
	}
	if p.name == nil {
		return nil
	}
	return p.fail("%s has no more lines, but %q follows; is a blank line missing?", what, p.name)
}

// control parses "control: OID [true|false] [: value]". The value may have any form
// that an attribute value may have.
func (p *parser) control() (op.Control, error) {
	head, value, hasValue := strings.Cut(string(p.value), ":")
	oid, criticality, _ := strings.Cut(strings.TrimSpace(head), " ")
	c := op.Control{OID: oid}
	switch strings.ToLower(strings.TrimSpace(criticality)) {
	case "true":
		c.Critical = true
	case "", "false":
	default:
		return c, p.fail("the criticality %q of a control is neither true nor false", criticality)
	}
	if p.kind != 0 || oid == "" {
		return c, p.fail("expected \"control: OID [true|false] [: value]\"")
	}
	if !hasValue {
		return c, nil
	}
	if value != "" && (value[0] == ':' || value[0] == '<') {
		p.kind, value = value[0], value[1:]
	}
	p.value = []byte(strings.TrimLeft(value, " "))
	var err error
	c.Value, err = p.take()
	return c, err
}

var modKinds = map[string]op.ModKind{
	"add": op.ModAdd, "delete": op.ModDelete, "replace": op.ModReplace, "increment": op.ModIncrement,
}

// modifications parses a sequence of modifications, which may be empty. Each consists
// of "kind: attribute", lines with that attribute, and "-".
func (p *parser) modifications() ([]op.Modification, error) {
	var changes []op.Modification
	for p.name != nil {
		kind, ok := modKinds[strings.ToLower(string(p.name))]
		if !ok {
			return nil, p.fail("expected add:, delete:, replace: or increment: of a modify, found %q; is a \"-\" missing before it?", p.name)
		}
		d, err := p.word()
		if err == nil {
			d, err = p.r.intern(p, []byte(d))
		}
		if err == nil {
			err = p.advance()
		}
		if err != nil {
			return nil, err
		}
		m := op.Modification{Kind: kind, PartialAttribute: op.PartialAttribute{Description: d}}
		if m.Values, err = p.values(d); err != nil {
			return nil, err
		}
		changes = append(changes, m)
	}
	return changes, nil
}

// values parses the lines of one attribute and the "-" after them.
func (p *parser) values(description string) ([][]byte, error) {
	var values [][]byte
	for p.name != nil && string(p.name) != "-" {
		if !p.is(description) {
			return nil, p.fail("expected a value of %s or a line \"-\", found %q", description, p.name)
		}
		v, err := p.take()
		if err != nil {
			return nil, err
		}
		values = append(values, v)
		if err := p.advance(); err != nil {
			return nil, err
		}
	}
	if p.name == nil {
		return values, nil
	}
	return values, p.advance()
}

// modifyDN parses newrdn, deleteoldrdn and the optional newsuperior.
func (p *parser) modifyDN(name string) (*op.ModifyDN, error) {
	m := &op.ModifyDN{Name: name}
	var err error
	if m.NewRDN, err = p.expect("newrdn"); err != nil {
		return nil, err
	}
	switch v, err := p.expect("deleteoldrdn"); {
	case err != nil:
		return nil, err
	case v != "0" && v != "1":
		return nil, p.fail("deleteoldrdn is %q, but must be 0 or 1", v)
	default:
		m.DeleteOldRDN = v == "1"
	}
	if p.is("newsuperior") {
		superior, err := p.expect("newsuperior")
		if err != nil {
			return nil, err
		}
		m.NewSuperior = &superior
	}
	return m, p.atEnd("a moddn")
}

// expect parses a line and returns the line's value. It returns an error if the line does not
// have the given name.
func (p *parser) expect(name string) (string, error) {
	if !p.is(name) {
		return "", p.fail("expected \"%s:\" of a moddn", name)
	}
	v, err := p.word()
	if err != nil {
		return "", err
	}
	return v, p.advance()
}
