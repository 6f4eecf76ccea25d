package txn

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
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

// Horizon returns the horizon of this server. At accepts a revision below the horizon only if
// a checkpoint or a parked branch keeps the state at that revision. The horizon never falls.
func (db *DB) Horizon() table.Revision { return db.live.honoured() }

// honoured returns the horizon that this server honours.
func (g *registry) honoured() table.Revision {
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
		if s.low < horizon && !s.pinned && s != s.db.current.Load() {
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

// admit registers s, a state of the past or of a branch, as in use. It accepts a state below
// the horizon if a checkpoint or a parked branch keeps that state.
func (db *DB) admit(ctx context.Context, s *Snapshot) (*Snapshot, error) {
	err := db.live.admit(s)
	if err == nil {
		return s, nil
	}
	// Register s before looking for the checkpoint: a collection that no longer finds the
	// checkpoint still finds the registered snapshot.
	s.pinned = true
	if e := db.live.admit(s); e != nil {
		return nil, e
	}
	kept, e := db.isKept(ctx, s.Trunk())
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
func (db *DB) isKept(ctx context.Context, r table.Revision) (bool, error) {
	all, err := db.Checkpoints(ctx)
	if err != nil || slices.ContainsFunc(all, func(c Checkpoint) bool { return c.Revision == r }) {
		return err == nil, err
	}
	h, err := db.log.Heads(ctx)
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

// admitFrontier registers s, the state at the frontier f, as in use. The commits that f
// names may be older than the horizon even if the commits after f are not. If nothing was
// committed between f and the horizon, the state at f equals the state at the horizon.
func (db *DB) admitFrontier(ctx context.Context, s *Snapshot, f revision.Frontier) (*Snapshot, error) {
	for {
		err := db.live.admit(s)
		if err == nil {
			return s, nil
		}
		horizon := db.Horizon()
		silent, e := db.silent(ctx, f, horizon)
		if e != nil {
			return nil, e
		}
		if !silent {
			return nil, err
		}
		s.max, s.low = max(s.max, horizon), max(s.low, horizon)
	}
}

// silent reports whether nothing was committed after a frontier and up to a horizon. The
// journal keeps at least the last commit of each slot up to the horizon.
func (db *DB) silent(ctx context.Context, f revision.Frontier, horizon table.Revision) (bool, error) {
	now := db.Snapshot()
	defer now.Close()
	for _, end := range now.ends() {
		from := f.Of(revision.SlotOf(end))
		if from >= min(end, horizon) {
			continue
		}
		for rec, err := range db.log.Backward(ctx, revision.SlotOf(end), from, min(end, horizon)) {
			if err != nil {
				return false, err
			}
			if rec.State == journal.Committed && now.Visible(rec.Revision) {
				return false, nil
			}
		}
	}
	return true, nil
}
