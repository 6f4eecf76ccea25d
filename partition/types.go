package partition

import (
	"context"
	"errors"
	"iter"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/internal/feed"
	"github.com/seed-4dac0d86/ldapd/partition/internal/search"
	"github.com/seed-4dac0d86/ldapd/partition/internal/state"
	"github.com/seed-4dac0d86/ldapd/partition/internal/write"
)

type (
	// Config is what all servers of a directory share; it lives in the store.
	Config = catalog.Config
	// Index is an attribute that is indexed, and how.
	Index = catalog.Index
	// Layout is how an index is laid out.
	Layout = catalog.Layout
	// Unique is an attribute of which no two entries of a scope have the same value.
	Unique = catalog.Unique

	// AccessRule is the text of an access rule, and where it stands.
	AccessRule = catalog.AccessRule
	// Access are the access rules of a state.
	Access = catalog.Access

	// By is who changes the directory, for creatorsName and the journal.
	By = write.By
	// Rules are what a change may do besides what users may.
	Rules = write.Rules

	// Located is where a name was found.
	Located = state.Located
	// Moment is a state of the past, or now, as people name it.
	Moment = state.Moment

	// Query is what to search for.
	Query = search.Query
	// Result is an entry that a search found.
	Result = search.Result
	// Cost is what a search took.
	Cost = search.Cost
	// SortKey is one key of an order.
	SortKey = search.SortKey
	// Sorter puts entries in order, in bounded memory.
	Sorter = search.Sorter

	// Change is one commit.
	Change = feed.Change
	// Effect is what changes did to one entry.
	Effect = feed.Effect
	// EffectKind is what kind of an effect it is.
	EffectKind = feed.EffectKind
)

// The layouts of indexes.
const (
	RowLayout    = catalog.RowLayout
	ColumnLayout = catalog.ColumnLayout
)

// The kinds of effects.
const (
	Added    = feed.Added
	Modified = feed.Modified
	Moved    = feed.Moved
	Deleted  = feed.Deleted
)

// DefaultIndexes are those of a directory that is created without any being named.
func DefaultIndexes() []Index { return catalog.DefaultIndexes() }

// SubschemaName is the name of the subschema's entry.
const SubschemaName = catalog.SubschemaName

// IsSubschema reports whether a name is the subschema's.
func IsSubschema(name dn.DN) bool { return catalog.IsSubschema(name) }

// ParseMoment reads a moment: a time of RFC 3339, a revision, the name of a checkpoint,
// or "now".
func ParseMoment(s string) (Moment, error) { return state.ParseMoment(s) }

// NewSorter returns a sorter by keys that takes at most so many bytes.
func NewSorter(keys []SortKey, memory int64) *Sorter { return search.NewSorter(keys, memory) }

// Effects streams what happened to entries between two states.
func Effects(ctx context.Context, from, to *Snapshot, ids []entry.ID) iter.Seq2[Effect, error] {
	return feed.Effects(ctx, from.s, to.s, ids)
}

// Is reports whether an error is an [Error] of a problem.
func Is(err error, p Problem) bool {
	var e *Error
	return errors.As(err, &e) && e.Problem == p
}
