package txn

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A HorizonError reports that a state cannot be read because garbage collection may have
// removed parts of it. It wraps ErrRevision.
type HorizonError struct {
	Asked, Horizon table.Revision
}

func (e *HorizonError) Error() string {
	return fmt.Sprintf("%v: history is kept from %s on (%s)", ErrRevision,
		e.Horizon.Time().UTC().Format(time.RFC3339Nano), e.Horizon.String())
}

func (e *HorizonError) Unwrap() error { return ErrRevision }

// A registry contains the snapshots that may be in use.
type registry struct {
	db   *DB
	mu   sync.Mutex
	all  []*Snapshot
	next int // the length of the list all at which unused snapshots are dropped
	// horizon is the oldest revision that may be read. Only pinned snapshots in use are
	// older, except on a standby.
	horizon table.Revision
}

func (g *registry) add(s *Snapshot) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.all) >= g.next {
		g.dropUnused()
		g.next = max(64, 2*len(g.all))
	}
	g.all = append(g.all, s)
}

// dropUnused drops unused snapshots. It keeps the current snapshot, because any goroutine
// may begin to use it.
func (g *registry) dropUnused() {
	kept := g.all[:0]
	for _, s := range g.all {
		if s.refs.Load() > 0 || s == g.db.current.Load() {
			kept = append(kept, s)
		}
	}
	clear(g.all[len(kept):])
	g.all = kept
}

// Oldest returns the low-water mark of the oldest snapshot in use, not counting snapshots
// of the past. Marks and secrets above this revision must not be collected.
func (g *registry) Oldest() table.Revision {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dropUnused()
	low := g.db.current.Load().low
	for _, s := range g.all {
		if s.ordinal != 0 {
			low = min(low, s.low)
		}
	}
	return low
}

// Horizon returns the horizon of this server. At accepts a revision below the horizon only if
// a checkpoint or a parked branch keeps the state at that revision. The horizon never falls.
func (g *registry) Horizon() table.Revision {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.horizon
}

// honour raises the horizon to the announced horizon or, if older snapshots are in use, only to
// the oldest of them. honour returns the new horizon. It ignores pinned snapshots. Afterwards
// no state older than the new horizon can be read, unless a checkpoint or a parked branch keeps
// it.
func (g *registry) honour(announced table.Revision, current *Snapshot) table.Revision {
	g.mu.Lock()
	defer g.mu.Unlock()
	if announced > g.horizon {
		g.dropUnused()
		low := min(announced, current.low)
		for _, s := range g.all {
			if !s.pinned { //rule:horizon-unread
				low = min(low, s.low)
			}
		}
		g.horizon = max(g.horizon, low)
	}
	return g.horizon
}

// admit registers s, a state of the past, as in use. It fails if s is older than the horizon
// and not pinned.
func (g *registry) admit(s *Snapshot) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s.low < g.horizon && !s.pinned {
		return &HorizonError{s.max, g.horizon}
	}
	s.refs.Add(1)
	g.all = append(g.all, s)
	return nil
}

// pins returns the revisions of the checkpoints, and of the bases of parked branches, that
// snapshots in use read. The checkpoints and branches may have ended in the meantime.
func (g *registry) pins() (pins []table.Revision) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.all {
		if s.pinned && s.refs.Load() > 0 {
			pins = append(pins, s.Trunk())
		}
	}
	return pins
}

// expire invalidates the snapshots older than an announced horizon, except pinned ones and the
// current one. Nobody waited for this server to honour that horizon, because this server has no
// slot or is a standby. Parts of what these snapshots show may have been removed.
func (g *registry) expire(horizon table.Revision) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.all {
		if s.low < horizon && !s.pinned && s != g.db.current.Load() {
			err := error(&HorizonError{s.max, horizon})
			s.expired.Store(&err)
		}
	}
}

// raise raises the horizon, although older snapshots may be in use.
func (g *registry) raise(horizon table.Revision) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.horizon = max(g.horizon, horizon)
}

// unreadable returns the error that reads of the snapshot return, or nil if the snapshot
// can be read.
func (s *Snapshot) unreadable() error {
	if s.err != nil {
		return s.err
	}
	if err := s.expired.Load(); err != nil {
		return *err
	}
	return nil
}

// admitPast registers s, a state of the past or of a branch, as in use. It accepts a state below
// the horizon if a checkpoint or a parked branch keeps that state.
func (g *registry) admitPast(ctx context.Context, s *Snapshot) (*Snapshot, error) {
	err := g.admit(s)
	if err == nil {
		return s, nil
	}
	// Register s before looking for the checkpoint: a collection that no longer finds the
	// checkpoint still finds the registered snapshot.
	s.pinned = true
	if e := g.admit(s); e != nil {
		return nil, e
	}
	kept, e := g.isKept(ctx, s.Trunk())
	if e == nil && !kept {
		e = err
	}
	if e != nil {
		s.Close()
		return nil, e
	}
	return s, nil
}

// asked reports whether stillKept can return nil for this snapshot without a check. Only
// snapshots of the past or of a branch need the check, and only on a shared store or on a
// standby.
func (s *Snapshot) asked() bool {
	if s.db.o.Follow {
		return s.ordinal != 0
	}
	return s.ordinal != 0 || !s.db.Shared()
}

// stillKept returns an error if the rows just read may have been collected. Collections
// wait for the snapshots of the past on a server that holds its slot. They do not wait
// for a server that only reads, or that was suspended for longer than its lease. During
// the read another server may also have deleted the checkpoint, and a third server may
// have collected.
func (s *Snapshot) stillKept(ctx context.Context) error {
	if s.asked() {
		return nil
	}
	if err := s.unreadable(); err != nil {
		return err
	}
	if !s.pinned && s.db.views.tenured() {
		return nil
	}
	if !s.pinned {
		h, err := s.db.log.Heads(ctx)
		if err == nil && s.low < h.Horizon {
			err = &HorizonError{s.max, h.Horizon}
		}
		return err
	}
	kept, err := s.db.isKept(ctx, s.max)
	if err == nil && !kept {
		err = &HorizonError{s.max, s.db.Horizon()}
	}
	return err
}

// isKept reports whether a checkpoint or a parked branch keeps the state at a revision.
func (g *registry) isKept(ctx context.Context, r table.Revision) (bool, error) {
	all, err := g.db.Checkpoints(ctx)
	if err != nil || slices.ContainsFunc(all, func(c Checkpoint) bool { return c.Revision == r }) {
		return err == nil, err
	}
	h, err := g.db.log.Heads(ctx)
	return err == nil && slices.Contains(h.ParkedBases(), r), err
}

// scanKept yields rows, and ends the scan with an error if the rows may have been
// collected during the scan.
func (s *Snapshot) scanKept(ctx context.Context, rows iter.Seq2[table.Row, error]) iter.Seq2[table.Row, error] {
	return func(yield func(table.Row, error) bool) {
		for row, err := range rows {
			if !yield(row, err) {
				return
			}
		}
		if err := s.stillKept(ctx); err != nil {
			yield(table.Row{}, err)
		}
	}
}

// keepsJournal returns a HorizonError if commits above r may have been removed from the journal.
// It asks the store only if ask is set and collections do not wait for this server.
func (g *registry) keepsJournal(ctx context.Context, r table.Revision, ask bool) error {
	horizon := g.Horizon()
	if ask && (g.db.Shared() || g.db.o.Follow) && !g.db.views.tenured() {
		h, err := g.db.log.Heads(ctx)
		if err != nil {
			return err
		}
		horizon = max(horizon, h.Horizon)
	}
	if r < horizon {
		return &HorizonError{r, horizon}
	}
	return nil
}

// holdHorizon returns a snapshot of the newest state. Until the snapshot is closed, the
// horizon does not rise above its revision.
func (g *registry) holdHorizon() (*Snapshot, error) {
	now := g.db.Snapshot()
	defer now.Close()
	if err := now.unreadable(); err != nil {
		return nil, err
	}
	held := &Snapshot{db: g.db, view: now.view, heads: now.heads, max: now.max, low: now.low}
	return held, g.admit(held)
}
