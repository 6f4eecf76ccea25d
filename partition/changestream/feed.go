package changestream

import (
	"context"
	"iter"

	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Change is one commit, as the journal records it.
type Change struct {
	Revision table.Revision
	// All is set if the commit changed too many entries to list (for example, an import).
	All bool
	// Renames is set if entries were renamed. Then the names of all entries below them
	// changed too.
	Renames bool
	// IDs are the ids that the commit touched, in the order of the commit. If All is not set,
	// they are the ids of all entries that the commit changed, and some ids that belong to no
	// entry. Effects returns the effect on each entry.
	IDs []entry.ID
	// Message records the author and the operations of the commit: see
	// write.ParseMessage.
	Message []byte
	// First and Last are the numbers of the first and the last change of the commit. Only
	// Numbered sets them.
	First, Last uint64
}

// Frontier returns the frontier of a snapshot. Any server of the store can later stream
// the changes after the frontier.
func Frontier(ctx context.Context, s *state.Snapshot) (revision.Frontier, error) {
	return s.At.Frontier(ctx)
}

// ShownChanges streams the commits that the snapshot shows and that are after a frontier, in
// causal order. A reader may stop early and continue later, from the frontier that
// [revision.Frontier.With] returns for the last revision that it has read. AtFrontier returns
// the state at such a frontier.
func Shown(ctx context.Context, s *state.Snapshot, after revision.Frontier) iter.Seq2[*Change, error] {
	return toChanges(s.At.Commits(ctx, after))
}

// Changes streams the commits after a frontier, and then future commits when they become
// visible, until ctx ends. No commits are queued for readers, and commits do not wait for
// readers.
func Stream(ctx context.Context, p *catalog.Partition, after revision.Frontier) iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		for {
			next := Next(p)
			s := state.Newest(p)
			for c, err := range Shown(ctx, s, after) {
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

// Next returns a channel that is closed when a newer state may exist. A caller must call
// Next before it takes the snapshot in which it looks for changes.
func Next(p *catalog.Partition) <-chan struct{} { return p.DB.Next() }

// AtFrontier returns the state at a frontier. The caller must close it.
func AtFrontier(ctx context.Context, p *catalog.Partition, f revision.Frontier) (*state.Snapshot, error) {
	s, err := p.DB.AtFrontier(ctx, f)
	if err != nil {
		return nil, err
	}
	return state.Of(ctx, p, s)
}

// Follows returns nil if the journal contains all commits after a frontier. The error is
// txn.ErrForgotten if the journal no longer contains them, and txn.ErrForeign if the
// frontier belongs to another directory.
func Follows(ctx context.Context, p *catalog.Partition, f revision.Frontier) error {
	return p.DB.Follows(ctx, f)
}

// An Effect describes how an entry differs between two states.
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
	Moved // has another RDN or parent, and perhaps other changes
)

// Effects streams how the entries with the given ids differ between two states, in the order of
// the argument ids. It omits an id if neither state has an entry with this id. It does not
// compare attributes: an entry that both states have, with the same RDN and parent, is
// Modified.
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

// Within reports whether an entry is in the subtree of the entry base.
func Within(ctx context.Context, s *state.Snapshot, id, base entry.ID) (bool, error) {
	for id != base {
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

// Written returns the commit that last changed an entry, or 0 if no commit has. It ignores
// changes of hot attributes.
func Written(ctx context.Context, s *state.Snapshot, id entry.ID) (last table.Revision, err error) {
	// Every other change of an entry sets its entryCSN.
	csn := master.Columns(s.Catalog.Types.EntryCSN, "")
	row, err := s.Reader.Get(ctx, s.Partition.Master, master.Row(id), table.Select{
		Families: []table.Family{master.TreeInfo, master.UpAttributes}, Columns: []table.ColumnRange{csn}})
	for _, c := range row.Cells {
		last = max(last, c.Revision)
	}
	return last, err
}

// Unmoved reports whether no commit after a frontier changed an entry or any of its
// ancestors. Then the entry has the same name as at the frontier.
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

// Numbers returns the numbers of the first and of the last change that Numbered streams. If
// there is none, last is first-1.
func Numbers(ctx context.Context, p *catalog.Partition) (first, last uint64, err error) {
	begin, end := p.DB.Bounds()
	if first, err = NumberAt(ctx, p, begin-1); err != nil {
		return 0, 0, err
	}
	last, err = NumberAt(ctx, p, end)
	return first + 1, last, err
}
