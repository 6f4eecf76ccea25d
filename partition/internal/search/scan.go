package search

import (
	"bytes"
	"context"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// A rowTest tests rows of the tree by their columns, as far as these suffice.
type rowTest struct {
	filter  filter.Resolved
	columns bool // the columns can decide
	source  tree.Source
}

func newRowTest(f filter.Resolved) rowTest {
	return rowTest{filter: f, columns: !filter.NeedsValues(f)}
}

// candidate tests a row. match reports whether its entry may match, and maybe whether
// the entry itself must be tested.
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

// selectRows selects the parts of a row that a scan of the tree needs.
func (f *finder) selectRows() table.Select {
	if f.q.Filter == filter.Const(filter.True) {
		return table.Select{Families: []table.Family{tree.TreeInfo}}
	}
	sel := table.Select{Families: []table.Family{tree.TreeInfo, tree.NormAttributes}}
	if f.q.Most == 0 { // rows left out by the engine could not be counted
		sel.Filter = tree.Hint(f.q.Filter)
	}
	return sel
}

// scan tests all rows in a range of the tree that are in scope.
func (f *finder) scan(ctx context.Context, rows table.Range) {
	test := newRowTest(f.q.Filter)
	for row, err := range f.s.Reader.Scan(ctx, f.s.Keeper.Tree, index.Continue(rows, f.q.After), f.selectRows()) {
		if err != nil {
			f.fail(err)
			return
		}
		match, maybe := test.candidate(row)
		if !match {
			if !f.skip() {
				return
			}
			continue
		}
		c := index.Candidate{Parent: tree.Parent(row.Key), Maybe: maybe, Position: row.Key}
		var ok bool
		if c.ID, ok = tree.ID(row); !ok {
			f.fail(table.ErrCorrupt)
			return
		}
		if !f.consider(ctx, c, nil) {
			return
		}
	}
	f.Flush(ctx)
}

// skip counts a row excluded by its columns. It returns false to stop.
func (f *finder) skip() bool {
	f.skipped++
	return f.within()
}

// subtree scans the entries below the base. Below a naming context, or all of them,
// they are probably most of the table, which is then read from end to end. Below
// anything else it walks the tree.
func (f *finder) subtree(ctx context.Context) {
	if f.q.Base == catalog.Root {
		f.scan(ctx, table.Range{})
		return
	}
	node, err := f.s.Node(ctx, f.q.Base)
	if err != nil || node == nil {
		if err != nil {
			f.fail(err)
		}
		return
	}
	if node.Parent == catalog.Root {
		f.scan(ctx, table.Range{})
		return
	}
	f.walk(ctx)
}

// walk walks a subtree depth first, each entry before those below it.
func (f *finder) walk(ctx context.Context) {
	w := walker{f: f, test: newRowTest(f.q.Filter), sel: f.selectRows()}
	w.sel.Filter = nil // an entry that does not match may have matches below it
	if f.q.Scope == op.WholeSubtree && len(f.q.After) == 0 {
		if !f.Offer(ctx, index.Candidate{ID: f.q.Base, Maybe: true, Position: f.q.Base[:]}) {
			return
		}
	}
	if w.resume(ctx) && w.below(ctx, f.q.Base) {
		f.Flush(ctx)
	}
}

// A walker keeps the state of a walk.
type walker struct {
	f    *finder
	test rowTest
	sel  table.Select
	// path is the rest of the path to the position at which a walk is resumed: the rows
	// of the last result's ancestors and its own, below the base.
	path [][]byte
}

// resume finds the path of the position After. It returns false if it failed.
func (w *walker) resume(ctx context.Context) bool {
	after := w.f.q.After
	if len(after) <= len(entry.ID{}) {
		return true // no position, or that of the base itself
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

// ChildrenPage is how many children are held while the entries below them are walked. A
// scan is not kept open over other scans.
const ChildrenPage = 256

// below walks the children of an entry. It returns false to stop.
func (w *walker) below(ctx context.Context, parent entry.ID) bool {
	rows := tree.Children(parent)
	if len(w.path) > 0 { // first down to the position
		at := w.path[0]
		w.path = w.path[1:]
		id, ok, err := w.f.s.Child(ctx, at)
		if err != nil {
			w.f.fail(err)
			return false
		}
		if ok && !w.below(ctx, id) {
			return false
		}
		rows = index.Continue(rows, at)
	}
	sel := w.sel
	sel.MaxRows = ChildrenPage
	for {
		page, err := w.page(ctx, rows, sel)
		if err != nil {
			w.f.fail(err)
			return false
		}
		if !w.f.within() {
			return false
		}
		for i := range page {
			c := &page[i]
			if c.match && !w.f.Offer(ctx, c.Candidate) {
				return false
			}
			if !w.f.leaf(c.ID) && !w.below(ctx, c.ID) {
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
}

// page reads and tests some children.
func (w *walker) page(ctx context.Context, rows table.Range, sel table.Select) (page []walked, err error) {
	for row, err := range w.f.s.Reader.Scan(ctx, w.f.s.Keeper.Tree, rows, sel) {
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

func (f *finder) summary() string {
	return fmt.Sprintf("%d entries found, %d looked at, %d rows ruled out by their columns\n", f.found, f.tested, f.skipped)
}
