package virtual

import (
	"context"
	"strconv"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/internal/delivery"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/branch"
	"github.com/seed-4dac0d86/ldapd/partition/history"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// The branches of the directory are entries below cn=branches. Below the entry of a branch,
// the entries below cn=changes are the difference between the branch and the branch's base,
// in the form of the changelog. The entries below cn=conflicts are the conflicts that
// prevent a merge. Any other name that ends in the name of the branch's entry is the name of
// an entry in the branch: see BranchOf.
const (
	changesRDN   = "cn=changes"
	conflictsRDN = "cn=conflicts"
)

// The depth of an entry is the number of RDNs in its name. These are the depths of
// cn=branches, of a branch, of cn=changes and cn=conflicts, and of a change or a conflict.
const (
	contextDepth = iota + 1
	branchDepth
	reportDepth
	itemDepth
)

// theBranches serves the branches.
type theBranches struct{}

func (theBranches) holds(name dn.DN) bool { return endsIn(name, "branches") }

func (theBranches) serves(base dn.DN, _ op.Scope) bool { return endsIn(base, "branches") }

func (theBranches) refusal() string {
	return "branches are made, merged and discarded by an add, a modify and a delete of the entry of the branch, outside of transactions"
}

// BranchOf splits the name of an entry in a branch. The result branch is the name of the
// branch, and the result inside is the entry's name without the name of the branch's entry.
// If the name is not the name of an entry in a branch, inside is nil.
func BranchOf(name dn.DN) (branch string, inside dn.DN) {
	n := len(name) - branchDepth
	if n < 1 || !endsIn(name, "branches") || name[n-1].IsCN("changes") || name[n-1].IsCN("conflicts") {
		return "", nil
	}
	branch, ok := branchName(name[n:])
	if !ok {
		return "", nil
	}
	return branch, name[:n:n]
}

// branchName returns the branch whose own entry has the given name.
func branchName(name dn.DN) (string, bool) {
	if len(name) != branchDepth || !endsIn(name, "branches") || len(name[0]) != 1 {
		return "", false
	}
	if t := name[0][0].Type; !strings.EqualFold(t, "cn") && t != "2.5.4.3" {
		return "", false
	}
	return string(name[0][0].Value), true
}

// IsBranch returns the branch whose own entry has the given name. It returns false for
// other names.
func IsBranch(name dn.DN) (branch string, ok bool) { return branchName(name) }

// OutsideBranches reports whether a name is at or below cn=branches or cn=monitor, which no
// branch contains.
func OutsideBranches(name dn.DN) bool { return endsIn(name, "branches") || endsIn(name, "monitor") }

func (theBranches) find(ctx context.Context, req *request.Request, name dn.DN) (*Entry, error) {
	if req.MayBranch() != nil {
		return nil, nil
	}
	if len(name) == contextDepth {
		return branchesTop(req), nil
	}
	text, ok := branchName(name)
	if !ok {
		return nil, nil
	}
	b, err := req.BranchNamed(ctx, text)
	if request.IsMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return branchEntry(ctx, req, b)
}

func (theBranches) Search(ctx context.Context, req *request.Request, name dn.DN, r *op.Search, sink op.Sink) error {
	if err := req.MayBranch(); err != nil {
		return err
	}
	now := func(context.Context, *delivery.Page) (*partition.Snapshot, error) { return req.Now(), nil }
	return list(ctx, req, r, sink, branchesTop, request.BranchContext, "", now, func(ctx context.Context, l *listing) error {
		s := &branchSearch{listing: l, base: name, had: -1}
		if _, had, ok := l.start(); ok {
			s.had = had
		}
		return s.run(ctx)
	})
}

// branchSearch is a search at or below cn=branches.
type branchSearch struct {
	*listing
	base        dn.DN
	number, had int // the number of the next result, and the number of the last result of earlier pages
	found       bool
}

// wants reports whether the scope of the search includes entries at a depth.
func (s *branchSearch) wants(depth int) bool {
	return depth >= len(s.base) && covers(s.r.Scope, depth-len(s.base))
}

// wantsBelow reports whether the scope of the search includes entries at a depth or deeper.
func (s *branchSearch) wantsBelow(depth int) bool {
	for ; depth <= itemDepth; depth++ {
		if s.wants(depth) {
			return true
		}
	}
	return false
}

// show offers an entry at a depth, if the scope of the search includes the entry.
func (s *branchSearch) show(ctx context.Context, depth int, v *Entry) error {
	if depth == len(s.base) {
		s.found = true
	}
	if !s.wants(depth) {
		return nil
	}
	defer func() { s.number++ }()
	if s.number <= s.had {
		return nil
	}
	return s.offer(ctx, v, nil, s.number)
}

func (s *branchSearch) run(ctx context.Context) error {
	if err := s.show(ctx, contextDepth, branchesTop(s.req)); err != nil || !s.wantsBelow(branchDepth) {
		return err
	}
	all := branch.All(s.req.Server.Part)
	if len(s.base) >= branchDepth {
		name, _ := branchName(s.base[len(s.base)-branchDepth:])
		b, err := s.req.BranchNamed(ctx, name)
		if request.IsMissing(err) {
			return missingBranch(request.BranchContext)
		}
		if err != nil {
			return err
		}
		all = []*branch.Branch{b}
	}
	for _, b := range all {
		if err := s.branch(ctx, b); err != nil {
			return err
		}
	}
	if !s.found {
		return missingBranch(s.base[len(s.base)-branchDepth:].String())
	}
	return nil
}

func missingBranch(matched string) error {
	return &op.Result{Code: op.NoSuchObject, MatchedDN: matched, Diagnostic: "there is no such branch, or the branch has no such entry"}
}

// branch offers the entry of a branch, and the entries below it.
func (s *branchSearch) branch(ctx context.Context, b *branch.Branch) error {
	if len(s.base) <= branchDepth {
		v := &Entry{} // the entry is computed only if the search returns it
		if s.wants(branchDepth) {
			var err error
			if v, err = branchEntry(ctx, s.req, b); err != nil {
				if request.IsMissing(err) {
					return nil // the branch has just ended
				}
				return err
			}
		}
		if err := s.show(ctx, branchDepth, v); err != nil {
			return err
		}
	}
	if !s.wantsBelow(reportDepth) {
		return nil
	}
	if err := s.report(ctx, b, changesRDN, s.changes); err != nil {
		return err
	}
	return s.report(ctx, b, conflictsRDN, s.conflicts)
}

// report offers the entry cn=changes or cn=conflicts of a branch, and the entries below that
// entry. The parameter rdn is the RDN of that entry, and the function items offers the
// entries below.
func (s *branchSearch) report(ctx context.Context, b *branch.Branch, rdn string, items func(context.Context, *branch.Branch, string) error) error {
	if n := len(s.base) - reportDepth; n >= 0 && !strings.EqualFold(s.base[n].String(), rdn) {
		return nil // rdn is cn=changes and the base is at or below cn=conflicts, or the reverse
	}
	name := rdn + "," + entryOf(b.Name())
	if len(s.base) <= reportDepth {
		if err := s.show(ctx, reportDepth, newEntry(s.req, name, "applicationProcess", "cn", rdn[len("cn="):])); err != nil {
			return err
		}
	}
	if !s.wants(itemDepth) {
		return nil
	}
	return items(ctx, b, name)
}

// item offers a change or a conflict. It leaves the entry out if the base of the search is
// another change or conflict.
func (s *branchSearch) item(ctx context.Context, v *Entry) error {
	if len(s.base) == itemDepth && history.Key(v.Name.String(), s.req.Schema) != history.Key(s.base.String(), s.req.Schema) {
		return nil
	}
	return s.show(ctx, itemDepth, v)
}

// changes offers the changes in a branch. The parameter above is the name of their
// superior.
func (s *branchSearch) changes(ctx context.Context, b *branch.Branch, above string) error {
	n := 0
	for c, err := range history.InBranch(ctx, b) {
		if err != nil {
			return err
		}
		n++
		pairs := []string{"changeNumber", strconv.Itoa(n)}
		if c.Revision != 0 {
			pairs = append(pairs, "changeTime", generalized(c.Time()), "changeRevision", c.Revision.String())
		}
		v := changeEntry(s.req, c, "changeNumber="+strconv.Itoa(n)+","+above, pairs...)
		if err := s.item(ctx, v); err != nil {
			return err
		}
	}
	return nil
}

// conflicts offers the conflicts of a branch. The parameter above is the name of their
// superior.
func (s *branchSearch) conflicts(ctx context.Context, b *branch.Branch, above string) error {
	all, err := b.Conflicts(ctx)
	if err != nil {
		return err
	}
	for i := range all {
		c := &all[i]
		cn := strconv.Itoa(i + 1)
		v := newEntry(s.req, "cn="+cn+","+above, "branchConflict", "cn", cn, "targetDN", c.Name, "changeInitiatorsName", c.By.Name)
		if c.With != 0 {
			v.add(s.req.Schema, "changeRevision", c.With.String())
			v.add(s.req.Schema, "changeTime", generalized(c.With.Time()))
		}
		if c.ID != entry.Root {
			v.add(s.req.Schema, "targetEntryUUID", c.ID.String())
		}
		v.add(s.req.Schema, "description", c.Texts()...)
		if err := s.item(ctx, v); err != nil {
			return err
		}
	}
	return nil
}

// branchesTop returns the entry cn=branches.
func branchesTop(req *request.Request) *Entry {
	return newEntry(req, request.BranchContext, "applicationProcess", "cn", "branches")
}

// entryOf returns the name of the entry of a branch.
func entryOf(branch string) string {
	return dn.RDN{{Type: "cn", Value: []byte(branch)}}.String() + "," + request.BranchContext
}

// branchEntry returns the entry of a branch.
func branchEntry(ctx context.Context, req *request.Request, b *branch.Branch) (*Entry, error) {
	i, err := b.Info(ctx)
	if err != nil {
		return nil, err
	}
	n, err := b.Changed(ctx, i)
	if err != nil {
		return nil, err
	}
	return newEntry(req, entryOf(i.Name), "branch", "cn", i.Name, "description", i.Description,
		"branchBase", i.Base.String(), "branchState", i.State(), "branchCommits", strconv.Itoa(i.Commits), "branchEntries", strconv.Itoa(n),
		"creatorsName", i.By.Name, "createTimestamp", generalized(i.Made)), nil
}
