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

// A FloorError refuses a state of which parts may have been collected. It is an
// ErrRevision.
type FloorError struct {
	Asked, Floor table.Revision
}

func (e *FloorError) Error() string {
	return fmt.Sprintf("%v: history is kept from %s on (%s)", ErrRevision,
		e.Floor.Time().UTC().Format(time.RFC3339Nano), e.Floor.String())
}

func (e *FloorError) Unwrap() error { return ErrRevision }

// Floor returns the oldest revision that At accepts, checkpoints aside. It only rises.
func (db *DB) Floor() table.Revision { return db.live.honoured() }

// honoured is the floor.
func (g *registry) honoured() table.Revision {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.floor
}

// honour raises the floor to an announced one, as far as the snapshots in use
// let it, and gives it. No older state is given from then on.
func (g *registry) honour(announced table.Revision, current *Snapshot) table.Revision {
	g.mu.Lock()
	defer g.mu.Unlock()
	if announced > g.floor {
		g.dropUnused()
		low := min(announced, current.low)
		for _, s := range g.all {
			if !s.pinned {
				low = min(low, s.low)
			}
		}
		g.floor = max(g.floor, low)
	}
	return g.floor
}

// admit takes a state of the past into use, unless it is older than the floor.
func (g *registry) admit(s *Snapshot) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s.low < g.floor && !s.pinned {
		return &FloorError{s.max, g.floor}
	}
	s.refs.Add(1)
	g.all = append(g.all, s)
	return nil
}

// pins returns the checkpoints that are being read, which may be deleted meanwhile.
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

// expire ends the snapshots that are older than a floor which this server was not
// asked about, because it had no slot: parts of what they show may be gone.
func (g *registry) expire(floor table.Revision) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.all {
		if s.low < floor && !s.pinned && s != s.db.current.Load() {
			err := error(&FloorError{s.max, floor})
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

// admit takes a state of the past into use. One below the floor is fine if a
// checkpoint keeps it.
func (db *DB) admit(ctx context.Context, s *Snapshot) (*Snapshot, error) {
	err := db.live.admit(s)
	if err == nil {
		return s, nil
	}
	// It is taken first and looked for then: a collection that does not know of the
	// checkpoint any more looks at what is taken.
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

// asked reports whether collections know of those who read the past here: of the
// states at or above the floor that this server honours, and of no checkpoint.
func (s *Snapshot) asked() bool {
	return s.ordinal != 0 || !s.db.Shared() || !s.pinned && !s.db.o.ReadOnly
}

// stillKept tells, after a read that no collection was to spare, whether what it
// read was there until then: another server may have deleted the checkpoint, or
// raised the floor, and a third one collected.
func (s *Snapshot) stillKept(ctx context.Context) error {
	if s.asked() {
		return nil
	}
	if !s.pinned {
		h, err := s.db.log.Heads(ctx)
		if err == nil && s.low < h.Floor {
			err = &FloorError{s.max, h.Floor}
		}
		return err
	}
	all, err := s.db.Checkpoints(ctx)
	if err == nil && !slices.ContainsFunc(all, func(c Checkpoint) bool { return c.Revision == s.max }) {
		err = &FloorError{s.max, s.db.Floor()}
	}
	return err
}

// scanKept ends a scan with an error if what it reads may have gone meanwhile.
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

// admitFront takes the state at a front into use. A front names commits, which
// may be old although all that they leave out is young: if nothing was committed
// between them and the floor, the state is the floor's.
func (db *DB) admitFront(ctx context.Context, s *Snapshot, f revision.Front) (*Snapshot, error) {
	for {
		err := db.live.admit(s)
		if err == nil {
			return s, nil
		}
		floor := db.Floor()
		silent, e := db.silent(ctx, f, floor)
		if e != nil {
			return nil, e
		}
		if !silent {
			return nil, err
		}
		s.max, s.low = max(s.max, floor), max(s.low, floor)
	}
}

// silent reports whether nothing was committed after a front, up to a floor. Of
// what a slot committed up to the floor the journal keeps the last at least.
func (db *DB) silent(ctx context.Context, f revision.Front, floor table.Revision) (bool, error) {
	now := db.Snapshot()
	defer now.Close()
	for _, end := range now.ends() {
		from := f.Of(revision.SlotOf(end))
		if from >= min(end, floor) {
			continue
		}
		for rec, err := range db.log.Backward(ctx, revision.SlotOf(end), from, min(end, floor)) {
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
