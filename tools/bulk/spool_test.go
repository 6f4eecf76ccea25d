package bulk

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// TestSpool reads back what was added to a spool, in its order.
func TestSpool(t *testing.T) {
	var s spool
	defer s.close()
	want := []*item{
		{file: "a.ldif", Record: &ldif.Record{Line: 7, DN: "cn=\xff,dc=x", Attributes: []op.PartialAttribute{
			{Description: "cn;lang-de", Values: [][]byte{[]byte("\xff"), bytes.Repeat([]byte("x"), 1<<17)}},
			{Description: "objectClass", Values: [][]byte{[]byte("person")}},
		}}},
		{file: "b.ldif", Record: &ldif.Record{Line: 1 << 30, DN: "dc=y"}},
	}
	for _, x := range want {
		if err := s.add(x); err != nil {
			t.Fatal(err)
		}
	}
	var got []*item
	for x, err := range s.items() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, x)
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(item{}), cmp.AllowUnexported(ldif.Record{})); d != "" {
		t.Error(d)
	}
}

// TestSpoolCutShort reads a spool whose file lacks its end, as on a full disk. No record must be
// returned.
func TestSpoolCutShort(t *testing.T) {
	var s spool
	defer s.close()
	if err := s.add(&item{file: "a", Record: &ldif.Record{DN: "dc=x"}}); err != nil {
		t.Fatal(err)
	}
	if err := s.w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := s.f.Truncate(3); err != nil {
		t.Fatal(err)
	}
	for x, err := range s.items() {
		if err == nil {
			t.Errorf("a record was read from a file that was cut short: %v", x)
		}
	}
}
