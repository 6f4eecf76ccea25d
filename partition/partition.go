// Package partition is a directory tree in a table store: entries by id
// (package master), names (package tree), indexes and search plans, changed in
// transactions and readable at any revision. It is the seed's partition (seed
// 001) made transactional, and a library of its own: no server is needed.
//
// A [Partition] is an open store. [Partition.Snapshot] reads the newest state,
// [Partition.At] a past one, and [Partition.Update] changes it. Nothing here
// knows LDAP result codes: what can go wrong is an [Error] with a [Problem].
package partition

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"time"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/txn"
)

var errStub = errors.New("partition: not written yet")

// Options of a partition; the zero Options are good.
type Options struct {
	Schema *schema.Schema // nil: schema.Core()
	// Cache bounds in bytes what is kept of entries and names; zero is a
	// quarter of the machine's memory.
	Cache int64
	// Create makes a store that holds no directory yet into an empty one.
	Create bool
	Txn    txn.Options
	Log    *slog.Logger
}

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

// Partition is an open directory tree.
type Partition struct{}

// Open opens the directory in a store. The partition does not own the store.
func Open(ctx context.Context, s table.Store, o Options) (*Partition, error) { panic(errStub) }

// Close ends background work and gives the writer's slot back.
func (p *Partition) Close(ctx context.Context) error { panic(errStub) }

func (p *Partition) Schema() *schema.Schema { panic(errStub) }

// Config is the shared configuration in force.
func (p *Partition) Config() Config { panic(errStub) }

// DefaultIndexes is what a new directory indexes.
func DefaultIndexes() []Index { panic(errStub) }

// SetSuffixes and SetIndexes change the shared configuration. New indexes are
// filled from the entries before they are used; dropped ones go with their
// tables.
func (p *Partition) SetSuffixes(ctx context.Context, suffixes []string) error { panic(errStub) }
func (p *Partition) SetIndexes(ctx context.Context, ix []Index) error         { panic(errStub) }

// Snapshot gives the newest state; Close it.
func (p *Partition) Snapshot() *Snapshot { panic(errStub) }

// At gives the state at a past revision; Close it.
func (p *Partition) At(ctx context.Context, r table.Revision) (*Snapshot, error) { panic(errStub) }

// By says who changes the directory, for creatorsName and the journal.
type By struct {
	Name string    // the requester's DN
	Time time.Time // zero: now
}

// Update runs fn in a transaction, perhaps more than once, and returns when
// what it changed is durable and visible.
func (p *Partition) Update(ctx context.Context, by By, fn func(*Tx) error) (table.Revision, error) {
	panic(errStub)
}

// Snapshot reads one state of the directory.
type Snapshot struct{}

func (s *Snapshot) Close() { panic(errStub) }

// Revision is the newest that the snapshot shows.
func (s *Snapshot) Revision() table.Revision { panic(errStub) }

// A Located is where a name was found: the entry's id and its name in stored
// spelling.
type Located struct {
	ID     entry.ID
	Parent entry.ID
	Name   string
}

// Find resolves a name. A missing one is an *Error with problem NoSuchEntry;
// its Matched is the deepest ancestor that exists. The root (an empty name) is
// entry.Root.
func (s *Snapshot) Find(ctx context.Context, name dn.DN) (Located, error) { panic(errStub) }

// Name gives an entry's name in stored spelling.
func (s *Snapshot) Name(ctx context.Context, id entry.ID) (string, error) { panic(errStub) }

// Entry reads an entry, without secret attributes unless asked for. The entry
// is shared: do not change it. It has the stored operational attributes and
// entryUUID; entryDN, subschemaSubentry, hasSubordinates, numSubordinates are
// the directory's to add.
func (s *Snapshot) Entry(ctx context.Context, id entry.ID, secrets bool) (*entry.Entry, error) {
	panic(errStub)
}

// Secrets reads only the secret attributes of an entry.
func (s *Snapshot) Secrets(ctx context.Context, id entry.ID) ([]entry.Attribute, error) {
	panic(errStub)
}

// HasChildren looks for one child.
func (s *Snapshot) HasChildren(ctx context.Context, id entry.ID) (bool, error) { panic(errStub) }

// CountChildren counts an entry's children.
func (s *Snapshot) CountChildren(ctx context.Context, id entry.ID) (int, error) { panic(errStub) }

// HasClass reports whether any entry is of a class; quick for referral and
// alias, which nearly every search asks about.
func (s *Snapshot) HasClass(ctx context.Context, c *schema.ObjectClass) (bool, error) {
	panic(errStub)
}

// Compare tests one assertion on an entry without reading more of it than
// that. The error is an *Error (undefined type, no equality rule, bad syntax,
// no such attribute).
func (s *Snapshot) Compare(ctx context.Context, id entry.ID, description string, value []byte) (bool, error) {
	panic(errStub)
}

// A Query is a search.
type Query struct {
	Base   entry.ID // from Find; entry.Root searches all naming contexts
	Scope  op.Scope
	Filter filter.Resolved
	// Secrets asks for secret attributes with the entries.
	Secrets bool
	// NamesOnly: the caller wants no attributes; Entry may be nil.
	NamesOnly bool
	// After continues a search of the same query on the same revision behind
	// the result that had this position.
	After []byte
}

// A Result is one entry found. Position is where it stands in the stream; it
// is valid until the next result and is for Query.After.
type Result struct {
	Located
	Entry    *entry.Entry
	Position func() []byte
}

// Search streams the entries of a query, each once, in no particular but always
// the same order for one revision.
func (s *Snapshot) Search(ctx context.Context, q Query) iter.Seq2[*Result, error] { panic(errStub) }

// Explain says in text how Search would run a query: the tree of cursors with
// their estimated and, if run, actual candidates.
func (s *Snapshot) Explain(ctx context.Context, q Query, run bool) (string, error) { panic(errStub) }

// Tx changes the directory. What it reads (it has all of Snapshot's methods)
// includes its own changes.
type Tx struct{ Snapshot }

// Add makes an entry. Attributes are as the client sent them. With keep, values
// of NO-USER-MODIFICATION attributes (entryUUID, timestamps, names) are taken
// as given, as an import does; without, they are refused.
func (tx *Tx) Add(ctx context.Context, name dn.DN, attributes []op.PartialAttribute, keep bool) (entry.ID, error) {
	panic(errStub)
}

// Modify changes an entry as RFC 4511, 4.6 says: in order, all or nothing, the
// schema checked at the end.
func (tx *Tx) Modify(ctx context.Context, name dn.DN, changes []op.Modification) error {
	panic(errStub)
}

// Delete removes a leaf.
func (tx *Tx) Delete(ctx context.Context, name dn.DN) error { panic(errStub) }

// Rename gives an entry another RDN, another parent (nil: the same), or both,
// with all that is below it.
func (tx *Tx) Rename(ctx context.Context, name dn.DN, newRDN dn.RDN, deleteOld bool, newParent *dn.DN) error {
	panic(errStub)
}

// Problem is a kind of failure that its caller, not the store, is to blame for.
type Problem uint8

const (
	NoSuchEntry Problem = iota + 1
	EntryExists
	NotLeaf
	InvalidName
	NamingViolation   // a name that the schema or the naming contexts forbid
	NotOnRDN          // a value of the RDN cannot go
	ClassViolation    // MUST, MAY, no structural class
	ClassModification // the structural class cannot change
	UndefinedType
	InvalidSyntax
	NoMatching // the type has no such matching rule
	Constraint // single value, no user modification
	NoSuchAttribute
	ValueExists
	BadOperand // increment
	TooLarge
	Unwilling
)

// Error is a failure of an operation on the tree. The text says what to do and
// tells no values.
type Error struct {
	Problem Problem
	Matched string // NoSuchEntry: the deepest existing ancestor's name
	Text    string
}

func (e *Error) Error() string { return e.Text }
