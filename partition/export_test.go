package partition

import (
	"context"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/internal/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/internal/write"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// SetDrainTime sets DrainTime and returns a function that restores the old value.
func SetDrainTime(d time.Duration) (restore func()) {
	before := onlineschema.DrainTime
	onlineschema.DrainTime = d
	return func() { onlineschema.DrainTime = before }
}

// KeepToBoth runs the check that a transaction runs at its end while a schema is
// announced.
func (tx *Tx) KeepToBoth(ctx context.Context) error {
	t := tx.tx
	if t.Catalog.ToCome == nil {
		return nil
	}
	return t.Keeper.KeepToBoth(ctx, t.Txn, t.At, t.Catalog, t.Changed)
}

// SchemaToCome reports whether a schema is announced.
func (tx *Tx) SchemaToCome() bool { return tx.tx.Catalog.Subschema.Pending != nil }

// Announce makes only the first step of a schema change.
func Announce(ctx context.Context, p *Partition, changes []op.Modification) error {
	st := &write.SchemaSteps{Keeper: p.k}
	_, err := onlineschema.Attempt(ctx, st, func(tx *write.Tx) error { return onlineschema.ModifySubschema(ctx, tx, changes) })
	if st.Wanted == nil {
		return err
	}
	_, err = onlineschema.Announce(ctx, st, st.Wanted)
	return err
}

// Uncached returns a snapshot of the same state that reads without caches. Closing s
// closes the result too.
func (s *Snapshot) Uncached() *Snapshot {
	u := *s.s
	u.Cached, u.Written = false, false
	return &Snapshot{&u}
}

// DB returns the transactional store.
func (p *Partition) DB() *txn.DB { return p.k.DB }

// Remembers reports whether the cache of entries contains the entry, or whether the cache of
// names or the cache of children contains anything at all.
func (p *Partition) Remembers(id entry.ID) bool {
	s := p.Snapshot()
	defer s.Close()
	c := s.s.Catalog.Cache
	_, ok := c.Entries.GetIfPresent(id)
	return ok || c.Names.EstimatedSize()+c.Children.EstimatedSize() > 0
}
