package materialized

import (
	"context"
	"errors"
	"time"
)

// The first step of a view reads all entries of the view, and then many steps are needed to
// catch up with the commits. During the first step and after every step, the manager also
// updates the other views, so that they do not fall behind.

// While the steps of one view take long, the manager also updates the other views. The type
// otherViews is the state of these updates.
type otherViews struct {
	last    time.Time
	running bool
	errs    []error
	always  bool // set by a test: update the other views in each call of keepOthers
}

// lookEvery is the number of entries between two calls of keepOthers in a first step.
const lookEvery = 64

// end returns the errors since the last call of end.
func (b *otherViews) end() error {
	err := errors.Join(b.errs...)
	b.errs = nil
	return err
}

// keepOthers updates the other views to the newest settled state, except views that are not
// kept yet or have failed. It does nothing if an update of the other views is running, or if
// the last one ended less than Manager.due ago. Step returns the errors of keepOthers, and the
// next Step tries again.
func (m *Manager) keepOthers(ctx context.Context, d *Definition) {
	b := &m.others
	if b.running || !b.always && time.Since(b.last) < m.due() {
		return
	}
	b.running = true
	outer := m.reads
	m.reads = newReads()
	if err := m.stepOthers(ctx, d); err != nil {
		b.errs = append(b.errs, err)
	}
	m.reads = outer
	b.running, b.last = false, time.Now()
}

func (m *Manager) stepOthers(ctx context.Context, d *Definition) error {
	to, defs, err := m.look(ctx)
	if err != nil {
		return err
	}
	defer to.Close()
	if defs == nil {
		return nil
	}
	var errs []error
	for _, other := range defs {
		if other.ID == d.ID {
			continue
		}
		c, err := readCells(ctx, m.k, other.ID, other.lanes(m.k.DB))
		if err == nil && c.begun() && c.generation.Key == other.key {
			err = m.keep(ctx, other, to.Revision())
		}
		errs = append(errs, err)
	}
	return errors.Join(append(errs, m.reach(ctx, defs))...)
}
