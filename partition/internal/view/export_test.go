package view

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/partition/internal/state"
)

// SetPause makes the manager call pause between the lines of a step. An error of pause
// ends the step there.
func (m *Manager) SetPause(pause func(line string) error) { m.pause = pause }

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
