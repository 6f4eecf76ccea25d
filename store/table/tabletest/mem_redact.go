package tabletest

import (
	"context"
	"iter"
	"slices"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

var _ table.Redactor = memHandle{}

// History implements table.Redactor.
func (h memHandle) History(ctx context.Context, r table.Range) iter.Seq2[table.Past, error] {
	return func(yield func(table.Past, error) bool) {
		for key, err := range h.Keys(ctx, r) {
			if err != nil {
				yield(table.Past{}, err)
				return
			}
			p := table.Past{Key: key}
			p.Cells, p.Deletes = h.m.Cells(h.name, key)
			if !yield(p, nil) {
				return
			}
		}
	}
}

// Redact implements table.Redactor.
func (h memHandle) Redact(ctx context.Context, upTo table.Revision, rs []table.Redaction) error {
	return h.change(ctx, func(t *memTable) {
		for i := range rs {
			if r := t.rows[string(rs[i].Row)]; r != nil && !t.spec.Unversioned {
				r.redact(&rs[i], upTo)
				t.drop(string(rs[i].Row), r)
			}
		}
	})
}

func (r *memRow) redact(x *table.Redaction, upTo table.Revision) {
	var left []table.Cell
	for i := range r.cells {
		if c, stays := x.Change(&r.cells[i], upTo); stays {
			left = append(left, c)
		}
	}
	r.cells = left
	if x.All {
		r.deletes = slices.DeleteFunc(slices.Clone(r.deletes), func(d table.Revision) bool { return d <= upTo })
	}
}
