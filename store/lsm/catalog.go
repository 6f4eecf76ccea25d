package lsm

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

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

// loadCatalog reads the catalog.
func (s *Store) loadCatalog() error {
	cat := catalog{}
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{0, 0, 't'}, UpperBound: []byte{0, 0, 't' + 1}})
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
	s.cat.Store(&cat)
	return errors.Join(err, it.Close())
}

func (s *Store) getUint(key []byte) (uint64, error) {
	v, c, err := s.db.Get(key)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	n, k := binary.Uvarint(v)
	if k <= 0 {
		return 0, errKey
	}
	return n, nil
}

// Create implements table.Store.
func (s *Store) Create(ctx context.Context, specs ...table.Spec) (err error) {
	if s.hasAll(specs) {
		return context.Cause(ctx)
	}
	if err := s.beginWrite(ctx, false); err != nil {
		return err
	}
	defer s.endWrite()
	defer s.caught(&err)
	cat := maps.Clone(*s.cat.Load())
	b := s.db.NewBatch()
	next, err := s.getUint(keyNextID)
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
	if err := s.applyNow(b); err != nil {
		return s.wrap("create tables", err)
	}
	s.cat.Store(&cat)
	return nil
}

// hasAll reports whether all tables exist already. In that case Create succeeds even
// without write access.
func (s *Store) hasAll(specs []table.Spec) bool {
	cat := *s.cat.Load()
	return !s.closed() && !slices.ContainsFunc(specs, func(x table.Spec) bool {
		t := cat[x.Name]
		return t == nil || t.spec.Unversioned != x.Unversioned || !slices.Equal(t.spec.Families, x.Families)
	})
}

// Drop implements table.Store.
func (s *Store) Drop(ctx context.Context, names ...string) (err error) {
	if err := s.beginWrite(ctx, false); err != nil {
		return err
	}
	defer s.endWrite()
	defer s.caught(&err)
	cat := maps.Clone(*s.cat.Load())
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
	if err := s.applyNow(b); err != nil {
		return s.wrap("drop tables", err)
	}
	s.cat.Store(&cat)
	s.iters.changed(0)
	return nil
}

func (t *tableInfo) start() []byte { return []byte{byte(t.id >> 8), byte(t.id), 0} }
func (t *tableInfo) end() []byte   { return []byte{byte((t.id + 1) >> 8), byte(t.id + 1), 0} }

// Names implements table.Store.
func (s *Store) Names(ctx context.Context) ([]string, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.end()
	return slices.Sorted(maps.Keys(*s.cat.Load())), nil
}
