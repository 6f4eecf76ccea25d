package txn

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"sync"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Change numbers count the changes of decided commits, in the order of the commits'
// revisions. No commit stores its number: the number at a revision is that of an earlier mark
// (journal.Mark), plus the changes of the commits in between. Decided commits are the same on
// every server, so all servers count the same, whoever writes a mark. Who counts many commits
// writes marks, so that later counts are short. Before a collection removes commits from the
// journal, it moves the first mark to its horizon. Counting begins when a number is first asked
// for. Until then it costs nothing.

// markEvery is the number of commits between two marks.
const markEvery = 256

// numbering holds the marks that a server knows.
type numbering struct {
	db    *DB
	mu    sync.Mutex
	marks []journal.Mark // in order
}

// A Numbered is a position in the sequence of changes: the commits after Revision have the
// numbers after Number.
type Numbered = journal.Mark

// NumberAt returns the number of the last change of the commits up to r, as far as they are
// decided. If r is below the first mark, it returns the number at that mark.
func (x *numbering) NumberAt(ctx context.Context, r table.Revision) (uint64, error) {
	m, err := x.count(ctx,
		func(m journal.Mark) bool { return m.Revision <= r },
		func(_ uint64, rec *journal.Record) bool { return rec.Revision > r })
	return m.Number, err
}

// NumberedAfter returns a position before the first commit that has a change with a number
// greater than n.
func (x *numbering) NumberedAfter(ctx context.Context, n uint64) (Numbered, error) {
	return x.count(ctx,
		func(m journal.Mark) bool { return m.Number <= n },
		func(before uint64, rec *journal.Record) bool { return before+rec.Weight() > n })
}

// count counts from the last mark for which fits is true up to the first commit for which
// stop is true. It counts again if a collection may have removed some of the commits.
func (x *numbering) count(ctx context.Context, fits func(journal.Mark) bool, stop func(before uint64, rec *journal.Record) bool) (journal.Mark, error) {
	for {
		marks, err := x.knownMarks(ctx)
		if err != nil {
			return journal.Mark{}, err
		}
		from := marks[max(0, sort.Search(len(marks), func(i int) bool { return !fits(marks[i]) })-1)]
		at, err := x.countFrom(ctx, from, stop)
		if err != nil {
			return at, err
		}
		first, err := x.db.log.FirstMark(ctx)
		if err != nil || first == nil || first.Revision <= from.Revision {
			return at, err
		}
	}
}

// countFrom counts from a mark, and writes further marks.
func (x *numbering) countFrom(ctx context.Context, m journal.Mark, stop func(uint64, *journal.Record) bool) (journal.Mark, error) {
	s, err := x.db.Decided(ctx)
	if err != nil {
		return m, err
	}
	defer s.Close()
	passed := 0
	for rec, err := range s.CommitsAfter(ctx, m.Revision) {
		if err != nil {
			return m, err
		}
		if stop(m.Number, rec) {
			break
		}
		m = journal.Mark{Revision: rec.Revision, Number: m.Number + rec.Weight()}
		if passed++; passed%markEvery == 0 {
			x.note(ctx, m)
		}
	}
	return m, nil
}

// note keeps a mark for later counts. It matters to nobody if the mark cannot be written now.
func (x *numbering) note(ctx context.Context, m journal.Mark) {
	if !x.db.o.ReadOnly && x.db.log.SetMark(ctx, m) != nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if i, known := slices.BinarySearchFunc(x.marks, m.Revision, compareMark); !known {
		x.marks = slices.Insert(slices.Clone(x.marks), i, m)
	}
}

func compareMark(m journal.Mark, r table.Revision) int { return m.Revision.Compare(r) }

// knownMarks returns the first mark and the later ones, in order.
func (x *numbering) knownMarks(ctx context.Context) ([]journal.Mark, error) {
	first, err := x.db.log.FirstMark(ctx)
	if err == nil && first == nil {
		first, err = x.beginNumbers(ctx)
	}
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	i, found := slices.BinarySearchFunc(x.marks, first.Revision, compareMark)
	if found {
		i++
	}
	x.marks = append([]journal.Mark{*first}, x.marks[i:]...)
	more, err := x.db.log.Marks(ctx, x.marks[len(x.marks)-1].Revision, revision.Last-1)
	x.marks = append(x.marks, more...)
	return x.marks, err
}

// beginNumbers begins to count at the oldest commit that is kept.
func (x *numbering) beginNumbers(ctx context.Context) (*journal.Mark, error) {
	if x.db.o.ReadOnly {
		return nil, fmt.Errorf("%w: it cannot begin to number changes; ask a server that writes for them once", ErrReadOnly)
	}
	if _, err := x.db.log.MoveFirstMark(ctx, nil, journal.Mark{Revision: x.db.Horizon()}); err != nil {
		return nil, err
	}
	return x.db.log.FirstMark(ctx)
}

// keepNumbers moves the first mark to the horizon of a collection, which may then remove the
// commits up to the horizon from the journal.
func (x *numbering) keepNumbers(ctx context.Context, horizon table.Revision) error {
	for {
		first, err := x.db.log.FirstMark(ctx)
		if err != nil || first == nil || first.Revision >= horizon {
			return err
		}
		if _, decided := x.db.Bounds(); decided < horizon {
			return fmt.Errorf("%w: %s is not decided yet", ErrConflict, horizon)
		}
		n, err := x.NumberAt(ctx, horizon)
		if err != nil {
			return err
		}
		moved, err := x.db.log.MoveFirstMark(ctx, first, journal.Mark{Revision: horizon, Number: n})
		if err != nil {
			return err
		}
		if moved {
			return x.db.log.ForgetMarks(ctx, first.Revision, horizon)
		}
	}
}
