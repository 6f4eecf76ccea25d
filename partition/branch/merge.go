package branch

import (
	"context"
	"errors"
	"maps"

	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// Merge makes the branch visible by one commit and returns the commit's revision. If there are
// conflicts, it returns a ConflictError and does not merge the branch.
func (b *Branch) Merge(ctx context.Context, by write.By) (table.Revision, error) {
	b.k.Changing.RLock()
	defer b.k.Changing.RUnlock()
	i, err := b.b.Info()
	if err != nil {
		return 0, failure(err)
	}
	if i.Parked {
		return 0, b.inTheWay(ctx)
	}
	both, err := b.changedOutside(ctx, i.Base)
	if err != nil {
		return 0, err
	}
	if len(both) > 0 {
		// Clashes are looked for before entries are stamped, so that a merge that fails
		// usually leaves no commit in the branch.
		if err := b.inTheWay(ctx); err != nil {
			return 0, err
		}
		if err := b.restamp(ctx, by, both); err != nil {
			return 0, err
		}
	}
	m := write.Message{By: by, Operations: []write.Operation{{Kind: opMerge, Name: b.Name()}}}
	r, err := b.b.Merge(ctx, m.Append(nil))
	var clash *txn.ClashError
	if errors.As(err, &clash) {
		found, err := b.explain(ctx, clash.Clashes)
		return 0, errors.Join(err, conflicts(b.Name(), found))
	}
	return r, failure(err)
}

// inTheWay returns a ConflictError if something keeps the branch from being merged.
func (b *Branch) inTheWay(ctx context.Context) error {
	found, err := b.Conflicts(ctx)
	return errors.Join(err, conflicts(b.Name(), found))
}

func conflicts(name string, found []Conflict) error {
	if len(found) == 0 {
		return nil
	}
	return &ConflictError{name, found}
}

// restamp makes a last commit in the branch. The commit changes the stamps of the given
// entries, which other commits changed too since the base. Otherwise a consumer of changes
// would find an entry with new values and an entryCSN that the consumer has already seen.
func (b *Branch) restamp(ctx context.Context, by write.By, both []entry.ID) error {
	_, err := write.UpdateBranch(ctx, b.k, b.b, by, func(tx *write.Tx) error {
		for _, id := range both {
			if err := tx.Restamp(ctx, id); err != nil {
				return err
			}
		}
		return nil
	})
	return failure(err)
}

// changedOutside returns the ids that were touched both by commits in the branch and by
// commits of the trunk after the branch's base. If one of these commits of the trunk does not
// list what it touched, changedOutside returns all ids that commits in the branch touched.
func (b *Branch) changedOutside(ctx context.Context, base table.Revision) (both []entry.ID, err error) {
	newest := state.Newest(b.k)
	defer newest.Close()
	outside, all := map[entry.ID]bool{}, false
	for rec, err := range newest.At.Since(ctx, base) {
		if err != nil {
			return nil, err
		}
		all = all || rec.AllChanged
		for _, id := range rec.IDs {
			outside[id] = true
		}
	}
	if !all {
		ids, err := b.b.MayHaveChanged(ctx, maps.Keys(outside))
		if err != nil || len(ids) == 0 {
			return nil, failure(err)
		}
	}
	seen := map[entry.ID]bool{}
	for rec, err := range b.b.Commits(ctx) {
		if err != nil {
			return nil, failure(err)
		}
		for _, id := range rec.IDs {
			if (all || outside[id]) && !seen[id] {
				seen[id] = true
				both = append(both, id)
			}
		}
	}
	return both, nil
}
