package journal

import (
	"bytes"
	"context"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// serversRow is the row with one column for each server. The qualifier is the server's name,
// as in Cell.Owner, and the value is the server's description of itself. The row is not part
// of the protocol.
var serversRow = []byte("servers")

// Servers returns the servers' descriptions of themselves. The key is the server's name.
func (l *Log) Servers(ctx context.Context) (map[string][]byte, error) {
	row, err := l.cluster.Get(ctx, serversRow, table.Select{})
	if err != nil {
		return nil, fmt.Errorf("reading the servers: %w", err)
	}
	all := make(map[string][]byte, len(row.Cells))
	for _, x := range row.Cells {
		all[string(x.Qualifier)] = bytes.Clone(x.Value)
	}
	return all, nil
}

// SetServer writes the description of the server named owner. A nil text removes the
// description.
func (l *Log) SetServer(ctx context.Context, owner string, text []byte) error {
	all, err := l.Servers(ctx)
	if err != nil {
		return err
	}
	old := all[owner]
	if old == nil && text == nil {
		return nil
	}
	c := table.Cell{Family: clusterFamily, Qualifier: []byte(owner), Value: text, Tombstone: text == nil}
	if _, _, err := swap(ctx, l.cluster, serversRow, clusterFamily, []byte(owner), old, []table.Cell{c}); err != nil {
		return fmt.Errorf("writing down server %s: %w", owner, err)
	}
	return nil
}
