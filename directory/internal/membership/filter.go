package membership

import (
	"bytes"
	"context"
	"iter"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// Test replaces a test of memberOf or isMemberOf by a test that looks at groups, and
// returns any test of another attribute unchanged. An equality test becomes a test for one
// group, and a presence test becomes a test for any group. Tests of all other kinds, such as
// substrings tests, never match.
func Test(ctx context.Context, req *request.Request, t *filter.Test) (filter.Resolved, error) {
	is, nested := false, false
	if len(t.Types) == 1 {
		is, nested = Is(req, t.Types[0])
	}
	if !is {
		return t, nil
	}
	w := &walk{req: req, right: acl.Search}
	switch f := t.Asked().(type) {
	case *filter.Present:
		return t.Related(func(name *dn.Name) bool { return w.inAny(ctx, name) }, nil), nil
	case *filter.Equal:
		return w.equal(ctx, t, f.Value, nested)
	}
	return filter.Const(filter.False), nil
}

// equal returns the test of membership in one group.
func (w *walk) equal(ctx context.Context, t *filter.Test, value []byte, nested bool) (filter.Resolved, error) {
	group, err := w.group(ctx, string(value))
	if request.IsMissing(err) {
		return filter.Const(filter.False), nil
	}
	if err != nil {
		return nil, err
	}
	holds := func(member *dn.Name) bool {
		in, err := w.in(ctx, member, group, nested)
		if err != nil {
			w.req.Judge.Fail(err)
		}
		return in
	}
	return t.Related(holds, w.members(ctx, group, nested)), nil
}

// group finds the entry with a name, if the requester sees it. For a requester who sees every
// entry, it recalls names that were used before: clients ask for the same groups again and
// again, and parsing and normalising the name takes as long as the rest of the test.
func (w *walk) group(ctx context.Context, text string) (partition.Located, error) {
	if w.req.Judge.SeesAll() {
		if at, ok := w.req.Snapshot.Recall(ctx, text); ok {
			return at, nil
		}
	}
	name, err := dn.Parse(text)
	if err != nil {
		return partition.Located{}, err // cannot happen: the value was resolved
	}
	at, err := w.req.Judge.Find(ctx, name)
	if err == nil {
		w.req.Snapshot.Remember(text, at)
	}
	return at, err
}

func (w *walk) inAny(ctx context.Context, name *dn.Name) (any bool) {
	err := w.up(ctx, name, false, func(partition.Located) bool {
		any = true
		return false
	})
	if err != nil {
		w.req.Judge.Fail(err)
	}
	return any
}

// The method "in" reports whether an entry is in a group. If nested is set, it follows groups
// from the entry upwards. The cost thus grows with the number of groups that the entry is in,
// and not with the sizes of the groups.
func (w *walk) in(ctx context.Context, name *dn.Name, group partition.Located, nested bool) (in bool, err error) {
	if !nested {
		if in, err = w.has(ctx, group, name); in || err != nil {
			return in, err
		}
		return w.matches(ctx, group.ID, name.String())
	}
	err = w.up(ctx, name, true, func(g partition.Located) bool {
		in = g.ID == group.ID
		return !in
	})
	return in, err
}

// members streams the members of a group, the direct members first. If nested is set, it
// also streams the members of each group that is named as a member. A group that is a member
// only because it matches a URL is not followed. Access rules follow groups in the same way.
func (w *walk) members(ctx context.Context, group partition.Located, nested bool) iter.Seq2[filter.EntryRef, error] {
	return func(yield func(filter.EntryRef, error) bool) {
		seen := map[entry.ID]bool{group.ID: true}
		for next := []partition.Located{group}; len(next) > 0; next = next[1:] {
			for m, err := range w.direct(ctx, next[0]) {
				if !yield(filter.EntryRef{ID: m.ID, Parent: m.Parent}, err) || err != nil {
					return
				}
				if nested && !seen[m.ID] {
					seen[m.ID] = true
					next = append(next, m)
				}
			}
			for m, err := range w.found(ctx, next[0]) {
				if !yield(filter.EntryRef{ID: m.ID, Parent: m.Parent}, err) || err != nil {
					return
				}
			}
		}
	}
}

// The first read of a group's values returns firstPage values. Each further read returns
// twice as many values as the read before, up to pageOfMembers. A search often needs only
// the first values, because another test of the search's filter has fewer candidates.
const (
	firstPage     = 16
	pageOfMembers = 1024
)

// direct streams the existing entries that a group names as members, by values on which the
// requester has the walk's right.
func (w *walk) direct(ctx context.Context, g partition.Located) iter.Seq2[partition.Located, error] {
	return func(yield func(partition.Located, error) bool) {
		may, err := w.req.Judge.Values(ctx, g, w.right)
		if err != nil {
			yield(partition.Located{}, err)
			return
		}
		for _, t := range w.req.Known.Members {
			for v, err := range w.values(ctx, g.ID, t) {
				if err != nil {
					yield(partition.Located{}, err)
					return
				}
				if !may(t, v) {
					continue
				}
				m, err := w.find(ctx, t, v)
				if request.IsMissing(err) {
					continue
				}
				if !yield(m, err) || err != nil {
					return
				}
			}
		}
	}
}

// values streams the values of an attribute in pages, because groups may have millions of
// members.
func (w *walk) values(ctx context.Context, id entry.ID, t *schema.AttributeType) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for from, n := 0, firstPage; ; from, n = from+n, min(2*n, pageOfMembers) {
			page, more, err := w.req.Snapshot.ValueRange(ctx, id, t, "", from, n)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, v := range page {
				if !yield(v, nil) {
					return
				}
			}
			if !more {
				return
			}
		}
	}
}

// find returns the entry that a value names.
func (w *walk) find(ctx context.Context, t *schema.AttributeType, value []byte) (partition.Located, error) {
	if i := bytes.LastIndexByte(value, '#'); i >= 0 && t == w.req.Known.UniqueMember {
		value = value[:i] // the optional unique identifier (RFC 4517, section 3.3.21)
	}
	name, err := dn.Parse(string(value))
	if err != nil {
		return partition.Located{}, &partition.Error{Problem: partition.NoSuchEntry, Text: "the value is not a DN"}
	}
	return w.req.Snapshot.Find(ctx, name)
}
