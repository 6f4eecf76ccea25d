// Package changes streams the commits of a directory in causal order or in the order of
// their revisions. It also streams the effects of commits on entries. A reader continues
// from the frontier of the last state that it has read.
package changes

import (
	"context"
	"iter"

	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/internal/changestream"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

type (
	// A Change is one commit.
	Change = changestream.Change
	// An Effect describes how commits changed one entry.
	Effect = changestream.Effect
	// An EffectKind is a kind of effect.
	EffectKind = changestream.EffectKind
)

// The kinds of effects.
const (
	Added    = changestream.Added
	Modified = changestream.Modified
	Moved    = changestream.Moved
	Deleted  = changestream.Deleted
)

// Stream streams the commits after a frontier and then waits for further commits.
func Stream(ctx context.Context, p *partition.Partition, after revision.Frontier) iter.Seq2[*Change, error] {
	return changestream.Changes(ctx, p.Keeper(), after)
}

// Shown streams the commits that a state shows and that are after a frontier. The commits of
// each server are in order. A reader may stop early and continue later. It must then call
// [revision.Frontier.With] with the last revision that it has read, and continue from the
// frontier that With returns.
func Shown(ctx context.Context, s *partition.Snapshot, after revision.Frontier) iter.Seq2[*Change, error] {
	return changestream.ShownChanges(ctx, s.State(), after)
}

// ShownAfter streams the commits that a state shows and that are newer than a revision,
// in the order of their revisions.
func ShownAfter(ctx context.Context, s *partition.Snapshot, r table.Revision) iter.Seq2[*Change, error] {
	return changestream.ChangesAfter(ctx, s.State(), r)
}

// Numbered streams the commits that a state of Settled shows and that have changes with numbers
// greater than n, in the order of their revisions. See [Change.First].
func Numbered(ctx context.Context, s *partition.Snapshot, n uint64) iter.Seq2[*Change, error] {
	return changestream.Numbered(ctx, s.State(), n)
}

// Numbers returns the numbers of the first and of the last change that Numbered streams. If
// there is none, last is first-1.
func Numbers(ctx context.Context, p *partition.Partition) (first, last uint64, err error) {
	begin, end := p.Keeper().DB.Bounds()
	if first, err = changestream.NumberAt(ctx, p.Keeper(), begin-1); err != nil {
		return 0, 0, err
	}
	last, err = changestream.NumberAt(ctx, p.Keeper(), end)
	return first + 1, last, err
}

// Known reports whether the journal still contains all commits that a state shows and
// that are newer than a revision.
func Known(s *partition.Snapshot, r table.Revision) bool { return changestream.Known(s.State(), r) }

// Effects streams how the entries with the given ids differ between two states. It does not
// compare attributes: an entry that both states have, with the same RDN and parent, is
// Modified.
func Effects(ctx context.Context, from, to *partition.Snapshot, ids []entry.ID) iter.Seq2[Effect, error] {
	return changestream.Effects(ctx, from.State(), to.State(), ids)
}

// Next returns a channel that is closed when a newer state may exist. A caller must call
// Next before it takes the snapshot in which it looks for changes.
func Next(p *partition.Partition) <-chan struct{} { return changestream.Next(p.Keeper()) }

// Frontier returns the frontier of a state. A reader of changes can continue from it.
func Frontier(ctx context.Context, s *partition.Snapshot) (revision.Frontier, error) {
	return changestream.Frontier(ctx, s.State())
}

// AtFrontier returns the state at a frontier. The caller must close it.
func AtFrontier(ctx context.Context, p *partition.Partition, f revision.Frontier) (*partition.Snapshot, error) {
	return partition.NewSnapshot(changestream.AtFrontier(ctx, p.Keeper(), f))
}

// Settled returns the newest state to which no server can add a commit any more. The
// caller must close it.
func Settled(ctx context.Context, p *partition.Partition) (*partition.Snapshot, error) {
	return partition.NewSnapshot(changestream.Settled(ctx, p.Keeper()))
}

// Follows returns an error if the journal does not contain all commits after a frontier, or if
// the frontier belongs to another directory.
func Follows(ctx context.Context, p *partition.Partition, f revision.Frontier) error {
	return changestream.Follows(ctx, p.Keeper(), f)
}

// Written returns the revision of the last commit that changed an entry, or 0 if no commit has.
// It ignores changes of hot attributes.
func Written(ctx context.Context, s *partition.Snapshot, id entry.ID) (table.Revision, error) {
	return changestream.Written(ctx, s.State(), id)
}

// Unmoved reports whether no commit after a frontier changed an entry or any of its
// ancestors. Then the entry has the same name as at the frontier.
func Unmoved(ctx context.Context, s *partition.Snapshot, id entry.ID, since revision.Frontier) (bool, error) {
	return changestream.Unmoved(ctx, s.State(), id, since)
}
