package foreign

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/tools/aclimport/aci"
	"github.com/seed-4dac0d86/ldapd/tools/aclimport/draft"
)

var (
	propertyCases = flag.Int("foreign", 40, "how many random imports the property tests translate")
	propertySeed  = flag.Uint64("foreign-seed", 1, "the seed of the first of them")
)

var core = schema.Core()

// A world is a small random directory with identities.
type world struct {
	*rand.Rand
	items []item
	dir   *directory
	ids   []*acl.Identity
}

var (
	worldNames = strings.Fields("dc=x ou=people,dc=x uid=ann,ou=people,dc=x uid=bob,ou=people,dc=x cn=phone,uid=bob,ou=people,dc=x " +
		"ou=groups,dc=x cn=admins,ou=groups,dc=x cn=staff,ou=groups,dc=x ou=north,dc=x uid=cid,ou=north,dc=x ou=deep,ou=people,dc=x uid=dan,ou=deep,ou=people,dc=x")
	worldUsers = strings.Fields("uid=ann,ou=people,dc=x uid=bob,ou=people,dc=x uid=cid,ou=north,dc=x uid=dan,ou=deep,ou=people,dc=x")
	worldTypes = strings.Fields("cn sn title ou mail description telephoneNumber manager owner member userPassword modifyTimestamp creatorsName")
)

func name(s string) dn.DN {
	d, err := dn.Parse(s)
	if err != nil {
		panic(err)
	}
	return d
}

func newWorld(seed uint64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 7))}
	for i, s := range worldNames {
		e := &entry.Entry{ID: entry.ID{15: byte(i + 1)}}
		add := func(t string, values ...string) {
			a := entry.Attribute{Type: core.Attribute(t)}
			for _, v := range values {
				a.Values = append(a.Values, []byte(v))
			}
			e.Attributes = append(e.Attributes, a)
		}
		class := map[string]string{"ui": "inetOrgPerson", "ou": "organizationalUnit", "cn": "groupOfNames", "dc": "domain"}[s[:2]]
		add("objectClass", "top", class)
		for _, t := range worldTypes {
			if t != "member" && w.IntN(3) > 0 {
				add(t, string(pick(w, values(core.Attribute(t)))))
			}
		}
		if class == "groupOfNames" {
			add("member", pick(w, worldUsers), pick(w, worldUsers))
		}
		w.items = append(w.items, item{name(s), e})
	}
	w.dir = newDirectory(core, w.items)
	w.ids = append(w.ids, w.identity(nil))
	for _, u := range worldUsers {
		w.ids = append(w.ids, w.identity(name(u)))
	}
	return w
}

func pick[T any](w *world, all []T) T { return all[w.IntN(len(all))] }

// values are the values of a type in the world.
func values(t *schema.AttributeType) [][]byte {
	texts := []string{"a", "boss", "b"}
	switch {
	case t.SentName() == "modifyTimestamp":
		texts = []string{"20260101000000Z"}
	case t.Equality != nil && strings.HasPrefix(t.Equality.Name(), "distinguishedName"):
		texts = worldUsers
	case t.SentName() == "objectClass":
		texts = []string{"person", "top"}
	case t.SentName() == "telephoneNumber":
		texts = []string{"7", "8"}
	}
	var all [][]byte
	for _, s := range texts {
		all = append(all, []byte(s))
	}
	return all
}

func (w *world) identity(d dn.DN) *acl.Identity {
	id := &acl.Identity{Name: d}
	id.SSF = pick(w, []int{0, 56, 128})
	id.Secure = id.SSF > 0
	id.Address = netip.MustParseAddr(pick(w, []string{"10.1.2.3", "10.2.0.1", "2001:db8::1"}))
	id.Time = time.Date(2026, 11, 20+w.IntN(7), w.IntN(24), pick(w, []int{0, 30}), 0, 0, time.UTC)
	if len(d) > 0 {
		id.Entry, id.Groups = w.dir.find(d), w.dir.groups(d)
		id.Mechanism = pick(w, []string{"simple", "external"})
	}
	return id
}

// compare compares, for every identity and every entry of the world, what the drafts and the
// originals of an import allow.
func (w *world) compare(t *testing.T, im *Import, j judge) *comparison {
	t.Helper()
	rules, err := im.Rules()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules {
		if again, err := acl.ParsePlaced(r.String()); err != nil || again.String() != r.String() {
			t.Fatalf("%s is read as %s, %v", r, again, err)
		}
	}
	set, err := acl.NewSet(core, []dn.DN{name("dc=x")}, rules)
	if err != nil {
		t.Fatalf("%v\n%s", err, im.text())
	}
	findings, err := set.Check(func(string) ([]dn.DN, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if strings.HasPrefix(f.Text, "changes nothing") || strings.HasPrefix(f.Text, "never holds") {
			t.Fatalf("%s %s\n%s", f.Rule.Label(), f.Text, im.text())
		}
	}
	c := &comparison{Judge: j, Set: set, Reserved: im.Options.Reserved, Values: values}
	for _, s := range worldTypes {
		c.Types = append(c.Types, core.Attribute(s))
	}
	for _, id := range w.ids {
		for _, x := range w.items {
			if err := c.Compare(id, w.dir.entry(x)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return c
}

func (im *Import) text() string {
	var b strings.Builder
	for _, x := range im.Originals {
		fmt.Fprintf(&b, "%s\n    at %s, %s %s more=%v\n", x.Text, x.dn, x.Class, x.Notes, x.More)
		for _, r := range x.Rules {
			fmt.Fprintf(&b, "    %s\n", r)
		}
	}
	return b.String()
}

// check fails the test if there is a difference although all drafts are marked exact. It
// also fails the test if the drafts allow more than the originals although no draft has More
// set.
func check(t *testing.T, seed uint64, im *Import, c *comparison) (exact bool) {
	t.Helper()
	exact, more := true, false
	for _, x := range im.Originals {
		exact = exact && x.Class == draft.Exact
		more = more || x.More
	}
	for _, d := range c.Found {
		if exact || d.More && !more {
			t.Fatalf("seed %d: %s\n%s", seed, d, im.text())
		}
	}
	return exact
}

// TestACIProperty translates random aci, and compares what the aci allow with what the
// drafts allow.
func TestACIProperty(t *testing.T) {
	exact, asked := 0, 0
	for i := range *propertyCases {
		seed := *propertySeed + uint64(i)
		w := newWorld(seed)
		im := &Import{Options: Options{Schema: core, Contexts: []dn.DN{name("dc=x")}, Zone: time.UTC, Reserved: w.IntN(2) == 0,
			Server: pick(w, []string{"389", "opendj"})}}
		for range 1 + w.IntN(3) {
			x := &Original{Text: w.aci(im.Server), dn: name(pick(w, []string{"dc=x", "dc=x", "ou=people,dc=x"}))}
			var err error
			if x.aci, err = aci.Parse(x.Text); err != nil {
				t.Fatalf("%s: %v", x.Text, err)
			}
			im.Originals = append(im.Originals, x)
		}
		im.Translate()
		if err := im.Minimize(); err != nil {
			t.Fatal(err)
		}
		j := &aciJudge{Options: &aci.Options{Schema: core, Dialect: im.dialect, Zone: im.Zone}, Find: w.dir.find}
		for _, x := range im.Originals {
			if x.Class != draft.Not {
				j.Values = append(j.Values, placed{x.dn, x.aci})
			}
		}
		c := w.compare(t, im, j)
		if asked += c.Asked; check(t, seed, im, c) {
			exact++
		}
	}
	t.Logf("%d imports, %d of them exact, %d questions", *propertyCases, exact, asked)
	if exact*4 < *propertyCases {
		t.Errorf("of %d imports %d are exact: the cases mean little", *propertyCases, exact)
	}
}

// TestOLCProperty translates random directives of slapd, and compares what the directives
// allow with what the drafts allow.
func TestOLCProperty(t *testing.T) {
	exact, asked := 0, 0
	for i := range *propertyCases {
		seed := *propertySeed + uint64(i)
		w := newWorld(seed)
		im := &Import{Options: Options{Schema: core, Contexts: []dn.DN{name("dc=x")}, Reserved: w.IntN(2) == 0}}
		db := &database{suffixes: []dn.DN{name("dc=x")}}
		for range 1 + w.IntN(4) {
			db.directives = append(db.directives, &Original{Text: w.directive(), db: db})
		}
		im.add(db, db.directives)
		for _, x := range im.Originals {
			if x.olc == nil {
				t.Fatalf("%s: %s", x.Text, x.Notes)
			}
		}
		im.Translate()
		if err := im.Minimize(); err != nil {
			t.Fatal(err)
		}
		j := &olcJudge{Schema: core, Entry: w.dir.byDN}
		for _, x := range im.Originals {
			j.Directives = append(j.Directives, x.olc)
		}
		c := w.compare(t, im, j)
		if asked += c.Asked; check(t, seed, im, c) {
			exact++
		}
	}
	t.Logf("%d imports, %d of them exact, %d questions", *propertyCases, exact, asked)
	if exact*10 < *propertyCases {
		t.Errorf("of %d imports %d are exact: the cases mean little", *propertyCases, exact)
	}
}

// directive returns a random directive.
func (w *world) directive() string {
	var b strings.Builder
	b.WriteString("to")
	some := false
	if w.IntN(3) > 0 {
		fmt.Fprintf(&b, " dn.%s", pick(w, []string{`subtree="ou=people,dc=x"`, `exact="ou=people,dc=x"`, `one="ou=people,dc=x"`, `children="dc=x"`, `subtree="dc=x"`,
			`regex="^uid=([^,]+),ou=people,dc=x$"`, `regex="^(.+,)?ou=groups,dc=x$"`, `regex=".+,ou=people,dc=x"`, `base="uid=ann,ou=people,dc=x"`, `regex="^uid=a[^,]*,ou=people,dc=x$"`}))
		some = true
	}
	if w.IntN(4) == 0 {
		fmt.Fprintf(&b, " filter=%s", pick(w, []string{"(title=boss)", "(objectClass=groupOfNames)", "(|(sn=a)(ou=b))"}))
		some = true
	}
	if w.IntN(2) == 0 {
		attrs := pick(w, []string{"userPassword", "cn,sn", "entry", "children", "entry,cn", "@person", "!person", "member", "name", "title", "modifyTimestamp", "manager,owner"})
		fmt.Fprintf(&b, " attrs=%s", attrs)
		if attrs == "title" && w.IntN(2) == 0 {
			b.WriteString(" val=boss")
		}
		some = true
	}
	if !some {
		b.WriteString(" *")
	}
	for range 1 + w.IntN(3) {
		fmt.Fprintf(&b, " by %s", w.olcWho())
		if w.IntN(5) == 0 {
			b.WriteString(" " + w.olcWho())
		}
		fmt.Fprintf(&b, " %s", pick(w, []string{"read", "write", "none", "auth", "search", "compare", "=rs", "+r", "+w", "-w", "=wrscxd", "selfwrite", "read", "write", "manage", "disclose"}))
		fmt.Fprintf(&b, " %s", pick(w, []string{"stop", "stop", "stop", "break", "continue"}))
	}
	return b.String()
}

func (w *world) olcWho() string {
	return pick(w, []string{"*", "*", "users", "anonymous", "self", `dn.exact="uid=ann,ou=people,dc=x"`, `dn.subtree="ou=people,dc=x"`, `dn.children="dc=x"`, "dnattr=manager",
		`group="cn=admins,ou=groups,dc=x"`, `group/groupOfNames/member="cn=staff,ou=groups,dc=x"`, "peername.ip=10.1.0.0%255.255.0.0", "ssf=56", "tls_ssf=128",
		`set="this/manager & user"`, `set="user/title & [boss]"`, `set="this/title & user/title"`, `set="this/-1/owner & user"`, "domain=example.com", `dn.regex="^uid=[^,]+,ou=people,dc=x$"`,
		`dn.exact,expand="uid=$1,ou=people,dc=x"`, "self.level{1}", `set="user & this & x"`})
}

// aci returns a random aci.
func (w *world) aci(server string) string {
	var b strings.Builder
	attrs := []string{"*", "cn", "title", "sn || title", "userPassword", "name", "manager || owner", "member", "cn || +", "* || +", "modifyTimestamp"}
	if server == "389" {
		attrs = []string{"*", "*", "cn", "title", "sn || title", "userPassword", "name", "manager || owner", "member", "modifyTimestamp", "t*"}
	}
	if w.IntN(6) > 0 {
		fmt.Fprintf(&b, `(targetattr %s "%s")`, pick(w, []string{"=", "=", "=", "!="}), pick(w, attrs))
	}
	if w.IntN(3) == 0 {
		fmt.Fprintf(&b, `(target %s "ldap:///%s")`, pick(w, []string{"=", "=", "!="}), pick(w, []string{"ou=people,dc=x", "dc=x", "uid=ann,ou=people,dc=x",
			"uid=*,ou=people,dc=x", "cn=*,ou=groups,dc=x", "uid=*,dc=x", "uid=a*n,ou=people,dc=x", "*,ou=people,dc=x", "ou=groups,dc=x"}))
	}
	if w.IntN(4) == 0 {
		fmt.Fprintf(&b, `(targetfilter %s "%s")`, pick(w, []string{"=", "=", "!="}), pick(w, []string{"(objectClass=inetOrgPerson)", "(title=boss)", "(|(title=a)(cn=b))", "ou=a", "(memberOf=cn=admins,ou=groups,dc=x)", "(!(memberOf=*))"}))
	}
	if w.IntN(6) == 0 {
		fmt.Fprintf(&b, `(targattrfilters="%s")`, pick(w, []string{"add=title:(title=a)", "del=title:(title=b)", "add=title:(title=a) && cn:(cn=b), del=cn:(cn=a)", "add=title:(!(title=boss))"}))
	}
	if server != "389" && w.IntN(4) == 0 {
		fmt.Fprintf(&b, `(targetscope="%s")`, pick(w, []string{"base", "onelevel", "subtree", "subordinate"}))
	}
	fmt.Fprintf(&b, `(version 3.0; acl "rule %d";`, w.IntN(3))
	for range 1 + w.IntN(2) {
		fmt.Fprintf(&b, ` %s (%s) %s;`, pick(w, []string{"allow", "allow", "allow", "deny"}),
			pick(w, []string{"all", "read", "read,search,compare", "write", "search", "read,write", "add,delete", "selfwrite", "add", "read,search,compare,write", "delete", "compare"}), w.bind(2))
	}
	b.WriteString(")")
	return b.String()
}

func (w *world) bind(depth int) string {
	if depth > 0 && w.IntN(3) == 0 {
		return fmt.Sprintf("(%s %s %s)", w.bind(depth-1), pick(w, []string{"and", "or"}), w.bind(depth-1))
	}
	if depth > 0 && w.IntN(10) == 0 {
		return "not (" + w.bind(depth-1) + ")"
	}
	op := pick(w, []string{"=", "=", "=", "!="})
	url := func(all ...string) string { return fmt.Sprintf(`"ldap:///%s"`, pick(w, all)) }
	switch w.IntN(9) {
	case 0:
		return "userdn " + op + url("self", "self", "parent")
	case 1:
		return "groupdn " + op + url("cn=admins,ou=groups,dc=x", "cn=staff,ou=groups,dc=x")
	case 2:
		return "userdn " + op + url("uid=*,ou=people,dc=x", "uid=ann,ou=people,dc=x", "ou=people,dc=x??sub?(title=boss)", "ou=people,dc=x??sub?", "uid=bob,ou=people,dc=x || ldap:///uid=cid,ou=north,dc=x")
	case 3:
		return fmt.Sprintf(`userattr %s "%s"`, op, pick(w, []string{"manager#USERDN", "owner#GROUPDN", "title#boss", "parent[0,1].manager#USERDN", "parent[2].owner#USERDN"}))
	case 4:
		return fmt.Sprintf(`ip %s "%s"`, op, pick(w, []string{"10.1.0.0/16", "10.1.*", "10.1.2.3,10.2.0.1", "2001:db8::/32"}))
	case 5:
		return fmt.Sprintf(`ssf %s "%d"`, pick(w, []string{"=", ">=", "<", "!=", ">", "<="}), pick(w, []int{0, 56, 128}))
	case 6:
		return pick(w, []string{`dayofweek = "Mon,Tue,Sun"`, `timeofday >= "0800" and timeofday < "1830"`, `authmethod = "simple"`, `authmethod = "sasl EXTERNAL"`, `dns = "*.example.com"`})
	}
	return "userdn = " + url("anyone", "all")
}
