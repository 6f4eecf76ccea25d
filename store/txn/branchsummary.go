package txn

import (
	"context"
	"encoding/binary"
	"iter"
	"slices"

	"github.com/bits-and-blooms/bloom/v3"

	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A branchSummary is what a merge has to know about the commits in a branch, on a store
// of one server. Each commit in the branch extends the summary, so a merge need not read
// the branch's records, however many there are. The summary is kept in memory, and its
// filters take a few octets for each mark and each id. After a restart, the first caller
// that needs the summary reads the records.
type branchSummary struct {
	incarnation uint64
	upTo        table.Revision // the summary contains the commits up to this revision

	marks   filter // the markKeys of all marks
	changed filter // the ids that the records list
	ids     gathered[entry.ID]
	keys    gathered[uint64]
	all     bool // the fields ids and keys do not list everything that the branch changed
	hidden  map[string][][]byte
}

func newBranchSummary(c *revision.Cell) *branchSummary {
	s := &branchSummary{incarnation: c.Incarnation, upTo: c.First, hidden: map[string][][]byte{}}
	s.ids.most, s.keys.most = journal.MaxIDs, journal.MaxKeys
	return s
}

// summary returns the summary of a branch whose cell is c. The caller holds x.changing.
func (x *embeddedBrancher) summary(ctx context.Context, slot revision.Slot, c *revision.Cell) (*branchSummary, error) {
	s := x.summaries[slot]
	if s == nil || s.incarnation != c.Incarnation {
		s = newBranchSummary(c)
		x.summaries[slot] = s
	}
	for rec, err := range x.e.db.log.Scan(ctx, slot, s.upTo, c.Head) {
		if err == nil {
			err = s.add(&rec)
		}
		if err != nil {
			delete(x.summaries, slot)
			return nil, err
		}
	}
	return s, nil
}

// extend adds a commit to the summary of its branch. before is the branch's cell before the
// commit.
func (x *embeddedBrancher) extend(slot revision.Slot, before *revision.Cell, rec *journal.Record) {
	s := x.summaries[slot]
	if before.Head == before.First {
		s = newBranchSummary(before)
		x.summaries[slot] = s
	}
	if s == nil || s.incarnation != before.Incarnation || s.upTo != before.Head {
		return // the method summary reads the missing records when they are needed
	}
	if s.add(rec) != nil {
		delete(x.summaries, slot)
	}
}

// add adds the next commit of the branch to the summary.
func (s *branchSummary) add(rec *journal.Record) error {
	marks, err := notesOf(rec)
	if err != nil {
		return err
	}
	var buf [2]markKey
	for _, m := range marks {
		for _, k := range m.sets(&buf) {
			s.marks.add(k.append(nil))
		}
	}
	for _, id := range rec.IDs {
		s.changed.add(id[:])
	}
	s.ids.add(rec.IDs)
	s.keys.add(rec.Keys)
	s.all = s.all || rec.AllChanged || s.ids.full() || s.keys.full()
	addRows(s.hidden, rec.Hidden)
	s.upTo = rec.Revision
	return nil
}

// mayMeet reports whether a mark conflicts with a mark of the branch. In rare cases it
// returns true although there is no such mark.
func (s *branchSummary) mayMeet(m placed) bool {
	var buf [4]markKey
	return slices.ContainsFunc(m.meets(&buf), func(k markKey) bool { return s.marks.mayHave(k.append(nil)) })
}

func (x *embeddedBrancher) mayHaveChanged(ctx context.Context, b *Branch, ids iter.Seq[entry.ID]) (found []entry.ID, err error) {
	err = x.run(ctx, func() error {
		c, err := x.current(b)
		if err != nil {
			return err
		}
		s, err := x.summary(ctx, b.slot, &c)
		if err != nil {
			return err
		}
		for id := range ids {
			if s.changed.mayHave(id[:]) {
				found = append(found, id)
			}
		}
		return nil
	})
	return found, err
}

// addRows adds rows to the keys of each table.
func addRows(keys map[string][][]byte, rows []table.Rows) {
	for _, t := range rows {
		keys[t.Table] = append(keys[t.Table], t.Keys...)
	}
}

// append encodes a markKey.
func (k markKey) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, k.row)
	return binary.BigEndian.AppendUint64(append(b, k.class), k.hash)
}

// A filter is a set that grows and that has no way to list its elements. It consists of
// Bloom filters, each twice as large as the one before.
type filter struct {
	parts []*bloom.BloomFilter
	room  uint // how many more elements the last part takes
	next  uint // how many elements the next part takes
}

// mayHave returns true for each element, and for about one other value in 100,000.
func (f *filter) mayHave(b []byte) bool {
	return slices.ContainsFunc(f.parts, func(p *bloom.BloomFilter) bool { return p.Test(b) })
}

func (f *filter) add(b []byte) {
	if f.mayHave(b) {
		return
	}
	if f.room == 0 {
		f.next = max(2*f.next, 1<<10)
		f.parts, f.room = append(f.parts, bloom.NewWithEstimates(f.next, 1e-6)), f.next
	}
	f.parts[len(f.parts)-1].Add(b)
	f.room--
}
