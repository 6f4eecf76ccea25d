package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/history"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// OneOf returns a function that opens only files whose names are in names.
func OneOf(names []string, open func(string) (*os.File, error)) func(string) (*os.File, error) {
	return func(name string) (*os.File, error) {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("%s: not named by the command", name)
		}
		return open(name)
	}
}

// PointInTimeHelp describes the forms of a point in time.
const PointInTimeHelp = "a time such as 2026-01-31T12:00:00Z, 2026-01-31, 'last monday' (in UTC) or 7d (ago), a revision, or the name of a checkpoint"

// ParseName parses a name from the command line.
func ParseName(where, text string) (dn.DN, error) {
	name, err := dn.Parse(text)
	if err != nil {
		return nil, &config.Error{Where: where, Text: err.Error()}
	}
	return name, nil
}

// ScopeHelp says what ParseScope takes.
const ScopeHelp = "`SCOPE`: base, one, sub or children"

// ParseScope parses the value of --scope.
func ParseScope(text string) (op.Scope, error) {
	scope, ok := map[string]op.Scope{"base": op.BaseObject, "one": op.SingleLevel, "sub": op.WholeSubtree, "children": op.Subordinates}[text]
	if !ok {
		return 0, &config.Error{Where: "--scope", Text: fmt.Sprintf("%q is none of base, one, sub, children", text)}
	}
	return scope, nil
}

// CheckName is like ParseName, but returns nil for a text that only Work.Name can find.
func CheckName(where, text string) (dn.DN, error) {
	if !strings.Contains(text, "=") {
		return nil, nil
	}
	return ParseName(where, text)
}

// Name returns the name that a DN from the command line says. A text without "=" is the uid or the
// mail of an entry.
func (w *Work) Name(ctx context.Context, where, text string) (dn.DN, error) {
	s := state.Newest(w.Partition)
	defer s.Close()
	return NameIn(ctx, s, where, text)
}

// NameIn is like Name, in the given state.
func NameIn(ctx context.Context, s *partition.Snapshot, where, text string) (dn.DN, error) {
	if text == "" || strings.Contains(text, "=") {
		return ParseName(where, text)
	}
	value := []byte(text)
	f := filter.Resolve(filter.Or{&filter.Equal{Attribute: "uid", Value: value}, &filter.Equal{Attribute: "mail", Value: value}}, s.Schema())
	var found dn.DN
	for r, err := range search.Walk(ctx, s, partition.Query{Base: catalog.Root, Scope: op.WholeSubtree, Filter: f}) {
		if err != nil {
			return nil, err
		}
		name, err := r.Name.DN()
		if err != nil {
			return nil, err
		}
		if found != nil {
			return nil, &config.Error{Where: where, Text: fmt.Sprintf("%q is the uid or mail of %s and of %s: give the DN", text, found, name)}
		}
		found = name
	}
	if found == nil {
		return nil, &config.Error{Where: where, Text: fmt.Sprintf("%q is neither a DN nor the uid or mail of an entry", text)}
	}
	return found, nil
}

// StateAt returns the state at the point in time that the user gave with flag.
func StateAt(ctx context.Context, w *Work, flag, when string) (*partition.Snapshot, error) {
	m, err := state.ParsePointInTime(when)
	if err != nil {
		return nil, &config.Error{Where: flag, Text: err.Error()}
	}
	return history.State(ctx, w.Partition, m)
}

// DryRunHelp describes the flag --dry-run.
const DryRunHelp = "say what would be done, or why it cannot be done, and change nothing"

// ErrDryRun ends the transaction of a dry run.
var ErrDryRun = errors.New("dry run")

// StateSince is like StateAt, for a command that shows what changed since then. If the state is not kept
// any more, StateSince says so and returns the earliest state that is kept.
func StateSince(ctx context.Context, w *Work, flag, when string) (*partition.Snapshot, error) {
	s, err := StateAt(ctx, w, flag, when)
	if gone := (*txn.HorizonError)(nil); errors.As(err, &gone) {
		fmt.Fprintf(w.Stderr, "ldapd: history is kept from %s on, so earlier changes are not shown\n", gone.Horizon.Time().UTC().Format(time.RFC3339Nano))
		return StateSince(ctx, w, flag, gone.Horizon.String()) // which may have moved meanwhile
	}
	return s, err
}
