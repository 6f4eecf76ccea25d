// Package membership finds the groups that entries are in, and the members of groups. The
// values of memberOf are the groups that name an entry as a member, and the dynamic groups
// with a URL that the entry matches. The values of isMemberOf are these groups, the groups
// that name one of these groups, and so on. The values of both attributes are computed from
// the groups of the state that is read, and are not stored. The requester must see each
// group that leads to a value, and must have the right in question on the value that names
// the member, or on the URL.
package membership

import (
	"bytes"
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/acl"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// MaxGroups is the largest number of groups that are followed for one entry. Tests set a
// smaller number.
var MaxGroups = 10000

// Is reports whether the values of a type are computed from groups, and whether nested
// groups count.
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
// the requester may not learn of.
func Of(ctx context.Context, req *request.Request, name string, nested bool, right acl.Rights) (values [][]byte, err error) {
	w := &walk{req: req, right: right}
	err = w.up(ctx, name, nested, func(g partition.Located) bool {
		values = append(values, []byte(g.Name.String()))
		return true
	})
	slices.SortFunc(values, bytes.Compare)
	return values, err
}

// A walk follows groups up from members, or down from groups.
type walk struct {
	req   *request.Request
	right acl.Rights
	cost  partition.Cost
}

// up yields the groups that an entry is in, each group once and the nearest first.
func (w *walk) up(ctx context.Context, name string, nested bool, yield func(partition.Located) bool) error {
	seen := map[entry.ID]bool{}
	dynamic, err := w.matching(ctx, name)
	if err != nil {
		return err
	}
	for next := []string{name}; len(next) > 0; {
		groups, err := w.naming(ctx, next)
		if err != nil {
			return err
		}
		groups, dynamic, next = append(groups, dynamic...), nil, nil
		for _, g := range groups {
			if seen[g.ID] {
				continue
			}
			if seen[g.ID] = true; len(seen) > MaxGroups {
				return op.Errorf(op.AdminLimitExceeded, "%s is in more than %d groups", name, MaxGroups)
			}
			if !yield(g) {
				return nil
			}
			if nested {
				next = append(next, g.Name.String())
			}
		}
	}
	return nil
}

// maxNames bounds the number of names in one search.
const maxNames = 50

// naming returns the groups that name at least one of the given members. On HBase, naming
// takes one or two round trips for all of the members together.
func (w *walk) naming(ctx context.Context, names []string) (groups []partition.Located, err error) {
	for some := range slices.Chunk(names, maxNames) {
		for found, err := range w.req.Snapshot.Search(ctx, w.query(ctx, some)) {
			if err != nil {
				return nil, err
			}
			ok, err := w.allows(ctx, found.Located, some)
			if err != nil {
				return nil, err
			}
			if ok {
				groups = append(groups, found.Located)
			}
		}
	}
	return groups, w.req.Judge.Failure()
}

// query returns a search of all naming contexts for the groups that name at least one of
// the given members and that the requester sees.
func (w *walk) query(ctx context.Context, names []string) partition.Query {
	var either []filter.Resolved
	for _, name := range names {
		for _, t := range w.req.Known.Members {
			either = append(either, filter.Resolve(&filter.Equal{Attribute: t.OID, Value: []byte(name)}, w.req.Schema))
		}
	}
	j := &w.req.Judge
	q := partition.Query{
		Base:   entry.Root,
		Scope:  op.WholeSubtree,
		Filter: j.OnlySeen(ctx, filter.MakeOr(either...)),
		Only:   append([]*schema.AttributeType{}, j.LooksAt()...),
		Cost:   &w.cost,
	}
	q.Most = w.left()
	return q
}

// allows reports whether the requester may learn that a group has at least one of the
// given members.
func (w *walk) allows(ctx context.Context, g partition.Located, names []string) (bool, error) {
	if w.req.Judge.ReadsAll() {
		return true, nil
	}
	for _, name := range names {
		if has, err := w.has(ctx, g, name); has || err != nil {
			return has, err
		}
	}
	return false, nil
}

// has reports whether a group names a member and the requester may learn of this
// membership.
func (w *walk) has(ctx context.Context, g partition.Located, name string) (bool, error) {
	may, err := w.req.Judge.Values(ctx, g, w.right)
	if err != nil {
		return false, err
	}
	for _, t := range w.req.Known.Members {
		if !may(t, []byte(name)) {
			continue
		}
		has, err := w.req.Snapshot.Compare(ctx, g.ID, t.OID, []byte(name))
		if err != nil && !partition.Is(err, partition.NoSuchAttribute) {
			return false, err
		}
		if has {
			return true, nil
		}
	}
	return false, nil
}
