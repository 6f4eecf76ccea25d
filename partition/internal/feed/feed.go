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

// A Change is one commit as recorded in the journal.
type Change struct {
	Revision table.Revision
	// All is set if too much changed to be named, as by an import.
	All bool
	// Renames is set if entries got other names, and with them all entries below.
	Renames bool
	// IDs are the ids that the commit touched, in its order: every entry that it
	// changed, and some ids of no entry. Effects returns what happened to each.
	IDs []entry.ID
	// Message records who did what: see write.ParseMessage.
	Message []byte
}

// Frontier returns the frontier of a snapshot, from which its changes can be continued
// later, on any server of the store.
func Frontier(ctx context.Context, s *state.Snapshot) (revision.Frontier, error) {
	return s.At.Frontier(ctx)
}

// ShownChanges streams the commits that the snapshot shows after a frontier, in causal
// order. The state after a change is AtFrontier of the frontier With its revision.
func ShownChanges(ctx context.Context, s *state.Snapshot, after revision.Frontier) iter.Seq2[*Change, error] {
	return toChanges(s.At.Commits(ctx, after))
}

// Changes streams the commits after a frontier, and then future ones as they come,
// until ctx ends. Nothing is kept for listeners, and commits do not wait for them.
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

// Next returns a channel that is closed when there may be a newer state. Call it before
// taking the snapshot that is examined for changes.
func Next(p *catalog.Keeper) <-chan struct{} { return p.DB.Next() }

// AtFrontier returns the state at a frontier. Close it.
func AtFrontier(ctx context.Context, p *catalog.Keeper, f revision.Frontier) (*state.Snapshot, error) {
	s, err := p.DB.AtFrontier(ctx, f)
	if err != nil {
		return nil, err
	}
	return state.Of(ctx, p, s)
}

// Follows returns nil if all changes since a frontier are still known. The error is
// txn.ErrForgotten if they are no longer kept, and txn.ErrForeign if the frontier is
// not of this directory.
func Follows(ctx context.Context, p *catalog.Keeper, f revision.Frontier) error {
	return p.DB.Follows(ctx, f)
}

// An Effect is how an entry differs between two states.
type Effect struct {
	ID   entry.ID
	Kind EffectKind
}

// An EffectKind is a kind of effect.
type EffectKind uint8

const (
	Added EffectKind = iota + 1
	Deleted
	Modified
	Moved // got another RDN or parent, and perhaps other attributes too
)

// Effects streams how entries differ between two states, in the order given. It leaves
// out ids without an entry in either state.
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

// Lookup reports whether a query finds one entry, and returns it like Search.
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

// Within reports whether an entry is equal to or below another one.
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

// Written returns the commit that last changed an entry, or 0 if there is none.
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

// Unmoved reports whether neither an entry nor any entry above it was changed after a
// frontier, so that its position is the same.
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
