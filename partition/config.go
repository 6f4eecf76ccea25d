package partition

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/index/colindex"
	"github.com/seed-4dac0d86/ldapd/index/existence"
	"github.com/seed-4dac0d86/ldapd/index/rowindex"
	"github.com/seed-4dac0d86/ldapd/plan"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// Config is what all servers of a directory share; it lives in the store.
type Config struct {
	// Suffixes are the naming contexts, as DNs.
	Suffixes []string
	// Indexes by attribute name.
	Indexes []Index
}

// Layout of an index (seed 001, "Index Tables").
type Layout string

const (
	RowLayout    Layout = "row"    // few values, many entries
	ColumnLayout Layout = "column" // many values, few entries each
)

// An Index says that an attribute is indexed and how.
type Index struct {
	Attribute string
	Layout    Layout
}

// header is the store's own description: the table "directory", row "header",
// one cell of JSON. What it says about normal forms must agree with the program
// that reads keys made by them. Its settings are those that the directory was made
// with; since they were changed, the table "config" has them.
type header struct {
	Format     int    `json:"format"`
	Normalizer string `json:"normalizer"`
	settings

	since table.Revision // of the commit that has the settings; 0: none has
	raw   []byte         // as read, for the swap
}

// settings are what changes while servers run: the table "config", row "shared",
// one cell of JSON, written by commits like any other. So a snapshot knows its
// settings as it knows its schema.
type settings struct {
	Suffixes []string       `json:"suffixes"`
	Indexes  []headerIndex  `json:"indexes"`
	Unique   []headerUnique `json:"unique,omitempty"`
	// Erasures counts what was taken out of the past: caches may have it.
	Erasures int `json:"erasures,omitempty"`
}

type headerIndex struct {
	Attribute string `json:"attribute"`
	Layout    Layout `json:"layout"`
	// Since is the first revision the index is complete at; zero while it is
	// being filled.
	Since table.Revision `json:"since"`
}

const (
	format       = 1
	headerTable  = "directory"
	headerFamily = table.Family('h')
)

var (
	headerRow    = []byte("header")
	headerColumn = []byte("header")

	settingsRow  = []byte("shared")
	settingsSpec = table.Spec{
		Name:     "config",
		Families: []table.FamilySpec{{Name: headerFamily}, {Name: txn.MarkFamily}},
	}
)

// ErrNoDirectory: the store holds none yet.
var ErrNoDirectory = errors.New("no directory in this store yet")

// ErrNormalizer: keys in the store were made by other rules.
var ErrNormalizer = errors.New("the store's keys were made by another version of the normal forms: run reindex")

func openHeader(ctx context.Context, s table.Store, o Options) (*header, error) {
	h, err := readHeader(ctx, s)
	if errors.Is(err, ErrNoDirectory) && o.Create {
		h = &header{Format: format, Normalizer: schema.Version()}
		for _, x := range o.Indexes {
			h.Indexes = append(h.Indexes, headerIndex{x.Attribute, x.Layout, 1})
		}
		err = createHeader(ctx, s, h)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	if h.Format > format {
		return nil, fmt.Errorf("%s: format %d: %w", s, h.Format, table.ErrNewer)
	}
	if h.Normalizer != schema.Version() {
		return nil, fmt.Errorf("%s: %w (%s there, %s here)", s, ErrNormalizer, h.Normalizer, schema.Version())
	}
	return h, nil
}

func createHeader(ctx context.Context, s table.Store, h *header) error {
	err := s.Create(ctx, table.Spec{
		Name: headerTable, Unversioned: true,
		Families: []table.FamilySpec{{Name: headerFamily}},
	})
	if err != nil {
		return err
	}
	err = h.write(ctx, s)
	if errors.Is(err, errHeaderChanged) { // another server was first
		var now *header
		if now, err = readHeader(ctx, s); err == nil {
			*h = *now
		}
	}
	return err
}

func readHeader(ctx context.Context, s table.Store) (*header, error) {
	names, err := s.Names(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(names, headerTable) {
		return nil, ErrNoDirectory
	}
	row, err := s.Table(headerTable).Get(ctx, headerRow, table.Select{})
	if err != nil {
		return nil, err
	}
	c := row.Find(headerFamily, headerColumn)
	if c == nil {
		return nil, ErrNoDirectory
	}
	h := &header{raw: bytes.Clone(c.Value)}
	if err := json.Unmarshal(c.Value, h); err != nil {
		return nil, fmt.Errorf("header: %w: %w", table.ErrCorrupt, err)
	}
	return h, nil
}

var errHeaderChanged = errors.New("the shared configuration was changed by another server meanwhile: try again")

// write swaps the header in. After false or an error the cell itself says
// whether the swap was made.
func (h *header) write(ctx context.Context, s table.Store) error {
	raw, err := json.Marshal(h)
	if err != nil {
		return err
	}
	cell := table.Cell{Family: headerFamily, Qualifier: headerColumn, Value: raw}
	ok, err := s.Table(headerTable).Swap(ctx, headerRow, headerFamily, headerColumn, h.raw, []table.Cell{cell})
	if err == nil && !ok || err != nil {
		now, rerr := readHeader(ctx, s)
		switch {
		case rerr == nil && bytes.Equal(now.raw, raw):
		case err != nil:
			return err
		default:
			return errHeaderChanged
		}
	}
	h.raw = raw
	return nil
}

// without gives the header without some indexes.
func (h *header) without(gone func(headerIndex) bool) *header {
	if !slices.ContainsFunc(h.Indexes, gone) {
		return h
	}
	less := *h
	less.Indexes = slices.DeleteFunc(slices.Clone(h.Indexes), gone)
	return &less
}

// catalog is the shared configuration and the schema, ready to use. It does not
// change; a new one takes its place (see inforce.go).
type catalog struct {
	*types
	p         *Partition
	subschema *subschema // what the schema was made by
	toCome    *concern   // what changes must keep to besides; nil: nothing
	cache     *cache     // of what was read by this schema
	header    *header
	contexts  []namingContext
	indexes   map[*schema.AttributeType]*indexed
	ordered   []*indexed     // in the header's order
	newest    table.Revision // since which the youngest index is complete
	ordinal   uint64         // of a state whose subschema it was made by
}

// namingContext is a naming context.
type namingContext struct {
	name  dn.DN
	norms []dn.Norm
	rdn   dn.Norm // its row under the virtual root
}

type indexed struct {
	plan.Indexed
	typ   *schema.AttributeType
	table string
	ready bool
	// unique are the scopes in which two entries cannot have the same value.
	unique []entry.ID
}

// Indexed implements plan.Catalog.
func (c *catalog) Indexed(t *schema.AttributeType) (plan.Indexed, bool) {
	x := c.indexes[t]
	if x == nil || !x.ready {
		return plan.Indexed{}, false
	}
	return x.Indexed, true
}

// specs are the tables of indexes.
func (k *types) specs(h *header) (specs []table.Spec) {
	for _, x := range h.Indexes {
		if t := k.schema.Attribute(x.Attribute); t != nil {
			specs = append(specs, index.Spec(t))
		}
	}
	return specs
}

// with gives a catalog of the same schema with another configuration. What was
// read by other indexes is not kept: nobody told of its changes where there was none.
// Nor is anything when something was erased.
func (c *catalog) with(h *header) (*catalog, error) {
	kept := c.cache
	if !slices.Equal(h.Indexes, c.header.Indexes) || h.Erasures != c.header.Erasures {
		kept = newCache(c.p.cacheSize)
	}
	next, err := c.p.newCatalog(c.types, c.subschema, kept, h)
	if err == nil {
		next.toCome = c.toCome
	}
	return next, err
}

func (p *Partition) newCatalog(k *types, own *subschema, kept *cache, h *header) (*catalog, error) {
	h = h.without(func(x headerIndex) bool { return k.schema.Attribute(x.Attribute) == nil })
	c := &catalog{p: p, types: k, subschema: own, cache: kept, header: h, indexes: map[*schema.AttributeType]*indexed{}}
	for _, x := range h.Indexes {
		t, err := k.indexable(x.Attribute)
		if err != nil {
			return nil, err
		}
		tbl := p.db.Table(index.TableName(t))
		i := &indexed{typ: t, table: tbl.Name, ready: x.Since != 0}
		i.Presence = existence.Index{Table: tbl}
		values := index.Index(rowindex.Index{Table: tbl})
		if x.Layout == ColumnLayout {
			values, i.Selective = colindex.Index{Table: tbl}, true
		}
		i.Values = keptIndex{values, t, kept.postings}
		c.newest = max(c.newest, x.Since)
		c.indexes[t] = i
		c.ordered = append(c.ordered, i)
	}
	if err := c.uniques(h); err != nil {
		return nil, err
	}
	for _, s := range h.Suffixes {
		name, err := dn.Parse(s)
		if err != nil {
			return nil, fmt.Errorf("suffix %q: %w", s, err)
		}
		norms, err := name.Normalize(k.schema)
		if err != nil {
			return nil, fmt.Errorf("suffix %q: %w", s, err)
		}
		c.contexts = append(c.contexts, namingContext{name, norms, dn.Norm(dn.Key(norms))})
	}
	// The longest first, so that a context below another one is met first.
	slices.SortStableFunc(c.contexts, func(a, b namingContext) int { return len(b.norms) - len(a.norms) })
	return c, nil
}

// indexable finds a type that can have an index.
func (k *types) indexable(name string) (*schema.AttributeType, error) {
	t := k.schema.Attribute(name)
	switch {
	case t == nil:
		return nil, problem(UndefinedType, "index: attribute type %q is not in the schema", name)
	case t.Equality == nil:
		return nil, problem(NoMatching, "index: %s has no equality rule", t.Name())
	case t == k.entryCSN:
		return nil, problem(Unwilling, "index: %s is known only when a change commits, after its index entries were made", t.Name())
	case t.Secret():
		return nil, problem(Unwilling, "index: %s is secret and is never indexed", t.Name())
	}
	return t, nil
}

// contextOf finds the naming context that a name is in.
func (c *catalog) contextOf(norms []dn.Norm) *namingContext {
	for i := range c.contexts {
		x := &c.contexts[i]
		if n := len(norms) - len(x.norms); n >= 0 && slices.Equal(norms[n:], x.norms) {
			return x
		}
	}
	return nil
}

// Config is the shared configuration in force.
func (p *Partition) Config() Config {
	now, err := p.latest()
	if err != nil {
		now = p.catalog.Load() // snapshots will say why it cannot be had
	}
	h := now.header
	c := Config{Suffixes: slices.Clone(h.Suffixes)}
	for _, x := range h.Indexes {
		c.Indexes = append(c.Indexes, Index{x.Attribute, x.Layout})
	}
	return c
}

// DefaultIndexes is what a new directory indexes: what people and programs
// look entries up by. Names, addresses and numbers are nearly unique and lie in
// columns, what many entries share in rows.
func DefaultIndexes() []Index {
	var ix []Index
	add := func(l Layout, names string) {
		for _, n := range strings.Fields(names) {
			ix = append(ix, Index{n, l})
		}
	}
	add(RowLayout, "objectClass sn givenName ou l departmentNumber gidNumber")
	add(ColumnLayout, "cn uid mail member uniqueMember memberUid employeeNumber uidNumber")
	return ix
}
