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
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/index/colindex"
	"github.com/seed-4dac0d86/ldapd/index/rowindex"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/cache"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// Config is the configuration that all servers of a directory share. It is stored in the
// directory's store.
type Config struct {
	// Suffixes are the naming contexts, as DNs.
	Suffixes []string
	// Indexes are the indexes, each identified by the name of its attribute.
	Indexes []Index
}

// A Layout is the layout of an index.
type Layout string

const (
	RowLayout    Layout = "row"    // for few values, each with many entries
	ColumnLayout Layout = "column" // for many values, each with few entries
)

// kinds contains the constructor of each layout's index.
var kinds = map[Layout]func(table.Table) index.Index{
	RowLayout:    rowindex.New,
	ColumnLayout: colindex.New,
}

// Layouts returns all layouts, sorted.
func Layouts() []Layout { return slices.Sorted(maps.Keys(kinds)) }

// Known reports whether the layout exists.
func (l Layout) Known() bool { return kinds[l] != nil }

// An Index specifies the layout of an attribute's index.
type Index struct {
	Attribute string
	Layout    Layout
}

// A Header describes the store. It is one cell of JSON in the row "header" of the table
// "directory". A program can use the keys of the store only if the program's normal forms have
// the version in the field Normalizer. The settings in the header are the settings with which
// the directory was created. When they are changed, the new settings are written to the table
// "config".
type Header struct {
	Format     int    `json:"format"`
	Normalizer string `json:"normalizer"`
	// Codes is how many codes stand for types and classes in the store (schema.Codes). A version of the
	// program that knows more codes does not use the others here. 0: the store has OIDs and names.
	Codes int `json:"codes,omitempty"`
	Settings

	Since table.Revision // the commit that wrote the settings; 0: no commit
	raw   []byte         // the cell as it was read; Write replaces only this value
}

// Settings can change while servers run. They are one cell of JSON in the row "shared" of
// the table "config", and ordinary commits write them. So each snapshot shows the
// settings of its state, as it shows the schema of its state.
type Settings struct {
	Suffixes []string       `json:"suffixes"`
	Indexes  []HeaderIndex  `json:"indexes"`
	Unique   []HeaderUnique `json:"unique,omitempty"`
	// References are the attributes whose values follow the entries that they name.
	References []Reference `json:"references,omitempty"`
	// Access are the access rules, or nil if the directory has never had any.
	Access []AccessRule `json:"access,omitempty"`
	// Policy is the password policy of entries that no other policy applies to, or nil.
	Policy []PolicyAttribute `json:"passwordPolicy,omitempty"`
	// Erasures is the number of erasures so far. A cache that was filled before the last
	// erasure may contain erased values.
	Erasures int `json:"erasures,omitempty"`
	// Following is the server that the directory follows, or nil.
	Following *Following `json:"following,omitempty"`
	// MovedTo is the store to which the directory was copied, or is being copied. Unless it is
	// empty, the directory takes no updates: see Writable.
	MovedTo string `json:"movedTo,omitempty"`
}

// ErrMoved means that a directory takes no updates, because it was copied to another store.
var ErrMoved = fmt.Errorf("%w: the directory moves to another store", txn.ErrReadOnly)

// Writable returns ErrMoved if the directory was copied to another store.
func (s *Settings) Writable() error {
	if s.MovedTo == "" {
		return nil
	}
	return fmt.Errorf("%w, %s", ErrMoved, s.MovedTo)
}

// Following describes the server that a directory follows. The directory is a copy of subtrees
// of that server, and further changes there are copied too. As long as the directory follows
// the server, clients must send updates to that server.
type Following struct {
	URL      string   `json:"url"` // without a name of an entry
	BindDN   string   `json:"bindDN,omitempty"`
	StartTLS bool     `json:"startTLS,omitempty"`
	Bases    []string `json:"bases"` // names of the entries whose subtrees are copied
}

type HeaderIndex struct {
	Attribute string `json:"attribute"`
	Layout    Layout `json:"layout"`
	// Since is the first revision at which the index is complete, or zero while the index
	// is being filled.
	Since table.Revision `json:"since"`
}

// These are the formats of rows and columns.
const (
	FormatNames = 1 // types are written by OID and name
	FormatCodes = 2 // codes stand for them
	format      = FormatCodes
)

const (
	HeaderTable   = "directory"
	SettingsTable = "config"
	HeaderFamily  = table.Family('h')
)

var (
	headerRow    = []byte("header")
	headerColumn = []byte("header")

	headerSpec = table.Spec{Name: HeaderTable, Unversioned: true, Families: []table.FamilySpec{{Name: HeaderFamily}}}

	SettingsRow  = []byte("shared")
	settingsSpec = table.Spec{
		Name:     SettingsTable,
		Families: []table.FamilySpec{{Name: HeaderFamily}, {Name: table.MarkFamily}},
	}
)

// ErrNoDirectory means that the store contains no directory yet.
var ErrNoDirectory = errors.New("no directory in this store yet")

// ErrNormalizer means that the keys in the store were computed with another version of
// the normal forms.
var ErrNormalizer = errors.New("the store's keys were made by another version of the normal forms: run reindex")

func OpenHeader(ctx context.Context, s table.Store, o Options) (*Header, error) {
	h, err := ReadHeader(ctx, s)
	if errors.Is(err, ErrNoDirectory) && o.Create {
		h = &Header{Format: o.Format, Normalizer: schema.Version()}
		if h.Format >= FormatCodes {
			h.Codes = schema.Codes()
		}
		for _, x := range o.Indexes {
			h.Indexes = append(h.Indexes, HeaderIndex{x.Attribute, x.Layout, 1})
		}
		h.References, h.Access, h.Policy = o.References, o.Access, o.Policy
		err = createHeader(ctx, s, h)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	if err := h.Known(); err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	if h.Normalizer != schema.Version() {
		return nil, fmt.Errorf("%s: %w (%s there, %s here)", s, ErrNormalizer, h.Normalizer, schema.Version())
	}
	return h, nil
}

// Known returns an error if a newer version of the program made the store.
func (h *Header) Known() error {
	if h.Format > format {
		return fmt.Errorf("format %d: %w", h.Format, table.ErrNewer)
	}
	if h.Codes > schema.Codes() {
		return fmt.Errorf("%d codes of types: %w", h.Codes, table.ErrNewer)
	}
	return nil
}

func createHeader(ctx context.Context, s table.Store, h *Header) error {
	err := s.Create(ctx, headerSpec)
	if err != nil {
		return err
	}
	err = h.Write(ctx, s)
	if errors.Is(err, ErrHeaderChanged) { // another server wrote the header first
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
	h.dropBarrier()
	return h, nil
}

// moved is an index in the stored settings of a directory that was copied to another store. There is no such index. Programs that do not
// know MovedTo refuse its layout with table.ErrNewer, so that they make no updates.
var moved = HeaderIndex{Attribute: "objectClass", Layout: "of a store that was copied"}

// barrier is the first index in the stored settings of stores with codes. There is no such index. Programs that know no codes
// refuse its layout with table.ErrNewer, also where they do not look at the format: reindex would delete the tree.
var barrier = HeaderIndex{Attribute: "objectClass", Layout: "of format 2"}

// stored returns the settings as they are stored.
func (h *Header) stored() Settings {
	s := h.Settings
	if h.Codes > 0 {
		s.Indexes = append([]HeaderIndex{barrier}, s.Indexes...)
	}
	if h.MovedTo != "" {
		s.Indexes = append([]HeaderIndex{moved}, s.Indexes...)
	}
	return s
}

// dropBarrier removes from settings that were read what stored has added.
func (s *Settings) dropBarrier() {
	s.Indexes = slices.DeleteFunc(s.Indexes, func(x HeaderIndex) bool { return x == barrier || x == moved })
}

// ToCodes changes a cell of the header or of the settings of a store in the first format to the cell that a copy of the store with n
// codes has. The copy takes updates. Other cells of the same tables stay as they are.
func ToCodes(c *table.Cell, n int) error {
	if c.Family != HeaderFamily || c.Tombstone || string(c.Qualifier) != string(headerColumn) {
		return nil
	}
	h := &Header{}
	if err := json.Unmarshal(c.Value, h); err != nil {
		return fmt.Errorf("header: %w: %w", table.ErrCorrupt, err)
	}
	h.dropBarrier()
	h.MovedTo = ""
	isHeader := h.Format > 0 // settings have none
	h.Format, h.Codes = FormatCodes, n
	h.Settings = h.stored()
	var err error
	if c.Value, err = json.Marshal(&h.Settings); isHeader {
		c.Value, err = json.Marshal(h)
	}
	return err
}

// Specs describes the tables of a directory: entries first, then names, settings and indexes, and the header last.
func Specs(s *schema.Schema, h *Header) []table.Spec {
	return append(append([]table.Spec{master.Spec(), tree.Spec(), settingsSpec}, newTypes(s).Specs(h)...), headerSpec)
}

var ErrHeaderChanged = errors.New("the shared configuration was changed by another server meanwhile: try again")

// Write replaces the header in the store by a compare-and-swap. If the swap returns false or
// an error, Write reads the cell to find out whether the swap took effect.
func (h *Header) Write(ctx context.Context, s table.Store) error {
	stored := *h
	stored.Settings = h.stored()
	raw, err := json.Marshal(&stored)
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

// The method "without" returns a copy of the header. The copy lacks the indexes for which the
// function gone returns true.
func (h *Header) without(gone func(HeaderIndex) bool) *Header {
	if !slices.ContainsFunc(h.Indexes, gone) {
		return h
	}
	less := *h
	less.Indexes = slices.DeleteFunc(slices.Clone(h.Indexes), gone)
	return &less
}

// A Catalog is the shared configuration and the schema, ready to use. A Catalog never
// changes. A new Catalog replaces it (see current.go).
type Catalog struct {
	*Types
	p         *Partition
	Subschema *Subschema   // the source of the schema
	ToCome    *Concern     // what an announced schema changes; nil: no such schema
	Cache     *cache.Cache // cached entries, names and postings of this schema
	Header    *Header
	Contexts  []NamingContext
	// Access contains the access rules of the header. Two catalogs with the same pointer
	// have the same rules and the same schema. For a state of the past, these are the present
	// rules.
	Access *Access
	// Policy is the default password policy of the header, or nil. Two catalogs with the
	// same pointer have the same policy and the same schema.
	Policy  *DefaultPolicy
	Indexes map[*schema.AttributeType]*Indexed
	Ordered []*Indexed     // Indexes, in the order of the header
	newest  table.Revision // first revision at which all ready indexes are complete
	ordinal uint64         // ordinal of a state that shows this schema and these settings
}

// A NamingContext is the parsed name of a naming context.
type NamingContext struct {
	Name  dn.DN
	Norms []dn.Norm
	RDN   dn.Norm // RDN in the context's row under the virtual root
}

// Indexed is an attribute type with its index.
type Indexed struct {
	KeptIndex
	Typ   *schema.AttributeType
	Ready bool
	// Unique are the scopes in which no two entries may have the same value.
	Unique []entry.ID
	// Reference is not nil if the values of the type follow the entries that they name.
	Reference *Reference
}

// Indexed implements plan.Catalog.
func (c *Catalog) Indexed(t *schema.AttributeType) (index.Index, bool) {
	x := c.Indexes[t]
	if x == nil || !x.Ready {
		return nil, false
	}
	return &x.KeptIndex, true
}

// Whole returns an error if the index is not complete. Then it cannot be used to find equal
// values of a unique attribute, or values that follow entries.
func (x *Indexed) Whole() error {
	if x.Ready {
		return nil
	}
	return Errorf(Unwilling, "the index of %s, which is needed to find equal values or values that follow, is being made: try again; if that was interrupted, build it again", x.Typ.Name())
}

// Specs returns the descriptions of the index tables.
func (k *Types) Specs(h *Header) (specs []table.Spec) {
	for _, x := range h.Indexes {
		if t := k.Schema.Attribute(x.Attribute); t != nil {
			specs = append(specs, index.Spec(t))
		}
	}
	return specs
}

// With returns a catalog with the same schema and another configuration. If the indexes
// changed or something was erased, the new catalog has empty caches. Changed indexes make
// cached postings invalid, because a commit that was made without an index did not touch
// the index's values.
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

func (p *Partition) newCatalog(k *Types, own *Subschema, kept *cache.Cache, h *Header) (*Catalog, error) {
	h = h.without(func(x HeaderIndex) bool { return k.Schema.Attribute(x.Attribute) == nil })
	c := &Catalog{p: p, Types: k, Subschema: own, Cache: kept, Header: h, Access: &Access{h.Access, h.Since}, Indexes: map[*schema.AttributeType]*Indexed{}}
	if h.Policy != nil {
		c.Policy = &DefaultPolicy{h.Policy}
	}
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
		i.KeptIndex = KeptIndex{open(p.DB.Table(index.TableName(t))), t, cache.PostingKeyOf(t), kept.Postings}
		c.newest = max(c.newest, x.Since)
		c.Indexes[t] = i
		c.Ordered = append(c.Ordered, i)
	}
	if err := c.uniques(h); err != nil {
		return nil, err
	}
	for _, r := range h.References {
		// The schema of this state need not define the type.
		if x := c.Indexes[c.Schema.Attribute(r.Attribute)]; x != nil {
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
	// Sort the longest name first, so that ContextOf finds the lower one of two nested
	// contexts.
	slices.SortStableFunc(c.Contexts, func(a, b NamingContext) int { return len(b.Norms) - len(a.Norms) })
	return c, nil
}

// Indexable returns the attribute type with the given name. It returns an error if the
// type cannot have an index.
func (k *Types) Indexable(name string) (*schema.AttributeType, error) {
	t := k.Schema.Attribute(name)
	switch {
	case t == nil:
		return nil, Errorf(UndefinedType, "index: attribute type %q is not in the schema", name)
	case t.Equality == nil:
		return nil, Errorf(NoMatching, "index: %s has no equality rule", t.Name())
	case t == k.EntryCSN:
		return nil, Errorf(Unwilling, "index: %s cannot have an index: its value is known only when a change commits", t.Name())
	case t.Secret():
		return nil, Errorf(Unwilling, "index: %s is secret and is never indexed", t.Name())
	}
	return t, nil
}

// ContextNames returns the names of the naming contexts.
func (c *Catalog) ContextNames() []dn.DN {
	names := make([]dn.DN, len(c.Contexts))
	for i, x := range c.Contexts {
		names[i] = x.Name
	}
	return names
}

// ContextOf returns the lowest naming context that contains a name, or nil if there is
// none.
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
func (p *Partition) Config() Config {
	now, err := p.Latest()
	if err != nil {
		now = p.Catalog.Load() // the next read of a snapshot returns the error
	}
	h := now.Header
	c := Config{Suffixes: slices.Clone(h.Suffixes)}
	for _, x := range h.Indexes {
		c.Indexes = append(c.Indexes, Index{x.Attribute, x.Layout})
	}
	return c
}

// Config returns the shared configuration for reads of a state. The result contains only the
// indexes that are complete in the state. For a state of the past, the naming contexts are the
// present ones.
func (c *Catalog) Config() Config {
	out := Config{Suffixes: slices.Clone(c.Header.Suffixes)}
	for i, x := range c.Ordered {
		if x.Ready {
			out.Indexes = append(out.Indexes, Index{x.Typ.Name(), c.Header.Indexes[i].Layout})
		}
	}
	return out
}

// Unique returns the unique attributes and their scopes. For a state of the past, it returns
// the present ones.
func (c *Catalog) Unique() (us []Unique) {
	for _, x := range c.Ordered {
		for _, base := range x.Unique {
			us = append(us, Unique{Attribute: x.Typ.Name(), Base: base})
		}
	}
	return us
}

// DefaultIndexes returns the indexes of a new directory. They are on the attributes by which
// people and programs look up entries. An attribute whose values are nearly unique, such as
// mail, has a column index. An attribute whose values are shared by many entries, such as sn,
// has a row index.
func DefaultIndexes() []Index {
	var ix []Index
	add := func(l Layout, names string) {
		for _, n := range strings.Fields(names) {
			ix = append(ix, Index{n, l})
		}
	}
	add(RowLayout, "objectClass sn givenName ou l departmentNumber gidNumber")
	add(ColumnLayout, "cn uid mail member uniqueMember manager owner memberUid employeeNumber uidNumber")
	return ix
}

// DefaultReferences returns the references of a new directory of a server: groups and persons
// in charge. They are no default of Options, because a library's user who renames entries may
// want to keep the values.
func DefaultReferences() []Reference {
	return []Reference{{Attribute: "member"}, {Attribute: "uniqueMember"}, {Attribute: "manager"}, {Attribute: "owner"}}
}

// Shared reports whether several servers may use the store.
func (c *Catalog) Shared() bool { return c.p.DB.Shared() }

// AsOf returns the catalog for a revision. Indexes that were not complete at that revision are
// not Ready in it. At revision 0, which a store without commits shows, the indexes of a new
// directory are complete.
func (c *Catalog) AsOf(r table.Revision) *Catalog {
	if r = max(r, 1); r >= c.newest {
		return c
	}
	return c.asOf(r)
}

func (c *Catalog) asOf(r table.Revision) *Catalog {
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

// uniques sets Indexed.Unique of the indexes, from the scopes in the header.
func (c *Catalog) uniques(h *Header) error {
	for _, u := range h.Unique {
		base, err := entry.ParseID(u.Base)
		if err != nil {
			return fmt.Errorf("unique %s: %w", u.Attribute, err)
		}
		// The schema of this state need not define the type.
		if x := c.Indexes[c.Schema.Attribute(u.Attribute)]; x != nil {
			x.Unique = append(x.Unique, base)
		}
	}
	return nil
}

// A Reference makes the values of an attribute follow the entries that they name. When an
// entry is renamed, the values that name it change. When an entry is deleted, the values
// that name it are removed.
type Reference struct {
	Attribute string `json:"attribute"`
	// MustExist makes a value that names no entry an error.
	MustExist bool `json:"mustExist,omitempty"`
}

// Needs returns an error if the index of the type t cannot be removed. The index is
// needed if t is a unique attribute or a reference, because the index is used to find equal
// values and references.
func (c *Catalog) Needs(t *schema.AttributeType) error {
	switch x := c.Indexes[t]; {
	case x == nil:
	case len(x.Unique) > 0:
		return Errorf(Unwilling, "%s is unique, and its index is needed to find equal values: end the uniqueness first", t.Name())
	case x.Reference != nil:
		return Errorf(Unwilling, "the values of %s follow the entries that they name, and its index is needed to find them: end the following first", t.Name())
	}
	return nil
}

func (c *Catalog) HasContext(rdn dn.Norm) bool {
	return slices.ContainsFunc(c.Contexts, func(x NamingContext) bool { return x.RDN == rdn })
}

// ConfigName is the name of the entry that shows the access rules of the whole directory and
// the default password policy. In an export, the entry contains the whole configuration.
const ConfigName = "cn=config"

// IsConfig reports whether a name is ConfigName.
func IsConfig(name dn.DN) bool { return len(name) == 1 && name[0].IsCN("config") }
