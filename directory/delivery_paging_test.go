package directory_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/ber"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

func pagedControl(size int, cookie []byte) op.Control {
	b := ber.Open(nil, ber.Sequence)
	b = ber.AppendInt(b, ber.Integer, int64(size))
	b = ber.AppendString(b, ber.OctetString, cookie)
	return op.Control{OID: "1.2.840.113556.1.4.319", Critical: true, Value: ber.Close(b, 0)}
}

// page requests one page and returns the names on it, the next cookie, and the result.
func page(t *testing.T, s *directory.Session, r *op.Search, size int, cookie []byte) ([]string, []byte, op.Result) {
	t.Helper()
	var out answers
	s.Serve(t.Context(), &op.Message{Request: r, Controls: []op.Control{pagedControl(size, cookie)}}, &out)
	return out.entries, cookieOf(out.done), out.done.Result
}

// cookieOf returns the cookie in a response. It is empty on the last page.
func cookieOf(r *op.Response) []byte {
	for _, c := range r.Controls {
		if c.OID == "1.2.840.113556.1.4.319" {
			r := ber.NewReader(c.Value)
			r.Enter(ber.Sequence)
			r.Int(ber.Integer)
			return bytes.Clone(r.Bytes(ber.OctetString))
		}
	}
	return nil
}

func serve(t testing.TB, s *directory.Session, r op.Request) {
	t.Helper()
	var out answers
	s.Serve(t.Context(), &op.Message{Request: r}, &out)
	if out.done.Code != op.Success {
		t.Fatalf("%T: %v", r, &out.done.Result)
	}
}

// newPeople returns a directory with n devices, and an administrator's session.
func newPeople(t *testing.T, n int) (*directory.Directory, *directory.Session) {
	t.Helper()
	return newPeopleIn(t, newPartition(t), n)
}

func newPeopleIn(t *testing.T, p *partition.Partition, n int) (*directory.Directory, *directory.Session) {
	t.Helper()
	d := newDirectory(t, p, directory.Options{Secret: []byte("k")})
	s := d.NewSession(nil)
	serve(t, s, &op.Bind{Version: 3, Name: "cn=admin,dc=example,dc=com", Password: []byte("secret")})
	serve(t, s, &op.Add{Name: "dc=example,dc=com", Attributes: attributes([]line{
		{"objectClass", "dcObject"}, {"objectClass", "organization"}, {"dc", "example"}, {"o", "Example"}})})
	for i := range n {
		serve(t, s, &op.Add{Name: fmt.Sprintf("cn=d%02d,dc=example,dc=com", i), Attributes: attributes([]line{
			{"objectClass", "device"}, {"cn", fmt.Sprintf("d%02d", i)}})})
	}
	return d, s
}

func devices(f string) *op.Search {
	return &op.Search{Base: "dc=example,dc=com", Scope: op.WholeSubtree, Filter: filter.MustParse(f), Attributes: []string{"1.1"}}
}

// TestPagesShowOneState checks the pages of a search, for several page sizes and plans. The
// pages together must contain every entry of the first page's state once.
func TestPagesShowOneState(t *testing.T) {
	const n = 25
	for _, f := range []string{"(objectClass=device)", "(cn=d*)", "(serialNumber=*)", "(!(serialNumber=x))", "(|(cn=d0*)(cn=d1*)(cn=d2*))"} {
		for _, size := range []int{1, 7, 25, 26} {
			d, s := newPeople(t, n)
			var whole answers
			s.Serve(t.Context(), &op.Message{Request: devices(f)}, &whole)
			got, cookie, result := page(t, s, devices(f), size, nil)
			serve(t, s, &op.Delete{Name: "cn=d03,dc=example,dc=com"})
			serve(t, s, &op.Add{Name: "cn=d99,dc=example,dc=com", Attributes: attributes([]line{{"objectClass", "device"}, {"cn", "d99"}})})
			for len(cookie) > 0 && result.Code == op.Success {
				if len(got)%size != 0 {
					t.Fatalf("%s: a page that is not the last has %d entries", f, len(got)%size)
				}
				// The next page comes from another server with the same secret.
				other := newOther(t, d, "k").NewSession(nil)
				serve(t, other, &op.Bind{Version: 3, Name: "cn=admin,dc=example,dc=com", Password: []byte("secret")})
				var more []string
				more, cookie, result = page(t, other, devices(f), size, cookie)
				got = append(got, more...)
			}
			slices.Sort(got)
			slices.Sort(whole.entries)
			if d := cmp.Diff(whole.entries, got); d != "" || result.Code != op.Success {
				t.Errorf("%s by %d: %v\n%s", f, size, &result, d)
			}
		}
	}
}

// newOther returns another server over the same partition.
func newOther(t *testing.T, d *directory.Directory, secret string) *directory.Directory {
	return newDirectory(t, directory.PartitionOf(d), directory.Options{Secret: []byte(secret)})
}

// TestPagesOverAliases checks pages of a search that follows aliases. Such a search
// consists of several streams, so its pages continue by counting results.
func TestPagesOverAliases(t *testing.T) {
	_, s := newPeople(t, 7)
	for _, a := range []string{"d01", "d05"} {
		serve(t, s, &op.Add{Name: "cn=to " + a + ",cn=d00,dc=example,dc=com", Attributes: attributes([]line{
			{"objectClass", "alias"}, {"objectClass", "extensibleObject"}, {"cn", "to " + a},
			{"aliasedObjectName", "cn=" + a + ",dc=example,dc=com"}})})
	}
	r := devices("(objectClass=device)")
	r.Base, r.Deref = "cn=d00,dc=example,dc=com", op.DerefInSearching
	var got []string
	var cookie []byte
	for i := 0; i == 0 || len(cookie) > 0; i++ {
		var names []string
		var result op.Result
		names, cookie, result = page(t, s, r, 1, cookie)
		if len(names) != 1 || result.Code != op.Success || i > 3 {
			t.Fatalf("page %d: %q, %v", i, names, &result)
		}
		got = append(got, names...)
	}
	slices.Sort(got)
	want := []string{"dn: cn=d00,dc=example,dc=com\n", "dn: cn=d01,dc=example,dc=com\n", "dn: cn=d05,dc=example,dc=com\n"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestCookies(t *testing.T) {
	d, s := newPeople(t, 5)
	r := devices("(objectClass=device)")
	_, cookie, _ := page(t, s, r, 2, nil)
	if len(cookie) == 0 {
		t.Fatal("no cookie")
	}
	broken := append([]byte{cookie[0] ^ 1}, cookie[1:]...)
	narrower := *r
	narrower.Scope = op.SingleLevel
	for _, c := range []struct {
		what   string
		s      *directory.Session
		r      *op.Search
		cookie []byte
		code   op.Code
	}{
		{"the search's own", s, r, cookie, op.Success},
		{"twice", s, r, cookie, op.Success},
		{"another filter", s, devices("(objectClass=*)"), cookie, op.UnwillingToPerform},
		{"another scope", s, &narrower, cookie, op.UnwillingToPerform},
		{"another user", d.NewSession(nil), r, cookie, op.UnwillingToPerform},
		{"broken", s, r, broken, op.UnwillingToPerform},
		{"short", s, r, cookie[:5], op.UnwillingToPerform},
		{"another secret", newOther(t, d, "x").NewSession(nil), r, cookie, op.UnwillingToPerform},
	} {
		got, _, result := page(t, c.s, c.r, 2, c.cookie)
		if result.Code != c.code || (len(got) == 2) != (c.code == op.Success) {
			t.Errorf("%s: %d entries, %v", c.what, len(got), &result)
		}
	}
	// Size 0 with a cookie ends the search.
	if got, next, result := page(t, s, r, 0, cookie); len(got)+len(next) > 0 || result.Code != op.Success {
		t.Errorf("abandoned: %v, %x, %v", got, next, &result)
	}
	// Size 0 without a cookie means no paging.
	if got, _, _ := page(t, s, r, 0, nil); len(got) != 5 {
		t.Errorf("%d entries", len(got))
	}
}

// TestSizeLimitOverPages checks that the size limit applies to all pages together.
func TestSizeLimitOverPages(t *testing.T) {
	_, s := newPeople(t, 9)
	r := devices("(objectClass=device)")
	r.SizeLimit = 5
	total := 0
	var cookie []byte
	for range 4 {
		got, next, result := page(t, s, r, 2, cookie)
		total += len(got)
		if cookie = next; len(cookie) == 0 {
			if total != 5 || result.Code != op.SizeLimitExceeded {
				t.Errorf("%d entries, %v", total, &result)
			}
			return
		}
	}
	t.Error("no end")
}
