package state

import (
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/cache"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// Guess looks a name up in the cache, whose entries may have changed. It returns the reads that Locate
// probably makes. If the parent is in the cache, known is set, and the place has the RDN and the parent.
// It has an id if the entry is in the cache too. If vacant is set, Locate probably finds no entry.
func Guess(s *Snapshot, name dn.DN, vacant bool) (pl Place, reads []txn.Read, known bool) {
	norms, err := name.Normalize(s.Catalog.Schema)
	if err != nil || !s.Cached {
		return pl, nil, false
	}
	c := s.Catalog.ContextOf(norms)
	if c == nil {
		return pl, nil, false
	}
	pl.Norms, pl.RDN = norms, c.RDN
	for left := len(norms) - len(c.Norms); ; {
		id, ok := s.Catalog.Cache.Children.Get(cache.HintOf(pl.Parent, pl.RDN))
		if ok && s.Current(id) == nil {
			reads = append(reads, txn.Read{Table: s.Partition.Master, Row: master.Row(id), Select: selectItem})
		}
		if !ok || left == 0 && vacant {
			reads = append(reads, txn.Read{Table: s.Partition.Tree, Row: tree.Key(pl.Parent, pl.RDN), Select: table.Select{Families: []table.Family{tree.TreeInfo}}})
		}
		if left == 0 {
			if ok {
				pl.ID = id
			}
			return pl, reads, true
		}
		if !ok {
			return pl, nil, false
		}
		left--
		pl.Parent, pl.RDN = id, norms[left]
	}
}
