package changestream

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// The journal is read forwards, so NewestFirst reads it in windows of change numbers, the last
// window first. The windows grow, so that the first changes need few reads.
const (
	firstWindow = 32
	lastWindow  = 512
)

// NewestFirst streams the commits that Numbered streams, the newest first. It begins with the commit
// that has the change number upTo, or else with the last commit that the snapshot shows. The snapshot
// must be settled: see Settled.
func NewestFirst(ctx context.Context, s *state.Snapshot, upTo uint64) iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		newest, err := s.Partition.DB.NumberAt(ctx, s.Revision())
		if err != nil {
			yield(nil, err)
			return
		}
		upTo = min(upTo, newest)
		for window := uint64(firstWindow); upTo > 0; window = min(2*window, lastWindow) {
			commits, err := numberedUpTo(ctx, s, upTo-min(window, upTo), upTo)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, c := range slices.Backward(commits) {
				if !yield(c, nil) {
					return
				}
			}
			if len(commits) == 0 {
				return
			}
			upTo = commits[0].First - 1
		}
	}
}

// numberedUpTo returns the commits that have changes with numbers in (after, upTo].
func numberedUpTo(ctx context.Context, s *state.Snapshot, after, upTo uint64) (commits []*Change, err error) {
	for c, err := range Numbered(ctx, s, after) {
		if err != nil {
			return nil, err
		}
		if c.First > upTo {
			break
		}
		commits = append(commits, c)
	}
	return commits, nil
}

// NewestOf streams the commits that changed one entry, the newest first. It begins with the commit
// that has the change number upTo, or with the newest before it. It leaves out commits that changed
// too many entries to list, erasures, and what is older than the horizon. Each commit costs a number
// of reads that depends neither on the size of the journal nor on the number of other commits.
//
// The snapshot must be settled: see Settled.
func NewestOf(ctx context.Context, s *state.Snapshot, id entry.ID, upTo uint64) iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		err := newestOf(ctx, s, id, upTo, func(c *Change) bool { return yield(c, nil) })
		if passed := new(txn.HorizonError); err != nil && !errors.As(err, &passed) {
			yield(nil, err)
		}
	}
}

func newestOf(ctx context.Context, s *state.Snapshot, id entry.ID, upTo uint64, yield func(*Change) bool) error {
	p, db := s.Partition, s.Partition.DB
	at := s.Revision()
	if last, err := db.NumberAt(ctx, at); err != nil {
		return err
	} else if upTo < last {
		for c, err := range Numbered(ctx, s, max(upTo, 1)-1) {
			if err != nil {
				return err
			}
			at = c.Revision
			break
		}
	}
	for {
		before, err := state.At(ctx, p, at)
		if err != nil {
			return err
		}
		r, err := Changed(ctx, before, id)
		before.Close()
		if err != nil || r <= db.Horizon() {
			return err
		}
		rec, err := db.Record(ctx, r)
		if err != nil {
			return err
		}
		c := CommitOf(&rec)
		if c.First, err = db.NumberAt(ctx, r-1); err != nil {
			return err
		}
		c.Last = c.First + rec.Weight()
		c.First++
		if rec.State == journal.Committed && !c.All && c.First <= c.Last && !yield(c) {
			return nil
		}
		at = r - 1
	}
}

// Changed returns the first revision that shows the last change of an entry, or 0 if nothing is known
// of a change.
func Changed(ctx context.Context, s *state.Snapshot, id entry.ID) (table.Revision, error) {
	r, err := Written(ctx, s, id)
	if r == 0 && err == nil {
		r, err = s.Deleted(ctx, id)
	}
	if r == 0 || err != nil {
		return 0, err
	}
	return s.At.ShownBy(r), nil
}
