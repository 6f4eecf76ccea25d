package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/seed-4dac0d86/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/table/hbase"
	"github.com/seed-4dac0d86/ldapd/table/lsm"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// openStore opens what the key store names: a folder or a cluster.
func openStore(ctx context.Context, c *config.Config, log *slog.Logger) (table.Store, error) {
	if c.Store == "" {
		return nil, &config.Error{Text: "no store given: say --store FOLDER or --store hbase://ZK1,ZK2:2181/PREFIX"}
	}
	if strings.HasPrefix(c.Store, "hbase:") {
		if _, err := hbase.Parse(c.Store); err != nil {
			return nil, &config.Error{Where: c.Origin("store"), Text: err.Error()}
		}
		return hbase.Open(ctx, c.Store, hbase.Options{Log: log})
	}
	return lsm.Open(lsm.Options{Path: c.Store, Logf: func(format string, args ...any) {
		log.Warn(fmt.Sprintf(format, args...), "store", c.Store)
	}})
}

// directoryStore is an open store with the partition in it.
type directoryStore struct {
	*partition.Partition
	store table.Store
}

// openPartition opens the directory in a store: for serving it, made new where
// there is none, or only to read.
func openPartition(ctx context.Context, c *config.Config, log *slog.Logger, serve bool) (*directoryStore, error) {
	s, err := openStore(ctx, c, log)
	if err != nil {
		return nil, err
	}
	p, err := partition.Open(ctx, s, partition.Options{
		Cache:  c.Cache,
		Create: serve,
		Txn:    txn.Options{ReadOnly: !serve, Lease: c.Lease, Log: log},
		Log:    log,
	})
	if err != nil {
		s.Close()
		return nil, err
	}
	return &directoryStore{p, s}, nil
}

// Close closes the partition and its store.
func (d *directoryStore) Close(ctx context.Context) error {
	err := d.Partition.Close(ctx)
	if e := d.store.Close(); err == nil {
		err = e
	}
	return err
}
