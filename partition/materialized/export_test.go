package materialized

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/partition/state"
)

// SetPause makes the manager call the function pause at several points of a step, with the name
// of the point. If the function returns an error, the step ends there.
func (m *Manager) SetPause(pause func(line string) error) { m.pause = pause }

// KeepOthersAlways makes every call of keepOthers update the other views, even if their last
// update was less than Manager.due ago.
func (m *Manager) KeepOthersAlways() { m.others.always = true }

// SetStepEntries makes steps end after n touched entries, instead of stepEntries.
func (m *Manager) SetStepEntries(n int) { m.most = n }

// LookEvery is the number of entries between two calls of keepOthers in a first step.
const LookEvery = lookEvery

// ListKept reports whether the entries of a list in a state are read from the view's
// table.
func ListKept(ctx context.Context, s *state.Snapshot, d *Definition) bool {
	_, err := (&lister{d: d, s: s}).kept(ctx)
	return err == nil
}

// Kept reports whether the records of a view in a state are read from the view's table.
func Kept(ctx context.Context, s *state.Snapshot, d *Definition) bool {
	_, err := d.readKept(ctx, s, &ReadOptions{})
	return err == nil
}
