package history

import (
	"bytes"
	"context"
	"io"
	"iter"
	"slices"

	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/branch"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// InBranch streams the difference between a branch and its base, in the order described at
// Difference. The author and the revision of a change are those of the last commit in the
// branch that lists the entry. If no commit lists the entry, they are zero. If only secret or
// operational attributes of an entry were changed, the change is a modify without
// modifications.
func InBranch(ctx context.Context, b *branch.Branch) iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		if err := inBranch(ctx, b, func(c *Change) bool { return yield(c, nil) }); err != nil {
			yield(nil, err)
		}
	}
}

func inBranch(ctx context.Context, b *branch.Branch, yield func(*Change) bool) error {
	s, err := openSides(ctx, b)
	if err != nil {
		return err
	}
	defer s.close()
	n := 0
	d := &Difference{From: s.base, To: s.own, IDs: s.ids, Touched: true}
	for r, err := range d.Records(ctx) {
		if err != nil {
			return err
		}
		c := &Change{Number: n, Record: *r, Kind: kindOf(r.Request)}
		c.By, c.Revision = s.info.Last(r.ID)
		if c.Kind == "add" || c.Kind == "modify" {
			if c.Secrets, err = s.secrets(ctx, r.ID); err != nil {
				return err
			}
		}
		if n++; !yield(c) {
			return nil
		}
	}
	return nil
}

// sides contains the states of a comparison: the branch's own state, its base, and the
// newest state.
type sides struct {
	info              *branch.Info
	base, own, newest *partition.Snapshot
	ids               []entry.ID // the entries that may differ between the branch and its base
}

func openSides(ctx context.Context, b *branch.Branch) (_ *sides, err error) {
	s := &sides{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.info, err = b.Info(ctx); err != nil {
		return nil, err
	}
	if s.base, err = b.Base(ctx); err != nil {
		return nil, err
	}
	if s.own, err = b.Snapshot(ctx); err != nil {
		return nil, err
	}
	s.newest = b.Newest()
	s.ids = s.info.IDs
	if s.info.All {
		s.ids, err = entriesOf(ctx, s.base, s.own, entry.Root, entry.Root)
	}
	return s, err
}

func (s *sides) close() {
	for _, x := range []*partition.Snapshot{s.base, s.own, s.newest} {
		if x != nil {
			x.Close()
		}
	}
}

// secrets returns the secret attributes of an entry that the branch changed. A secret
// attribute counts as changed if its values in the branch differ from its values in the newest
// state of the trunk. Secrets have no history, so a branch shows the newest value of a secret
// that it did not change.
func (s *sides) secrets(ctx context.Context, id entry.ID) (changed []string, err error) {
	own, err := s.own.Secrets(ctx, id)
	if err != nil {
		return nil, err
	}
	newest, err := s.newest.Secrets(ctx, id)
	if err != nil {
		return nil, err
	}
	for _, list := range [][2][]entry.Attribute{{own, newest}, {newest, own}} {
		for i := range list[0] {
			a := &list[0][i]
			other := find(list[1], a)
			if other == nil || !slices.EqualFunc(a.Values, other.Values, bytes.Equal) {
				changed = append(changed, a.Type.Name())
			}
		}
	}
	slices.Sort(changed)
	return slices.Compact(changed), nil
}

// DiffBranch writes the difference between a branch and its base as LDIF, and returns the
// number of changes.
func DiffBranch(ctx context.Context, b *branch.Branch, w io.Writer) (n int, err error) {
	return writeRecords(w, func(yield func(*Record, error) bool) {
		for c, err := range InBranch(ctx, b) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(&c.Record, nil) {
				return
			}
		}
	})
}
