package directory_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// counted counts the rows that are read from a table.
type counted struct {
	table.Table
	table.Redactor
	rows *atomic.Int64
}

func (c counted) Get(ctx context.Context, row []byte, s table.Select) (table.Row, error) {
	c.rows.Add(1)
	return c.Table.Get(ctx, row, s)
}

func (c counted) GetMany(ctx context.Context, rows [][]byte, s table.Select) ([]table.Row, error) {
	c.rows.Add(int64(len(rows)))
	return c.Table.GetMany(ctx, rows, s)
}

func (c counted) Scan(ctx context.Context, r table.Range, s table.Select) iter.Seq2[table.Row, error] {
	return func(yield func(table.Row, error) bool) {
		c.rows.Add(1)
		for row, err := range c.Table.Scan(ctx, r, s) {
			c.rows.Add(1)
			if !yield(row, err) {
				return
			}
		}
	}
}

func (c counted) History(ctx context.Context, r table.Range) iter.Seq2[table.Past, error] {
	return func(yield func(table.Past, error) bool) {
		for past, err := range c.Redactor.History(ctx, r) {
			c.rows.Add(1)
			if !yield(past, err) {
				return
			}
		}
	}
}

type countedLSM struct {
	*lsm.Store
	rows *atomic.Int64
}

func (s countedLSM) Table(name string) table.Table {
	t := s.Store.Table(name)
	return counted{t, t.(table.Redactor), s.rows}
}

type countedMem struct {
	*tabletest.Mem
	rows *atomic.Int64
}

func (s countedMem) Table(name string) table.Table {
	t := s.Mem.Table(name)
	return struct {
		counted
		table.Versioner
	}{counted{t, t.(table.Redactor), s.rows}, t.(table.Versioner)}
}

// onCountedStores runs a test on the embedded store and on one that servers share. The counter
// counts rows read.
func onCountedStores(t *testing.T, test func(t *testing.T, s table.Store, rows *atomic.Int64)) {
	t.Run("embedded", func(t *testing.T) {
		s, err := lsm.Open(lsm.Options{Path: "store", FS: vfs.NewMem()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		rows := new(atomic.Int64)
		test(t, countedLSM{s, rows}, rows)
	})
	t.Run("shared", func(t *testing.T) {
		rows := new(atomic.Int64)
		test(t, countedMem{tabletest.NewMem(), rows}, rows)
	})
}

const newestFirst = "sort -changeNumber critical"

// newest searches the changelog newest first, in pages of a size if it is not 0.
func (c *client) newest(filter string, page, limit int) (all []string, last *op.Response) {
	c.t.Helper()
	control := newestFirst
	if page > 0 {
		control += fmt.Sprintf("; paged %d new", page)
	}
	for {
		got, done := changesOf(c.t, c.s, "cn=changelog", op.WholeSubtree, filter, "changeNumber changeRevision changeType targetDN targetEntryUUID changes newRDN", c.controls(control)...)
		all = append(all, got...)
		c.cookie = nil
		c.print(&answers{done: done})
		if len(c.cookie) == 0 || limit > 0 && len(all) >= limit {
			return all, done
		}
		control = newestFirst + fmt.Sprintf("; paged %d", page)
	}
}

// settle waits until the changelog shows everything that was committed. It reads only the changes since it was called.
func (c *client) settle() {
	c.t.Helper()
	dse := c.do("search", "base: ", "scope: base", "attrs: lastChangeNumber")
	since := "(changeNumber>=" + valueIn(strings.TrimSuffix(dse, "\n0\n"), "lastChangeNumber") + ")"
	c.must("modify", "dn: dc=example,dc=com", fmt.Sprint("replace description: ", time.Now().UnixNano()))
	s, _ := changesOf(c.t, c.s, "dc=example,dc=com", op.BaseObject, "(objectClass=*)", "description")
	want := valueIn(s[0], "description")
	for range 10000 {
		if got, _ := changesOf(c.t, c.s, "cn=changelog", op.SingleLevel, since, "changes"); strings.Contains(strings.Join(got, ""), want) {
			return
		}
		time.Sleep(time.Millisecond)
	}
	c.t.Fatal("the changelog does not show the last change")
}

// TestNewestFirst makes random changes and checks that the changelog, newest first, has the entries
// of the changelog in reverse order: whole, of each entry, narrowed by numbers, and by pages.
func TestNewestFirst(t *testing.T) {
	onCountedStores(t, func(t *testing.T, s table.Store, _ *atomic.Int64) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 1))
		c := newServer(t, s)
		c.must("add", "dn: dc=example,dc=com", "objectClass: domain", "dc: example")
		c.must("add", "dn: ou=a,dc=example,dc=com", "objectClass: organizationalUnit", "ou: a")
		names := []string{"x", "y", "z"}
		for i := range 200 {
			uid := names[r.IntN(len(names))]
			name := "dn: uid=" + uid + ",dc=example,dc=com"
			switch r.IntN(6) {
			case 0:
				c.do("add", name, "objectClass: account", "uid: "+uid)
			case 1:
				c.do("delete", name)
			case 2:
				c.do("modifydn", name, "rdn: uid="+names[r.IntN(len(names))])
			case 3: // an entry that comes back with its entryUUID
				uuid := fmt.Sprintf("entryUUID: 00000000-0000-4000-8000-00000000000%d", r.IntN(3))
				c.do("add", name, "objectClass: account", "uid: "+uid, uuid, "control: relax critical")
			case 4:
				_, err := write.Update(t.Context(), c.p, partition.By{Name: admin}, func(tx *partition.Tx) error {
					for _, n := range names { // entries that do not exist are left out
						tx.Modify(t.Context(), mustName(t, "uid="+n+",dc=example,dc=com"), changes(lines(fmt.Sprint("replace description: ", i))))
					}
					return tx.Modify(t.Context(), mustName(t, "ou=a,dc=example,dc=com"), changes(lines(fmt.Sprint("replace description: ", i))))
				})
				if err != nil {
					t.Fatal(err)
				}
			default:
				c.do("modify", name, fmt.Sprint("replace description: ", i))
			}
		}
		c.settle()
		attributes := "changeNumber changeRevision changeType targetDN targetEntryUUID changes newRDN"
		all, _ := changesOf(t, c.s, "cn=changelog", op.WholeSubtree, "(objectClass=*)", attributes)
		if len(all) < 100 {
			t.Fatalf("only %d changes", len(all))
		}
		filters := []string{"(objectClass=*)", "(changeType=delete)"}
		for range 8 {
			e := all[1+r.IntN(len(all)-1)]
			of, at := valueIn(e, "targetEntryUUID"), number(all[1+r.IntN(len(all)-1)])
			for _, f := range []string{"(targetEntryUUID=%s)", "(&(objectClass=changeLogEntry)(targetEntryUUID=%s)(changeNumber<=%d))", "(&(targetEntryUUID=%s)(changeNumber>=%d))"} {
				if f = strings.ReplaceAll(f, "%s", of); strings.Contains(f, "%d") {
					f = fmt.Sprintf(f, at)
				}
				filters = append(filters, f)
			}
		}
		for i, f := range filters {
			want, _ := changesOf(t, c.s, "cn=changelog", op.WholeSubtree, f, attributes)
			if f == "(objectClass=*)" { // the entry without a number comes first
				slices.Reverse(want[1:])
			} else {
				slices.Reverse(want)
			}
			if got, done := c.newest(f, i%4, 0); !slices.Equal(got, want) || done.Code != op.Success {
				t.Fatalf("%s, by pages of %d: %v, %d changes:\n%q\nwant %d:\n%q", f, i%4, &done.Result, len(got), got, len(want), want)
			}
		}
	})
}

// TestNewestFirstReads checks that the newest changes of an entry, and the newest of all, cost
// the same in a long journal as in a short one.
func TestNewestFirstReads(t *testing.T) {
	onCountedStores(t, func(t *testing.T, s table.Store, rows *atomic.Int64) {
		c := newServer(t, s)
		c.must("add", "dn: dc=example,dc=com", "objectClass: domain", "dc: example")
		c.addPerson("ann")
		c.addPerson("bob")
		for i := range 4 {
			c.must("modify", "dn: uid=ann,dc=example,dc=com", fmt.Sprint("replace title: ", i))
		}
		e, _ := changesOf(t, c.s, "cn=changelog", op.SingleLevel, "(targetDN=uid=ann,dc=example,dc=com)", "targetEntryUUID")
		ofAnn := "(targetEntryUUID=" + valueIn(e[0], "targetEntryUUID") + ")"
		cost := func(f string, page, limit, want int) int64 {
			t.Helper()
			c.settle()
			c.newest(f, page, limit) // the server counts the changes once
			rows.Store(0)
			got, done := c.newest(f, page, limit)
			if len(got) != want || done.Code != op.Success {
				t.Fatalf("%s: %v, %d changes, want %d: %q", f, &done.Result, len(got), want, got)
			}
			return rows.Load()
		}
		for i := range 300 {
			c.must("modify", "dn: uid=bob,dc=example,dc=com", fmt.Sprint("replace title: ", i))
		}
		short, shortPage := cost(ofAnn, 0, 0, 5), cost("(objectClass=*)", 10, 10, 10)
		for i := range 900 {
			c.must("modify", "dn: uid=bob,dc=example,dc=com", fmt.Sprint("replace title: ", i))
		}
		long, longPage := cost(ofAnn, 0, 0, 5), cost("(objectClass=*)", 10, 10, 10)
		t.Logf("5 changes of an entry: %d rows of a journal of 300 commits, %d of 1200; a page of the newest 10: %d, %d", short, long, shortPage, longPage)
		// Numbers are counted from marks, which are 256 commits apart.
		if max(short, long) > 400 || max(shortPage, longPage) > 600 {
			t.Errorf("5 changes of an entry: %d rows in a short journal, %d in a long one; a page of the newest 10: %d, %d", short, long, shortPage, longPage)
		}
	})
}
