package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/wallclock"
	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/directory/access"
	_ "github.com/seed-4dac0d86/ldapd/directory/account/strength"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/hbase"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// OpenStore opens the configured store: a folder or an HBase cluster. cache is the size
// in bytes of a folder's block cache; zero means a small one.
func OpenStore(ctx context.Context, c *config.Config, log *slog.Logger, use Mode, cache int64) (table.Store, error) {
	if c.Store == "" {
		return nil, ErrNoStoreNamed
	}
	if hbase.IsURL(c.Store) {
		return OpenHBase(ctx, c, log, c.Origin("store"), c.Store)
	}
	o := lsm.Options{
		Path: c.Store, Cache: cache, ReadOnly: use == ReadOnly, Follow: use == Standby,
		KeepLogs: c.Archive.Place != nil && use != Standby,
		Logf: func(format string, args ...any) {
			log.Warn(fmt.Sprintf(format, args...), "store", c.Store)
		},
	}
	if use.serves() {
		o.Reserve = lsm.DefaultReserve
	}
	return lsm.Open(o)
}

// OpenHBase opens a store in HBase. The parameter "where" is the name of the option that has
// the URL.
func OpenHBase(ctx context.Context, c *config.Config, log *slog.Logger, where, url string) (*hbase.Store, error) {
	if _, err := hbase.Parse(url); err != nil {
		return nil, &config.Error{Where: where, Text: err.Error()}
	}
	o := hbase.Options{Log: log, Compact: c.Compaction, Kerberos: c.HBase.Kerberos, TLSZooKeeper: c.HBase.TLS.ZooKeeper, KerberosZooKeeper: c.HBase.KerberosZooKeeper}
	if c.HBase.TLS.CA != "" {
		var err error
		if o.TLS, err = hbaseTLS(&c.HBase.TLS); err != nil {
			return nil, err
		}
	}
	var err error
	if o.Seal, err = ReadSeal(c); err != nil {
		return nil, err
	}
	return hbase.Open(ctx, url, o)
}

// ReadSeal reads the keys that seal secrets in HBase. If none are configured, it returns nil.
func ReadSeal(c *config.Config) (s *hbase.Seal, err error) {
	if c.Seal == "" {
		return nil, nil
	}
	f, err := os.Open(c.Seal)
	if err == nil {
		defer f.Close()
		s, err = hbase.ReadSeal(f, write.IsSecret)
	}
	if err != nil {
		err = &config.Error{Where: c.Origin("secrets.seal"), Text: fmt.Sprintf("secrets.seal: %s: %v", c.Seal, err)}
	}
	return s, err
}

// ErrNoStoreNamed is the error if the configuration names no store.
var ErrNoStoreNamed = &config.Error{Text: "no store given: say --store FOLDER or --store " + hbase.Form}

// Store is an open store with its partition.
type Store struct {
	*partition.Partition
	Tables table.Store
	guard  *wallclock.Guard
}

// A Mode says what a store is opened for.
type Mode int

// The modes.
const (
	ReadOnly  Mode = iota // only to read
	ReadWrite             // to write, if a directory exists
	Serve                 // as ReadWrite, with large caches
	Standby               // to read what a standby applies, with the caches of serving
	Load                  // to write; a directory is created if none exists
	Init                  // as Load, with the caches of serving
)

// creates reports whether a directory is created if none exists.
func (u Mode) creates() bool { return u >= Load }

// serves reports whether a server will use the store.
func (u Mode) serves() bool { return u == Serve || u == Init || u == Standby }

// Open opens the configured store and its partition.
func Open(ctx context.Context, c *config.Config, log *slog.Logger, use Mode, change ...func(*txn.Options)) (*Store, error) {
	made, err := StoreThere(c, use)
	if err != nil {
		return nil, err
	}
	sch := schema.Core().WithOptions(c.AttributeOptions...)
	rules, err := firstRules(c, sch, made, use)
	if err != nil {
		return nil, err
	}
	guard, err := ReadGuard(c, log, use)
	if err != nil {
		return nil, err
	}
	entries, blocks := Caches(c, use)
	s, err := OpenStore(ctx, c, log, use, blocks)
	if err != nil {
		return nil, err
	}
	transactions := txn.Options{
		ReadOnly: use == ReadOnly, Follow: use == Standby, Lease: c.Lease, Drift: c.Drift, Log: log,
		Collect: use.serves() && use != Standby, Retention: c.Retention, BranchAge: c.BranchAge,
		InFlight: c.Test.InFlight, Now: Clock(c), Doubt: guard.Doubt,
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
	return &Store{p, s, guard}, nil
}

// firstRules returns the access rules for a store that is about to be made. A store that
// exists keeps its rules.
func firstRules(c *config.Config, sch *schema.Schema, made bool, use Mode) ([]partition.AccessRule, error) {
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

// StoreThere reports whether a store exists. It returns an error if the folder contains other
// files, or if no store exists and the purpose does not create one. It does not check whether
// a store on HBase exists, and returns true.
func StoreThere(c *config.Config, use Mode) (bool, error) {
	if c.Store == "" || hbase.IsURL(c.Store) {
		return true, nil // Open finds out whether there is a store
	}
	is, err := lsm.Exists(c.Store)
	if err == nil && !is && !use.creates() {
		err = fmt.Errorf("%s: %w", c.Store, errNoStore)
	}
	return is, err
}

var errNoStore = errors.New("no store there: 'ldapd import' makes one, and so does 'ldapd serve --create'")

// Caches divides the configured size between the cache of entries and an embedded
// store's block cache, which caches all other data. If no server will use the store, the block
// cache has its small default size.
func Caches(c *config.Config, use Mode) (entries, blocks int64) {
	size := c.Cache
	if size == 0 {
		size = partition.DefaultCache()
	}
	switch {
	case !use.serves():
		return min(size, 64<<20), 0
	case hbase.IsURL(c.Store):
		return size, 0
	}
	return size / 10 * 9, size / 10
}

// Close closes the partition and its store.
func (d *Store) Close(ctx context.Context) error {
	d.guard.Close()
	err := d.Partition.Close(ctx)
	if e := d.Tables.Close(); err == nil {
		err = e
	}
	return err
}
