// Package membership finds the groups that entries are in, and the members of groups. The
// values of memberOf are the groups that name an entry as a member, and the dynamic groups
// with a URL that the entry matches. The values of isMemberOf are these groups, the groups
// that name one of these groups, and so on. The values of both attributes are computed from
// the groups of the state that is read, and are not stored. A requester is shown only
// memberships that they may learn of. The requester must see each group that leads to a
// value of memberOf or isMemberOf. The requester also needs a right, such as Show or
// Compare, on the group's value that names the member, or on the group's URL.
package membership

import (
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// MaxGroups is the largest number of groups that are followed for one entry, and the largest
// number of members that Found returns. Tests set a smaller number.
var MaxGroups = 10000

// Is reports whether a type is memberOf or isMemberOf. The result nested reports whether the
// type is isMemberOf, for which nested groups count.
func Is(req *request.Request, t *schema.AttributeType) (is, nested bool) {
	switch t {
	case nil:
	case req.Known.MemberOf:
		return true, false
	case req.Known.IsMemberOf:
		return true, true
	}
	return false, false
}

// Of returns the names of the groups that an entry is in. It leaves out the groups that
// the requester may not learn of. The argument known, which may be nil, remembers names for
// further calls.
func Of(ctx context.Context, req *request.Request, name *dn.Name, nested bool, right acl.Rights, known *search.Names) (values [][]byte, err error) {
	w := &walk{req: req, right: right, known: known}
	names, size := make([]string, 0, 64), 0
	err = w.up(ctx, name, nested, func(g partition.Located) bool {
		names = append(names, g.Name.String())
		size += len(names[len(names)-1])
		return true
	})
	if len(names) == 0 {
		return nil, err
	}
	slices.Sort(names)
	text := make([]byte, 0, size) // of all values: one allocation
	values = make([][]byte, len(names))
	for i, name := range names {
		from := len(text)
		text = append(text, name...)
		values[i] = text[from:len(text):len(text)]
	}
	return values, err
}

// Ahead reads together what calls of Of need for each of the names, and remembers it in known.
func Ahead(ctx context.Context, req *request.Request, names []*dn.Name, known *search.Names) error {
	return search.Ahead(ctx, req.Snapshot, names, req.Known.Members, known)
}

// A walk follows groups up from members, or down from groups.
type walk struct {
	req    *request.Request
	right  acl.Rights
	cost   partition.Cost
	known  *search.Names     // may be nil
	seen   map[entry.ID]bool // groups on the way up
	tested int               // how many entries were tested for being direct members of a group
}

// The method "up" yields the groups that an entry is in, each group once and the nearest first.
func (w *walk) up(ctx context.Context, name *dn.Name, nested bool, yield func(partition.Located) bool) error {
	dynamic, err := w.matching(ctx, name.String())
	if err != nil {
		return err
	}
	if nested || len(dynamic) > 0 { // otherwise, no group can occur twice
		w.seen = map[entry.ID]bool{}
	}
	count := 0
	for next := []*dn.Name{name}; len(next) > 0; {
		groups, err := w.naming(ctx, next)
		if err != nil {
			return err
		}
		groups, dynamic, next = append(groups, dynamic...), nil, nil
		for _, g := range groups {
			if w.seen[g.ID] {
				continue
			}
			if w.seen != nil {
				w.seen[g.ID] = true
			}
			if count++; count > MaxGroups {
				return op.Errorf(op.AdminLimitExceeded, "%s is in more than %d groups", name, MaxGroups)
			}
			if !yield(g) {
				return nil
			}
			if nested {
				next = append(next, g.Name)
			}
		}
	}
	return nil
}

// maxNames is the largest number of members that are looked up together.
const maxNames = 256

// naming returns the groups that name at least one of the given members. It leaves out the
// groups in w.seen. On HBase, naming takes three round trips for each maxNames members: one
// for each of the two types in Known.Members, and one for the groups that are not in memory.
// If access rules have to decide about the groups, a fourth round trip reads the entries of
// the groups.
func (w *walk) naming(ctx context.Context, members []*dn.Name) (groups []partition.Located, err error) {
	for some := range slices.Chunk(members, maxNames) {
		found, err := search.Referrers(ctx, w.req.Snapshot, some, w.req.Known.Members, w.left(), &w.cost, w.known)
		if err != nil {
			return nil, err
		}
		found = slices.DeleteFunc(found, func(r search.Referrer) bool { return w.seen[r.ID] })
		if w.req.Judge.ReadsAll() && w.req.Limits.Candidates == 0 {
			groups = appendLocated(groups, found)
		} else if groups, err = w.allowed(ctx, found, some, groups); err != nil {
			return nil, err
		}
	}
	return groups, nil
}

// appendLocated appends the groups in found, each group once. It does not set the field
// Parent.
func appendLocated(groups []partition.Located, found []search.Referrer) []partition.Located {
	groups = slices.Grow(groups, len(found))
	for i := range found {
		if i == 0 || found[i].ID != found[i-1].ID {
			groups = append(groups, partition.Located{ID: found[i].ID, Name: found[i].Name})
		}
	}
	return groups
}

// allowed appends those groups in found that the requester may learn of: see allows. Each
// group in found counts as a candidate of the search.
func (w *walk) allowed(ctx context.Context, found []search.Referrer, members []*dn.Name, groups []partition.Located) ([]partition.Located, error) {
	var ids []entry.ID
	for _, g := range appendLocated(nil, found) {
		ids = append(ids, g.ID)
	}
	q := partition.Query{
		Filter: filter.Const(filter.True),
		Only:   append([]*schema.AttributeType{}, w.req.Judge.NeededTypes()...),
		Most:   w.left(),
	}
	for g, err := range search.Results(ctx, w.req.Snapshot, ids, q) {
		if err != nil {
			return nil, err
		}
		w.cost.Candidates++
		for found[0].ID != g.ID {
			found = found[1:]
		}
		ok, err := w.allows(ctx, g, found, members)
		if err != nil {
			return nil, err
		}
		if ok {
			groups = append(groups, g.Located)
		}
	}
	return groups, nil
}

// allows reports whether the requester sees a group and has the walk's right on a value that
// names one of the members. The values of the group are at the beginning of found.
func (w *walk) allows(ctx context.Context, g *partition.Result, found []search.Referrer, members []*dn.Name) (bool, error) {
	if w.req.Judge.ReadsAll() {
		return true, nil
	}
	may, err := w.req.Judge.Case(g.Name, g.Entry).Values(ctx, w.right)
	if err != nil {
		return false, err
	}
	for _, v := range found {
		if v.ID != g.ID {
			break
		}
		if may(v.Type, []byte(members[v.Of].String())) {
			return true, nil
		}
	}
	return false, nil
}

// maxFilling is how many entries that a request tests may be added to the cache. A search that
// tests more than a few entries looks up most of them once.
const maxFilling = 16

// The method "has" reports whether a group names a member by a value on which the requester has
// the walk's right.
func (w *walk) has(ctx context.Context, g partition.Located, name *dn.Name) (bool, error) {
	may, err := w.req.Judge.Values(ctx, g, w.right)
	if err != nil {
		return false, err
	}
	w.tested++
	under, err := search.NamedUnder(ctx, w.req.Snapshot, g.ID, w.req.Known.Members, name, w.tested <= maxFilling)
	return slices.ContainsFunc(under, func(t *schema.AttributeType) bool { return may(t, []byte(name.String())) }), err
}
