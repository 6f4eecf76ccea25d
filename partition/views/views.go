// Package views reads and keeps views: records that are computed from many entries. A view
// is defined by an entry below cn=views. Its records are exact in every state that can be
// read (package partition/internal/materialized).
package views

import (
	"context"
	"iter"
	"time"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/internal/materialized"
	"github.com/seed-4dac0d86/ldapd/partition/internal/search"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

type (
	// A Definition describes a view as it is defined in one state.
	Definition = materialized.Definition
	// A Record is a record of a view.
	Record = materialized.Record
	// ReadOptions select records.
	ReadOptions = materialized.ReadOptions
	// A Listed is an entry of a list.
	Listed = materialized.Listed
	// ListOptions select entries of a list.
	ListOptions = materialized.ListOptions
	// An Allow filters attributes of an entry: it returns the attributes and values that
	// the reader of a list may use.
	Allow = materialized.Allow
	// A Status describes whether and up to which revision a view is kept.
	Status = materialized.Status
)

// The kinds of views.
const (
	Totals = materialized.Totals
	List   = materialized.List
)

// The kinds of totals.
const (
	Count = materialized.Count
	Sum   = materialized.Sum
	Min   = materialized.Min
	Max   = materialized.Max
)

// Name is the name of the entry that is the parent of the definitions.
const Name = materialized.Name

// Definitions returns the definitions in a state, sorted by name. The map "wrong" contains the
// ids of the entries that are not valid definitions, each with the reason.
func Definitions(ctx context.Context, s *partition.Snapshot) (defs []*Definition, wrong map[entry.ID]error, err error) {
	return materialized.Definitions(ctx, s.State())
}

// Find returns the definition with the given name, or nil if there is none. If the
// definition is not valid, it returns an error with the problem [partition.Unwilling].
func Find(ctx context.Context, s *partition.Snapshot, name dn.DN) (*Definition, error) {
	return materialized.Find(ctx, s.State(), name)
}

// Check returns an error with the problem [partition.Unwilling] if the entry with the given
// name is an invalid definition of a view, or if there are too many views.
func Check(ctx context.Context, s *partition.Snapshot, name dn.DN) error {
	return materialized.Check(ctx, s.State(), name)
}

// Read returns the records of a view in a state, sorted by key.
func Read(ctx context.Context, s *partition.Snapshot, d *Definition, o ReadOptions) ([]Record, error) {
	return materialized.Read(ctx, s.State(), d, o)
}

// Each streams the entries of a list in a state, in the order of the list.
func Each(ctx context.Context, s *partition.Snapshot, d *Definition, o ListOptions) iter.Seq2[Listed, error] {
	return materialized.Each(ctx, s.State(), d, o)
}

// Among streams the entries with the given ids that match the filter of q, in the order of the
// argument ids.
func Among(ctx context.Context, s *partition.Snapshot, ids []entry.ID, q partition.Query) iter.Seq2[*partition.Result, error] {
	return search.Among(ctx, s.State(), ids, q)
}

// CountBelow counts the entries below an entry that match f. If f is nil, it counts all entries
// below the entry. The parameter types contains the attribute types that f needs. If f is nil
// and a view keeps the number, CountBelow examines no entries. Otherwise, if limit is not zero
// and CountBelow would examine more than limit entries, it returns an error with the problem
// TooMany.
func CountBelow(ctx context.Context, s *partition.Snapshot, id entry.ID, f filter.Resolved, types []*schema.AttributeType, limit int) (int, error) {
	return search.CountBelow(ctx, s.State(), id, f, types, limit)
}

// In reports whether an entry belongs to a view.
func In(ctx context.Context, s *partition.Snapshot, d *Definition, id entry.ID) (bool, error) {
	return d.In(ctx, s.State(), id)
}

// Compose returns the attributes of an entry's record in a list, as far as the function allow
// permits them. If a joined entry has very many values, the function sees only values of the
// types that the record shows and of the types in looksAt.
func Compose(ctx context.Context, s *partition.Snapshot, d *Definition, found *partition.Result, looksAt []*schema.AttributeType, allow Allow) ([]entry.Attribute, error) {
	return d.Compose(ctx, s.State(), found.Located, found.Entry, looksAt, allow)
}

// StatusOf returns the present status of a view.
func StatusOf(ctx context.Context, s *partition.Snapshot, d *Definition) (Status, error) {
	return materialized.StatusOf(ctx, s.State(), d)
}

// Subordinates returns the view that counts the entries below each entry, or nil if it has
// not begun. No entry defines this view.
func Subordinates(ctx context.Context, s *partition.Snapshot) (*Definition, error) {
	return materialized.Builtin(ctx, s.State())
}

// A Progress describes how far the views are behind the commits. It also contains the number
// of steps that this server made to update the views, and the number of steps that failed.
type Progress struct {
	Entries       uint64 // touched entries that the views do not show yet
	Age           time.Duration
	Steps, Errors uint64
}

// ProgressOf returns the progress of the views of a directory.
func ProgressOf(p *partition.Partition) Progress {
	k := p.Keeper()
	l := k.ViewLag(time.Now())
	return Progress{l.Entries, l.Age, k.Views.Steps.Load(), k.Views.Errors.Load()}
}

// IsTable reports whether a table of a store contains records of views, or the revisions up
// to which the views are kept. Everything in these tables can be computed again from the
// entries.
func IsTable(name string) bool { return materialized.IsTable(name) }

// Keep keeps the views of a directory until ctx ends. Servers of one store share the work.
// Keep passes errors to report and then tries again.
func Keep(ctx context.Context, p *partition.Partition, report func(error)) {
	m := materialized.NewManager(p.Keeper())
	defer m.Close()
	m.Share()
	m.Run(ctx, report)
}

// Update brings all views to the newest settled state: the newest state to which no commit
// can be added.
func Update(ctx context.Context, p *partition.Partition) error {
	m := materialized.NewManager(p.Keeper())
	defer m.Close()
	return m.Step(ctx)
}

// Rebuild makes the servers build a view again, in a new table.
func Rebuild(ctx context.Context, p *partition.Partition, d *Definition) error {
	return materialized.Rebuild(ctx, p.Keeper(), d.ID)
}
