package foreign

import (
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/tools/aclimport/aci"
	"github.com/seed-4dac0d86/ldapd/tools/aclimport/draft"
	"github.com/seed-4dac0d86/ldapd/tools/aclimport/olc"
)

// A View reports what the originals allow an identity to do with an entry.
type View interface {
	Entry(right acl.Rights) bool
	Value(t *schema.AttributeType, options string, value []byte, right acl.Rights) bool
}

// A Judge is an evaluator of originals.
type Judge interface {
	At(id *acl.Identity, e *acl.Entry) View
}

type aciJudge struct{ *aci.Evaluator }

func (j aciJudge) At(id *acl.Identity, e *acl.Entry) View { return aciView{j.Evaluator.At(id, e)} }

// An aciView is a View by aci. Everybody may bind, because aci do not restrict binding.
type aciView struct{ *aci.View }

func (v aciView) Entry(right acl.Rights) bool { return right == acl.Bind || v.View.Entry(right) }

// judge returns the evaluator of the originals. It leaves out each aci that is not
// translated.
func (im *Import) judge(d *directory) Judge {
	ev := &aci.Evaluator{Options: &aci.Options{Schema: im.Schema, Dialect: im.dialect, Zone: im.Zone}, Find: d.find}
	for _, x := range im.Originals {
		if x.aci != nil && x.Class != draft.Not {
			ev.Values = append(ev.Values, aci.Placed{Place: x.dn, ACI: x.aci})
		}
	}
	if len(im.databases) == 0 {
		return aciJudge{ev}
	}
	j := &olcJudge{im: im, of: map[*database]*olc.Evaluator{nil: {Schema: im.Schema, Entry: d.byDN}}}
	for _, db := range im.databases {
		e := &olc.Evaluator{Schema: im.Schema, Entry: d.byDN}
		for _, x := range im.all(db) {
			e.Directives = append(e.Directives, x.olc)
		}
		j.of[db] = e
	}
	return j
}

// An olcJudge decides about an entry by the directives of the database that the entry is
// in. If the entry is in no database, there are no directives for it, so nothing is
// allowed.
type olcJudge struct {
	im *Import
	of map[*database]*olc.Evaluator
}

func (j *olcJudge) At(id *acl.Identity, e *acl.Entry) View {
	return j.of[j.im.databaseOf(e.Name)].At(id, e)
}

// databaseOf returns the database whose suffix is the longest suffix of a name. If no
// database has a matching suffix, it returns a database without suffixes. It returns the
// frontend only if there is no other such database, and nil if there is none at all.
func (im *Import) databaseOf(name dn.DN) (found *database) {
	best := -1
	for _, db := range im.databases {
		if db.own {
			continue
		}
		if len(db.suffixes) == 0 && best < 0 && (found == nil || found.frontend) {
			found = db
		}
		for _, s := range db.suffixes {
			if len(s) > best && draft.Within(im.Schema, name, s) {
				found, best = db, len(s)
			}
		}
	}
	return found
}

// A Difference is a right that an identity has only by the originals or only by the drafts.
type Difference struct {
	Who, Entry  dn.DN
	Description string // "": the right is on the entry
	Value       []byte
	Right       acl.Rights
	More        bool // true: only the drafts allow the right; false: only the originals
}

func (d Difference) String() string {
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

// A Comparison compares what originals and drafts allow.
type Comparison struct {
	Judge Judge
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
	Found []Difference
}

// entryRights are the rights on entries that exist both in the originals and in rules.
var entryRights = []acl.Rights{acl.See, acl.Add, acl.Delete, acl.Rename, acl.Proxy, acl.Bind}

// Compare compares the rights of an identity on an entry and on values of its attributes.
func (c *Comparison) Compare(id *acl.Identity, e *acl.Entry) error {
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
		c.note(Difference{Who: id.Name, Entry: e.Name, Right: r}, old.Entry(r), d.Entry(r), r == acl.Rename)
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

func (c *Comparison) value(id *acl.Identity, e *acl.Entry, old View, d *acl.Decision, t *schema.AttributeType, options string, v []byte) {
	a := entry.Attribute{Type: t, Options: options}
	seen := d.Entry(acl.See)
	for _, r := range acl.AttributeRights.Each() {
		x := Difference{Who: id.Name, Entry: e.Name, Right: r, Description: a.Description(), Value: v}
		c.note(x, old.Value(t, options, v, r), seen && d.Value(t, options, v, r), acl.Reserved(t) && !c.Reserved)
	}
}

// note counts a question. It adds x if the originals and the drafts answer the question
// differently. If lenient is set, it adds x only if the drafts allow the right and the
// originals do not.
func (c *Comparison) note(x Difference, old, drafts, lenient bool) {
	c.Asked++
	if old == drafts || lenient && old {
		return
	}
	x.More = drafts
	c.Found = append(c.Found, x)
}

// entry returns the item as an acl.Entry, about which rules can decide.
func (d *directory) entry(x Item) *acl.Entry {
	return &acl.Entry{Name: x.Name, Entry: x.Entry, Source: &filter.EntrySource{Schema: d.schema, Entry: x.Entry, Name: x.Name}, Others: &others{d, x.Name}}
}

// byDN returns the entry with the given name as an acl.Entry, or nil if there is none.
func (d *directory) byDN(name dn.DN) *acl.Entry {
	e := d.find(name)
	if e == nil {
		return nil
	}
	return d.entry(Item{name, e})
}

// others answers questions about the parent and the groups of an entry. name is the name
// of this entry.
type others struct {
	*directory
	name dn.DN
}

// Parent implements acl.Others.
func (o *others) Parent() *entry.Entry { return o.find(o.name.Parent()) }

// InGroup implements acl.Others.
func (o *others) InGroup(group dn.DN, nested bool) bool {
	in := o.above[o.key(o.name)]
	if nested {
		in = o.groups(o.name)
	}
	return len(in) > 0 && (group == nil || slices.ContainsFunc(in, func(g dn.DN) bool { return draft.Same(o.schema, g, group) }))
}
