package search

import (
	"bytes"
	"context"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/index/plan"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/span"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// A rowTest tests a filter on rows of the tree. The columns of a row do not always decide the
// filter.
type rowTest struct {
	filter  filter.Resolved
	columns bool // the filter needs only keys, which the columns contain
	source  tree.Source
}

func newRowTest(f filter.Resolved) rowTest {
	return rowTest{filter: f, columns: !filter.NeedsValues(f)}
}

// candidate tests a row. If match is false, the entry of the row does not match the filter. If
// match and maybe are true, the row does not decide the filter, and the caller must test the
// entry.
func (t *rowTest) candidate(row table.Row) (match, maybe bool) {
	if t.filter == filter.Const(filter.True) {
		return true, false
	}
	if !t.columns {
		return true, true
	}
	t.source.Row, t.source.Unsure = row, false
	match = t.filter.Match(&t.source) == filter.True
	if t.source.Unsure {
		return true, true
	}
	return match, false
}

// selectRows selects the parts of a row that a scan of the tree needs. The engine may omit rows that
// do not match. With Query.Most all rows are counted, so none may be omitted, unless the entry
// above has so few entries below it that the scan cannot examine too many.
func (f *finder) selectRows(ctx context.Context, above entry.ID) table.Select {
	if f.q.Filter == filter.Const(filter.True) {
		return table.Select{Families: []table.Family{tree.TreeInfo}}
	}
	sel := table.Select{Families: []table.Family{tree.TreeInfo, tree.NormAttributes}}
	if f.permits(ctx, above) {
		sel.Filter = tree.Hint(f.q.Filter)
	}
	return sel
}

// permits reports whether Query.Most permits the search to examine all entries below an entry.
func (f *finder) permits(ctx context.Context, above entry.ID) bool {
	if f.q.Most == 0 {
		return true
	}
	ns, known, err := f.s.Subordinates(ctx, false, above)
	return known && err == nil && ns[0].All <= int64(f.q.Most)
}

// scan tests all rows in a range of the tree, and offers the entries in scope. All of them are below
// the entry above.
func (f *finder) scan(ctx context.Context, rows table.Range, above entry.ID) {
	sel := f.selectRows(ctx, above)
	if f.q.Filter == filter.Const(filter.True) {
		f.listed()
		sel.Expect = f.size
	}
	if f.scanRows(ctx, index.Continue(rows, f.q.After), sel) {
		f.flush(ctx)
	}
}

// scanRows is scan without the last flush. It returns false if the search must stop.
func (f *finder) scanRows(ctx context.Context, rows table.Range, sel table.Select) bool {
	test := newRowTest(f.q.Filter)
	for row, err := range f.s.Reader.Scan(ctx, f.s.Partition.Tree, rows, sel) {
		if err != nil {
			f.fail(err)
			return false
		}
		match, maybe := test.candidate(row)
		if !match {
			if !f.skip() {
				return false
			}
			continue
		}
		c := index.Candidate{Parent: tree.Parent(row.Key), Maybe: maybe, Position: row.Key}
		var ok bool
		if c.ID, ok = tree.ID(row); !ok {
			f.fail(table.ErrCorrupt)
			return false
		}
		if !f.consider(ctx, c, nil) {
			return false
		}
	}
	return true
}

// skip counts a row whose columns show that the entry does not match. It returns false if
// the search must stop.
func (f *finder) skip() bool {
	f.skipped++
	return f.within()
}

// subtree finds the entries below the base without an index. If the base is the root or a
// naming context, most rows of the table are probably in scope, and subtree scans the
// whole table. Otherwise it walks the tree below the base, unless it prefers the scan.
func (f *finder) subtree(ctx context.Context) {
	if f.walking {
		f.walk(ctx)
		return
	}
	if f.q.Base != catalog.Root {
		node, err := f.s.Node(ctx, f.q.Base)
		if err != nil || node == nil {
			if err != nil {
				f.fail(err)
			}
			return
		}
		if node.Parent != catalog.Root {
			if f.whole = f.prefersScan(ctx); !f.whole {
				f.walking = true
				f.walk(ctx)
				return
			}
		}
	}
	f.scan(ctx, table.Range{}, catalog.Root)
}

// A walk reads the children of each entry that has any. The rows of a scan cost less, above all on a
// shared store, where the scan is one call a region, and the rows that do not match stay in the
// store. So a scan is preferred if at least one of so many entries is in scope.
const (
	scanShare       = 4
	sharedScanShare = 64
)

// prefersScan reports whether the search should scan the whole table. If Query.After is set,
// prefersScan reports whether that position is the position of such a scan, and removes the mark
// from it.
func (f *finder) prefersScan(ctx context.Context) bool {
	if after := f.q.After; len(after) > 0 {
		f.q.After = after[1:]
		return after[0] == scanMark
	}
	in, all, known := f.count(ctx)
	if !known {
		return false
	}
	f.below = in
	share := int64(scanShare)
	if f.s.Partition.DB.Shared() {
		share = sharedScanShare
	}
	if in.Children == in.All && 2*in.All < all {
		return false // the walk is a scan of the children, see walker.walkChildren
	}
	return share*in.All >= all && (f.q.Most == 0 || all <= int64(f.q.Most))
}

// count returns about how many entries are below the base and in the directory, if that is known.
func (f *finder) count(ctx context.Context) (below catalog.Count, all int64, known bool) {
	if !f.counted {
		f.counted = true
		if ns, known, err := f.s.Subordinates(ctx, false, f.q.Base, catalog.Root); known && err == nil {
			f.counts = ns
		}
	}
	if f.counts == nil {
		return below, 0, false
	}
	return f.counts[0], f.counts[1].All, true
}

// A search that could use an index (an access of package plan) walks the subtree instead if
// the access has too many candidates: more than alwaysUsed, and more than timesLonger times as
// many as the subtree has entries. It does so only if the subtree has fewer than maxWalked
// entries.
const (
	alwaysUsed  = 256
	timesLonger = 4
	maxWalked   = 100_000
)

// walkMark is the first byte of each position of a walk, and scanMark that of a scan of the whole
// table for entries below a base. Positions of an access are at most as long as an id, or begin
// with "=" or "*". So a longer position that begins with walkMark is a position of a walk.
const (
	walkMark = 'w'
	scanMark = 's'
)

// prefersWalk reports whether the search should walk the subtree (see alwaysUsed). If
// Query.After is set, prefersWalk reports whether that position is the position of a walk, and
// removes walkMark from it. If a read fails, prefersWalk returns false: the access then meets
// the same error and returns it.
func (f *finder) prefersWalk(ctx context.Context) bool {
	if after := f.q.After; len(after) > 0 {
		marked := len(after) > len(entry.ID{}) && after[0] == walkMark
		if marked {
			f.q.After = after[1:]
		}
		return marked
	}
	if f.q.Scope != op.WholeSubtree && f.q.Scope != op.Subordinates || f.q.Base == catalog.Root || plan.IsSelective(f.access) {
		return false
	}
	if node, err := f.s.Node(ctx, f.q.Base); err != nil || node == nil || node.Parent == catalog.Root {
		return false
	}
	if long, err := exceeds(ctx, f.s, f.q, f.lists, alwaysUsed); err != nil || !long {
		return false
	}
	ns, known, err := f.s.Subordinates(ctx, false, f.q.Base)
	if err != nil || !known || ns[0].All >= maxWalked {
		return false
	}
	f.below = ns[0]
	long, err := exceeds(ctx, f.s, f.q, f.lists, timesLonger*int(f.below.All+1))
	return err == nil && long
}

// walk walks a subtree depth first. It offers each entry before the entries below it.
func (f *finder) walk(ctx context.Context) {
	w := walker{f: f, test: newRowTest(f.q.Filter), leaves: f.selectRows(ctx, f.q.Base)}
	// A walk also needs the rows that do not match: entries below them may match.
	w.sel = w.leaves
	w.sel.Filter = nil
	w.sel.MaxRows = ChildrenPage
	if f.q.Scope == op.WholeSubtree && len(f.q.After) == 0 {
		if !f.offer(ctx, index.Candidate{ID: f.q.Base, Maybe: true, Position: f.q.Base[:]}) {
			return
		}
	}
	n, err := w.countBase(ctx)
	if err != nil {
		f.fail(err)
		return
	}
	if w.resume(ctx) && w.walkChildren(ctx, f.q.Base, n) {
		f.flush(ctx)
	}
}

// A walker contains the state of a walk.
type walker struct {
	f      *finder
	test   rowTest
	sel    table.Select // of a page of children
	leaves table.Select // of children without children
	// path is the remaining path to the position at which a walk is resumed. It consists
	// of rows of the tree: the rows of the ancestors of the last result, below the base,
	// and the row of that result.
	path [][]byte
}

// resume sets path so that it leads to the position Query.After. It returns false after
// an error.
func (w *walker) resume(ctx context.Context) bool {
	after := w.f.q.After
	if len(after) <= len(entry.ID{}) {
		return true // there is no position, or the position is that of the base itself
	}
	w.path = [][]byte{after}
	for p := tree.Parent(after); p != w.f.q.Base; {
		node, err := w.f.s.Node(ctx, p)
		if err == nil && node == nil {
			err = fmt.Errorf("position of a search: %w", table.ErrCorrupt)
		}
		if err != nil {
			w.f.fail(err)
			return false
		}
		w.path = append([][]byte{tree.Key(node.Parent, node.NormRDN)}, w.path...)
		p = node.Parent
	}
	return true
}

// ChildrenPage is the number of children that are kept in memory while the entries below
// them are walked. A walk reads children in pages because no scan may stay open while
// another scan runs.
const ChildrenPage = 256

// fewWalked is a number of entries. In an embedded store, the numbers of subordinates save less
// time in a walk of fewer entries than it takes to read them.
const fewWalked = 128

// countBase returns the exact numbers of entries below the base, or nil if they are not known or
// probably not needed.
func (w *walker) countBase(ctx context.Context) (*catalog.Count, error) {
	if n := w.f.below.All; n == 0 || n < fewWalked && !w.f.s.Partition.DB.Shared() {
		return nil, nil
	}
	ns, known, err := w.f.s.Subordinates(ctx, true, w.f.q.Base)
	if err != nil || !known {
		return nil, err
	}
	return &ns[0], nil
}

// countPage sets the exact numbers of entries below the entries of a page, if they are known. In an
// embedded store, it is faster to look for the children of each entry.
func (w *walker) countPage(ctx context.Context, page []walked) error {
	if w.f.inner != nil || len(page) < 2 || !w.f.s.Partition.DB.Shared() {
		return nil
	}
	ids := make([]entry.ID, len(page))
	for i := range page {
		ids[i] = page[i].ID
	}
	ns, known, err := w.f.s.Subordinates(ctx, true, ids...)
	if err != nil || !known {
		return err
	}
	for i := range page {
		page[i].below = &ns[i]
	}
	return nil
}

// walkChildren walks the children of an entry. If below is not nil, it contains the numbers of
// entries below the entry. If all of these are leaves, walkChildren scans them. It returns false if
// the walk must stop.
func (w *walker) walkChildren(ctx context.Context, parent entry.ID, below *catalog.Count) bool {
	rows := tree.Children(parent)
	leaves := below != nil && below.All == below.Children
	if len(w.path) > 0 { // first walk down to the position
		at := w.path[0]
		w.path = w.path[1:]
		if !leaves {
			id, ok, err := w.f.s.Child(ctx, at)
			if err != nil {
				w.f.fail(err)
				return false
			}
			if ok && !w.walkChildren(ctx, id, nil) {
				return false
			}
		}
		rows = index.Continue(rows, at)
	}
	if leaves {
		return w.f.scanRows(ctx, rows, w.leaves)
	}
	for {
		page, err := w.page(ctx, rows)
		if err == nil {
			err = w.countPage(ctx, page)
		}
		if err != nil {
			w.f.fail(err)
			return false
		}
		if !w.f.within() {
			return false
		}
		for i := range page {
			c := &page[i]
			if c.match && !w.f.offer(ctx, c.Candidate) {
				return false
			}
			if !w.leaf(c) && !w.walkChildren(ctx, c.ID, c.below) {
				return false
			}
		}
		if len(page) < ChildrenPage {
			return true
		}
		rows = index.Continue(rows, page[len(page)-1].Position)
	}
}

type walked struct {
	index.Candidate
	match bool
	below *catalog.Count // the numbers of entries below this one; nil: not known
}

// leaf reports whether an entry is known to have no children.
func (w *walker) leaf(c *walked) bool {
	if c.below != nil {
		return c.below.Children == 0
	}
	if w.f.inner == nil {
		return false
	}
	_, ok := w.f.inner[c.ID]
	return !ok
}

// page reads and tests a page of children.
func (w *walker) page(ctx context.Context, rows table.Range) (page []walked, err error) {
	ctx, s := span.Start(ctx, "read")
	defer s.End()
	for row, err := range w.f.s.Reader.Scan(ctx, w.f.s.Partition.Tree, rows, w.sel) {
		if err != nil {
			return nil, err
		}
		id, ok := tree.ID(row)
		if !ok {
			return nil, table.ErrCorrupt
		}
		match, maybe := w.test.candidate(row)
		if !match {
			w.f.skipped++
		}
		page = append(page, walked{match: match, Candidate: index.Candidate{
			ID: id, Parent: tree.Parent(row.Key), Maybe: maybe, Position: bytes.Clone(row.Key)}})
	}
	return page, nil
}
