package tabletest

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Faults is a seeded schedule of a store's failures. Calls can get lost, stay unanswered, have
// effect in part, or have effect later. A seed determines the schedule if the calls are made in
// the same order.
type Faults struct {
	mu      sync.Mutex
	rnd     *rand.Rand
	rate    float64
	calls   int
	crashAt int
	crashed bool
	late    []func()
	delay   time.Duration
	stopped chan struct{} // closed when the store answers again; nil if it is not stopped
}

// A fate is the outcome of a call.
type fate int

const (
	done       fate = iota
	lost            // the call returns an error and has no effect
	unanswered      // the call returns an error but has its effect
	partial         // the call returns an error, and only some of the rows are read or written
	lie             // only for a Swap: the call has its effect but returns false
	late            // the call returns an error, and has its effect during a later call
)

// WithFaults wraps a store. The result is a table.Batcher if s is one. Until SetRate or
// CrashAt is called, there are no failures.
func WithFaults(s table.Store, seed uint64) (table.Store, *Faults) {
	f := &Faults{rnd: rand.New(rand.NewPCG(seed, seed))}
	w := &faulty{s, f}
	if b, ok := s.(table.Batcher); ok {
		return &faultyBatcher{w, b}, f
	}
	return w, f
}

// SetRate sets the share of calls that fail.
func (f *Faults) SetRate(share float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rate = share
}

// SetDelay delays the effect of every call by up to d.
func (f *Faults) SetDelay(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.delay = d
}

// CrashAt makes the store crash at the n-th call from now. That call has its effect completely,
// partly, later or not at all. That call and all later calls return errors. If n is zero, the
// store does not crash.
func (f *Faults) CrashAt(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.crashAt = 0
	if n > 0 {
		f.crashAt = f.calls + n
	}
}

// Crashed reports whether the crash has happened.
func (f *Faults) Crashed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.crashed
}

// Stop makes all calls wait until Continue is called. So the store behaves as for a
// process that is stopped and continued between two calls.
func (f *Faults) Stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped == nil {
		f.stopped = make(chan struct{})
	}
}

// Continue ends a Stop.
func (f *Faults) Continue() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped != nil {
		close(f.stopped)
		f.stopped = nil
	}
}

// Calls returns the number of calls so far.
func (f *Faults) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// Land executes the writes that are still delayed.
func (f *Faults) Land() {
	f.mu.Lock()
	writes := f.late
	f.late = nil
	f.mu.Unlock()
	for _, w := range writes {
		w()
	}
}

// draw chooses a call's fate among the given fates.
func (f *Faults) draw(what string, fates ...fate) (fate, error) {
	f.mu.Lock()
	if f.delay > 0 {
		d := time.Duration(f.rnd.Int64N(int64(f.delay)))
		f.mu.Unlock()
		time.Sleep(d)
		f.mu.Lock()
	}
	for f.stopped != nil {
		stopped := f.stopped
		f.mu.Unlock()
		<-stopped
		f.mu.Lock()
	}
	f.calls++
	var landing func()
	if n := len(f.late); n > 0 && f.rnd.IntN(4) == 0 {
		i := f.rnd.IntN(n)
		landing = f.late[i]
		f.late = append(f.late[:i], f.late[i+1:]...)
	}
	was, chosen := f.crashed, done
	f.crashed = f.crashed || f.crashAt > 0 && f.calls >= f.crashAt
	switch {
	case was:
		chosen = lost
	case f.crashed || f.rnd.Float64() < f.rate:
		chosen = fates[f.rnd.IntN(len(fates))]
	}
	crashed := f.crashed
	f.mu.Unlock()
	if landing != nil {
		landing()
	}
	switch {
	case crashed:
		return chosen, fmt.Errorf("%w: %s after a crash", table.ErrClosed, what)
	case chosen == done || chosen == lie:
		return chosen, nil
	}
	return chosen, fmt.Errorf("%w: injected failure of %s", table.ErrUnavailable, what)
}

func (f *Faults) later(write func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.late = append(f.late, write)
}

// half returns how many of n rows a partial call reads or writes: a random number from 0 to n.
func (f *Faults) half(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rnd.IntN(n + 1)
}

type faulty struct {
	table.Store
	f *Faults
}

func (s *faulty) Create(ctx context.Context, specs ...table.Spec) error {
	return s.f.do("Create", func() error { return s.Store.Create(ctx, specs...) }, lost, unanswered)
}

func (s *faulty) Drop(ctx context.Context, names ...string) error {
	return s.f.do("Drop", func() error { return s.Store.Drop(ctx, names...) }, lost, unanswered)
}

func (s *faulty) Names(ctx context.Context) (names []string, err error) {
	err = s.f.do("Names", func() (err error) { names, err = s.Store.Names(ctx); return err }, lost)
	return names, err
}

func (s *faulty) Table(name string) table.Table {
	return &faultyTable{s.Store.Table(name), name, s.f}
}

// do makes a call whose effect is atomic, and applies the call's fate to it.
func (f *Faults) do(what string, call func() error, fates ...fate) error {
	fate, err := f.draw(what, fates...)
	switch fate {
	case lost:
		return err
	case late:
		f.later(func() { call() })
		return err
	}
	if e := call(); err == nil {
		err = e
	}
	return err
}

type faultyTable struct {
	t    table.Table
	name string
	f    *Faults
}

func (t *faultyTable) Name() string { return t.name }

func (t *faultyTable) Get(ctx context.Context, row []byte, s table.Select) (r table.Row, err error) {
	err = t.f.do("Get", func() (err error) { r, err = t.t.Get(ctx, row, s); return err }, lost)
	return r, err
}

func (t *faultyTable) GetMany(ctx context.Context, rows [][]byte, s table.Select) (rs []table.Row, err error) {
	err = t.f.do("GetMany", func() (err error) { rs, err = t.t.GetMany(ctx, rows, s); return err }, lost)
	return rs, err
}

// Versions implements table.Versioner. The wrapped table must be a Versioner.
func (t *faultyTable) Versions(ctx context.Context, rows [][]byte, f table.Family, after table.Revision) (rs []table.Row, err error) {
	err = t.f.do("Versions", func() (err error) {
		rs, err = t.t.(table.Versioner).Versions(ctx, rows, f, after)
		return err
	}, lost)
	return rs, err
}

// CopyTo implements table.Copier. The wrapped table must be a Copier. A call that gets lost has copied nothing.
func (t *faultyTable) CopyTo(ctx context.Context, to table.Table, w table.Rewriter, span table.RevisionSpan) error {
	if f, ok := to.(*faultyTable); ok {
		to = f.t
	}
	return t.f.do("CopyTo from "+t.name, func() error { return t.t.(table.Copier).CopyTo(ctx, to, w, span) }, lost, unanswered)
}

// Collect implements table.Collector. The wrapped table must be a Collector.
func (t *faultyTable) Collect(ctx context.Context, rows [][]byte, k *table.Keep) (sum table.Collected, err error) {
	fate, err := t.f.draw("Collect in "+t.name, lost, unanswered, partial)
	switch fate {
	case lost:
		return sum, err
	case partial:
		rows = rows[:t.f.half(len(rows))]
	}
	sum, e := t.t.(table.Collector).Collect(ctx, rows, k)
	if err == nil {
		err = e
	}
	return sum, err
}

// Forget implements table.Collector.
func (t *faultyTable) Forget(ctx context.Context, rows [][]byte) (sum table.Collected, err error) {
	fate, err := t.f.draw("Forget in "+t.name, lost, unanswered, partial)
	switch fate {
	case lost:
		return sum, err
	case partial:
		rows = rows[:t.f.half(len(rows))]
	}
	sum, e := t.t.(table.Collector).Forget(ctx, rows)
	if err == nil {
		err = e
	}
	return sum, err
}

// History implements table.Redactor. The wrapped table must be a Redactor.
func (t *faultyTable) History(ctx context.Context, r table.Range) iter.Seq2[table.Past, error] {
	return t.t.(table.Redactor).History(ctx, r)
}

// Redact implements table.Redactor.
func (t *faultyTable) Redact(ctx context.Context, upTo table.Revision, rs []table.Redaction) error {
	fate, err := t.f.draw("Redact in "+t.name, lost, unanswered, partial)
	if fate == lost {
		return err
	}
	if fate == partial {
		rs = rs[:t.f.half(len(rs))]
	}
	if e := t.t.(table.Redactor).Redact(ctx, upTo, rs); e != nil {
		return e
	}
	return err
}

// Keys implements table.Collector.
func (t *faultyTable) Keys(ctx context.Context, r table.Range) iter.Seq2[[]byte, error] {
	return t.t.(table.Collector).Keys(ctx, r)
}

// Scan implements table.Table. A failing scan fails at its beginning or, half of the time,
// after at most three rows.
func (t *faultyTable) Scan(ctx context.Context, r table.Range, s table.Select) iter.Seq2[table.Row, error] {
	return func(yield func(table.Row, error) bool) {
		fate, err := t.f.draw("Scan", lost, partial)
		left := 0
		if fate == partial {
			left = t.f.half(3)
		}
		for row, e := range t.t.Scan(ctx, r, s) {
			if err != nil && left == 0 {
				break
			}
			left--
			if !yield(row, e) {
				return
			}
		}
		if err != nil {
			yield(table.Row{}, err)
		}
	}
}

func (t *faultyTable) Apply(ctx context.Context, r table.Revision, ms []table.Mutation) error {
	call := func(ms []table.Mutation) error { return t.t.Apply(context.WithoutCancel(ctx), r, ms) }
	fate, err := t.f.draw("Apply to "+t.name, lost, unanswered, partial, late)
	switch fate {
	case lost:
		return err
	case late:
		t.f.later(func() { call(ms) })
		return err
	case partial:
		if e := call(ms[:t.f.half(len(ms))]); e != nil {
			return e
		}
		return err
	}
	if e := call(ms); err == nil {
		err = e
	}
	return err
}

func (t *faultyTable) Erase(ctx context.Context, r table.Revision, rows [][]byte) error {
	fate, err := t.f.draw("Erase in "+t.name, lost, unanswered, partial)
	switch fate {
	case lost:
		return err
	case partial:
		rows = rows[:t.f.half(len(rows))]
	}
	if e := t.t.Erase(ctx, r, rows); err == nil {
		err = e
	}
	return err
}

func (t *faultyTable) Swap(ctx context.Context, row []byte, f table.Family, q, old []byte, cells []table.Cell) (ok bool, err error) {
	call := func() (err error) {
		ok, err = t.t.Swap(context.WithoutCancel(ctx), row, f, q, old, cells)
		return err
	}
	fate, err := t.f.draw("Swap in "+t.name, lost, unanswered, lie, late)
	switch fate {
	case lost:
		return false, err
	case late:
		t.f.later(func() { t.t.Swap(context.WithoutCancel(ctx), row, f, q, old, cells) })
		return false, err
	}
	if e := call(); err == nil {
		err = e
	}
	return ok && err == nil && fate != lie, err
}

type faultyBatcher struct {
	*faulty
	b table.Batcher
}

var _ table.Batcher = (*faultyBatcher)(nil)

func (s *faultyBatcher) Commit(ctx context.Context, b table.Batch) (func() error, error) {
	var wait func() error
	err := s.f.do("Commit", func() (err error) { wait, err = s.b.Commit(ctx, b); return err }, lost, unanswered)
	if err != nil {
		return nil, err
	}
	return func() error { return s.f.do("wait", wait, lost, unanswered) }, nil
}
