package wire_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/wire"
	"github.com/seed-4dac0d86/ldapd/ldap/wire/wiretest"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

func attr(name, options string, values ...string) entry.Attribute {
	a := entry.Attribute{Type: schema.Core().Attribute(name), Options: options}
	for _, v := range values {
		a.Values = append(a.Values, []byte(v))
	}
	return a
}

func TestAppend(t *testing.T) {
	refer := &op.Response{Result: op.Result{Code: op.Referral, MatchedDN: "dc=x", Diagnostic: "no", Referrals: []string{"ldap://h"}}}
	tests := []struct {
		what, want string
		got        []byte
	}{
		{"bind", "30 0c 02 01 01 61 07 0a 01 00 04 00 04 00",
			wire.AppendResponse(nil, 1, &op.Bind{}, &op.Response{})},
		{"bind with SASL credentials", "30 0f 02 01 01 61 0a 0a 01 0e 04 00 04 00 87 01 00",
			wire.AppendResponse(nil, 1, &op.Bind{}, &op.Response{Result: op.Result{Code: op.SASLBindInProgress}, SASLCredentials: []byte{0}})},
		{"search done, referral", "30 1e 02 01 02 65 19 0a 01 0a 04 04 64 63 3d 78 04 02 6e 6f a3 0a 04 08 6c 64 61 70 3a 2f 2f 68",
			wire.AppendResponse(nil, 2, &op.Search{}, refer)},
		{"modify", "30 0c 02 01 01 67 07 0a 01 20 04 00 04 00",
			wire.AppendResponse(nil, 1, &op.Modify{}, &op.Response{Result: op.Result{Code: op.NoSuchObject}})},
		{"add", "30 0c 02 01 01 69 07 0a 01 44 04 00 04 00",
			wire.AppendResponse(nil, 1, &op.Add{}, &op.Response{Result: op.Result{Code: op.EntryAlreadyExists}})},
		{"delete", "30 0c 02 01 01 6b 07 0a 01 00 04 00 04 00",
			wire.AppendResponse(nil, 1, &op.Delete{}, &op.Response{})},
		{"modifyDN", "30 0c 02 01 01 6d 07 0a 01 00 04 00 04 00",
			wire.AppendResponse(nil, 1, &op.ModifyDN{}, &op.Response{})},
		{"compare", "30 0e 02 03 01 00 00 6f 07 0a 01 06 04 00 04 00",
			wire.AppendResponse(nil, 65536, &op.Compare{}, &op.Response{Result: op.Result{Code: op.CompareTrue}})},
		{"extended", "30 12 02 01 01 78 0d 0a 01 00 04 00 04 00 8a 01 31 8b 01 ff",
			wire.AppendResponse(nil, 1, &op.Extended{}, &op.Response{OID: "1", Value: []byte{0xff}})},
		{"code above 127", "30 0d 02 01 01 78 08 0a 02 10 00 04 00 04 00",
			wire.AppendResponse(nil, 1, &op.Extended{}, &op.Response{Result: op.Result{Code: 4096}})},
		{"control", "30 17 02 01 01 6b 07 0a 01 00 04 00 04 00 a0 09 30 07 04 03 31 2e 32 04 00",
			wire.AppendResponse(nil, 1, &op.Delete{}, &op.Response{Controls: []op.Control{{OID: "1.2", Value: []byte{}}}})},
		{"critical control without value", "30 18 02 01 01 6b 07 0a 01 00 04 00 04 00 a0 0a 30 08 04 03 31 2e 32 01 01 ff",
			wire.AppendResponse(nil, 1, &op.Delete{}, &op.Response{Controls: []op.Control{{OID: "1.2", Critical: true}}})},
		{"reference", "30 0f 02 01 03 73 0a 04 08 6c 64 61 70 3a 2f 2f 68",
			wire.AppendReference(nil, 3, []string{"ldap://h"}, nil)},
		{"intermediate", "30 0b 02 01 03 79 06 80 01 31 81 01 00",
			wire.AppendIntermediate(nil, 3, "1", []byte{0}, nil)},
		{"empty intermediate", "30 05 02 01 03 79 00",
			wire.AppendIntermediate(nil, 3, "", nil, nil)},
		{"notice", "30 26 02 01 00 78 21 0a 01 34 04 00 04 02 6e 6f 8a 16 31 2e 33 2e 36 2e 31 2e 34 2e 31 2e 31 34 36 36 2e 32 30 30 33 36",
			wire.AppendNotice(nil, op.Errorf(op.Unavailable, "no"))},
		{"nothing for abandon", "", wire.AppendResponse(nil, 1, &op.Abandon{}, &op.Response{})},
		{"nothing for unbind", "", wire.AppendResponse(nil, 1, &op.Unbind{}, &op.Response{})},
	}
	for _, test := range tests {
		if want := unhex(t, test.want); !bytes.Equal(test.got, want) {
			t.Errorf("%s:\n got %x\nwant %x", test.what, test.got, want)
		}
	}
}

func TestAppendEntry(t *testing.T) {
	e := &op.SearchEntry{Name: "dc=x", Attributes: []entry.Attribute{attr("cn", "", "a", "bb"), attr("sn", ";lang-de", "c")}}
	const (
		values = "30 2f 02 01 03 64 2a 04 04 64 63 3d 78 30 22" +
			"30 0d 04 02 63 6e 31 07 04 01 61 04 02 62 62" +
			"30 11 04 0a 73 6e 3b 6c 61 6e 67 2d 64 65 31 03 04 01 63"
		types = "30 25 02 01 03 64 20 04 04 64 63 3d 78 30 18" +
			"30 06 04 02 63 6e 31 00" +
			"30 0e 04 0a 73 6e 3b 6c 61 6e 67 2d 64 65 31 00"
	)
	if got := wire.AppendEntry(nil, 3, e); !bytes.Equal(got, unhex(t, values)) {
		t.Errorf("got %x", got)
	}
	e.TypesOnly = true
	if got := wire.AppendEntry(nil, 3, e); !bytes.Equal(got, unhex(t, types)) {
		t.Errorf("types only: got %x", got)
	}
}

// TestAppendLargeEntry checks lengths of more than one octet, at every level.
func TestAppendLargeEntry(t *testing.T) {
	big := strings.Repeat("x", 70000)
	e := &op.SearchEntry{Name: "dc=x", Attributes: []entry.Attribute{attr("cn", "", "a", big), attr("sn", "", "c")},
		Controls: []op.Control{{OID: "1.2"}}}
	got, err := wiretest.Decode(wire.AppendEntry([]byte("before"), 3, e)[len("before"):])
	if err != nil {
		t.Fatal(err)
	}
	want := &wiretest.Answer{ID: 3, Tag: 0x64, Name: "dc=x", Response: op.Response{Controls: e.Controls},
		Attributes: []op.PartialAttribute{
			{Description: "cn", Values: [][]byte{[]byte("a"), []byte(big)}},
			{Description: "sn", Values: [][]byte{[]byte("c")}}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestAppendRoundTrip checks that a decoded answer equals the encoded answer, which is
// appended to a buffer with contents.
func TestAppendRoundTrip(t *testing.T) {
	before := []byte("before")
	rapid.Check(t, func(t *rapid.T) {
		r := &op.Response{
			Result: op.Result{Code: op.Code(rapid.IntRange(0, 5000).Draw(t, "code")), MatchedDN: text.Draw(t, "matched"),
				Diagnostic: text.Draw(t, "diagnostic"), Referrals: rapid.SliceOf(text).Draw(t, "referrals")},
			Controls: rapid.SliceOf(control).Draw(t, "controls"),
			OID:      text.Draw(t, "oid"),
			Value:    maybe.Draw(t, "value"),
		}
		n := id.Draw(t, "id")
		b := wire.AppendResponse(before, n, &op.Extended{}, r)
		a, err := wiretest.Decode(b[len(before):])
		if err != nil {
			t.Fatal(err)
		}
		want := &wiretest.Answer{ID: n, Tag: 0x78, Response: *r}
		if d := cmp.Diff(want, a, cmpopts.EquateEmpty()); d != "" || (a.Response.Value == nil) != (r.Value == nil) {
			t.Fatalf("(-want +got)\n%s", d)
		}
	})
}

// TestDiagnosticIsUTF8 checks that an answer is valid even if its diagnostic quotes a
// client's octets.
func TestDiagnosticIsUTF8(t *testing.T) {
	b := wire.AppendResponse(nil, 1, &op.Search{}, &op.Response{Result: *op.Errorf(op.InvalidDNSyntax, "cn=\xff!")})
	a, err := wiretest.Decode(b)
	if err != nil || a.Response.Diagnostic != "cn=\ufffd!" {
		t.Errorf("got %q, %v", a.Response.Diagnostic, err)
	}
}

// TestAppendAllocatesNothing checks that encoding into a large enough buffer does not
// allocate.
func TestAppendAllocatesNothing(t *testing.T) {
	e, r, search := sixteen(), &op.Response{}, &op.Search{}
	buf := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() {
		b := wire.AppendEntry(buf, 1000, e)
		wire.AppendResponse(b, 1000, search, r)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAppendEntry(b *testing.B) {
	e := sixteen()
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = wire.AppendEntry(buf[:0], 1000, e)
	}
	b.SetBytes(int64(len(buf)))
}

// sixteen returns a person with sixteen attributes.
func sixteen() *op.SearchEntry {
	names := []string{"uid", "cn", "sn", "givenName", "mail", "telephoneNumber", "l", "departmentNumber", "employeeNumber",
		"title", "description", "postalCode", "street", "initials", "mobile"}
	e := &op.SearchEntry{Name: "uid=u0000123,ou=people,dc=example,dc=com"}
	e.Attributes = append(e.Attributes, attr("objectClass", "", "top", "person", "organizationalPerson", "inetOrgPerson"))
	for i, n := range names {
		e.Attributes = append(e.Attributes, attr(n, "", fmt.Sprintf("some value of it %d", i)))
	}
	return e
}
