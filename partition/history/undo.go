package history

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/changestream"
	"github.com/seed-4dac0d86/ldapd/partition/erase"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

var (
	// ErrNoCommit means that no commit has the revision that is to be undone, or that it cannot be undone.
	ErrNoCommit = errors.New("there is no such commit to undo")
	// ErrChanged means that an entry was changed again after the commit that is to be undone.
	ErrChanged = errors.New("it was changed again")
)

// Undo returns the entries that a commit changed to what they were before it, in one commit. It changes
// nothing if one of them was changed again since. Entries in which the commit changed only values that
// name entries which it renamed or deleted may have been changed: as in Restore, these values follow.
// Undo ignores o.Name and o.Subtree.
func Undo(ctx context.Context, p *partition.Partition, commit table.Revision, o RestoreOptions) (*Restored, error) {
	rec, err := p.DB.Record(ctx, commit)
	if err != nil {
		return nil, err
	}
	c := changestream.CommitOf(&rec)
	note := write.ParseMessage(c.Message)
	switch {
	case rec.State != journal.Committed, commit <= p.DB.Horizon():
		return nil, fmt.Errorf("%w: %v is the revision of none that is kept", ErrNoCommit, commit)
	case c.All:
		return nil, fmt.Errorf("%w: it changed more entries than are listed: restore a tree instead", ErrNoCommit)
	case slices.ContainsFunc(note.Operations, func(o write.Operation) bool { return o.Kind == erase.Erasure }):
		return nil, fmt.Errorf("%w: it erased a part of the past", ErrNoCommit)
	}
	before, err := state.At(ctx, p, commit-1)
	if err != nil {
		return nil, err
	}
	defer before.Close()
	after, err := state.At(ctx, p, commit)
	if err != nil {
		return nil, err
	}
	defer after.Close()
	ids, err := undone(ctx, before, after, c)
	if err != nil {
		return nil, err
	}
	return bring(ctx, p, before, &o, func(b *bringing) (*Restored, error) {
		for _, id := range ids {
			if err := b.unchanged(ctx, id, after); err != nil {
				return nil, err
			}
		}
		return b.differ(ctx, &Difference{From: &b.tx.Snapshot, To: before, IDs: ids, Follow: true})
	})
}

// undone returns the entries that the undo of a commit has to change.
func undone(ctx context.Context, before, after *partition.Snapshot, c *changestream.Change) (ids []entry.ID, err error) {
	var others []entry.ID // that are where they were
	for e, err := range changestream.Effects(ctx, before, after, c.IDs) {
		switch {
		case err != nil:
			return nil, err
		case e.Kind == changestream.Modified:
			others = append(others, e.ID)
		default:
			ids = append(ids, e.ID)
		}
	}
	moved := len(ids) > 0
	for _, id := range others {
		followed := false
		if moved {
			if followed, err = onlyFollowed(ctx, before, after, id); err != nil {
				return nil, err
			}
		}
		if !followed {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// onlyFollowed reports whether two states of an entry differ only in values that name entries which were renamed or
// deleted between the states.
func onlyFollowed(ctx context.Context, before, after *partition.Snapshot, id entry.ID) (bool, error) {
	was, err := before.Entry(ctx, id, false)
	if err != nil {
		return false, err
	}
	is, err := after.Entry(ctx, id, false)
	if err != nil {
		return false, err
	}
	any := false
	for _, x := range []struct {
		from, to     *partition.Snapshot
		these, those *entry.Entry
	}{{before, after, was, is}, {after, before, is, was}} {
		for i := range x.these.Attributes {
			a, other := &x.these.Attributes[i], entry.Attribute{}
			if b := find(x.those.Attributes, a); b != nil {
				other = *b
			}
			for _, v := range without(a.Values, other.Values) {
				any = true
				if !isUsers(a.Type) {
					continue
				}
				if follows, err := followed(ctx, x.from, x.to, a, v); !follows || err != nil {
					return false, err
				}
			}
		}
	}
	return any, nil
}

// followed reports whether a value that only the state from has is there because the entry that it names has that
// name in this state only.
func followed(ctx context.Context, from, to *partition.Snapshot, a *entry.Attribute, value []byte) (bool, error) {
	if !follows(from, a.Type) {
		return false, nil
	}
	if name, err := dn.Parse(string(value)); err == nil && len(name) == 0 { // what a group has that has lost its last member
		return true, nil
	}
	id, ok, err := bearer(ctx, from, value)
	if !ok || err != nil {
		return false, err
	}
	if node, err := changestream.Node(ctx, to, id); node == nil || err != nil {
		return err == nil, err
	}
	there, err := to.Name(ctx, id)
	return err == nil && Key(there.String(), to.Schema()) != Key(string(value), from.Schema()), err
}

// follows reports whether the values of a type follow the entries that they name.
func follows(s *partition.Snapshot, t *schema.AttributeType) bool {
	return slices.ContainsFunc(s.Catalog.Ordered, func(x *catalog.Indexed) bool { return x.Reference != nil && x.Typ.OID == t.OID })
}

// unchanged returns an error if an entry was changed after a state.
func (b *bringing) unchanged(ctx context.Context, id entry.ID, after *partition.Snapshot) error {
	now := &b.tx.Snapshot
	last, err := changestream.Changed(ctx, now, id)
	if err != nil || last <= after.Revision() {
		return err
	}
	s := now
	if node, err := changestream.Node(ctx, now, id); err != nil {
		return err
	} else if node == nil {
		s = after
	}
	called := "the entry " + id.String()
	if node, err := changestream.Node(ctx, s, id); err != nil {
		return err
	} else if node != nil {
		name, err := s.Name(ctx, id)
		if err != nil {
			return err
		}
		called = name.String()
	}
	rec, err := b.p.DB.Record(ctx, last)
	who := write.ParseMessage(rec.Message).By.Name
	if who != "" {
		who = " by " + who
	}
	return errors.Join(err, fmt.Errorf("%s: %w since, at %v%s", called, ErrChanged, last, who))
}
