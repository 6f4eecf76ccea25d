package directory

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/table"
)

// presence says whether a revision has any entries of the classes that searches
// treat specially. Most directories have none, and then nothing has to be looked
// at for them.
type presence struct {
	revision                  table.Revision
	referral, alias, subentry bool
}

// present tells the presence at a snapshot: kept for the newest revision asked
// about, found by the index of objectClass after a change.
func (d *Directory) present(ctx context.Context, s *partition.Snapshot) (*presence, error) {
	last := d.presence.Load()
	if last != nil && last.revision == s.Revision() {
		return last, nil
	}
	p := &presence{revision: s.Revision()}
	if err := d.probe(ctx, s, p); err != nil {
		return nil, err
	}
	if last == nil || last.revision < p.revision {
		d.presence.Store(p)
	}
	return p, nil
}

// probe asks for all classes at once first, since the answer is usually none.
func (d *Directory) probe(ctx context.Context, s *partition.Snapshot, p *presence) error {
	k := &d.known
	all := &filter.OrNode{Parts: []filter.Resolved{k.isReferral, k.isAlias, k.isSubentry}}
	if any, err := anyOf(ctx, s, all); err != nil || !any {
		return err
	}
	for _, c := range []struct {
		filter  filter.Resolved
		present *bool
	}{{k.isReferral, &p.referral}, {k.isAlias, &p.alias}, {k.isSubentry, &p.subentry}} {
		var err error
		if *c.present, err = anyOf(ctx, s, c.filter); err != nil {
			return err
		}
	}
	return nil
}

func anyOf(ctx context.Context, s *partition.Snapshot, f filter.Resolved) (bool, error) {
	for _, err := range s.Search(ctx, partition.Query{Base: entry.Root, Scope: op.WholeSubtree, Filter: f}) {
		return err == nil, err
	}
	return false, nil
}
