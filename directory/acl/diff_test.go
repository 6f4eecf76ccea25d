package acl_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
)

// TestDiffDecides compares the result of Diff with the decisions that each of the two
// sets of rules makes about single entries. It skips cases for which Joint returns true.
func TestDiffDecides(t *testing.T) {
	asked, changed := 0, 0
	for seed := range uint64(*oracleCases) {
		c := newTrial(seed)
		g := generator{rand.New(rand.NewPCG(seed, 3))}
		other := c.mutated(g)
		sets, programs := [2]*acl.Set{}, [2]*acl.Program{}
		for i, rules := range [][]acl.Placed{c.rules, other} {
			var err error
			if sets[i], err = acl.NewSet(core, contexts, rules); err != nil {
				t.Fatal(err)
			}
			if programs[i], err = sets[i].Program(c.id); err != nil {
				t.Fatal(err)
			}
		}
		d := acl.NewComparer(sets[0], sets[1])
		if d.Joint() {
			continue
		}
		for range 3 {
			n := pick(g, c.tree)
			_, e, before := c.decide(programs[0], n)
			_, _, after := c.decide(programs[1], n)
			check := func(right acl.Rights, what string, was, is bool) {
				asked++
				for _, gained := range []bool{true, false} {
					want := was != is && is == gained
					found, printed := d.Found(programs[0], e, right, what, gained)
					if found != want || printed != want {
						t.Fatalf("seed %d: %s %s of %s (gained %v): %v, printed %v, want %v\n%s\nother:\n%v", seed, right, what, n.name, gained, found, printed, want, c, other)
					}
					if want {
						changed++
					}
				}
			}
			for _, right := range acl.EntryRights.Each() {
				check(right, "", before.Entry(right), after.Entry(right))
			}
			for _, typ := range []string{"cn", "title", "userPassword"} {
				for _, right := range acl.AttributeRights.Each() {
					if typ := core.Attribute(typ); d.Names(typ) {
						check(right, typ.Name(), before.All(typ, right), after.All(typ, right))
					}
				}
			}
		}
	}
	t.Logf("%d questions, %d changes", asked, changed)
	if changed*1000 < asked {
		t.Errorf("%d changes in %d questions: the cases mean little", changed, asked)
	}
}

// mutated returns the rules, but may leave out one rule, and may add one rule.
func (c *trial) mutated(g generator) []acl.Placed {
	rules := slices.Clone(c.rules)
	more := g.rules()
	switch {
	case len(rules) > 0 && g.oneIn(2):
		i := g.IntN(len(rules))
		rules = slices.Delete(rules, i, i+1)
		fallthrough
	default:
		if len(more) > 0 && g.oneIn(2) {
			p := more[0]
			named := *p.Rule
			named.Name = "other"
			p.Rule = &named
			rules = append(rules, p)
		}
	}
	return rules
}

// TestDiff checks the printed form of differences.
func TestDiff(t *testing.T) {
	const before = `
staff: allow users to read cn, sn in (objectClass=person)
wages: deny everyone except group "cn=hr,dc=x" to read employeeNumber
far: allow anonymous to read in "ou=south,dc=x"`
	const after = `
staff: allow users to read cn, mail in (objectClass=person)
wages: deny everyone to read employeeNumber
all: allow everyone to read if secure and not address 10.0.0.0/8
far: allow anonymous to read in "ou=south,dc=x"`
	sets := [2]*acl.Set{}
	for i, text := range []string{before, after} {
		rules, err := acl.ReadFile(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if sets[i], err = acl.NewSet(core, contexts, rules); err != nil {
			t.Fatal(err)
		}
	}
	found, err := acl.Diff(sets[0], sets[1])
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, d := range found {
		got.WriteString(d.String() + "\n")
	}
	const want = `+ see; show, search, compare cn, sn
    users in not (objectClass=person) if secure and not address 10.0.0.0/8
    anonymous in not "ou=south,dc=x" if secure and not address 10.0.0.0/8
+ show, search, compare other user attributes
    everyone in not "ou=south,dc=x" if secure and not address 10.0.0.0/8
    users if secure and not address 10.0.0.0/8
- show, search, compare sn
    users in (objectClass=person) if address 10.0.0.0/8
    users in (objectClass=person) if not secure
+ show, search, compare mail
    everyone in not "ou=south,dc=x" if secure and not address 10.0.0.0/8
    users if secure and not address 10.0.0.0/8
    users in (objectClass=person)
`
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", &got, want)
	}
	if found, err := acl.Diff(sets[0], sets[0]); len(found) > 0 || err != nil {
		t.Errorf("a set differs from itself: %v, %v", found, err)
	}
}
