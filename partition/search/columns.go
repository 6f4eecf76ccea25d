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

// inColumns are candidates that columns contain.
type inColumns struct {
	*columns.Found
	types     []*schema.AttributeType
	insteadOf plan.Access
}

func (c *inColumns) describe(b *strings.Builder) {
	for _, t := range c.types {
		fmt.Fprintf(b, "column of %s in memory\n", t.Name())
	}
	if c.insteadOf != nil {
		b.WriteString("instead of\n")
		c.insteadOf.Describe(b, 1, false)
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
	f.columns = f.findInColumns(ctx, len(after) > 0)
	if len(after) > 0 {
		f.q.After = after[1:]
		f.byID = f.columns == nil
		return true
	}
	return f.columns != nil
}

// findInColumns finds the candidates that columns contain. It returns nil if there are no columns, and
// if the search would examine fewer entries without them. A search that goes on examines the rest of
// them in any case.
func (f *finder) findInColumns(ctx context.Context, goesOn bool) *inColumns {
	if f.s.Partition.DB.Shared() || f.s.Ordinal() == 0 || f.s.Reader != table.Reader(f.s.At) || f.access != nil && plan.IsSelective(f.access) {
		return nil
	}
	c := &inColumns{types: f.columnTypes(), insteadOf: f.access}
	all := plan.ReadsAll(f.access)
	if len(c.types) == 0 || !all && !f.exceeds(ctx, alwaysUsed) {
		return nil
	}
	in, most := f.scopeSize(ctx)
	if in <= alwaysUsed {
		return nil
	}
	t := f.columnsOf(ctx, c.types, most)
	if t == nil || f.q.Most > 0 && t.Len() > f.q.Most {
		return nil
	}
	c.Found = t.Find(f.q.Filter)
	if c.Found == nil {
		return nil
	}
	if n := c.Len(); !goesOn && (n > in || !all && !f.exceeds(ctx, n) || !c.Exact() && n > t.Len()/2) {
		return nil
	}
	return c
}

// columnTypes returns the types whose columns the search could use. An index serves the other parts of
// the filter.
func (f *finder) columnTypes() []*schema.AttributeType {
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

// scopeSize returns about how many entries are in scope, and whether these are a large part of the directory.
func (f *finder) scopeSize(ctx context.Context) (n int, most bool) {
	subtree := f.q.Scope != op.SingleLevel
	if subtree && f.q.Base == catalog.Root {
		return math.MaxInt, true
	}
	if node, err := f.s.Node(ctx, f.q.Base); subtree && err == nil && node != nil && node.Parent == catalog.Root {
		return math.MaxInt, true
	}
	ns, known, err := f.s.Subordinates(ctx, false, f.q.Base, catalog.Root)
	if err != nil || !known {
		return math.MaxInt, false
	}
	in := ns[0].All
	if !subtree {
		in = ns[0].Children
	}
	return int(in), scanShare*in >= ns[1].All
}

// columnsOf returns a table that has the columns of some types. If they are asked for again, and build is
// set, columnsOf makes them.
func (f *finder) columnsOf(ctx context.Context, types []*schema.AttributeType, build bool) *columns.Table {
	kept := f.s.Catalog.Cache.Columns
	t, missing := kept.Get(f.s.At, types, build)
	if missing == nil {
		return t
	}
	kept.Built(f.buildColumns(ctx, missing), types)
	t, _ = kept.Get(f.s.At, types, false)
	return t
}

// buildColumns reads the columns of some types of all entries. It returns nil after an error, which
// the search will meet again.
func (f *finder) buildColumns(ctx context.Context, types []*schema.AttributeType) *columns.Builder {
	ctx, s := span.Start(ctx, "columns")
	defer s.End()
	b := f.s.Catalog.Cache.Columns.NewBuilder(f.s.Ordinal(), types)
	for row, err := range f.s.Reader.Scan(ctx, f.s.Partition.Tree, table.Range{}, b.Select()) {
		if err != nil {
			return nil
		}
		if !b.Add(row) {
			break
		}
	}
	return b
}

// takeFromColumns offers the candidates in columns, in the order of their ids.
func (f *finder) takeFromColumns(ctx context.Context) {
	if f.columns.Each(f.q.After, func(c index.Candidate) bool { return f.consider(ctx, c, nil) }) {
		f.flush(ctx)
	}
}
