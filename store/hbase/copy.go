package hbase

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tsuna/gohbase/hrpc"
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
	var out []*copied
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
	return c.write(ctx, out)
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
				err = c.write(ctx, out)
			}
			if err != nil {
				return err
			}
			stones = nil
		}
	}
	return nil
}

// copied is what one revision wrote into a row.
type copied struct {
	put
	at table.Revision
}

// row appends the copy of a row's versions to out, grouped by revision.
func (c *copier) row(out []*copied, key []byte, vs []version) ([]*copied, error) {
	opener := c.from.opener(key)
	key, err := c.w.Row(key)
	if err != nil || key == nil {
		return out, err
	}
	at := map[table.Revision]*copied{}
	for i := range vs {
		v := &vs[i]
		p := at[v.revision]
		if p == nil {
			p = &copied{put{row: key, cols: columns{}}, v.revision}
		}
		if v.isRowTombstone() {
			p.cols.set(v.family, rowTombstone, tombstone)
		} else if err := c.cell(p, v, opener); err != nil {
			return nil, err
		}
		if len(p.cols) > 0 && at[v.revision] == nil {
			at[v.revision] = p
			out = append(out, p)
		}
	}
	return out, nil
}

func (c *copier) cell(p *copied, v *version, o opener) error {
	cells, err := appendCell(nil, v, o)
	if err != nil {
		return err
	}
	x := table.Cell{Family: v.family, Qualifier: loadQualifier(v.qualifier), Tombstone: true}
	if len(cells) > 0 {
		x = cells[0]
	}
	keep, err := c.w.Cell(&x)
	if err != nil || !keep || x.Tombstone && c.shape.unversioned {
		return err
	}
	x.Revision = 0
	p.cols.set(x.Family, storeQualifier(x.Qualifier), c.to.storeIn(p.row, &x))
	p.size += len(x.Qualifier) + len(x.Value) + len(p.row) + 32
	return nil
}

// write writes copies. The region servers give the cells of unversioned tables new timestamps.
func (c *copier) write(ctx context.Context, out []*copied) error {
	for len(out) > 0 {
		n, size := 0, 0
		for n < len(out) && n < batchWrites && (n == 0 || size+out[n].size <= batchBytes) {
			size += out[n].size
			n++
		}
		part := out[:n]
		err := c.to.write(ctx, "copy", n, func(ctx context.Context, i int) (hrpc.Call, error) {
			if c.shape.unversioned {
				return hrpc.NewPut(ctx, c.to.full, part[i].row, part[i].cols)
			}
			return hrpc.NewPut(ctx, c.to.full, part[i].row, part[i].cols, hrpc.TimestampUint64(uint64(part[i].at)))
		})
		if err != nil {
			return err
		}
		out = out[n:]
	}
	return nil
}
