package materialized

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed-4dac0d86/ldapd/partition/cache"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/changestream"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/pause"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Manager keeps the views of a directory. Managers of several processes may work on one
// store at the same time. Only one goroutine may use a Manager.
type Manager struct {
	k     *catalog.Partition
	lanes []lane
	// The map "held" contains the states at which the last steps of the lanes ended. While a
	// state is held, garbage collection keeps the data that it shows, so that the next step can
	// begin there.
	held   map[task]heldState
	looked bool // makeTable has checked whether the table tableName exists
	ring   ring
	random func() uint64
	most   int // stepEntries, except in tests
	reads  reads
	// passed contains the newest states up to which steps were due. For each state it contains
	// the revision, and what DB.Touched returned before the state was opened.
	passed []passed
	others otherViews
	pause  func(line string) error
}

// reads contains what the present call of Step has read, because several views read the same
// entries and changes.
type reads struct {
	items   map[table.Revision]map[entry.ID]*cache.Item // by the revision of the state
	touched map[interval]touched
}

// An interval contains the revisions after W, up to and including Next.
type interval struct{ W, Next table.Revision }

func newReads() reads {
	return reads{map[table.Revision]map[entry.ID]*cache.Item{}, map[interval]touched{}}
}

type passed struct {
	r       table.Revision
	touched uint64
}

type heldState struct {
	*state.Snapshot
	since time.Time
}

// NewManager returns a Manager that keeps all views. Close must be called after use.
func NewManager(k *catalog.Partition) *Manager {
	return &Manager{k: k, lanes: lanes(k.DB.Shared()), held: map[task]heldState{}, random: rand.Uint64, most: stepEntries}
}

// Share makes the manager of a shared store divide the work with the managers of other servers
// (see ring).
func (m *Manager) Share() {
	if m.k.DB.Shared() {
		m.ring = ring{patience: patience, waiting: map[task]waiting{}}
	}
}

// Close releases the states that the manager holds.
func (m *Manager) Close() {
	m.k.Views.Stop()
	m.k.Recent.Want(false)
	for key := range m.held {
		m.release(key)
	}
}

func (m *Manager) release(key task) {
	if h, ok := m.held[key]; ok {
		h.Snapshot.Close()
		delete(m.held, key)
	}
}

// longest is the longest time for which a manager holds the state of a lane that does not
// advance. After this time, the history that the lane needs may be collected, and the view
// may have to be built again.
const longest = 24 * time.Hour

// After a step, a manager waits for a new commit, and then for the time Due, before it makes
// the next step. On a shared store it waits for ten times Due.
const Due = 100 * time.Millisecond

// due returns Due or, on a shared store, ten times Due.
func (m *Manager) due() time.Duration {
	if m.k.DB.Shared() {
		return 10 * Due
	}
	return Due
}

// lookAgain is the time after which a manager works even if nothing was committed.
const lookAgain = 10 * time.Second

// Run keeps the views until ctx ends. It passes errors to report and then tries again.
func (m *Manager) Run(ctx context.Context, report func(error)) {
	every := m.due()
	for {
		next := changestream.Next(m.k)
		if err := m.Step(ctx); err != nil && ctx.Err() == nil {
			m.k.Views.Errors.Add(1)
			report(err)
			next = nil // try again after a while, even if nothing is committed
		}
		wait := every
		if next == nil {
			wait = 10 * every
		} else {
			select {
			case <-next:
				m.k.Views.Begin(time.Now())
			case <-time.After(lookAgain): // look again: Rebuild may have been called for a view
			case <-ctx.Done():
				return
			}
		}
		if pause.For(ctx, wait) != nil {
			return
		}
	}
}

// Step brings all views to the newest settled state: the newest state to which no commit
// can be added. It leaves out the work that the ring assigns to other servers.
func (m *Manager) Step(ctx context.Context) error {
	m.k.Deriving.Lock()
	defer m.k.Deriving.Unlock()
	to, defs, err := m.look(ctx)
	if err != nil {
		return err
	}
	defer to.Close()
	if defs == nil {
		return nil
	}
	m.reads = newReads()
	defer func() { m.reads = reads{} }()
	var errs []error
	for _, d := range defs {
		errs = append(errs, m.keep(ctx, d, to.Revision()))
	}
	return errors.Join(append(errs, m.others.end(), m.reach(ctx, defs), m.end(ctx, defs))...)
}

// look returns the newest settled state, up to which steps are due, and the definitions in
// this state. defs is nil if there never was a view. The caller must close the state.
func (m *Manager) look(ctx context.Context) (to *state.Snapshot, defs []*Definition, err error) {
	touched := m.k.DB.Touched()
	if to, err = settled(ctx, m.k); err != nil {
		return nil, nil, err
	}
	if defs, err = m.definitions(ctx, to); err != nil {
		to.Close()
		return nil, nil, err
	}
	if defs != nil {
		m.pass(to.Revision(), touched)
	}
	m.k.Recent.Want(!m.k.DB.Shared() && slices.ContainsFunc(defs, func(d *Definition) bool { return d.Kind != Subordinates }))
	return to, defs, nil
}

// definitions returns the definitions in a state, and the definition of the view of
// subordinates if that view is wanted. It returns nil if there never was a view.
func (m *Manager) definitions(ctx context.Context, s *state.Snapshot) ([]*Definition, error) {
	defs, _, err := Definitions(ctx, s)
	if err != nil {
		return nil, err
	}
	counts := m.k.WantsSubordinates.Load()
	made, err := m.makeTable(ctx, len(defs) > 0 || counts)
	if err != nil || !made {
		return nil, err
	}
	if !counts {
		d, err := Builtin(ctx, s)
		if err != nil {
			return nil, err
		}
		counts = d != nil
		m.k.WantsSubordinates.Store(counts)
	}
	if counts {
		defs = append(defs, subordinates(s.Catalog))
	}
	return append([]*Definition{}, defs...), nil
}

// maxPassed bounds the number of states in Manager.passed. If there are more, the manager
// forgets the second oldest. Then Lag.Entries may be too high, but not too low.
const maxPassed = 1024

// pass remembers a state up to which steps are due.
func (m *Manager) pass(r table.Revision, touched uint64) {
	if n := len(m.passed); n > 0 && m.passed[n-1].touched == touched {
		m.passed[n-1].r = max(m.passed[n-1].r, r)
		return
	}
	if m.passed = append(m.passed, passed{r, touched}); len(m.passed) > maxPassed {
		m.passed = slices.Delete(m.passed, 1, 2)
	}
}

// reach publishes the revision up to which all views are kept. It leaves out views that are not
// kept yet or have failed.
func (m *Manager) reach(ctx context.Context, defs []*Definition) error {
	least := revision.Last
	for _, d := range defs {
		c, err := readCells(ctx, m.k, d.ID, d.lanes(m.k.DB))
		if err != nil {
			return err
		}
		if c.begun() && c.generation.Key == d.key {
			for i, l := range d.lanes(m.k.DB) {
				least = min(least, c.cursors[i].upTo(l, m.passed[len(m.passed)-1].r))
			}
		}
	}
	if least == revision.Last {
		m.passed = m.passed[len(m.passed)-1:]
		m.k.Views.Stop()
		return nil
	}
	last := 0
	for i, p := range m.passed {
		if p.r <= least {
			last = i
		}
	}
	m.passed = m.passed[last:]
	touched := m.passed[0].touched
	m.k.Views.Reach(least, touched, time.Now(), m.k.DB.Touched() == touched)
	m.k.Recent.Forget(least)
	return nil
}

// upTo returns the revision up to which a lane is kept. If the lane has reached its
// boundary for the revision r, upTo returns r itself.
func (c *cursor) upTo(l lane, r table.Revision) table.Revision {
	if c.W >= l.boundary(r) {
		return r
	}
	return c.W
}

// settled returns the newest state to which no commit can be added.
func settled(ctx context.Context, k *catalog.Partition) (*state.Snapshot, error) {
	if !k.DB.Shared() {
		return state.Newest(k), nil
	}
	return changestream.Settled(ctx, k)
}

// makeTable creates the table of cells if it is needed. It reports whether the table
// exists.
func (m *Manager) makeTable(ctx context.Context, needed bool) (bool, error) {
	if m.looked && !needed {
		return m.k.HasViews.Load(), nil
	}
	has, err := hasCells(ctx, m.k)
	m.looked = err == nil
	if err != nil || has || !needed {
		return has, err
	}
	if err := m.k.Store.Create(ctx, viewsSpec); err != nil {
		return false, err
	}
	m.k.HasViews.Store(true)
	return true, nil
}

// keep makes the steps of one view up to a revision. The definition must be that of the
// state at this revision.
func (m *Manager) keep(ctx context.Context, d *Definition, upTo table.Revision) error {
	ls := d.lanes(m.k.DB)
	c, err := readCells(ctx, m.k, d.ID, ls)
	if err != nil {
		return err
	}
	if c.generation.Key != d.key || c.generation.Table == "" {
		if !m.ring.mine(task{d.ID, -1}, m.k.DB, c.generation.raw) {
			return nil
		}
		if c, err = m.begin(ctx, d, c); err != nil {
			return err
		}
	}
	if c.generation.Failed != "" {
		return nil
	}
	for i, l := range ls {
		err := m.advance(ctx, d, l, c.cursors[i], upTo)
		switch {
		case errors.Is(err, errLate):
		case belowHorizon(err):
			// History no longer keeps the states that the step needs.
			m.release(task{d.ID, l.number})
			_, err := m.begin(ctx, d, c)
			return err
		case errors.Is(err, table.ErrCorrupt):
			return m.fail(ctx, d, c, err)
		case err != nil:
			return errors.Join(err, m.replaceMissing(ctx, d, c))
		}
	}
	return nil
}

// replaceMissing begins a new generation if the table of the present generation does not
// exist. This happens if a swap in begin took effect but returned an error, because begin then
// drops the new table.
func (m *Manager) replaceMissing(ctx context.Context, d *Definition, c *cells) error {
	names, err := m.k.Store.Names(ctx)
	if err != nil || slices.Contains(names, c.generation.Table) {
		return err
	}
	_, err = m.begin(ctx, d, c)
	return err
}

// begin begins a new generation of a view and drops the table of the last generation.
func (m *Manager) begin(ctx context.Context, d *Definition, c *cells) (*cells, error) {
	for _, l := range m.lanes {
		m.release(task{d.ID, l.number})
	}
	g := c.generation
	before := g.Table
	g.Key, g.Table, g.Failed = d.key, newTable(m.random), ""
	if err := m.k.Store.Create(ctx, specOf(g.Table)); err != nil {
		return nil, err
	}
	done, err := swapGeneration(ctx, m.k, d.ID, &g)
	if err != nil || !done {
		// The new table is not used. If the swap took effect although it returned an error,
		// the next step finds no table and begins a new generation again.
		err = errors.Join(err, m.k.Store.Drop(ctx, g.Table))
		if err != nil {
			return nil, err
		}
		return readCells(ctx, m.k, d.ID, d.lanes(m.k.DB))
	}
	if before != "" {
		if err := m.k.Store.Drop(ctx, before); err != nil {
			return nil, err
		}
	}
	return readCells(ctx, m.k, d.ID, d.lanes(m.k.DB))
}

// fail records why a view is not kept. The records of the view are then computed for each
// reader.
func (m *Manager) fail(ctx context.Context, d *Definition, c *cells, cause error) error {
	g := c.generation
	g.Failed = cause.Error()
	_, err := swapGeneration(ctx, m.k, d.ID, &g)
	return errors.Join(cause, err)
}

// advance makes steps of a lane until the lane has reached its boundary for the revision
// upTo, or until the next step is another server's task.
func (m *Manager) advance(ctx context.Context, d *Definition, l lane, cur cursor, upTo table.Revision) error {
	for {
		key := task{d.ID, l.number}
		if h, ok := m.held[key]; ok && (h.Revision() != cur.W || time.Since(h.since) > longest) {
			m.release(key)
		}
		last := l.boundary(upTo)
		if cur.Next == 0 && last <= cur.W {
			return m.hold(ctx, key, cur.W)
		}
		if !m.ring.mine(key, m.k.DB, cur.raw) {
			m.release(key)
			return nil
		}
		s := &step{k: m.k, lane: l, d: d, cur: cur, pause: m.pause, others: func() { m.keepOthers(ctx, d) }}
		if err := m.prepare(ctx, s, key, last); err != nil {
			return err
		}
		err := s.run(ctx)
		if err == nil {
			m.k.Views.Steps.Add(1)
			m.release(key)
			s.to.Items = nil
			m.held[key] = heldState{s.to, time.Now()}
		} else {
			s.to.Close()
			return err
		}
		c, err := readCells(ctx, m.k, d.ID, d.lanes(m.k.DB))
		if err != nil {
			return err
		}
		if c.generation.Table != cur.Table {
			return errLate
		}
		cur = c.cursors[l.number]
		m.ring.did(key, cur.raw)
		s.others()
	}
}

// sharing returns a copy of a state. The copy remembers the entries that are read from it, so
// that all views can use them.
func (m *Manager) sharing(s *state.Snapshot) *state.Snapshot {
	r := s.Revision()
	if m.reads.items[r] == nil {
		m.reads.items[r] = map[entry.ID]*cache.Item{}
	}
	shared := *s
	shared.Items = m.reads.items[r]
	return &shared
}

// prepare opens the states at which a step begins and ends. Unless the end is already
// announced, prepare chooses it.
func (m *Manager) prepare(ctx context.Context, s *step, key task, last table.Revision) (err error) {
	if s.cur.W != 0 {
		if err := m.hold(ctx, key, s.cur.W); err != nil {
			return err
		}
		s.from = m.sharing(m.held[key].Snapshot)
	}
	announced := s.cur.Next != 0
	if !announced {
		s.cur.Next = last
	}
	if s.to, err = state.At(ctx, m.k, s.cur.Next); err != nil || s.from == nil {
		return err
	}
	defer func() {
		if err == nil {
			s.to = m.sharing(s.to)
			m.recall(s)
		}
	}()
	if announced {
		s.t, err = touchedAfter(ctx, s.to, s.cur.W, 0)
	} else {
		s.t, err = m.touchedIn(ctx, s.to, interval{s.cur.W, s.cur.Next})
	}
	if err != nil {
		s.to.Close()
		return err
	}
	if s.t.cut {
		err = m.shorten(ctx, s)
	}
	return err
}

// shorten makes a step end at the last of the commits in s.t, or a little before it, because
// s.t does not contain the entries that later commits touched. If the lane has no boundary
// there, shorten reads the entries that all commits up to the end of the step touched.
func (m *Manager) shorten(ctx context.Context, s *step) (err error) {
	b := s.lane.boundary(s.t.last)
	switch {
	case b >= s.cur.Next:
	case b > s.cur.W:
		s.to.Close()
		s.cur.Next = b
		s.to, err = state.At(ctx, m.k, b)
	default:
		if s.t, err = touchedAfter(ctx, s.to, s.cur.W, 0); err != nil {
			s.to.Close()
		}
	}
	return err
}

// touchedIn calls touchedAfter with the limit stepEntries, for the commits in an interval whose
// end is the revision of s. It remembers the result in m.reads.
func (m *Manager) touchedIn(ctx context.Context, s *state.Snapshot, in interval) (touched, error) {
	if t, ok := m.reads.touched[in]; ok {
		return t, nil
	}
	t, err := touchedAfter(ctx, s, in.W, m.most)
	if err == nil {
		m.reads.touched[in] = t
	}
	return t, err
}

// recall takes the entries that the step needs from catalog.Partition.Recent, as far as they are
// there. Recent is used only on an embedded store. There, each commit is at a boundary, so no
// commit in s.t is after the end of the step.
func (m *Manager) recall(s *step) {
	if !m.k.Recent.Wanted() {
		return
	}
	for id, by := range s.t.ids {
		if _, known := s.to.Items[id]; known {
			continue
		}
		before, after := m.k.Recent.Find(id, by.first, by.last)
		if before != nil && before.Schema == s.from.Catalog.Schema {
			s.from.Items[id] = before.Before
		}
		if after != nil && after.Schema == s.to.Catalog.Schema {
			s.to.Items[id] = after.After
		}
	}
}

// hold opens the state at the boundary w and keeps it in m.held.
func (m *Manager) hold(ctx context.Context, key task, w table.Revision) error {
	if _, ok := m.held[key]; ok || w == 0 {
		return nil
	}
	s, err := state.At(ctx, m.k, w)
	if err == nil {
		m.held[key] = heldState{s, time.Now()}
	}
	return err
}

// end removes the cells and the records of definitions that no longer exist.
func (m *Manager) end(ctx context.Context, defs []*Definition) error {
	gone, err := ended(ctx, m.k, defs)
	if err != nil {
		return err
	}
	for id, g := range gone {
		if !m.ring.mine(task{id, -1}, m.k.DB, g.raw) {
			continue
		}
		for _, l := range m.lanes {
			m.release(task{id, l.number})
		}
		m.ring.forget(id)
		if g.Table != "" {
			if err := m.k.Store.Drop(ctx, g.Table); err != nil {
				return err
			}
		}
		if err := forget(ctx, m.k, id, &g, m.lanes); err != nil {
			return err
		}
	}
	return nil
}

// Rebuild makes the next step begin a new generation of a view.
func Rebuild(ctx context.Context, k *catalog.Partition, id entry.ID) error {
	has, err := hasCells(ctx, k)
	if err != nil || !has {
		return err // no view was ever built
	}
	c, err := readCells(ctx, k, id, lanes(k.DB.Shared()))
	if err != nil || c.generation.Table == "" {
		return err
	}
	g := c.generation
	g.Key = "rebuild"
	done, err := swapGeneration(ctx, k, id, &g)
	if err == nil && !done {
		err = errLate
	}
	return err
}

// A Progress describes how far the views are behind the commits. It also contains the number
// of steps that this server made to update the views, and the number of steps that failed.
type Progress struct {
	Entries       uint64 // touched entries that the views do not show yet
	Age           time.Duration
	Steps, Errors uint64
}

// ProgressOf returns the progress of the views of a directory.
func ProgressOf(p *catalog.Partition) Progress {
	l := p.ViewLag(time.Now())
	return Progress{l.Entries, l.Age, p.Views.Steps.Load(), p.Views.Errors.Load()}
}

// Keep keeps the views of a directory until ctx ends. Servers of one store share the work.
// Keep passes errors to report and then tries again.
func Keep(ctx context.Context, p *catalog.Partition, report func(error)) {
	m := NewManager(p)
	defer m.Close()
	m.Share()
	m.Run(ctx, report)
}

// Update brings all views to the newest settled state: the newest state to which no commit
// can be added.
func Update(ctx context.Context, p *catalog.Partition) error {
	m := NewManager(p)
	defer m.Close()
	return m.Step(ctx)
}
