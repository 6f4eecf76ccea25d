package main

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

// oneOf returns a function that opens only files whose names are in names.
func oneOf(names []string, open func(string) (*os.File, error)) func(string) (*os.File, error) {
	return func(name string) (*os.File, error) {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("%s: not named by the command", name)
		}
		return open(name)
	}
}

// pointInTimeHelp describes the forms of a point in time.
const pointInTimeHelp = "a time such as 2026-01-31T12:00:00Z, a revision, or the name of a checkpoint"

// parseName parses a name from the command line.
func parseName(where, text string) (dn.DN, error) {
	name, err := dn.Parse(text)
	if err != nil {
		return nil, &config.Error{Where: where, Text: err.Error()}
	}
	return name, nil
}

// stateAt returns the state at the point in time that the user gave with flag.
func stateAt(ctx context.Context, w *work, flag, when string) (*partition.Snapshot, error) {
	m, err := state.ParsePointInTime(when)
	if err != nil {
		return nil, &config.Error{Where: flag, Text: err.Error()}
	}
	return history.State(ctx, w.Partition, m)
}

const dryRunHelp = "say what would be done, or why it cannot be done, and change nothing"

// errDryRun ends the transaction of a dry run.
var errDryRun = errors.New("dry run")
