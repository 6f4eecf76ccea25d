package schema

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/dn"
)

func norms(t testing.TB, name string) []dn.Norm {
	t.Helper()
	d, err := dn.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	ns, err := d.Normalize(Core())
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

// TestSubtree tests subtree specifications (RFC 3672, 2.1).
func TestSubtree(t *testing.T) {
	for _, c := range []struct {
		spec string
		// names relative to the administrative point, separated by "|", with object
		// classes after "#"; "-": no names
		in, out string
	}{
		{"{}", "|cn=a|cn=a,ou=b", "-"},
		{`{ base "OU=People" }`, "ou=people|cn=a,ou=people", "|ou=other|cn=a|cn=a,ou=other"},
		{`{ minimum 1 }`, "cn=a|cn=a,ou=b", ""},
		{`{ minimum 1, maximum 1 }`, "cn=a", "|cn=a,ou=b"},
		{`{ maximum 0 }`, "", "cn=a"},
		{`{ base "ou=b", minimum 1, maximum 1 }`, "cn=a,ou=b", "ou=b|cn=x,cn=a,ou=b|cn=a"},
		{`{ specificExclusions { chopBefore:"ou=b" } }`, "|cn=a", "ou=b|cn=a,ou=b"},
		{`{ specificExclusions { chopAfter:"ou=b" } }`, "|cn=a|ou=b", "cn=a,ou=b|cn=x,cn=a,ou=b"},
		{`{ base "ou=b", specificExclusions { chopBefore:"ou=c", chopAfter:"ou=d" } }`, "ou=b|ou=d,ou=b", "ou=c,ou=b|cn=a,ou=c,ou=b|cn=a,ou=d,ou=b"},
		{"{ specificationFilter item:person }", "cn=a#person|cn=a#top person", "cn=a|cn=a#device"},
		{"{ specificationFilter not:item:person }", "cn=a#device", "cn=a#person"},
		{"{ specificationFilter and:{ item:top, or:{ item:person, item:device } } }", "cn=a#top device", "cn=a#top|cn=a#device"},
		{"{ specificationFilter and:{} }", "cn=a", "-"},
		{"{ specificationFilter or:{} }", "-", "cn=a"},
	} {
		sub, err := Core().ParseSubtree([]byte(c.spec))
		if err != nil {
			t.Errorf("%s: %v", c.spec, err)
			continue
		}
		for want, names := range map[bool]string{true: c.in, false: c.out} {
			for name := range strings.SplitSeq(names, "|") {
				if name == "-" {
					continue
				}
				name, classes, _ := strings.Cut(name, "#")
				is := func(class string) bool { return slices.Contains(strings.Fields(classes), class) }
				if got := sub.Holds(norms(t, name), is); got != want {
					t.Errorf("%s: %q (%s) is in it: %v", c.spec, name, classes, got)
				}
			}
		}
	}
}

func TestParseSubtreeFails(t *testing.T) {
	for spec, want := range map[string]string{
		"{":                  "not a subtree specification",
		`{ base "bogus=x" }`: "base: unknown attribute type",
		`{ specificExclusions { chopAfter:"bogus=x" } }`: "specificExclusions: unknown attribute type",
		"{ minimum 99999999999 }":                        "expected a number",
	} {
		if _, err := Core().ParseSubtree([]byte(spec)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", spec, err, want)
		}
	}
}

func FuzzParseSubtree(f *testing.F) {
	for _, spec := range []string{"{}", `{ base "ou=people", minimum 1, maximum 2 }`, `{ specificExclusions { chopBefore:"cn=x", chopAfter: "cn=y" } }`,
		"{ specificationFilter and:{ item:person, not:or:{ item:2.5.6.6 } } }"} {
		f.Add([]byte(spec), "cn=a,ou=people")
	}
	f.Fuzz(func(t *testing.T, spec []byte, name string) {
		sub, err := Core().ParseSubtree(spec)
		if err != nil {
			return
		}
		if Core().SyntaxOf(syntaxSubtreeSpecification).Validate(spec) != nil {
			t.Fatalf("%q is parsed but not valid", spec)
		}
		d, err := dn.Parse(name)
		if err != nil {
			return
		}
		if ns, err := d.Normalize(Core()); err == nil {
			sub.Holds(ns, func(class string) bool { return class == "person" })
		}
	})
}
