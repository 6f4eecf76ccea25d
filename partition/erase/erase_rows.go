package erase

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// markFamily is the family of marks. An erasure ignores it, because marks are hashes and
// are removed within minutes.
const markFamily = table.MarkFamily

// A rowSet contains the redactions of a table's rows, one for each row.
type rowSet map[string]*table.Redaction

func (s rowSet) row(key []byte) *table.Redaction {
	x := s[string(key)]
	if x == nil {
		x = &table.Redaction{Row: key}
		s[string(key)] = x
	}
	return x
}

func (s rowSet) list() (rs []table.Redaction) {
	for _, key := range slices.Sorted(maps.Keys(s)) {
		x := s[key]
		x.Columns = slices.CompactFunc(table.SortVersions(x.Columns), func(a, b table.Cell) bool { return a.Compare(b) == 0 })
		x.Cells = table.SortVersions(x.Cells)
		rs = append(rs, *x)
	}
	return rs
}

// indexes removes the keys of the target and of lost values from the indexes.
func (e *erasure) indexes(ctx context.Context) error {
	for _, x := range e.now.Catalog.Ordered {
		rows := rowSet{}
		t := x.Table()
		for key := range e.everywhere(x) {
			err := e.history(ctx, t, table.Prefix([]byte(key)), func(p *table.Past) error {
				rows.row(p.Key).All = true
				return nil
			})
			if err != nil {
				return err
			}
		}
		if err := e.ownIndex(ctx, rows, x); err != nil {
			return err
		}
		if err := e.redact(ctx, t, rows.list()); err != nil {
			return err
		}
	}
	return e.unique(ctx)
}

// everywhere returns prefixes of row keys of an index. The rows with these prefixes are
// removed, whatever entries they contain.
func (e *erasure) everywhere(x *catalog.Indexed) map[string]bool {
	prefixes := map[string]bool{}
	for key := range e.keys[x.Typ] {
		prefixes[string(index.AppendKey(nil, []byte(key)))] = true
	}
	if key, ok := e.target.key(x.Typ); ok {
		prefixes[string(index.AppendKey(nil, key))] = true
	}
	return prefixes
}

// ownIndex adds to rows those cells of an index that are removed only for the entries that
// lose values.
func (e *erasure) ownIndex(ctx context.Context, rows rowSet, x *catalog.Indexed) error {
	for _, f := range e.findings {
		for key := range f.own[x.Typ] {
			m := x.Mutation([]byte(key), f.id, catalog.Root, true)
			r := rows.row(m.Row)
			r.Columns = append(r.Columns, m.Cells...)
		}
		if f.all && len(f.own[x.Typ]) > 0 {
			rows.row(x.Presence(f.id, catalog.Root, true).Row).All = true
		}
	}
	for _, r := range rows {
		if len(r.Columns) > 0 {
			if err := e.setAll(ctx, x, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// setAll sets r.All if r.Columns contains all columns that the row has. Then the row's
// key is removed too.
func (e *erasure) setAll(ctx context.Context, x *catalog.Indexed, r *table.Redaction) error {
	r.All = true
	return e.history(ctx, x.Table(), oneRow(r.Row), func(p *table.Past) error {
		for _, c := range p.Cells {
			if !slices.ContainsFunc(r.Columns, func(o table.Cell) bool { return o.Compare(c) == 0 }) {
				r.All = false
			}
		}
		return nil
	})
}

// unique removes values from the table of marks of unique values. This table keeps each mark
// only for minutes.
func (e *erasure) unique(ctx context.Context) error {
	rows := rowSet{}
	for _, x := range e.now.Catalog.Ordered {
		for _, row := range e.uniqueRows(x) {
			rows.row(row).All = true
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return e.redact(ctx, e.p.DB.Table(write.UniqueTable), rows.list())
}

func (e *erasure) uniqueRows(x *catalog.Indexed) (rows [][]byte) {
	for _, base := range x.Unique {
		for _, key := range e.lostKeys(x) {
			rows = append(rows, write.UniqueRow(base, x.Typ, key))
		}
	}
	return rows
}

// lostKeys returns all keys that are removed from an index, for all entries or for single
// entries.
func (e *erasure) lostKeys(x *catalog.Indexed) (keys [][]byte) {
	if key, ok := e.target.key(x.Typ); ok {
		keys = append(keys, key)
	}
	for key := range e.keys[x.Typ] {
		keys = append(keys, []byte(key))
	}
	for _, f := range e.findings {
		for key := range f.own[x.Typ] {
			keys = append(keys, []byte(key))
		}
	}
	return keys
}

// treeRows returns all rows of the tree that entries with findings may ever have had: it
// combines all parents of an entry with all its names. The result rows maps the key of each row
// to these entries. The result "lost" says for each row whether its key contains a name to be
// removed.
func (e *erasure) treeRows() (rows map[string][]*finding, lost map[string]bool) {
	rows, lost = map[string][]*finding{}, map[string]bool{}
	for _, f := range e.findings {
		for parent := range f.parents {
			for name := range f.names {
				key := string(tree.Key(parent, name))
				rows[key] = append(rows[key], f)
				lost[key] = lost[key] || f.lost[name]
			}
		}
		for key, ids := range e.rows {
			if slices.Contains(ids, f.id) && !slices.Contains(rows[key], f) {
				rows[key] = append(rows[key], f)
			}
		}
	}
	for key := range e.rows {
		lost[key] = true
	}
	return rows, lost
}

// The method "names" removes the keys of lost values from the tree. If the key of a row
// contains a lost name, it moves the row to a new key.
func (e *erasure) names(ctx context.Context) error {
	rows, lost := e.treeRows()
	redactions := rowSet{}
	m := &mover{erasure: e, writes: map[table.Revision][]table.Mutation{}}
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		var err error
		if lost[key] {
			err = m.move(ctx, []byte(key), rows[key])
		}
		if err == nil {
			err = e.history(ctx, e.p.Tree, oneRow([]byte(key)), func(p *table.Past) error {
				if !lost[key] {
					redactNorms(redactions, p, rows[key])
					return nil
				}
				return e.vacate(ctx, redactions, p, rows[key], len(e.rows[key]) == 0)
			})
		}
		if err != nil {
			return err
		}
	}
	if err := m.Write(ctx); err != nil {
		return err
	}
	return e.redact(ctx, e.p.Tree, redactions.list())
}

// lastNames removes the rows of the tree by which the entries with the erased name were found.
func (e *erasure) lastNames(ctx context.Context) error {
	all, _ := e.treeRows()
	rows := rowSet{}
	for key := range e.rows {
		if err := e.history(ctx, e.p.Tree, oneRow([]byte(key)), func(p *table.Past) error {
			return e.vacate(ctx, rows, p, all[key], true)
		}); err != nil {
			return err
		}
	}
	return e.redact(ctx, e.p.Tree, rows.list())
}

// vacate removes from a row of the tree the cells of the entries that lose the name in the
// row's key. If whole is not set, the cells that record which entry had the row remain. If
// whole is set and no other entry ever had the row, vacate removes the whole row.
func (e *erasure) vacate(ctx context.Context, rows rowSet, p *table.Past, fs []*finding, whole bool) error {
	states, err := e.holders(ctx, p.Key)
	if err != nil {
		return err
	}
	others := map[table.Revision]bool{} // revisions that wrote cells of other entries
	for _, s := range states {
		loses := slices.ContainsFunc(fs, func(f *finding) bool { return f.id == s.id })
		if s.id != catalog.Root && !loses && e.target.norms != nil {
			others[s.from] = true
		}
	}
	x := rows.row(p.Key)
	if x.All = whole && len(others) == 0; x.All {
		return nil
	}
	for _, c := range p.Cells {
		if !c.Tombstone && !others[c.Revision] && (whole || c.Family != tree.TreeInfo) && c.Family != markFamily {
			x.Cells = append(x.Cells, table.Cell{Family: c.Family, Qualifier: c.Qualifier, Revision: c.Revision, Tombstone: true})
		}
	}
	return nil
}

// redactNorms removes the keys of lost values from a row of the tree. The row itself remains.
func redactNorms(rows rowSet, p *table.Past, fs []*finding) {
	for i := range p.Cells {
		c := &p.Cells[i]
		if c.Family != tree.NormAttributes || !slices.ContainsFunc(fs, func(f *finding) bool { return f.goes(c) }) {
			continue
		}
		switch x := rows.row(p.Key); {
		case tree.Decode(c).Kind != tree.Single:
			x.Columns = append(x.Columns, *c)
		case !c.Tombstone:
			x.Cells = append(x.Cells, table.Cell{Family: c.Family, Qualifier: c.Qualifier, Revision: c.Revision, Tombstone: true})
		}
	}
}

// A mover copies rows of the tree, with their past, to new keys.
type mover struct {
	*erasure
	writes map[table.Revision][]table.Mutation
}

// movedHere is a column that never has a value. Its tombstone makes a collection examine
// the row when the commit that wrote the tombstone is old enough.
var movedHere = table.Cell{Family: tree.TreeInfo, Qualifier: []byte("moved"), Tombstone: true}

// move copies the cells of a row, state by state, for the entries that lose the name in
// the row's key. Each of these entries gets a row with a new key.
func (m *mover) move(ctx context.Context, key []byte, fs []*finding) error {
	states, err := m.holders(ctx, key)
	if err != nil {
		return err
	}
	had := map[entry.ID][]table.Cell{}
	for _, s := range states {
		if i := slices.IndexFunc(fs, func(f *finding) bool { return f.id == s.id }); i >= 0 {
			row, err := m.p.Tree.Get(ctx, key, table.Select{View: until(s.from), Families: []table.Family{tree.TreeInfo, tree.NormAttributes}})
			if err != nil {
				return err
			}
			now := slices.DeleteFunc(row.Clone().Cells, func(c table.Cell) bool { return fs[i].goes(&c) })
			m.change(key, s.id, had, now, s.from)
		}
		for id := range had {
			if id != s.id {
				m.change(key, id, had, nil, s.from)
			}
		}
	}
	return nil
}

// change writes, at the revision r, the difference between an entry's new row so far and
// the cells that the row must contain.
func (m *mover) change(key []byte, id entry.ID, had map[entry.ID][]table.Cell, now []table.Cell, r table.Revision) {
	mut := table.Mutation{Row: tree.Key(tree.Parent(key), Unnamed(m.target.k, id).NormRDN)}
	for _, c := range now {
		if !slices.ContainsFunc(had[id], func(o table.Cell) bool { return o.Compare(c) == 0 && bytes.Equal(o.Value, c.Value) }) {
			mut.Cells = append(mut.Cells, c)
		}
	}
	for _, o := range had[id] {
		if !slices.ContainsFunc(now, func(c table.Cell) bool { return o.Compare(c) == 0 }) {
			mut.Cells = append(mut.Cells, table.Cell{Family: o.Family, Qualifier: o.Qualifier, Tombstone: true})
		}
	}
	if had[id] = now; len(mut.Cells) == 0 {
		return
	}
	m.writes[r] = append(m.writes[r], mut)
	m.renamed = append(m.renamed, mut.Row)
}

func (m *mover) Write(ctx context.Context) error {
	for _, r := range slices.Sorted(maps.Keys(m.writes)) {
		if err := m.p.Tree.Apply(ctx, r, m.writes[r]); err != nil {
			return err
		}
	}
	slices.SortFunc(m.renamed, bytes.Compare)
	m.renamed = slices.CompactFunc(m.renamed, bytes.Equal)
	return nil
}

// The method "entries" removes the lost values from master and overwrites the lost names.
func (e *erasure) entries(ctx context.Context) error {
	rows := rowSet{}
	for _, f := range e.findings {
		x := rows.row(master.Row(f.id))
		x.Cells = slices.Concat(f.values, f.renamed)
		for _, c := range f.norms {
			if tree.Decode(&c).Kind != tree.Single {
				x.Columns = append(x.Columns, c)
			}
		}
	}
	return e.redact(ctx, e.p.Master, rows.list())
}

// settings returns the redactions that remove from former settings the naming contexts whose
// names contain the target.
func (e *erasure) settings(ctx context.Context) ([]table.Redaction, error) {
	rows := rowSet{}
	err := e.history(ctx, e.p.SettingsTable, oneRow(catalog.SettingsRow), func(p *table.Past) error {
		for _, c := range p.Cells {
			var s catalog.Settings
			if c.Family != catalog.HeaderFamily || c.Tombstone || c.Revision > e.r.At.Max() || json.Unmarshal(c.Value, &s) != nil {
				continue
			}
			n := len(s.Suffixes)
			if s.Suffixes = slices.DeleteFunc(s.Suffixes, e.target.inName); len(s.Suffixes) == n {
				continue
			}
			m, err := s.Mutation()
			if err != nil {
				return err
			}
			c.Value = m.Cells[0].Value
			x := rows.row(catalog.SettingsRow)
			x.Cells = append(x.Cells, c)
		}
		return nil
	})
	return rows.list(), err
}
