package view

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/partition/internal/state"
)

// SetPause makes the manager call pause between the lines of a step. An error of pause
// ends the step there.
func (m *Manager) SetPause(pause func(line string) error) { m.pause = pause }

// Kept reports whether the records of a state are read from the view's table.
func Kept(ctx context.Context, s *state.Snapshot, d *Definition) bool {
	_, err := d.readKept(ctx, s, &ReadOptions{})
	return err == nil
}
