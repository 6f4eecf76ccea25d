package directory_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
	"github.com/seed-4dac0d86/ldapd/ldap/monitor/scrape"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// TestObserved checks that the observers receive one observation of every operation, and
// that the metrics count the operation.
func TestObserved(t *testing.T) {
	var seen []directory.Observation
	m := monitor.New("test")
	d := newDirectory(t, newPartition(t), directory.Options{
		Metrics: m, Slow: time.Hour,
		Observers: []monitor.Observer{func(o *directory.Observation) { seen = append(seen, *o) }},
	})
	s := d.NewSession(nil)
	serve := func(r op.Request) { s.Serve(context.Background(), &op.Message{ID: 7, Request: r}, discard{}) }
	serve(&op.Bind{Version: 3, Name: "cn=admin,dc=example,dc=com", Password: []byte("wrong")})
	serve(&op.Bind{Version: 3, Name: "cn=admin,dc=example,dc=com", Password: []byte("secret")})
	serve(&op.Bind{Version: 3, SASL: true, Mechanism: "invented"})
	serve(&op.Bind{Version: 3, Name: "cn=admin,dc=example,dc=com", Password: []byte("secret")})
	serve(&op.Add{Name: "dc=example,dc=com", Attributes: attributes2("objectClass", "domain", "dc", "example")})
	serve(&op.Search{Base: "dc=example,dc=com", Scope: op.WholeSubtree, Filter: filter.MustParse("(dc=example)")})
	serve(&op.Search{Base: "dc=missing,dc=com", Filter: filter.MustParse("(objectClass=*)")})
	s.Answered(&op.Message{Request: &op.Extended{OID: "1.3.6.1.1.8"}}, &op.Response{Result: op.Result{Code: op.TooLate}})
	if len(seen) != 8 {
		t.Fatalf("%d observations", len(seen))
	}
	if o := seen[4]; o.Operation() != monitor.Add || o.Attempts != 1 || o.Committed == 0 || o.Took <= 0 || o.Who != "cn=admin,dc=example,dc=com" {
		t.Errorf("the add: %+v", o)
	}
	if o := seen[5]; o.Operation() != monitor.Search || o.Entries != 1 || o.Candidates != 1 {
		t.Errorf("the search: %+v", o)
	}
	want := `# HELP ldapd_binds_total Binds by their mechanism and result.
# TYPE ldapd_binds_total counter
ldapd_binds_total{mechanism="other",result="authMethodNotSupported"} 1
ldapd_binds_total{mechanism="simple",result="invalidCredentials"} 1
ldapd_binds_total{mechanism="simple",result="success"} 2
# HELP ldapd_operations_total Operations that ended, by their result.
# TYPE ldapd_operations_total counter
ldapd_operations_total{op="add",result="success"} 1
ldapd_operations_total{op="bind",result="authMethodNotSupported"} 1
ldapd_operations_total{op="bind",result="invalidCredentials"} 1
ldapd_operations_total{op="bind",result="success"} 2
ldapd_operations_total{op="extended",result="tooLate"} 1
ldapd_operations_total{op="search",result="noSuchObject"} 1
ldapd_operations_total{op="search",result="success"} 1
# HELP ldapd_search_entries_total Entries that searches returned.
# TYPE ldapd_search_entries_total counter
ldapd_search_entries_total 1
`
	if err := testutil.GatherAndCompare(scrape.Registry(m), strings.NewReader(want), "ldapd_operations_total", "ldapd_binds_total", "ldapd_search_entries_total"); err != nil {
		t.Error(err)
	}
}

func attributes2(pairs ...string) (as []op.PartialAttribute) {
	for i := 0; i < len(pairs); i += 2 {
		as = append(as, op.PartialAttribute{Description: pairs[i], Values: [][]byte{[]byte(pairs[i+1])}})
	}
	return as
}

// TestUnobserved checks that metrics cause no further allocations of memory.
func TestUnobserved(t *testing.T) {
	d := newDirectory(t, newPartition(t), directory.Options{})
	s := d.NewSession(nil)
	m := &op.Message{Request: &op.Search{Filter: filter.MustParse("(objectClass=*)")}}
	without := testing.AllocsPerRun(100, func() { s.Serve(context.Background(), m, discard{}) })
	d = newDirectory(t, newPartition(t), directory.Options{Metrics: monitor.New("test"), Slow: time.Hour})
	s = d.NewSession(nil)
	with := testing.AllocsPerRun(100, func() { s.Serve(context.Background(), m, discard{}) })
	if with > without {
		t.Errorf("%v allocations observed, %v unobserved", with, without)
	}
}
