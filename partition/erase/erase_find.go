package erase

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// A finding describes the data of one entry that must be removed.
type finding struct {
	id     entry.ID
	called bool // the entry had the name to be erased
	all    bool // remove all data except the fact that the entry existed
	// values contains the versions of columns of master to be removed. renamed contains
	// the versions to be overwritten with another name.
	values, renamed []table.Cell
	// norms contains the columns to be removed from the family normAttributes of the tables
	// tree and master, sorted. If the qualifier of a column does not contain the key, the
	// column is removed only if it has the same value as in norms.
	norms []table.Cell
	// own contains the keys of values that are removed from indexes for this entry only.
	own keySet
	// The map "parents" contains all parents that the entry ever had. The map "names" contains
	// all normalised RDNs that it ever had, and the map "lost" contains the RDNs that are
	// removed.
	parents     map[entry.ID]bool
	names, lost map[dn.Norm]bool
	// nodes contains the entry's positions in the tree, by the revisions that wrote them.
	nodes map[table.Revision]*master.Node
}

// A keySet contains keys, by type, of values to be removed from indexes.
type keySet map[*schema.AttributeType]map[string]bool

func (s keySet) add(t *schema.AttributeType, key []byte) {
	if s[t] == nil {
		s[t] = map[string]bool{}
	}
	s[t][string(key)] = true
}

// find examines all stored versions of all entries and sets e.findings.
func (e *erasure) find(ctx context.Context) error {
	var called map[entry.ID]bool // entries that ever had the name
	if e.target.norms != nil {
		var err error
		if called, err = e.called(ctx); err != nil {
			return err
		}
	}
	var f *finding
	err := e.history(ctx, e.p.Master, table.Range{}, func(p *table.Past) error {
		var id entry.ID
		if len(p.Key) != len(id) {
			return fmt.Errorf("row %x of %s: %w", p.Key, master.Name, table.ErrCorrupt)
		}
		if copy(id[:], p.Key); f == nil || f.id != id {
			e.addFinding(f)
			f = e.newFinding(id, called[id])
		}
		for i := range p.Cells {
			e.look(f, &p.Cells[i])
		}
		return nil
	})
	if err == nil {
		e.addFinding(f)
	}
	return err
}

func (e *erasure) newFinding(id entry.ID, called bool) *finding {
	return &finding{
		id: id, all: e.gone[id], called: called, own: keySet{}, nodes: map[table.Revision]*master.Node{},
		parents: map[entry.ID]bool{}, names: map[dn.Norm]bool{}, lost: map[dn.Norm]bool{},
	}
}

// look examines one version of a cell of an entry. It adds a cell of treeInfo to the node of
// the cell's revision in f.nodes. It passes the cell of a value to e.value. It skips
// tombstones.
func (e *erasure) look(f *finding, c *table.Cell) {
	switch {
	case c.Tombstone:
	case c.Family == master.TreeInfo:
		node := f.nodes[c.Revision]
		if node == nil {
			node = &master.Node{}
			f.nodes[c.Revision] = node
		}
		node.Take(c)
	case c.Family == master.UpAttributes || c.Family == master.Secrets:
		e.value(f, c)
	}
}

// addFinding adds a finding to e.findings unless the finding is empty.
func (e *erasure) addFinding(f *finding) {
	if f == nil {
		return
	}
	for r, node := range f.nodes {
		f.parents[node.Parent], f.names[node.NormRDN] = true, true
		if e.loses(f, node) {
			f.lose(r, node, e.target.k)
		}
	}
	if len(f.values)+len(f.renamed) == 0 && !f.called {
		return
	}
	f.renamed, f.values = table.SortVersions(f.renamed), table.SortVersions(f.values)
	slices.SortFunc(f.norms, table.Cell.Compare)
	e.findings = append(e.findings, f)
	e.done.Values += len(f.values)
	switch {
	case f.all:
		e.done.Gone++
	case len(f.lost) > 0:
		e.done.Names++
	}
}

// loses reports whether the name in a node of an entry must be removed.
func (e *erasure) loses(f *finding, node *master.Node) bool {
	switch {
	case node.NormRDN == Unnamed(e.target.k, f.id).NormRDN:
		return false // the name has already been removed
	case f.all:
		return true
	}
	if n := e.target.norms; n != nil {
		return f.called && (node.NormRDN == n[0] || node.NormRDN == dn.Norm(dn.Key(n)))
	}
	name, err := dn.Parse(node.UpRDN)
	return err == nil && e.target.inDN(name)
}

// The method "lose" adds the name in node to the names that must be removed. The entry's
// entryUUID replaces it.
func (f *finding) lose(r table.Revision, node *master.Node, k *catalog.Types) {
	f.lost[node.NormRDN] = true
	unnamed := Unnamed(k, f.id)
	unnamed.Parent, unnamed.Order = node.Parent, node.Order
	for _, c := range unnamed.Cells(k.Schema) {
		if string(c.Qualifier) != "p" && string(c.Qualifier) != "o" {
			c.Revision = r
			f.renamed = append(f.renamed, c)
		}
	}
}

// Unnamed returns the node of an entry whose name was erased. The node has no parent.
func Unnamed(k *catalog.Types, id entry.ID) *master.Node {
	rdn := dn.RDN{{Type: k.EntryUUID.Name(), Value: []byte(id.String())}}
	norm, err := rdn.Normalize(k.Schema)
	if err != nil {
		panic(err) // cannot happen: the value is a valid UUID
	}
	return &master.Node{UpRDN: rdn.String(), NormRDN: norm}
}

// value adds one version of a value to the finding if this version must be removed.
func (e *erasure) value(f *finding, c *table.Cell) {
	t, options, _ := master.Describe(c.Qualifier, e.target.k.Schema)
	if t == nil { // the type was removed from the schema
		if f.all || e.target.norms == nil && e.target.typ == nil && bytes.Equal(c.Value, e.target.value) {
			f.drop(c)
		}
		return
	}
	everywhere := e.target.inValue(t, c.Value)
	if !everywhere && !e.losesValue(f, t, c.Value) {
		return
	}
	f.drop(c)
	if t.Equality == nil || t.Secret() {
		return
	}
	key, err := t.Equality.Key(c.Value)
	if err != nil {
		return // the value has no key, so the indexes contain none
	}
	// If the description has many values, the qualifier of the value's column contains the
	// key, even if the value has no position.
	f.norms = append(f.norms, tree.ColumnOf(t, options, key, master.PositionOf(c.Qualifier)),
		table.Cell{Family: tree.NormAttributes, Qualifier: tree.Qualifier(t, options, key)})
	if everywhere {
		e.keys.add(t, key)
	} else {
		f.own.add(t, key)
	}
}

func (f *finding) drop(c *table.Cell) {
	f.values = append(f.values, table.Cell{Family: c.Family, Qualifier: c.Qualifier, Revision: c.Revision, Tombstone: true})
}

// losesValue reports whether an entry loses a value. If all data of the entry is removed, the
// entry loses all values except those that record its existence. If only the name is removed,
// the entry loses the values that are in the RDN.
func (e *erasure) losesValue(f *finding, t *schema.AttributeType, v []byte) bool {
	if f.all {
		return t != e.target.k.ObjectClass && (!t.NoUserModification || t.Secret())
	}
	return f.called && slices.ContainsFunc(e.target.name[0], func(a dn.AVA) bool {
		return e.target.k.Schema.Attribute(a.Type) == t && t.SameValue(a.Value, v)
	})
}

// The method "goes" reports whether a column of normAttributes must be removed.
func (f *finding) goes(c *table.Cell) bool {
	i, _ := slices.BinarySearchFunc(f.norms, *c, table.Cell.Compare)
	for ; i < len(f.norms) && f.norms[i].Compare(*c) == 0; i++ {
		o := &f.norms[i]
		if tree.Decode(o).Kind != tree.Single || c.Tombstone || bytes.Equal(o.Value, c.Value) {
			return true
		}
	}
	return false
}

// checkStanding returns an error if entries of the present state, naming contexts or
// checkpoints contain the target.
func (e *erasure) checkStanding(ctx context.Context) error {
	refused := &StandingError{}
	checkpoints, err := e.p.DB.Checkpoints(ctx)
	if err != nil {
		return err
	}
	for _, c := range checkpoints {
		if e.target.inText(c.Name) {
			refused.add("checkpoint " + c.Name)
		}
	}
	for _, s := range e.now.Catalog.Header.Suffixes {
		if e.target.inName(s) {
			refused.add("naming context " + s)
		}
	}
	for _, f := range e.findings {
		stands, err := e.stands(ctx, f)
		if err != nil {
			return err
		}
		if !stands {
			continue
		}
		name, err := e.now.Name(ctx, f.id)
		if err != nil {
			return err
		}
		refused.add(name.String())
	}
	if refused.Count > 0 {
		return refused
	}
	return nil
}

func (e *StandingError) add(name string) {
	if e.Count++; len(e.Names) < maxStanding {
		e.Names = append(e.Names, name)
	}
}

// The method "stands" reports whether the present state still contains some of the data that
// must be erased from an entry.
func (e *erasure) stands(ctx context.Context, f *finding) (bool, error) {
	if f.all {
		return false, nil
	}
	list := table.SortVersions(slices.Concat(f.values, f.renamed))
	for part := range slices.Chunk(list, state.MaxColumns) {
		var sel table.Select
		for _, c := range part {
			if !slices.Contains(sel.Families, c.Family) {
				sel.Families = append(sel.Families, c.Family)
			}
			sel.Columns = append(sel.Columns, table.Column(c.Family, c.Qualifier))
		}
		row, err := e.now.Reader.Get(ctx, e.p.Master, master.Row(f.id), sel)
		if err != nil {
			return false, err
		}
		for _, now := range row.Cells {
			if slices.ContainsFunc(part, func(c table.Cell) bool { return c.Revision == now.Revision && c.Compare(now) == 0 }) {
				return true, nil
			}
		}
	}
	return false, nil
}
