package txn

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/seed-4dac0d86/ldapd/journal"
	"github.com/seed-4dac0d86/ldapd/revision"
	"github.com/seed-4dac0d86/ldapd/table"
)

// The change feed: a follower of all commits keeps a frontier, asks a snapshot for the
// commits beyond it, and waits for the next snapshot if there are none. The store keeps
// nothing for followers, so there may be any number of them, each as slow as it likes.
// A frontier is all that a follower needs to continue, on any server.

// Next returns a channel that is closed when a newer state than the current one can be
// read, or when there may never be one. Call it before Snapshot.
func (db *DB) Next() <-chan struct{} { return db.shown.Next() }

// Frontier returns, for each slot, the last commit up to which the snapshot shows all
// of the slot's commits.
func (s *Snapshot) Frontier(ctx context.Context) (revision.Frontier, error) {
	if err := s.unreadable(); err != nil {
		return nil, err
	}
	ends := s.ends()
	if s.view == nil && s.ordinal != 0 {
		return ends, nil // the head of the only server is a commit
	}
	var f revision.Frontier
	for _, end := range ends {
		r, err := s.db.frontiers.last(ctx, s, end)
		if err != nil {
			return nil, err
		}
		if r != 0 {
			f = append(f, r)
		}
	}
	return f, nil
}

// ends returns, for each slot, the revision up to which the snapshot shows everything.
// Renewed leases advance it even without commits.
func (s *Snapshot) ends() revision.Frontier {
	if s.view != nil {
		return s.view.Frontier().Until(s.max)
	}
	return revision.FrontierOf(onlySlot, s.max)
}

// Commits streams the commits that the snapshot shows and after does not cover, each
// with its record, in causal order. In each slot it ends before the first undecided
// commit.
func (s *Snapshot) Commits(ctx context.Context, after revision.Frontier) iter.Seq2[*journal.Record, error] {
	if err := s.unreadable(); err != nil {
		return func(yield func(*journal.Record, error) bool) { yield(nil, err) }
	}
	var changed []iter.Seq2[*journal.Record, error]
	for _, end := range s.ends() {
		if from := after.Of(revision.SlotOf(end)); from < end {
			changed = append(changed, s.commitsOf(ctx, from, end))
		}
	}
	switch len(changed) {
	case 0:
		return func(func(*journal.Record, error) bool) {}
	case 1:
		return changed[0]
	}
	return merged(changed)
}

// CommitsAfter streams the commits above r of all slots, in the order of revisions.
func (s *Snapshot) CommitsAfter(ctx context.Context, r table.Revision) iter.Seq2[*journal.Record, error] {
	var after revision.Frontier
	for _, end := range s.ends() {
		after = append(after, revision.FrontierOf(revision.SlotOf(end), r)...)
	}
	return s.Commits(ctx, after)
}

// commitsOf streams the commits of one slot in (after, upTo].
func (s *Snapshot) commitsOf(ctx context.Context, after, upTo table.Revision) iter.Seq2[*journal.Record, error] {
	return func(yield func(*journal.Record, error) bool) {
		for rec, err := range s.db.log.Scan(ctx, revision.SlotOf(upTo), after, upTo) {
			if err != nil {
				yield(nil, err)
				return
			}
			if rec.State == journal.Committed && s.Visible(rec.Revision) && !yield(&rec, nil) {
				return
			}
		}
	}
}

// merged merges streams in the order of revisions. The order is causal: a commit has a
// larger revision than all that it could have seen.
func merged(streams []iter.Seq2[*journal.Record, error]) iter.Seq2[*journal.Record, error] {
	return func(yield func(*journal.Record, error) bool) {
		type head struct {
			rec  *journal.Record
			next func() (*journal.Record, error, bool)
		}
		var heads []head
		for _, s := range streams {
			next, stop := iter.Pull2(s)
			defer stop()
			heads = append(heads, head{next: next})
		}
		for {
			for i := len(heads) - 1; i >= 0; i-- {
				if heads[i].rec != nil {
					continue
				}
				rec, err, ok := heads[i].next()
				if err != nil {
					yield(nil, err)
					return
				}
				heads[i].rec = rec
				if !ok {
					heads = slices.Delete(heads, i, i+1)
				}
			}
			if len(heads) == 0 {
				return
			}
			least := slices.MinFunc(heads, func(a, b head) int { return a.rec.Revision.Compare(b.rec.Revision) })
			for i := range heads {
				if heads[i].rec == least.rec {
					heads[i].rec = nil
				}
			}
			if !yield(least.rec, nil) {
				return
			}
		}
	}
}

// AtFrontier returns the state at a frontier: the commits up to it in each slot. If
// this server has not reached the frontier, which may come from another one, AtFrontier
// waits within bounds and then returns ErrRevision. If commits after the frontier are
// already below the horizon, it returns a HorizonError.
func (db *DB) AtFrontier(ctx context.Context, f revision.Frontier) (*Snapshot, error) {
	timeout := time.NewTimer(pastPatience)
	defer timeout.Stop()
	for {
		next := db.Next()
		if s := db.views.atFrontier(f); s != nil {
			return db.admitFrontier(ctx, s, f)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-next:
		case <-timeout.C:
			return nil, fmt.Errorf("%w: the newest of %d heads is not reached", ErrRevision, len(f))
		}
	}
}

// Follows returns nil if the journal still has all commits after a frontier. It looks
// for the commits that the frontier names, and returns ErrForgotten if they are older
// than what is kept, or ErrForeign if there are no such commits.
func (db *DB) Follows(ctx context.Context, f revision.Frontier) error {
	for _, r := range f {
		rec, err := db.log.State(ctx, r)
		if err != nil {
			return err
		}
		if rec.State != journal.Committed {
			return db.missing(ctx, r)
		}
	}
	return db.followsOthers(ctx, f)
}

// missing returns why the journal does not have the commit r of a frontier.
func (db *DB) missing(ctx context.Context, r table.Revision) error {
	slot := revision.SlotOf(r)
	for oldest, err := range db.log.Scan(ctx, slot, 0, r) {
		if err != nil {
			return err
		}
		return fmt.Errorf("%w: %s, between %s and the head", ErrForeign, r, oldest.Revision)
	}
	for _, err := range db.log.Scan(ctx, slot, r, revision.Last-1) {
		if err != nil {
			return err
		}
		return fmt.Errorf("%w: since %s", ErrForgotten, r)
	}
	return fmt.Errorf("%w: nothing of its slot is kept", ErrForeign)
}

// followsOthers checks the slots that a frontier does not name. They had no commits at
// the frontier, so the journal must have all of theirs. If one of their commits is
// below the horizon, earlier ones may be gone.
func (db *DB) followsOthers(ctx context.Context, f revision.Frontier) error {
	now := db.Snapshot()
	defer now.Close()
	horizon := db.Horizon()
	for _, end := range now.ends() {
		slot := revision.SlotOf(end)
		if f.Of(slot) != 0 {
			continue
		}
		for rec, err := range db.log.Backward(ctx, slot, 0, min(end, horizon)) {
			if err != nil {
				return err
			}
			if rec.State == journal.Committed {
				return fmt.Errorf("%w: slot %d has begun and gone on since", ErrForgotten, slot)
			}
		}
	}
	return nil
}

// frontiers caches the last commit up to an end of each slot. Leases advance ends
// without commits, and looking in the journal costs a round trip.
type frontiers struct {
	mu    sync.Mutex
	known map[revision.Slot]lastCommit
}

type lastCommit struct{ end, commit table.Revision }

// last returns the last commit of a slot that a snapshot shows, up to end, or 0 if none
// is kept.
func (f *frontiers) last(ctx context.Context, s *Snapshot, end table.Revision) (table.Revision, error) {
	slot := revision.SlotOf(end)
	f.mu.Lock()
	known := f.known[slot]
	f.mu.Unlock()
	if known.end == end {
		return known.commit, nil
	}
	after, commit := table.Revision(0), table.Revision(0)
	if known.end < end { // nothing was committed between known.commit and known.end
		after, commit = known.end, known.commit
	}
	for rec, err := range s.db.log.Backward(ctx, slot, after, end) {
		if err != nil {
			return 0, err
		}
		if rec.State == journal.Committed && s.Visible(rec.Revision) {
			commit = rec.Revision
			break
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil {
		f.known = map[revision.Slot]lastCommit{}
	}
	f.known[slot] = lastCommit{end, commit}
	return commit, nil
}
