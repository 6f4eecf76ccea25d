package erase

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// A tenure records that an entry had a row of the tree. The entry had the row at each revision
// r with from <= r < to.
type tenure struct {
	id       entry.ID
	from, to table.Revision
}

// always is the tenure of the virtual root.
var always = tenure{id: catalog.Root, to: ^table.Revision(0)}

// called returns the entries that ever had the name to be erased. It adds the rows of the
// tree with this name to e.rows, and the entries that no longer exist to e.gone.
func (e *erasure) called(ctx context.Context) (map[entry.ID]bool, error) {
	norms := e.target.norms
	ids := map[entry.ID]bool{}
	// Each suffix of the name may have been the name of a naming context.
	for n := range norms {
		at, rdn, err := []tenure{always}, dn.Norm(dn.Key(norms[n:])), error(nil)
		for i := n - 1; i >= 0 && err == nil; i-- {
			at, err = e.children(ctx, at, rdn)
			rdn = norms[i]
		}
		if err == nil {
			err = e.addLast(ctx, at, rdn, ids)
		}
		if err != nil {
			return nil, err
		}
	}
	for id := range ids {
		node, err := e.now.Node(ctx, id)
		if err != nil {
			return nil, err
		}
		if node == nil {
			e.gone[id] = true
		}
	}
	return ids, nil
}

// children returns the tenures of the entries that had the given RDN below a parent. The
// parameter "above" contains the tenures of the parents. Each tenure is limited to the tenure
// of its parent.
func (e *erasure) children(ctx context.Context, above []tenure, rdn dn.Norm) (found []tenure, err error) {
	for _, a := range above {
		all, err := e.tenures(ctx, tree.Key(a.id, rdn))
		if err != nil {
			return nil, err
		}
		for _, t := range all {
			t.from, t.to = max(t.from, a.from), min(t.to, a.to)
			if t.from < t.to {
				found = append(found, t)
			}
		}
	}
	return found, nil
}

// addLast adds the entries with the last RDN of the name to ids, and their rows to
// e.rows.
func (e *erasure) addLast(ctx context.Context, above []tenure, rdn dn.Norm, ids map[entry.ID]bool) error {
	for _, a := range above {
		found, err := e.children(ctx, []tenure{a}, rdn)
		if err != nil {
			return err
		}
		for _, t := range found {
			ids[t.id] = true
			key := string(tree.Key(a.id, rdn))
			e.rows[key] = append(e.rows[key], t.id)
		}
	}
	return nil
}

// tenures returns the tenures of a row of the tree, in order.
func (e *erasure) tenures(ctx context.Context, key []byte) (all []tenure, err error) {
	states, err := e.holders(ctx, key)
	for i, s := range states {
		if s.id == catalog.Root {
			continue // no entry had the row
		}
		to := always.to
		if i+1 < len(states) {
			to = states[i+1].from
		}
		all = append(all, tenure{s.id, s.from, to})
	}
	return all, err
}

// holders returns, for each revision that changed a row of the tree, the entry that had
// the row from that revision on. The id of the root means that no entry had the row.
func (e *erasure) holders(ctx context.Context, key []byte) (states []tenure, err error) {
	var past table.Past
	if err := e.history(ctx, e.p.Tree, oneRow(key), func(p *table.Past) error {
		for _, c := range p.Cells {
			if c.Family != markFamily {
				past.Cells = append(past.Cells, c)
			}
		}
		past.Deletes = append(past.Deletes, p.Deletes...)
		return nil
	}); err != nil {
		return nil, err
	}
	for _, r := range past.Revisions() {
		if r > e.r.At.Max() {
			break
		}
		row, err := e.p.Tree.Get(ctx, key, table.Select{View: until(r), Families: []table.Family{tree.TreeInfo}})
		if err != nil {
			return nil, err
		}
		id, _ := tree.ID(row)
		states = append(states, tenure{id: id, from: r})
	}
	return states, nil
}

// The type "until" is the table.View that shows all cells up to a revision. Only a revision up
// to which all commits are decided may be used.
type until table.Revision

func (r until) Max() table.Revision           { return table.Revision(r) }
func (r until) Low() table.Revision           { return table.Revision(r) }
func (r until) Visible(o table.Revision) bool { return o <= table.Revision(r) }
