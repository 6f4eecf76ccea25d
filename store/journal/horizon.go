package journal

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// horizonSlot belongs to no server. Its cell is in the row of heads, so that one reading
// of that row returns both the announced horizon and the horizon that each server
// honours.
const horizonSlot revision.Slot = 0

// RaiseHorizon announces that states below a horizon will no longer be read, unless they are
// pinned. It does nothing if a horizon at least as high has been announced.
func (l *Log) RaiseHorizon(ctx context.Context, horizon table.Revision) error {
	for {
		h, err := l.Heads(ctx)
		if err != nil || h.Horizon >= horizon {
			return err
		}
		var c revision.Cell
		if old := h.Raw(horizonSlot); old != nil {
			if c, err = revision.DecodeCell(old); err != nil {
				return err
			}
		}
		c.Horizon = horizon
		c.Sequence++
		done, _, err := l.SwapHead(ctx, horizonSlot, h.Raw(horizonSlot), c.Append(nil))
		if err != nil || done {
			return err
		}
	}
}

// Honoured returns a horizon. No server reads states below it now or later, except pinned
// states. It is the minimum of the announced horizon and of the horizons in all cells that
// inUse returns.
func (h *Heads) Honoured() table.Revision {
	horizon := h.Horizon
	for _, c := range h.inUse() {
		horizon = min(horizon, c.Horizon) //rule:horizon-honoured
	}
	return horizon
}

// Oldest returns the low-water mark of the oldest snapshot in use on any server. If the base of
// a branch in use is older, Oldest returns that base. Snapshots of the past do not count.
func (h *Heads) Oldest() table.Revision {
	oldest := h.Low()
	for _, c := range h.inUse() {
		oldest = min(oldest, c.Oldest) //rule:marks-unread
	}
	return oldest
}

// OldestOfServers is like Oldest, but it does not count the states at which branches
// began. The result is below every revision that is reserved in a branch. Cells of such
// a revision may still arrive, and a delete marker above the revision would hide them.
func (h *Heads) OldestOfServers() table.Revision {
	low := h.Low()
	for _, c := range h.inUse() {
		switch {
		case c.Kind == revision.Server:
			low = min(low, c.Oldest)
		case len(c.Undecided) > 0:
			low = min(low, c.Undecided[0]-1)
		}
	}
	return low
}

// Passed reports whether every state in use shows the merge m. The bases of branches are states
// in use, except the bases of merged, parked and discarded branches. Snapshots of the past do
// not count.
func (h *Heads) Passed(m table.Revision) bool {
	for _, c := range h.inUse() {
		if c.State != revision.Merged && c.Oldest < m {
			return false
		}
	}
	return h.Low() >= m
}

// inUse returns the cells of slots and branches whose snapshots may be in use. The state at
// which a branch began stays in use until the branch is parked or discarded. After a merge it
// stays in use until the branch's cell is archived, because the marks and the history after
// that state are collected together.
func (h *Heads) inUse() (cells []revision.Cell) {
	for _, s := range h.Slots() {
		switch c := h.Cell(s); c.State {
		case revision.Open, revision.Recovering, revision.Frozen, revision.Merging, revision.Merged:
			cells = append(cells, c) //rule:branch-base
		}
	}
	return cells
}

// Forget removes records permanently.
func (l *Log) Forget(ctx context.Context, recs []Record) error {
	var keys [][]byte
	for i := range recs {
		// The chunks of the write list are removed before their record. Chunks without a
		// record would never be removed, because readers ignore them.
		for _, n := range recs[i].chunks {
			keys = append(keys, chunkKey(recs[i].Revision, n))
		}
		keys = append(keys, Key(recs[i].Revision))
	}
	t, err := Collector(l.journal, Table)
	if err == nil {
		_, err = t.Forget(ctx, keys)
	}
	if err != nil {
		return fmt.Errorf("forgetting %d commits: %w", len(recs), err)
	}
	return nil
}

// Collector returns t as a table.Collector, which can remove history.
func Collector(t table.Table, name string) (table.Collector, error) {
	c, ok := t.(table.Collector)
	if !ok {
		return nil, fmt.Errorf("table %s of this store keeps everything without a limit", name)
	}
	return c, nil
}

// Collected records how far garbage was collected, so that the next collection can
// continue from there.
type Collected struct {
	// Pinned lists the revisions of the checkpoints, and of the bases of parked branches, that the
	// collection kept. When a revision is no longer pinned, a later collection must examine all
	// rows to find the versions that only this revision kept.
	Pinned []table.Revision
	// Young contains, for each slot, the revision up to which families without history
	// were collected.
	Young map[revision.Slot]table.Revision

	raw []byte
}

var (
	collectedRow    = []byte("collected")
	collectedColumn = []byte{'a'}
)

const collectedVersion = 1

// value encodes the version, the number of pinned revisions, the pinned revisions, and
// the revisions of Young.
func (c *Collected) value() []byte {
	b := []byte{collectedVersion}
	b = binary.AppendUvarint(b, uint64(len(c.Pinned)))
	for _, r := range c.Pinned {
		b = binary.BigEndian.AppendUint64(b, uint64(r))
	}
	for _, r := range c.Young { // each revision contains its slot
		b = binary.BigEndian.AppendUint64(b, uint64(r))
	}
	return b
}

func (c *Collected) decode(b []byte) error {
	bad := fmt.Errorf("what was collected: %w", table.ErrCorrupt)
	if len(b) == 0 {
		return nil
	}
	if b[0] != collectedVersion {
		return fmt.Errorf("what was collected has version %d: %w", b[0], table.ErrNewer)
	}
	n, k := binary.Uvarint(b[1:])
	if k <= 0 {
		return bad
	}
	b = b[1+k:]
	if len(b)%8 != 0 || n > uint64(len(b)/8) {
		return bad
	}
	for i := 0; len(b) > 0; i, b = i+1, b[8:] {
		r := table.Revision(binary.BigEndian.Uint64(b))
		if uint64(i) < n {
			c.Pinned = append(c.Pinned, r)
			continue
		}
		c.Young[revision.SlotOf(r)] = r
	}
	return nil
}

// Collected reads how far garbage was collected.
func (l *Log) Collected(ctx context.Context) (*Collected, error) {
	raw, err := read(ctx, l.cluster, collectedRow, clusterFamily, collectedColumn)
	if err != nil {
		return nil, fmt.Errorf("reading what was collected: %w", err)
	}
	c := &Collected{Young: map[revision.Slot]table.Revision{}, raw: raw}
	return c, c.decode(raw)
}

// CollectEverything makes the next collection examine all rows, as if a revision that was pinned no longer were.
func (l *Log) CollectEverything(ctx context.Context) error {
	c, err := l.Collected(ctx)
	if err != nil {
		return err
	}
	c.Pinned = append(c.Pinned, 1)
	return l.NoteCollected(ctx, c)
}

// NoteCollected writes c. If another server has written its own value since c was read,
// the value of the other server stays. Garbage that only c records as collected is then
// collected a second time.
func (l *Log) NoteCollected(ctx context.Context, c *Collected) error {
	value := c.value()
	done, _, err := swap(ctx, l.cluster, collectedRow, clusterFamily, collectedColumn, c.raw,
		[]table.Cell{{Family: clusterFamily, Qualifier: collectedColumn, Value: value}})
	if err != nil {
		return fmt.Errorf("noting what was collected: %w", err)
	}
	if done {
		c.raw = value
	}
	return nil
}
