package apply

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// entries adds the entries that are missing, and changes the values of those that differ.
func (x *applier) entries(ctx context.Context, f *file) error {
	defer context.AfterFunc(ctx, func() { x.conn.Close() })()
	for _, r := range f.Entries {
		name, err := dn.Parse(r.DN)
		if err != nil {
			return err
		}
		have, err := x.conn.Search(ldap.NewSearchRequest(r.DN, ldap.ScopeBaseObject, ldap.NeverDerefAliases, 0, 0, false, "(objectClass=*)", []string{"*", "+"}, nil))
		switch {
		case ldap.IsErrorWithCode(err, ldap.LDAPResultNoSuchObject):
			x.new[x.normal(name)] = true
			err = x.add(r)
		case err == nil && len(have.Entries) == 1:
			err = x.change(r, have.Entries[0])
		}
		if err != nil {
			return fmt.Errorf("%s: entry %s: %w", x.File, r.DN, err)
		}
	}
	return nil
}

func (x *applier) add(r record) error {
	request := ldap.NewAddRequest(r.DN, nil)
	var lines []string
	for _, a := range r.Attributes {
		t, err := x.described(a.Name)
		if err != nil {
			return err
		}
		if len(a.Values) == 0 {
			continue
		}
		request.Attribute(a.Name, a.Values)
		for _, v := range a.Values {
			lines = append(lines, "\n  + "+a.Name+": "+shown(t, v))
		}
	}
	make, err := x.say("entry", r.DN, "add"+strings.Join(lines, ""))
	if err != nil || !make {
		return err
	}
	return x.conn.Add(request)
}

// described returns the type of an attribute description.
func (x *applier) described(description string) (*schema.AttributeType, error) {
	name, _, _ := strings.Cut(description, ";")
	return x.attribute(name)
}

// shown returns a value for people: not if it is secret.
func shown(t *schema.AttributeType, value string) string {
	if t.Secret() {
		return "(not shown)"
	}
	return value
}

func (x *applier) change(r record, have *ldap.Entry) error {
	request := ldap.NewModifyRequest(r.DN, nil)
	var lines []string
	for _, a := range r.Attributes {
		t, err := x.described(a.Name)
		if err != nil {
			return err
		}
		if t.Secret() {
			continue // not compared
		}
		old := have.GetEqualFoldAttributeValues(a.Name)
		added, removed := missing(t, a.Values, old), missing(t, old, a.Values)
		if t.Name() == "objectClass" {
			removed = nil // superclasses are there without being listed
		}
		for _, v := range removed {
			lines = append(lines, "\n  - "+a.Name+": "+v)
		}
		for _, v := range added {
			lines = append(lines, "\n  + "+a.Name+": "+v)
		}
		switch {
		case len(added)+len(removed) == 0:
		case t.Equality == nil || t.SingleValue:
			request.Replace(a.Name, a.Values) // values cannot be named one by one
		default:
			if len(removed) > 0 {
				request.Delete(a.Name, removed)
			}
			if len(added) > 0 {
				request.Add(a.Name, added)
			}
		}
	}
	if len(request.Changes) == 0 {
		return nil
	}
	make, err := x.say("entry", r.DN, "change"+strings.Join(lines, ""))
	if err != nil || !make {
		return err
	}
	return x.conn.Modify(request)
}

// missing returns the values that the list have lacks, by the equality rule of their type.
func missing(t *schema.AttributeType, values, have []string) (lacked []string) {
	for _, v := range values {
		if !slices.ContainsFunc(have, func(h string) bool { return same(t, v, h) }) {
			lacked = append(lacked, v)
		}
	}
	return lacked
}

func same(t *schema.AttributeType, a, b string) bool {
	if a == b || t.Equality == nil {
		return a == b
	}
	x, err := t.Equality.Key([]byte(a))
	if err != nil {
		return false
	}
	y, err := t.Equality.Key([]byte(b))
	return err == nil && bytes.Equal(x, y)
}
