package schema

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed-4dac0d86/ldapd/dn"
)

// validateSubtreeSpecification validates a subtree specification (RFC 3672, 2.1); see
// [Schema.ParseSubtree].
func validateSubtreeSpecification(_ *Schema, v []byte) error {
	_, err := parseSubtree(v)
	return err
}

// parseSubtree parses a subtree specification (RFC 3672, 2.1 and appendix A):
//
//	{ base "ou=people", specificExclusions { chopBefore:"cn=x" }, minimum 1,
//	  specificationFilter item:person }
//
// The components may be in any order, as in other servers.
func parseSubtree(v []byte) (*subtreeText, error) {
	if !utf8.Valid(v) {
		return nil, errNotUTF8
	}
	t := &subtreeText{maximum: -1}
	g := &gser{rest: string(v)}
	g.list(func() {
		switch name := g.word(); name {
		case "base":
			t.base = g.name()
		case "specificExclusions":
			g.list(func() { t.chops = append(t.chops, g.chop()) })
		case "minimum":
			t.minimum = g.number()
		case "maximum":
			t.maximum = g.number()
		case "specificationFilter":
			t.refinement = g.refinement(0)
		default:
			g.fail("a component, not %q", name)
		}
	})
	if g.skip(); g.rest != "" {
		g.fail("the end")
	}
	return t, g.err
}

// subtreeText is a parsed subtree specification.
type subtreeText struct {
	base             dn.DN
	chops            []chop
	minimum, maximum int // maximum -1: no maximum
	refinement       *refinement
}

// chop is a specific exclusion. It excludes the subtree of an entry, or only the entries
// below the entry.
type chop struct {
	after bool
	name  dn.DN
}

// refinement is "item:class", or a combination of refinements by "and", "or" or "not".
type refinement struct {
	kind  string
	class string
	parts []*refinement
}

// gser parses the string encoding of ASN.1 values (RFC 3641), as far as this package
// needs it. It keeps the first error, which ends all loops.
type gser struct {
	rest string
	err  error
}

func (g *gser) fail(format string, args ...any) {
	if g.err == nil {
		g.err = fmt.Errorf("not a subtree specification: expected %s before %q", fmt.Sprintf(format, args...), g.rest)
	}
	g.rest = ""
}

func (g *gser) skip() { g.rest = strings.TrimLeft(g.rest, " ") }

// accept skips the given sign if the rest of the text begins with it, and reports whether
// it did.
func (g *gser) accept(sign string) bool {
	g.skip()
	rest, ok := strings.CutPrefix(g.rest, sign)
	g.rest = rest
	return ok
}

func (g *gser) expect(sign string) {
	if !g.accept(sign) {
		g.fail("%q", sign)
	}
}

// list parses "{ item, item }". The list may be empty.
func (g *gser) list(item func()) {
	g.expect("{")
	if g.accept("}") {
		return
	}
	for g.err == nil {
		item()
		if !g.accept(",") {
			break
		}
	}
	g.expect("}")
}

// word parses a sequence of letters, digits, dots and hyphens.
func (g *gser) word() string {
	g.skip()
	end := 0
	for end < len(g.rest) && (isAlnum(g.rest[end]) || g.rest[end] == '-' || g.rest[end] == '.') {
		end++
	}
	w := g.rest[:end]
	g.rest = g.rest[end:]
	return w
}

// chop parses one specific exclusion.
func (g *gser) chop() chop {
	w := g.word()
	if w != "chopBefore" && w != "chopAfter" {
		g.fail("chopBefore or chopAfter")
	}
	g.expect(":")
	return chop{w == "chopAfter", g.name()}
}

func (g *gser) number() int {
	n, err := strconv.ParseUint(g.word(), 10, 31)
	if err != nil {
		g.fail("a number")
	}
	return int(n)
}

// name parses a DN in double quotes. A double quote in the DN is doubled.
func (g *gser) name() dn.DN {
	var name dn.DN
	text, err := g.quoted()
	if err == nil {
		name, err = dn.Parse(text)
	}
	if err != nil {
		g.fail("a name (%v)", err)
	}
	return name
}

func (g *gser) quoted() (string, error) {
	var b strings.Builder
	for g.accept(`"`) {
		text, rest, ok := strings.Cut(g.rest, `"`)
		if !ok {
			return "", errors.New("no closing quote")
		}
		b.WriteString(text)
		if g.rest = rest; !strings.HasPrefix(rest, `"`) {
			return b.String(), nil
		}
		b.WriteByte('"')
	}
	return "", errors.New("no opening quote")
}

// refinement parses item:class, and:{...}, or:{...} or not:.... It limits the depth of
// the nesting.
func (g *gser) refinement(depth int) *refinement {
	r := &refinement{}
	if depth > 50 {
		g.fail("less nesting")
		return r
	}
	r.kind = g.word()
	g.expect(":")
	switch r.kind {
	case "item":
		if r.class = g.word(); !validOIDWord(r.class) {
			g.fail("an object class")
		}
	case "and", "or":
		g.list(func() { r.parts = append(r.parts, g.refinement(depth+1)) })
	case "not":
		r.parts = []*refinement{g.refinement(depth + 1)}
	default:
		g.fail("item, and, or, not")
	}
	return r
}
