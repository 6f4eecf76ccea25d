package membership

import (
	"context"
	"iter"
	"slices"

	"github.com/seed-4dac0d86/ldapd/directory/access"
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

// The members of a dynamic group are the entries that match one of the group's URLs. The
// requester is shown only the members that the requester would find by a search with the
// URL. Memberships thus reveal nothing that a search does not reveal.

// matching returns the dynamic groups that an entry belongs to.
func (w *walk) matching(ctx context.Context, name string) (groups []partition.Located, err error) {
	err = w.with(ctx, name, func(g *access.DynamicGroup) bool {
		groups = append(groups, g.Located)
		return true
	})
	return groups, err
}

// matches reports whether an entry belongs to a dynamic group.
func (w *walk) matches(ctx context.Context, group entry.ID, name string) (found bool, err error) {
	all, err := w.req.DynamicGroups(ctx)
	if err != nil || all.Group(group) == nil {
		return false, err
	}
	err = w.with(ctx, name, func(g *access.DynamicGroup) bool {
		found = g.ID == group
		return !found
	})
	return found, err
}

// The method "with" yields the dynamic groups that an entry belongs to, each group once.
func (w *walk) with(ctx context.Context, name string, yield func(*access.DynamicGroup) bool) error {
	all, err := w.req.DynamicGroups(ctx)
	if err != nil || all.None() {
		return err
	}
	src, err := w.source(ctx, all, name)
	if err != nil || src == nil {
		return err
	}
	with, err := all.With(src)
	if err != nil {
		return err
	}
	var last *access.DynamicGroup
	for g, u := range with {
		if g == last {
			continue
		}
		found, err := w.finds(ctx, g, u, src)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		if last = g; !yield(g) {
			break
		}
	}
	return nil
}

// source returns the entry with a name in the form that filters test, or nil if no entry has
// the name.
func (w *walk) source(ctx context.Context, all *access.DynamicGroups, name string) (*filter.EntrySource, error) {
	parsed, err := dn.Parse(name)
	if err != nil {
		return nil, err // cannot happen: the text is the name of an entry, or a value that was resolved
	}
	at, err := w.req.Snapshot.Find(ctx, parsed)
	if request.IsMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	e, err := w.req.Snapshot.Some(ctx, at.ID, append(slices.Clip(all.Types()), w.req.Judge.NeededTypes()...))
	if err != nil || e == nil {
		return nil, err
	}
	return &filter.EntrySource{Schema: w.req.Schema, Entry: e, Name: parsed}, nil
}

// finds reports whether the requester would find an entry by a URL of a group, and has the
// walk's right on the URL. The caller must have checked that the entry matches the URL.
func (w *walk) finds(ctx context.Context, g *access.DynamicGroup, u *access.MemberURL, src *filter.EntrySource) (bool, error) {
	j := &w.req.Judge
	if j.ReadsAll() {
		return true, nil
	}
	if may, err := w.mayUse(ctx, g.Located, u); !may {
		return false, err
	}
	return w.guarded(ctx, u).Match(src) == filter.True, j.Failure()
}

// mayUse reports whether the requester sees a group and has the walk's right on the group's
// URL u.
func (w *walk) mayUse(ctx context.Context, g partition.Located, u *access.MemberURL) (bool, error) {
	if w.req.Judge.ReadsAll() {
		return true, nil
	}
	if seen, err := w.req.Judge.Sees(ctx, g); !seen {
		return false, err
	}
	may, err := w.req.Judge.Values(ctx, g, w.right)
	return err == nil && may(w.req.Schema.Attribute(acl.MemberURL), u.Text), err
}

// guarded returns the filter of a URL, restricted to what the requester may search and see.
func (w *walk) guarded(ctx context.Context, u *access.MemberURL) filter.Resolved {
	j := &w.req.Judge
	return j.OnlySeen(ctx, j.Guard(ctx, u.Filter))
}

// found streams the entries that the requester finds by the URLs of a group. An entry that
// matches several URLs occurs several times.
func (w *walk) found(ctx context.Context, group partition.Located) iter.Seq2[partition.Located, error] {
	return func(yield func(partition.Located, error) bool) {
		all, err := w.req.DynamicGroups(ctx)
		if err != nil {
			yield(partition.Located{}, err)
			return
		}
		g := all.Group(group.ID)
		if g == nil {
			return
		}
		for i := range g.URLs {
			for m, err := range w.run(ctx, g, &g.URLs[i]) {
				if !yield(m, err) || err != nil {
					return
				}
			}
		}
	}
}

// run streams the entries that the requester finds by a URL.
func (w *walk) run(ctx context.Context, g *access.DynamicGroup, u *access.MemberURL) iter.Seq2[partition.Located, error] {
	return func(yield func(partition.Located, error) bool) {
		may, err := w.mayUse(ctx, g.Located, u)
		var base partition.Located
		if may && err == nil {
			base, err = w.req.Snapshot.Find(ctx, u.Name)
		}
		if !may || request.IsMissing(err) {
			return
		}
		if err != nil {
			yield(partition.Located{}, err)
			return
		}
		q := partition.Query{
			Base: base.ID, Scope: u.Scope, Filter: w.guarded(ctx, u), Cost: &w.cost,
			Only: append([]*schema.AttributeType{}, w.req.Judge.NeededTypes()...), Most: w.left(),
		}
		for found, err := range search.Search(ctx, w.req.Snapshot, q) {
			if err == nil {
				err = w.req.Judge.Failure()
			}
			if err != nil {
				yield(partition.Located{}, err)
				return
			}
			if !yield(found.Located, nil) {
				return
			}
		}
	}
}

// The method "left" returns the number of candidates that further searches of the walk may look
// at: at least 1, or 0 if there is no limit.
func (w *walk) left() int {
	most := w.req.Limits.Candidates
	if most == 0 {
		return 0
	}
	return max(1, most-w.cost.Candidates-w.cost.Rows)
}

// IsDynamic reports whether an entry is a dynamic group.
func IsDynamic(ctx context.Context, req *request.Request, id entry.ID) (bool, error) {
	all, err := req.DynamicGroups(ctx)
	return err == nil && all.Group(id) != nil, err
}

// Matches reports whether the requester would find the entry with the given name by a URL of
// a group. It considers only the URLs that the requester has the right to compare.
func Matches(ctx context.Context, req *request.Request, group entry.ID, name []byte) (bool, error) {
	if _, err := dn.Parse(string(name)); err != nil {
		return false, op.Errorf(op.InvalidAttributeSyntax, "%v", err)
	}
	w := &walk{req: req, right: acl.Compare}
	return w.matches(ctx, group, string(name))
}

// Found returns the sorted names of the entries that the requester finds by the URLs of a
// dynamic group. It returns an error if there are more than MaxGroups entries.
func Found(ctx context.Context, req *request.Request, group partition.Located) (values [][]byte, err error) {
	w := &walk{req: req, right: acl.Show}
	seen := map[entry.ID]bool{}
	for m, err := range w.found(ctx, group) {
		if err != nil {
			return nil, err
		}
		if seen[m.ID] {
			continue
		}
		if seen[m.ID] = true; len(seen) > MaxGroups {
			return nil, op.Errorf(op.AdminLimitExceeded, "%s has more than %d members: search by its memberURL", group.Name, MaxGroups)
		}
		values = append(values, []byte(m.Name.String()))
	}
	slices.SortFunc(values, slices.Compare)
	return values, nil
}
