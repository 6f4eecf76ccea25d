package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// A Fault is a kind of damage to a store.
type Fault string

const (
	FaultEntry Fault = "entry" // a row of master is not a whole entry
	FaultValue Fault = "value" // a value is not allowed by the schema
	// the parent is missing, or a top entry is no naming context
	FaultParent    Fault = "parent"
	FaultCircle    Fault = "circle"    // the entry is below itself
	FaultName      Fault = "name"      // a name disagrees with its normal form or values
	FaultTree      Fault = "tree"      // a row of the tree is missing or belongs to no entry
	FaultColumn    Fault = "column"    // a key's column is missing, wrong or superfluous
	FaultIndex     Fault = "index"     // an index cell is missing, wrong, or without a value
	FaultUnique    Fault = "unique"    // entries share a value that must be unique
	FaultReference Fault = "reference" // a value must name an entry and names none
	FaultVoid      Fault = "void"      // there are cells that no commit wrote
	FaultMissing   Fault = "missing"   // a table is missing, or an index is not complete
	FaultDamage    Fault = "damage"    // something cannot be read
)

// A Finding is one fault of a store.
type Finding struct {
	Fault Fault
	Table string
	ID    entry.ID // zero: the finding concerns no single entry
	Name  string   // name of the entry, as far as it is known
	Text  string
}

func (f *Finding) String() string {
	s := fmt.Sprintf("%s: table %s", f.Fault, f.Table)
	if f.ID != catalog.Root {
		s += fmt.Sprintf(": entry %s", f.ID)
	}
	if f.Name != "" {
		s += fmt.Sprintf(" (%s)", f.Name)
	}
	return s + ": " + f.Text
}

// VerifyOptions are the options of Verify.
type Options struct {
	// Found is called with every finding. If it returns an error, the check ends.
	Found func(*Finding) error
	// Progress, if set, is called with the number of entries checked so far, and with the part
	// of the whole check that is done, from 0 to 1.
	Progress func(entries int, done float64)
}

// Verify compares the newest state of the tree and of every index with the entries in master,
// in both directions. It also looks for cells that no commit wrote. Verify reads all rows as a
// stream and keeps only one batch of entries in memory. It returns the number of entries. It
// returns an error if Found returns one, or if a read fails for another reason than damage.
//
// Verify only scans tables: it adds up hashes of the cells of each table, and of the cells that the
// entries in master make it expect. If the sums of a table differ, or a part of it cannot be read,
// Verify looks up each expected cell of the table, and then the entry of each of its cells. It reads a
// table once more if the scan met a cell that may be of no commit.
func Verify(ctx context.Context, p *catalog.Partition, o Options) (int, error) {
	s := state.Newest(p)
	defer s.Close()
	s.Cached = false // check the store, not the cache
	v := &verifier{p: p, s: s, o: o, hash: newHasher(), above: map[entry.ID]bool{}, void: newVoid(s)}
	err := v.run(ctx)
	return v.entries, err
}

type verifier struct {
	p *catalog.Partition
	s *state.Snapshot

	o       Options
	hash    hasher
	tree    sums
	indexes []*indexCheck
	entries int
	above   map[entry.ID]bool // entries on a path to the root
	stages  stages
	void    *void
}

func (v *verifier) run(ctx context.Context) error {
	if err := v.tables(ctx); err != nil {
		return err
	}
	rows, err := v.sumTree(ctx)
	if err := v.unlessDamaged(ctx, tree.Name, err); err != nil {
		return err
	}
	v.stages.plan(rows, len(v.indexes))
	if err := v.unlessDamaged(ctx, master.Name, v.each(ctx, v.expect)); err != nil {
		return err
	}
	for _, x := range v.indexes {
		if err := v.unlessDamaged(ctx, x.Table().Name(), v.sumIndex(ctx, x)); err != nil {
			return err
		}
	}
	if err := v.faults(ctx); err != nil {
		return err
	}
	if err := v.unique(ctx); err != nil {
		return err
	}
	if err := v.references(ctx); err != nil {
		return err
	}
	return v.voids(ctx)
}

// references looks for values that must name an entry and name none.
func (v *verifier) references(ctx context.Context) error {
	for _, x := range v.s.Catalog.Ordered {
		if x.Reference == nil || !x.Reference.MustExist || !x.Ready {
			continue
		}
		err := func() error {
			for d, err := range Dangling(ctx, v.s, x, nil) {
				if err != nil {
					return err
				}
				if err := v.found(ctx, FaultReference, x.Table().Name(), d.ID, "its %s names %s, which there is no entry of", x.Typ.Name(), d.Value); err != nil {
					return err
				}
			}
			return nil
		}()
		if err := v.unlessDamaged(ctx, x.Table().Name(), err); err != nil {
			return err
		}
	}
	return nil
}

// unique looks for values that must be unique and are not.
func (v *verifier) unique(ctx context.Context) error {
	for _, x := range v.s.Catalog.Ordered {
		for _, base := range x.Unique {
			_, err := Duplicates(ctx, v.s, x, base, func(a, b entry.ID) error {
				return v.found(ctx, FaultUnique, x.Table().Name(), b, "has a value of %s that %s has too, and it must be unique", x.Typ.Name(), v.name(ctx, a))
			})
			if err := v.unlessDamaged(ctx, x.Table().Name(), err); err != nil {
				return err
			}
		}
	}
	return nil
}

// The method "found" calls VerifyOptions.Found with a finding.
func (v *verifier) found(ctx context.Context, f Fault, tbl string, id entry.ID, format string, args ...any) error {
	x := &Finding{Fault: f, Table: tbl, ID: id, Text: fmt.Sprintf(format, args...)}
	if id != catalog.Root {
		x.Name = v.name(ctx, id)
	}
	return v.o.Found(x)
}

// name returns an entry's name, or as much of it as can be read.
func (v *verifier) name(ctx context.Context, id entry.ID) (name string) {
	for range 100 {
		node, err := v.node(ctx, id)
		if err != nil || node == nil {
			return name
		}
		if name != "" {
			name += ","
		}
		name += node.UpRDN
		if id = node.Parent; id == catalog.Root {
			return name
		}
	}
	return name
}

func (v *verifier) node(ctx context.Context, id entry.ID) (*master.Node, error) {
	some, err := v.nodes(ctx, []entry.ID{id})
	if err != nil {
		return nil, err
	}
	return some[0], nil
}

// nodes reads the nodes of entries in one call. A node is nil if the entry does not exist.
func (v *verifier) nodes(ctx context.Context, ids []entry.ID) ([]*master.Node, error) {
	keys := make([][]byte, len(ids))
	for i, id := range ids {
		keys[i] = master.Row(id)
	}
	rows, err := v.s.Reader.GetMany(ctx, v.p.Master, keys, table.Select{Families: []table.Family{master.TreeInfo}})
	if err != nil {
		return nil, err
	}
	nodes := make([]*master.Node, len(ids))
	for i, row := range rows {
		if node, ok := master.DecodeNode(row); ok {
			nodes[i] = &node
		}
	}
	return nodes, nil
}

// tables reports missing index tables and incomplete indexes, and collects all other
// indexes in v.indexes.
func (v *verifier) tables(ctx context.Context) error {
	names, err := v.p.Store.Names(ctx)
	if err != nil {
		return err
	}
	for _, x := range v.s.Catalog.Ordered {
		switch {
		case !slices.Contains(names, x.Table().Name()):
			err = v.found(ctx, FaultMissing, x.Table().Name(), catalog.Root, "there is no such table: run reindex %s", x.Typ.Name())
		case !x.Ready:
			err = v.found(ctx, FaultMissing, x.Table().Name(), catalog.Root, "the index was not filled to the end: run reindex %s", x.Typ.Name())
		default:
			v.indexes = append(v.indexes, &indexCheck{Indexed: x})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// verifyBatch is the number of entries that are checked at once.
const verifyBatch = 128

// each reads all entries in the table master, and calls f with batches of them.
func (v *verifier) each(ctx context.Context, f func(context.Context, []*subject) error) error {
	v.stages.begin(entriesWeight)
	sel := table.Select{
		Families: []table.Family{master.TreeInfo, master.UpAttributes, master.Secrets, master.NormAttributes},
		MaxCells: state.MaxColumns,
	}
	var batch []*subject
	for row, err := range v.scan(ctx, v.p.Master, sel) {
		if err != nil {
			return err
		}
		if len(row.Cells) >= state.MaxColumns {
			whole := sel
			whole.MaxCells = 0
			if row, err = v.void.reader.Get(ctx, v.p.Master, row.Key, whole); err != nil {
				return err
			}
		}
		v.void.look(row.Cells)
		x, err := v.subject(ctx, row.Clone())
		if err != nil {
			return err
		}
		if x == nil {
			continue
		}
		if batch = append(batch, x); len(batch) == verifyBatch || len(x.row.Cells) >= state.MaxColumns {
			if err := f(ctx, batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	return f(ctx, batch)
}

// expect checks the places of a batch of entries, and adds to the sums the cells that must exist
// for them.
func (v *verifier) expect(ctx context.Context, batch []*subject) error {
	if err := v.lookUpBatch(ctx, master.Name, batch, v.places); err != nil {
		return err
	}
	for _, x := range batch {
		v.expectTree(x)
		for _, c := range v.indexes {
			for _, e := range c.mutations(x) {
				v.hash.add(&c.want, e.row, &e.cell)
			}
		}
	}
	v.entries += len(batch)
	v.progress(len(batch))
	return nil
}

// faults finds what is wrong with the tables whose sums are wrong.
func (v *verifier) faults(ctx context.Context) error {
	wrong := func(x *indexCheck) bool { return x.wrong() }
	if !v.tree.wrong() && !slices.ContainsFunc(v.indexes, wrong) {
		return nil
	}
	err := v.quietly().each(ctx, func(ctx context.Context, batch []*subject) error {
		v.progress(len(batch))
		return v.lookUp(ctx, batch)
	})
	if err != nil && !errors.Is(err, table.ErrCorrupt) { // v.each has reported damage of master
		return err
	}
	if v.tree.wrong() {
		if err := v.unlessDamaged(ctx, tree.Name, v.strayRows(ctx)); err != nil {
			return err
		}
	}
	for _, x := range v.indexes {
		if !x.wrong() {
			continue
		}
		stray := func(batch []located) error { return v.stray(ctx, x, batch) }
		if err := v.unlessDamaged(ctx, x.Table().Name(), inBatches(v.quietly().indexed(ctx, x), located.clone, stray)); err != nil {
			return err
		}
	}
	return nil
}

// quietly returns a copy of v that reports no findings.
func (v *verifier) quietly() *verifier {
	q := *v
	q.o.Found = func(*Finding) error { return nil }
	return &q
}

// lookUp looks up the rows and cells that must exist for a batch of entries, in the tables whose
// sums are wrong.
func (v *verifier) lookUp(ctx context.Context, batch []*subject) error {
	if v.tree.wrong() {
		if err := v.lookUpBatch(ctx, tree.Name, batch, v.treeRows); err != nil {
			return err
		}
	}
	for _, x := range v.indexes {
		if !x.wrong() {
			continue
		}
		if err := v.lookUpBatch(ctx, x.Table().Name(), batch, func(ctx context.Context, b []*subject) error { return v.indexCells(ctx, x, b) }); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) treeRows(ctx context.Context, batch []*subject) error {
	if len(batch) == 0 {
		return nil
	}
	keys := make([][]byte, len(batch))
	for i, x := range batch {
		keys[i] = tree.Key(x.node.Parent, x.node.NormRDN)
	}
	rows, err := v.s.Reader.GetMany(ctx, v.p.Tree, keys, table.Select{Families: []table.Family{tree.TreeInfo, tree.NormAttributes}})
	if err != nil {
		return err
	}
	for i, x := range batch {
		if err := v.treeRow(ctx, x, rows[i]); err != nil {
			return err
		}
	}
	return nil
}

// maxAbove is the largest number of entries that are remembered as connected to the root.
const maxAbove = 1 << 20

// ancestors reads the nodes of the ancestors of a batch of entries that are not known to be on a
// path to the root. It makes one call for each level of the tree. The result is nil for an entry
// that does not exist.
func (v *verifier) ancestors(ctx context.Context, batch []*subject) (map[entry.ID]*master.Node, error) {
	if len(v.above) > maxAbove {
		clear(v.above)
	}
	nodes := map[entry.ID]*master.Node{}
	var level []entry.ID
	climb := func(to entry.ID) {
		if _, known := nodes[to]; !known && to != catalog.Root && !v.above[to] {
			nodes[to] = nil
			level = append(level, to)
		}
	}
	for _, x := range batch {
		climb(x.node.Parent)
	}
	for len(level) > 0 {
		ids := level
		level = nil
		some, err := v.nodes(ctx, ids)
		if err != nil {
			return nil, err
		}
		for i, node := range some {
			if nodes[ids[i]] = node; node != nil {
				climb(node.Parent)
			}
		}
	}
	return nodes, nil
}

// reaches checks that the path from an entry up through its ancestors ends at the root. It
// remembers the ancestors that are on a path to the root. If a parent is missing, the
// child of the missing parent is reported, but not the entries below that child. The parameter
// nodes is the result of ancestors.
func (v *verifier) reaches(ctx context.Context, id, parent entry.ID, nodes map[entry.ID]*master.Node) error {
	path := map[entry.ID]bool{id: true}
	for at := parent; at != catalog.Root && !v.above[at]; {
		if path[at] {
			if at != id {
				return nil // the entry is below a circle, which is reported separately
			}
			return v.found(ctx, FaultCircle, master.Name, id, "the entry is below itself: nothing reaches it")
		}
		path[at] = true
		node := nodes[at]
		if node == nil {
			if at != parent {
				return nil // reported for the entry at which the path ends
			}
			return v.found(ctx, FaultParent, master.Name, id, "its parent %s does not exist: nothing reaches the entry", at)
		}
		at = node.Parent
	}
	delete(path, id) // do not remember the entry itself, which is probably a leaf
	for at := range path {
		v.above[at] = true
	}
	return nil
}

// sumTree adds up the cells of the tree. It returns the number of rows.
func (v *verifier) sumTree(ctx context.Context) (n int, err error) {
	sel := table.Select{Families: []table.Family{tree.TreeInfo, tree.NormAttributes}}
	for row, err := range v.scan(ctx, v.p.Tree, sel) {
		if err != nil {
			return n, err
		}
		v.void.look(row.Cells)
		for i := range row.Cells {
			v.hash.add(&v.tree.have, row.Key, &row.Cells[i])
		}
		n++
	}
	return n, nil
}

// strayRows looks for rows of the tree that belong to no entry.
func (v *verifier) strayRows(ctx context.Context) error {
	rows := v.s.Reader.Scan(ctx, v.p.Tree, table.Range{}, table.Select{Families: []table.Family{tree.TreeInfo, tree.NormAttributes}})
	return inBatches(rows, table.Row.Clone, func(batch []table.Row) error {
		ids := make([]entry.ID, len(batch))
		for i, row := range batch {
			ids[i], _ = tree.ID(row)
		}
		nodes, err := v.nodes(ctx, ids)
		if err != nil {
			return err
		}
		for i, row := range batch {
			if err := v.strayRow(ctx, row, nodes[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// inBatches calls f with copies of the items, verifyBatch at once.
func inBatches[T any](items iter.Seq2[T, error], clone func(T) T, f func([]T) error) error {
	var batch []T
	for x, err := range items {
		if err != nil {
			return err
		}
		if batch = append(batch, clone(x)); len(batch) == verifyBatch {
			if err := f(batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	if len(batch) == 0 {
		return nil
	}
	return f(batch)
}

// strayRow reports a row of the tree that belongs to no entry. The parameter node is the node of
// the entry that the row names.
func (v *verifier) strayRow(ctx context.Context, row table.Row, node *master.Node) error {
	id, ok := tree.ID(row)
	switch {
	case !ok:
		return v.found(ctx, FaultTree, tree.Name, catalog.Root, "the row %q has no id", row.Key)
	case node == nil:
		return v.found(ctx, FaultTree, tree.Name, id, "the row %q names an entry that does not exist", row.Key)
	case !bytes.Equal(row.Key, tree.Key(node.Parent, node.NormRDN)):
		return v.found(ctx, FaultTree, tree.Name, id, "the row %q names an entry that stands elsewhere", row.Key)
	}
	return nil
}

// located is a cell with the key of its row.
type located struct {
	row  []byte
	cell *table.Cell
}

func (l located) clone() located {
	c := *l.cell
	c.Qualifier = bytes.Clone(c.Qualifier)
	return located{bytes.Clone(l.row), &c}
}

// cellsPage is the number of cells of a row that are kept in memory at once.
const cellsPage = 1000

// pages yields the cells of rows. If a row has a full page of cells, pages reads the next
// pages of the row.
func pages(rows iter.Seq2[table.Row, error], read func(row, from []byte) (table.Row, error)) iter.Seq2[located, error] {
	return func(yield func(located, error) bool) {
		for row, err := range rows {
			for {
				if err != nil {
					yield(located{}, err)
					return
				}
				for i := range row.Cells {
					if !yield(located{row.Key, &row.Cells[i]}, nil) {
						return
					}
				}
				n := len(row.Cells)
				if n < cellsPage {
					break
				}
				last := row.Cells[n-1].Qualifier
				row, err = read(bytes.Clone(row.Key), append(bytes.Clone(last), 0))
			}
		}
	}
}
