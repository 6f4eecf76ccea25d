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

// selectRows selects the parts of a row that a scan of the tree needs.
func (f *finder) selectRows() table.Select {
	if f.q.Filter == filter.Const(filter.True) {
		return table.Select{Families: []table.Family{tree.TreeInfo}}
	}
	sel := table.Select{Families: []table.Family{tree.TreeInfo, tree.NormAttributes}}
	if f.q.Most == 0 { // with Query.Most all rows are counted, so the engine must omit none
		sel.Filter = tree.Hint(f.q.Filter)
	}
	return sel
}

// scan tests all rows in a range of the tree and offers the entries in scope.
func (f *finder) scan(ctx context.Context, rows table.Range) {
	test := newRowTest(f.q.Filter)
	for row, err := range f.s.Reader.Scan(ctx, f.s.Partition.Tree, index.Continue(rows, f.q.After), f.selectRows()) {
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
	f.flush(ctx)
}

// skip counts a row whose columns show that the entry does not match. It returns false if
// the search must stop.
func (f *finder) skip() bool {
	f.skipped++
	return f.within()
}

// subtree finds the entries below the base without an index. If the base is the root or a
// naming context, most rows of the table are probably in scope, and subtree scans the
// whole table. Otherwise it walks the tree below the base.
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

// A search that could use an index (an access of package plan) walks the subtree instead if
// the access has too many candidates: more than alwaysUsed, and more than timesLonger times as
// many as the subtree has entries. It does so only if the subtree has fewer than maxWalked
// entries.
const (
	alwaysUsed  = 256
	timesLonger = 4
	maxWalked   = 100_000
)

// walkMark is the first byte of each position of a walk that replaces an access. Positions of
// the access are at most as long as an id, or begin with "=" or "*". So a longer position that
// begins with walkMark is a position of the walk.
const walkMark = 'w'

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
	n, known, err := f.s.Subordinates(ctx, f.q.Base, false)
	if err != nil || !known || n.All >= maxWalked {
		return false
	}
	long, err := exceeds(ctx, f.s, f.q, f.lists, timesLonger*int(n.All+1))
	return err == nil && long
}

// walk walks a subtree depth first. It offers each entry before the entries below it.
func (f *finder) walk(ctx context.Context) {
	w := walker{f: f, test: newRowTest(f.q.Filter), sel: f.selectRows()}
	// A walk also needs the rows that do not match: entries below them may match.
	w.sel.Filter = nil
	if f.q.Scope == op.WholeSubtree && len(f.q.After) == 0 {
		if !f.offer(ctx, index.Candidate{ID: f.q.Base, Maybe: true, Position: f.q.Base[:]}) {
			return
		}
	}
	if w.resume(ctx) && w.walkChildren(ctx, f.q.Base) {
		f.flush(ctx)
	}
}

// A walker contains the state of a walk.
type walker struct {
	f    *finder
	test rowTest
	sel  table.Select
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

// walkChildren walks the children of an entry. It returns false if the walk must stop.
func (w *walker) walkChildren(ctx context.Context, parent entry.ID) bool {
	rows := tree.Children(parent)
	if len(w.path) > 0 { // first walk down to the position
		at := w.path[0]
		w.path = w.path[1:]
		id, ok, err := w.f.s.Child(ctx, at)
		if err != nil {
			w.f.fail(err)
			return false
		}
		if ok && !w.walkChildren(ctx, id) {
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
			if c.match && !w.f.offer(ctx, c.Candidate) {
				return false
			}
			if !w.f.leaf(c.ID) && !w.walkChildren(ctx, c.ID) {
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

// page reads and tests a page of children.
func (w *walker) page(ctx context.Context, rows table.Range, sel table.Select) (page []walked, err error) {
	ctx, s := span.Start(ctx, "read")
	defer s.End()
	for row, err := range w.f.s.Reader.Scan(ctx, w.f.s.Partition.Tree, rows, sel) {
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
