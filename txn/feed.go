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

// The change feed: whoever wants to know of every commit keeps a frontier, asks a
// snapshot for the commits beyond it, and waits for the next snapshot when there
// are none. Nothing is kept for listeners, so there may be any number of them,
// each as slow as it likes; and a frontier is all it takes to go on elsewhere.

// Next returns a channel that is closed when a newer state than all so far can be
// had, or when there may never be one. Ask for it before the snapshot.
func (db *DB) Next() <-chan struct{} { return db.shown.Next() }

// Frontier is how far the snapshot has followed each slot, at commits: the last one
// of each slot that it shows with all before.
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

// ends is up to where the snapshot shows all of each slot. Leases move it on
// also where nothing is committed.
func (s *Snapshot) ends() revision.Frontier {
	if s.view != nil {
		return s.view.Frontier().Until(s.max)
	}
	return revision.FrontierOf(onlySlot, s.max)
}

// Commits streams the commits that the snapshot shows and after does not cover,
// each with its record, in an order that has every commit behind those it could
// know of. It ends at what is not yet decided of a slot.
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

// CommitsAfter is Commits beyond a revision of whatever slot, in the order of
// revisions.
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

// merged joins streams that are in the order of revisions, which is causal: a
// commit is larger than all that it could know of.
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

// AtFrontier returns the state at a frontier: what was committed up to it in each slot.
// A frontier that is not reached here, as on a server other than the one that told
// it, is waited for within bounds and is ErrRevision then. If what was committed
// behind it has fallen below the horizon, it is a HorizonError.
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

// Follows reports whether the journal still has all that came after a frontier, by
// looking for the commits that it names: ErrForgotten if they are older than what
// is kept, ErrForeign if there are no such commits.
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

// missing returns why the journal has no commit that a frontier names.
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

// followsOthers looks at the slots that a frontier does not name, since they had
// committed nothing then: all that they did since must be there. Once a commit of
// theirs is below the horizon nobody knows what was before it.
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

// frontiers remembers the last commit before an end of a slot: leases move ends on
// without commits, and looking in the journal costs a round trip.
type frontiers struct {
	mu    sync.Mutex
	known map[revision.Slot]lastCommit
}

type lastCommit struct{ end, commit table.Revision }

// last finds the last commit that a snapshot shows of a slot, not above end; 0
// if none is kept.
func (f *frontiers) last(ctx context.Context, s *Snapshot, end table.Revision) (table.Revision, error) {
	slot := revision.SlotOf(end)
	f.mu.Lock()
	known := f.known[slot]
	f.mu.Unlock()
	if known.end == end {
		return known.commit, nil
	}
	after, commit := table.Revision(0), table.Revision(0)
	if known.end < end { // nothing between it and its commit
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
