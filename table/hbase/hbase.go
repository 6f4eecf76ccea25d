// Package hbase is the table engine for many servers: a [table.Store] on an HBase
// cluster, accessed with gohbase. It is opened by URL,
//
//	hbase://ZK1,ZK2:2181/PREFIX[?zkroot=/hbase&user=ldapd]
//
// and keeps each table of the contract as the HBase table PREFIX_name.
//
// # On disk
//
// A revision is the timestamp of the cells it wrote; versioned tables keep every
// version (VERSIONS 2147483647). A cell's value begins with one byte, 1 for a value and
// 0 for a tombstone. HBase's own delete markers hide older versions from older readers
// too, so they are used only for rollback ([Table.Erase]) and garbage collection
// ([Table.Collect]).
//
// The qualifier 00 is reserved: in every family of a versioned table it holds the row
// tombstones of [table.Mutation].DeleteRow, so that a read of any family finds them
// without reading another one. A qualifier that is empty or begins with 00 is stored
// behind 00 01, which keeps the order.
//
// Unversioned tables have VERSIONS 1 and timestamps of the region servers (milliseconds
// since 1970), which readers get as the cell's Revision. A deleted column keeps a
// tombstone there as well: a delete marker would mask a write that comes in the same
// millisecond, or from a region server with a slower clock, and still report success.
//
// # Reading
//
// A read at a view asks for one version in [0, Max]. If the view does not show a
// timestamp that came back, that row is read again with more versions. A scan consists
// of pages of one call each, which opens and closes its scanner. So no scanner is lost
// when a region moves, and a repeated call cannot skip rows. Filters are sent to the
// server only if the view shows everything up to Max (Low == Max), because HBase
// filters run before versions are chosen.
//
// # Failing
//
// Every call has a deadline of Options.Timeout, whatever its context says. Errors that
// may pass are [table.ErrUnavailable]. gohbase's pauses double while a cluster is away.
// So once calls have timed out, the store watches the cluster itself and continues with
// a fresh client as soon as the cluster is back.
package hbase

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-4dac0d86/ldapd/table"
)

// Options of a Store. The zero Options are good.
type Options struct {
	// Timeout bounds every call, and the wait for an unreachable cluster in Open; 10 s
	// by default. Creating and dropping tables may take six times as long.
	Timeout time.Duration
	// Compact is the minimum time between two major compactions of a table by Reclaim.
	// With zero, Reclaim compacts only on demand.
	Compact time.Duration
	// Log receives a message when the cluster stops answering and when it answers
	// again, and at debug level gohbase's own messages. Nil disables it.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// A Store is an open set of tables on a cluster.
type Store struct {
	target  Target
	conn    *conn
	compact time.Duration
	garbage garbage

	mu     sync.Mutex
	tables map[string]*shape // tables created or looked up so far
}

var _ table.Store = (*Store)(nil)

// Open connects to the cluster that a URL names. It waits at most Options.Timeout for a
// cluster that does not answer.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	t, err := Parse(url)
	if err != nil {
		return nil, err
	}
	c, err := dial(ctx, t, o.withDefaults())
	if err != nil {
		return nil, err
	}
	return &Store{target: t, conn: c, compact: o.Compact, tables: map[string]*shape{}}, nil
}

// String returns the store's URL.
func (s *Store) String() string { return s.target.String() }

// Close closes the store's connections. Operations under way fail.
func (s *Store) Close() error {
	s.conn.close()
	return nil
}

// Table implements table.Store.
func (s *Store) Table(name string) table.Table {
	return &Table{store: s, name: name, full: []byte(s.target.table(name))}
}

// A Table is one table of a Store.
type Table struct {
	store *Store
	name  string // in the contract
	full  []byte // in HBase
}

var _ table.Table = (*Table)(nil)

// Name implements table.Table.
func (t *Table) Name() string { return t.name }

// A shape is what reads and writes need to know about a table.
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

// shape returns the table's shape. It asks the master the first time, unless Create
// already knows the table.
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
	}
}
