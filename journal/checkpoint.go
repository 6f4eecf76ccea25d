package journal

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/seed-4dac0d86/ldapd/revision"
	"github.com/seed-4dac0d86/ldapd/table"
)

// A Checkpoint keeps a moment: the state at its revision can be read until it is
// deleted, however old it gets.
type Checkpoint struct {
	Name     string
	Revision table.Revision
	Made     time.Time
}

const checkpointVersion = 1

func (c *Checkpoint) value() []byte {
	b := []byte{checkpointVersion}
	b = binary.BigEndian.AppendUint64(b, uint64(c.Revision))
	return binary.BigEndian.AppendUint64(b, uint64(c.Made.UnixNano()))
}

func decodeCheckpoint(name, b []byte) (Checkpoint, error) {
	switch {
	case len(b) > 0 && b[0] > checkpointVersion:
		return Checkpoint{}, fmt.Errorf("checkpoint %q has version %d: %w", name, b[0], table.ErrNewer)
	case len(b) != 1+8+8 || b[0] != checkpointVersion:
		return Checkpoint{}, fmt.Errorf("checkpoint %q: %w", name, table.ErrCorrupt)
	}
	return Checkpoint{
		Name:     string(name),
		Revision: table.Revision(binary.BigEndian.Uint64(b[1:])),
		Made:     time.Unix(0, int64(binary.BigEndian.Uint64(b[9:]))).UTC(),
	}, nil
}

// Checkpoints lists all checkpoints, by name.
func (l *Log) Checkpoints(ctx context.Context) ([]Checkpoint, error) {
	row, err := l.cluster.Get(ctx, checkpointsRow, table.Select{})
	if err != nil {
		return nil, fmt.Errorf("reading the checkpoints: %w", err)
	}
	all := make([]Checkpoint, 0, len(row.Cells))
	for _, x := range row.Cells {
		c, err := decodeCheckpoint(x.Qualifier, x.Value)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// AddCheckpoint notes a checkpoint; false: there is another one of its name.
func (l *Log) AddCheckpoint(ctx context.Context, c Checkpoint) (bool, error) {
	done, _, err := swap(ctx, l.cluster, checkpointsRow, clusterFamily, []byte(c.Name), nil,
		[]table.Cell{{Family: clusterFamily, Qualifier: []byte(c.Name), Value: c.value()}})
	if err != nil {
		return false, fmt.Errorf("checkpoint %q at %s: %w", c.Name, revision.String(c.Revision), err)
	}
	return done, nil
}

// DropCheckpoint takes one away as it was read; false: it is another one now, or
// none.
func (l *Log) DropCheckpoint(ctx context.Context, c Checkpoint) (bool, error) {
	done, _, err := swap(ctx, l.cluster, checkpointsRow, clusterFamily, []byte(c.Name), c.value(),
		[]table.Cell{{Family: clusterFamily, Qualifier: []byte(c.Name), Tombstone: true}})
	if err != nil {
		return false, fmt.Errorf("deleting checkpoint %q: %w", c.Name, err)
	}
	return done, nil
}
