// Package collective finds the attributes that entries share through collective attribute
// subentries (RFC 3671).
package collective

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/wellknown"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// The OIDs of the roles of administrative points (X.501, 14.3). Inside a specific area, the
// collections of the areas around the specific area have no effect. Inside an inner area,
// the collections of the areas around the inner area stay in effect.
var (
	specificAreas = []string{"2.5.23.1", "2.5.23.5"} // autonomousArea, collectiveAttributeSpecificArea
	areaNames     = map[string]string{
		"autonomousarea":                  "2.5.23.1",
		"collectiveattributespecificarea": "2.5.23.5",
		"collectiveattributeinnerarea":    "2.5.23.6",
	}
)

// A Set contains the collections of the collective attribute subentries of one state (RFC
// 3671), sorted by the subentries' names.
type Set struct {
	at    *partition.Snapshot
	known *wellknown.Elements
	all   []*collection
	// failed is the error of a test in a filter that Rewrite returned. The test stores
	// its error here because tests of filters cannot return errors.
	failed error
}

// A collection is the set of entries that one subtree specification of a subentry
// selects, and the attributes that these entries share.
type collection struct {
	subentry   string
	seen       bool      // the requester sees the subentry
	point      []dn.Norm // the administrative point
	subtree    *schema.Subtree
	attributes []entry.Attribute
}

// Collect reads the collective attribute subentries. If HasClass reports that there are
// none, Collect returns nil without a search.
func Collect(ctx context.Context, req *request.Request) (*Set, error) {
	if has, err := search.HasClass(ctx, req.Snapshot, req.Known.CollectiveSubentry); err != nil || !has {
		return nil, err
	}
	return collect(ctx, req)
}

func collect(ctx context.Context, req *request.Request) (*Set, error) {
	c := &Set{at: req.Snapshot, known: req.Known}
	q := partition.Query{Base: entry.Root, Scope: op.WholeSubtree, Filter: req.Known.IsCollective}
	for found, err := range search.Search(ctx, req.Snapshot, q) {
		if err != nil {
			return nil, err
		}
		seen, err := req.Judge.Sees(ctx, found.Located)
		if err == nil {
			err = c.add(ctx, found, seen)
		}
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(c.all, func(a, b *collection) int { return strings.Compare(a.subentry, b.subentry) })
	return c, nil
}

// add adds a subentry. A subentry has no effect if its superior is not an administrative
// point for collective attributes (RFC 3672, 2).
func (c *Set) add(ctx context.Context, found *partition.Result, seen bool) error {
	name, err := found.Name.DN()
	if err != nil || len(name) < 2 {
		return err
	}
	roles, err := c.roles(ctx, name.Parent())
	if err != nil || len(roles) == 0 {
		return err
	}
	point, err := name.Parent().Normalize(c.known.Schema)
	if err != nil {
		return err
	}
	var shared []entry.Attribute
	for _, a := range found.Entry.Attributes {
		if a.Type.Collective {
			shared = append(shared, a)
		}
	}
	for _, v := range found.Entry.Values(c.known.SubtreeSpecification) {
		sub, err := c.known.Schema.ParseSubtree(v)
		if err != nil {
			continue // the specification names types that the schema no longer has
		}
		c.all = append(c.all, &collection{found.Name.String(), seen, point, sub, shared})
	}
	return nil
}

// roles returns the OIDs of those administrative roles of an entry that concern
// collective attributes.
func (c *Set) roles(ctx context.Context, name dn.DN) ([]string, error) {
	at, err := c.at.Find(ctx, name)
	if request.IsMissing(err) {
		return nil, nil // the name is above the naming context
	}
	if err != nil {
		return nil, err
	}
	e, err := c.at.Entry(ctx, at.ID, false)
	if err != nil {
		return nil, err
	}
	var roles []string
	for _, v := range e.Values(c.known.AdministrativeRole) {
		oid := string(v)
		if named := areaNames[strings.ToLower(oid)]; named != "" {
			oid = named
		}
		if slices.Contains(specificAreas, oid) || oid == areaNames["collectiveattributeinnerarea"] {
			roles = append(roles, oid)
		}
	}
	return roles, nil
}

// The method "of" returns the collections that an entry belongs to. The nearest specific area
// that contains the entry hides the collections of the areas around it. The function hasClass
// must report whether the entry has an object class.
func (c *Set) of(ctx context.Context, name dn.DN, hasClass func(class string) bool) ([]*collection, error) {
	if hasClass("subentry") {
		return nil, nil
	}
	norms, err := name.Normalize(c.known.Schema)
	if err != nil {
		return nil, err
	}
	var in []*collection
	for _, one := range c.all {
		if below, ok := cutPoint(norms, one.point); ok && one.subtree.Holds(below, hasClass) {
			in = append(in, one)
		}
	}
	if len(in) == 0 {
		return nil, nil
	}
	area, err := c.area(ctx, name)
	return slices.DeleteFunc(in, func(one *collection) bool { return len(one.point) < area }), err
}

// area returns the number of RDNs in the name of the nearest specific area's
// administrative point, or 0 if no specific area contains the name.
func (c *Set) area(ctx context.Context, name dn.DN) (int, error) {
	for ; len(name) > 0; name = name.Parent() {
		roles, err := c.roles(ctx, name)
		if err != nil {
			return 0, err
		}
		if slices.ContainsFunc(roles, func(oid string) bool { return slices.Contains(specificAreas, oid) }) {
			return len(name), nil
		}
	}
	return 0, nil
}

// cutPoint returns the part of a name below an administrative point, or false if the name
// is neither the point nor below it.
func cutPoint(name, point []dn.Norm) ([]dn.Norm, bool) {
	n := len(name) - len(point)
	if n < 0 || !slices.Equal(name[n:], point) {
		return nil, false
	}
	return name[:n], true
}

// excludes reports whether an entry's collectiveExclusions exclude a type.
func (c *Set) excludes(exclusions [][]byte, t *schema.AttributeType) bool {
	return slices.ContainsFunc(exclusions, func(v []byte) bool {
		name := string(v)
		return name == "2.5.18.0" || strings.EqualFold(name, "excludeAllCollectiveAttributes") || c.known.Schema.Attribute(name) == t
	})
}

// Failure returns the error of a test in a filter that Rewrite returned, or nil if no test
// failed.
func (c *Set) Failure() error {
	if c == nil {
		return nil
	}
	return c.failed
}

// Attributes returns an entry's attributes followed by the entry's collective attributes.
// Values of one type from several collections are merged. The values of
// collectiveAttributeSubentries leave out the subentries that the requester does not see.
func (c *Set) Attributes(ctx context.Context, found *partition.Result) ([]entry.Attribute, error) {
	own := found.Entry.Attributes
	name, err := found.Name.DN()
	if err != nil {
		return nil, err
	}
	in, err := c.of(ctx, name, func(class string) bool { return c.known.HasClass(found.Entry, class) })
	if err != nil || len(in) == 0 {
		return own, err
	}
	exclusions := found.Entry.Values(c.known.CollectiveExclusions)
	all := own[:len(own):len(own)]
	var names [][]byte
	for _, one := range in {
		if one.seen {
			names = append(names, []byte(one.subentry))
		}
		for _, a := range one.attributes {
			if !c.excludes(exclusions, a.Type) {
				all = combine(all, len(own), a)
			}
		}
	}
	if names == nil {
		return all, nil
	}
	return append(all, entry.Attribute{Type: c.known.CollectiveSubentries, Values: distinct(names)}), nil
}

// combine adds an attribute to the list all. If all[from:] contains an attribute of the
// same type and options, combine merges the values of both.
func combine(all []entry.Attribute, from int, a entry.Attribute) []entry.Attribute {
	for i := from; i < len(all); i++ {
		if all[i].Type == a.Type && all[i].Options == a.Options {
			values := slices.Concat(all[i].Values, a.Values)
			all[i].Values = distinct(values)
			return all
		}
	}
	return append(all, a)
}

// distinct removes duplicate values. It compares bytes.
func distinct(values [][]byte) [][]byte {
	var out [][]byte
	for _, v := range values {
		if !slices.ContainsFunc(out, func(w []byte) bool { return bytes.Equal(v, w) }) {
			out = append(out, v)
		}
	}
	return out
}

// Rewrite changes every test of a collective type. If the attributes of a collection match
// the test, the changed test is also true for the members of that collection.
func (c *Set) Rewrite(ctx context.Context, f filter.Resolved) filter.Resolved {
	if c == nil {
		return f
	}
	return filter.Map(f, func(t *filter.Test) filter.Resolved {
		shared := t.Shared()
		if shared == nil {
			return t
		}
		either := []filter.Resolved{t}
		for i, one := range c.all {
			for _, a := range one.attributes {
				e := entry.Entry{Attributes: []entry.Attribute{a}}
				if shared.Match(&filter.EntrySource{Schema: c.known.Schema, Entry: &e}) == filter.True {
					either = append(either, c.member(ctx, c.all[i], a.Type))
				}
			}
		}
		return filter.MakeOr(either...)
	})
}

// member returns a filter that is True for the members of a collection, except the members
// whose collectiveExclusions exclude the type t.
func (c *Set) member(ctx context.Context, one *collection, t *schema.AttributeType) filter.Resolved {
	types := []*schema.AttributeType{c.known.ObjectClass, c.known.CollectiveExclusions}
	return filter.Place(types, func(name dn.DN, e filter.Source) bool {
		if c.excludes(slices.Collect(e.Values(c.known.CollectiveExclusions, "")), t) {
			return false
		}
		in, err := c.of(ctx, name, func(class string) bool {
			for v := range e.Values(c.known.ObjectClass, "") {
				if c.known.IsNamed(string(v), class) {
					return true
				}
			}
			return false
		})
		if err != nil {
			c.failed = err
		}
		return slices.Contains(in, one)
	})
}
