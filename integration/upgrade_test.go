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
	wantRefused(t, upgrade, "server")
	addPerson(t, p, "before")
	p.kill()
	begin := time.Now()
	mustRun(t, "upgrade", "--store", store, "--to", store+"-first") // to see how long it takes
	took := time.Since(begin)
	wantRefused(t, upgrade, store+"-first")
	mustRun(t, "upgrade", "--store", store, "--back")
	for range 4 {
		c, _ := start(t, nil, upgrade...)
		time.Sleep(time.Duration(rand.Int64N(int64(took))))
		c.kill()
	}
	mustRun(t, upgrade...)
	compareCopy(t, store, to, "imported")
	wantRefused(t, []string{"serve", "--store", store, "--listen", "ldap://127.0.0.1:0"}, to)
	p = serve(t, to)
	addPerson(t, p, "after")
	for _, uid := range []string{"before", "after"} {
		if names, err := searchDN(p.admin(), suffix, ldap.ScopeWholeSubtree, "(uid="+uid+")"); err != nil || len(names) != 1 {
			t.Errorf("%s: %q, %v", uid, names, err)
		}
	}
	back := []string{"upgrade", "--store", store, "--back"}
	wantRefused(t, back, "the copy")
	p.stop()
	checkStore(t, to)
	if out := mustRun(t, "upgrade", "--dry-run", "--store", to); strings.Contains(out, "rows") {
		t.Error(out)
	}
	mustRun(t, back...)
	wantRefused(t, back, "takes updates")
	p = serve(t, store)
	addPerson(t, p, "after")
}

func wantRefused(t *testing.T, args []string, text string) {
	t.Helper()
	if out, status := ldapdRun(t, args...); status == 0 || !strings.Contains(out, text) {
		t.Errorf("ldapd %q: status %d\n%s\nwant %q", args, status, out, text)
	}
}

// TestUpgradeAhead copies a store in HBase while two servers write to it. The copying command is killed again and again.
func TestUpgradeAhead(t *testing.T) {
	t.Parallel()
	store := "hbase://" + hbasetest.Start(t) + "/" + hbasetest.Prefix(t)
	to := store + "-new"
	makeOld(t, store)
	importInto(t, store, example)
	p, q := serve(t, store, "--lease", "2s"), serve(t, store, "--lease", "2s")
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

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	added := make(chan []string)
	go func() { added <- addUntil(ctx, t, q) }()
	upgrade := []string{"upgrade", "--store", store, "--to", to}
	for range 2 {
		c, _ := start(t, nil, upgrade...)
		time.Sleep(time.Duration(rand.Int64N(int64(8 * time.Second))))
		c.kill()
	}
	mustRun(t, upgrade...)
	stop()
	people := <-added
	for _, old := range []*process{p, q} {
		late := ldap.NewModifyRequest(person(21), nil)
		late.Replace("sn", []string{"late"})
		if err := old.admin().Modify(late); !ldap.IsErrorWithCode(err, ldap.LDAPResultUnavailable) {
			t.Errorf("an update after the copy: %v", err)
		}
		if names, err := searchDN(old.admin(), suffix, ldap.ScopeWholeSubtree, "(uid=p21)"); err != nil || len(names) != 1 {
			t.Errorf("a search after the copy: %q, %v", names, err)
		}
		old.connect(person(10), "secret")
	}
	r := serve(t, to, "--lease", "2s")
	addPerson(t, r, "after")
	for _, uid := range people {
		if names, err := searchDN(r.admin(), suffix, ldap.ScopeWholeSubtree, "(uid="+uid+")"); err != nil || len(names) != 1 {
			t.Errorf("%s was added, and the copy has %q, %v", uid, names, err)
		}
	}
	if len(people) == 0 {
		t.Error("nothing was added beside the command")
	}
	if err := r.admin().Del(ldap.NewDelRequest("uid=after,ou=people,"+suffix, nil)); err != nil {
		t.Error(err)
	}
	wantRefused(t, []string{"upgrade", "--store", store, "--back"}, "stop its servers")
	r.stop()
	for _, old := range []*process{p, q} {
		old.stop()
	}
	for _, at := range []string{"round-0", "round-1", "round-2", ""} {
		compareEntries(t, store, to, at)
	}
	mustRun(t, "gc", "--store", to)
	checkStore(t, to)
}

// addUntil adds people until ctx ends, and returns the uids of those whose addition was acknowledged.
func addUntil(ctx context.Context, t *testing.T, p *process) (uids []string) {
	c := p.admin()
	for n := 0; ctx.Err() == nil; n++ {
		uid := fmt.Sprintf("busy%d", n)
		a := ldap.NewAddRequest("uid="+uid+",ou=people,"+suffix, nil)
		a.Attribute("objectClass", []string{"inetOrgPerson"})
		a.Attribute("cn", []string{uid})
		a.Attribute("sn", []string{uid})
		switch err := c.Add(a); {
		case err == nil:
			uids = append(uids, uid)
		case ldap.IsErrorAnyOf(err, ldap.LDAPResultUnavailable, ldap.LDAPResultBusy):
			time.Sleep(50 * time.Millisecond)
		default:
			t.Errorf("adding %s: %v", uid, err)
		}
	}
	return uids
}

// compareCopy compares a store with a copy, now, at checkpoints, and their logs.
func compareCopy(t *testing.T, store, to string, checkpoints ...string) {
	t.Helper()
	checkStore(t, to)
	for _, at := range append(checkpoints, "") {
		compareEntries(t, store, to, at)
	}
	if was, is := mustRun(t, "log", "--store", store), mustRun(t, "log", "--store", to); was != is {
		t.Errorf("log of the store:\n%s\nand of the copy:\n%s", was, is)
	}
}

// compareEntries compares a store with a copy, at a checkpoint, or now if "at" is empty.
func compareEntries(t *testing.T, store, to, at string) {
	t.Helper()
	var args []string
	if at != "" {
		args = []string{"--at", at}
	}
	if diff := cmp.Diff(entriesOf(t, store, args...), entriesOf(t, to, args...)); diff != "" {
		t.Errorf("export %q of the store and of the copy:\n%s", args, diff)
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
