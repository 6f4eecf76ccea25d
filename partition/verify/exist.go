package verify

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// namesExist reports for each of the names, given by their normalised RDNs, whether there is an
// entry of that name. The name without RDNs is the name of the root. It makes one call for each
// level of the tree, and uses no cache. It adds the ids of the entries that it has found to
// f.known, and does not look these up again.
func (f *danglingFinder) namesExist(ctx context.Context, names [][]dn.Norm) ([]bool, error) {
	exist := make([]bool, len(names))
	var walks []walk
	for i, norms := range names {
		if len(norms) == 0 {
			exist[i] = true
		} else if c := f.s.Catalog.ContextOf(norms); c != nil {
			walks = append(walks, walk{of: i, norms: norms, left: len(norms) - len(c.Norms), key: tree.Key(catalog.Root, c.RDN)})
		}
	}
	for len(walks) > 0 {
		if err := f.readChildren(ctx, walks); err != nil {
			return nil, err
		}
		on := walks[:0]
		for _, w := range walks {
			id, ok := f.known[string(w.key)]
			switch {
			case ok && w.left == 0:
				exist[w.of] = true
			case ok:
				w.left--
				w.key = tree.Key(id, w.norms[w.left])
				on = append(on, w)
			}
		}
		walks = on
	}
	return exist, nil
}

// A walk is the way down to an entry.
type walk struct {
	of    int // position of the name
	norms []dn.Norm
	left  int    // number of RDNs below key
	key   []byte // row of the tree that is read next
}

// readChildren reads the next rows of walks, and adds the ids in them to f.known.
func (f *danglingFinder) readChildren(ctx context.Context, walks []walk) error {
	var keys [][]byte
	asked := map[string]bool{}
	for i := range walks {
		k := walks[i].key
		if _, ok := f.known[string(k)]; !ok && !asked[string(k)] {
			asked[string(k)] = true
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	rows, err := f.s.Reader.GetMany(ctx, f.s.Partition.Tree, keys, table.Select{Families: []table.Family{tree.TreeInfo}})
	if err != nil {
		return err
	}
	for i, row := range rows {
		if id, ok := tree.ID(row); ok {
			f.known[string(keys[i])] = id
		}
	}
	return nil
}
