package directory_test

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// newPast returns a client that is bound as uid=me. The directory has the checkpoint
// "then". Afterwards the administrator has made changes, and has set rules.
func newPast(t *testing.T, rules string, change func(c *client)) *client {
	t.Helper()
	c := newClient(t)
	c.must("bind", "dn: "+admin, "password: secret")
	c.must("add", "dn: dc=example,dc=com", "objectClass: domain", "dc: example")
	for _, name := range []string{"ou=people", "ou=secret", "ou=inner,ou=secret", "ou=other"} {
		c.must("add", "dn: "+name+",dc=example,dc=com", "objectClass: organizationalUnit")
	}
	for _, name := range []string{"uid=me,ou=people", "uid=x,ou=people", "uid=y,ou=secret", "uid=z,ou=inner,ou=secret"} {
		uid, _, _ := strings.Cut(strings.TrimPrefix(name, "uid="), ",")
		c.must("add", "dn: "+name+",dc=example,dc=com", "objectClass: inetOrgPerson", "uid: "+uid, "cn: "+uid, "sn: "+uid, "title: then", "userPassword: p")
	}
	c.must("add", "dn: cn=g,ou=other,dc=example,dc=com", "objectClass: groupOfNames", "cn: g", "member: uid=x,ou=people,dc=example,dc=com")
	c.do("checkpoint", "then")
	if change != nil {
		change(c)
	}
	if rules != "" {
		c.setRules(&datadriven.TestData{Input: "bind: allow everyone to bind\nuse: allow everyone to use *\n" + rules})
	}
	c.must("bind", "dn: uid=me,ou=people,dc=example,dc=com", "password: p")
	return c
}

// people returns the uids that a search with a control finds, with their titles.
func (c *client) people(f, control string) string {
	c.t.Helper()
	out := c.do("search", "base: dc=example,dc=com", "scope: sub", "filter: "+f, "attrs: uid title", "control: "+control)
	var found []string
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if uid, ok := strings.CutPrefix(line, "uid: "); ok {
			found = append(found, uid)
		}
		if title, ok := strings.CutPrefix(line, "title: "); ok {
			found[len(found)-1] += "=" + title
		}
	}
	if !strings.HasSuffix(out, "0\nsort: 0\n") {
		found = append(found, out)
	}
	return strings.Join(found, " ")
}

// TestPastByRules checks which past entries the rules let a user read. The present rules
// must allow reading both the past entry and the present entry. A past denial that was placed
// at an entry that is gone still hides the past at this place.
func TestPastByRules(t *testing.T) {
	const all = "all: allow users to read *, +, to past\n"
	person := func(c *client, name string, change ...string) {
		c.must("modify", append([]string{"dn: " + name + ",dc=example,dc=com"}, change...)...)
	}
	setRules := func(c *client, rules string) { c.setRules(&datadriven.TestData{Input: rules}) }
	for _, test := range []struct {
		name, rules string
		change      func(c *client)
		want        string
	}{
		{"everything", all, nil, "me=then x=then y=then z=then"},
		{"values of then", all, func(c *client) { person(c, "uid=x,ou=people", "replace title: now") }, "me=then x=then y=then z=then"},
		{"the right past", `all: allow users to read *, +` + "\n" + `some: allow users to past in only "dc=example,dc=com", "ou=people,dc=example,dc=com"`, nil, "me=then x=then"},
		{"manage brings it", `all: allow users to read` + "\n" + `some: allow users to manage in only "dc=example,dc=com", "ou=secret,dc=example,dc=com"`, nil, "y=then z=then"},
		{"past is denied", all + `no: deny users to past in (uid=x)`, nil, "me=then y=then z=then"},
		{"the entry as it was", all + `no: deny users to read in (title=then)`, func(c *client) { person(c, "uid=x,ou=people", "replace title: now") }, ""},
		{"the entry as it is", all + `no: deny users to read in (title=now)`, func(c *client) { person(c, "uid=x,ou=people", "replace title: now") }, "me=then y=then z=then"},
		{"an attribute of the entry as it is", all + `no: deny users to read title in (title=now)`, func(c *client) { person(c, "uid=x,ou=people", "replace title: now") }, "me=then x y=then z=then"},
		{"where it was", all + `no: deny users to read in "ou=secret,dc=example,dc=com"`, func(c *client) {
			c.must("modifydn", "dn: uid=y,ou=secret,dc=example,dc=com", "rdn: uid=y", "superior: ou=people,dc=example,dc=com")
		}, "me=then x=then"},
		{"where it is", all + `no: deny users to read in "ou=secret,dc=example,dc=com"`, func(c *client) {
			c.must("modifydn", "dn: uid=x,ou=people,dc=example,dc=com", "rdn: uid=x", "superior: ou=secret,dc=example,dc=com")
		}, "me=then"},
		{"an entry that is gone", all, func(c *client) { c.must("delete", "dn: uid=y,ou=secret,dc=example,dc=com") }, "me=then x=then y=then z=then"},
		{"an entry that is gone, by the rules of now", all + `no: deny users to read in "ou=secret,dc=example,dc=com"`, func(c *client) { c.must("delete", "dn: uid=y,ou=secret,dc=example,dc=com") }, "me=then x=then"},
		{"a place that is gone, of now", "", func(c *client) {
			setRules(c, all+"bind: allow everyone to bind\nuse: allow everyone to use *\n\"ou=secret,dc=example,dc=com\" no: deny users to read in below \"ou=inner\"")
			c.do("checkpoint", "later")
			c.do("delete", "dn: ou=secret,dc=example,dc=com", "control: treeDelete critical")
		}, "me=then x=then y=then"},
		{"a place that is gone, allowing", "", func(c *client) {
			setRules(c, "bind: allow everyone to bind\nuse: allow everyone to use *\nall: allow users to read *, to past in only \"dc=example,dc=com\", \"ou=people,dc=example,dc=com\"\n\"ou=secret,dc=example,dc=com\" more: allow users to read, past")
			c.do("checkpoint", "later")
			c.do("delete", "dn: ou=secret,dc=example,dc=com", "control: treeDelete critical")
		}, "me=then x=then"},
		{"a place that was renamed", "", func(c *client) {
			setRules(c, all+"bind: allow everyone to bind\nuse: allow everyone to use *\n\"ou=secret,dc=example,dc=com\" no: deny users to read")
			c.do("checkpoint", "later")
			c.must("delete", "dn: uid=y,ou=secret,dc=example,dc=com")
			c.must("modifydn", "dn: ou=secret,dc=example,dc=com", "rdn: ou=closed")
		}, "me=then x=then"},
		{"allowed at a place that was renamed", "", func(c *client) {
			setRules(c, "bind: allow everyone to bind\nuse: allow everyone to use *\ntop: allow users to see, past in only \"dc=example,dc=com\"\n\"ou=secret,dc=example,dc=com\" a: allow users to read, past")
			c.do("checkpoint", "later")
			c.must("modifydn", "dn: ou=secret,dc=example,dc=com", "rdn: ou=closed")
		}, "y=then z=then"},
		{"a name that another entry has now", "", func(c *client) {
			c.do("checkpoint", "later")
			c.do("delete", "dn: ou=secret,dc=example,dc=com", "control: treeDelete critical")
			c.must("add", "dn: ou=secret,dc=example,dc=com", "objectClass: organizationalUnit", "ou: secret")
			setRules(c, all+"bind: allow everyone to bind\nuse: allow everyone to use *\n\"ou=secret,dc=example,dc=com\" no: deny users to read")
		}, "me=then x=then"},
		{"groups of now", `all: allow group "cn=g,ou=other,dc=example,dc=com" to read, past`, func(c *client) {
			person(c, "cn=g,ou=other", "replace member: uid=me,ou=people,dc=example,dc=com")
		}, "me=then x=then y=then z=then"},
		{"groups of then", "", func(c *client) {
			person(c, "cn=g,ou=other", "replace member: uid=me,ou=people,dc=example,dc=com")
			c.do("checkpoint", "later")
			person(c, "cn=g,ou=other", "replace member: uid=x,ou=people,dc=example,dc=com")
			setRules(c, "bind: allow everyone to bind\nuse: allow everyone to use *\nall: allow group \"cn=g,ou=other,dc=example,dc=com\" to read, past")
		}, "50 (the access rules do not allow this)\n"},
		{"members of then and of now", all + `no: deny users to read in (memberOf=cn=g,ou=other,dc=example,dc=com)`, func(c *client) {
			person(c, "cn=g,ou=other", "replace member: uid=y,ou=secret,dc=example,dc=com")
		}, "me=then z=then"},
		{"no right", "all: allow users to read *, +", nil, "50 (the access rules do not allow this)\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newPast(t, test.rules, test.change)
			at := "at then; sort uid"
			if test.rules == "" { // the change has set rules and made the checkpoint "later"
				at = "at later; sort uid"
			}
			if got := c.people("(uid=*)", at); got != test.want {
				t.Errorf("%s\nwant %s", got, test.want)
			}
		})
	}
}

// TestPastOperations checks that the rules judge what operations read of the past: filters,
// comparisons, bases of searches, counts of subordinates, and pages.
func TestPastOperations(t *testing.T) {
	rules := "all: allow users to read *, +, to past\nno: deny users to read in \"ou=secret,dc=example,dc=com\"\ntitle: deny users to read title in (title=now)\n"
	c := newPast(t, rules, func(c *client) {
		c.must("modify", "dn: cn=g,ou=other,dc=example,dc=com", "replace member: uid=x,ou=people,dc=example,dc=com | uid=y,ou=secret,dc=example,dc=com")
		c.do("checkpoint", "later")
		c.must("modify", "dn: uid=x,ou=people,dc=example,dc=com", "replace title: now")
		c.must("delete", "dn: uid=y,ou=secret,dc=example,dc=com")
	})
	for f, want := range map[string]string{
		"(title=then)": "me=then", "(!(title=now))": "me=then", "(uid=x)": "x", "(uid=y)": "", "(objectClass=person)": "me=then x",
		"(memberOf=cn=g,ou=other,dc=example,dc=com)": "x",
	} {
		if got := c.people(f, "at later; sort uid"); got != want {
			t.Errorf("%s: %s, want %s", f, got, want)
		}
	}
	for _, test := range []struct{ cmd, input, want string }{
		{"compare", "dn: uid=me,ou=people,dc=example,dc=com\nassert: title=then", "6\n"},
		{"compare", "dn: uid=x,ou=people,dc=example,dc=com\nassert: title=then", "50 (the access rules do not allow this)\n"},
		{"compare", "dn: uid=y,ou=secret,dc=example,dc=com\nassert: title=then", "32 matched=dc=example,dc=com (no entry uid=y,ou=secret,dc=example,dc=com)\n"},
		{"search", "base: uid=y,ou=secret,dc=example,dc=com", "32 matched=dc=example,dc=com (no entry uid=y,ou=secret,dc=example,dc=com)\n"},
		{"search", "base: dc=example,dc=com\nattrs: numSubordinates", "dn: dc=example,dc=com\n  numSubordinates: 2\n0\n"},
		{"search", "base: dc=example,dc=com\nscope: sub\nfilter: (uid=*)\nattrs: uid title\ncontrol: at later critical; sort uid; paged 1 new", "dn: uid=me,ou=people,dc=example,dc=com\n  uid: me\n  title: then\n0\npage: more=true\nsort: 0\n"},
		{"search", "base: dc=example,dc=com\nscope: sub\nfilter: (uid=*)\nattrs: uid title\ncontrol: at later critical; sort uid; paged 1", "dn: uid=x,ou=people,dc=example,dc=com\n  uid: x\n0\npage: more=false\nsort: 0\n"},
	} {
		input := test.input
		if !strings.Contains(input, "control: ") {
			input += "\ncontrol: at later critical"
		}
		if got := c.do(test.cmd, input); got != test.want {
			t.Errorf("%s %s:\n%swant\n%s", test.cmd, input, got, test.want)
		}
	}
	// The rules in force at the time of a page's request judge the page.
	first := "base: dc=example,dc=com\nscope: sub\nfilter: (uid=*)\nattrs: uid title\ncontrol: at later critical; paged 1"
	c.do("search", first+" new")
	c.setRules(&datadriven.TestData{Input: "bind: allow everyone to bind\nuse: allow everyone to use *\nall: allow users to read *, +"})
	if got := c.do("search", first); !strings.HasPrefix(got, "50 ") {
		t.Errorf("a page without the right: %s", got)
	}
}

// TestPastOfAnotherSchema checks how the present rules judge a past state with another
// schema. If a rule is about access to an attribute that the past schema lacks, the rule has
// no effect on this attribute, because no past entry has it. If a condition of a denial
// tests such an attribute, the past state cannot be read.
func TestPastOfAnotherSchema(t *testing.T) {
	const shelf = "add attributeTypes: ( 1.3.6.1.4.1.55555.1 NAME 'shelf' EQUALITY caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )"
	c := newPast(t, "", func(c *client) {
		c.must("modify", "dn: cn=Subschema", shelf)
		c.must("modify", "dn: uid=x,ou=people,dc=example,dc=com", "add objectClass: extensibleObject", "add shelf: a")
		c.must("modify", "dn: uid=y,ou=secret,dc=example,dc=com", "add objectClass: extensibleObject", "replace title: now")
	})
	for rules, want := range map[string]string{
		"all: allow users to read, past\nno: deny users to read shelf, cn":                                 "me=then x=then y=then z=then",
		"all: allow users to read, past\nno: deny users to read title, shelf in (uid=y)":                   "me=then x=then y z=then",
		"all: allow users to read, past\nno: deny users to read title in (title=now)":                      "me=then x=then y z=then",
		"all: allow users to read uid, shelf, to past\nmore: allow users to read title in (shelf=a)":       "me x y z",
		"top: allow users to see, past in only \"dc=example,dc=com\"\nall: allow same title to read, past": "me=then x=then z=then",
		"all: allow users to read, past\nno: deny same title to read in (uid=z)":                           "me=then x=then y=then",
	} {
		c.setRules(&datadriven.TestData{Input: "bind: allow everyone to bind\nuse: allow everyone to use *\n" + rules})
		if got := c.people("(uid=*)", "at then; sort uid"); got != want {
			t.Errorf("%s:\n%s, want %s", rules, got, want)
		}
	}
	c.setRules(&datadriven.TestData{Input: "bind: allow everyone to bind\nuse: allow everyone to use *\nall: allow users to read, past\nno: deny users to read in (shelf=a)"})
	if got := c.people("(uid=*)", "at then; sort uid"); !strings.HasPrefix(got, "53 (at then: the access rules have no meaning in this state of the past: rule no@cn=config: ") {
		t.Errorf("a denial that the schema of then lacks: %s", got)
	}
}

// TestPastIsJudgedAgain deletes a place whose rules denied reading in a past state, but do
// not deny it now. Before the deletion, a user can read the past state of the entries at the
// place. After the deletion, the user must not be able to read it.
func TestPastIsJudgedAgain(t *testing.T) {
	const all = "bind: allow everyone to bind\nuse: allow everyone to use *\nall: allow users to read *, +, to past\n"
	c := newPast(t, "", func(c *client) {
		c.setRules(&datadriven.TestData{Input: all + "\"ou=secret,dc=example,dc=com\" no: deny users to read"})
		c.do("checkpoint", "later")
		c.setRules(&datadriven.TestData{Input: all})
	})
	for _, want := range []string{"me=then x=then y=then z=then", "me=then x=then"} {
		if got := c.people("(uid=*)", "at later; sort uid"); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		user := c.s
		c.s = c.d.NewSession(nil)
		c.must("bind", "dn: "+admin, "password: secret")
		c.do("delete", "dn: ou=secret,dc=example,dc=com", "control: treeDelete critical")
		c.s = user
	}
}
