package control_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// parsers contains all Parse functions by name.
var parsers = map[string]func([]byte) (any, error){
	"ParsePagedResults":         untyped(control.ParsePagedResults),
	"ParseSortRequest":          untyped(control.ParseSortRequest),
	"ParseVLVRequest":           untyped(control.ParseVLVRequest),
	"ParseVLVResponse":          untyped(control.ParseVLVResponse),
	"ParseMatchedValues":        untyped(control.ParseMatchedValues),
	"ParseAssertion":            untyped(control.ParseAssertion),
	"ParseDereference":          untyped(control.ParseDereference),
	"ParseReadEntry":            untyped(control.ParseReadEntry),
	"ParseEntryRead":            untyped(control.ParseEntryRead),
	"ParseAccountUsable":        untyped(control.ParseAccountUsable),
	"ParseProxiedAuthorization": untyped(control.ParseProxiedAuthorization),
	"ParseSessionTracking":      untyped(control.ParseSessionTracking),
	"ParseSubentries":           untyped(control.ParseSubentries),
	"ParseSyncRequest":          untyped(control.ParseSyncRequest),
	"ParsePersistentSearch":     untyped(control.ParsePersistentSearch),
	"ParsePasswordModifyResult": untyped(control.ParsePasswordModifyResult),
	"ParsePasswordModify":       untyped(control.ParsePasswordModify),
	"ParseEffectiveRights":      untyped(control.ParseEffectiveRights),
	"ParseExplain":              untyped(control.ParseExplain),
	"ParseExplained":            untyped(control.ParseExplained),
	"ParseAccessDiff":           untyped(control.ParseAccessDiff),
	"ParseRestore":              untyped(control.ParseRestore),
	"ParseRestored":             untyped(control.ParseRestored),
	"ParseDiff":                 untyped(control.ParseDiff),
	"ParseDifferences":          untyped(control.ParseDifferences),
	"ParseStartJob":             untyped(control.ParseStartJob),
	"ParseJobNumber":            untyped(control.ParseJobNumber),
	"ParseCancel":               untyped(control.ParseCancel),
	"ParseBranch":               untyped(control.ParseBranch),
	"ParseTransaction":          untyped(control.ParseTransaction),
	"ParseEndTransaction":       untyped(control.ParseEndTransaction),
	"ParseEndTransactionResult": untyped(control.ParseEndTransactionResult),
}

func untyped[T any](parse func([]byte) (T, error)) func([]byte) (any, error) {
	return func(value []byte) (any, error) { return parse(value) }
}

func text(s string) *string { return &s }

// An example is a value, encoded by hand from the ASN.1 of its RFC or draft, and the
// parsed form of the value.
type example struct {
	parser, value string
	want          any
}

var examples = []example{
	{"ParsePagedResults", "\x30\x05\x02\x01\x64\x04\x00", control.PagedResults{Size: 100, Cookie: []byte{}}},
	{"ParsePagedResults", "\x30\x84\x00\x00\x00\x08\x02\x01\x00\x04\x03abc", control.PagedResults{Cookie: []byte("abc")}},
	{"ParsePagedResults", "\x30\x08\x02\x04\x7f\xff\xff\xff\x04\x00", control.PagedResults{Size: 1<<31 - 1, Cookie: []byte{}}},

	{"ParseVLVResponse", "\x30\x09\x02\x01\x02\x02\x01\x03\x0a\x01\x3d", control.VLVResponse{Target: 2, Count: 3, Code: control.OffsetRangeError}},
	{"ParseVLVResponse", "\x30\x0c\x02\x01\x02\x02\x01\x03\x0a\x01\x00\x04\x01c", control.VLVResponse{Target: 2, Count: 3, Context: []byte("c")}},

	{"ParseSortRequest", "\x30\x06\x30\x04\x04\x02cn", control.SortRequest{Keys: []control.SortKey{{Attribute: "cn"}}}},
	{"ParseSortRequest", "\x30\x1a\x30\x0f\x04\x02sn\x80\x06\x32.5.13\x81\x01\xff\x30\x07\x04\x02cn\x81\x01\x00", control.SortRequest{Keys: []control.SortKey{
		{Attribute: "sn", Rule: "2.5.13", Reverse: true}, {Attribute: "cn"}}}},

	{"ParseSortRequest", "\x30\x10\x30\x0e\x04\x02cn\x04\x00\x01\x01\xff\x04\x00\x01\x01\xff", control.SortRequest{Keys: []control.SortKey{{Attribute: "cn", Reverse: true}}}}, // net-ldap

	{"ParseVLVRequest", "\x30\x0e\x02\x01\x01\x02\x01\x02\xa0\x06\x02\x01\x03\x02\x01\x04", control.VLVRequest{Before: 1, After: 2, Offset: 3, Count: 4}},
	{"ParseVLVRequest", "\x30\x0e\x02\x01\x00\x02\x01\x09\x81\x01a\x04\x03ctx", control.VLVRequest{After: 9, Value: []byte("a"), Context: []byte("ctx")}},
	{"ParseVLVRequest", "\x30\x08\x02\x01\x00\x02\x01\x00\x81\x00", control.VLVRequest{Value: []byte{}}},

	{"ParseMatchedValues", "\x30\x0d\x87\x02cn\xa3\x07\x04\x02sn\x04\x01x", control.MatchedValues{Items: []filter.Filter{
		&filter.Present{Attribute: "cn"}, &filter.Equal{Attribute: "sn", Value: []byte("x")}}}},
	{"ParseMatchedValues", "\x30\x0b\xa9\x09\x82\x02cn\x81\x00\x83\x01x", control.MatchedValues{Items: []filter.Filter{ // UnboundID
		&filter.Extensible{Attribute: "cn", Value: []byte("x")}}}},
	{"ParseAssertion", "\xa0\x04\x87\x02cn", control.Assertion{Filter: filter.And{&filter.Present{Attribute: "cn"}}}},

	{"ParseDereference", "\x30\x1b\x30\x10\x04\x06member\x30\x06\x04\x01c\x04\x01d\x30\x07\x04\x03\x61;b\x30\x00", control.Dereference{Specs: []control.DerefSpec{
		{Attribute: "member", Attributes: []string{"c", "d"}}, {Attribute: "a;b", Attributes: []string{}}}}},

	{"ParseReadEntry", "\x30\x00", control.ReadEntry{Attributes: []string{}}},
	{"ParseReadEntry", "\x30\x07\x04\x02cn\x04\x01+", control.ReadEntry{Attributes: []string{"cn", "+"}}},

	{"ParseEntryRead", "\x64\x13\x04\x04cn=x\x30\x0b\x30\x09\x04\x01n\x31\x04\x04\x0217", control.EntryRead{"n": {"17"}}},

	{"ParseAccountUsable", "\x80\x01\x3c", control.AccountUsable{Usable: true, Expires: time.Minute}},
	{"ParseAccountUsable", "\x80\x01\xff", control.AccountUsable{Usable: true, Expires: -time.Second}},
	{"ParseAccountUsable", "\xa1\x0c\x80\x01\xff\x82\x01\xff\x83\x01\x02\x84\x01\x3c", control.AccountUsable{Inactive: true, Expired: true, Grace: new(2), Unlock: new(time.Minute)}},

	{"ParseProxiedAuthorization", "", control.ProxiedAuthorization{}},
	{"ParseProxiedAuthorization", "dn:cn=Fred", control.ProxiedAuthorization{AuthzID: "dn:cn=Fred"}},

	{"ParseProxiedAuthorization", "\x04\x0adn:cn=Fred", control.ProxiedAuthorization{AuthzID: "dn:cn=Fred"}}, // Mozilla
	{"ParseProxiedAuthorization", "\x04\x00", control.ProxiedAuthorization{}},
	{"ParseProxiedAuthorization", "\x04\x0bdn:cn=Fred", control.ProxiedAuthorization{AuthzID: "\x04\x0bdn:cn=Fred"}},

	{"ParseEffectiveRights", "", control.EffectiveRights{}},
	{"ParseEffectiveRights", "dn:cn=Fred", control.EffectiveRights{AuthzID: text("dn:cn=Fred")}},
	{"ParseEffectiveRights", "\x30\x05\x04\x03dn:", control.EffectiveRights{AuthzID: text("dn:")}},
	{"ParseEffectiveRights", "\x30\x0d\x04\x03u:a\x30\x06\x04\x01c\x04\x01d", control.EffectiveRights{AuthzID: text("u:a"), Attributes: []string{"c", "d"}}},

	{"ParseSessionTracking", "\x30\x19\x04\x09192.0.2.1\x04\x03app\x04\x03\x31.2\x04\x02id", control.SessionTracking{
		SourceIP: "192.0.2.1", SourceName: "app", Format: "1.2", Identifier: "id"}},

	{"ParseSubentries", "\x01\x01\xff", control.Subentries{Visible: true}},  // RFC 3672, section 3
	{"ParseSubentries", "\x01\x01\x00", control.Subentries{Visible: false}}, // the same section

	{"ParseSyncRequest", "\x30\x03\x0a\x01\x01", control.SyncRequest{}},
	{"ParseSyncRequest", "\x30\x09\x0a\x01\x03\x04\x01c\x01\x01\xff", control.SyncRequest{Persist: true, Cookie: "c", Reload: true}},
	{"ParseSyncRequest", "\x30\x06\x0a\x01\x03\x01\x01\x00", control.SyncRequest{Persist: true}},

	{"ParseSyncRequest", "\x30\x06\x02\x01\x01\x01\x01\x00", control.SyncRequest{}}, // ldaptive

	{"ParsePersistentSearch", "\x30\x09\x02\x01\x0f\x01\x01\x00\x01\x01\xff", control.PersistentSearch{Types: 15, ReturnECs: true}},
	{"ParsePersistentSearch", "\x30\x09\x02\x01\x05\x01\x01\xff\x01\x01\x00", control.PersistentSearch{
		Types: control.ChangeAdd | control.ChangeModify, ChangesOnly: true}},

	{"ParsePasswordModify", "\x30\x00", control.PasswordModify{}},
	{"ParsePasswordModify", "\x30\x0b\x80\x04u:me\x81\x00\x82\x01n", control.PasswordModify{Identity: text("u:me"), Old: []byte{}, New: []byte("n")}},
	{"ParsePasswordModify", "\x30\x03\x82\x01n", control.PasswordModify{New: []byte("n")}},
	{"ParsePasswordModifyResult", "\x30\x05\x80\x03new", control.PasswordModifyResult{Generated: []byte("new")}},

	{"ParseCancel", "\x30\x03\x02\x01\x07", control.Cancel{ID: 7}},

	{"ParseExplain", "plan", control.Explain{}},
	{"ParseExplain", "run", control.Explain{Run: true}},
	{"ParseExplained", "\x30\x1a\x04\x02p\n\x02\x01\x03\x02\x01\x00\x30\x07\x04\x05cn go\x02\x01\x00\x02\x02\x01\x2c", control.Explained{
		Plan: "p\n", Candidates: 3, Indexes: []string{"cn go"}, Microseconds: 300}},

	{"ParseAccessDiff", "\x30\x12\x30\x10\x01\x01\xff\x30\x05\x04\x03see\x30\x04\x04\x02us", control.AccessDiff{{Gained: true, Rights: []string{"see"}, Where: []string{"us"}}}},
	{"ParseAccessDiff", "\x30\x00", control.AccessDiff(nil)},
	{"ParseRestore", "\x30\x11\x04\x03o=x\x04\x04then\x01\x01\xff\x01\x01\x00", control.Restore{Name: "o=x", Moment: "then", Subtree: true}},
	{"ParseRestore", "\x30\x0e\x04\x00\x04\x01r\x01\x01\x00\x01\x01\x00\x01\x01\xff", control.Restore{Moment: "r", Undo: true}},
	{"ParseRestored", "\x30\x15\x02\x01\x03\x04\x01r\x02\x01\x01\x30\x05\x04\x03o=x\x30\x00\x02\x01\x02", control.Restored{
		Changes: 3, Revision: "r", Kept: 1, Erased: 2, Lost: []string{"o=x"}, Unnamed: []string{}}},
	{"ParseDiff", "\x30\x0c\x04\x01a\x04\x03now\x04\x02o=", control.Diff{From: "a", To: "now", Base: "o="}},
	{"ParseDifferences", "\x30\x03\x02\x01\x07", control.Differences{Changes: 7}},

	{"ParseStartJob", "\x30\x09\x04\x02gc\x30\x03\x04\x01a", control.StartJob{Name: "gc", Arguments: []string{"a"}}},
	{"ParseJobNumber", "\x30\x03\x02\x01\x07", control.JobNumber{Number: 7}},

	{"ParseBranch", "staging", control.Branch{Name: "staging"}},
	{"ParseBranch", "\xc3\xa4, \x00", control.Branch{Name: "ä, \x00"}},

	{"ParseTransaction", "", control.Transaction{}},
	{"ParseTransaction", "17.1", control.Transaction{ID: "17.1"}},
	{"ParseEndTransaction", "\x30\x06\x04\x0417.1", control.EndTransaction{Commit: true, ID: "17.1"}},
	{"ParseEndTransaction", "\x30\x06\x01\x01\xff\x04\x01x", control.EndTransaction{Commit: true, ID: "x"}},
	{"ParseEndTransaction", "\x30\x07\x01\x01\x00\x8b\x02\x31\x37", control.EndTransaction{ID: "17"}}, // UnboundID
	{"ParseEndTransaction", "\x30\x05\x01\x01\x00\x04\x00", control.EndTransaction{}},
	{"ParseEndTransactionResult", "\x30\x03\x02\x01\x05", control.EndTransactionResult{Failed: 5}},
	{"ParseEndTransactionResult", "\x30\x19\x02\x01\x05\x30\x14\x30\x12\x02\x01\x04\x30\x0d\x30\x06\x04\x01a\x04\x01b\x30\x03\x04\x01c", control.EndTransactionResult{
		Failed: 5, Updates: []control.UpdateControls{{Message: 4, Controls: []op.Control{{OID: "a", Value: []byte("b")}, {OID: "c"}}}}}},
}

func TestParse(t *testing.T) {
	for _, c := range examples {
		got, err := parsers[c.parser]([]byte(c.value))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s %x: %+v, %v, want %+v", c.parser, c.value, got, err, c.want)
		}
	}
	if p, err := control.ParsePasswordModify(nil); err != nil || !reflect.DeepEqual(p, control.PasswordModify{}) {
		t.Errorf("Password Modify without a value: %+v, %v", p, err)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ parser, value, want string }{
		{"ParsePagedResults", "\x30\x05\x02\x01\xff\x04\x00", "-1"},
		{"ParsePagedResults", "\x30\x09\x02\x05\x00\x80\x00\x00\x00\x04\x00", "2147483648"},
		{"ParsePagedResults", "\x30\x03\x02\x01\x01", "OCTET STRING"},
		{"ParseSortRequest", "\x30\x00", "it has no key"},
		{"ParseVLVRequest", "\x30\x06\x02\x01\x00\x02\x01\x00", "[1]"},
		{"ParseMatchedValues", "\x30\x06\xa0\x04\x87\x02cn", "a filter item"},
		{"ParseAssertion", "\x30\x00", "a filter"},
		{"ParseDereference", "\x30\x05\x30\x03\x04\x01a", "SEQUENCE"},
		{"ParseReadEntry", "\x30\x03\x02\x01\x00", "OCTET STRING"},
		{"ParseEffectiveRights", "cn=Fred", `has to begin with "dn:" or "u:"`},
		{"ParseEffectiveRights", "\x30\x03\x04\x01x", `has to begin with "dn:" or "u:"`},
		{"ParseEffectiveRights", "\x30\x07\x04\x03dn:\x04\x00", "SEQUENCE"},
		{"ParseSessionTracking", "\x30\x08\x04\x00\x04\x00\x04\x00\x04\x00", `formatOID "" is not an OID in numbers`},
		{"ParseSessionTracking", "\x30\x09\x04\x00\x04\x00\x04\x01x\x04\x00", `formatOID "x" is not an OID in numbers`},
		{"ParseSessionTracking", "\x30\x0a\x04\x00\x04\x01\xff\x04\x01\x31\x04\x00", "sessionSourceName is not UTF-8"},
		{"ParseSessionTracking", "\x30\x81\x8b\x04\x81\x81" + strings.Repeat("1", 129) + "\x04\x00\x04\x01\x31\x04\x00", "sessionSourceIp has 129 octets, 128 are the most"},
		{"ParseSubentries", "\x30\x03\x01\x01\xff", "BOOLEAN"},
		{"ParseSyncRequest", "\x30\x03\x0a\x01\x02", "mode 2 is neither refreshOnly nor refreshAndPersist"},
		{"ParseSyncRequest", "\x30\x03\x0a\x01\x04", "4"},
		{"ParsePersistentSearch", "\x30\x09\x02\x01\x10\x01\x01\x00\x01\x01\xff", "16"},
		{"ParsePersistentSearch", "\x30\x06\x02\x01\x01\x01\x01\x00", "BOOLEAN"},
		{"ParsePasswordModify", "", "SEQUENCE"},
		{"ParseExplain", "", `plan or run, not ""`},
		{"ParseBranch", "", "it has no value"},
		{"ParseBranch", "\xff", "not UTF-8"},
		{"ParseCancel", "\x30\x03\x02\x01\xff", "-1"},
		{"ParseEndTransaction", "", "SEQUENCE"},
		{"ParseEndTransaction", "\x30\x00", "OCTET STRING"},
		{"ParseEndTransaction", "\x30\x03\x01\x01\xff", "OCTET STRING"},
		{"ParseEndTransactionResult", "\x30\x03\x02\x01\xff", "-1"},
	} {
		if got, err := parsers[c.parser]([]byte(c.value)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %x: %+v, error %v, want one with %q", c.parser, c.value, got, err, c.want)
		}
	}
	if _, err := control.ParseProxiedAuthorization(nil); err == nil {
		t.Error("proxied authorization without a value is accepted")
	}
	if _, err := control.ParseTransaction(nil); err == nil {
		t.Error("transaction specification without a value is accepted")
	}
}

func TestNoValue(t *testing.T) {
	for _, v := range [][]byte{nil, {}} {
		if err := control.NoValue(v); err != nil {
			t.Errorf("%#v: %v", v, err)
		}
	}
	if err := control.NoValue([]byte("ab")); err == nil || err.Error() != "it has a value of 2 octets and takes none" {
		t.Error(err)
	}
}

func TestEncode(t *testing.T) {
	id := entry.ID([]byte("0123456789abcdef"))
	for _, c := range []struct {
		value interface{ Encode() []byte }
		want  string
	}{
		{control.ReadEntry{Attributes: []string{"cn", "+"}}, "\x30\x07\x04\x02cn\x04\x01+"},
		{control.PagedResults{}, "\x30\x05\x02\x01\x00\x04\x00"},
		{control.PagedResults{Size: 7, Cookie: []byte("c")}, "\x30\x06\x02\x01\x07\x04\x01c"},
		{control.SortResponse{}, "\x30\x03\x0a\x01\x00"},
		{control.SortResponse{Code: op.NoSuchAttribute, Attribute: "x"}, "\x30\x06\x0a\x01\x10\x80\x01x"},
		{control.VLVResponse{Code: control.OffsetRangeError}, "\x30\x09\x02\x01\x00\x02\x01\x00\x0a\x01\x3d"},
		{control.VLVResponse{Target: 2, Count: 300, Context: []byte{}}, "\x30\x0c\x02\x01\x02\x02\x02\x01\x2c\x0a\x01\x00\x04\x00"},
		{control.DereferenceResult{}, "\x30\x00"},
		{control.DereferenceResult{Results: []control.DerefRes{
			{Attribute: "m", Name: []byte("cn=a"), Attributes: []op.PartialAttribute{{Description: "o", Values: [][]byte{[]byte("x"), []byte("y")}}}},
			{Attribute: "m", Name: []byte("cn=b")},
		}}, "\x30\x25" +
			"\x30\x18\x04\x01m\x04\x04cn=a\xa0\x0d\x30\x0b\x04\x01o\x31\x06\x04\x01x\x04\x01y" +
			"\x30\x09\x04\x01m\x04\x04cn=b"},
		{control.SyncState{State: control.SyncDelete, ID: id}, "\x30\x15\x0a\x01\x03\x04\x100123456789abcdef"},
		{control.SyncDone{}, "\x30\x00"},
		{control.SyncDone{Cookie: "c", Deletes: true}, "\x30\x06\x04\x01c\x01\x01\xff"},
		{control.SyncCookie{Cookie: "c"}, "\x80\x01c"},
		{control.SyncRefreshed{Cookie: "c", Deletes: true}, "\xa1\x03\x04\x01c"},
		{control.SyncRefreshed{}, "\xa2\x00"},
		{control.SyncIDSet{IDs: []entry.ID{id}}, "\xa3\x14\x31\x12\x04\x100123456789abcdef"},
		{control.SyncIDSet{Deletes: true}, "\xa3\x05\x01\x01\xff\x31\x00"},
		{control.EntryChange{Type: control.ChangeAdd}, "\x30\x03\x0a\x01\x01"},
		{control.EntryChange{Type: control.ChangeModDN, PreviousDN: "o=x"}, "\x30\x08\x0a\x01\x08\x04\x03o=x"},
		{control.SortRequest{Keys: []control.SortKey{{Attribute: "cn", Rule: "x", Reverse: true}, {Attribute: "sn"}}}, "\x30\x12\x30\x0a\x04\x02cn\x80\x01x\x81\x01\xff\x30\x04\x04\x02sn"},
		{control.PasswordModify{Identity: new("u"), Old: []byte("o"), New: []byte("n")}, "\x30\x09\x80\x01u\x81\x01o\x82\x01n"},
		{control.PasswordModifyResult{Generated: []byte("new")}, "\x30\x05\x80\x03new"},
		{control.Explained{Plan: "p\n", Candidates: 3, Indexes: []string{"cn go"}, Microseconds: 300},
			"\x30\x1a\x04\x02p\n\x02\x01\x03\x02\x01\x00\x30\x07\x04\x05cn go\x02\x01\x00\x02\x02\x01\x2c"},
		{control.AccessDiff{{Gained: true, Rights: []string{"see"}, Where: []string{"us"}}}, "\x30\x12\x30\x10\x01\x01\xff\x30\x05\x04\x03see\x30\x04\x04\x02us"},
		{control.AccessDiff(nil), "\x30\x00"},
		{control.Restore{Name: "o=x", Moment: "then", Subtree: true}, "\x30\x11\x04\x03o=x\x04\x04then\x01\x01\xff\x01\x01\x00"},
		{control.Restore{Moment: "r", Undo: true}, "\x30\x0e\x04\x00\x04\x01r\x01\x01\x00\x01\x01\x00\x01\x01\xff"},
		{control.Restored{Changes: 3, Revision: "r", Kept: 1, Erased: 2, Lost: []string{"o=x"}},
			"\x30\x15\x02\x01\x03\x04\x01r\x02\x01\x01\x30\x05\x04\x03o=x\x30\x00\x02\x01\x02"},
		{control.Diff{From: "a", To: "now", Base: "o="}, "\x30\x0c\x04\x01a\x04\x03now\x04\x02o="},
		{control.Differences{Changes: 7}, "\x30\x03\x02\x01\x07"},
		{control.StartJob{Name: "gc", Arguments: []string{"a"}}, "\x30\x09\x04\x02gc\x30\x03\x04\x01a"},
		{control.JobNumber{Number: 7}, "\x30\x03\x02\x01\x07"},
		{control.EndTransactionResult{}, ""},
		{control.EndTransactionResult{Failed: 300}, "\x30\x04\x02\x02\x01\x2c"},
		{control.EndTransactionResult{Updates: []control.UpdateControls{{Message: 4, Controls: []op.Control{{OID: "a", Value: []byte("b")}}}}},
			"\x30\x11\x30\x0f\x30\x0d\x02\x01\x04\x30\x08\x30\x06\x04\x01a\x04\x01b"},
	} {
		if got := c.value.Encode(); string(got) != c.want {
			t.Errorf("%+v: %x, want %x", c.value, got, c.want)
		}
	}
}

// TestParsersAreWhole checks that every Parse function is in parsers and has an example.
// FuzzParse fuzzes only the functions in parsers.
func TestParsersAreWhole(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(f.Name.Name, "Parse") {
				continue
			}
			if parsers[f.Name.Name] == nil {
				t.Errorf("%s is not in parsers", f.Name.Name)
			}
			if !slices.ContainsFunc(examples, func(e example) bool { return e.parser == f.Name.Name }) {
				t.Errorf("%s has no example", f.Name.Name)
			}
		}
	}
}

// FuzzParse checks that no Parse function panics. Each Parse function that reads BER must
// refuse a valid value without its last octet, or with an element after its end. PagedResults
// and EndTransactionResult are also encoded and parsed again, which must not change them.
func FuzzParse(f *testing.F) {
	for _, v := range examples {
		f.Add([]byte(v.value))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		for name, parse := range parsers {
			got, err := parse(value)
			text := name == "ParseProxiedAuthorization" || name == "ParseTransaction" || name == "ParseBranch" || name == "ParseExplain" || name == "ParseEffectiveRights" && len(value) > 0 && value[0] != 0x30
			if err != nil || len(value) == 0 || text {
				continue
			}
			if _, err := parse(value[:len(value)-1]); err == nil && len(value) > 1 {
				t.Errorf("%s %x is parsed without its last octet too", name, value)
			}
			if _, err := parse(append(slices.Clip(value), 5, 0)); err == nil {
				t.Errorf("%s %x is parsed with NULL behind it", name, value)
			}
			if p, ok := got.(control.EndTransactionResult); ok && (p.Failed != 0 || len(p.Updates) > 0) {
				if again, err := control.ParseEndTransactionResult(p.Encode()); err != nil || !reflect.DeepEqual(again, p) {
					t.Errorf("%x: %+v, then %+v, %v", value, p, again, err)
				}
			}
			if p, ok := got.(control.PagedResults); ok {
				if again, err := control.ParsePagedResults(p.Encode()); err != nil || !reflect.DeepEqual(again, p) {
					t.Errorf("%x: %+v, then %+v, %v", value, p, again, err)
				}
			}
		}
	})
}

// TestAssertEqual checks the assertion that clients in this process send.
func TestAssertEqual(t *testing.T) {
	a, err := control.ParseAssertion(control.AssertEqual("entryCSN", "x*)"))
	if err != nil || a.Filter.String() != `(entryCSN=x\2a\29)` {
		t.Errorf("%v, %v", a.Filter, err)
	}
}
