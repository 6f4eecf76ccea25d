package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/changestream"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// FinishOptions are the options of Finish.
type FinishOptions struct {
	// Finish calls Quiet after it has compared everything. Quiet must return once no
	// client writes to the server any more.
	Quiet func(ctx context.Context) error
	// Different makes Finish succeed although entries differ or were left out.
	Different bool
}

// ErrDifferent means that the directory and the server differ.
var ErrDifferent = errors.New("the two differ")

// Finish makes the directory take the place of the server: it catches up, compares the
// directory with the server, and opens the directory for updates. Clients may write to
// the server until Quiet returns. Afterwards Finish only has to copy and compare the last
// changes, and to compare the names and modifyTimestamps of all entries.
func (m *Move) Finish(ctx context.Context, o FinishOptions) (*Report, error) {
	if err := m.CatchUp(ctx); err != nil {
		return nil, err
	}
	m.o.Note("caught up")
	var r *Report
	var checked table.Revision
	if err := m.retry(ctx, isCut, func(ctx context.Context) (err error) {
		if r, checked, err = m.compareLive(ctx); err != nil || len(r.Differences) == 0 {
			return err
		}
		return m.mend(ctx, r)
	}); err != nil {
		return nil, err
	}
	m.o.Note("compared while clients write there: " + r.String())
	changed := func(ctx context.Context) (err error) {
		checked, err = m.compareSince(ctx, checked, r)
		return err
	}
	// Quiet may take hours, and servers close idle connections, so retry connects again.
	if err := m.whileFollowing(ctx, o.Quiet, func(ctx context.Context) error {
		return m.retry(ctx, isCut, changed)
	}); err != nil {
		return nil, err
	}
	begun := time.Now()
	if err := m.reconnect(ctx, 0); err != nil {
		return nil, err
	}
	if err := m.CatchUp(ctx); err != nil {
		return nil, err
	}
	if err := m.retry(ctx, isCut, func(ctx context.Context) error {
		if err := changed(ctx); err != nil {
			return err
		}
		if err := m.compareRefused(ctx, r); err != nil {
			return err
		}
		if err := m.mend(ctx, r); err != nil {
			return err
		}
		if err := m.missed(ctx, r); err != nil {
			return err
		}
		return m.explain(ctx, r)
	}); err != nil {
		return nil, err
	}
	if len(r.Differences) > 0 && !o.Different {
		return r, errors.Join(m.count(ctx, r), ErrDifferent)
	}
	if err := m.end(ctx); err != nil {
		return r, err
	}
	m.o.Note(fmt.Sprintf("open for updates %s after the last one there", since(begun)))
	return r, m.count(ctx, r)
}

// count updates the number of entries that both the directory and the server have,
// because entries were added and deleted since everything was compared.
func (m *Move) count(ctx context.Context, r *Report) error {
	s := state.Newest(m.p)
	defer s.Close()
	here, _, _ := r.Counts()
	r.Both = -here
	for _, base := range m.src.Bases {
		inner := m.src.inner(base)
		for x, err := range entriesBelow(ctx, s, base) {
			if err != nil {
				return err
			}
			if !within(x.Name.String(), inner) {
				r.Both++
			}
		}
	}
	return nil
}

// compareLive compares everything while clients write to the server and the directory follows.
// It also returns a revision. Entries that were changed after this revision have to be
// compared again.
func (m *Move) compareLive(ctx context.Context) (r *Report, checked table.Revision, err error) {
	checked = m.revision()
	clear(m.refused)
	err = m.whileFollowing(ctx, func(ctx context.Context) error {
		r, err = m.Compare(ctx, 3)
		return err
	}, func(context.Context) error { return nil })
	return r, checked, err
}

// mend copies the entries of a report from the server, except those that the directory
// refuses, and compares them again. It repeats this as long as the number of differences
// falls, because an entry may be accepted only after another entry was copied.
func (m *Move) mend(ctx context.Context, r *Report) error {
	for before := len(r.Differences) + 1; 0 < len(r.Differences) && len(r.Differences) < before; {
		before = len(r.Differences)
		for _, d := range r.Differences {
			if err := m.copyAgain(ctx, d); err != nil {
				return err
			}
		}
		if err := m.recheck(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// copyAgain copies the entry of a difference from the server, or deletes it if the server
// no longer has it.
func (m *Move) copyAgain(ctx context.Context, d *Difference) error {
	e, err := m.now(ctx, d)
	if err != nil {
		return err
	}
	a := action{del: d.id}
	if e != nil {
		if a.put, err = m.translation().translate(e); err != nil {
			return nil
		}
	}
	return m.apply(ctx, []action{a}, nil)
}

func (m *Move) revision() table.Revision {
	s := state.Newest(m.p)
	defer s.Close()
	return s.Revision()
}

// whileFollowing calls do, and lets a second Move follow the server meanwhile. It calls idle
// every second until do returns.
func (m *Move) whileFollowing(ctx context.Context, do, idle func(context.Context) error) error {
	following, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	f, err := m.second()
	if err != nil {
		return err
	}
	defer f.Close()
	wg.Go(func() {
		if err := f.Follow(following, func() {}); !errors.Is(err, errStopped) {
			stop(err)
		}
	})
	done := make(chan error, 1)
	wg.Go(func() { done <- do(following) })
	err = m.idle(following, done, idle)
	stop(errStopped)
	wg.Wait()
	m.again = f.again
	maps.Copy(m.others, f.others)
	maps.Copy(m.refused, f.refused)
	err = cmp.Or(err, m.reload(ctx))
	if cause := context.Cause(following); err == nil && !errors.Is(cause, errStopped) {
		err = cause
	}
	return err
}

func (m *Move) idle(ctx context.Context, done <-chan error, idle func(context.Context) error) error {
	for {
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second):
		}
		if err := idle(ctx); err != nil {
			return err
		}
	}
}

// The method "beside" returns a copy of m, with connections of its own, that follows in place
// of m.
func (m *Move) second() (*Move, error) {
	src, err := m.src.Again()
	if err != nil {
		return nil, err
	}
	ask, err := src.Again()
	if err != nil {
		src.Close()
		return nil, err
	}
	f := *m
	f.src, f.ask, f.translate = src, ask, nil
	f.cursor = *m.cursor.clone()
	f.noted, f.left, f.others, f.refused = maps.Clone(m.noted), maps.Clone(m.left), maps.Clone(m.others), maps.Clone(m.refused)
	return &f, nil
}

// compareSince compares the entries that were changed by commits after a revision. It adds to
// a report the entries that differ. It returns the revision up to which all changed entries
// have been compared.
func (m *Move) compareSince(ctx context.Context, after table.Revision, r *Report) (table.Revision, error) {
	s := state.Newest(m.p)
	defer s.Close()
	known := map[entry.ID]bool{}
	for _, d := range r.Differences {
		known[d.id] = true
	}
	for c, err := range changestream.ShownAfter(ctx, s, after) {
		if err != nil {
			return after, err
		}
		for _, id := range c.IDs {
			if known[id] {
				continue
			}
			known[id] = true
			if err := m.compareID(ctx, s, id, r); err != nil {
				return after, err
			}
		}
	}
	return s.Revision(), nil
}

// compareRefused compares the entries that the directory has refused. It adds to a report the
// entries that differ.
func (m *Move) compareRefused(ctx context.Context, r *Report) error {
	s := state.Newest(m.p)
	defer s.Close()
	for x := range m.refused {
		if slices.ContainsFunc(r.Differences, func(d *Difference) bool {
			return x.id != entry.Root && d.id == x.id || x.name != "" && d.Name == x.name
		}) {
			continue
		}
		if x.name == "" {
			if err := m.compareID(ctx, s, x.id, r); err != nil {
				return err
			}
			continue
		}
		d, _, err := m.compareAgain(ctx, s, &Difference{Name: x.name, id: x.id})
		if err != nil {
			return err
		}
		if d != nil {
			r.Differences = append(r.Differences, d)
		}
	}
	return nil
}

// compareID compares one entry of the directory with the server's entry. If the directory
// no longer has the entry, compareID looks for the id at the server.
func (m *Move) compareID(ctx context.Context, s *partition.Snapshot, id entry.ID, r *Report) error {
	if id == entry.Root {
		return nil
	}
	at, err := byID(ctx, s, id)
	if err != nil {
		return err
	}
	if at.ID == entry.Root {
		e, err := m.ask.find(ctx, id.String())
		if err != nil || e == nil {
			return err
		}
		d, _, err := m.compare(ctx, s, e)
		if err == nil && d != nil {
			r.Differences = append(r.Differences, d)
		}
		return err
	}
	if !within(at.Name.String(), m.src.Bases) {
		return nil
	}
	d, _, err := m.compareAgain(ctx, s, &Difference{Name: at.Name.String(), id: id})
	if err == nil && d != nil {
		r.Differences = append(r.Differences, d)
	}
	return err
}
