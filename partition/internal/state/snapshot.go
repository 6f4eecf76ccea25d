package state

import (
	"context"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// Snapshot reads one state of the directory.
type Snapshot struct {
	Keeper  *catalog.Keeper
	Reader  table.Reader
	At      *txn.Snapshot
	Catalog *catalog.Catalog
	Cached  bool // what is read may come from caches and go there
}

// Close lets go of the state.
func (s *Snapshot) Close() { s.At.Close() }

// Revision is the newest that the snapshot shows.
func (s *Snapshot) Revision() table.Revision { return s.At.Max() }

// Schema is the schema of the state. Filters to search it by and types to look
// for in its entries are this schema's: those of another one match nothing.
func (s *Snapshot) Schema() *schema.Schema { return s.Catalog.Schema }

// Newest returns the newest state; Close it.
func Newest(p *catalog.Keeper) *Snapshot {
	s := p.DB.Snapshot()
	c, err := p.CatalogOf(s)
	if err != nil {
		err = fmt.Errorf("the schema in force: %w", err)
		return &Snapshot{Keeper: p, Reader: catalog.Unreadable{Err: err}, At: s, Catalog: p.Catalog.Load()}
	}
	return &Snapshot{Keeper: p, Reader: s, At: s, Catalog: c.AsOf(s.Max()), Cached: true}
}

// At returns the state at a past revision; Close it.
func At(ctx context.Context, p *catalog.Keeper, r table.Revision) (*Snapshot, error) {
	s, err := p.DB.At(ctx, r)
	if err != nil {
		return nil, err
	}
	return Of(ctx, p, s)
}

// Of reads a state of the past, perhaps of a moment ago.
func Of(ctx context.Context, p *catalog.Keeper, s *txn.Snapshot) (*Snapshot, error) {
	c, err := p.Past(ctx, s)
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("the schema of then: %w", err)
	}
	return &Snapshot{Keeper: p, Reader: s, At: s, Catalog: c}, nil
}

// Subschema reads the subschema's entry as it is stored: with the operational
// attributes of its last change, and without what is built in. Nil: the schema
// was never changed. What is only to come is not told.
func (s *Snapshot) Subschema(ctx context.Context) (*entry.Entry, error) {
	e, err := s.Entry(ctx, catalog.SubschemaID, false)
	if err != nil || e == nil {
		return nil, err
	}
	shown := &entry.Entry{ID: e.ID}
	for _, a := range e.Attributes {
		if a.Type.Name() != catalog.PendingDefinitions {
			shown.Attributes = append(shown.Attributes, a)
		}
	}
	return shown, nil
}
