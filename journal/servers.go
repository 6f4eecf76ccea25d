package journal

import (
	"bytes"
	"context"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/table"
)

// serversRow has a column for each server, by its owner's name, with what it says of
// itself. It is no part of the protocol.
var serversRow = []byte("servers")

// Servers returns what servers say of themselves, by owner.
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

// SetServer writes what a server says of itself; nil removes it. Only that server does,
// or whoever finds it gone.
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
