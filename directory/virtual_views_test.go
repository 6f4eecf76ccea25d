package directory_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/materialized"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
)

// withView returns an administrator's session in a directory that has the view
// cn=a,cn=views. The records of the view are kept.
func withView(t *testing.T) *directory.Session {
	t.Helper()
	p := newPartition(t)
	if err := onlineschema.AddSuffixes(t.Context(), p, []string{"cn=views"}); err != nil {
		t.Fatal(err)
	}
	s := newDirectory(t, p, directory.Options{Secret: []byte("k")}).NewSession(nil)
	serve(t, s, &op.Bind{Version: 3, Name: "cn=admin,dc=example,dc=com", Password: []byte("secret")})
	serve(t, s, &op.Add{Name: "dc=example,dc=com", Attributes: attributes(lines("objectClass: domain\ndc: example"))})
	serve(t, s, &op.Add{Name: "cn=views", Attributes: attributes(lines("objectClass: viewContainer"))})
	serve(t, s, &op.Add{Name: "cn=a,cn=views", Attributes: attributes(lines("objectClass: totalsView\nviewBase: dc=example,dc=com\nviewGroup: dc\nviewTotal: count"))})
	if err := materialized.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestMonitorShowsViews checks that cn=monitor shows how views are kept.
func TestMonitorShowsViews(t *testing.T) {
	s := withView(t)
	got, _ := changesOf(t, s, "cn=views,cn=monitor", op.SingleLevel, "(objectClass=monitoredObject)", "monitoredInfo monitorTimestamp")
	if top, _ := changesOf(t, s, "cn=views,cn=monitor", op.BaseObject, "(objectClass=*)", "monitoredInfo"); len(top) != 1 ||
		!strings.Contains(top[0], "monitoredInfo: lag 0 entries") || !strings.Contains(top[0], "monitoredInfo: errors 0") {
		t.Errorf("%q", top)
	}
	if len(got) != 1 || !strings.HasPrefix(got[0], "dn: cn=a,cn=views,cn=monitor\n  monitoredInfo: state kept\n  monitorTimestamp: 20") {
		t.Errorf("%q", got)
	}
}

// TestViewsSynchronized checks sync operations at cn=views, and at the definition of a view.
// They must return the definitions and no records. A sync operation at a record must be
// refused.
func TestViewsSynchronized(t *testing.T) {
	s := withView(t)
	refreshOnly := op.Control{OID: "1.3.6.1.4.1.4203.1.9.1.1", Critical: true, Value: []byte{0x30, 3, 0x0a, 1, 1}}
	for base, want := range map[string][]string{
		"cn=views":                 {"cn=a,cn=views", "cn=views"},
		"cn=a,cn=views":            {"cn=a,cn=views"},
		"dc=example,cn=a,cn=views": nil,
	} {
		got, done := changesOf(t, s, base, op.WholeSubtree, "(objectClass=*)", "1.1", refreshOnly)
		for i := range got {
			got[i], _, _ = strings.Cut(strings.TrimPrefix(got[i], "dn: "), "\n")
		}
		slices.Sort(got)
		if !slices.Equal(got, want) || (done.Code == op.Success) != (want != nil) {
			t.Errorf("synchronizing %s: %q, %v, want %q", base, got, &done.Result, want)
		}
	}
}
