package search

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/index/plan"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// A search for the entries that were modified or created since a time needs no index: the journal
// names the entries that commits changed. The time of a commit is not before the stamps that the
// server writes in it. So an entry whose stamp is at or after a time was changed by a commit at or
// after that time, or its stamp was in the future when it was written. catalog.Ahead lists the
// latter. The candidates that are found in this way must be tested against the filter.

// journalMark is the first byte of each position of a search that takes its candidates from the
// journal. An id follows. No other position has this length and begins with journalMark: see
// walkMark. Positions of a scan are rows of the tree, which are longer.
const journalMark = 'j'

// maxChanged bounds the number of commits and of their entries that a search reads from the journal.
const maxChanged = 1 << 16

// changed is what the journal answers to a test.
type changed struct {
	test *filter.Test
	ids  []entry.ID // sorted
}

// describe describes c as the source of candidates instead of an access, which may be nil.
func (c *changed) describe(b *strings.Builder, insteadOf plan.Access) {
	fmt.Fprintf(b, "entries that the journal names: %s (%d candidates)", c.test, len(c.ids))
	if insteadOf == nil {
		b.WriteByte('\n')
		return
	}
	b.WriteString(", which are fewer than\n")
	insteadOf.Describe(b, 1, false)
}

// stampTest returns the test with the latest time of those that the journal can answer and that
// the filter implies. It returns nil if there is none. It ignores attributes that have an index.
func stampTest(f filter.Resolved, c *catalog.Catalog) (latest *filter.Test, since time.Time) {
	switch f := f.(type) {
	case *filter.AndNode:
		for _, p := range f.Parts {
			if t, at := stampTest(p, c); t != nil && (latest == nil || at.After(since)) {
				latest, since = t, at
			}
		}
	case *filter.Test:
		if f.Op != filter.TestGreaterOrEqual || !f.ByKey || f.DNAttrs || len(f.Types) != 1 {
			return nil, since
		}
		t := f.Types[0]
		if _, indexed := c.Indexed(t); indexed || t != c.ModifyTimestamp && t != c.CreateTimestamp {
			return nil, since
		}
		at, err := schema.Time(append(bytes.Clone(f.Key), 'Z')) // a key is a time without its zone
		if err != nil {
			return nil, since
		}
		return f, at
	}
	return latest, since
}

// prefersJournal reports whether the search should take its candidates from the journal, and finds
// them. If Query.After is set, prefersJournal reports whether that position has a journalMark, and
// removes the mark. The results before that position were in the order of ids. If the journal cannot
// answer any more, the candidates are all entries in that order. If a read fails, the search
// continues without the journal and meets the same error.
func (f *finder) prefersJournal(ctx context.Context) bool {
	after := f.q.After
	if len(after) > 0 && (len(after) != 1+len(entry.ID{}) || after[0] != journalMark) {
		return false
	}
	t, since := stampTest(f.q.Filter, f.s.Catalog)
	if len(after) > 0 {
		f.q.After = after[1:]
		if t != nil {
			f.changed = f.changedSince(ctx, t, since, 4)
		}
		return true
	}
	if t == nil || f.access != nil && !f.exceeds(ctx, alwaysUsed) {
		return false
	}
	c := f.changedSince(ctx, t, since, 1)
	if c == nil || len(c.ids) > alwaysUsed && f.access != nil && !f.exceeds(ctx, len(c.ids)) || f.hasFewer(ctx, len(c.ids)) {
		return false
	}
	f.changed = c
	return true
}

// exceeds reports whether the access has more than n candidates.
func (f *finder) exceeds(ctx context.Context, n int) bool {
	if plan.IsSelective(f.access) {
		return false
	}
	long, err := exceeds(ctx, f.s, f.q, f.lists, n)
	return err == nil && long
}

// hasFewer reports whether the scope has fewer than n entries. If that is not known, hasFewer
// returns false only for a small n. The subtree of a naming context counts as large.
func (f *finder) hasFewer(ctx context.Context, n int) bool {
	if f.q.Base == catalog.Root {
		return false
	}
	if node, err := f.s.Node(ctx, f.q.Base); f.q.Scope != op.SingleLevel && (err != nil || node == nil || node.Parent == catalog.Root) {
		return false
	}
	in, known, err := f.s.Subordinates(ctx, false, f.q.Base)
	switch {
	case err != nil || !known:
		return n > alwaysUsed
	case f.q.Scope == op.SingleLevel:
		return in[0].Children < int64(n)
	}
	return in[0].All < int64(n)
}

// takeByID offers the candidates in the order of their ids.
func (f *finder) takeByID(ctx context.Context) {
	offer := func(id entry.ID) bool {
		return bytes.Compare(id[:], f.q.After) <= 0 || f.offer(ctx, index.Candidate{ID: id, Maybe: true, Position: id[:]})
	}
	if f.changed != nil {
		for _, id := range f.changed.ids {
			if !offer(id) {
				return
			}
		}
		f.flush(ctx)
		return
	}
	all := table.Range{Start: f.q.After}
	for row, err := range f.s.Reader.Scan(ctx, f.s.Partition.Master, all, table.Select{Families: []table.Family{master.TreeInfo}}) {
		if err != nil {
			f.fail(err)
			return
		}
		if len(row.Key) == len(entry.ID{}) && !offer(entry.ID(row.Key)) {
			return
		}
	}
	f.flush(ctx)
}

// changedSince returns the entries that may have a stamp at or after a time. It returns nil in a
// branch, in a transaction, while the stamps in the future are not known, and if commits since that
// time were removed from the journal, changed too much to be listed, or are so many that a scan is
// probably faster. The argument times multiplies the number that counts as too many.
//
// The state may be one of the past. An entry may have had a stamp in the future there, which a later
// commit replaced. So changedSince also considers the commits after the state.
func (f *finder) changedSince(ctx context.Context, t *filter.Test, since time.Time, times int) *changed {
	k := f.s.Partition
	if _, tx := f.s.Reader.(*txn.Tx); tx || f.s.At.InBranch() {
		return nil
	}
	ahead := k.Ahead.Load()
	if ahead == nil {
		seekAhead(k)
		return nil
	}
	now := state.Newest(k)
	defer now.Close()
	most := times * min(max(ahead.Entries, alwaysUsed), maxChanged)
	from := min(revision.At(since.Add(-time.Millisecond)), f.s.At.Decided(), ahead.UpTo)
	c := &changed{test: t}
	var unknown []entry.ID // ids of commits that ahead does not consider
	read := 0
	for rec, err := range now.At.Since(ctx, from) {
		old := rec != nil && rec.Revision <= ahead.UpTo
		if err == nil && !rec.AllChanged && read+len(rec.IDs) < most {
			read += 1 + len(rec.IDs)
			c.ids = append(c.ids, rec.IDs...)
			if !old {
				unknown = append(unknown, rec.IDs...)
			}
			continue
		}
		// If the reason is not that the time is too long ago, find the stamps again.
		passed := new(txn.HorizonError)
		stale := errors.As(err, &passed) && ahead.UpTo < passed.Horizon ||
			err == nil && !old && (rec.AllChanged || len(unknown)+len(rec.IDs) >= most/2)
		if stale && ahead.UpTo < now.At.Decided() {
			k.Ahead.CompareAndSwap(ahead, nil)
		}
		return nil
	}
	if len(unknown) > 0 {
		next, err := learnAhead(ctx, now, ahead, unknown)
		if err != nil {
			return nil
		}
		k.Ahead.CompareAndSwap(ahead, next)
		ahead = next
	}
	for id, latest := range ahead.Latest {
		if !latest.Before(since) {
			c.ids = append(c.ids, id)
		}
	}
	slices.SortFunc(c.ids, entry.ID.Compare)
	c.ids = slices.Compact(c.ids)
	return c
}

// Learn finds the stamps in the future if a query needs them and they are not known. Without Learn,
// the first such query begins to find them in the background and runs without the journal.
func Learn(ctx context.Context, s *state.Snapshot, q Query) error {
	if t, _ := stampTest(q.Filter, s.Catalog); t == nil || s.Partition.Ahead.Load() != nil {
		return nil
	}
	return findAhead(ctx, s.Partition)
}

// seekAhead begins to find the stamps in the future.
func seekAhead(k *catalog.Partition) {
	if !k.SeekingAhead.CompareAndSwap(false, true) {
		return
	}
	k.Following.Go(func() {
		defer k.SeekingAhead.Store(false)
		if err := findAhead(context.Background(), k); err != nil && err != errEnded {
			k.Log.Warn("searches by modifyTimestamp and createTimestamp read all entries, because finding the stamps in the future failed", "error", err)
		}
	})
}

var errEnded = errors.New("the directory was closed")

// findAhead reads the stamps of all entries.
func findAhead(ctx context.Context, k *catalog.Partition) error {
	s := state.Newest(k)
	defer s.Close()
	a := &catalog.Ahead{UpTo: s.At.Decided(), Latest: map[entry.ID]time.Time{}}
	for row, err := range s.Reader.Scan(ctx, k.Master, table.Range{}, selectStamps(s)) {
		if err != nil {
			return err
		}
		select {
		case <-k.Ended:
			return errEnded
		default:
		}
		a.Entries++
		addAhead(a, row)
	}
	k.Ahead.Store(a)
	return nil
}

// learnAhead returns what is known at a state, after commits that changed the entries with the
// given ids.
func learnAhead(ctx context.Context, s *state.Snapshot, before *catalog.Ahead, ids []entry.ID) (*catalog.Ahead, error) {
	a := &catalog.Ahead{UpTo: max(before.UpTo, s.At.Decided()), Latest: maps.Clone(before.Latest), Entries: before.Entries}
	horizon := s.Partition.DB.Horizon().Time() // the journal answers for no time before it
	maps.DeleteFunc(a.Latest, func(_ entry.ID, latest time.Time) bool { return latest.Before(horizon) })
	for part := range slices.Chunk(ids, largeBatch) {
		keys := make([][]byte, len(part))
		for i := range part {
			keys[i] = master.Row(part[i])
		}
		rows, err := s.Reader.GetMany(ctx, s.Partition.Master, keys, selectStamps(s))
		if err != nil {
			return nil, err
		}
		for i, row := range rows {
			row.Key = keys[i]
			addAhead(a, row)
		}
	}
	return a, nil
}

// selectStamps selects the stamps in a row of master, under all options.
func selectStamps(s *state.Snapshot) table.Select {
	sel := table.Select{Families: []table.Family{master.UpAttributes}}
	for _, t := range []*schema.AttributeType{s.Catalog.CreateTimestamp, s.Catalog.ModifyTimestamp} {
		sel.Columns = append(sel.Columns, master.AnyOptions(t)...)
	}
	return sel
}

// addAhead adds an entry if a stamp in its row is in the future of the commit that wrote it.
func addAhead(a *catalog.Ahead, row table.Row) {
	for i := range row.Cells {
		c := &row.Cells[i]
		at, err := schema.Time(c.Value)
		if err == nil && at.After(c.Revision.Time()) && at.After(a.Latest[entry.ID(row.Key)]) {
			a.Latest[entry.ID(row.Key)] = at
		}
	}
}
