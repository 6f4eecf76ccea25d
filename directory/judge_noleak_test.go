package directory_test

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/ber"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
)

var (
	leakRequests = flag.Int("noleak", 300, "how many random requests TestNoLeak makes")
	leakSeed     = flag.Uint64("noleak-seed", 1, "the seed of the first pair of directories")
)

// requestsPerPair is how many requests are sent to a pair of directories before a new
// pair is made.
const requestsPerPair = 100

// TestNoLeak makes pairs of directories. The two directories of a pair differ only in what a
// user may not see. They must answer the same random requests with the same codes, matched
// names, texts, entries, values, counts, orders and controls.
func TestNoLeak(t *testing.T) {
	served := map[string]int{}
	for done := 0; done < *leakRequests; done += requestsPerPair {
		seed := *leakSeed + uint64(done/requestsPerPair)
		p := newTwins(t, seed)
		for i := range min(requestsPerPair, *leakRequests-done) {
			if code, ok := p.ask(); !ok {
				t.Fatalf("seed %d, request %d", seed, i)
			} else {
				served[fmt.Sprintf("%T %d", p.request, code)]++
			}
		}
		p.keepNoState(seed)
		p.close()
	}
	t.Log(served)
}

// keepNoState checks that no request has left a snapshot open, whatever the result of the
// request was.
func (p *twins) keepNoState(seed uint64) {
	p.t.Helper()
	for i, c := range p.sides {
		read := revisionOf(c.p)
		serve(p.t, p.admins[i], &op.Add{Name: "cn=after," + leakBase, Attributes: attributes(lines("objectClass: device\ncn: after"))})
		if oldest := oldestOf(c.p); oldest <= read {
			p.t.Errorf("seed %d: the state of %v stays in use", seed, oldest)
		}
	}
}

// leakRules let users see a part of the entries, attributes and values.
const leakRules = `
bind: allow everyone to bind
use: allow everyone to use *
tree: allow users to read objectClass, ou, dc, cn, uid, sn, givenName, manager, seeAlso, owner, l, memberOf, isMemberOf, hasSubordinates, numSubordinates, numAllSubordinates, aliasedObjectName, ref, structuralObjectClass, entryDN in "dc=example,dc=com" except below "ou=secret,dc=example,dc=com", (employeeType=hidden), (businessCategory=hidden)
lang: allow users to read description;lang-de in "ou=people,dc=example,dc=com" except (employeeType=hidden)
values: allow users to read mail(mail=*@open.org) in "ou=people,dc=example,dc=com" except (employeeType=hidden)
part: allow users to read member=self, uniqueMember=self in only "cn=mixed,ou=groups,dc=example,dc=com"
groups: allow users to read member in only "cn=plain,ou=groups,dc=example,dc=com", only "cn=adders,ou=groups,dc=example,dc=com"
shown: allow users to show carLicense in "ou=people,dc=example,dc=com" except (employeeType=hidden)
found: allow users to find departmentNumber in "ou=people,dc=example,dc=com" except (employeeType=hidden)
own: allow self to read *, +, to write description, telephoneNumber, seeAlso
past: allow users to past in "dc=example,dc=com" except "cn=adders,ou=groups,dc=example,dc=com"
boss: allow its manager to write l, to rename in "ou=people,dc=example,dc=com" except (employeeType=hidden)
adders: allow group "cn=adders,ou=groups,dc=example,dc=com" to read, edit in below "ou=drop,dc=example,dc=com"
shut: deny everyone to read l in (carLicense=secret)
log: allow users to read objectClass, targetDN, changeType, changes, newRDN, deleteOldRDN, newSuperior, changeInitiatorsName in "cn=changelog"
`

// leakDenials grant everything, and then deny most of what leakRules do not grant.
const leakDenials = `
bind: allow everyone to bind
use: allow everyone to use *
read: allow everyone to read *, +
past: allow everyone to past
own: allow self to write description, telephoneNumber, seeAlso
adders: allow group "cn=adders,ou=groups,dc=example,dc=com" to edit in below "ou=drop,dc=example,dc=com"
hidden: deny everyone to read in below "ou=secret,dc=example,dc=com", (employeeType=hidden), (businessCategory=hidden)
attributes: deny everyone to read employeeNumber, street, postalCode, title, employeeType, businessCategory, userPassword, createTimestamp, modifyTimestamp, entryCSN
texts: deny everyone to read description;lang-fr in "ou=people,dc=example,dc=com"
bare: deny everyone to read description except description;lang-de in "dc=example,dc=com"
values: deny everyone to read mail(mail=*@closed.org)
part: deny everyone to read member in only "cn=mixed,ou=groups,dc=example,dc=com"
log: allow users to read objectClass, targetDN, changeType, changes, newRDN, deleteOldRDN, newSuperior, changeInitiatorsName in "cn=changelog"
`

// twins are two directories with the same rules. Their contents differ only where the
// clients may not see them.
type twins struct {
	*rand.Rand
	t       *testing.T
	sides   [2]*client
	admins  [2]*directory.Session
	close   func()
	request op.Request
	names   []string
}

const leakBase = "dc=example,dc=com"

// newTwins returns two directories that differ in what users may not see.
func newTwins(t *testing.T, seed uint64) *twins {
	p := makeTwins(t, seed, func(p *twins, i int, c *client) {
		seen, hidden := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, uint64(2+i)))
		p.fill(c, seen, hidden)
		rules := []string{leakRules, leakDenials}[seed%2]
		p.makeHistory(c, rules, seen, hidden)
	})
	slices.Sort(p.names)
	p.names = slices.Compact(p.names)
	return p
}

// makeTwins returns two directories that fill has filled, with sessions of a user.
func makeTwins(t *testing.T, seed uint64, fill func(p *twins, side int, c *client)) *twins {
	p := &twins{Rand: rand.New(rand.NewPCG(seed, 0)), t: t}
	var ends []func()
	for i := range p.sides {
		part := newPartition(t)
		d := newDirectory(t, part, directory.Options{})
		ends = append(ends, d.Close)
		c := &client{t: t, p: part, d: d, s: d.NewSession(nil)}
		serve(t, c.s, &op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
		p.sides[i], p.admins[i] = c, c.s
		fill(p, i, c)
	}
	p.close = func() {
		for _, end := range ends {
			end()
		}
	}
	p.bindAs("uid=me,ou=people," + leakBase)
	return p
}

// bindAs begins new sessions. If the user's entry was renamed, the sessions stay anonymous
// on both sides.
func (p *twins) bindAs(name string) {
	var codes [2]op.Code
	for i, c := range p.sides {
		c.s, c.cookie = c.d.NewSession(nil), nil
		if name != "" {
			codes[i] = withControls(p.t, c.s, &op.Bind{Version: 3, Name: name, Password: []byte("me")}).Code
		}
	}
	if codes[0] != codes[1] {
		p.t.Errorf("binds as %q: %d and %d", name, codes[0], codes[1])
	}
}

// fill fills a directory. The random generator seen produces what users may see, and the random
// generator hidden produces the rest.
func (p *twins) fill(c *client, seen, hidden *rand.Rand) {
	f := filler{p, c, seen, hidden}
	follow(p.t, c.p, catalog.Reference{Attribute: "seeAlso"})
	f.add(leakBase, "objectClass: domain")
	for _, ou := range []string{"people", "groups", "secret", "drop", "misc"} {
		f.add("ou="+ou+","+leakBase, "objectClass: organizationalUnit")
	}
	f.person("uid=me,ou=people,"+leakBase, false)
	for i := range 6 {
		f.person(fmt.Sprintf("uid=p%d,ou=people,%s", i, leakBase), false)
	}
	f.groups()
	for i := range 3 {
		f.add(fmt.Sprintf("cn=d%d,ou=drop,%s", i, leakBase), "objectClass: device")
	}
	f.shared()
	// This entry is hidden on both sides, but users may see the entry below it.
	f.add("ou=veiled,"+leakBase, "objectClass: organizationalUnit", "businessCategory: hidden", "description: "+pickOf(hidden, leakWords))
	f.person("uid=inner,ou=veiled,"+leakBase, false)
	f.concealed()
}

// makeHistory sets the rules, and makes the checkpoint "then" of a past state that differs
// from the present state. In the past state, users may see only what they could see then and
// may still see now.
func (p *twins) makeHistory(c *client, rules string, seen, hidden *rand.Rand) {
	f := filler{p, c, seen, hidden}
	const people = ",ou=people," + leakBase
	for i := range 2 {
		f.person(fmt.Sprintf("uid=q%d", i)+people, true)                  // hidden at the checkpoint
		f.person(fmt.Sprintf("uid=w%d,ou=secret,%s", i, leakBase), false) // in a hidden place at the checkpoint
	}
	// A rule at ou=gone denies reading. The entry is deleted after the checkpoint, but the
	// rule must still hold in past states that contain the entry.
	f.add("ou=gone,"+leakBase, "objectClass: organizationalUnit")
	setRules(p.t, c.p, rules+"\"ou=gone,"+leakBase+"\" gone: deny everyone to read")
	// Users could see these entries then, but may not see them now.
	for i := range 2 {
		g := filler{p, c, hidden, hidden}
		g.person(fmt.Sprintf("uid=v%d", i)+people, false)
		g.person(fmt.Sprintf("uid=g%d,ou=gone,%s", i, leakBase), false)
	}
	c.do("checkpoint", "then")
	for i := range 2 {
		name := fmt.Sprintf("uid=q%d", i) + people
		c.must("delete", "dn: "+name)
		f.person(name, false)
		c.must("modifydn", fmt.Sprintf("dn: uid=w%d,ou=secret,%s", i, leakBase), fmt.Sprintf("rdn: uid=w%d", i), "superior: ou=people,"+leakBase)
		c.must("modify", fmt.Sprintf("dn: uid=v%d", i)+people, "add employeeType: hidden")
		c.must("modify", fmt.Sprintf("dn: uid=p%d", i)+people, "replace title: "+pickOf(hidden, leakWords), "replace l: "+pickOf(seen, leakWords))
		c.must("delete", fmt.Sprintf("dn: uid=g%d,ou=gone,%s", i, leakBase))
	}
	c.must("delete", "dn: ou=gone,"+leakBase)
	setRules(p.t, c.p, rules)
}

// A filler fills one directory.
type filler struct {
	*twins
	c            *client
	seen, hidden *rand.Rand
}

// add adds an entry, with the same entryUUID on both sides, because the entryUUID orders
// entries whose sort keys are equal.
func (f *filler) add(name string, more ...string) {
	f.names = append(f.names, name)
	id := sha256.Sum256([]byte(name))
	attribute, value, _ := strings.Cut(strings.SplitN(name, ",", 2)[0], "=")
	text := fmt.Sprintf("%s: %s\nentryUUID: %x-%x-%x-%x-%x\n%s", attribute, value, id[:4], id[4:6], id[6:8], id[8:10], id[10:16], strings.Join(more, "\n"))
	r := withControls(f.t, f.c.s, &op.Add{Name: name, Attributes: attributes(lines(strings.TrimSuffix(text, "\n")))}, namedControl("relax critical"))
	if r.Code != op.Success {
		f.t.Fatalf("%s: %v", name, &r.Result)
	}
}

func (f *filler) person(name string, hide bool) {
	uid := strings.TrimPrefix(strings.SplitN(name, ",", 2)[0], "uid=")
	r := f.seen
	if hide {
		r = f.hidden
	}
	more := []string{"objectClass: inetOrgPerson", "cn: " + pickOf(r, leakWords), "sn: " + pickOf(r, leakWords)}
	maybe := func(r *rand.Rand, before, behind string) {
		if r.IntN(2) == 0 {
			more = append(more, before+pickOf(r, leakWords)+behind)
		}
	}
	for _, a := range []string{"l: ", "departmentNumber: ", "description;lang-de: ", "carLicense: "} {
		maybe(r, a, "")
	}
	maybe(r, "mail: ", "@open.org")
	if r.IntN(2) == 0 {
		more = append(more, "manager: uid=me,ou=people,"+leakBase)
	}
	switch {
	case hide:
		more = append(more, "employeeType: hidden", "seeAlso: uid=me,ou=people,"+leakBase)
	case uid == "me": // this user may read all of their own entry
		f.add(name, append(more, "userPassword: me", "collectiveExclusions: c-street", "collectiveExclusions: c-postalCode")...)
		return
	}
	for _, a := range []string{"employeeNumber: ", "street: ", "description: ", "description;lang-fr: ", "title: "} {
		maybe(f.hidden, a, "")
	}
	maybe(f.hidden, "mail: ", "@closed.org")
	f.add(name, more...)
}

const leakGroup = "objectClass: groupOfNames"

// leakMembers returns some of the people, seen and hidden, as members of a group.
func leakMembers(r *rand.Rand, n int) (lines []string) {
	all := []string{"uid=me", "uid=p0", "uid=p1", "uid=p2", "uid=p3", "uid=h0", "uid=h1", "uid=h2"}
	for _, i := range r.Perm(len(all))[:n] {
		lines = append(lines, "member: "+all[i]+",ou=people,"+leakBase)
	}
	return lines
}

// groups adds groups that the user sees whole or in part. It also adds referrals and aliases.
func (f *filler) groups() {
	const me, reference = "member: uid=me,ou=people," + leakBase, "objectClass: extensibleObject"
	f.add("cn=plain,ou=groups,"+leakBase, append(leakMembers(f.seen, 3), leakGroup)...)
	f.add("cn=adders,ou=groups,"+leakBase, leakGroup, me)
	others := slices.DeleteFunc(leakMembers(f.hidden, 4), func(l string) bool { return l == me })
	f.add("cn=mixed,ou=groups,"+leakBase, append(others, leakGroup, me, "owner: uid=p1,ou=people,"+leakBase)...)
	f.add("cn=visible,ou=misc,"+leakBase, "objectClass: alias", reference, "aliasedObjectName: uid=p1,ou=people,"+leakBase)
	f.add("cn=dangling,ou=misc,"+leakBase, "objectClass: alias", reference, "aliasedObjectName: uid=h0,ou=people,"+leakBase)
	f.add("cn=away,ou=misc,"+leakBase, "objectClass: referral", reference, "ref: ldap://away.example/"+leakBase)
}

// shared adds collective attributes, and sometimes a subentry that is hidden.
func (f *filler) shared() {
	const specification = "subtreeSpecification: { specificationFilter item:person }"
	f.c.must("modify", "dn: ou=people,"+leakBase, "add administrativeRole: collectiveAttributeSpecificArea")
	f.add("cn=shared,ou=people,"+leakBase, "objectClass: subentry", "objectClass: collectiveAttributeSubentry", specification,
		"c-l: "+pickOf(f.seen, leakWords), "c-street: "+pickOf(f.hidden, leakWords))
	if f.hidden.IntN(2) == 0 {
		f.add("cn=hshared,ou=people,"+leakBase, "objectClass: subentry", "objectClass: collectiveAttributeSubentry", "objectClass: extensibleObject", specification,
			"employeeType: hidden", "c-street: "+pickOf(f.hidden, leakWords), "c-postalCode: "+pickOf(f.hidden, leakWords))
	}
}

// concealed adds entries that may be on one side only.
func (f *filler) concealed() {
	some := func() bool { return f.hidden.IntN(2) == 0 }
	for i := range 3 {
		for _, form := range []string{"uid=h%d,ou=people,", "uid=s%d,ou=secret,", "uid=k%d,uid=p%[1]d,ou=people,"} {
			if some() {
				f.person(fmt.Sprintf(form, i)+leakBase, true)
			}
		}
		if some() {
			f.add(fmt.Sprintf("cn=hg%d,ou=groups,%s", i, leakBase), append(leakMembers(f.hidden, 4), leakGroup, "businessCategory: hidden")...)
		}
	}
	if some() {
		f.add("cn=halias,ou=misc,"+leakBase, "objectClass: alias", "objectClass: extensibleObject", "aliasedObjectName: uid=p2,ou=people,"+leakBase, "employeeType: hidden")
	}
	if some() {
		f.add("cn=haway,ou=misc,"+leakBase, "objectClass: referral", "objectClass: extensibleObject", "ref: ldap://hidden.example/"+leakBase, "employeeType: hidden")
	}
	if some() {
		f.add("cn=sg,ou=secret,"+leakBase, append(leakMembers(f.hidden, 5), leakGroup)...)
	}
}

var leakWords = []string{"a", "ab", "abc", "b", "secret", "Zoe"}

func pickOf[T any](r *rand.Rand, all []T) T { return all[r.IntN(len(all))] }

var leakAttributes = []string{"objectClass", "ou", "cn", "uid", "sn", "name", "givenName", "manager", "seeAlso", "owner", "l", "mail", "member",
	"uniqueMember", "memberOf", "isMemberOf", "hasSubordinates", "numSubordinates", "numAllSubordinates", "description", "description;lang-de", "description;lang-fr",
	"carLicense", "departmentNumber", "employeeNumber", "employeeType", "businessCategory", "street", "title", "userPassword", "aliasedObjectName", "ref",
	"createTimestamp", "entryUUID", "entryDN", "structuralObjectClass", "subschemaSubentry", "telephoneNumber", "accessRule", "creatorsName", "pwdChangedTime", "nothing",
	"c-l", "c-street", "c-postalCode", "administrativeRole", "collectiveAttributeSubentries", "subtreeSpecification", "aclRights", "aclRightsInfo", "entryLevelRights", "attributeLevelRights"}

func (p *twins) attribute() string { return pickOf(p.Rand, leakAttributes) }

// name returns a name. The entry of this name may exist on both sides, on one side, or nowhere.
func (p *twins) name() string {
	switch p.IntN(12) {
	case 0:
		return "cn=none," + pickOf(p.Rand, p.names)
	case 1:
		return "uid=" + pickOf(p.Rand, leakWords) + ",ou=people," + leakBase
	case 2:
		return pickOf(p.Rand, []string{"", "cn=config", "cn=Subschema", "cn=monitor", "cn=changelog", "dc=com", "o=else", "cn=d1,ou=drop," + leakBase, "cn=halias,ou=misc," + leakBase, "cn=haway,ou=misc," + leakBase})
	case 3, 4, 5:
		return pickOf(p.Rand, []string{leakBase, "ou=people," + leakBase, "ou=groups," + leakBase})
	}
	return pickOf(p.Rand, p.names)
}

func (p *twins) value(attribute string) string {
	switch attribute {
	case "seeAlso":
		return p.name()
	case "member", "uniqueMember", "manager", "owner", "memberOf", "isMemberOf", "aliasedObjectName", "entryDN":
		return pickOf(p.Rand, p.names)
	case "objectClass", "structuralObjectClass":
		return pickOf(p.Rand, []string{"person", "inetOrgPerson", "groupOfNames", "alias", "referral", "top", "subentry"})
	case "hasSubordinates":
		return pickOf(p.Rand, []string{"TRUE", "FALSE"})
	case "numSubordinates", "numAllSubordinates":
		return fmt.Sprint(p.IntN(4))
	case "mail":
		return pickOf(p.Rand, leakWords) + pickOf(p.Rand, []string{"@open.org", "@closed.org"})
	case "createTimestamp", "pwdChangedTime":
		return "20260101000000Z"
	case "employeeType", "businessCategory":
		return "hidden"
	case "uid":
		return pickOf(p.Rand, []string{"me", "p0", "p1", "h0", "h1", "s0", "k0"})
	}
	return pickOf(p.Rand, leakWords)
}

func (p *twins) filter(depth int) string {
	if depth > 0 && p.IntN(3) == 0 {
		switch p.IntN(3) {
		case 0:
			return "(!" + p.filter(depth-1) + ")"
		case 1:
			return "(&" + p.filter(depth-1) + p.filter(depth-1) + ")"
		}
		return "(|" + p.filter(depth-1) + p.filter(depth-1) + ")"
	}
	a := p.attribute()
	v := p.value(a)
	switch p.IntN(9) {
	case 0, 1:
		return "(" + a + "=*)"
	case 2:
		return "(" + a + ">=" + v + ")"
	case 3:
		return "(" + a + "<=" + v + ")"
	case 4:
		return "(" + a + "=" + v[:min(len(v), 1)] + "*)"
	case 5:
		return pickOf(p.Rand, []string{"(member", "(memberOf", "(manager"}) + ":1.2.840.113556.1.4.1941:=" + pickOf(p.Rand, p.names) + ")"
	case 6:
		return "(" + a + ":dn:=" + v + ")"
	case 7:
		return "(:caseIgnoreMatch:=" + v + ")"
	}
	return "(" + a + "=" + v + ")"
}

func (p *twins) controls() string {
	if p.IntN(2) == 0 {
		return ""
	}
	var all []string
	for range 1 + p.IntN(2) {
		all = append(all, p.control())
	}
	return strings.Join(all, "; ")
}

func (p *twins) control() string {
	critical := pickOf(p.Rand, []string{"", "", " critical"})
	a, b := p.attribute(), p.attribute()
	switch p.IntN(28) {
	case 0, 17:
		return fmt.Sprintf("paged %d", 1+p.IntN(4)) + pickOf(p.Rand, []string{"", " new"})
	case 1, 18:
		return "sort " + pickOf(p.Rand, []string{"", "-"}) + a + " " + b + critical
	case 2, 19:
		return fmt.Sprintf("sort %s; vlv %d %d %d/%d", a, p.IntN(3), p.IntN(3), 1+p.IntN(6), p.IntN(3)*5)
	case 3:
		return fmt.Sprintf("sort %s; vlv %d %d >=%s", a, p.IntN(2), p.IntN(3), p.value(a))
	case 4:
		return "assertion " + p.filter(1) + critical
	case 5, 20:
		return "deref " + pickOf(p.Rand, []string{"member", "manager", "seeAlso", "owner"}) + ":" + a + "," + b + critical
	case 6, 21:
		return "matched " + "(" + a + "=" + p.value(a) + ")" + "(" + b + "=*)"
	case 7:
		return "manageDsaIT"
	case 8:
		return "proxied dn:" + p.name() + " critical"
	case 9:
		return "preRead " + a + " " + b
	case 10:
		return "postRead " + a + " *"
	case 11:
		return "noOp"
	case 12:
		return "subentries " + pickOf(p.Rand, []string{"TRUE", "FALSE"})
	case 13:
		return pickOf(p.Rand, []string{"permissive", "treeDelete critical", "relax", "dontUseCopy", "authzID", "session 192.0.2.1 app 1.2.3 one"})
	case 14:
		return "at " + pickOf(p.Rand, []string{"now", "2099-01-01T00:00:00Z", "never"}) + critical
	case 22, 23, 24:
		return "at then critical"
	case 25:
		return "rights critical"
	case 26:
		return "rights dn:" + p.name() + " critical"
	case 27:
		return p.rightsOf(pickOf(p.Rand, []string{"dn:", "dn:uid=me,ou=people," + leakBase, "dn:" + p.name()}), a, b)
	case 15:
		return "1.3.6.1.4.1.4203.1.9.1.1 x30030a0101" + critical // the sync request control
	}
	return pickOf(p.Rand, []string{"1.3.6.1.4.1.42.2.27.8.5.1", "1.3.6.1.4.1.42.2.27.9.5.8"}) + critical
}

// rightsOf returns a Get Effective Rights control in the form of Sun's servers.
func (p *twins) rightsOf(authzID string, attributes ...string) string {
	v := ber.Open(nil, ber.Sequence)
	v = ber.AppendString(v, ber.OctetString, authzID)
	at := len(v)
	v = ber.Open(v, ber.Sequence)
	for _, a := range attributes {
		v = ber.AppendString(v, ber.OctetString, a)
	}
	v = ber.Close(v, at)
	return fmt.Sprintf("1.3.6.1.4.1.42.2.27.9.5.2 x%x critical", ber.Close(v, 0))
}

// text returns a random request in the language of transcripts.
func (p *twins) text() (cmd, input string) {
	name := p.name()
	switch p.IntN(20) {
	case 0, 1:
		a := p.attribute()
		return "compare", "dn: " + name + "\nassert: " + a + "=" + p.value(a)
	case 2:
		a := pickOf(p.Rand, []string{p.attribute(), "l", "description", "seeAlso"})
		if a == "seeAlso" { // its values follow entries
			name = "uid=me,ou=people," + leakBase
		}
		return "modify", "dn: " + name + "\n" + pickOf(p.Rand, []string{"add ", "delete ", "replace "}) + a + ": " + p.value(a)
	case 3:
		return "delete", "dn: " + pickOf(p.Rand, []string{name, fmt.Sprintf("cn=d%d,ou=drop,%s", p.IntN(3), leakBase)})
	case 4:
		parent := pickOf(p.Rand, []string{name, "ou=drop," + leakBase, "ou=drop," + leakBase})
		return "add", fmt.Sprintf("dn: cn=d%d,%s\nobjectClass: device\ncn: d%[1]d", p.IntN(6), parent)
	case 5:
		input = "dn: " + name + "\nrdn: uid=r" + fmt.Sprint(p.IntN(3))
		if p.IntN(2) == 0 {
			input += "\nsuperior: " + p.name()
		}
		return "modifydn", input
	case 6:
		return "extended", "oid: 1.3.6.1.4.1.4203.1.11.3"
	case 9:
		return "search", "base: cn=changelog\nscope: " + pickOf(p.Rand, []string{"sub", "one"}) + "\nfilter: " + p.changelogFilter() +
			"\nattrs: " + pickOf(p.Rand, []string{"*", "targetDN changes", "changeType newRDN newSuperior"})
	case 8:
		return "bind", "dn: " + name + "\npassword: " + pickOf(p.Rand, []string{"me", "wrong", "wrong"})
	case 7:
		if p.IntN(4) == 0 {
			return "extended", "passwd: dn:" + name + " | wrong | new"
		}
		return "extended", "oid: " + pickOf(p.Rand, []string{"1.2.3", "1.3.6.1.1.8", "1.3.6.1.4.1.4203.1.11.3"})
	}
	var attrs []string
	for range p.IntN(4) {
		attrs = append(attrs, pickOf(p.Rand, []string{p.attribute(), p.attribute(), "*", "+", "1.1", "@person", "member;range=0-0"}))
	}
	if p.IntN(3) == 0 {
		name = leakBase
	}
	input = "base: " + name + "\nscope: " + pickOf(p.Rand, []string{"base", "one", "sub", "sub", "children"}) +
		"\nderef: " + pickOf(p.Rand, []string{"never", "never", "searching", "finding", "always"}) + "\nfilter: " + p.filter(2)
	if len(attrs) > 0 {
		input += "\nattrs: " + strings.Join(attrs, " ")
	}
	if p.IntN(8) == 0 {
		input += fmt.Sprintf("\nsize: %d", 1+p.IntN(4))
	}
	if p.IntN(10) == 0 {
		input += "\ntypes: x"
	}
	return "search", input
}

// changelogFilter returns a random filter of changes.
func (p *twins) changelogFilter() string {
	name := pickOf(p.Rand, p.names)
	return pickOf(p.Rand, []string{"(objectClass=*)", "(objectClass=changeLogEntry)", "(targetDN=" + name + ")", "(changeType=" + pickOf(p.Rand, []string{"add", "modify", "modrdn", "delete"}) + ")",
		"(changes=*" + pickOf(p.Rand, leakWords) + "*)", "(!(targetDN=" + name + "))", "(&(targetDN=" + name + ")(!(changeType=modify)))", "(changeOrdinal=*)", p.filter(1)})
}

// changeNumbers matches the change numbers in names of changes. These numbers differ between
// the two sides, because the sides have different commits.
var changeNumbers = regexp.MustCompile(`changeNumber=\d+`)

// ask sends a random request to both sides and compares the answers.
func (p *twins) ask() (op.Code, bool) {
	if p.IntN(40) == 0 {
		p.bindAs(pickOf(p.Rand, []string{"", "uid=me,ou=people," + leakBase, "uid=me,ou=people," + leakBase}))
	}
	cmd, input := p.text()
	controls := p.controls()
	var answered [2]string
	var code op.Code
	for i, c := range p.sides {
		m := &op.Message{ID: 1, Controls: c.controls(controls)}
		_, rest := fields(input)
		m.Request = c.request(cmd, input, rest)
		p.request = m.Request
		var out answers
		s := c.s
		if cmd == "bind" {
			s = c.d.NewSession(nil)
		}
		s.Serve(p.t.Context(), m, &out)
		if r, ok := m.Request.(*op.Add); ok && out.done.Code == op.Success { // delete the new entry, because its id differs between the sides
			serve(p.t, p.admins[i], &op.Delete{Name: r.Name})
		}
		answered[i], code = c.whole(&out, strings.Contains(controls, "paged")), out.done.Code
	}
	if answered[0] != answered[1] {
		p.t.Errorf("%s\n%s\ncontrol: %s\n---- one side\n%s---- the other\n%s", cmd, input, controls, answered[0], answered[1])
		return code, false
	}
	return code, true
}

// whole returns an answer as text, without the parts that may differ between the two sides.
// It replaces change numbers by positions in the answer. If a search is not sorted, the two
// sides may choose different entries for a page or up to the size limit. In this case, these
// entries are replaced by a fixed text.
func (c *client) whole(a *answers, paged bool) string {
	for i, e := range a.entries {
		if strings.HasPrefix(e, "dn: changeNumber=") {
			a.entries[i] = changeNumbers.ReplaceAllString(e, fmt.Sprintf("changeNumber=%04d", i))
		}
	}
	if !inOrder(a.done) && (paged || a.done.Code == op.SizeLimitExceeded) {
		for i := range a.entries {
			a.entries[i] = "an entry\n"
		}
	}
	return c.print(a)
}

// TestSubordinatesInFilters checks that tests of hasSubordinates and numSubordinates, in a
// filter or in an assertion control, count only the children that the requester sees.
func TestSubordinatesInFilters(t *testing.T) {
	part := newPartition(t)
	d := newDirectory(t, part, directory.Options{})
	t.Cleanup(d.Close)
	c := &client{t: t, p: part, d: d, s: d.NewSession(nil)}
	serve(t, c.s, &op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
	for _, text := range []string{"dc=example,dc=com\nobjectClass: domain\ndc: example", "ou=a,dc=example,dc=com\nobjectClass: organizationalUnit\nou: a",
		"cn=seen,ou=a,dc=example,dc=com\nobjectClass: device\ncn: seen", "cn=x,ou=a,dc=example,dc=com\nobjectClass: device\ncn: x", "cn=y,cn=x,ou=a,dc=example,dc=com\nobjectClass: device\ncn: y"} {
		name, rest, _ := strings.Cut(text, "\n")
		serve(t, c.s, &op.Add{Name: name, Attributes: attributes(lines(rest))})
	}
	setRules(t, part, "use: allow everyone to use *\n"+`read: allow everyone to read *, + in "dc=example,dc=com" except only "cn=seen,ou=a,dc=example,dc=com", only "cn=y,cn=x,ou=a,dc=example,dc=com"`)
	anonymous := d.NewSession(nil)
	for _, test := range []struct {
		name, filter string
		found        bool
	}{
		{"ou=a", "(numSubordinates=1)", true}, {"ou=a", "(numSubordinates=2)", false}, {"ou=a", "(numSubordinates>=2)", false},
		{"ou=a", "(numSubordinates:dn:=2)", false}, {"ou=a", "(numSubordinates:integerMatch:=1)", true}, {"ou=a", "(hasSubordinates=TRUE)", true},
		{"cn=x,ou=a", "(hasSubordinates=TRUE)", false}, {"cn=x,ou=a", "(hasSubordinates=FALSE)", true}, {"cn=x,ou=a", "(numSubordinates=0)", true},
		{"cn=x,ou=a", "(!(hasSubordinates=TRUE))", true},
	} {
		for _, control := range []string{"", "assertion " + test.filter + " critical"} {
			f := test.filter
			if control != "" {
				f = "(objectClass=*)"
			}
			var out answers
			anonymous.Serve(t.Context(), &op.Message{ID: 1, Request: &op.Search{Base: test.name + ",dc=example,dc=com", Filter: filter.MustParse(f)}, Controls: c.controls(control)}, &out)
			if got := len(out.entries) == 1; got != test.found {
				t.Errorf("%s %s %s: found %v", test.name, test.filter, control, got)
			}
		}
	}
}
