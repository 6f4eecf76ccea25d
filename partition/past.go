package partition

import (
	"context"
	"iter"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/journal"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/table"
)

// SubschemaID is the id of the subschema's entry, which changes name when the
// schema changes.
var SubschemaID = subschemaID

// Settled gives the newest state that every server shows alike and that nothing
// can be added to any more: who tells of changes in order tells up to it.
func (p *Partition) Settled(ctx context.Context) (*Snapshot, error) {
	s, err := p.db.Settled(ctx)
	if err != nil {
		return nil, err
	}
	return p.at(ctx, s)
}

// ChangesAfter is Changes beyond a revision, whoever made them, in the order of
// their revisions.
func (s *Snapshot) ChangesAfter(ctx context.Context, r table.Revision) iter.Seq2[*Change, error] {
	return toChanges(s.at.CommitsAfter(ctx, r))
}

func toChanges(records iter.Seq2[*journal.Record, error]) iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		for rec, err := range records {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(&Change{rec.Revision, rec.AllChanged, slices.Contains(rec.IDs, moves), rec.IDs, rec.Message}, nil) {
				return
			}
		}
	}
}

// Node tells where an entry stands; nil: there is no such entry.
func (s *Snapshot) Node(ctx context.Context, id entry.ID) (*master.Node, error) {
	return s.node(ctx, id)
}

// Nameless reports whether what an entry was called was erased, and its node has its
// entryUUID instead.
func (s *Snapshot) Nameless(id entry.ID, node *master.Node) bool {
	return node.NormRDN == s.catalog.unnamed(id).NormRDN
}

// Child finds an entry by its parent and its normalised RDN (master.Node).
func (s *Snapshot) Child(ctx context.Context, parent entry.ID, rdn dn.Norm) (id entry.ID, ok bool, err error) {
	return s.resolve(ctx, parent, rdn)
}

// Tells reports whether the journal names all commits beyond a revision that the
// snapshot shows.
func (s *Snapshot) Tells(r table.Revision) bool { return r >= s.p.db.Floor() }
