package lsm

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// keyNextID is a key of table 0, which describes the other tables. Its value is the id of
// the next table, as a uvarint.
var keyNextID = []byte{0, 0, 'n', 0, 0}

func keyTable(name string) []byte {
	return append(appendEscaped([]byte{0, 0, 't'}, []byte(name)), 0, 0)
}

const defaultImageLimit = 8 << 10

// A group is a family together with all families whose FamilySpec.With names it. The
// families of a group share an image.
type group struct {
	name     table.Family // the name of the first family
	families []table.Family
	limit    int
}

// A tableInfo is a table in the catalog. It is never changed.
type tableInfo struct {
	id       uint16
	spec     table.Spec
	groups   []*group    // sorted by name
	byFamily [256]*group // indexed by family; an array, because a load looks up the group of every cell
}

// An entry is the stored form of a table in the catalog.
type entry struct {
	ID   uint16
	Spec table.Spec
}

func newTableInfo(id uint16, spec table.Spec) (*tableInfo, error) {
	t := &tableInfo{id: id, spec: spec}
	if spec.Name == "" || len(spec.Families) == 0 {
		return nil, fmt.Errorf("table %q: a table needs a name and a family", spec.Name)
	}
	for _, f := range spec.Families {
		if t.byFamily[f.Name] != nil || f.Name == 0 {
			return nil, fmt.Errorf("table %q: bad or repeated family %q", spec.Name, string(rune(f.Name)))
		}
		limit := f.ImageLimit
		if limit == 0 {
			limit = defaultImageLimit
		}
		g := &group{name: f.Name, limit: limit}
		if f.With != 0 {
			if g = t.byFamily[f.With]; g == nil {
				return nil, fmt.Errorf("table %q: family %q is with %q, which is not declared before it",
					spec.Name, string(rune(f.Name)), string(rune(f.With)))
			}
			g.limit = min(g.limit, limit)
		} else {
			t.groups = append(t.groups, g)
		}
		g.families = append(g.families, f.Name)
		t.byFamily[f.Name] = g
	}
	slices.SortFunc(t.groups, func(a, b *group) int { return int(a.name) - int(b.name) })
	return t, nil
}

type catalog map[string]*tableInfo

// A tableCatalog has the catalog of a store's tables.
type tableCatalog struct {
	db  *pebble.DB
	now atomic.Pointer[catalog]
}

// load reads the catalog.
func (c *tableCatalog) load() error {
	cat := catalog{}
	it, err := c.db.NewIter(&pebble.IterOptions{LowerBound: []byte{0, 0, 't'}, UpperBound: []byte{0, 0, 't' + 1}})
	if err != nil {
		return err
	}
	for it.First(); it.Valid(); it.Next() {
		var r entry
		if err = json.Unmarshal(it.Value(), &r); err != nil {
			err = fmt.Errorf("%w: table description: %w", table.ErrCorrupt, err)
			break
		}
		if cat[r.Spec.Name], err = newTableInfo(r.ID, r.Spec); err != nil {
			break
		}
	}
	c.now.Store(&cat)
	return errors.Join(err, it.Close())
}

// nextID returns the id of the next table.
func (c *tableCatalog) nextID() (uint64, error) {
	v, done, err := c.db.Get(keyNextID)
	if err != nil {
		return 0, err
	}
	defer done.Close()
	n, k := binary.Uvarint(v)
	if k <= 0 {
		return 0, errKey
	}
	return n, nil
}

// Create implements table.Store.
func (s *Store) Create(ctx context.Context, specs ...table.Spec) (err error) {
	if !s.gate.closed() && s.tables.hasAll(specs) {
		return context.Cause(ctx)
	}
	if err := s.gate.beginWrite(ctx, false); err != nil {
		return err
	}
	defer s.gate.endWrite()
	defer s.caught(&err)
	cat := maps.Clone(*s.tables.now.Load())
	b := s.db.NewBatch()
	next, err := s.tables.nextID()
	if err != nil && !errors.Is(err, pebble.ErrNotFound) {
		return s.wrap("create tables", err)
	}
	next = max(next, 1)
	for _, spec := range specs {
		if t := cat[spec.Name]; t != nil {
			if t.spec.Unversioned != spec.Unversioned || !slices.Equal(t.spec.Families, spec.Families) {
				return s.wrap("create tables", fmt.Errorf("table %q exists with other families", spec.Name))
			}
			continue
		}
		if next >= 0xffff {
			return s.wrap("create tables", errors.New("no table ids left"))
		}
		spec.Families = slices.Clone(spec.Families)
		t, err := newTableInfo(uint16(next), spec)
		if err != nil {
			return s.wrap("create tables", err)
		}
		v, err := json.Marshal(entry{t.id, spec})
		if err != nil {
			return s.wrap("create tables", err)
		}
		cat[spec.Name] = t
		next++
		b.Set(keyTable(spec.Name), v, nil)
	}
	if b.Count() == 0 {
		return b.Close()
	}
	b.Set(keyNextID, binary.AppendUvarint(nil, next), nil)
	if err := s.commits.applyNow(b); err != nil {
		return s.wrap("create tables", err)
	}
	s.tables.now.Store(&cat)
	return nil
}

// hasAll reports whether all tables exist already. In that case Create succeeds even
// without write access.
func (c *tableCatalog) hasAll(specs []table.Spec) bool {
	cat := *c.now.Load()
	return !slices.ContainsFunc(specs, func(x table.Spec) bool {
		t := cat[x.Name]
		return t == nil || t.spec.Unversioned != x.Unversioned || !slices.Equal(t.spec.Families, x.Families)
	})
}

// Drop implements table.Store.
func (s *Store) Drop(ctx context.Context, names ...string) (err error) {
	if err := s.gate.beginWrite(ctx, false); err != nil {
		return err
	}
	defer s.gate.endWrite()
	defer s.caught(&err)
	cat := maps.Clone(*s.tables.now.Load())
	b := s.db.NewBatch()
	for _, n := range names {
		t := cat[n]
		if t == nil {
			continue
		}
		delete(cat, n)
		b.Delete(keyTable(n), nil)
		b.DeleteRange(t.start(), t.end(), nil)
	}
	if b.Count() == 0 {
		return b.Close()
	}
	if err := s.commits.applyNow(b); err != nil {
		return s.wrap("drop tables", err)
	}
	s.tables.now.Store(&cat)
	s.iters.changed(0)
	return nil
}

func (t *tableInfo) start() []byte { return []byte{byte(t.id >> 8), byte(t.id), 0} }

func (t *tableInfo) end() []byte { return []byte{byte((t.id + 1) >> 8), byte(t.id + 1), 0} }

// Names implements table.Store.
func (s *Store) Names(ctx context.Context) ([]string, error) {
	if err := s.gate.begin(ctx); err != nil {
		return nil, err
	}
	defer s.gate.end()
	return slices.Sorted(maps.Keys(*s.tables.now.Load())), nil
}
