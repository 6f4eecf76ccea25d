package foreign

import (
	"fmt"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A judge evaluates originals.
type judge interface {
	At(id *acl.Identity, e *acl.Entry) view
}

// A view reports what the originals allow an identity to do with an entry.
type view interface {
	Entry(right acl.Rights) bool
	Value(t *schema.AttributeType, options string, value []byte, right acl.Rights) bool
}

// A difference is a right that an identity has only by the originals or only by the drafts.
type difference struct {
	Who, Entry  dn.DN
	Description string // "": the right is on the entry
	Value       []byte
	Right       acl.Rights
	More        bool // true: only the drafts allow the right; false: only the originals
}

func (d difference) String() string {
	who, what, only := "the anonymous", "", "only the original allows it"
	if len(d.Who) > 0 {
		who = d.Who.String()
	}
	if d.More {
		only = "only the rules allow it"
	}
	if d.Description != "" {
		what = " " + d.Description
		if d.Value != nil {
			what += fmt.Sprintf(" %q", d.Value)
		}
	}
	return fmt.Sprintf("%s: %s%s of %s: %s", who, d.Right, what, d.Entry, only)
}

// A comparison compares what originals and drafts allow.
type comparison struct {
	Judge judge
	Set   *acl.Set
	// Reserved means that reserved attributes are compared like others. If Reserved is not
	// set, a right on a reserved attribute is a difference only if the drafts allow it and
	// the originals do not.
	Reserved bool
	// Values returns values of a type to ask about, besides the values that occur in the
	// entries.
	Values func(*schema.AttributeType) [][]byte
	// Types are attribute types to ask about, besides the types that occur in the entries.
	Types []*schema.AttributeType

	Asked int
	Found []difference
}

// entryRights are the rights on entries that exist both in the originals and in rules.
var entryRights = []acl.Rights{acl.See, acl.Add, acl.Delete, acl.Rename, acl.Proxy, acl.Bind}

// Compare compares the rights of an identity on an entry and on values of its attributes.
func (c *comparison) Compare(id *acl.Identity, e *acl.Entry) error {
	p, err := c.Set.Program(id)
	if err != nil {
		return err
	}
	z, err := p.Zone(e.Name.Parent())
	if err != nil {
		return err
	}
	d, old := z.Decide(e), c.Judge.At(id, e)
	for _, r := range entryRights {
		// By the originals, an identity that may write the naming attribute may rename the
		// entry. In rules, rename is a separate right. Drafts grant it only together with the
		// right to write every attribute.
		c.note(difference{Who: id.Name, Entry: e.Name, Right: r}, old.Entry(r), d.Entry(r), r == acl.Rename)
	}
	for _, a := range e.Entry.Attributes {
		for _, v := range a.Values {
			c.value(id, e, old, d, a.Type, a.Options, v)
		}
	}
	for _, t := range c.Types {
		for _, v := range c.Values(t) {
			c.value(id, e, old, d, t, "", v)
		}
	}
	return nil
}

func (c *comparison) value(id *acl.Identity, e *acl.Entry, old view, d *acl.Decision, t *schema.AttributeType, options string, v []byte) {
	a := entry.Attribute{Type: t, Options: options}
	seen := d.Entry(acl.See)
	for _, r := range acl.AttributeRights.Each() {
		x := difference{Who: id.Name, Entry: e.Name, Right: r, Description: a.Description(), Value: v}
		c.note(x, old.Value(t, options, v, r), seen && d.Value(t, options, v, r), acl.Reserved(t) && !c.Reserved)
	}
}

// note counts a question. It adds x if the originals and the drafts answer the question
// differently. If lenient is set, it adds x only if the drafts allow the right and the
// originals do not.
func (c *comparison) note(x difference, old, drafts, lenient bool) {
	c.Asked++
	if old == drafts || lenient && old {
		return
	}
	x.More = drafts
	c.Found = append(c.Found, x)
}
