package directory_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory/access"
	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/state"
)

// TestNoLeakRandom is TestNoLeak with random rules. The two directories of a pair are equal
// at first. Then the test changes some values in one of the directories. Neither the user nor
// an anonymous client has any right on these values.
func TestNoLeakRandom(t *testing.T) {
	served, changed := map[string]int{}, 0
	for done := 0; done < *leakRequests; done += requestsPerPair {
		seed := *leakSeed + uint64(done/requestsPerPair)
		p := newRandomTwins(t, seed)
		changed += p.conceal()
		for i := range min(requestsPerPair, *leakRequests-done) {
			code, ok := p.ask()
			if !ok {
				t.Fatalf("seed %d, request %d, rules\n%s", seed, i, randomRules(seed))
			}
			served[fmt.Sprintf("%T %d", p.request, code)]++
		}
		p.close()
	}
	t.Log(changed, served)
	if changed == 0 {
		t.Error("the directories do not differ")
	}
}

// newRandomTwins returns two equal directories with random rules.
func newRandomTwins(t *testing.T, seed uint64) *twins {
	return makeTwins(t, seed, func(p *twins, _ int, c *client) {
		p.fill(c, rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2)))
		c.do("checkpoint", "then")
		setRules(t, c.p, randomRules(seed))
	})
}

// randomRules returns random rules. They let nobody add entries or read the times of changes,
// because both reveal something of what is hidden (docs/access.md).
func randomRules(seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 9))
	who := []string{"users", "everyone", "self", "anonymous", "its manager", "same l", `group "cn=adders,ou=groups,` + leakBase + `"`, "its parent's owner", `"uid=me,ou=people,` + leakBase + `"`}
	rights := []string{"read", "read", "find", "show", "search", "search, show", "write", "insert"}
	in := []string{"", "", ` in "ou=people,` + leakBase + `"`, ` in "ou=groups,` + leakBase + `"`, " in (objectClass=person)", " in (employeeType=hidden)",
		` in "` + leakBase + `" except (employeeType=hidden)`, ` in "` + leakBase + `" except (carLicense=*)`, " in (memberOf=cn=plain,ou=groups," + leakBase + ")",
		` in "` + leakBase + `" except (isMemberOf=cn=mixed,ou=groups,` + leakBase + ")", ` in children "ou=people,` + leakBase + `"`}
	attributes := []string{"*", "+", "@person", "cn", "sn", "name", "l", "mail", "mail(mail=*@open.org)", "member", "member=self", "description;lang-de", "description",
		"title", "manager", "objectClass", "memberOf", "c-l", "street"}
	var b strings.Builder
	b.WriteString("bind: allow everyone to bind\nuse: allow everyone to use *\npast: allow users to past\n" +
		"log: allow users to read objectClass, targetDN, changeType, changes, newRDN, newSuperior in \"cn=changelog\"\n")
	for i := range 3 + r.IntN(6) {
		verb := "allow"
		if i > 0 && r.IntN(4) == 0 {
			verb = "deny"
		}
		var of []string
		for range 1 + r.IntN(4) {
			of = append(of, pickOf(r, attributes))
		}
		fmt.Fprintf(&b, "r%d: %s %s to %s %s%s\n", i, verb, pickOf(r, who), pickOf(r, rights), strings.Join(of, ", "), pickOf(r, in))
	}
	b.WriteString("times: deny everyone to read createTimestamp, modifyTimestamp, entryCSN, contextCSN, pwdChangedTime\n")
	return b.String()
}

// concealed contains the attributes whose values the method conceal changes. No condition on
// entries in a random rule tests these attributes.
var concealed = []string{"description", "street", "title", "employeeNumber", "departmentNumber", "sn", "mail"}

// conceal changes values on the second side. It changes only values on which neither the
// user nor an anonymous client has any right. It returns the number of changes.
func (p *twins) conceal() (changed int) {
	c := p.sides[1]
	ctx := p.t.Context()
	s := state.Newest(c.p)
	defer s.Close()
	var programs []*acl.Program
	for _, name := range []string{"", "uid=me,ou=people," + leakBase} {
		who, err := access.NewRules().Somebody(ctx, s, mustName(p.t, name), acl.Connection{Mechanism: "simple"})
		if err != nil {
			p.t.Fatal(err)
		}
		programs = append(programs, who.Program)
	}
	user := c.s
	c.s = p.admins[1]
	defer func() { c.s = user }()
	for _, name := range p.names {
		if !strings.HasPrefix(name, "uid=") {
			continue
		}
		d := decisions(p.t, s, programs, name)
		for _, attribute := range concealed {
			if t := s.Schema().Attribute(attribute); !d.some(t.Name(), s) {
				c.must("modify", "dn: "+name, "replace "+attribute+": changed")
				changed++
			}
		}
	}
	return changed
}

func mustName(t *testing.T, name string) dn.DN {
	t.Helper()
	d, err := dn.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A ruling contains the decisions about one entry, one for each of some identities.
type ruling []*acl.Decision

func decisions(t *testing.T, s *partition.Snapshot, programs []*acl.Program, name string) (all ruling) {
	t.Helper()
	n := mustName(t, name)
	at, err := s.Find(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	e, err := s.Entry(t.Context(), at.ID, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		z, err := p.Zone(n.Parent())
		if err != nil {
			t.Fatal(err)
		}
		src := &filter.EntrySource{Schema: s.Schema(), Entry: e, Name: n}
		var x access.Entry
		all = append(all, z.Decide(x.Set(t.Context(), s, n, e, src)))
		if x.Err() != nil {
			t.Error(x.Err())
		}
	}
	return all
}

// The method "some" reports whether at least one of the identities may have a right on a value of
// an attribute.
func (r ruling) some(attribute string, s *partition.Snapshot) bool {
	for _, d := range r {
		for _, right := range acl.AttributeRights.Each() {
			if d.Some(s.Schema().Attribute(attribute), right) {
				return true
			}
		}
	}
	return false
}

// TestNobodyModifies checks that attributes that nobody may modify never count as writable in
// Get Effective Rights. The administrator and a user ask, with and without the name of an
// identity.
func TestNobodyModifies(t *testing.T) {
	c := newClient(t)
	c.must("bind", "dn: "+admin, "password: secret")
	c.must("add", "dn: dc=example,dc=com", "objectClass: domain", "dc: example")
	c.must("add", "dn: uid=me,dc=example,dc=com", "objectClass: inetOrgPerson", "cn: me", "sn: me", "userPassword: p")
	setRules(t, c.p, "bind: allow everyone to bind\nuse: allow everyone to use *\nall: allow users to read *, +, to write *, +, to manage, explain\nself: allow self to write creatorsName=self, modifiersName=self")
	n := 0
	for _, who := range []string{admin, "uid=me,dc=example,dc=com"} {
		password := map[bool]string{true: "secret", false: "p"}[who == admin]
		c.must("bind", "dn: "+who, "password: "+password)
		s := state.Newest(c.p)
		for _, a := range s.Schema().Attributes() {
			if !a.NoUserModification {
				continue
			}
			n++
			for _, form := range []string{"rights critical", "rights dn:uid=me,dc=example,dc=com critical"} {
				out := c.do("search", "base: uid=me,dc=example,dc=com", "attrs: attributeLevelRights "+a.Name(), "control: "+form)
				_, letters, _ := strings.Cut(out, "attributeLevelRights: ")
				for part := range strings.SplitSeq(strings.SplitN(letters, "\n", 2)[0], ", ") {
					if of, rights, _ := strings.Cut(part, ":"); strings.EqualFold(of, a.Name()) && strings.ContainsAny(rights, "woWO") {
						t.Errorf("%s, %s: %s", who, form, part)
					}
				}
				out = c.do("search", "base: uid=me,dc=example,dc=com", "attrs: aclRights "+a.Name(), "control: "+form)
				for line := range strings.Lines(out) {
					if strings.Contains(line, "attributeLevel;"+strings.ToLower(a.Name())+":") && (!strings.Contains(line, "write:0") || strings.Contains(line, "_add:1") || strings.Contains(line, "_delete:1")) {
						t.Errorf("%s, %s: %s", who, form, line)
					}
				}
			}
		}
		s.Close()
	}
	if n < 20 {
		t.Errorf("%d attributes", n)
	}
}
