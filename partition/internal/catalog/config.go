package catalog

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/index/colindex"
	"github.com/seed-4dac0d86/ldapd/index/rowindex"
	"github.com/seed-4dac0d86/ldapd/partition/internal/cache"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
)

// Config is what all servers of a directory share. It is kept in the store.
type Config struct {
	// Suffixes are the naming contexts, as DNs.
	Suffixes []string
	// Indexes are the indexes, by attribute name.
	Indexes []Index
}

// A Layout is the layout of an index.
type Layout string

const (
	RowLayout    Layout = "row"    // for few values with many entries each
	ColumnLayout Layout = "column" // for many values with few entries each
)

// kinds has the constructors of indexes by layout.
var kinds = map[Layout]func(table.Table) index.Index{
	RowLayout:    rowindex.New,
	ColumnLayout: colindex.New,
}

// Layouts returns all layouts, sorted.
func Layouts() []Layout { return slices.Sorted(maps.Keys(kinds)) }

// Known reports whether there is such a layout.
func (l Layout) Known() bool { return kinds[l] != nil }

// An Index specifies that and how an attribute is indexed.
type Index struct {
	Attribute string
	Layout    Layout
}

// A Header is the store's own description: the table "directory", row "header", one
// cell of JSON. A program that uses the keys must have the same version of the normal
// forms. The header's settings are those of the directory's creation; once they are
// changed, they are in the table "config".
type Header struct {
	Format     int    `json:"format"`
	Normalizer string `json:"normalizer"`
	Settings

	Since table.Revision // the commit that wrote the settings; 0: none
	raw   []byte         // as read, to swap from
}

// Settings are what changes while servers run: the table "config", row "shared", one
// cell of JSON, written by ordinary commits. So a snapshot has its settings as it has
// its schema.
type Settings struct {
	Suffixes []string       `json:"suffixes"`
	Indexes  []HeaderIndex  `json:"indexes"`
	Unique   []HeaderUnique `json:"unique,omitempty"`
	// References are the attributes whose values follow the entries that they name.
	References []Reference `json:"references,omitempty"`
	// Access are the access rules; nil: there never were any.
	Access []AccessRule `json:"access,omitempty"`
	// Erasures counts the erasures so far. A cache from before the last one may contain
	// what was erased.
	Erasures int `json:"erasures,omitempty"`
}

type HeaderIndex struct {
	Attribute string `json:"attribute"`
	Layout    Layout `json:"layout"`
	// Since is the first revision at which the index is complete, or zero while it is
	// being filled.
	Since table.Revision `json:"since"`
}

const (
	format       = 1
	HeaderTable  = "directory"
	HeaderFamily = table.Family('h')
)

var (
	headerRow    = []byte("header")
	headerColumn = []byte("header")

	SettingsRow  = []byte("shared")
	settingsSpec = table.Spec{
		Name:     "config",
		Families: []table.FamilySpec{{Name: HeaderFamily}, {Name: table.MarkFamily}},
	}
)

// ErrNoDirectory: the store has no directory yet.
var ErrNoDirectory = errors.New("no directory in this store yet")

// ErrNormalizer: keys in the store were made by other normal forms.
var ErrNormalizer = errors.New("the store's keys were made by another version of the normal forms: run reindex")

func OpenHeader(ctx context.Context, s table.Store, o Options) (*Header, error) {
	h, err := ReadHeader(ctx, s)
	if errors.Is(err, ErrNoDirectory) && o.Create {
		h = &Header{Format: format, Normalizer: schema.Version()}
		for _, x := range o.Indexes {
			h.Indexes = append(h.Indexes, HeaderIndex{x.Attribute, x.Layout, 1})
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

func createHeader(ctx context.Context, s table.Store, h *Header) error {
	err := s.Create(ctx, table.Spec{
		Name: HeaderTable, Unversioned: true,
		Families: []table.FamilySpec{{Name: HeaderFamily}},
	})
	if err != nil {
		return err
	}
	err = h.Write(ctx, s)
	if errors.Is(err, ErrHeaderChanged) { // another server was first
		var now *Header
		if now, err = ReadHeader(ctx, s); err == nil {
			*h = *now
		}
	}
	return err
}

func ReadHeader(ctx context.Context, s table.Store) (*Header, error) {
	names, err := s.Names(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(names, HeaderTable) {
		return nil, ErrNoDirectory
	}
	row, err := s.Table(HeaderTable).Get(ctx, headerRow, table.Select{})
	if err != nil {
		return nil, err
	}
	c := row.Find(HeaderFamily, headerColumn)
	if c == nil {
		return nil, ErrNoDirectory
	}
	h := &Header{raw: bytes.Clone(c.Value)}
	if err := json.Unmarshal(c.Value, h); err != nil {
		return nil, fmt.Errorf("header: %w: %w", table.ErrCorrupt, err)
	}
	return h, nil
}

var ErrHeaderChanged = errors.New("the shared configuration was changed by another server meanwhile: try again")

// Write swaps the header in. After false or an error it reads the cell to find out
// whether the swap was made.
func (h *Header) Write(ctx context.Context, s table.Store) error {
	raw, err := json.Marshal(h)
	if err != nil {
		return err
	}
	cell := table.Cell{Family: HeaderFamily, Qualifier: headerColumn, Value: raw}
	ok, err := s.Table(HeaderTable).Swap(ctx, headerRow, HeaderFamily, headerColumn, h.raw, []table.Cell{cell})
	if err == nil && !ok || err != nil {
		now, rerr := ReadHeader(ctx, s)
		switch {
		case rerr == nil && bytes.Equal(now.raw, raw):
		case err != nil:
			return err
		default:
			return ErrHeaderChanged
		}
	}
	h.raw = raw
	return nil
}

// without returns the header without some indexes.
func (h *Header) without(gone func(HeaderIndex) bool) *Header {
	if !slices.ContainsFunc(h.Indexes, gone) {
		return h
	}
	less := *h
	less.Indexes = slices.DeleteFunc(slices.Clone(h.Indexes), gone)
	return &less
}

// A Catalog is the shared configuration and the schema, ready to use. It does not
// change but is replaced (see current.go).
type Catalog struct {
	*Types
	p         *Keeper
	Subschema *Subschema   // the source of the schema
	ToCome    *Concern     // what changes must also conform to; nil: nothing
	Cache     *cache.Cache // of what was read with this schema
	Header    *Header
	Contexts  []NamingContext
	// Access has the header's rules. Catalogs with the same pointer have the same rules
	// and the same schema.
	Access  *Access
	Indexes map[*schema.AttributeType]*Indexed
	Ordered []*Indexed     // in the header's order
	newest  table.Revision // revision since which all its indexes are complete
	ordinal uint64         // of a state with this subschema
}

// A NamingContext is a naming context.
type NamingContext struct {
	Name  dn.DN
	Norms []dn.Norm
	RDN   dn.Norm // of its row under the virtual root
}

// Indexed is the index of one attribute type.
type Indexed struct {
	KeptIndex
	Typ   *schema.AttributeType
	Ready bool
	// Unique are the scopes in which no two entries may have the same value.
	Unique []entry.ID
	// Reference is set if the values follow the entries that they name.
	Reference *Reference
}

// Indexed implements plan.Catalog.
func (c *Catalog) Indexed(t *schema.AttributeType) (index.Index, bool) {
	x := c.Indexes[t]
	if x == nil || !x.Ready {
		return nil, false
	}
	return x.KeptIndex, true
}

// Specs returns the tables of indexes.
func (k *Types) Specs(h *Header) (specs []table.Spec) {
	for _, x := range h.Indexes {
		if t := k.Schema.Attribute(x.Attribute); t != nil {
			specs = append(specs, index.Spec(t))
		}
	}
	return specs
}

// With returns a catalog of the same schema with another configuration. Its caches are
// empty if the indexes changed, since commits made without an index did not touch its
// values, or if something was erased.
func (c *Catalog) With(h *Header) (*Catalog, error) {
	kept := c.Cache
	if !slices.Equal(h.Indexes, c.Header.Indexes) || h.Erasures != c.Header.Erasures {
		kept = cache.NewCache(c.p.cacheSize)
	}
	next, err := c.p.newCatalog(c.Types, c.Subschema, kept, h)
	if err == nil {
		next.ToCome = c.ToCome
	}
	return next, err
}

func (p *Keeper) newCatalog(k *Types, own *Subschema, kept *cache.Cache, h *Header) (*Catalog, error) {
	h = h.without(func(x HeaderIndex) bool { return k.Schema.Attribute(x.Attribute) == nil })
	c := &Catalog{p: p, Types: k, Subschema: own, Cache: kept, Header: h, Access: &Access{h.Access, h.Since}, Indexes: map[*schema.AttributeType]*Indexed{}}
	for _, x := range h.Indexes {
		t, err := k.Indexable(x.Attribute)
		if err != nil {
			return nil, err
		}
		open, ok := kinds[cmp.Or(x.Layout, RowLayout)]
		if !ok {
			return nil, fmt.Errorf("index of %s has the layout %q: %w", x.Attribute, x.Layout, table.ErrNewer)
		}
		i := &Indexed{Typ: t, Ready: x.Since != 0}
		i.KeptIndex = KeptIndex{open(p.DB.Table(index.TableName(t))), t, kept.Postings}
		c.newest = max(c.newest, x.Since)
		c.Indexes[t] = i
		c.Ordered = append(c.Ordered, i)
	}
	if err := c.uniques(h); err != nil {
		return nil, err
	}
	for _, r := range h.References {
		if x := c.Indexes[c.Schema.Attribute(r.Attribute)]; x != nil { // else the schema is one without it
			x.Reference = &r
		}
	}
	for _, s := range h.Suffixes {
		name, err := dn.Parse(s)
		if err != nil {
			return nil, fmt.Errorf("suffix %q: %w", s, err)
		}
		norms, err := name.Normalize(k.Schema)
		if err != nil {
			return nil, fmt.Errorf("suffix %q: %w", s, err)
		}
		c.Contexts = append(c.Contexts, NamingContext{name, norms, dn.Norm(dn.Key(norms))})
	}
	// The longest first, so that a context below another one is found first.
	slices.SortStableFunc(c.Contexts, func(a, b NamingContext) int { return len(b.Norms) - len(a.Norms) })
	return c, nil
}

// Indexable returns a type that can have an index.
func (k *Types) Indexable(name string) (*schema.AttributeType, error) {
	t := k.Schema.Attribute(name)
	switch {
	case t == nil:
		return nil, Errorf(UndefinedType, "index: attribute type %q is not in the schema", name)
	case t.Equality == nil:
		return nil, Errorf(NoMatching, "index: %s has no equality rule", t.Name())
	case t == k.EntryCSN:
		return nil, Errorf(Unwilling, "index: %s is known only when a change commits, after its index entries were made", t.Name())
	case t.Secret():
		return nil, Errorf(Unwilling, "index: %s is secret and is never indexed", t.Name())
	}
	return t, nil
}

// ContextOf returns the naming context that contains a name.
func (c *Catalog) ContextOf(norms []dn.Norm) *NamingContext {
	for i := range c.Contexts {
		x := &c.Contexts[i]
		if n := len(norms) - len(x.Norms); n >= 0 && slices.Equal(norms[n:], x.Norms) {
			return x
		}
	}
	return nil
}

// Config returns the shared configuration in force.
func (p *Keeper) Config() Config {
	now, err := p.Latest()
	if err != nil {
		now = p.Catalog.Load() // snapshots will return the reason
	}
	h := now.Header
	c := Config{Suffixes: slices.Clone(h.Suffixes)}
	for _, x := range h.Indexes {
		c.Indexes = append(c.Indexes, Index{x.Attribute, x.Layout})
	}
	return c
}

// DefaultIndexes are the indexes of a new directory: for what people and programs look
// entries up by. Names, addresses and numbers are nearly unique and use columns; what
// many entries share uses rows.
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

// AsOf returns the catalog for a revision, without indexes that were not complete then.
// A store without commits shows revision 0, where the indexes of the new directory are
// complete too.
func (c *Catalog) AsOf(r table.Revision) *Catalog {
	if r = max(r, 1); r >= c.newest {
		return c
	}
	old := *c
	old.Indexes = make(map[*schema.AttributeType]*Indexed, len(c.Indexes))
	old.Ordered = nil
	for i, x := range c.Ordered {
		y := *x
		y.Ready = y.Ready && c.Header.Indexes[i].Since <= r
		old.Indexes[x.Typ] = &y
		old.Ordered = append(old.Ordered, &y)
	}
	return &old
}

// WithSuffixes returns a catalog with additional naming contexts.
func (c *Catalog) WithSuffixes(suffixes []string) (*Catalog, error) {
	h := *c.Header
	h.Suffixes = h.Suffixes[:len(h.Suffixes):len(h.Suffixes)]
	for _, s := range suffixes {
		name, err := dn.Parse(s)
		if err != nil {
			return nil, Errorf(InvalidName, "suffix %q: %v", s, err)
		}
		norms, err := name.Normalize(c.Schema)
		if err != nil {
			return nil, Errorf(InvalidName, "suffix %q: %v", s, err)
		}
		if x := c.ContextOf(norms); x == nil || len(x.Norms) != len(norms) {
			h.Suffixes = append(h.Suffixes, s)
		}
	}
	if len(h.Suffixes) == len(c.Header.Suffixes) {
		return c, nil
	}
	return c.With(&h)
}

// Unique specifies that no two entries at or below Base have the same value of an
// attribute, by its equality rule.
type Unique struct {
	Attribute string
	Base      entry.ID // entry.Root: all entries
}

type HeaderUnique struct {
	Attribute string `json:"attribute"`
	Base      string `json:"base"`
}

// uniques adds the header's unique scopes to the indexes.
func (c *Catalog) uniques(h *Header) error {
	for _, u := range h.Unique {
		base, err := entry.ParseID(u.Base)
		if err != nil {
			return fmt.Errorf("unique %s: %w", u.Attribute, err)
		}
		if x := c.Indexes[c.Schema.Attribute(u.Attribute)]; x != nil { // the schema may be one without it
			x.Unique = append(x.Unique, base)
		}
	}
	return nil
}

// A Reference makes the values of an attribute follow the entries that they name: they
// change if an entry is renamed and are removed if it is deleted.
type Reference struct {
	Attribute string `json:"attribute"`
	// MustExist makes values that name no entry errors.
	MustExist bool `json:"mustExist,omitempty"`
}

// Needs returns an error if unique values or references of t are found by its index.
func (c *Catalog) Needs(t *schema.AttributeType) error {
	switch x := c.Indexes[t]; {
	case x == nil:
	case len(x.Unique) > 0:
		return Errorf(Unwilling, "%s is unique, and its index is what equal values are found by: end that first", t.Name())
	case x.Reference != nil:
		return Errorf(Unwilling, "the values of %s follow the entries that they name, and its index is what they are found by: end that first", t.Name())
	}
	return nil
}

func (c *Catalog) HasContext(rdn dn.Norm) bool {
	return slices.ContainsFunc(c.Contexts, func(x NamingContext) bool { return x.RDN == rdn })
}
