package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/wallclock"
	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/directory/access"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/hbase"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// openStore opens the configured store: a folder or an HBase cluster. cache is the size
// in bytes of a folder's block cache; zero means a small one.
func openStore(ctx context.Context, c *config.Config, log *slog.Logger, use openMode, cache int64) (table.Store, error) {
	if c.Store == "" {
		return nil, errNoStoreNamed
	}
	if strings.HasPrefix(c.Store, "hbase:") {
		return openHBase(ctx, c, log, c.Origin("store"), c.Store)
	}
	o := lsm.Options{
		Path: c.Store, Cache: cache, ReadOnly: use == openReadOnly, Follow: use == openStandby,
		KeepLogs: c.Archive.Place != nil && use != openStandby,
		Logf: func(format string, args ...any) {
			log.Warn(fmt.Sprintf(format, args...), "store", c.Store)
		},
	}
	if use.serves() {
		o.Reserve = lsm.DefaultReserve
	}
	return lsm.Open(o)
}

// openHBase opens a store in HBase. The parameter "where" is the name of the option that has
// the URL.
func openHBase(ctx context.Context, c *config.Config, log *slog.Logger, where, url string) (*hbase.Store, error) {
	if _, err := hbase.Parse(url); err != nil {
		return nil, &config.Error{Where: where, Text: err.Error()}
	}
	return hbase.Open(ctx, url, hbase.Options{Log: log, Compact: c.Compaction})
}

var errNoStoreNamed = &config.Error{Text: "no store given: say --store FOLDER or --store hbase://ZK1,ZK2:2181/PREFIX"}

// directoryStore is an open store with its partition.
type directoryStore struct {
	*partition.Partition
	store table.Store
	guard *wallclock.Guard
}

// purpose says what a store is opened for.
type openMode int

const (
	openReadOnly  openMode = iota // only to read
	openReadWrite                 // to write, if a directory exists
	openServe                     // like changing, with large caches
	openStandby                   // to read what a standby applies, with the caches of serving
	openLoad                      // to write; a directory is created if none exists
	openInit                      // like filling, with the caches of serving
)

// creates reports whether a directory is created if none exists.
func (u openMode) creates() bool { return u >= openLoad }

// serves reports whether a server will use the store.
func (u openMode) serves() bool { return u == openServe || u == openInit || u == openStandby }

// openPartition opens the configured store and its partition.
func openPartition(ctx context.Context, c *config.Config, log *slog.Logger, use openMode, change ...func(*txn.Options)) (*directoryStore, error) {
	made, err := storeThere(c, use)
	if err != nil {
		return nil, err
	}
	sch := schema.Core().WithOptions(c.AttributeOptions...)
	rules, err := firstRules(c, sch, made, use)
	if err != nil {
		return nil, err
	}
	guard, err := readGuard(c, log, use)
	if err != nil {
		return nil, err
	}
	entries, blocks := caches(c, use)
	s, err := openStore(ctx, c, log, use, blocks)
	if err != nil {
		return nil, err
	}
	transactions := txn.Options{
		ReadOnly: use == openReadOnly, Follow: use == openStandby, Lease: c.Lease, Drift: c.Drift, Log: log,
		Collect: use.serves() && use != openStandby, Retention: c.Retention, BranchAge: c.BranchAge,
		InFlight: c.Test.InFlight, Now: clock(c), Doubt: guard.Doubt,
	}
	for _, f := range change {
		f(&transactions)
	}
	p, err := partition.Open(ctx, s, partition.Options{
		Schema:     sch,
		Cache:      entries,
		Create:     use.creates(),
		References: catalog.DefaultReferences(),
		Access:     rules,
		Policy:     firstPolicy(c),
		Txn:        transactions,
		Log:        log,
	})
	if errors.Is(err, partition.ErrNoDirectory) {
		err = fmt.Errorf("%w: %w", err, errNoStore)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	if !made {
		log.Info("made a new store", "store", c.Store, "access", c.Profile, "password-policy", c.Policy)
	}
	guard.Start(newest(p))
	return &directoryStore{p, s, guard}, nil
}

// firstRules returns the access rules for a store that is about to be made. A store that
// exists keeps its rules.
func firstRules(c *config.Config, sch *schema.Schema, made bool, use openMode) ([]partition.AccessRule, error) {
	if !use.creates() {
		return nil, nil
	}
	if c.Profile == "services" && len(c.Suffix) == 0 && !made {
		return nil, &config.Error{Where: c.Origin("access"), Text: "the profile services is for accounts below ou=services of naming contexts: give them with --suffix"}
	}
	return access.Profile(c.Profile, sch, c.Suffix)
}

// firstPolicy returns the default password policy for a store that is about to be made. A
// store that exists keeps its policy.
func firstPolicy(c *config.Config) []catalog.PolicyAttribute {
	if c.Policy == "none" {
		return nil
	}
	return directory.RecommendedPolicy()
}

// storeThere reports whether a store exists. It returns an error if the folder contains other
// files, or if no store exists and the purpose does not create one. It does not check whether
// a store on HBase exists, and returns true.
func storeThere(c *config.Config, use openMode) (bool, error) {
	if c.Store == "" || strings.HasPrefix(c.Store, "hbase:") {
		return true, nil // openPartition finds out whether there is a store
	}
	is, err := lsm.Exists(c.Store)
	if err == nil && !is && !use.creates() {
		err = fmt.Errorf("%s: %w", c.Store, errNoStore)
	}
	return is, err
}

var errNoStore = errors.New("no store there: 'ldapd import' makes one, and so does 'ldapd serve --create'")

// caches divides the configured size between the cache of entries and an embedded
// store's block cache, which caches all other data. If no server will use the store, the block
// cache has its small default size.
func caches(c *config.Config, use openMode) (entries, blocks int64) {
	size := c.Cache
	if size == 0 {
		size = partition.DefaultCache()
	}
	switch {
	case !use.serves():
		return min(size, 64<<20), 0
	case strings.HasPrefix(c.Store, "hbase:"):
		return size, 0
	}
	return size / 5 * 4, size / 5
}

// Close closes the partition and its store.
func (d *directoryStore) Close(ctx context.Context) error {
	d.guard.Close()
	err := d.Partition.Close(ctx)
	if e := d.store.Close(); err == nil {
		err = e
	}
	return err
}
