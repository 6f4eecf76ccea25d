package schema

import (
	"bytes"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func rule(t testing.TB, name string) *MatchingRule {
	t.Helper()
	r := Core().Rule(name)
	if r == nil {
		t.Fatalf("no rule %s", name)
	}
	return r
}

// Results of matching a value with an assertion. The result is undefined if the assertion
// breaks its syntax.
const (
	yes       = "yes"
	no        = "no"
	undefined = "undefined"
)

func verdict(t *testing.T, r *MatchingRule, value, assertion string) string {
	t.Helper()
	a, err := r.Assertion([]byte(assertion))
	if err != nil {
		return undefined
	}
	k, err := r.Key([]byte(value))
	if err != nil {
		t.Fatalf("%s: key of %q: %v", r.Name(), value, err)
	}
	if r.Match(k, a) {
		return yes
	}
	return no
}

const uid1 = "cn=Ann+uid=1,dc=Example#'0101'B"

var ruleCases = []struct{ rule, value, assertion, want string }{
	{"caseIgnoreMatch", "Ann  Lee", " ann lee ", yes},
	{"caseIgnoreMatch", "Annlee", "ann lee", no},
	{"caseIgnoreMatch", "Ann", "", undefined},
	{"caseIgnoreMatch", "Ann", "a\xff", undefined},
	{"caseIgnoreMatch", "\ue000", "\ue000", undefined},
	{"caseIgnoreMatch", "\ue000", "a", no},
	{"caseIgnoreSubstringsMatch", "a \ue000\u00f0 \U000f0000", "*a*", no},
	{"caseIgnoreSubstringsMatch", "a \ue000\u00f0 \U000f0000", "*\u00f0*", no},
	{"caseIgnoreSubstringsMatch", "a \ue000", "* *", no},
	{"caseIgnoreListMatch", "a$\ue000", "a", no},
	{"approximateMatch", "a \ue000", "a", no},
	{"objectIdentifierMatch", "caseIgnoreMatch", "2.5.13.2", yes},
	{"integerMatch", strings.Repeat("9", 112), strings.Repeat("9", 112), yes},
	{"integerOrderingMatch", "-1" + strings.Repeat("0", 300), "-" + strings.Repeat("9", 112), yes},
	{"integerOrderingMatch", strings.Repeat("9", 111), strings.Repeat("1", 112), yes},
	{"caseIgnoreOrderingMatch", "ann", "Bob", yes},
	{"caseIgnoreOrderingMatch", "bob", "Bob", no},
	{"caseIgnoreSubstringsMatch", "Ann Marie Lee", "ann*lee", yes},
	{"caseIgnoreSubstringsMatch", "Ann Marie Lee", "ann *lee", yes},
	{"caseIgnoreSubstringsMatch", "AnnMarie", "ann *arie", no},
	{"caseIgnoreSubstringsMatch", "Ann", "ann*ann", no},
	{"caseIgnoreSubstringsMatch", "Ann Lee", "*n * l*", yes},
	{"caseIgnoreSubstringsMatch", "Ann", "*nn", yes},
	{"caseIgnoreSubstringsMatch", "Ann", "nn*", no},
	{"caseIgnoreSubstringsMatch", "Ann", "* ann*", yes}, // the piece matches the space before the value
	{"caseIgnoreSubstringsMatch", "a*b", `*\2A*`, yes},
	{"caseIgnoreSubstringsMatch", "Ann", "ann", undefined},
	{"caseIgnoreSubstringsMatch", "Ann", "a**n", undefined},
	{"caseExactMatch", "Ann", "ann", no},
	{"caseExactMatch", "Ann", "Ann ", yes},
	{"caseExactOrderingMatch", "Bob", "ann", yes},
	{"caseExactSubstringsMatch", "Ann", "A*", yes},
	{"caseExactSubstringsMatch", "Ann", "a*", no},
	{"caseIgnoreIA5Match", "A@b.C", "a@B.c", yes},
	{"caseIgnoreIA5Match", "A@b.C", "\u00e4", undefined},
	{"caseIgnoreIA5SubstringsMatch", "A@b.C", "a@*", yes},
	{"caseExactIA5Match", "/Home", "/home", no},
	{"caseExactIA5SubstringsMatch", "/Home", "/H*", yes},
	{"numericStringMatch", "12 34", "1234", yes},
	{"numericStringMatch", "12 34", "12-34", undefined},
	{"numericStringOrderingMatch", "12 3", "124", yes},
	{"numericStringSubstringsMatch", "12 34", "1*3 4", yes},
	{"telephoneNumberMatch", "+1 (800) 555-0100", "+1(800)5550100", yes},
	{"telephoneNumberMatch", "+1 800", "+1#800", undefined},
	{"telephoneNumberSubstringsMatch", "+1 800 555-0100", "*5550-1*", yes},
	{"caseIgnoreListMatch", "1 Main St$Town", "1  MAIN st $ town", yes},
	{"caseIgnoreListMatch", `1 \24 St$Town`, "1 $ St$Town", no},
	{"caseIgnoreListMatch", `1 \24 St$Town`, `1 \24 st$town`, yes},
	{"caseIgnoreListSubstringsMatch", "1 Main St$Town", "1 main*town", yes},
	// a piece does not match across lines
	{"caseIgnoreListSubstringsMatch", "1 Main St$Town", "*st town*", no},
	{"booleanMatch", "TRUE", "TRUE", yes},
	{"booleanMatch", "TRUE", "true", undefined},
	{"integerMatch", "10", "10", yes},
	{"integerMatch", "10", "010", undefined},
	{"integerMatch", "0", "-0", undefined},
	{"integerOrderingMatch", "-10", "9", yes},
	{"integerOrderingMatch", "10", "9", no},
	{"integerBitAndMatch", "7", "5", yes},
	{"integerBitAndMatch", "7", "8", no},
	{"integerBitAndMatch", "7", "0", yes},
	{"integerBitAndMatch", "-1", "5", yes},
	{"integerBitOrMatch", "4", "6", yes},
	{"integerBitOrMatch", "4", "3", no},
	{"integerBitOrMatch", "4", "0", no},
	{"1.2.840.113556.1.4.804", "-2147483646", "2", yes},
	{"bitStringMatch", "'0101'B", "'0101'B", yes},
	{"bitStringMatch", "'0101'B", "'01010'B", no},
	{"bitStringMatch", "'0101'B", "0101", undefined},
	{"octetStringMatch", "\x00\xff", "\x00\xff", yes},
	{"octetStringOrderingMatch", "\x00", "\x00\x00", yes},
	{"octetStringSubstringsMatch", "abc", "a*c", yes},
	{"generalizedTimeMatch", "20240229120000Z", "202402291300+0100", yes},
	{"generalizedTimeMatch", "20240229120000Z", "20240229120001Z", no},
	{"generalizedTimeMatch", "20240229120000Z", "2024", undefined},
	{"generalizedTimeOrderingMatch", "20240229115959.999Z", "2024022912Z", yes},
	{"uuidMatch", "597ae2f6-16a6-1027-98f4-d28b5365dc14", "597AE2F6-16A6-1027-98F4-D28B5365DC14", yes},
	{"uuidMatch", "597ae2f6-16a6-1027-98f4-d28b5365dc14", "597ae2f616a6102798f4d28b5365dc14", undefined},
	{"uuidOrderingMatch", "597ae2f6-16a6-1027-98f4-d28b5365dc14", "697ae2f6-16a6-1027-98f4-d28b5365dc14", yes},
	{"CSNMatch", "20240229120000Z#00000A#01#000000", "20240229120000.000000Z#00000a#001#000000", yes},
	{"CSNOrderingMatch", "20240229120000.000001Z#000000#001#000000", "20240229120000.000002Z#000000#000#000000", yes},
	{"objectIdentifierMatch", "person", "2.5.6.6", yes},
	{"objectIdentifierMatch", "PERSON", "person", yes},
	{"objectIdentifierMatch", "surname", "sn", yes},
	{"objectIdentifierMatch", "notDefined", "NOTDEFINED", undefined},
	{"objectIdentifierMatch", "notDefined", "person", no},
	{"objectIdentifierMatch", "person", "2.5.6.", undefined},
	{"objectIdentifierMatch", "person", "a b", undefined},
	{"objectIdentifierFirstComponentMatch", "( 2.5.4.3 NAME 'cn' SUP name )", "commonName", yes},
	{"objectIdentifierFirstComponentMatch", "(2.5.4.3 NAME 'cn' SUP name )", "2.5.4.4", no},
	{"integerFirstComponentMatch", "( 12 FORM x )", "12", yes},
	{"directoryStringFirstComponentMatch", "( 'A  b' x )", "a B", yes},
	{"distinguishedNameMatch", "CN=Ann Lee, DC=Example", "2.5.4.3=ann  lee,domainComponent=example", yes},
	{"distinguishedNameMatch", "cn=a+uid=b,dc=x", "uid=B+cn=A,dc=X", yes},
	{"distinguishedNameMatch", "cn=a,dc=x", "cn=a", no},
	{"distinguishedNameMatch", "", "", yes},
	{"distinguishedNameMatch", "cn=a", "cn", undefined},
	{"distinguishedNameMatch", "cn=a", "bogus=a", undefined},
	{"inChainMatch", "cn=a", "CN=A", yes},
	{"inChainMatch", "cn=a", "a", undefined},
	{"uniqueMemberMatch", uid1, "UID=1+CN=ann,dc=example#'0101'B", yes},
	{"uniqueMemberMatch", uid1, "uid=1+cn=ann,dc=example", no},
	{"uniqueMemberMatch", "dc=a#b", "DC=A#B", yes},
	{"certificateExactMatch", certificate2, `{ serialNumber 2, issuer rdnSequence:"` + caName + `" }`, yes},
	{"certificateListExactMatch", revocations, `{ issuer rdnSequence:"` + caName + `", thisUpdate utcTime:"031017163041Z" }`, yes},
	{"wordMatch", "Ann Marie Lee", "marie", yes},
	{"wordMatch", "Ann Marie Lee", "mari", no},
	{"wordMatch", "Ann-Marie Lee", "marie", no},
	{"keywordMatch", "Ann-Marie Lee", "marie", yes},
	{"keywordMatch", "Ann-Marie Lee", "ie", no},
	{"keywordMatch", "xie (ie)", "ie", yes},
	{"keywordMatch", "Ann", " ", no},
	{"approximateMatch", "Müller-Lüdenscheidt, J.", "muller ludenscheidt", yes},
	{"approximateMatch", "John F. Smith", "john smith", yes},
	{"approximateMatch", "Smith, John", "john smith", no},
	{"approximateMatch", "O'Brien", "obrien", yes},
	{"approximateMatch", "Johnson", "john", no},
	{"approximateMatch", "Ann", "?!", no},
}

func TestRules(t *testing.T) {
	for _, c := range ruleCases {
		if got := verdict(t, rule(t, c.rule), c.value, c.assertion); got != c.want {
			t.Errorf("%s of %q and %q: %s; want %s", c.rule, c.value, c.assertion, got, c.want)
		}
	}
}

// TestRulesAreAllTested checks that every rule that the server implements is defined and
// occurs in ruleCases.
func TestRulesAreAllTested(t *testing.T) {
	tested := map[*MatchingRule]bool{}
	for _, c := range ruleCases {
		tested[rule(t, c.rule)] = true
	}
	for _, r := range Core().Rules() {
		if !tested[r] {
			t.Errorf("%s is not tested", r.Name())
		}
	}
	for oid := range behaviours {
		if Core().Rule(oid) == nil {
			t.Errorf("no definition of rule %s", oid)
		}
	}
}

// TestKeysConcurrently uses a rule in several goroutines, so that the race detector
// checks the data that the calls share.
func TestKeysConcurrently(t *testing.T) {
	r := rule(t, "caseIgnoreMatch")
	var done sync.WaitGroup
	for range 4 {
		done.Go(func() {
			for range 100 {
				if k, err := r.Key([]byte("Straße ΣΊΣΥΦΟΣ")); err != nil || string(k) != " strasse  σίσυφοσ " {
					t.Errorf("key is %q, %v", k, err)
				}
			}
		})
	}
	done.Wait()
}

func TestKeysRefuse(t *testing.T) {
	for name, values := range map[string][]string{
		"integerMatch":                        {"", "-", "01", "-0", "1 ", "+1", "0x1", "1.0"},
		"generalizedTimeMatch":                {"99991231235959-0001", "00000101000000+0001"},
		"distinguishedNameMatch":              {"x", "bogus=1"},
		"uniqueMemberMatch":                   {"x#'0'B"},
		"caseIgnoreMatch":                     {"\xff"},
		"objectIdentifierFirstComponentMatch": {"", "2.5.4.3", "(", "( )", "( '"},
		"CSNMatch":                            {"", "a#b#c#d", "20240229120000.0000001Z#000000#000#000000", "20240229120000Z#00000g#000#000000"},
	} {
		for _, v := range values {
			if k, err := rule(t, name).Key([]byte(v)); err == nil {
				t.Errorf("%s has a key %q of %q", name, k, v)
			}
		}
	}
}

// TestOIDsThatAreWords checks keys of OIDs that are words. 389 Directory Server uses such
// OIDs. The keys must not depend on whether the schema defines the OIDs.
func TestOIDsThatAreWords(t *testing.T) {
	const definition = "( nsRole-OID NAME 'nsRole' SYNTAX 1.3.6.1.4.1.1466.115.121.1.12 )"
	s, err := Core().Extend("attributeTypes: " + definition)
	if err != nil {
		t.Fatal(err)
	}
	r, before := s.Rule("objectIdentifierFirstComponentMatch"), rule(t, "objectIdentifierFirstComponentMatch")
	old, err := before.Key([]byte(definition))
	if err != nil {
		t.Fatal(err)
	}
	if now, err := r.Key([]byte(definition)); err != nil || !bytes.Equal(now, old) {
		t.Errorf("key %q, %v; was %q", now, err, old)
	}
	for _, name := range []string{"nsRole", "NSROLE-oid"} {
		if a, err := r.Assertion([]byte(name)); err != nil || !bytes.Equal(a, old) {
			t.Errorf("%s is asserted as %q, %v", name, a, err)
		}
	}
}

func TestPieceNeedsASubstringsForm(t *testing.T) {
	if _, err := rule(t, "integerMatch").Piece(Any, []byte("1")); err == nil {
		t.Error("integerMatch took a piece")
	}
}

func TestTimeKey(t *testing.T) {
	for in, want := range map[string]string{
		"20240229120000Z":                     "20240229120000",
		"2024022912Z":                         "20240229120000",
		"202402291230Z":                       "20240229123000",
		"2024022912.5Z":                       "20240229123000",
		"2024022912,25Z":                      "20240229121500",
		"2024022912.0001Z":                    "20240229120000.36",
		"2024022912.33333Z":                   "20240229121959.988",
		"202402291230.5Z":                     "20240229123030",
		"202402291230.01Z":                    "20240229123000.6",
		"20240229120000.120Z":                 "20240229120000.12",
		"20240229120000.000Z":                 "20240229120000",
		"20240229003000+0100":                 "20240228233000",
		"20231231233000-01":                   "20240101003000",
		"20161231235960Z":                     "20161231235960",
		"20170101005960+0100":                 "20161231235960",
		"20240229120000.1234567890123456789Z": "20240229120000.1234567890123456789",
	} {
		if k, err := timeKey([]byte(in)); err != nil || string(k) != want {
			t.Errorf("timeKey(%s) = %s, %v; want %s", in, k, err, want)
		}
	}
}

// anyInteger returns a generator of small and huge integers.
func anyInteger() *rapid.Generator[*big.Int] {
	return rapid.Custom(func(t *rapid.T) *big.Int {
		size := rapid.SampledFrom([]int{0, 1, 2, 9, 46, 47, 60, 200}).Draw(t, "size")
		n := new(big.Int).SetBytes(rapid.SliceOfN(rapid.Byte(), size, size).Draw(t, "magnitude"))
		if rapid.Bool().Draw(t, "negative") {
			n.Neg(n)
		}
		return n
	})
}

func TestIntegerKeysKeepOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyInteger().Draw(t, "a"), anyInteger().Draw(t, "b")
		ka, err := integerKey([]byte(a.String()))
		if err != nil {
			t.Fatal(err)
		}
		kb, err := integerKey([]byte(b.String()))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Compare(ka, kb) != a.Cmp(b) {
			t.Fatalf("%s and %s have keys %x and %x", a, b, ka, kb)
		}
		if back := integerOfKey(ka); back.Cmp(a) != 0 {
			t.Fatalf("%s comes back from its key as %s", a, back)
		}
	})
}

func TestBitsAgreeWithIntegers(t *testing.T) {
	all, some := rule(t, "integerBitAndMatch"), rule(t, "integerBitOrMatch")
	rapid.Check(t, func(t *rapid.T) {
		v, mask := rapid.Int64().Draw(t, "v"), rapid.Int64().Draw(t, "mask")
		k, err := all.Key(fmt.Append(nil, v))
		if err != nil {
			t.Fatal(err)
		}
		a, err := all.Assertion(fmt.Append(nil, mask))
		if err != nil {
			t.Fatal(err)
		}
		if all.Match(k, a) != (v&mask == mask) || some.Match(k, a) != (v&mask != 0) {
			t.Fatalf("bits of %d and %d", v, mask)
		}
	})
}

func TestTimeKeysKeepOrder(t *testing.T) {
	draw := func(t *rapid.T, name string) (time.Time, []byte) {
		at := time.Unix(rapid.Int64Range(-6e10, 2e11).Draw(t, name), rapid.Int64Range(0, 999999999).Draw(t, name+" ns"))
		at = at.In(time.FixedZone("", rapid.IntRange(-23*60-59, 23*60+59).Draw(t, name+" zone")*60))
		k, err := timeKey([]byte(at.Format("20060102150405.999999999-0700")))
		if err != nil {
			t.Fatal(err)
		}
		return at, k
	}
	rapid.Check(t, func(t *rapid.T) {
		a, ka := draw(t, "a")
		b, kb := draw(t, "b")
		if bytes.Compare(ka, kb) != a.Compare(b) {
			t.Fatalf("%v and %v have keys %s and %s", a, b, ka, kb)
		}
		again, err := timeKey(append(ka, 'Z'))
		if err != nil || !bytes.Equal(again, ka) {
			t.Fatalf("key %s has key %s, %v", ka, again, err)
		}
	})
}

// TestRulesOfAFormShareKeys checks that the rules of a form return the same key for a
// value. Equal keys then mean equal values, whichever rule of the form made the keys.
func TestRulesOfAFormShareKeys(t *testing.T) {
	values := []string{"Ann  Lee", "12", "TRUE", "20240101000000Z", "cn=x", "'01'B"}
	byForm := map[*Form]*MatchingRule{}
	for _, r := range Core().Rules() {
		first := byForm[r.Form]
		if first == nil {
			byForm[r.Form] = r
			continue
		}
		for _, v := range values {
			a, errA := first.Key([]byte(v))
			b, errB := r.Key([]byte(v))
			if !bytes.Equal(a, b) || (errA == nil) != (errB == nil) {
				t.Errorf("%s and %s have keys %q and %q of %q", first.Name(), r.Name(), a, b, v)
			}
		}
	}
}

func TestAppliesTo(t *testing.T) {
	for _, c := range []struct {
		rule, attribute string
		want            bool
	}{
		{"caseIgnoreMatch", "cn", true},
		{"caseExactMatch", "cn", true},
		{"caseExactMatch", "c", true},
		{"integerMatch", "cn", false},
		{"integerBitAndMatch", "uidNumber", true},
		{"distinguishedNameMatch", "member", true},
		{"distinguishedNameMatch", "cn", false},
		{"caseIgnoreListMatch", "registeredAddress", true},
		{"octetStringMatch", "jpegPhoto", true},
		{"octetStringMatch", "userCertificate", true},
		{"objectIdentifierFirstComponentMatch", "attributeTypes", true},
		{"approximateMatch", "sn", true},
		{"approximateMatch", "uidNumber", false},
	} {
		a := Core().Attribute(c.attribute)
		if got := rule(t, c.rule).AppliesTo(a); got != c.want {
			t.Errorf("%s applies to %s: %v", c.rule, c.attribute, got)
		}
	}
}

func TestNormalizeAVA(t *testing.T) {
	s := Core().WithCodes(0)
	for _, c := range []struct{ name, value, oid, key string }{
		{"CN", "Ann  LEE ", "2.5.4.3", " ann  lee "},
		{"2.5.4.3", "ann lee", "2.5.4.3", " ann  lee "},
		{"domainComponent", "Example", "0.9.2342.19200300.100.1.25", " example "},
		{"uidNumber", "10", "1.3.6.1.1.1.1.0", "\x8210"},
		{"jpegPhoto", "\xff\xd8", "0.9.2342.19200300.100.1.60", "\xff\xd8"},
	} {
		oid, key, err := s.NormalizeAVA(c.name, []byte(c.value))
		if err != nil || oid != c.oid || string(key) != c.key {
			t.Errorf("NormalizeAVA(%s, %q) = %s, %q, %v", c.name, c.value, oid, key, err)
		}
	}
	for name, value := range map[string]string{"bogus": "x", "uidNumber": "x", "cn": "\xff"} {
		if _, _, err := s.NormalizeAVA(name, []byte(value)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("NormalizeAVA(%s, %q): %v", name, value, err)
		}
	}
}

func BenchmarkKey(b *testing.B) {
	for _, c := range []struct{ name, rule, value string }{
		{"ascii20", "caseIgnoreMatch", "Jane Marie Example-X"},
		{"latin20", "caseIgnoreMatch", "Jüne Märie Exämple-X"},
		{"cyrillic20", "caseIgnoreMatch", "Иван Иванович Петров"},
		{"integer", "integerMatch", "10042"},
		{"time", "generalizedTimeMatch", "20240229120000Z"},
		{"oid", "objectIdentifierMatch", "inetOrgPerson"},
		{"name", "distinguishedNameMatch", "uid=jexample,ou=people,dc=example,dc=com"},
		{"approximate", "approximateMatch", "Jane Marie Example-X"},
	} {
		r, v := rule(b, c.rule), []byte(c.value)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Key(v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
