// Package hbase is the table engine for many servers. It implements [table.Store] on an
// HBase cluster, which it accesses with gohbase. A store has a URL,
//
//	hbase://ZK1,ZK2:2181/PREFIX[?zkroot=/hbase&user=ldapd]
//	hbase+rpc://HOST1,HOST2:16020/PREFIX[?user=ldapd]
//
// which names servers of ZooKeeper, or masters and region servers with HBase's RPC connection registry, and
// each table of the store is the HBase table PREFIX_name.
//
// # On disk
//
// A revision is the timestamp of the cells that it wrote. Versioned tables keep every version
// (VERSIONS 2147483647). A cell's value begins with one byte: 1 for a value and 0 for a
// tombstone. HBase's own delete markers also hide older versions from readers of older states.
// Therefore, versioned tables get them only from rollback ([Table.Erase], [Store.CutAfter]),
// garbage collection ([Table.Collect]) and redaction ([Table.Redact]).
//
// The qualifier 00 is reserved. In every family of a versioned table, the column with
// this qualifier contains the row tombstones of [table.Mutation].DeleteRow, so that a
// read of any family finds them without reading another family. A qualifier that is empty
// or begins with 00 is stored with the prefix 00 01, which preserves the order.
//
// Unversioned tables have VERSIONS 1, and their timestamps are set by the region servers
// (milliseconds since 1970). Readers receive this timestamp as the cell's Revision. A
// deleted column of an unversioned table also contains a tombstone. A delete marker would
// mask a write in the same millisecond, or a write by a region server with a slower
// clock, even though that write reported success.
//
// # Reading
//
// A read at a view requests one version of each column, with a timestamp in [0, Max]. If the
// view does not show the timestamp of a returned cell, the row is read again with more
// versions.
//
// A scan consists of pages, each of which is one call. The first page of a scan without a filter has a
// scanner of its own, because most scans end with it. All further pages of a region share one scanner.
// The calls of a scanner are numbered, so a call that gohbase sends twice cannot skip rows. If the
// scanner is lost, because its region moved or was split, or because the caller took more than a
// minute for a page, the next one begins behind the last whole row.
//
// A filter of a Select is sent to the server as conditions on keys and qualifiers, which are the same
// in all versions of a column. Pages then return only the columns that the filter tests. The rows that
// these do not exclude are read by their keys, one batch a page (see push).
//
// # Failing
//
// Every call has a deadline (see [Options].Timeout), even if its context has a later one.
// Errors that may be temporary are [table.ErrUnavailable]. gohbase doubles its pauses between
// attempts while a cluster does not answer. So when calls have timed out, or have not been answered until a deadline of
// their caller whose cause is table.ErrUnavailable, the store probes the
// cluster itself, and continues with a fresh client as soon as the cluster answers.
package hbase

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/hbase/internal/krb"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Options are the options of a Store. The zero Options are valid.
type Options struct {
	// Timeout bounds the time of every call. It also bounds the time for which Open waits for a
	// cluster that does not answer. The default is 10 s. Calls of the master may take six times
	// as long, and calls that flush or compact regions twelve times.
	Timeout time.Duration
	// Compact is the minimum time between two major compactions of a table by Reclaim. If
	// it is zero, Reclaim compacts only if it is called with now = true.
	Compact time.Duration
	// TLS returns the configuration of a connection to a server of HBase, which may lack the server's name. It is
	// called for each connection. If it is nil, connections have no TLS.
	TLS func() (*tls.Config, error)
	// TLSZooKeeper says that connections to ZooKeeper have this TLS too.
	TLSZooKeeper bool
	// Kerberos authenticates this side and HBase to each other. If it is nil, the user of the URL is a claim.
	Kerberos *Kerberos
	// KerberosZooKeeper is the principal of ZooKeeper's servers, such as zookeeper/_HOST. If it is empty, there is no Kerberos
	// to ZooKeeper.
	KerberosZooKeeper string
	// Seal encrypts the values of some cells. If it is nil, none is sealed, and sealed ones cannot be read.
	Seal *Seal
	// Log receives a message when the cluster stops answering and when it answers again.
	// At debug level it also receives gohbase's own messages. A nil Log disables all
	// messages.
	Log *slog.Logger
}

// Kerberos has the settings of Kerberos.
type Kerberos = krb.Options

func (o Options) withDefaults() Options {
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// A Store is an open set of tables on a cluster.
type Store struct {
	target  Target
	conn    *conn
	compact time.Duration
	seal    *Seal
	garbage garbage

	mu     sync.Mutex
	tables map[string]*shape // shapes of the tables created or looked up so far
	cuts   map[string]cuts   // where regions of tables begin
}

var _ table.Store = (*Store)(nil)

// Open connects to the cluster in a URL. If the cluster does not answer, Open waits for
// at most Options.Timeout.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	t, err := Parse(url)
	if err != nil {
		return nil, err
	}
	c, err := dial(ctx, t, o.withDefaults())
	if err != nil {
		return nil, err
	}
	return &Store{target: t, conn: c, compact: o.Compact, seal: o.Seal, tables: map[string]*shape{}, cuts: map[string]cuts{}}, nil
}

// String returns the store's URL.
func (s *Store) String() string { return s.target.String() }

// Close closes the store's connections. Running operations fail.
func (s *Store) Close() error {
	s.conn.close()
	return nil
}

// FullName returns the name that a table of the store has in HBase.
func (s *Store) FullName(name string) string { return s.target.table(name) }

// Table implements table.Store.
func (s *Store) Table(name string) table.Table { return s.table(name) }

func (s *Store) table(name string) *Table {
	return &Table{store: s, name: name, full: []byte(s.target.table(name))}
}

// A Table is one table of a Store.
type Table struct {
	store *Store
	name  string // name of the table in the store
	full  []byte // name of the table in HBase
}

var _ table.Table = (*Table)(nil)

// Name implements table.Table.
func (t *Table) Name() string { return t.name }

// A shape is the part of a table's description that reads and writes need.
type shape struct {
	families    []table.Family // sorted
	unversioned bool
}

func (h *shape) has(f table.Family) bool { return slices.Contains(h.families, f) }

func (h *shape) String() string {
	fams := make([]string, len(h.families))
	for i, f := range h.families {
		fams[i] = string(rune(f))
	}
	kind := "versioned"
	if h.unversioned {
		kind = "unversioned"
	}
	return fmt.Sprintf("families %s, %s", strings.Join(fams, " "), kind)
}

func (h *shape) equal(o *shape) bool {
	return h.unversioned == o.unversioned && slices.Equal(h.families, o.families)
}

// shape returns the table's shape. If the shape is not known yet from Create or an
// earlier call, it reads the shape from the master.
func (t *Table) shape(ctx context.Context) (*shape, error) {
	s := t.store
	s.mu.Lock()
	h := s.tables[t.name]
	s.mu.Unlock()
	if h != nil {
		return h, nil
	}
	all, err := s.describe(ctx, t.name)
	if err != nil {
		return nil, err
	}
	if h = all[t.name]; h == nil {
		return nil, fmt.Errorf("hbase: table %s does not exist", t.full)
	}
	s.know(all)
	return h, nil
}

func (s *Store) know(m map[string]*shape) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.tables, m)
}

func (s *Store) forget(names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range names {
		delete(s.tables, n)
		delete(s.cuts, n)
	}
}
