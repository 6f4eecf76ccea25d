package wire_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/wire"
	"github.com/seed-4dac0d86/ldapd/ldap/wire/wiretest"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func ptr[T any](v T) *T { return &v }

// requests are requests of every kind, with encodings that were written by hand according
// to RFC 4511.
var requests = []struct {
	hex string
	op.Message
}{
	{"30 0c 02 01 01 60 07 02 01 03 04 00 80 00",
		op.Message{ID: 1, Request: &op.Bind{Version: 3, Password: []byte{}}}},
	{"30 16 02 01 01 60 11 02 01 03 04 04 63 6e 3d 61 80 06 73 65 63 72 65 74",
		op.Message{ID: 1, Request: &op.Bind{Version: 3, Name: "cn=a", Password: []byte("secret")}}},
	{"30 18 02 01 02 60 13 02 01 03 04 00 a3 0c 04 08 45 58 54 45 52 4e 41 4c 04 00",
		op.Message{ID: 2, Request: &op.Bind{Version: 3, SASL: true, Mechanism: "EXTERNAL", Credentials: []byte{}}}},
	{"30 14 02 01 02 60 0f 02 01 03 04 00 a3 08 04 06 47 53 53 41 50 49",
		op.Message{ID: 2, Request: &op.Bind{Version: 3, SASL: true, Mechanism: "GSSAPI"}}},
	{"30 05 02 01 03 42 00",
		op.Message{ID: 3, Request: &op.Unbind{}}},
	{"30 2e 02 01 04 63 29 04 04 64 63 3d 78 0a 01 02 0a 01 03 02 01 0a 02 02 01 2c 01 01 ff" +
		"87 0b 6f 62 6a 65 63 74 43 6c 61 73 73 30 04 04 02 63 6e",
		op.Message{ID: 4, Request: &op.Search{Base: "dc=x", Scope: op.WholeSubtree, Deref: op.DerefAlways,
			SizeLimit: 10, TimeLimit: 300, TypesOnly: true,
			Filter: &filter.Present{Attribute: "objectClass"}, Attributes: []string{"cn"}}}},
	{"30 2a 02 01 05 66 25 04 01 61 30 20 30 0d 0a 01 00 30 08 04 02 73 6e 31 02 04 00" +
		"30 0f 0a 01 01 30 0a 04 02 63 6e 31 04 04 00 04 00",
		op.Message{ID: 5, Request: &op.Modify{Name: "a", Changes: []op.Modification{
			{Kind: op.ModAdd, PartialAttribute: op.PartialAttribute{Description: "sn", Values: [][]byte{{}}}},
			{Kind: op.ModDelete, PartialAttribute: op.PartialAttribute{Description: "cn", Values: [][]byte{{}, {}}}}}}}},
	{"30 17 02 01 06 68 12 04 01 61 30 0d 30 0b 04 02 63 6e 31 05 04 03 78 79 7a",
		op.Message{ID: 6, Request: &op.Add{Name: "a", Attributes: []op.PartialAttribute{
			{Description: "cn", Values: [][]byte{[]byte("xyz")}}}}}},
	{"30 09 02 01 07 4a 04 64 63 3d 78",
		op.Message{ID: 7, Request: &op.Delete{Name: "dc=x"}}},
	{"30 10 02 01 08 6c 0b 04 01 61 04 01 62 01 01 00 80 00",
		op.Message{ID: 8, Request: &op.ModifyDN{Name: "a", NewRDN: "b", NewSuperior: ptr("")}}},
	{"30 0e 02 01 08 6c 09 04 01 61 04 01 62 01 01 ff",
		op.Message{ID: 8, Request: &op.ModifyDN{Name: "a", NewRDN: "b", DeleteOldRDN: true}}},
	{"30 11 02 01 09 6e 0c 04 01 61 30 07 04 02 63 6e 04 01 76",
		op.Message{ID: 9, Request: &op.Compare{Name: "a", Description: "cn", Value: []byte("v")}}},
	{"30 06 02 01 0a 50 01 09",
		op.Message{ID: 10, Request: &op.Abandon{MessageID: 9}}},
	{"30 0b 02 01 0b 77 06 80 01 31 81 01 00",
		op.Message{ID: 11, Request: &op.Extended{OID: "1", Value: []byte{0}}}},
	{"30 23 02 04 7f ff ff ff 77 03 80 01 31 a0 16 30 0b 04 03 31 2e 32 01 01 ff 04 01 00 30 07 04 05 31 2e 33 2e 34",
		op.Message{ID: 1<<31 - 1, Request: &op.Extended{OID: "1"}, Controls: []op.Control{
			{OID: "1.2", Critical: true, Value: []byte{0}}, {OID: "1.3.4"}}}},
}

func TestDecode(t *testing.T) {
	for _, test := range requests {
		b := unhex(t, test.hex)
		m, err := wire.Decode(b)
		if err != nil {
			t.Errorf("%s: %v", test.hex, err)
			continue
		}
		if d := cmp.Diff(&test.Message, m); d != "" {
			t.Errorf("%s: (-want +got)\n%s", test.hex, d)
		}
		if again := wiretest.AppendRequest(nil, m); !bytes.Equal(again, b) {
			t.Errorf("encoded again: %x\nwant:          %x", again, b)
		}
	}
}

// TestDecodeLenient checks that Decode accepts valid BER that this package would not
// write, and accepts what RFC 4511 requires servers to ignore.
func TestDecodeLenient(t *testing.T) {
	tests := []struct {
		why, hex string
		op.Message
	}{
		{"lengths of four octets", "30 84 00 00 00 09 02 01 01 42 84 00 00 00 00",
			op.Message{ID: 1, Request: &op.Unbind{}}},
		{"true is not FF", "30 10 02 01 01 6c 09 04 01 61 04 01 62 01 01 01 a0 00",
			op.Message{ID: 1, Request: &op.ModifyDN{Name: "a", NewRDN: "b", DeleteOldRDN: true}}},
		{"criticality false written out", "30 14 02 01 01 50 01 01 a0 0c 30 0a 04 03 31 2e 32 01 01 00 04 00",
			op.Message{ID: 1, Request: &op.Abandon{MessageID: 1}, Controls: []op.Control{{OID: "1.2", Value: []byte{}}}}},
		{"unknown components trail (RFC 4511, 4)", "30 13 02 01 01 60 0a 02 01 03 04 00 80 00 88 01 00 a1 02 05 00",
			op.Message{ID: 1, Request: &op.Bind{Version: 3, Password: []byte{}}}},
		{"unknown components trail a control", "30 14 02 01 01 50 01 01 a0 0c 30 0a 04 03 31 2e 32 01 01 ff 80 00",
			op.Message{ID: 1, Request: &op.Abandon{MessageID: 1}, Controls: []op.Control{{OID: "1.2", Critical: true}}}},
		{"unknown authentication choice (4.2)", "30 0c 02 01 01 60 07 02 01 03 04 00 89 00",
			op.Message{ID: 1, Request: &op.Bind{Version: 3, SASL: true}}},
	}
	for _, test := range tests {
		m, err := wire.Decode(unhex(t, test.hex))
		if err != nil {
			t.Errorf("%s: %v", test.why, err)
		} else if d := cmp.Diff(&test.Message, m); d != "" {
			t.Errorf("%s: (-want +got)\n%s", test.why, d)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	tests := []struct{ why, hex, want string }{
		{"nothing", "", "expected SEQUENCE (30), found the end"},
		{"not a sequence", "31 00", "expected SEQUENCE (30), found SET (31)"},
		{"id 0", "30 05 02 01 00 42 00", "expected INTEGER (02) of 1 to 2147483647, found 0"},
		{"id below 0", "30 05 02 01 ff 42 00", "found -1"},
		{"id too large", "30 09 02 05 00 80 00 00 00 42 00", "found 2147483648"},
		{"no id", "30 02 42 00", "expected INTEGER (02), found [APPLICATION 2] (42)"},
		{"no operation", "30 03 02 01 01", "expected a request, found the end"},
		{"a response", "30 0c 02 01 01 61 07 0a 01 00 04 00 04 00", "expected a request, found [APPLICATION 1] (61)"},
		{"unknown operation", "30 05 02 01 01 5e 00", "expected a request, found [APPLICATION 30] (5e)"},
		{"inner length too long", "30 0c 02 01 01 60 08 02 01 03 04 00 80 00", "expected [APPLICATION 0] (60) of 8 octets, found only 7"},
		{"octets after it", "30 05 02 01 01 42 00 00", "expected the end"},
		{"bind without authentication", "30 0a 02 01 01 60 05 02 01 03 04 00", "expected an element, found the end"},
		{"bind name not UTF-8", "30 0d 02 01 01 60 08 02 01 03 04 01 ff 80 00", "not UTF-8"},
		{"broken filter", "30 1a 02 01 01 63 15 04 00 0a 01 00 0a 01 00 02 01 00 02 01 00 01 01 00 a3 00 30 00", "offset 26: expected OCTET STRING (04)"},
		{"criticality is an INTEGER", "30 14 02 01 01 50 01 01 a0 0c 30 0a 04 03 31 2e 32 02 01 01 04 00", "a criticality or a value, found INTEGER (02)"},
		{"criticality behind the value", "30 14 02 01 01 50 01 01 a0 0c 30 0a 04 03 31 2e 32 04 00 01 01 ff", "found BOOLEAN (01)"},
		{"criticality of two octets", "30 15 02 01 01 50 01 01 a0 0d 30 0b 04 03 31 2e 32 01 02 ff ff 04 00", "a boolean of one octet"},
		{"control is not a sequence", "30 0a 02 01 01 50 01 01 a0 02 04 00", "expected SEQUENCE (30), found OCTET STRING (04)"},
	}
	for _, test := range tests {
		m, err := wire.Decode(unhex(t, test.hex))
		var broken *wire.Error
		if !errors.As(err, &broken) || !strings.Contains(err.Error(), test.want) || m != nil {
			t.Errorf("%s: got %v, %v\nwant %s", test.why, m, err, test.want)
		}
	}
}

// TestDecodeFilters checks the errors for wrong filters (RFC 4511, 4.1.1). If the filter
// has a valid encoding but breaks another rule, Decode returns a Refusal. If the encoding
// of the filter, or of what follows the filter, is invalid, Decode returns an Error.
func TestDecodeFilters(t *testing.T) {
	for _, c := range []struct {
		name, filter, behind string
		refused              bool
	}{
		{"no substrings", "a4 06 04 02 63 6e 30 00", "30 00", true},
		{"two initial", "a4 0c 04 02 63 6e 30 06 80 01 61 80 01 61", "30 00", true},
		{"initial behind any", "a4 0c 04 02 63 6e 30 06 81 01 61 80 01 61", "30 00", true},
		{"any behind final", "a4 0c 04 02 63 6e 30 06 82 01 61 81 01 61", "30 00", true},
		{"extensible match of nothing", "a9 03 83 01 61", "30 00", true},
		{"within others", "a0 0a a2 08 a4 06 04 02 63 6e 30 00", "30 00", true},
		{"broken behind it", "a0 0a a4 06 04 02 63 6e 30 00 a2 00", "30 00", false},
		{"no attributes", "a9 03 83 01 61", "", false},
		{"NOT of nothing", "a2 00", "30 00", false},
		{"another kind of substring", "a4 09 04 02 63 6e 30 03 83 01 61", "30 00", false},
	} {
		body := append(unhex(t, "04 00 0a 01 00 0a 01 00 02 01 00 02 01 00 01 01 00"), unhex(t, c.filter+c.behind)...)
		b := append([]byte{0x30, byte(len(body) + 5), 2, 1, 7, 0x63, byte(len(body))}, body...)
		_, err := wire.Decode(b)
		var broken *wire.Error
		var refusal *wire.Refusal
		if c.refused && (!errors.As(err, &refusal) || refusal.Message.ID != 7 || refusal.Result.Code != op.ProtocolError) {
			t.Errorf("%s: %v, want a refusal", c.name, err)
		}
		if !c.refused && !errors.As(err, &broken) {
			t.Errorf("%s: %v, want an Error", c.name, err)
		}
	}
}

func TestDecodeRefusals(t *testing.T) {
	search := func(change func(*op.Search)) *op.Message {
		s := &op.Search{Filter: &filter.Present{Attribute: "cn"}}
		change(s)
		return &op.Message{ID: 7, Request: s}
	}
	tests := []struct {
		*op.Message
		code op.Code
		want string
	}{
		{search(func(s *op.Search) { s.Base = "cn=\xff" }), op.InvalidDNSyntax, `the name "cn=\xff" is not UTF-8`},
		{search(func(s *op.Search) { s.Scope = 4 }), op.ProtocolError, "scope 4 is unknown"},
		{search(func(s *op.Search) { s.Deref = 4 }), op.ProtocolError, "derefAliases 4 is unknown"},
		{search(func(s *op.Search) { s.SizeLimit = -1 }), op.ProtocolError, "sizeLimit -1 is not in 0 to 2147483647"},
		{search(func(s *op.Search) { s.TimeLimit = 1 << 40 }), op.ProtocolError, "timeLimit 1099511627776 is not in"},
		{search(func(s *op.Search) { s.Attributes = []string{"a\x80"} }), op.ProtocolError, "is not UTF-8"},
		{&op.Message{ID: 7, Request: &op.Modify{Changes: []op.Modification{{Kind: 4}}}}, op.ProtocolError, "modification 4 is unknown"},
		{&op.Message{ID: 7, Request: &op.Add{Attributes: []op.PartialAttribute{{Description: "cn"}}}}, op.ProtocolError, "attribute cn has no values"},
		{&op.Message{ID: 7, Request: &op.Add{Name: "cn=a"}}, op.ProtocolError, "an entry has attributes"},
	}
	for _, test := range tests {
		_, err := wire.Decode(wiretest.AppendRequest(nil, test.Message))
		var refusal *wire.Refusal
		if !errors.As(err, &refusal) {
			t.Errorf("%s: got %v", test.want, err)
			continue
		}
		r := refusal.Result
		if refusal.Message.ID != 7 || r.Code != test.code || !strings.Contains(r.Diagnostic, test.want) {
			t.Errorf("got %v, want %d: %s", refusal, test.code, test.want)
		}
	}
}

// TestDecodeBrokenAfterRefusal checks that Decode returns an Error, and not a Refusal, if
// a message with invalid contents is not well-formed to its end.
func TestDecodeBrokenAfterRefusal(t *testing.T) {
	_, err := wire.Decode(unhex(t, "30 10 02 01 01 66 0b 04 01 ff 30 06 30 04 0a 01 00 31"))
	var broken *wire.Error
	if !errors.As(err, &broken) {
		t.Errorf("got %v, want an Error", err)
	}
}

func TestSize(t *testing.T) {
	tests := []struct {
		hex  string
		want int
	}{{"", 0}, {"30", 0}, {"30 05", 7}, {"30 05 02 01", 7}, {"30 82", 0}, {"30 82 01", 0}, {"30 82 01 00", 260}}
	for _, test := range tests {
		if n, err := wire.Size(unhex(t, test.hex)); n != test.want || err != nil {
			t.Errorf("Size(%s) = %d, %v, want %d", test.hex, n, err, test.want)
		}
	}
	for _, bad := range []string{"31", "00", "16 03 01" /* TLS */, "47 45 54" /* HTTP */, "30 80", "30 ff"} {
		if n, err := wire.Size(unhex(t, bad)); err == nil {
			t.Errorf("Size(%s) = %d", bad, n)
		}
	}
}

// TestDecodeRoundTrip checks that Decode returns random messages unchanged.
func TestDecodeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := messages.Draw(t, "message")
		b := wiretest.AppendRequest(nil, want)
		if n, err := wire.Size(b); n != len(b) {
			t.Fatalf("Size = %d, %v, want %d", n, err, len(b))
		}
		got, err := wire.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("(-want +got)\n%s", d)
		}
	})
}

var (
	text    = rapid.String()
	octets  = rapid.SliceOfN(rapid.Byte(), 0, 200)
	maybe   = rapid.OneOf(octets, rapid.Just([]byte(nil)))
	id      = rapid.Int32Range(1, 1<<31-1)
	values  = rapid.SliceOfN(octets, 1, 4)
	changes = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) op.Modification {
		kind := rapid.SampledFrom([]op.ModKind{op.ModAdd, op.ModDelete, op.ModReplace, op.ModIncrement}).Draw(t, "kind")
		return op.Modification{Kind: kind, PartialAttribute: attribute.Draw(t, "attribute")}
	}), 1, 4)
	attribute = rapid.Custom(func(t *rapid.T) op.PartialAttribute {
		return op.PartialAttribute{Description: text.Draw(t, "description"), Values: values.Draw(t, "values")}
	})
	control = rapid.Custom(func(t *rapid.T) op.Control {
		return op.Control{OID: text.Draw(t, "oid"), Critical: rapid.Bool().Draw(t, "critical"), Value: maybe.Draw(t, "value")}
	})
	messages = rapid.Custom(func(t *rapid.T) *op.Message {
		m := &op.Message{ID: id.Draw(t, "id"), Request: request(t)}
		if rapid.Bool().Draw(t, "controls?") {
			m.Controls = rapid.SliceOfN(control, 1, 3).Draw(t, "controls")
		}
		return m
	})
)

func request(t *rapid.T) op.Request {
	name, more := text.Draw(t, "name"), text.Draw(t, "more")
	value, flag := octets.Draw(t, "value"), rapid.Bool().Draw(t, "flag")
	limit := rapid.IntRange(0, 1<<31-1).Draw(t, "limit")
	all := []op.Request{
		&op.Bind{Version: 3, Name: name, Password: value},
		&op.Bind{Version: 3, Name: name, SASL: true, Mechanism: more, Credentials: maybe.Draw(t, "credentials")},
		&op.Unbind{},
		&op.Search{Base: name, Scope: op.Subordinates, Deref: op.DerefInSearching, SizeLimit: limit, TypesOnly: flag,
			Filter: &filter.Equal{Attribute: more, Value: value}, Attributes: rapid.SliceOfN(text, 1, 3).Draw(t, "attributes")},
		&op.Modify{Name: name, Changes: changes.Draw(t, "changes")},
		&op.Add{Name: name, Attributes: rapid.SliceOfN(attribute, 1, 3).Draw(t, "attributes")},
		&op.Delete{Name: name},
		&op.ModifyDN{Name: name, NewRDN: more, DeleteOldRDN: flag, NewSuperior: &more},
		&op.Compare{Name: name, Description: more, Value: value},
		&op.Abandon{MessageID: id.Draw(t, "abandoned")},
		&op.Extended{OID: name, Value: maybe.Draw(t, "request value")},
	}
	return rapid.SampledFrom(all).Draw(t, "request")
}

// FuzzDecode checks that Decode returns a message or one of its two errors for any bytes.
// A decoded message must be equal after it was encoded and decoded again.
func FuzzDecode(f *testing.F) {
	for _, test := range requests {
		f.Add(unhex(f, test.hex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := wire.Decode(b)
		if err != nil {
			var broken *wire.Error
			var refusal *wire.Refusal
			if !errors.As(err, &broken) && !errors.As(err, &refusal) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		again, err := wire.Decode(wiretest.AppendRequest(nil, m))
		if err != nil {
			t.Fatalf("%v, encoded again: %v", m, err)
		}
		if d := cmp.Diff(m, again); d != "" {
			t.Fatalf("(-first +again)\n%s", d)
		}
	})
}

func BenchmarkDecodeSearch(b *testing.B) {
	in := wiretest.AppendRequest(nil, &op.Message{ID: 1000, Request: &op.Search{Base: "dc=example,dc=com",
		Scope: op.WholeSubtree, Filter: &filter.Equal{Attribute: "uid", Value: []byte("u0000123")},
		Attributes: []string{"cn", "mail"}}})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.Decode(in); err != nil {
			b.Fatal(err)
		}
	}
}
