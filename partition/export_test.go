package partition

import (
	"context"
	"time"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition/internal/evolve"
	"github.com/seed-4dac0d86/ldapd/partition/internal/write"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// SetDrainTime sets how long a reindex waits for searches; the function it returns sets
// it back.
func SetDrainTime(d time.Duration) (restore func()) {
	before := evolve.DrainTime
	evolve.DrainTime = d
	return func() { evolve.DrainTime = before }
}

// KeepToBoth is what a transaction does at its end, now.
func (tx *Tx) KeepToBoth(ctx context.Context) error {
	t := tx.tx
	if t.Catalog.ToCome == nil {
		return nil
	}
	return t.Keeper.KeepToBoth(ctx, t.Txn, t.At, t.Catalog, t.Changed)
}

// SchemaToCome reports whether a change of the schema is under way.
func (tx *Tx) SchemaToCome() bool { return tx.tx.Catalog.Subschema.Pending != nil }

// Announce takes the first step of a change of the schema, and no other one.
func Announce(ctx context.Context, p *Partition, changes []op.Modification) error {
	st := &write.SchemaSteps{Keeper: p.k}
	_, err := evolve.Attempt(ctx, st, func(tx *write.Tx) error { return evolve.ModifySubschema(ctx, tx, changes) })
	if st.Wanted == nil {
		return err
	}
	_, err = evolve.Announce(ctx, st, st.Wanted)
	return err
}

// Uncached returns the same state as the store has it. It is closed with s.
func (s *Snapshot) Uncached() *Snapshot {
	u := *s.s
	u.Cached = false
	return &Snapshot{&u}
}

// DB returns the transactions below.
func (p *Partition) DB() *txn.DB { return p.k.DB }

// Remembers reports whether the entry may be had from memory.
func (p *Partition) Remembers(id entry.ID) bool {
	s := p.Snapshot()
	defer s.Close()
	c := s.s.Catalog.Cache
	_, ok := c.Entries.GetIfPresent(id)
	return ok || c.Names.EstimatedSize()+c.Children.EstimatedSize() > 0
}
