package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/store/hbase"
	"github.com/seed-4dac0d86/ldapd/store/hbase/hbasetest"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// makeOld makes a directory whose rows have the first format, without entries.
func makeOld(t *testing.T, store string) {
	t.Helper()
	ctx := context.Background()
	var s table.Store
	var err error
	if hbase.IsURL(store) {
		s, err = hbase.Open(ctx, store, hbase.Options{Timeout: 20 * time.Second})
	} else {
		s, err = lsm.Open(lsm.Options{Path: store})
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p, err := partition.Open(ctx, s, partition.Options{Create: true, Format: catalog.FormatNames, Indexes: []catalog.Index{
		{Attribute: "objectClass", Layout: catalog.RowLayout}, {Attribute: "member", Layout: catalog.ColumnLayout},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestUpgrade copies a store in the first format of rows, whose server was killed, while the copying command is killed
// again and again. The copy has all that the store has, also its past, and is served.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	makeOld(t, store)
	importInto(t, store, example)
	mustRun(t, "checkpoint", "--store", store, "imported")
	to := store + "-new"
	upgrade := []string{"upgrade", "--store", store, "--to", to}
	p := serve(t, store)
	wantRefused(t, upgrade)
	addPerson(t, p, "before")
	p.kill()
	begin := time.Now()
	mustRun(t, "upgrade", "--store", store, "--to", store+"-first") // to see how long it takes
	took := time.Since(begin)
	for range 4 {
		c, _ := start(t, nil, upgrade...)
		time.Sleep(time.Duration(rand.Int64N(int64(took))))
		c.kill()
	}
	if out, status := ldapdRun(t, upgrade...); status != 0 && !strings.Contains(out, "has tables already") { // the last one may have ended
		t.Fatalf("status %d\n%s", status, out)
	}
	compareCopy(t, store, to, "imported")
	p = serve(t, to)
	addPerson(t, p, "after")
	for _, uid := range []string{"before", "after"} {
		if names, err := searchDN(p.admin(), suffix, ldap.ScopeWholeSubtree, "(uid="+uid+")"); err != nil || len(names) != 1 {
			t.Errorf("%s: %q, %v", uid, names, err)
		}
	}
	p.stop()
	checkStore(t, to)
	if out := mustRun(t, "upgrade", "--dry-run", "--store", to); strings.Contains(out, "rows") {
		t.Error(out)
	}
}

func wantRefused(t *testing.T, upgrade []string) {
	t.Helper()
	if out, status := ldapdRun(t, upgrade...); status == 0 || !strings.Contains(out, "server") {
		t.Errorf("beside a server: status %d\n%s", status, out)
	}
}

// TestUpgradeAhead copies a store in HBase while a server writes to it, and the rest when the server was killed, and so was the first
// command that copied the rest.
func TestUpgradeAhead(t *testing.T) {
	t.Parallel()
	store := "hbase://" + hbasetest.Start(t) + "/" + hbasetest.Prefix(t)
	to := store + "-new"
	makeOld(t, store)
	importInto(t, store, example)
	p := serve(t, store, "--lease", "2s")
	c := p.admin()
	person := func(n int) string { return fmt.Sprintf("uid=p%d,ou=people,%s", n, suffix) }
	work := func(round int) {
		for n := range 6 {
			addPerson(t, p, fmt.Sprintf("p%d", 10*round+n))
		}
		group := ldap.NewAddRequest(fmt.Sprintf("cn=g%d,ou=groups,%s", round, suffix), nil)
		group.Attribute("objectClass", []string{"groupOfNames"})
		group.Attribute("member", []string{person(10 * round), person(10*round + 1), "cn=" + strings.Repeat("long", 100) + "," + person(10*round)})
		requests := []error{c.Add(group)}
		if round > 0 {
			last := 10 * (round - 1)
			change := ldap.NewModifyRequest(person(last), nil)
			change.Replace("sn", []string{"changed"})
			change.Replace("userPassword", []string{"secret"})
			members := ldap.NewModifyRequest(fmt.Sprintf("cn=g%d,ou=groups,%s", round-1, suffix), nil)
			members.Delete("member", []string{"cn=" + strings.Repeat("long", 100) + "," + person(last), person(last + 1)})
			requests = append(requests, c.Modify(members), c.Modify(change), c.Del(ldap.NewDelRequest(person(last+1), nil)),
				c.ModifyDN(ldap.NewModifyDNRequest(person(last+2), "cn=moved", true, "ou=groups,"+suffix)))
		}
		for _, err := range requests {
			if err != nil {
				t.Fatal(err)
			}
		}
		mustRun(t, "checkpoint", "--store", store, fmt.Sprintf("round-%d", round))
	}
	work(0)
	mustRun(t, "upgrade", "--store", store, "--to", to, "--ahead")
	if out, status := ldapdRun(t, "check", "--store", to); status == 0 {
		t.Errorf("half a copy: %s", out)
	}
	c.Del(ldap.NewDelRequest("cn=moved,ou=groups,"+suffix, nil))
	work(1)
	mustRun(t, "upgrade", "--store", store, "--to", to, "--ahead")
	c.Del(ldap.NewDelRequest("cn=moved,ou=groups,"+suffix, nil))
	work(2)
	wantRefused(t, []string{"upgrade", "--store", store, "--to", to})
	p.kill()
	interrupted, _ := start(t, nil, "upgrade", "--store", store, "--to", to)
	time.Sleep(time.Duration(rand.Int64N(int64(5 * time.Second)))) // it waits for the lease of the server first
	interrupted.kill()
	if out, status := ldapdRun(t, "upgrade", "--store", store, "--to", to); status != 0 && !strings.Contains(out, "has tables already") {
		t.Fatalf("status %d\n%s", status, out)
	}
	compareCopy(t, store, to, "round-0", "round-1", "round-2")
	mustRun(t, "gc", "--store", to)
	checkStore(t, to)
}

// compareCopy compares a store with a copy, now and at checkpoints.
func compareCopy(t *testing.T, store, to string, checkpoints ...string) {
	t.Helper()
	checkStore(t, to)
	for _, at := range append(checkpoints, "") {
		var args []string
		if at != "" {
			args = []string{"--at", at}
		}
		if diff := cmp.Diff(entriesOf(t, store, args...), entriesOf(t, to, args...)); diff != "" {
			t.Errorf("export %q of the store and of the copy:\n%s", args, diff)
		}
	}
	if was, is := mustRun(t, "log", "--store", store), mustRun(t, "log", "--store", to); was != is {
		t.Errorf("log of the store:\n%s\nand of the copy:\n%s", was, is)
	}
}

// entriesOf exports a store. The order of siblings depends on the format.
func entriesOf(t *testing.T, store string, args ...string) []string {
	t.Helper()
	return slices.Sorted(strings.SplitSeq(strings.TrimSpace(exported(t, store, args...)), "\n\n"))
}

func addPerson(t *testing.T, p *process, uid string) {
	t.Helper()
	a := ldap.NewAddRequest("uid="+uid+",ou=people,"+suffix, nil)
	a.Attribute("objectClass", []string{"inetOrgPerson"})
	a.Attribute("cn", []string{uid})
	a.Attribute("sn", []string{uid})
	if err := p.admin().Add(a); err != nil {
		t.Fatal(err)
	}
}
