package view

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/partition/internal/state"
)

// SetPause makes the manager call pause between the lines of a step. An error of pause
// ends the step there.
func (m *Manager) SetPause(pause func(line string) error) { m.pause = pause }

// KeepOthersAlways makes the manager keep the other views whenever the steps of one view let
// it, and not only when they are due.
func (m *Manager) KeepOthersAlways() { m.beside.always = true }

// LookEvery is the number of entries of a first step after which other views may be kept.
const LookEvery = lookEvery

// ListKept is Kept for a list.
func ListKept(ctx context.Context, s *state.Snapshot, d *Definition) bool {
	_, err := (&lister{d: d, s: s}).kept(ctx)
	return err == nil
}

// Kept reports whether the records of a state are read from the view's table.
func Kept(ctx context.Context, s *state.Snapshot, d *Definition) bool {
	_, err := d.readKept(ctx, s, &ReadOptions{})
	return err == nil
}
