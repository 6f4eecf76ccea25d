package search

import (
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/cache"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Names remembers the names of referrers for calls of Referrers about one state. A search that
// returns the groups of many entries meets the same groups again and again, and the cache need
// not have them: it does not keep the nodes of entries of which only the name was read.
type Names struct {
	state *state.Snapshot
	names map[entry.ID]*dn.Name
	ahead map[string]*cache.Referrers // of the entries that the search returns next
	found []Referrer                  // buffer
}

// maxNames bounds the names that Names remembers.
const maxNames = 1 << 16

// of returns the remembered names of a state. For the first call about a state it returns nil,
// because most searches return one entry.
func (n *Names) of(s *state.Snapshot) map[entry.ID]*dn.Name {
	switch {
	case n == nil:
		return nil
	case n.state != s:
		*n = Names{state: s}
		return nil
	case n.names == nil || len(n.names) >= maxNames:
		n.names = map[entry.ID]*dn.Name{}
	}
	return n.names
}

// namesOf returns, for each element of kept, the names of the entries in the sets of that
// element. A name is nil if no entry has the id. namesOf does not read whole entries, because
// groups are large and only the names are needed.
func namesOf(ctx context.Context, s *state.Snapshot, kept []*cache.Referrers, known map[entry.ID]*dn.Name) ([][][]*dn.Name, error) {
	names := make([][][]*dn.Name, len(kept))
	var ids []entry.ID
	var unnamed []int
	for i, k := range kept {
		n := k.Names.Load()
		if n != nil && s.Ordinal() != 0 && s.Unchanged(cache.Moves, n.AsOf) {
			names[i] = n.Names
			continue
		}
		unnamed = append(unnamed, i)
		for _, set := range k.Sets {
			for at := range set.Len() {
				ids = append(ids, set.ID(at))
			}
		}
	}
	read, err := readNames(ctx, s, ids, known)
	if err != nil {
		return nil, err
	}
	for _, i := range unnamed {
		for _, set := range kept[i].Sets {
			names[i] = append(names[i], read[:set.Len():set.Len()])
			read = read[set.Len():]
		}
		if asOf := s.Ordinal(); asOf != 0 {
			kept[i].Names.Store(&cache.ReferrerNames{AsOf: asOf, Names: names[i]})
		}
	}
	return names, nil
}

// readNames returns the names of the entries with the given ids. For entries that are not in
// memory, it reads the nodes, largeBatch nodes in one call.
func readNames(ctx context.Context, s *state.Snapshot, ids []entry.ID, known map[entry.ID]*dn.Name) ([]*dn.Name, error) {
	names := make([]*dn.Name, len(ids))
	f := finder{s: s} // remembers the names of parents
	var missing []int
	for i, id := range ids {
		if names[i] = known[id]; names[i] != nil {
			continue
		}
		it := s.Current(id)
		if it == nil {
			missing = append(missing, i)
			continue
		}
		var err error
		if names[i], err = f.nameOf(ctx, id, it); err != nil {
			return nil, err
		}
	}
	for some := range slices.Chunk(missing, largeBatch) {
		keys := make([][]byte, len(some))
		for k, i := range some {
			keys[k] = master.Row(ids[i])
		}
		rows, err := s.Reader.GetMany(ctx, s.Partition.Master, keys, table.Select{Families: []table.Family{master.TreeInfo}})
		if err != nil {
			return nil, err
		}
		for k, i := range some {
			node, ok := master.DecodeNode(rows[k])
			if !ok {
				continue
			}
			if names[i], err = f.nameOf(ctx, ids[i], &cache.Item{Node: node}); err != nil {
				return nil, err
			}
			if known != nil {
				known[ids[i]] = names[i]
			}
		}
	}
	return names, nil
}
