package hbase

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

var _ table.Copier = (*Table)(nil)

// copyParts is the number of batches of rows that CopyTo reads and writes at the same time.
const copyParts = 4

// CopyTo implements table.Copier. Secret values are sealed as the other store's key demands.
func (t *Table) CopyTo(ctx context.Context, to table.Table, w table.Rewriter, span table.RevisionSpan) error {
	dst, ok := to.(*Table)
	if !ok {
		return fmt.Errorf("table %s is not in HBase", to.Name())
	}
	c := &copier{from: t, to: dst, w: w, span: span}
	if err := c.run(ctx); err != nil {
		return fmt.Errorf("copying %s: %w", t.full, err)
	}
	return nil
}

// A copier copies a table.
type copier struct {
	from, to *Table
	shape    *shape
	w        table.Rewriter
	span     table.RevisionSpan
}

func (c *copier) run(ctx context.Context) error {
	var err error
	if c.shape, err = c.from.shape(ctx); err != nil {
		return err
	}
	if c.shape.unversioned {
		c.span = table.RevisionSpan{}
	}
	sc, err := c.from.newScanner(ctx, table.Range{}, &table.Select{})
	if err != nil {
		return err
	}
	sc.depth, sc.plain.view, sc.plain.after = allVersions, c.view(), c.span.After
	defer sc.shut(context.WithoutCancel(ctx))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(copyParts)
	for !sc.done {
		page, err := sc.next(ctx)
		if err != nil {
			return errors.Join(err, g.Wait())
		}
		g.Go(func() error { return c.page(ctx, page) })
	}
	return g.Wait()
}

// view returns the view of all revisions up to the end of the span, or nil if it has no end.
func (c *copier) view() table.View {
	if c.span.UpTo == 0 {
		return nil
	}
	return upTo(c.span.UpTo)
}

// page copies a page of rows with all versions.
func (c *copier) page(ctx context.Context, page []rawRow) (err error) {
	var out []*put
	for i := range page {
		if page[i].partial {
			err = c.wide(ctx, page[i].key)
		} else {
			out, err = c.row(out, page[i].key, page[i].versions)
		}
		if err != nil {
			return err
		}
	}
	return writePuts(ctx, c.to, "copy", out)
}

// wide copies a row that is too wide for one answer, with all revisions up to the end of the span.
func (c *copier) wide(ctx context.Context, key []byte) error {
	for _, f := range c.shape.families {
		stones, err := c.from.readSpan(ctx, key, c.view(), f, span{from: rowTombstone, to: firstStored}, allVersions, 0)
		if err != nil {
			return err
		}
		for vs, err := range c.from.pieces(ctx, key, c.view(), f) {
			if err != nil {
				return err
			}
			out, err := c.row(nil, key, slices.Concat(stones, vs))
			if err == nil {
				err = writePuts(ctx, c.to, "copy", out)
			}
			if err != nil {
				return err
			}
			stones = nil
		}
	}
	return nil
}

// row appends the copy of a row's versions to out, a put for each revision.
func (c *copier) row(out []*put, key []byte, vs []version) ([]*put, error) {
	cells, err := allCells(vs, c.from.opener(key))
	if err != nil {
		return nil, err
	}
	if key, err = c.w.Row(key); err != nil || key == nil {
		return out, err
	}
	puts := map[table.Revision]*put{}
	at := func(r table.Revision) *put {
		if c.shape.unversioned {
			r = 0 // the region servers set timestamps
		}
		if puts[r] == nil {
			puts[r] = &put{row: key, cols: columns{}, at: r}
			out = append(out, puts[r])
		}
		return puts[r]
	}
	for i := range vs {
		if v := &vs[i]; v.isRowTombstone() {
			at(v.revision).cols.set(v.family, rowTombstone, tombstone)
		}
	}
	for i := range cells {
		x := &cells[i]
		keep, err := c.w.Cell(x)
		if err != nil {
			return nil, err
		}
		if keep && !(x.Tombstone && c.shape.unversioned) {
			at(x.Revision).set(c.to, x)
		}
	}
	return out, nil
}
