package txn

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/seed-4dac0d86/ldapd/journal"
	"github.com/seed-4dac0d86/ldapd/revision"
	"github.com/seed-4dac0d86/ldapd/table"
)

// A HorizonError reports that a state cannot be read because parts of it may have been
// collected. It wraps ErrRevision.
type HorizonError struct {
	Asked, Horizon table.Revision
}

func (e *HorizonError) Error() string {
	return fmt.Sprintf("%v: history is kept from %s on (%s)", ErrRevision,
		e.Horizon.Time().UTC().Format(time.RFC3339Nano), e.Horizon.String())
}

func (e *HorizonError) Unwrap() error { return ErrRevision }

// Horizon returns the oldest revision that At accepts, checkpoints aside. It only rises.
func (db *DB) Horizon() table.Revision { return db.live.honoured() }

// honoured returns the horizon.
func (g *registry) honoured() table.Revision {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.horizon
}

// honour raises the horizon to an announced one, as far as the snapshots in use allow,
// and returns it. From then on no older state can be read.
func (g *registry) honour(announced table.Revision, current *Snapshot) table.Revision {
	g.mu.Lock()
	defer g.mu.Unlock()
	if announced > g.horizon {
		g.dropUnused()
		low := min(announced, current.low)
		for _, s := range g.all {
			if !s.pinned {
				low = min(low, s.low)
			}
		}
		g.horizon = max(g.horizon, low)
	}
	return g.horizon
}

// admit registers a state of the past as in use. It fails if the state is older than
// the horizon.
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

// pins returns the checkpoints that are being read. They may have been deleted
// meanwhile.
func (g *registry) pins() (pins []table.Revision) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.all {
		if s.pinned && s.refs.Load() > 0 {
			pins = append(pins, s.max)
		}
	}
	return pins
}

// expire invalidates the snapshots older than a horizon that this server was not asked
// about because it had no slot. Parts of what they show may be gone.
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

// unreadable returns why reads fail, or nil.
func (s *Snapshot) unreadable() error {
	if s.err != nil {
		return s.err
	}
	if err := s.expired.Load(); err != nil {
		return *err
	}
	return nil
}

// admit registers a state of the past as in use. A state below the horizon is admitted
// if a checkpoint keeps it.
func (db *DB) admit(ctx context.Context, s *Snapshot) (*Snapshot, error) {
	err := db.live.admit(s)
	if err == nil {
		return s, nil
	}
	// Register it before looking for the checkpoint: a collection that no longer finds
	// the checkpoint looks at the registered snapshots.
	s.pinned = true
	if e := db.live.admit(s); e != nil {
		return nil, e
	}
	all, e := db.Checkpoints(ctx)
	if e == nil && !slices.ContainsFunc(all, func(c Checkpoint) bool { return c.Revision == s.max }) {
		e = err
	}
	if e != nil {
		s.Close()
		return nil, e
	}
	return s, nil
}

// asked reports whether collections on all servers wait for this snapshot. They do for
// states at or above the horizon that this server honours, but not for checkpoints, nor
// for a server without a slot.
func (s *Snapshot) asked() bool {
	return s.ordinal != 0 || !s.db.Shared() || !s.pinned && !s.db.o.ReadOnly
}

// stillKept returns an error if what was just read may have been collected. It is
// called after reads that collections do not wait for: another server may have deleted
// the checkpoint, or raised the horizon, and a third one collected.
func (s *Snapshot) stillKept(ctx context.Context) error {
	if s.asked() {
		return nil
	}
	if !s.pinned {
		h, err := s.db.log.Heads(ctx)
		if err == nil && s.low < h.Horizon {
			err = &HorizonError{s.max, h.Horizon}
		}
		return err
	}
	all, err := s.db.Checkpoints(ctx)
	if err == nil && !slices.ContainsFunc(all, func(c Checkpoint) bool { return c.Revision == s.max }) {
		err = &HorizonError{s.max, s.db.Horizon()}
	}
	return err
}

// scanKept ends a scan with an error if the rows read may have been collected
// meanwhile.
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

// admitFrontier registers the state at a frontier as in use. The commits that a
// frontier names may be older than the horizon although the next ones are not. If
// nothing was committed between them and the horizon, the state equals that at the
// horizon.
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

// silent reports whether nothing was committed after a frontier, up to a horizon. The
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
