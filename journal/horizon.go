package journal

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/revision"
	"github.com/seed-4dac0d86/ldapd/table"
)

// horizonSlot is nobody's. Its cell stands in the row of heads so that one reading
// of that row has the horizon too, and what every server made of it.
const horizonSlot revision.Slot = 0

// RaiseHorizon announces that states below a horizon will no longer be read, unless a
// higher one has been announced.
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

// Honoured is the horizon below which no server reads any more, and none will: the
// least of what was announced and what each slot that has a holder, or is to be
// recovered from one, says.
func (h *Heads) Honoured() table.Revision {
	horizon := h.Horizon
	for _, c := range h.inUse() {
		horizon = min(horizon, c.Horizon)
	}
	return horizon
}

// Oldest is the low-water mark of the oldest snapshot, except those of the past,
// that any server has in use.
func (h *Heads) Oldest() table.Revision {
	oldest := h.Low()
	for _, c := range h.inUse() {
		oldest = min(oldest, c.Oldest)
	}
	return oldest
}

// inUse returns the cells of slots and branches whose snapshots count.
func (h *Heads) inUse() (cells []revision.Cell) {
	for _, s := range h.Slots() {
		switch c := h.Cell(s); c.State {
		case revision.Open, revision.Recovering, revision.Merging:
			cells = append(cells, c)
		}
	}
	return cells
}

// Forget removes records for good.
func (l *Log) Forget(ctx context.Context, recs []Record) error {
	var keys [][]byte
	for i := range recs {
		// The parts of a write list first: without the record they are passed
		// over.
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

// Collector returns a table that can let go of history.
func Collector(t table.Table, name string) (table.Collector, error) {
	c, ok := t.(table.Collector)
	if !ok {
		return nil, fmt.Errorf("table %s of this store keeps everything for ever", name)
	}
	return c, nil
}

// Collected is how far garbage was collected, for whoever goes on.
type Collected struct {
	// Pinned are the checkpoints that were kept. What only one of them kept
	// is found by looking at everything once it is gone.
	Pinned []table.Revision
	// Young is of each slot how far what has no history was collected.
	Young map[revision.Slot]table.Revision

	raw []byte
}

var (
	collectedRow    = []byte("collected")
	collectedColumn = []byte{'a'}
)

const collectedVersion = 1

// value encodes: the version, the count of pinned revisions, these, then slots and
// revisions.
func (c *Collected) value() []byte {
	b := []byte{collectedVersion}
	b = binary.AppendUvarint(b, uint64(len(c.Pinned)))
	for _, r := range c.Pinned {
		b = binary.BigEndian.AppendUint64(b, uint64(r))
	}
	for _, r := range c.Young { // each says its slot
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

// NoteCollected writes it back. If another server did so since it was read, that
// stands: what it leaves out is collected again.
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
