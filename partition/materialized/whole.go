package materialized

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/cache"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// whole computes the parts of a lane from all entries of a state and passes them to the
// function take, which must not keep the map. A list may have millions of rows, so whole calls
// the function several times, each time with other rows. If most is not zero, whole examines at
// most this many entries. It calls meanwhile() after every lookEvery entries.
func (l lane) whole(ctx context.Context, d *Definition, s *state.Snapshot, most int, meanwhile func(), take func(parts) error) error {
	if d.Kind == Subordinates {
		ps, err := wholeTree(ctx, s, meanwhile)
		if err != nil {
			return err
		}
		return take(ps)
	}
	base, err := d.baseIn(ctx, s)
	if err != nil {
		return err
	}
	w := &wholeView{lane: l, d: d, s: s, base: base, meanwhile: meanwhile, take: take, ps: parts{}}
	if base == noID {
		return w.take(w.ps)
	}
	if most == 0 {
		if done, err := w.scan(ctx); done || err != nil {
			return err
		}
		w.ps = parts{}
	}
	return w.search(ctx, most)
}

// A wholeView computes the parts of a lane from all entries of a state.
type wholeView struct {
	lane
	d         *Definition
	s         *state.Snapshot
	base      entry.ID
	meanwhile func()
	take      func(parts) error

	ps parts
	n  int // number of entries and rows examined
}

// look counts an entry or a row, and calls meanwhile from time to time.
func (w *wholeView) look() {
	if w.n++; w.n%lookEvery == 0 {
		w.meanwhile()
	}
}

// add adds the parts of an entry of the base's subtree. It reports whether the entry is in the
// view.
func (w *wholeView) add(e *entry.Entry) (in bool, err error) {
	if w.d.filter.Match(&filter.EntrySource{Schema: w.s.Catalog.Schema, Entry: e}) != filter.True {
		return false, nil
	}
	if !w.has(e.ID) {
		return true, nil
	}
	w.d.giveEntry(e, 1, w.ps)
	if w.d.Kind != List || len(w.ps) <= writeRows {
		return true, nil
	}
	// Hold back the row that counts entries with several values, so that it is written only
	// once, with the last rows.
	several := w.ps[string(severalRow)]
	delete(w.ps, string(severalRow))
	if err := w.take(w.ps); err != nil {
		return true, err
	}
	clear(w.ps)
	if several != nil {
		w.ps[string(severalRow)] = several
	}
	return true, nil
}

// search finds the entries of the view by a search.
func (w *wholeView) search(ctx context.Context, most int) error {
	q := search.Query{Base: w.base, Scope: op.WholeSubtree, Filter: w.d.filter, Only: w.d.needs, Most: most}
	for r, err := range search.Search(ctx, w.s, q) {
		if err != nil {
			return err
		}
		w.look()
		if _, err := w.add(r.Entry); err != nil {
			return err
		}
	}
	return w.take(w.ps)
}

// A scan of the table master ends early if fewer than sampleHits of the first sampleRows rows
// are in the view.
const (
	sampleRows = 2000
	sampleHits = sampleRows / 5
)

// scan finds the entries of the view by a scan of the lane's rows of the table master.
// A search reads entry by entry, in the order of an index or of the tree, and takes longer for
// each entry than a scan. But if few entries are in the view, a search reads only these. So
// scan ends early and returns false if few of the first rows are in the view. In that case, it
// has not called w.take. The rows are sorted by id, so the first rows are a sample of all
// entries.
func (w *wholeView) scan(ctx context.Context) (done bool, err error) {
	s := *w.s
	s.Items = map[entry.ID]*cache.Item{} // remembers the superiors of the entries
	in := 0
	sel := table.Select{Families: state.WholeEntry, MaxCells: state.MaxColumns}
	without := s.Catalog.Cache.Without(w.d.needs, nil)
	without.Narrow(&sel)
	for row, err := range s.Reader.Scan(ctx, s.Partition.Master, w.rows(), sel) {
		if err != nil {
			return false, err
		}
		w.look()
		match, err := w.offer(ctx, &s, row, without)
		if err != nil {
			return false, err
		}
		if match {
			in++
		}
		if w.n == sampleRows && in < sampleHits {
			return false, nil
		}
	}
	return true, w.take(w.ps)
}

// offer adds the parts of an entry, given its row in the table master, if the entry is in the
// view. The row was read without some attributes. It reports whether the entry is in the view.
func (w *wholeView) offer(ctx context.Context, s *state.Snapshot, row table.Row, without *cache.Large) (in bool, err error) {
	id := entry.ID(row.Key)
	if id == catalog.SubschemaID {
		return false, nil
	}
	item, err := s.Decode(ctx, id, row, without)
	if err != nil || item == nil {
		return false, err
	}
	if in, err = s.Within(ctx, id, item.Node.Parent, w.base); err != nil || !in {
		return false, err
	}
	e, err := s.EntryOf(ctx, id, item, false, w.d.needs)
	if err != nil {
		return false, err
	}
	return w.add(e)
}
