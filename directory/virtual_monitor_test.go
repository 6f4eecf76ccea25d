package directory_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// newPair opens two servers on one store. It returns the first server with a session of
// the first server's administrator.
func newPair(t *testing.T) (*directory.Directory, *directory.Session) {
	ctx := context.Background()
	store := tabletest.NewMem()
	var first *partition.Partition
	for _, owner := range []string{"one", "two"} {
		p, err := partition.Open(ctx, store, partition.Options{Create: true, Txn: txn.Options{Owner: owner}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close(ctx) })
		if first == nil {
			first = p
		}
	}
	d := newDirectory(t, first, directory.Options{Secret: []byte("k")})
	s := d.NewSession(nil)
	serve(t, s, &op.Bind{Version: 3, Name: "cn=admin,dc=example,dc=com", Password: []byte("secret")})
	return d, s
}

func TestMonitor(t *testing.T) {
	d, s := newPair(t)
	if _, err := directory.PartitionOf(d).DB.Checkpoint(t.Context(), "then"); err != nil {
		t.Fatal(err)
	}
	all, done := changesOf(t, s, "cn=monitor", op.WholeSubtree, "(objectClass=*)", "objectClass clusterNewest clusterCheckpoint slotOwner slotState slotNote")
	if done.Code != op.Success {
		t.Fatal(&done.Result)
	}
	got := regexp.MustCompile(`r[0-9a-f]+-[0-9a-f]+-[0-9a-f]+`).ReplaceAllString(strings.Join(all, "\n"), "REVISION")
	want := `dn: cn=monitor
objectClass: top
objectClass: monitorServer

dn: cn=cluster,cn=monitor
objectClass: top
objectClass: monitorCluster
clusterNewest: REVISION
clusterCheckpoint: REVISION then

dn: cn=slot 1,cn=cluster,cn=monitor
objectClass: top
objectClass: monitorSlot
slotState: open
slotOwner: one

dn: cn=slot 2,cn=cluster,cn=monitor
objectClass: top
objectClass: monitorSlot
slotState: open
slotOwner: two
`
	if strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(want), " ") {
		t.Errorf("%s", got)
	}
	for _, c := range []struct {
		base   string
		scope  op.Scope
		filter string
		want   string
	}{
		{"cn=monitor", op.BaseObject, "(objectClass=*)", "cn=monitor"},
		{"CN=Monitor", op.SingleLevel, "(objectClass=*)", "cn=cluster,cn=monitor"},
		{"cn=cluster,cn=monitor", op.SingleLevel, "(objectClass=*)", "cn=slot 1,cn=cluster,cn=monitor cn=slot 2,cn=cluster,cn=monitor"},
		{"cn=cluster,cn=monitor", op.Subordinates, "(slotNumber>=2)", "cn=slot 2,cn=cluster,cn=monitor"},
		{"cn=monitor", op.WholeSubtree, "(slotOwner=one)", "cn=slot 1,cn=cluster,cn=monitor"},
		{"cn=slot 2,cn=cluster,cn=monitor", op.BaseObject, "(slotState=free)", ""},
		{"cn=slot 2,cn=cluster,cn=monitor", op.SingleLevel, "(objectClass=*)", ""},
	} {
		all, done := changesOf(t, s, c.base, c.scope, c.filter, "1.1")
		for i, e := range all {
			all[i] = strings.TrimSpace(strings.TrimPrefix(e, "dn: "))
		}
		if done.Code != op.Success || strings.Join(all, " ") != c.want {
			t.Errorf("%s %s: %q (%v)", c.base, c.filter, all, &done.Result)
		}
	}
	for base, matched := range map[string]string{
		"cn=slot 9,cn=cluster,cn=monitor": "cn=cluster,cn=monitor",
		"cn=a,cn=b,cn=monitor":            "cn=monitor",
	} {
		if _, done := changesOf(t, s, base, op.BaseObject, "(objectClass=*)", ""); done.Code != op.NoSuchObject || done.MatchedDN != matched {
			t.Errorf("%s: %v, matched %s", base, &done.Result, done.MatchedDN)
		}
	}
	if _, done := changesOf(t, d.NewSession(nil), "cn=monitor", op.BaseObject, "(objectClass=*)", ""); done.Code != op.InsufficientAccessRights {
		t.Errorf("anonymous: %v", &done.Result)
	}
	if _, done := changesOf(t, s, "cn=monitor", op.BaseObject, "(objectClass=*)", "", namedControl("at now critical")); done.Code != op.UnwillingToPerform {
		t.Errorf("of the past: %v", &done.Result)
	}
	var out answers
	s.Serve(t.Context(), &op.Message{Request: &op.Delete{Name: "cn=cluster,cn=monitor"}}, &out)
	if out.done.Code != op.UnwillingToPerform {
		t.Errorf("delete: %v", &out.done.Result)
	}
}

func TestMonitorPaged(t *testing.T) {
	_, s := newPair(t)
	all, _ := changesOf(t, s, "cn=monitor", op.WholeSubtree, "(objectClass=*)", "1.1")
	c := &client{t: t, s: s}
	var paged []string
	for range 5 {
		var out answers
		s.Serve(t.Context(), &op.Message{
			Request:  &op.Search{Base: "cn=monitor", Scope: op.WholeSubtree, Filter: filter.MustParse("(objectClass=*)"), Attributes: []string{"1.1"}},
			Controls: c.controls("paged 1"),
		}, &out)
		paged = append(paged, out.entries...)
		if c.print(&out); len(c.cookie) == 0 {
			break
		}
	}
	if len(all) != 4 || !slices.Equal(all, paged) {
		t.Errorf("by pages:\n%q\nwant:\n%q", paged, all)
	}
}

// TestMonitorShowsWhyWritesAreRefused checks that cn=monitor states why the server refuses
// writes, as long as it refuses them.
func TestMonitorShowsWhyWritesAreRefused(t *testing.T) {
	ctx := context.Background()
	var doubt error
	p, err := partition.Open(ctx, tabletest.NewBatchMem(), partition.Options{
		Create: true, Txn: txn.Options{Doubt: func(time.Time) error { return doubt }}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(ctx) })
	s := newDirectory(t, p, directory.Options{Secret: []byte("k")}).NewSession(nil)
	serve(t, s, &op.Bind{Version: 3, Name: "cn=admin,dc=example,dc=com", Password: []byte("secret")})
	for _, doubt = range []error{nil, errors.New("the clock jumped"), nil} {
		all, done := changesOf(t, s, "cn=monitor", op.BaseObject, "(objectClass=*)", "writesRefused")
		if text := strings.Join(all, " "); done.Code != op.Success || strings.Contains(text, "writesRefused: ") != (doubt != nil) ||
			doubt != nil && !strings.Contains(text, doubt.Error()) {
			t.Errorf("%v: %v %s", doubt, &done.Result, text)
		}
	}
}

// TestMonitorKeepsNoState checks that a search of cn=monitor closes the snapshot that it has
// read. An open snapshot would prevent garbage collection of everything after its state. It
// would also block changes of the schema, which wait until older snapshots are closed.
func TestMonitorKeepsNoState(t *testing.T) {
	c := newClient(t)
	c.must("bind", "dn: "+admin, "password: secret")
	c.must("add", "dn: dc=example,dc=com", "objectClass: domain", "dc: example")
	c.do("search", "base: cn=monitor", "scope: sub", "attrs: cn")
	read := revisionOf(c.p)
	c.must("modify", "dn: dc=example,dc=com", "replace description: x")
	if oldest := oldestOf(c.p); oldest <= read {
		t.Errorf("the oldest state in use is that of %v, which the search has read", oldest)
	}
}

// oldestOf returns the revision of the oldest state in use.
func oldestOf(p *partition.Partition) table.Revision {
	s := state.Newest(p)
	defer s.Close()
	return s.Partition.DB.Oldest()
}
