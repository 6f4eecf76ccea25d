package acl

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A world is a directory in memory. It has rules, and maps names to entries.
type world struct {
	t       *testing.T
	schema  *schema.Schema
	entries map[string]*entry.Entry
	set     *Set
}

// newWorld makes a world. A line of entries has the form "name: type=value type=value",
// and a line of rules has the form "place | rule".
func newWorld(t *testing.T, entries, rules string) *world {
	t.Helper()
	w := &world{t: t, schema: schema.Core(), entries: map[string]*entry.Entry{}}
	for line := range strings.Lines(strings.TrimSpace(entries)) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		e := &entry.Entry{ID: entry.NewID()}
		for _, pair := range strings.Fields(rest) {
			typ, v, _ := strings.Cut(pair, "=")
			at, options := w.schema.Describe(typ)
			if at == nil {
				t.Fatalf("no type %s", typ)
			}
			options = entry.SortOptions(options)
			if a := e.Find(at, options); a != nil {
				a.Values = append(a.Values, []byte(v))
			} else {
				e.Attributes = append(e.Attributes, entry.Attribute{Type: at, Options: options, Values: [][]byte{[]byte(v)}})
			}
		}
		w.entries[name] = e
	}
	set, err := NewSet(w.schema, []dn.DN{w.name("dc=x"), w.name("dc=y,dc=z")}, placed(t, rules))
	if err != nil {
		t.Fatal(err)
	}
	w.set = set
	return w
}

func placed(t *testing.T, rules string) (all []Placed) {
	t.Helper()
	for line := range strings.Lines(strings.TrimSpace(rules)) {
		place, text, _ := strings.Cut(strings.TrimSpace(line), "|")
		name, err := dn.Parse(strings.TrimSpace(place))
		if err != nil {
			t.Fatal(err)
		}
		r, err := Parse(strings.TrimSpace(text))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, Placed{name, r})
	}
	return all
}

// The method "as" returns the Program of the identity with the given name, which is in the given
// groups. If the name is "", the identity is anonymous.
func (w *world) as(name string, groups ...string) *Program {
	w.t.Helper()
	return w.with(name, Connection{}, groups...)
}

func (w *world) with(name string, c Connection, groups ...string) *Program {
	w.t.Helper()
	id := &Identity{Name: w.name(name), Entry: w.entries[name], Connection: c}
	for _, g := range groups {
		id.Groups = append(id.Groups, w.name(g))
	}
	p, err := w.set.Program(id)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) name(s string) dn.DN {
	w.t.Helper()
	d, err := dn.Parse(s)
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

func (w *world) entry(name string) *Entry {
	w.t.Helper()
	e, d := w.entries[name], w.name(name)
	if e == nil {
		w.t.Fatalf("no entry %s", name)
	}
	return &Entry{Name: d, Entry: e, Source: &filter.EntrySource{Schema: w.schema, Entry: e, Name: d}, Others: around{w, d}}
}

// around answers questions about the parent and the groups of an entry of a world.
type around struct {
	*world
	name dn.DN
}

func (a around) Parent() *entry.Entry { return a.entries[a.name.Parent().String()] }

// InGroup reports whether the attribute member of the group names the entry. If group is
// nil, any entry may be the group. If nested is set, membership through groups in the group
// counts too.
func (a around) InGroup(group dn.DN, nested bool) bool {
	for name, e := range a.entries {
		if group != nil && name != group.String() {
			continue
		}
		for _, v := range e.Values(a.schema.Attribute("member")) {
			if string(v) == a.name.String() || nested && a.InGroup(a.world.name(string(v)), true) {
				return true
			}
		}
	}
	return false
}

func (w *world) decide(p *Program, name string) *Decision {
	w.t.Helper()
	z, err := p.Zone(w.name(name).Parent())
	if err != nil {
		w.t.Fatal(err)
	}
	return z.Decide(w.entry(name))
}

// The method "may" returns the answer to a question of the form "right entry" or "right entry
// attribute[=value]".
func (w *world) may(p *Program, question string) bool {
	w.t.Helper()
	words := strings.Fields(question)
	right, ok := ParseRights(words[0])
	if !ok {
		w.t.Fatalf("no right %s", words[0])
	}
	d := w.decide(p, words[1])
	if len(words) == 2 {
		return d.Entry(right)
	}
	right &= onAttributes
	description, value, hasValue := strings.Cut(words[2], "=")
	t, options := w.schema.Describe(description)
	if t == nil {
		w.t.Fatalf("no type %s", description)
	}
	if hasValue {
		return d.Value(t, entry.SortOptions(options), []byte(value), right)
	}
	return d.Description(t, entry.SortOptions(options), right)
}

const people = `
dc=x: objectClass=domain dc=x
ou=people,dc=x: objectClass=organizationalUnit ou=people owner=uid=ann,ou=people,dc=x
uid=ann,ou=people,dc=x: objectClass=person uid=ann cn=Ann sn=A title=boss departmentNumber=7 userPassword=s mail=ann@x
uid=bob,ou=people,dc=x: objectClass=person uid=bob cn=Bob cn;lang-de=Robert sn=B manager=uid=ann,ou=people,dc=x departmentNumber=7 employeeType=admin mail=bob@y
uid=cid,ou=people,dc=x: objectClass=person uid=cid cn=Cid sn=C manager=uid=bob,ou=people,dc=x departmentNumber=8
cn=phone,uid=cid,ou=people,dc=x: objectClass=device cn=phone
ou=north,dc=x: objectClass=organizationalUnit ou=north
cn=admins,ou=north,dc=x: objectClass=groupOfNames cn=admins member=uid=bob,ou=people,dc=x member=uid=cid,ou=people,dc=x
ou=south,dc=x: objectClass=organizationalUnit ou=south
dc=y,dc=z: objectClass=domain dc=y
ou=a,dc=y,dc=z: objectClass=organizationalUnit ou=a
`

const (
	ann = "uid=ann,ou=people,dc=x"
	bob = "uid=bob,ou=people,dc=x"
	cid = "uid=cid,ou=people,dc=x"
)

// TestDecisions checks what requesters may do (+) and may not do (-) under given rules.
func TestDecisions(t *testing.T) {
	for _, c := range []struct {
		name, rules, who string
		groups           []string
		answers          string
	}{
		{"nothing is allowed that no rule allows", ``, ann, nil, `
			- see dc=x
			- show uid=ann,ou=people,dc=x cn`},
		{"attributes bring see", `dc=x | a: allow users to show cn in (objectClass=person)`, ann, nil, `
			+ see uid=bob,ou=people,dc=x
			+ show uid=bob,ou=people,dc=x cn
			- search uid=bob,ou=people,dc=x cn
			- show uid=bob,ou=people,dc=x sn
			- see ou=people,dc=x`},
		{"users are not the anonymous", `dc=x | a: allow users to read`, "", nil, `
			- see dc=x`},
		{"names cover subtypes and options", `| a: allow everyone to read name`, "", nil, `
			+ read uid=bob,ou=people,dc=x cn;lang-de
			+ read uid=bob,ou=people,dc=x sn
			- show uid=bob,ou=people,dc=x mail`},
		{"options narrow", `| a: allow everyone to read cn;lang-de`, "", nil, `
			+ show uid=bob,ou=people,dc=x cn;lang-de
			- show uid=bob,ou=people,dc=x cn`},
		{"a denial wins wherever it stands", "| a: deny everyone to read mail\nou=people,dc=x | b: allow everyone to read", "", nil, `
			+ show uid=ann,ou=people,dc=x cn
			- show uid=ann,ou=people,dc=x mail
			+ see uid=ann,ou=people,dc=x`},
		{"a denial of attributes leaves see", "| a: allow everyone to read\ndc=x | b: deny everyone to read cn", "", nil, `
			+ see uid=ann,ou=people,dc=x
			- show uid=ann,ou=people,dc=x cn`},
		{"a denial without attributes hides", "| a: allow everyone to read\ndc=x | b: deny everyone except group \"cn=admins,ou=north,dc=x\" to read in \"ou=people\"", ann, nil, `
			- see uid=ann,ou=people,dc=x
			+ see ou=north,dc=x`},
		{"except lets through", "| a: allow everyone to read\ndc=x | b: deny everyone except group \"cn=admins,ou=north,dc=x\" to read in \"ou=people\"", bob, []string{"cn=admins,ou=north,dc=x"}, `
			+ see uid=ann,ou=people,dc=x`},
		{"* leaves out what is reserved", `| a: allow everyone to read *, +`, "", nil, `
			+ show uid=ann,ou=people,dc=x entryUUID
			- show uid=ann,ou=people,dc=x userPassword
			- show uid=ann,ou=people,dc=x pwdReset`},
		{"so does a class", `| a: allow everyone to read @person`, "", nil, `
			+ show uid=ann,ou=people,dc=x sn
			- show uid=ann,ou=people,dc=x userPassword
			- show uid=ann,ou=people,dc=x mail`},
		{"by name it is given", `| a: allow self to write userPassword`, ann, nil, `
			+ write uid=ann,ou=people,dc=x userPassword
			- write uid=bob,ou=people,dc=x userPassword
			- show uid=ann,ou=people,dc=x userPassword`},
		{"values", `| a: allow users to write manager=self, title="boss", mail(mail=*@x)`, ann, nil, `
			+ write uid=bob,ou=people,dc=x manager=uid=ANN,ou=people,dc=x
			- write uid=bob,ou=people,dc=x manager=uid=cid,ou=people,dc=x
			- write uid=bob,ou=people,dc=x manager
			+ insert uid=bob,ou=people,dc=x title=Boss
			- insert uid=bob,ou=people,dc=x title=king
			+ insert uid=bob,ou=people,dc=x mail=a@x
			- insert uid=bob,ou=people,dc=x mail=a@y`},
		{"excepted values", `| a: allow users to write title except title="boss"`, ann, nil, `
			+ insert uid=bob,ou=people,dc=x title=king
			- insert uid=bob,ou=people,dc=x title=boss
			- insert uid=bob,ou=people,dc=x title`},
		{"denied values", "| a: allow users to write title\n| b: deny users to insert title=\"boss\"", ann, nil, `
			+ insert uid=bob,ou=people,dc=x title=king
			- insert uid=bob,ou=people,dc=x title=boss
			- insert uid=bob,ou=people,dc=x title
			+ remove uid=bob,ou=people,dc=x title`},
		{"its manager", `| a: allow its manager to read`, ann, nil, `
			+ see uid=bob,ou=people,dc=x
			- see uid=cid,ou=people,dc=x`},
		{"its parent", `| a: allow its parent to read`, cid, nil, `
			+ see cn=phone,uid=cid,ou=people,dc=x
			- see uid=cid,ou=people,dc=x`},
		{"its parent's owner", `| a: allow its parent's owner to read`, ann, nil, `
			+ see uid=cid,ou=people,dc=x
			- see ou=people,dc=x`},
		{"its superiors", `| a: allow its superiors to read`, cid, nil, `
			+ see cn=phone,uid=cid,ou=people,dc=x
			- see uid=cid,ou=people,dc=x
			- see uid=bob,ou=people,dc=x`},
		{"group its parent", `| a: allow group its manager to read`, cid, []string{bob}, `
			+ see uid=cid,ou=people,dc=x
			- see uid=bob,ou=people,dc=x`},
		{"same", `| a: allow same departmentNumber to read`, ann, nil, `
			+ see uid=bob,ou=people,dc=x
			- see uid=cid,ou=people,dc=x
			- see dc=x`},
		{"and", `| a: allow same departmentNumber and its manager to read`, ann, nil, `
			+ see uid=bob,ou=people,dc=x
			- see uid=ann,ou=people,dc=x`},
		{"below with a filter", `| a: allow below "ou=people,dc=x" (title=boss) to read`, ann, nil, `
			+ see dc=x`},
		{"below without it", `| a: allow below "ou=people,dc=x" (title=boss) to read`, bob, nil, `
			- see dc=x`},
		{"names are patterns", `| a: allow "uid=a*,ou=people,dc=x" to read`, ann, nil, `
			+ see dc=x`},
		{"names are whole", `| a: allow "uid=*,ou=people,dc=x" to read`, "cn=phone,uid=cid,ou=people,dc=x", nil, `
			- see dc=x`},
		{"this", `ou=people,dc=x | a: allow users to see in this`, ann, nil, `
			+ see ou=people,dc=x
			- see uid=ann,ou=people,dc=x`},
		{"only", `dc=x | a: allow users to see in only "ou=people"`, ann, nil, `
			+ see ou=people,dc=x
			- see uid=ann,ou=people,dc=x
			- see dc=x`},
		{"children", `dc=x | a: allow users to see in children`, ann, nil, `
			- see dc=x
			+ see ou=people,dc=x
			- see uid=ann,ou=people,dc=x`},
		{"children of the root are the naming contexts", `| a: allow users to see in children`, ann, nil, `
			+ see dc=x
			+ see dc=y,dc=z
			- see ou=a,dc=y,dc=z
			- see ou=people,dc=x`},
		{"below", `dc=x | a: allow users to see in below "ou=people"`, ann, nil, `
			- see ou=people,dc=x
			+ see uid=ann,ou=people,dc=x
			+ see cn=phone,uid=cid,ou=people,dc=x`},
		{"a pattern at its RDN", `dc=x | a: allow users to see in "uid=*,ou=people" except "uid=b*,ou=people"`, ann, nil, `
			- see ou=people,dc=x
			+ see uid=ann,ou=people,dc=x
			- see uid=bob,ou=people,dc=x
			+ see cn=phone,uid=cid,ou=people,dc=x`},
		{"tenants", `dc=x | a: allow group "cn=admins,ou={t},dc=x" to read in "ou={t}"`, bob, []string{"cn=admins,ou=north,dc=x"}, `
			+ see ou=north,dc=x
			+ see cn=admins,ou=north,dc=x
			- see ou=south,dc=x
			- see ou=people,dc=x`},
		{"tenants of two", `dc=x | a: allow group "cn=admins,ou={t},dc=x" to read in "ou={t}"`, bob, []string{"cn=admins,ou=north,dc=x", "cn=admins,ou=south,dc=x"}, `
			+ see ou=north,dc=x
			+ see ou=south,dc=x
			- see ou=people,dc=x`},
		{"manage is above denials", "| a: deny everyone to read\ndc=x | b: allow \"uid=ann,ou=people,dc=x\" to manage in \"ou=people\"", ann, nil, `
			+ see uid=bob,ou=people,dc=x
			+ write uid=bob,ou=people,dc=x pwdReset
			+ write uid=bob,ou=people,dc=x userPassword
			- show uid=bob,ou=people,dc=x userPassword
			+ add,delete,rename,move,receive uid=bob,ou=people,dc=x
			- see dc=x`},
		{"administrators see of secrets what a rule names", "| a: allow users to manage\n| b: allow users to show userPassword;lang-de\n| c: deny users to show userPassword", ann, nil, `
			+ show uid=bob,ou=people,dc=x userPassword;lang-de
			+ show uid=bob,ou=people,dc=x userPassword;lang-de;lang-en
			- show uid=bob,ou=people,dc=x userPassword
			- search uid=bob,ou=people,dc=x userPassword;lang-de
			+ compare uid=bob,ou=people,dc=x userPassword`},
		{"except of manage", "| a: deny everyone to manage\ndc=x | b: allow \"uid=ann,ou=people,dc=x\" to manage, to see", ann, nil, `
			+ see uid=bob,ou=people,dc=x
			- delete uid=bob,ou=people,dc=x`},
		{"members of a group", `| a: allow users to read in "dc=x" except (memberOf=cn=admins,ou=north,dc=x)`, ann, nil, `
			+ see uid=ann,ou=people,dc=x
			- see uid=bob,ou=people,dc=x
			+ see ou=people,dc=x`},
		{"members of any group", "| a: allow users to read in (memberOf=*)", ann, nil, `
			- see uid=ann,ou=people,dc=x
			+ see uid=bob,ou=people,dc=x`},
		{"members of a group that is gone", "| a: allow users to read in (memberOf=)", ann, nil, `
			- see uid=bob,ou=people,dc=x`},
		{"an entry by a filter", `| a: allow users to read in (employeeType=admin) except (departmentNumber=8)`, ann, nil, `
			+ see uid=bob,ou=people,dc=x
			- see uid=ann,ou=people,dc=x`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, people, c.rules)
			p := w.as(c.who, c.groups...)
			for line := range strings.Lines(strings.TrimSpace(c.answers)) {
				sign, question, _ := strings.Cut(strings.TrimSpace(line), " ")
				if got := w.may(p, question); got != (sign == "+") {
					t.Errorf("%s: %t", question, got)
				}
			}
		})
	}
}

// TestAssertion checks that a denial for cn;lang-de applies to an assertion about cn,
// because such an assertion also tests values of cn;lang-de.
func TestAssertion(t *testing.T) {
	w := newWorld(t, people, "| a: allow everyone to read cn, manager=self\n| b: deny everyone to compare cn;lang-de")
	d := w.decide(w.as(ann), bob)
	cn, manager := w.schema.Attribute("cn"), w.schema.Attribute("manager")
	if d.Assertion(cn, "", []byte("Robert"), Compare) {
		t.Error("cn is compared, and cn;lang-de with it")
	}
	if !d.Assertion(cn, ";lang-en", []byte("Robert"), Search) {
		t.Error("cn;lang-en cannot be searched")
	}
	if !d.Assertion(manager, "", []byte(ann), Compare) || d.Assertion(manager, "", []byte(cid), Compare) {
		t.Error("the value that names the identity is not told from others")
	}
}

func TestConditions(t *testing.T) {
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC) // 2026-11-22 is a Sunday
	good := Connection{Secure: true, SSF: 128, Address: netip.MustParseAddr("10.1.2.3"), Mechanism: "external", Time: noon}
	for cond, want := range map[string]bool{
		"secure": true, "not secure": false, "local": false, "not local": true, "proxied": false,
		"ssf 128": true, "ssf 256": false, "address 10.1.0.0/16": true, "address 10.2.0.0/16": false,
		"not address 10.2.0.0/16": true, "mechanism external": true, "mechanism simple": false,
		"time 08:00-18:00 UTC": true, "time 18:00-08:00 UTC": false, "time 13:00-14:00 Europe/Vienna": true,
		"time 22:00-13:00 UTC": true, "day sun": true, "day mon-fri": false, "day fri-mon": true, "day mon-sun": true,
		"secure and not local": true, "secure and local": false,
	} {
		w := newWorld(t, people, "| a: allow everyone to see if "+cond)
		if got := w.may(w.with(ann, good), "see dc=x"); got != want {
			t.Errorf("%s: %t", cond, got)
		}
	}
}

func TestBadRules(t *testing.T) {
	for rule, want := range map[string]string{
		`a: allow users to read foo`:                                         "not known",
		`a: allow users to read @foo`:                                        "not known",
		`a: allow users to read in (numSubordinates=2)`:                      "is computed",
		`a: allow users to read in (memberOf=cn=g*)`:                         "never true",
		`a: allow users to read in (memberOf=g)`:                             "never true",
		`a: allow users to read in (memberOf:1.2.840.113556.1.4.1941:=cn=g)`: "never true",
		`a: allow below "dc=x" (memberOf=cn=g) to read`:                      "is computed",
		`a: allow users to read seeAlso(memberOf=cn=g)`:                      "is computed",
		`a: allow users to read in (foo=1)`:                                  "never true",
		`a: allow users to read in (userPassword=x)`:                         "never true",
		`a: allow users to read in "ou=people=x,,"`:                          "malformed",
		`a: allow "foo=x" to read`:                                           "foo",
		`a: allow users to read in "ou={t}"`:                                 "is undefined",
		`a: allow users, "ou={t}" to read in "ou={t}"`:                       "is undefined",
		`a: allow everyone except "ou={t}" to read`:                          "except",
		`a: allow "ou=x{t}" to read`:                                         "whole value",
		`a: allow "ou={}" to read`:                                           "brace",
		`a: allow its title to read`:                                         "not names",
		`a: allow same userPassword to read`:                                 "cannot be compared",
		`a: allow users to read title=self`:                                  "not names",
		`a: allow users to read uidNumber="x"`:                               "uidNumber",
		`a: allow users to read mail(cn=x)`:                                  "another attribute",
		`a: allow users to see cn`:                                           "takes no attributes",
		`a: allow users to use`:                                              "use stands alone",
		`a: allow users to use sync in "ou=x"`:                               "cn=config",
		`a: allow "uid={t},ou=people,dc=x" to read in "uidNumber={t}"`:       "compared alike",
		`a: allow "uid={t},uidNumber={t},dc=x" to read in "uid={t}"`:         "compared alike",
	} {
		r, err := Parse(rule)
		if err != nil {
			t.Errorf("%s: %v", rule, err)
			continue
		}
		if _, err = NewSet(schema.Core(), nil, []Placed{{nil, r}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", rule, err)
		}
	}
}

func TestProfiles(t *testing.T) {
	for _, name := range Profiles {
		rules, err := Profile(name, schema.Core(), []string{"dc=x"})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var all []Placed
		for _, r := range rules {
			all = append(all, Placed{nil, r})
			if again, err := Parse(r.String()); err != nil || again.String() != r.String() {
				t.Errorf("%s: %s: %v", name, r, err)
			}
		}
		if _, err := NewSet(schema.Core(), nil, all); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Profile("closed", schema.Core(), nil); err == nil {
		t.Error("a profile that is not there")
	}
}

// TestGuard checks which entries filters find for an identity that may search only some values.
// The results may depend on no other values, except those in the names of entries.
func TestGuard(t *testing.T) {
	const rules = `
		| see: allow everyone to see
		| some: allow everyone to search cn, manager=self
		| staff: allow everyone to search sn in (departmentNumber=7)
	`
	w := newWorld(t, people, strings.ReplaceAll(rules, "\t", ""))
	p := w.as(ann)
	decide := func(name dn.DN, e filter.Source) *Decision { return w.decide(p, name.String()) }
	for f, want := range map[string]string{
		"(cn=bob)":                            "bob",
		"(sn=*)":                              "ann bob",
		"(sn=c)":                              "",
		"(!(sn=a))":                           "bob",
		"(!(sn=c))":                           "ann bob",
		"(title=boss)":                        "",
		"(!(title=boss))":                     "",
		"(|(title=boss)(cn=ann))":             "ann",
		"(&(!(title=x))(cn=ann))":             "",
		"(manager=uid=ann,ou=people,dc=x)":    "bob",
		"(manager=uid=bob,ou=people,dc=x)":    "",
		"(manager=*)":                         "bob",
		"(!(manager=uid=bob,ou=people,dc=x))": "",
		"(name=bob)":                          "bob",
		"(name=b)":                            "bob",
		"(name=c)":                            "",
		"(!(name=zzz))":                       "",
		"(objectClass=*)":                     "ann bob cid",
		"(ou:dn:=people)":                     "ann bob cid",
		"(departmentNumber:dn:=7)":            "",
		"(userPassword=s)":                    "",
		"(!(userPassword=s))":                 "",
	} {
		guarded := p.Guard(filter.Resolve(filter.MustParse(f), w.schema), decide)
		var found []string
		for _, name := range []string{"ann", "bob", "cid"} {
			if guarded.Match(w.entry("uid="+name+",ou=people,dc=x").Source) == filter.True {
				found = append(found, name)
			}
		}
		if got := strings.Join(found, " "); got != want {
			t.Errorf("%s finds %q, not %q", f, got, want)
		}
	}
}

// TestGuardOpen checks that Guard returns a filter unchanged if the identity may search
// everything.
func TestGuardOpen(t *testing.T) {
	w := newWorld(t, people, "| a: allow everyone to read *, +")
	f := filter.Resolve(filter.MustParse("(&(cn=a)(!(name=b)))"), w.schema)
	if got := w.as("").Guard(f, nil).String(); got != f.String() {
		t.Error(got)
	}
}

func TestExplain(t *testing.T) {
	w := newWorld(t, people, "dc=x | read: allow users to read\ndc=x | boss: allow its manager to write title\n| mail: deny everyone to show mail")
	ask := func(who, right, name, typ string) Answer {
		p := w.as(who)
		z, err := p.Zone(w.name(name).Parent())
		if err != nil {
			t.Fatal(err)
		}
		r, _ := ParseRights(right)
		return p.Explain(z, w.entry(name), Question{Right: r, Type: w.schema.Attribute(typ)})
	}
	if a := ask(ann, "show", bob, "cn"); !a.Allowed || strings.Join(a.Allow, " ") != "read@dc=x" {
		t.Errorf("%+v", a)
	}
	if a := ask(ann, "show", bob, "mail"); a.Allowed || strings.Join(a.Deny, " ") != "mail@cn=config" {
		t.Errorf("%+v", a)
	}
	if a := ask(cid, "insert", bob, "title"); a.Allowed || strings.Join(a.Near, " ") != "boss@dc=x" {
		t.Errorf("%+v", a)
	}
}

// TestExplainManage checks that Explain lists a rule that allows the right manage for the rights
// that administrators have, and not for the others: they cannot read passwords.
func TestExplainManage(t *testing.T) {
	w := newWorld(t, people, "| adm: allow users to manage")
	p := w.as(ann)
	z, err := p.Zone(w.name(bob).Parent())
	if err != nil {
		t.Fatal(err)
	}
	for typ, want := range map[string]string{"mail": "adm@cn=config", "userPassword": ""} {
		a := p.Explain(z, w.entry(bob), Question{Right: Show, Type: w.schema.Attribute(typ)})
		if got := strings.Join(a.Allow, " "); a.Allowed != (want != "") || got != want {
			t.Errorf("%s: %+v", typ, a)
		}
	}
}

// TestExplainDeniedManage checks for which rights Explain lists a rule that denies the right
// manage. Explain must list this rule for each right that the identity lacks because the
// identity is not an administrator.
func TestExplainDeniedManage(t *testing.T) {
	w := newWorld(t, people, "| admins: allow users to manage\n| tls: deny everyone to manage if not secure\n| mail: deny everyone to read mail")
	p := w.as(ann)
	z, err := p.Zone(w.name(bob).Parent())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		question Question
		want     string
	}{
		{Question{Right: Manage}, "tls@cn=config"},
		{Question{Right: Delete}, "tls@cn=config"},
		{Question{Right: Insert, Type: w.schema.Attribute("title")}, "tls@cn=config"},
		{Question{Right: Show, Type: w.schema.Attribute("mail")}, "mail@cn=config tls@cn=config"},
		{Question{Right: Show, Type: w.schema.Attribute("userPassword")}, ""},
	} {
		e := w.entry(bob)
		a := p.Explain(z, e, c.question)
		if got := strings.Join(a.Deny, " "); a.Allowed || got != c.want || strings.Join(z.Decide(e).Denials(c.question), " ") != c.want {
			t.Errorf("%s: %+v", c.question, a)
		}
	}
}

func TestUse(t *testing.T) {
	w := newWorld(t, people, "| a: allow everyone to use * except sync\n| b: allow users to use sync\n| c: deny everyone to use relax")
	for _, c := range []struct {
		who, name string
		want      bool
	}{{"", "paged", true}, {"", "sync", false}, {ann, "sync", true}, {ann, "relax", false}} {
		if got := w.as(c.who).MayUse(c.name); got != c.want {
			t.Errorf("%q may use %s: %t", c.who, c.name, got)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	w := newWorld(&testing.T{}, people, "| staff: allow users to read cn, sn, mail in (objectClass=person)\n| own: allow self to read\n| boss: allow its manager to write title")
	p := w.as(ann)
	e := w.entry(bob)
	parent := e.Name.Parent()
	title, cn := w.schema.Attribute("title"), w.schema.Attribute("cn")
	b.ReportAllocs()
	for b.Loop() {
		z, _ := p.Zone(parent)
		d := z.Decide(e)
		if !d.All(cn, Show) || !d.All(title, Write) {
			b.Fatal("not allowed")
		}
	}
}

// TestGroupsAreReferences checks that the names of groups in filters of targets count as
// references. This includes filters inside Not, And and Or, and other spellings of memberOf.
func TestGroupsAreReferences(t *testing.T) {
	r, err := Parse(`a: allow "uid=a" to read in "ou=x" (|(MemberOf=cn=g)(!(1.3.6.1.4.1.42.2.27.9.1.792=cn=h))(cn=g)), (memberOf=*) except (&(memberof=cn=i)(memberOf=))`)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, ref := range r.References() {
		names = append(names, ref.Name)
	}
	if got, want := strings.Join(names, " "), "uid=a ou=x cn=g cn=h cn=i"; got != want {
		t.Errorf("references %s, want %s", got, want)
	}
	want := `a: allow "uid=b" to read in "ou=y" (|(MemberOf=cn=j)(!(1.3.6.1.4.1.42.2.27.9.1.792=))(cn=g)), (memberOf=*) except (&(memberof=cn=k)(memberOf=))`
	if got := r.WithNames([]string{"uid=b", "ou=y", "cn=j", "", "cn=k"}).String(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
