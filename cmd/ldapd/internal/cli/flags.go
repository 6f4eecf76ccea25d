package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/history"
	"github.com/seed-4dac0d86/ldapd/partition/state"
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
const PointInTimeHelp = "a time such as 2026-01-31T12:00:00Z, a revision, or the name of a checkpoint"

// ParseName parses a name from the command line.
func ParseName(where, text string) (dn.DN, error) {
	name, err := dn.Parse(text)
	if err != nil {
		return nil, &config.Error{Where: where, Text: err.Error()}
	}
	return name, nil
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
