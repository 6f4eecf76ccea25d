package feed

import (
	"context"
	"iter"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/internal/search"
	"github.com/seed-4dac0d86/ldapd/partition/internal/state"
	"github.com/seed-4dac0d86/ldapd/revision"
	"github.com/seed-4dac0d86/ldapd/table"
)

// A Change is one commit as the journal tells it.
type Change struct {
	Revision table.Revision
	// All says that too much changed to be named, as by an import.
	All bool
	// Renames says that entries got other names, and with them all below.
	Renames bool
	// IDs are what the commit touched, in its order: every entry that it
	// changed, and some that are no entries. Effects tells what became of each.
	IDs []entry.ID
	// Message is who did what: see ParseNote.
	Message []byte
}

// Frontier is how far the snapshot has followed the directory's commits: what it
// takes to go on from it later, on any server of the store.
func Frontier(ctx context.Context, s *state.Snapshot) (revision.Frontier, error) {
	return s.At.Frontier(ctx)
}

// ShownChanges streams the commits that the snapshot shows beyond a frontier, each
// behind those that it could know of. The state behind a change is AtFrontier of
// the frontier With its revision.
func ShownChanges(ctx context.Context, s *state.Snapshot, after revision.Frontier) iter.Seq2[*Change, error] {
	return toChanges(s.At.Commits(ctx, after))
}

// Changes streams the commits beyond a frontier, and then, as they come, those of
// the future, until ctx ends. Nothing is kept for who listens, and commits do not
// wait for it.
func Changes(ctx context.Context, p *catalog.Keeper, after revision.Frontier) iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		for {
			next := Next(p)
			s := state.Newest(p)
			for c, err := range ShownChanges(ctx, s, after) {
				if !yield(c, err) || err != nil {
					s.Close()
					return
				}
				after = after.With(c.Revision)
			}
			s.Close()
			select {
			case <-next:
			case <-ctx.Done():
				yield(nil, context.Cause(ctx))
				return
			}
		}
	}
}

// Next returns a channel that is closed when there may be a newer state than now:
// who waits for changes asks for it before the snapshot that has none.
func Next(p *catalog.Keeper) <-chan struct{} { return p.DB.Next() }

// AtFrontier returns the state at a frontier; Close it.
func AtFrontier(ctx context.Context, p *catalog.Keeper, f revision.Frontier) (*state.Snapshot, error) {
	s, err := p.DB.AtFrontier(ctx, f)
	if err != nil {
		return nil, err
	}
	return state.Of(ctx, p, s)
}

// Follows reports whether all changes since a frontier can still be told:
// txn.ErrForgotten if they are no longer kept, txn.ErrForeign if the frontier is none
// of this directory's.
func Follows(ctx context.Context, p *catalog.Keeper, f revision.Frontier) error {
	return p.DB.Follows(ctx, f)
}

// An Effect is what became of an entry between two states.
type Effect struct {
	ID   entry.ID
	Kind EffectKind
}

// EffectKind is a kind of effect.
type EffectKind uint8

const (
	Added EffectKind = iota + 1
	Deleted
	Modified
	Moved // got another name of its own, and perhaps other attributes too
)

// Effects returns what became of entries from one state to another, in the order
// given. Ids of no entry in either state are left out.
func Effects(ctx context.Context, from, to *state.Snapshot, ids []entry.ID) iter.Seq2[Effect, error] {
	return func(yield func(Effect, error) bool) {
		for _, id := range ids {
			e, err := effect(ctx, from, to, id)
			if err != nil {
				yield(e, err)
				return
			}
			if e.Kind != 0 && !yield(e, nil) {
				return
			}
		}
	}
}

func effect(ctx context.Context, from, to *state.Snapshot, id entry.ID) (Effect, error) {
	e := Effect{ID: id}
	after, err := to.Node(ctx, id)
	if err != nil {
		return e, err
	}
	before, err := from.Node(ctx, id)
	switch {
	case err != nil || before == nil && after == nil:
	case before == nil:
		e.Kind = Added
	case after == nil:
		e.Kind = Deleted
	case *before != *after:
		e.Kind = Moved
	default:
		e.Kind = Modified
	}
	return e, err
}

// Lookup tests whether a query finds one entry, and returns it as Search would.
func Lookup(ctx context.Context, s *state.Snapshot, q search.Query, id entry.ID) (found search.Result, ok bool, err error) {
	f := search.NewFinder(s, q, func(r *search.Result, e error) bool {
		if err = e; e == nil {
			found, ok = *r, true
			found.Position = nil
		}
		return false
	})
	defer f.Release()
	node, err := s.Node(ctx, id)
	if err != nil || node == nil {
		return found, false, err
	}
	in := id == q.Base
	if q.Scope != op.BaseObject {
		if in, err = f.InScope(ctx, id, node.Parent); err != nil {
			return found, false, err
		}
	}
	if in && f.Offer(ctx, index.Candidate{ID: id, Parent: node.Parent, Maybe: true}) {
		f.Flush(ctx)
	}
	return found, ok, err
}

// Within reports whether an entry is another one or below it.
func Within(ctx context.Context, s *state.Snapshot, id, above entry.ID) (bool, error) {
	for id != above {
		if id == catalog.Root {
			return false, nil
		}
		node, err := s.Node(ctx, id)
		if err != nil || node == nil {
			return false, err
		}
		id = node.Parent
	}
	return true, nil
}

// Written is the commit that changed an entry last; 0 if there is none.
func Written(ctx context.Context, s *state.Snapshot, id entry.ID) (last table.Revision, err error) {
	// Every change of an entry sets its entryCSN.
	csn := master.Columns(s.Catalog.Types.EntryCSN, "")
	row, err := s.Reader.Get(ctx, s.Keeper.Master, master.Row(id), table.Select{
		Families: []table.Family{master.TreeInfo, master.UpAttributes}, Columns: []table.ColumnRange{csn}})
	for _, c := range row.Cells {
		last = max(last, c.Revision)
	}
	return last, err
}

// Unmoved reports whether neither an entry nor any above it was changed after a
// frontier, so that it stands where it stood.
func Unmoved(ctx context.Context, s *state.Snapshot, id entry.ID, since revision.Frontier) (bool, error) {
	for id != catalog.Root {
		last, err := Written(ctx, s, id)
		if err != nil || !since.Covers(last) {
			return false, err
		}
		node, err := s.Node(ctx, id)
		if err != nil || node == nil {
			return false, err
		}
		id = node.Parent
	}
	return true, nil
}
