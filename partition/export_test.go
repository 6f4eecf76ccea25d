package partition

import (
	"context"
	"time"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
)

// SetDrainTime sets how long a reindex waits for searches; the function it gives
// sets it back.
func SetDrainTime(d time.Duration) (restore func()) {
	before := drainTime
	drainTime = d
	return func() { drainTime = before }
}

// KeepToBoth is what a transaction does at its end, now.
func (tx *Tx) KeepToBoth(ctx context.Context) error {
	if tx.catalog.toCome == nil {
		return nil
	}
	return tx.keepToBoth(ctx, tx.catalog)
}

// SchemaToCome reports whether a change of the schema is under way.
func (tx *Tx) SchemaToCome() bool { return tx.catalog.subschema.pending != nil }

// Announce takes the first step of a change of the schema, and no other one.
func Announce(ctx context.Context, p *Partition, changes []op.Modification) error {
	st := &schemaSteps{p: p}
	_, err := st.attempt(ctx, func(tx *Tx) error { return tx.modifySubschema(ctx, changes) })
	if st.wanted == nil {
		return err
	}
	_, err = st.announce(ctx, st.wanted)
	return err
}

// Uncached gives the same state as the store has it. It is closed with s.
func (s *Snapshot) Uncached() *Snapshot {
	u := *s
	u.cached = false
	return &u
}

// Remembers reports whether the entry may be had from memory.
func (p *Partition) Remembers(id entry.ID) bool {
	s := p.Snapshot()
	defer s.Close()
	_, ok := s.catalog.cache.entries.GetIfPresent(id)
	return ok || s.catalog.cache.names.EstimatedSize()+s.catalog.cache.children.EstimatedSize() > 0
}
