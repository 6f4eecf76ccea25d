package onlineschema

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// maxNamed is the largest number of violating entries that an error names.
const maxNamed = 5

// judge returns an error if entries of a snapshot do not conform to a changed schema. The
// Concern determines which entries judge examines: the entries of the changed classes,
// and the entries that may have values of the changed types. If objectClass or the type
// is indexed, the index finds these entries. Otherwise judge scans all entries.
func judge(ctx context.Context, c *catalog.Concern, s *state.Snapshot) error {
	if c.Empty() {
		return nil
	}
	var names []string
	wrong, n := "", 0
	q := search.Query{Base: catalog.Root, Scope: op.WholeSubtree, Filter: filter.Resolve(concerned(c), s.Catalog.Schema), Secrets: c.Secrets}
	for r, err := range search.Search(ctx, s, q) {
		if err != nil {
			return err
		}
		text, err := violation(ctx, c, s, r)
		if err != nil {
			return err
		}
		if text == "" {
			continue
		}
		if n++; n == 1 {
			wrong = text
		}
		if n <= maxNamed {
			names = append(names, r.Name.String())
		}
	}
	if n == 0 {
		return nil
	}
	of := "Entry in the way"
	if n > maxNamed {
		of = fmt.Sprintf("Entries in the way, of %d in all", n)
	} else if n > 1 {
		of = "Entries in the way"
	}
	return catalog.Errorf(catalog.Unwilling, "entries of the directory violate this: %s. %s: %s", wrong, of, strings.Join(names, "; "))
}

// concerned returns a filter that matches all entries that could violate the change. It
// may match other entries too.
func concerned(c *catalog.Concern) filter.Filter {
	var all filter.Or
	for _, k := range c.Classes {
		all = append(all, ofClass(k))
	}
	for k := range c.Gone {
		all = append(all, ofClass(k))
	}
	// Types that the same classes allow are searched together.
	together := map[string]filter.Or{}
	classes := map[string]filter.Or{}
	for _, t := range slices.AppendSeq(slices.Collect(maps.Keys(c.Fixed)), maps.Keys(c.Single)) {
		in, key := havers(c, t)
		classes[key] = in
		together[key] = append(together[key], presence(t))
	}
	for key, in := range classes {
		if key == "" {
			all = append(all, together[key]...)
			continue
		}
		all = append(all, filter.And{in, together[key]})
	}
	return all
}

func ofClass(c *schema.ObjectClass) filter.Filter {
	return filter.EqualTo("objectClass", c.OID)
}

// presence returns a test for values of a type. For a secret type there is no such test,
// and presence returns a filter that matches every entry.
func presence(t *schema.AttributeType) filter.Filter {
	if t.Secret() {
		return filter.And{}
	}
	return &filter.Present{Attribute: t.OID}
}

// havers returns a filter for entries of the classes that allow a type, and a key that
// identifies this set of classes. If any entry may have the type, the filter is nil and the
// key is empty.
func havers(c *catalog.Concern, t *schema.AttributeType) (in filter.Or, key string) {
	if t.Operational() {
		return nil, ""
	}
	add := func(k *schema.ObjectClass) {
		in = append(in, ofClass(k))
		key += k.OID + " "
	}
	add(c.Old.ExtensibleObject)
	for _, k := range c.Old.Schema.Classes() {
		if slices.Contains(k.Must, t) || slices.Contains(k.May, t) {
			add(k)
		}
	}
	for _, r := range c.Old.Schema.ContentRules() {
		if r.Allows(t) {
			add(r.Class)
		}
	}
	return in, key
}

// violation describes how an entry violates the change. It returns "" if the entry does
// not violate the change.
func violation(ctx context.Context, c *catalog.Concern, s *state.Snapshot, r *search.Result) (string, error) {
	for i := range r.Entry.Attributes {
		a := &r.Entry.Attributes[i]
		if why := c.Fixed[a.Type]; why != "" {
			return why, nil
		}
		if why := c.Single[a.Type]; why != "" && len(a.Values) > 1 {
			return why, nil
		}
	}
	checked, values := false, r.Entry.Values(c.Old.ObjectClass)
	for _, v := range values {
		k := c.Old.Schema.Class(string(v))
		if k == nil {
			continue
		}
		if why := c.Gone[k]; why != "" {
			return why, nil
		}
		checked = checked || slices.Contains(c.Classes, k)
	}
	if !checked {
		return "", nil
	}
	return asText(conforms(ctx, c, s, r, values))
}

// asText returns the text of an *Error. It returns any other error unchanged.
func asText(err error) (string, error) {
	if p, ok := err.(*catalog.Error); ok {
		return p.Text, nil
	}
	return "", err
}

// conforms returns an error if an entry does not conform to the new schema.
func conforms(ctx context.Context, c *catalog.Concern, s *state.Snapshot, r *search.Result, values [][]byte) error {
	cs, err := c.New.ClassesOf(values)
	if err != nil {
		return err
	}
	if err := sameClasses(c, r.Entry, cs, values); err != nil {
		return err
	}
	var has []*schema.AttributeType
	for i := range r.Entry.Attributes {
		if t := c.New.Schema.Attribute(r.Entry.Attributes[i].Type.OID); t != nil {
			has = append(has, t)
		}
	}
	if err := cs.Conform(has); err != nil {
		return err
	}
	return governed(ctx, c, s, r, cs)
}

// sameClasses checks that an entry's objectClass names all superclasses and that its
// structural class stays the same. The entry stores the superclasses and the structural class,
// so a change of the schema must not make the stored values wrong.
func sameClasses(c *catalog.Concern, e *entry.Entry, cs *catalog.Classes, values [][]byte) error {
	oc := c.New.ObjectClass
	for _, k := range cs.All {
		key, err := catalog.KeyOf(oc, []byte(k.Name()))
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(values, func(v []byte) bool {
			held, err := catalog.KeyOf(oc, v)
			return err == nil && bytes.Equal(held, key)
		}) {
			return catalog.Errorf(catalog.ClassViolation, "they do not have the object class %s, which becomes a superclass of one of theirs", k.Name())
		}
	}
	for _, v := range e.Values(c.Old.StructuralObjectClass) {
		if c.New.Schema.Class(string(v)) != cs.Structural {
			return catalog.Errorf(catalog.ClassViolation, "their structural object class would become %s", cs.Structural.Name())
		}
	}
	return nil
}

// governed checks an entry and the entries below it against the name forms and DIT structure
// rules. See write.Governor.Below.
func governed(ctx context.Context, c *catalog.Concern, s *state.Snapshot, r *search.Result, cs *catalog.Classes) error {
	if len(c.New.Schema.NameForms()) == 0 {
		return nil
	}
	name, err := r.Name.DN()
	if err != nil {
		return err
	}
	g := write.Governor{Snapshot: s, Types: c.New}
	rule, err := g.Govern(ctx, cs, name[0], r.Parent)
	if err != nil {
		return err
	}
	return g.Below(ctx, r.ID, rule)
}
