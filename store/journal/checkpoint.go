package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Checkpoint keeps a state: the state at its revision stays readable until the
// checkpoint is deleted, even if the state is older than the retention.
type Checkpoint struct {
	Name     string
	Revision table.Revision
	Made     time.Time
	// token is not zero while the checkpoint is being made. Only the server that makes
	// the checkpoint knows whether the state was kept until the checkpoint was recorded.
	// If the state was kept, that server confirms the checkpoint.
	token uint64
}

const (
	checkpointVersion = 1
	pendingVersion    = 2 // for a pending checkpoint; the value ends with the token
)

// dropped is the first byte of the value that replaces a deleted checkpoint. The checkpoint's
// revision and the time of the deletion follow. Because the column still exists after the
// deletion, a delayed copy of the write that created the checkpoint cannot create the
// checkpoint again.
const dropped = 0

// dropsKept is the minimum time for which the value of a deleted checkpoint is kept, unless a
// new checkpoint of that name replaces it. No write can reach the store with a longer delay.
const dropsKept = 24 * time.Hour

func (c *Checkpoint) value() []byte {
	b := []byte{checkpointVersion}
	if c.token != 0 {
		b[0] = pendingVersion
	}
	b = binary.BigEndian.AppendUint64(b, uint64(c.Revision))
	b = binary.BigEndian.AppendUint64(b, uint64(c.Made.UnixNano()))
	if c.token != 0 {
		b = binary.BigEndian.AppendUint64(b, c.token)
	}
	return b
}

func decodeCheckpoint(name, b []byte) (Checkpoint, error) {
	sizes := map[byte]int{checkpointVersion: 1 + 8 + 8, pendingVersion: 1 + 8 + 8 + 8}
	switch {
	case len(b) > 0 && b[0] > pendingVersion:
		return Checkpoint{}, fmt.Errorf("checkpoint %q has version %d: %w", name, b[0], table.ErrNewer)
	case len(b) == 0 || len(b) != sizes[b[0]]:
		return Checkpoint{}, fmt.Errorf("checkpoint %q: %w", name, table.ErrCorrupt)
	}
	c := Checkpoint{
		Name:     string(name),
		Revision: table.Revision(binary.BigEndian.Uint64(b[1:])),
		Made:     time.Unix(0, int64(binary.BigEndian.Uint64(b[9:]))).UTC(),
	}
	if b[0] == pendingVersion {
		c.token = binary.BigEndian.Uint64(b[17:])
	}
	return c, nil
}

// IsPending reports whether the checkpoint is being made, or was left unfinished. Such a
// checkpoint keeps its state, but must not be read.
func (c *Checkpoint) IsPending() bool { return c.token != 0 }

// Checkpoints returns all finished checkpoints, sorted by name.
func (l *Log) Checkpoints(ctx context.Context) ([]Checkpoint, error) {
	all, err := l.AllCheckpoints(ctx)
	return slices.DeleteFunc(all, func(c Checkpoint) bool { return c.IsPending() }), err
}

// AllCheckpoints returns all checkpoints, including pending ones, sorted by name.
func (l *Log) AllCheckpoints(ctx context.Context) ([]Checkpoint, error) {
	row, err := l.cluster.Get(ctx, checkpointsRow, table.Select{})
	if err != nil {
		return nil, fmt.Errorf("reading the checkpoints: %w", err)
	}
	all := make([]Checkpoint, 0, len(row.Cells))
	for _, x := range row.Cells {
		if _, gone := droppedAt(x.Value); gone {
			continue
		}
		c, err := decodeCheckpoint(x.Qualifier, x.Value)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// FindCheckpoint returns the checkpoint with the given name, or nil if there is none.
func (l *Log) FindCheckpoint(ctx context.Context, name string) (*Checkpoint, error) {
	all, err := l.Checkpoints(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Name == name {
			return &all[i], nil
		}
	}
	return nil, nil
}

// droppedAt reports whether b is the value of a deleted checkpoint, and returns the time
// of the deletion.
func droppedAt(b []byte) (time.Time, bool) {
	if len(b) != 1+8+8 || b[0] != dropped {
		return time.Time{}, false
	}
	return time.Unix(0, int64(binary.BigEndian.Uint64(b[9:]))), true
}

// BeginCheckpoint records a checkpoint that is being made. It returns false if there is already
// a finished checkpoint of the same name, or if another server wrote a checkpoint of that name
// at the same time. The record replaces an unfinished or deleted checkpoint of the same name.
// The token must be unique. The caller must keep the state at the checkpoint until
// ConfirmCheckpoint has returned: the record may reach the store late, and a record that is not
// confirmed may be dropped.
func (l *Log) BeginCheckpoint(ctx context.Context, c *Checkpoint, token uint64) (bool, error) {
	fail := func(err error) (bool, error) {
		return false, fmt.Errorf("checkpoint %q at %s: %w", c.Name, c.Revision, err)
	}
	c.token = max(token, 1)
	row, err := l.cluster.Get(ctx, checkpointsRow, table.Select{})
	if err != nil {
		return fail(err)
	}
	var old []byte
	cells := []table.Cell{{Family: clusterFamily, Qualifier: []byte(c.Name), Value: c.value()}}
	for _, x := range row.Cells {
		at, gone := droppedAt(x.Value)
		switch {
		case string(x.Qualifier) == c.Name && !gone && x.Value[0] != pendingVersion:
			return false, nil
		case string(x.Qualifier) == c.Name:
			old = bytes.Clone(x.Value)
		case gone && c.Made.Sub(at) > dropsKept:
			cells = append(cells, table.Cell{Family: clusterFamily, Qualifier: bytes.Clone(x.Qualifier), Tombstone: true})
		}
	}
	done, _, err := swap(ctx, l.cluster, checkpointsRow, clusterFamily, []byte(c.Name), old, cells)
	if err != nil {
		return fail(err)
	}
	return done, nil
}

// ConfirmCheckpoint finishes a checkpoint that BeginCheckpoint recorded. It returns false
// if another server dropped or replaced the record.
func (l *Log) ConfirmCheckpoint(ctx context.Context, c *Checkpoint) (bool, error) {
	made := *c
	made.token = 0
	done, _, err := swap(ctx, l.cluster, checkpointsRow, clusterFamily, []byte(c.Name), c.value(),
		[]table.Cell{{Family: clusterFamily, Qualifier: []byte(c.Name), Value: made.value()}})
	if err != nil {
		return false, fmt.Errorf("checkpoint %q at %s: %w", c.Name, c.Revision, err)
	}
	if done {
		*c = made
	}
	return done, nil
}

// DropCheckpoint deletes a checkpoint. It returns false if the stored checkpoint differs
// from c or no longer exists.
func (l *Log) DropCheckpoint(ctx context.Context, c Checkpoint, now time.Time) (bool, error) {
	b := binary.BigEndian.AppendUint64([]byte{dropped}, uint64(c.Revision))
	b = binary.BigEndian.AppendUint64(b, uint64(now.UnixNano()))
	done, _, err := swap(ctx, l.cluster, checkpointsRow, clusterFamily, []byte(c.Name), c.value(),
		[]table.Cell{{Family: clusterFamily, Qualifier: []byte(c.Name), Value: b}})
	if err != nil {
		return false, fmt.Errorf("deleting checkpoint %q: %w", c.Name, err)
	}
	return done, nil
}
