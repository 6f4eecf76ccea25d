package directory_test

import (
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/ber"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/wire"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// cost is the CPU time of this process and the octets that it has allocated.
type cost struct {
	cpu       time.Duration
	allocated uint64
}

func costNow() cost {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return cost{time.Duration(u.Utime.Nano() + u.Stime.Nano()), m.TotalAlloc}
}

// costOf returns the least cost of a number of calls.
func costOf(calls int, f func()) (least cost) {
	for i := range calls {
		before := costNow()
		f()
		after := costNow()
		c := cost{after.cpu - before.cpu, after.allocated - before.allocated}
		if i == 0 {
			least = c
		}
		least = cost{min(least.cpu, c.cpu), min(least.allocated, c.allocated)}
	}
	return least
}

// checkLinear checks that an input of eight times the size costs about eight times as much, and not
// sixty-four times, and that no octet of the input allocates more than the given number of octets.
// It does not judge a cost that is small.
func checkLinear(t *testing.T, name string, size int, perOctet uint64, run func(size int)) {
	t.Helper()
	large := costOf(1, func() { run(8 * size) })
	if most := perOctet * uint64(8*size); large.allocated > most {
		t.Errorf("%s: %d octets allocate %d", name, 8*size, large.allocated)
	}
	if large.cpu < 50*time.Millisecond && large.allocated < 8<<20 {
		return
	}
	small := costOf(3, func() { run(size) })
	most := cost{24 * max(small.cpu, 2*time.Millisecond), 20 * (small.allocated + 4096)}
	if large.cpu > most.cpu || large.allocated > most.allocated { // perhaps something else ran
		large = costOf(3, func() { run(8 * size) })
	}
	if large.cpu > most.cpu {
		t.Errorf("%s: %d octets take %v of CPU, and %d take %v", name, size, small.cpu, 8*size, large.cpu)
	}
	if large.allocated > most.allocated {
		t.Errorf("%s: %d octets allocate %d, and %d allocate %d", name, size, small.allocated, 8*size, large.allocated)
	}
}

// repeat returns about n octets: head, as many parts as fit, and tail.
func repeat(head, part, tail string, n int) string {
	return head + strings.Repeat(part, max(1, n/len(part))) + tail
}

const inputSize = 16 << 10

// texts are texts of about n octets that parsers and rules may find costly.
var texts = map[string]func(n int) string{
	"letters":       func(n int) string { return repeat("", "a", "", n) },
	"digits":        func(n int) string { return repeat("", "9", "", n) },
	"negative":      func(n int) string { return repeat("-", "9", "", n) },
	"spaces":        func(n int) string { return repeat("a", " ", "b", n) },
	"ligatures":     func(n int) string { return repeat("", "\ufdfa", "", n) },
	"marks":         func(n int) string { return repeat("a", "\u0301\u0316", "", n) },
	"RDNs":          func(n int) string { return repeat("", "cn=a,", "dc=com", n) },
	"AVAs":          func(n int) string { return repeat("", "cn=a+", "dc=com", n) },
	"escapes":       func(n int) string { return repeat("cn=", `\2c`, "", n) },
	"hex":           func(n int) string { return repeat("cn=#04", "20", "", n) },
	"arcs":          func(n int) string { return repeat("1", ".1", "", n) },
	"long arc":      func(n int) string { return repeat("1.2.", "9", "", n) },
	"time":          func(n int) string { return repeat("2000010112.", "9", "Z", n) },
	"seconds":       func(n int) string { return repeat("20000101120000.", "9", "Z", n) },
	"dollars":       func(n int) string { return repeat("a", "$a", "", n) },
	"bits":          func(n int) string { return repeat("'", "01", "'B", n) },
	"parentheses":   func(n int) string { return repeat("", "(", "", n) },
	"closed":        func(n int) string { return repeat("( ", "( ", ")", n) },
	"quotes":        func(n int) string { return repeat("( 1.2.3 NAME ( ", "'a' ", ") )", n) },
	"class":         func(n int) string { return repeat("( 1.2.3 NAME 'a' MAY ( cn ", "$ cn ", ") )", n) },
	"extensions":    func(n int) string { return repeat("( 1.2.3 NAME 'a' ", "X-A 'b' ", ")", n) },
	"certificate":   func(n int) string { return repeat("{ serialNumber ", "9", `, issuer rdnSequence:"cn=CA" }`, n) },
	"serial in hex": func(n int) string { return repeat("{ serialNumber '", "9", `'H, issuer rdnSequence:"cn=CA" }`, n) },
	"serial":        func(n int) string { return repeat("", "9", "$cn=CA", n) },
	"issuer":        func(n int) string { return repeat(`1$`, "cn=a,", "cn=CA", n) },
	"subtree": func(n int) string {
		return repeat("{ specificExclusions { ", `chopBefore:"cn=a", `, `chopBefore:"cn=b" } }`, n)
	},
	"guide":         func(n int) string { return repeat("person#", "(cn$EQ)&", "(cn$EQ)", n) },
	"not":           func(n int) string { return repeat("person#", "!", "(cn$EQ)", n) },
	"filter":        func(n int) string { return repeat("(|", "(cn=a)", ")", n) },
	"deep filter":   func(n int) string { return repeat("", "(!", "(cn=a)", n) },
	"stars":         func(n int) string { return repeat("(cn=a", "*a", ")", n) },
	"rule":          func(n int) string { return repeat("allow everyone to read cn", ", cn", "", n) },
	"conditions":    func(n int) string { return repeat("allow everyone to read cn", " and in ou=people", "", n) },
	"record":        func(n int) string { return repeat("dn: cn=a\n", "cn: a\n", "\n", n) },
	"continuation":  func(n int) string { return repeat("dn: cn=a\ncn: a", "\n a", "\n\n", n) },
	"records":       func(n int) string { return repeat("", "dn: cn=a\ncn: a\n\n", "", n) },
	"binary":        func(n int) string { return repeat("", "\xff\x00", "", n) },
	"sequences":     func(n int) string { return repeat("", "0\x80", "", n) },
	"nested":        func(n int) string { return nested(n) },
	"octet strings": func(n int) string { return wrapped(repeat("", "\x04\x01a", "", n)) },
	"pairs":         func(n int) string { return wrapped(repeat("", "0\x05\x04\x01a0\x00", "", n)) },
	"attribute list": func(n int) string {
		return wrapped(wrapped("\x04\x06member" + wrapped(repeat("", "\x04\x02cn", "", n))))
	},
	"filter items": func(n int) string { return wrapped(repeat("", "\xa3\x07\x04\x02cn\x04\x01a", "", n)) },
}

func wrapped(s string) string { return string(ber.AppendString(nil, ber.Sequence, s)) }

// nested returns SEQUENCEs in SEQUENCEs.
func nested(n int) string {
	b := make([]byte, 0, n)
	var open []int
	for range n / 6 {
		open = append(open, len(b))
		b = ber.Open(b, ber.Sequence)
	}
	for i := len(open) - 1; i >= max(0, len(open)-1000); i-- {
		b = ber.Close(b, open[i])
	}
	return string(b)
}

// TestParsersAreLinear checks that every parser and every matching rule takes at most about eight
// times as long for eight times as much input, whatever the input is.
func TestParsersAreLinear(t *testing.T) {
	s := schema.Core()
	parsers := map[string]func(v []byte){
		"dn.Parse":           func(v []byte) { dn.Parse(string(v)) },
		"dn.ParseRDN":        func(v []byte) { dn.ParseRDN(string(v)) },
		"normalised name":    func(v []byte) { d, _ := dn.Parse(string(v)); d.Normalize(s) },
		"filter.Parse":       func(v []byte) { filter.Parse(string(v)) },
		"wire.DecodeFilter":  func(v []byte) { wire.DecodeFilter(v) },
		"wire.DecodeFilters": func(v []byte) { wire.DecodeFilters(v) },
		"acl.Parse":          func(v []byte) { acl.Parse(string(v)) },
		"ber.Count":          func(v []byte) { ber.Count(v) },
		"ldif":               func(v []byte) { readLDIF(string(v)) },
		"paged":              func(v []byte) { control.ParsePagedResults(v) },
		"sort":               func(v []byte) { control.ParseSortRequest(v) },
		"view":               func(v []byte) { control.ParseVLVRequest(v) },
		"dereference":        func(v []byte) { control.ParseDereference(v) },
		"read entry":         func(v []byte) { control.ParseReadEntry(v) },
		"effective rights":   func(v []byte) { control.ParseEffectiveRights(v) },
		"session tracking":   func(v []byte) { control.ParseSessionTracking(v) },
		"sync":               func(v []byte) { control.ParseSyncRequest(v) },
		"description":        func(v []byte) { s.Describe(string(v)) },
	}
	for name, text := range texts {
		for parser, parse := range parsers {
			checkLinear(t, parser+" of "+name, inputSize, 512, func(n int) { parse([]byte(text(n))) })
		}
		checkLinear(t, "syntaxes of "+name, inputSize/4, 4096, func(n int) {
			for _, x := range syntaxesOf(s) {
				x.Validate([]byte(text(n)))
			}
		})
		checkLinear(t, "rules of "+name, inputSize/4, 4096, func(n int) {
			for _, r := range s.Rules() {
				v := []byte(text(n))
				key, _ := r.Key(v)
				if a, err := r.Assertion(v); err == nil && r.Use == schema.Equality {
					r.Match(key, a)
				}
				if r.Use == schema.Substrings {
					r.Piece(schema.Any, v)
				}
			}
		})
	}
}

func readLDIF(text string) {
	r := ldif.NewReader(strings.NewReader(text), ldif.Options{})
	for {
		if _, err := r.Read(); err != nil {
			return
		}
	}
}

// syntaxesOf returns the syntaxes of all attribute types.
func syntaxesOf(s *schema.Schema) (all []*schema.Syntax) {
	for _, t := range s.Attributes() {
		if !slices.Contains(all, t.Syntax) {
			all = append(all, t.Syntax)
		}
	}
	return all
}
