package verify

import (
	"context"
	"errors"
	"iter"

	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// If a part of a damaged store cannot be read, the verifier reports a finding and
// continues behind that part.

// scan reads a table, and notes whether it may have cells that no commit wrote. It reports the ranges of rows that cannot be read and skips them.
func (v *verifier) scan(ctx context.Context, t table.Table, s table.Select) iter.Seq2[table.Row, error] {
	v.void.reading = t.Name()
	return scanPast(ctx, v.void.reader, t, s, func(r table.Range, err error) error {
		v.void.note(0)
		return v.found(ctx, FaultDamage, t.Name(), catalog.Root, "%s cannot be read: %v", gapText(t.Name(), r), err)
	})
}

// unlessDamaged reports a finding and returns nil if damage caused the error. It returns
// any other error.
func (v *verifier) unlessDamaged(ctx context.Context, tbl string, err error) error {
	if !errors.Is(err, table.ErrCorrupt) {
		return err
	}
	return v.found(ctx, FaultDamage, tbl, catalog.Root, "its check is not complete: %v", err)
}

// lookUpBatch calls the function look with a batch of entries. If the function meets damage,
// lookUpBatch calls it again with each single entry.
func (v *verifier) lookUpBatch(ctx context.Context, tbl string, batch []*subject, look func(context.Context, []*subject) error) error {
	err := look(ctx, batch)
	if !errors.Is(err, table.ErrCorrupt) {
		return err
	}
	for i, x := range batch {
		err := look(ctx, batch[i:i+1])
		if errors.Is(err, table.ErrCorrupt) {
			err = v.found(ctx, FaultDamage, tbl, x.id, "what it has of the entry cannot be read: %v", err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
