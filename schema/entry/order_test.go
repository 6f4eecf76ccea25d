package entry_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// described returns attributes with the given descriptions.
func described(descriptions string) (as []entry.Attribute) {
	for _, d := range strings.Fields(descriptions) {
		name, options, _ := strings.Cut(d, ";")
		as = append(as, entry.Attribute{Type: schema.Core().Attribute(name), Options: entry.SortOptions(options)})
	}
	return as
}

func orderOf(as []entry.Attribute) entry.Order {
	return entry.OrderOf(func(yield func(*schema.AttributeType, string) bool) {
		for i := range as {
			if !yield(as[i].Type, as[i].Options) {
				return
			}
		}
	})
}

func descriptions(as []entry.Attribute) string {
	var ds []string
	for i := range as {
		ds = append(ds, as[i].Description())
	}
	return strings.Join(ds, " ")
}

func TestOrder(t *testing.T) {
	for _, c := range []struct{ given, kept, stored, shown string }{
		{"objectClass cn sn userPassword", "", "cn objectClass sn userPassword", "objectClass cn sn userPassword"},
		{"objectClass sn cn", "objectClass sn cn", "cn objectClass sn", "objectClass sn cn"},
		{"cn objectClass", "cn objectClass", "cn objectClass", "cn objectClass"},
		{"objectClass userPassword cn", "objectClass userPassword cn", "cn objectClass userPassword", "objectClass userPassword cn"},
		{"objectClass cn;lang-de cn", "objectClass cn;lang-de cn", "cn cn;lang-de objectClass", "objectClass cn;lang-de cn"},
		// Operational attributes are ignored at every position.
		{"entryCSN objectClass createTimestamp cn", "", "cn createTimestamp entryCSN objectClass entryUUID", "objectClass cn createTimestamp entryCSN entryUUID"},
		// User attributes that are not in the order come after the attributes in the
		// order. Removed attributes leave no gap.
		{"objectClass sn cn", "objectClass sn cn", "cn description entryCSN objectClass title userPassword", "objectClass cn description title userPassword entryCSN"},
		{"", "", "", ""},
	} {
		o := orderOf(described(c.given))
		if names(o) != c.kept {
			t.Errorf("the order of %q is %q, want %q", c.given, o, c.kept)
		}
		as := described(c.stored)
		if o.Arrange(as); descriptions(as) != c.shown {
			t.Errorf("%q arranged as %q: %q, want %q", c.stored, o, descriptions(as), c.shown)
		}
		if again := orderOf(as); len(described(c.given)) >= len(as) && again != o {
			t.Errorf("the order of %q is %q, and when it was arranged %q", c.given, o, again)
		}
	}
}

// names returns an order with the names of types.
func names(o entry.Order) string {
	var ds []string
	for rest := o.String(); rest != ""; {
		n := dn.CodeLength(rest)
		d := schema.Core().StoredAs(rest[:n]).Name()
		if rest = rest[n:]; strings.HasPrefix(rest, ";") {
			var options string
			options, rest, _ = strings.Cut(rest, " ")
			d += options
		}
		ds = append(ds, d)
	}
	return strings.Join(ds, " ")
}

// TestOrderOfNames checks the order in stores without codes.
func TestOrderOfNames(t *testing.T) {
	s := schema.Core().WithCodes(1) // objectClass has a code
	var as []entry.Attribute
	for _, d := range []string{"sn", "cn;lang-de", "objectClass", "cn"} {
		name, options, has := strings.Cut(d, ";")
		if has {
			options = ";" + options
		}
		as = append(as, entry.Attribute{Type: s.Attribute(name), Options: options})
	}
	o := orderOf(as)
	if want := "sn cn;lang-de \x80cn"; o.String() != want || !o.Valid() {
		t.Errorf("%q, want %q", o, want)
	}
	mixed := slices.Clone(as)
	slices.Reverse(mixed)
	if o.Arrange(mixed); descriptions(mixed) != descriptions(as) {
		t.Errorf("%s, want %s", descriptions(mixed), descriptions(as))
	}
}

// TestAnyOrder checks that Arrange restores the order of few and of many attributes.
func TestAnyOrder(t *testing.T) {
	for _, n := range []int{2, 7, 32, 33, 400} {
		as := described("objectClass cn sn userPassword")
		for i := range n {
			as = append(as, described(fmt.Sprintf("description;x-%d", i))...)
		}
		rand.Shuffle(len(as), func(i, j int) { as[i], as[j] = as[j], as[i] })
		o, want := orderOf(as), descriptions(as)
		slices.SortFunc(as, func(a, b entry.Attribute) int { return strings.Compare(a.Description(), b.Description()) })
		if o.Arrange(as); descriptions(as) != want {
			t.Errorf("%d: %s, want %s", n, descriptions(as), want)
		}
	}
}

func TestValidOrder(t *testing.T) {
	for s, want := range map[string]bool{"": true, "cn": true, "cn sn": true, "cn cn": false, " ": false, "cn ": false, " cn": false, "cn  sn": false,
		"\x81": true, "\x81\x82": true, "\x81\xc0\x80cn": true, "\x81;x \x82": true, "\x81 \x82": false, "\x81\x81": false, "\x81;x ": false} {
		if got := entry.ParseOrder(s).Valid(); got != want {
			t.Errorf("%q: %v", s, got)
		}
	}
}

func BenchmarkArrange(b *testing.B) {
	const given = "objectClass uid cn sn givenName mail telephoneNumber employeeNumber departmentNumber l title description userPassword"
	o := orderOf(described(given))
	as := described(given + " createTimestamp creatorsName entryCSN modifiersName modifyTimestamp structuralObjectClass entryUUID")
	slices.SortFunc(as, func(a, b entry.Attribute) int { return strings.Compare(a.Description(), b.Description()) })
	buf := make([]entry.Attribute, len(as))
	b.ReportAllocs()
	for b.Loop() {
		copy(buf, as)
		o.Arrange(buf)
	}
}
