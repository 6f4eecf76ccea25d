package txn

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// The change feed stores nothing about its followers. A follower of all commits keeps a
// frontier, reads the commits beyond the frontier from a snapshot, and waits for the next
// snapshot if there are no such commits. There may be any number of followers, and a
// follower may be as slow as it likes. A follower needs only its frontier to continue, on
// any server.

// Next returns a channel that is closed when a state newer than the current state can be
// read. The channel may also be closed without a newer state, for example after a failure
// of the store. Call Next before Snapshot.
func (db *DB) Next() <-chan struct{} { return db.shown.Next() }

// Frontier returns one revision for each slot that has commits. The snapshot shows the
// commit at that revision and all earlier commits of the slot.
func (s *Snapshot) Frontier(ctx context.Context) (revision.Frontier, error) {
	if err := s.unreadable(); err != nil {
		return nil, err
	}
	ends := s.ends()
	if !s.db.Shared() && s.ordinal != 0 {
		return ends, nil // on a store of one server the head is the revision of a commit
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

// ends returns, for each slot, the revision up to which the snapshot shows all commits. A
// renewed lease advances the end of its slot even if there are no commits.
func (s *Snapshot) ends() revision.Frontier {
	if s.view != nil {
		return s.view.Frontier().Until(s.max)
	}
	return revision.FrontierOf(revision.OnlySlot, s.max)
}

// Commits streams the records of the commits that the snapshot shows, except those that
// the given frontier covers. Instead of the commits of a branch it streams the merge. Each
// commit comes after all commits that it could have seen. In each slot the stream ends before
// the first undecided commit.
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

// CommitsAfter is like Commits, but streams the commits whose revisions are above r.
func (s *Snapshot) CommitsAfter(ctx context.Context, r table.Revision) iter.Seq2[*journal.Record, error] {
	var after revision.Frontier
	for _, end := range s.ends() {
		after = append(after, revision.FrontierOf(revision.SlotOf(end), r)...)
	}
	return s.Commits(ctx, after)
}

// Since streams the records of the commits above r that the snapshot shows, one slot after
// another. Unlike CommitsAfter, it continues behind undecided commits. If the journal may no
// longer contain all of the records, the stream ends with a HorizonError.
func (s *Snapshot) Since(ctx context.Context, r table.Revision) iter.Seq2[*journal.Record, error] {
	return func(yield func(*journal.Record, error) bool) {
		err := s.unreadable()
		switch {
		case err == nil && r >= s.max:
			return
		case err == nil:
			err = s.db.keepsJournal(ctx, r, false)
		}
		slots := []revision.Slot{revision.OnlySlot}
		if s.heads != nil {
			slots = s.heads.Slots()
		}
		for _, slot := range slots {
			if err != nil {
				break
			}
			if slot.IsBranch() {
				continue // the merge records what the branch changed
			}
			for rec, failed := range s.commitsOf(ctx, r, revision.Make(revision.Millis(s.max)+1, slot, 0)) {
				if err = failed; err != nil {
					break
				}
				if !yield(rec, nil) {
					return
				}
			}
		}
		if err == nil {
			err = s.db.keepsJournal(ctx, r, true)
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// commitsOf streams the commits of one slot whose revisions are in the interval (after,
// upTo].
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

// merged merges streams in the order of revisions. In this order a commit comes after
// every commit that it could have seen, because revisions grow.
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

// frontiers caches, for each slot, the last commit up to the slot's end (see Snapshot.ends).
// The cache saves round trips: renewed leases advance the ends even if nothing is committed,
// and each search of the journal costs a round trip.
type frontiers struct {
	db    *DB
	mu    sync.Mutex
	known map[revision.Slot]lastCommit
}

type lastCommit struct{ end, commit table.Revision }

// last considers the commits that a snapshot shows in one slot. The revision end belongs to
// that slot. last returns the newest of these commits that is not above end, or 0 if the
// journal contains no such commit.
func (x *frontiers) last(ctx context.Context, s *Snapshot, end table.Revision) (table.Revision, error) {
	slot := revision.SlotOf(end)
	x.mu.Lock()
	known := x.known[slot]
	x.mu.Unlock()
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
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.known == nil {
		x.known = map[revision.Slot]lastCommit{}
	}
	x.known[slot] = lastCommit{end, commit}
	return commit, nil
}

// AtFrontier returns the state at a frontier, which shows each slot's commits up to the
// frontier. A frontier of another server may be ahead of this server. In that case
// AtFrontier waits for a limited time and then returns ErrRevision. If commits after the
// frontier are already below the horizon, AtFrontier returns a HorizonError.
func (x *frontiers) AtFrontier(ctx context.Context, f revision.Frontier) (*Snapshot, error) {
	timeout := time.NewTimer(pastPatience)
	defer timeout.Stop()
	for {
		next := x.db.Next()
		if s := x.db.views.atFrontier(f); s != nil {
			return x.admitFrontier(ctx, s, f)
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

// admitFrontier registers s, the state at the frontier f, as in use. The commits that f
// names may be older than the horizon even if the commits after f are not. If nothing was
// committed between f and the horizon, the state at f equals the state at the horizon.
func (x *frontiers) admitFrontier(ctx context.Context, s *Snapshot, f revision.Frontier) (*Snapshot, error) {
	for {
		err := x.db.registry.admit(s)
		if err == nil {
			return s, nil
		}
		horizon := x.db.Horizon()
		silent, e := x.silent(ctx, f, horizon)
		if e != nil {
			return nil, e
		}
		if !silent {
			return nil, err
		}
		s.max, s.low = max(s.max, horizon), max(s.low, horizon)
	}
}

// silent reports whether nothing was committed after a frontier and up to a horizon. The
// journal keeps at least the last commit of each slot up to the horizon.
func (x *frontiers) silent(ctx context.Context, f revision.Frontier, horizon table.Revision) (bool, error) {
	now := x.db.Snapshot()
	defer now.Close()
	for _, end := range now.ends() {
		from := f.Of(revision.SlotOf(end))
		if from >= min(end, horizon) {
			continue
		}
		for rec, err := range x.db.log.Backward(ctx, revision.SlotOf(end), from, min(end, horizon)) {
			if err != nil {
				return false, err
			}
			if rec.State == journal.Committed && now.Visible(rec.Revision) {
				return false, nil
			}
		}
	}
	return true, nil
}

// Follows returns nil if the journal still contains all commits after a frontier. It
// looks in the journal for the commits that the frontier names. If such a commit is older
// than all commits of its slot that are kept, Follows returns ErrForgotten. If such a
// commit never existed, Follows returns ErrForeign.
func (x *frontiers) Follows(ctx context.Context, f revision.Frontier) error {
	for _, r := range f {
		rec, err := x.db.log.State(ctx, r)
		if err != nil {
			return err
		}
		if rec.State != journal.Committed {
			return x.missing(ctx, r)
		}
	}
	return x.followsOthers(ctx, f)
}

// missing returns the reason why the journal does not contain the commit r of a frontier.
func (x *frontiers) missing(ctx context.Context, r table.Revision) error {
	slot := revision.SlotOf(r)
	for oldest, err := range x.db.log.Scan(ctx, slot, 0, r) {
		if err != nil {
			return err
		}
		return fmt.Errorf("%w: %s, between %s and the head", ErrForeign, r, oldest.Revision)
	}
	for _, err := range x.db.log.Scan(ctx, slot, r, revision.Last-1) {
		if err != nil {
			return err
		}
		return fmt.Errorf("%w: since %s", ErrForgotten, r)
	}
	return fmt.Errorf("%w: nothing of its slot is kept", ErrForeign)
}

// followsOthers checks the slots that a frontier does not name. Such a slot had no
// commits at the frontier, so the journal must contain all commits of that slot. If one
// of these commits is below the horizon, earlier commits of the slot may have been
// removed.
func (x *frontiers) followsOthers(ctx context.Context, f revision.Frontier) error {
	now := x.db.Snapshot()
	defer now.Close()
	horizon := x.db.Horizon()
	for _, end := range now.ends() {
		slot := revision.SlotOf(end)
		if f.Of(slot) != 0 {
			continue
		}
		for rec, err := range x.db.log.Backward(ctx, slot, 0, min(end, horizon)) {
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
