package partition_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/load"
	_ "github.com/seed-4dac0d86/ldapd/partition/load/spill/ondisk"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// stores are the engines for tests of loads: an engine that loads sorted tables, and an
// engine that only writes batches.
var stores = map[string]func(testing.TB) table.Store{
	"batches": func(testing.TB) table.Store { return tabletest.NewBatchMem() },
	"lsm": func(t testing.TB) table.Store {
		s, err := lsm.Open(lsm.Options{Path: t.TempDir()})
		must(t, err)
		t.Cleanup(func() { s.Close() })
		return s
	},
}

// eachStore runs a test on every engine, on a new partition without naming contexts.
func eachStore(t *testing.T, f func(t *testing.T, p *partition.Partition, s table.Store)) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			s := open(t)
			p, err := partition.Open(ctx, s, partition.Options{Format: *storeFormat, Create: true, Schema: tagged})
			must(t, err)
			t.Cleanup(func() { p.Close(ctx) })
			f(t, p, s)
		})
	}
}

// begun begins a load. It waits while a branch that was discarded is being removed.
func begun(t testing.TB, p *partition.Partition) *load.Loader {
	t.Helper()
	for {
		l, err := load.Load(context.Background(), p, load.Options{By: partition.By{Name: "cn=loader"}, FirstSuffix: true, Folder: t.TempDir()})
		if errors.Is(err, txn.ErrBranches) && len(p.DB.Branches()) == 0 {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		must(t, err)
		return l
	}
}

func loadAdd(l *load.Loader, dn string, lines ...string) error {
	return l.Add(context.Background(), name(dn), attrs(lines...))
}

func commit(t testing.TB, l *load.Loader) {
	t.Helper()
	_, err := l.Commit(context.Background())
	must(t, err)
}

const domain = "dc=example,dc=com"

var domainLines = []string{"objectClass: organization", "objectClass: dcObject", "o: Example"}

func person(i int) (string, []string) {
	return fmt.Sprintf("uid=u%d,ou=people,%s", i, domain), []string{
		"objectClass: inetOrgPerson", fmt.Sprintf("cn: Person %d", i), "sn: Person",
		"userPassword: secret", fmt.Sprintf("mail: u%d@example.com", i)}
}

// loadSample loads a domain, a unit and n people.
func loadSample(t testing.TB, p *partition.Partition, n int) {
	t.Helper()
	l := begun(t, p)
	must(t, loadAdd(l, domain, domainLines...))
	must(t, loadAdd(l, "ou=people,"+domain, "objectClass: organizationalUnit"))
	var wg sync.WaitGroup
	for g := range 3 {
		wg.Go(func() {
			for i := g; i < n; i += 3 {
				if dn, lines := person(i); loadAdd(l, dn, lines...) != nil {
					t.Error(loadAdd(l, dn, lines...))
				}
			}
		})
	}
	wg.Wait()
	commit(t, l)
}

func TestLoad(t *testing.T) {
	eachStore(t, func(t *testing.T, p *partition.Partition, _ table.Store) {
		loadSample(t, p, 100)
		if got := p.Config().Suffixes; len(got) != 1 || got[0] != domain {
			t.Fatalf("suffixes: %q", got)
		}
		if got := searched(t, p, domain, op.WholeSubtree, "(objectClass=*)"); len(got) != 102 {
			t.Errorf("%d entries", len(got))
		}
		if got := searched(t, p, domain, op.WholeSubtree, "(mail=U17@example.com)"); len(got) != 1 || got[0] != "uid=u17,ou=people,"+domain {
			t.Errorf("by mail: %q", got)
		}
		if got := searched(t, p, domain, op.WholeSubtree, "(creatorsName=cn=loader)"); len(got) != 102 {
			t.Errorf("created by the loader: %d", len(got))
		}
		// A second load adds to the entries of the first load.
		l := begun(t, p)
		dn, lines := person(1)
		must(t, loadAdd(l, dn, lines...)) // equal, so it is skipped
		wantProblem(t, loadAdd(l, dn, append(lines, "title: x", "mail: x")...), partition.EntryExists, "which differs in mail, title: ")
		dn, lines = person(1000)
		must(t, loadAdd(l, dn, lines...))
		commit(t, l)
		if got := searched(t, p, domain, op.WholeSubtree, "(uid=u1000)"); len(got) != 1 {
			t.Errorf("of the second load: %q", got)
		}
		must(t, add(t, p, "uid=later,ou=people,"+domain, lines...))
	})
}

func wantProblem(t testing.TB, err error, want partition.Problem, text string) {
	t.Helper()
	var e *partition.Error
	if !errors.As(err, &e) || e.Problem != want || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want problem %d with %q", err, want, text)
	}
}

func TestLoadRefuses(t *testing.T) {
	eachStore(t, func(t *testing.T, p *partition.Partition, _ table.Store) {
		const uuid = "entryUUID: 11111111-2222-3333-4444-555555555555"
		unit := "objectClass: organizationalUnit"
		l := begun(t, p)
		must(t, loadAdd(l, domain, domainLines...))
		wantProblem(t, loadAdd(l, "ou=a,ou=b,"+domain, unit), partition.NoSuchEntry, "no entry ou=b,"+domain)
		must(t, loadAdd(l, "ou=b,"+domain, unit, uuid))
		must(t, loadAdd(l, "ou=a,ou=b,"+domain, unit))
		wantProblem(t, loadAdd(l, "OU=B ,"+domain, unit), partition.EntryExists, "earlier record")
		wantProblem(t, loadAdd(l, "ou=c,"+domain, unit, uuid), partition.EntryExists, "entryUUID")
		wantProblem(t, loadAdd(l, "ou=elsewhere", unit), partition.NamingViolation, "in no naming context")
		wantProblem(t, loadAdd(l, "ou=d,"+domain, unit, "sn: no"), partition.ClassViolation, "sn")
		must(t, l.Refuse(name("ou=d,"+domain)))
		wantProblem(t, loadAdd(l, "ou=e,ou=d,"+domain, unit), partition.Unwilling, "ou=d,"+domain+", was refused")
		commit(t, l)
		if got := searched(t, p, "", op.WholeSubtree, "(objectClass=*)"); len(got) != 3 {
			t.Errorf("entries: %q", got)
		}
		l = begun(t, p)
		wantProblem(t, loadAdd(l, "ou=z,"+domain, unit, uuid), partition.EntryExists, "entryUUID")
		must(t, l.Abort(context.Background()))
	})
}

func TestLoadAbort(t *testing.T) {
	eachStore(t, func(t *testing.T, p *partition.Partition, s table.Store) {
		l := begun(t, p)
		must(t, loadAdd(l, domain, domainLines...))
		if got := searched(t, p, "", op.WholeSubtree, "(objectClass=*)"); len(got) != 0 {
			t.Errorf("seen before commit: %q", got)
		}
		must(t, l.Abort(context.Background()))
		must(t, l.Abort(context.Background()))
		if _, err := l.Commit(context.Background()); !errors.Is(err, table.ErrClosed) {
			t.Errorf("commit after abort: %v", err)
		}
		if got := p.Config().Suffixes; len(got) != 0 {
			t.Errorf("suffixes left behind: %q", got)
		}
		for row, err := range s.Table("master").Scan(context.Background(), table.Range{}, table.Select{}) {
			t.Errorf("left behind: %v %v", row, err)
		}
		loadSample(t, p, 1)
	})
}

// TestLoadSpills runs a load without memory for names, so that all names are written to disk.
// It checks that the load refuses every record whose name an earlier record has.
func TestLoadSpills(t *testing.T) {
	p := open(t)
	l, err := load.Load(context.Background(), p, load.Options{Memory: 1, Folder: t.TempDir()})
	must(t, err)
	must(t, loadAdd(l, domain, domainLines...))
	must(t, loadAdd(l, "ou=people,"+domain, "objectClass: organizationalUnit"))
	for i := range 3000 {
		dn, lines := person(i)
		must(t, loadAdd(l, dn, lines...))
	}
	for i := range 3000 {
		dn, lines := person(i)
		wantProblem(t, loadAdd(l, dn, lines...), partition.EntryExists, "earlier record")
	}
	must(t, l.Abort(context.Background()))
}
