package txn

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/pause"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// If a simulation includes garbage collection, its clients do more than transactions.
// They collect garbage, hold states of the present or the past and read them twice, and
// make checkpoints and read them later. Every state that they read is compared with the
// operations that it shows.

// A historian is a client of a simulation with garbage collection. The comment above describes
// what such a client does.
type historian struct {
	l   *simLife
	ctx context.Context
	db  *DB
}

// deeds are the operations that a historian can choose from.
var deeds = []func(*historian, uint64) error{
	(*historian).collect, (*historian).collectInTurn, (*historian).collectInTurn, (*historian).collectInTurn,
	(*historian).hold, (*historian).lookBack, (*historian).lookBack,
	(*historian).keep, (*historian).lookAtKept, (*historian).drop,
}

func (h *historian) run(random *splitmix) {
	for range 3 + random.next()%5 {
		if h.l.node.yield(h.ctx, "history") != nil {
			return
		}
		// Faults can make the operation fail.
		_ = deeds[random.next()%uint64(len(deeds))](h, random.next())
		if pause.For(h.ctx, time.Duration(random.next()%uint64(150*time.Millisecond))) != nil {
			return
		}
	}
}

// lookBack collects as much as possible at the end of a history, and checks that the
// checkpoints can still be read.
func (w *simWorld) lookBack(ctx context.Context, db *DB, d *node) {
	h := &historian{&simLife{w: w, node: d}, ctx, db}
	_, err := db.Collect(ctx, CollectOptions{})
	if err == nil {
		_, err = db.Collect(ctx, CollectOptions{All: true})
	}
	for _, name := range []uint64{0, 1} {
		if e := h.lookAtKept(name); !errors.Is(e, ErrCheckpoint) {
			err = errors.Join(err, e)
		}
	}
	if err != nil {
		w.net.oracle.breaks("in the end: %v", err)
	}
}

func (h *historian) collect(random uint64) error {
	_, err := h.db.Collect(h.ctx, CollectOptions{Retention: retention(random), All: random%8 == 0})
	return err
}

func (h *historian) collectInTurn(random uint64) error {
	_, err := h.db.collectAsLeader(h.ctx, CollectOptions{Retention: retention(random)}, random%4 != 0)
	return err
}

func retention(random uint64) time.Duration {
	return time.Duration(random % uint64(100*time.Millisecond))
}

func (h *historian) hold(random uint64) error {
	return h.readTwice(h.db.Snapshot(), random)
}

func (h *historian) lookBack(random uint64) error {
	s, err := h.db.At(h.ctx, h.db.current.Load().max-table.Revision(random%uint64(revision.Make(400, 0, 0))))
	if err != nil {
		return err
	}
	return h.readTwice(s, random)
}

func (h *historian) keep(random uint64) error {
	_, err := h.db.Checkpoint(h.ctx, moment(random))
	return err
}

func (h *historian) drop(random uint64) error { return h.db.DeleteCheckpoint(h.ctx, moment(random)) }

func moment(random uint64) string { return "m" + strconv.FormatUint(random%2, 10) }

func (h *historian) lookAtKept(random uint64) error {
	c, err := h.db.FindCheckpoint(h.ctx, moment(random))
	if err != nil {
		return err
	}
	s, err := h.db.At(h.ctx, c.Revision)
	if err != nil {
		return err
	}
	return h.readTwice(s, random)
}

// readTwice reads a state, waits, and reads it again.
func (h *historian) readTwice(s *Snapshot, random uint64) error {
	o := h.l.w.net.oracle
	h.l.node.uses(s)
	defer s.Close()
	at, ok := o.states[stateKey(s.heads)]
	if !ok {
		o.breaks("I7: a state of heads that there never were")
	}
	for range 2 {
		got, err := readWhole(h.ctx, s, h.db.Table("data"), h.db.Table("other"), true)
		if err != nil {
			return err
		}
		if s.ordinal == 0 {
			got.secret = unread // secrets have no history
		}
		o.answers(at, s.max, got)
		if err := pause.For(h.ctx, time.Duration(random%uint64(200*time.Millisecond))); err != nil {
			return err
		}
	}
	return nil
}

// uses registers a snapshot as in use by d. Snapshots that were closed are dropped.
func (d *node) uses(s *Snapshot) {
	d.usingMu.Lock()
	defer d.usingMu.Unlock()
	d.using = append(slices.DeleteFunc(d.using, func(s *Snapshot) bool { return s.refs.Load() <= 0 }), s)
}

func (d *node) inUse() []*Snapshot {
	d.usingMu.Lock()
	defer d.usingMu.Unlock()
	return slices.Clone(d.using)
}

// collected checks I8 when garbage is removed: states in use, checkpoints and the bases
// of branches must be kept.
func (o *oracle) collected(name string, k *table.Keep) {
	horizon, marks := k.Of('a').Horizon, k.Of(table.MarkFamily).Horizon
	for r, c := range o.commits {
		c.collected = c.collected || r <= max(horizon, marks)
	}
	if name != "data" {
		return
	}
	for _, d := range o.net.holders() {
		for _, s := range d.inUse() {
			switch {
			case s.refs.Load() <= 0: // closed in the meantime
			// Reads of a pinned snapshot report the loss themselves.
			case s.low < horizon && !s.pinned:
				o.breaks("I8: history goes up to %s and %s reads the state at %s", horizon, d.name, s.max)
			case s.low < marks && s.ordinal != 0 && o.misses(s, marks):
				o.breaks("I8: marks go up to %s and %s uses the state at %s", marks, d.name, s.low)
			}
		}
	}
	for s, c := range o.cells {
		if c.State == revision.Parked && c.Base < horizon && !slices.Contains(k.Pinned, c.Base) {
			o.breaks("I8: history goes up to %s without the base of a parked branch at %s", horizon, c.Base)
		}
		if inProgress(c) && c.State != revision.Parked && c.Base < max(horizon, marks) {
			o.breaks("I8: history goes up to %s, marks to %s, and the branch in slot %d began at %s", horizon, marks, s, c.Base)
		}
	}
	kept, err := o.log.Checkpoints(context.Background())
	if err != nil {
		o.breaks("I8: %v", err)
	}
	for _, c := range kept {
		if c.Revision < horizon && !slices.Contains(k.Pinned, c.Revision) {
			o.breaks("I8: history goes up to %s without the checkpoint at %s", horizon, c.Revision)
		}
	}
}

// misses reports whether a state lacks a commit up to r. The first state of a server that claimed a slot slowly may
// have a low-water mark below marks that were removed before, but it shows the commits of these marks.
func (o *oracle) misses(s *Snapshot, r table.Revision) bool {
	for _, c := range o.commits {
		if c.r <= r && c.state != journal.Aborted && !c.void && !s.Visible(c.r) {
			return true
		}
	}
	return false
}

// holders returns the servers that hold a slot and have not crashed.
func (n *net) holders() (nodes []*node) {
	for _, d := range n.nodes {
		for _, c := range n.oracle.cells {
			if c.Owner == d.name && c.Kind != revision.Branch && (c.State == revision.Open || c.State == revision.Recovering) && !d.crashed {
				nodes = append(nodes, d)
				break
			}
		}
	}
	return nodes
}

var _ table.Collector = simTable{}

func (t simTable) Collect(ctx context.Context, rows [][]byte, k *table.Keep) (sum table.Collected, err error) {
	var failed error
	err = t.send(ctx, collecting, slices.Concat(rows...), len(rows), func(part int) string {
		sum, failed = t.t.(table.Collector).Collect(context.Background(), rows[:part], k)
		horizon := k.Horizon
		for _, f := range k.Families {
			horizon = max(horizon, f.Horizon)
		}
		for _, row := range rows[:part] {
			at := t.name + "/" + string(row)
			t.node.net.collected[at] = max(t.node.net.collected[at], horizon)
		}
		t.node.net.oracle.collected(t.name, k)
		return strconv.FormatInt(sum.Cells, 10)
	})
	return sum, errors.Join(err, failed)
}

func (t simTable) Forget(ctx context.Context, rows [][]byte) (sum table.Collected, err error) {
	var failed error
	err = t.send(ctx, forgetting, rows[0], len(rows), func(part int) string {
		sum, failed = t.t.(table.Collector).Forget(context.Background(), rows[:part])
		return strconv.Itoa(part)
	})
	return sum, errors.Join(err, failed)
}

func (t simTable) Keys(ctx context.Context, r table.Range) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var keys [][]byte
		var failed error
		err := t.send(ctx, listingRows, nil, 3, func(part int) string {
			keys = nil
			for k, err := range t.t.(table.Collector).Keys(context.Background(), r) {
				if failed = err; err != nil || part < 3 && len(keys) == part {
					break
				}
				keys = append(keys, slices.Clone(k))
			}
			return strconv.Itoa(len(keys))
		})
		for _, k := range keys {
			if !yield(k, nil) {
				return
			}
		}
		if err = errors.Join(err, failed); err != nil {
			yield(nil, err)
		}
	}
}

// keptStep returns the step of a swap in the cluster table, in any row except the rows of
// the heads and of the clock.
func keptStep(row []byte) step {
	switch string(row) {
	case "checkpoints":
		return keepingMoment
	case "collected":
		return notingCollected
	}
	return archival
}

// isFloor reports whether a cell announces the horizon. That cell is in the heads row and
// belongs to no server.
func isFloor(t string, row, q []byte) bool {
	return t == journal.Cluster && string(row) == "heads" && string(q) == "\x00\x00"
}
