package search

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/index/plan"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/columns"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/span"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// columnMark is the first byte of each position of a search through columns. The id follows.
const columnMark = 'c'

// inColumns are the candidates of a search that columns contain.
type inColumns struct {
	*columns.Found
	f     *finder
	types []*schema.AttributeType // whose columns
}

func (c *inColumns) describe(b *strings.Builder) {
	for _, t := range c.types {
		fmt.Fprintf(b, "column of %s in memory\n", t.Name())
	}
	if c.f.access != nil {
		b.WriteString("instead of\n")
		c.f.access.Describe(b, 1, false)
	}
}

func (c *inColumns) uses(uses []plan.Use) []plan.Use {
	for _, t := range c.types {
		uses = append(uses, plan.Use{Attribute: t.Name(), Kind: "column"})
	}
	return uses
}

// prefersColumns reports whether the search should take its candidates from columns in memory, and
// finds them. If Query.After is set, prefersColumns reports whether that position has a columnMark,
// and removes the mark. If there are no such columns any more, the candidates are all entries in the
// order of ids.
func (f *finder) prefersColumns(ctx context.Context) bool {
	after := f.q.After
	if len(after) > 0 && (len(after) != 1+len(entry.ID{}) || after[0] != columnMark) {
		return false
	}
	kept := !f.s.Partition.DB.Shared() && !f.s.At.InBranch() && f.s.Reader == table.Reader(f.s.At)
	if kept && (f.access == nil || !plan.IsSelective(f.access)) {
		if c := (&inColumns{f: f}); c.find(ctx, len(after) > 0) {
			f.columns = c
		}
	}
	if len(after) > 0 {
		f.q.After = after[1:]
		f.byID = f.columns == nil
		return true
	}
	return f.columns != nil
}

// find finds the candidates. It returns false if there are no columns, and if the search would examine
// fewer entries without them. A search that goes on examines the rest of them in any case.
func (c *inColumns) find(ctx context.Context, goesOn bool) bool {
	f := c.f
	all := plan.ReadsAll(f.access)
	c.types = c.useful()
	if len(c.types) == 0 || !all && !f.exceeds(ctx, alwaysUsed) {
		return false
	}
	in, most := c.scope(ctx)
	if in <= alwaysUsed {
		return false
	}
	t := c.table(ctx, most && !f.planned && f.s.Ordinal() != 0 && f.permits(ctx, catalog.Root))
	if t == nil || f.q.Most > 0 && t.Len() > f.q.Most {
		return false
	}
	c.Found = t.Find(ctx, f.q.Filter)
	if c.Found == nil {
		return false
	}
	if n := c.Len(); !goesOn && (n > in || !all && !f.exceeds(ctx, n) || !c.Exact() && n > t.Len()/2) {
		return false
	}
	return true
}

// useful returns the types whose columns the search could use. An index serves the other parts of
// the filter.
func (c *inColumns) useful() []*schema.AttributeType {
	f := c.f
	parts := []filter.Resolved{f.q.Filter}
	if and, ok := f.q.Filter.(*filter.AndNode); ok {
		parts = slices.DeleteFunc(slices.Clone(and.Parts), func(p filter.Resolved) bool {
			return !plan.ReadsAll(plan.Build(p, f.s.Catalog, nil))
		})
	} else if !plan.ReadsAll(f.access) {
		return nil
	}
	return columns.Types(parts...)
}

// scope returns about how many entries are in scope, and whether these are a large part of the directory.
func (c *inColumns) scope(ctx context.Context) (n int, most bool) {
	f := c.f
	subtree := f.q.Scope != op.SingleLevel
	if subtree && f.q.Base == catalog.Root {
		return math.MaxInt, true
	}
	if node, err := f.s.Node(ctx, f.q.Base); subtree && err == nil && node != nil && node.Parent == catalog.Root {
		return math.MaxInt, true
	}
	below, all, known := f.count(ctx)
	if !known {
		return math.MaxInt, false
	}
	in := below.All
	if !subtree {
		in = below.Children
	}
	return int(in), scanShare*in >= all
}

// examinesMost reports whether the search would examine a large part of the directory without columns. If
// nobody keeps the number of entries, every long list counts as a large part.
func (c *inColumns) examinesMost(ctx context.Context) bool {
	if plan.ReadsAll(c.f.access) {
		return true
	}
	_, all, known := c.f.count(ctx)
	return !known || c.f.exceeds(ctx, int(all)/scanShare)
}

// table returns a table that has the columns. If they are asked for again, and build is set, it makes
// them, unless an index does nearly as well.
func (c *inColumns) table(ctx context.Context, build bool) *columns.Table {
	kept, s := c.f.s.Catalog.Cache.Columns, c.f.s.At
	t, _ := kept.Get(s, c.types, false)
	if t != nil || !build || !c.examinesMost(ctx) {
		return t
	}
	t, missing := kept.Get(s, c.types, true)
	if missing == nil {
		return t
	}
	func() {
		var b *columns.Builder
		defer func() { kept.Built(b, c.types) }() // also after a panic, which ends only this search
		b = c.build(ctx, missing)
	}()
	t, _ = kept.Get(s, c.types, false)
	return t
}

// build reads the columns of some types of all entries. It returns nil after an error, which
// the search will meet again.
func (c *inColumns) build(ctx context.Context, types []*schema.AttributeType) *columns.Builder {
	ctx, s := span.Start(ctx, "columns")
	defer s.End()
	at := c.f.s
	b := at.Catalog.Cache.Columns.NewBuilder(at.At, types)
	for row, err := range at.Reader.Scan(ctx, at.Partition.Tree, table.Range{}, b.Select()) {
		if err != nil {
			return nil
		}
		if !b.Add(row) {
			break
		}
	}
	return b
}

// take offers the candidates, in the order of their ids.
func (c *inColumns) take(ctx context.Context) {
	if c.Each(c.f.q.After, func(x index.Candidate) bool { return c.f.consider(ctx, x, nil) }) {
		c.f.flush(ctx)
	}
}
