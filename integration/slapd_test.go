package integration

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
	godiff "github.com/google/go-cmp/cmp"

	"github.com/seed-4dac0d86/ldapd/dn"
)

// TestSlapd sends the same operations to ldapd and to slapd, OpenLDAP's server. Both servers
// have the same entries. They must find the same entries and return the same result codes.
//
// The questions avoid known differences. If a change deletes a value of the RDN, ldapd
// returns notAllowedOnRDN (67), and slapd returns namingViolation. Only ldapd reports a
// matchedDN if a new superior does not exist. Only ldapd adds superclasses that a new
// entry does not name. Only ldapd treats a line break in an assertion as a space (RFC 4518,
// 2.2).
func TestSlapd(t *testing.T) {
	t.Parallel()
	theirs := startSlapd(t)
	store := filepath.Join(t.TempDir(), "store")
	importInto(t, store, example)
	p := serve(t, store, "--admin-dn", slapdAdmin)
	admin := func(url string) *ldap.Conn {
		c, err := dial(url, slapdAdmin, adminPassword)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	a, b := admin(theirs), admin(p.url())
	for _, q := range questions() {
		want, got := q.ask(a), q.ask(b)
		if diff := godiff.Diff(want, got); diff != "" {
			t.Errorf("%s (- slapd, + ldapd):\n%s", q.name, diff)
		}
	}
}

const slapdAdmin = "cn=admin," + suffix

// startSlapd starts a slapd that serves the sample directory.
func startSlapd(t *testing.T) (url string) {
	t.Helper()
	lookSbin(t, "slapd")
	return startOldSlapd(t, "", "").url
}

// slapdSchemas returns the beginning of a configuration of slapd. It skips the test if
// slapd is not installed in the folders that Debian uses.
func slapdSchemas(t *testing.T) string {
	t.Helper()
	const schemas, modules = "/etc/ldap/schema", "/usr/lib/ldap"
	for _, f := range []string{schemas + "/nis.schema", modules + "/back_mdb.so"} {
		if _, err := os.Stat(f); err != nil {
			t.Skipf("no slapd as Debian has it: %v", err)
		}
	}
	var text strings.Builder
	for _, s := range []string{"core", "cosine", "inetorgperson", "nis"} {
		fmt.Fprintf(&text, "include %s/%s.schema\n", schemas, s)
	}
	fmt.Fprintf(&text, "attributeoptions lang- x- phonetic\nmodulepath %s\nmoduleload back_mdb\n", modules)
	return text.String()
}

// runSlapd starts a slapd and waits until clients can connect.
func runSlapd(t *testing.T, conf string, log *safeBuffer) (url string, cmd *exec.Cmd) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url = "ldap://" + l.Addr().String()
	l.Close()
	return url, runSlapdAt(t, conf, log, url)
}

// end ends a server of somebody else in an orderly way. If it does not end soon, end kills it: 389 2.3.1 once stayed
// for ever, after clients that read its changes had gone.
func end(cmd *exec.Cmd) {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	_ = cmd.Wait()
}

// runSlapdAt starts a slapd at a URL and waits until clients can connect.
func runSlapdAt(t *testing.T, conf string, log *safeBuffer, url string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(lookSbin(t, "slapd"), "-d", "0", "-f", conf, "-h", url)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "slapd serves", func() error {
		c, err := dial(url, "", "")
		if err == nil {
			c.Close()
		}
		return err
	})
	return cmd
}

// lookSbin returns the path of a daemon, which may be outside the search path of users.
func lookSbin(t *testing.T, name string) string {
	t.Helper()
	for _, n := range []string{name, "/usr/sbin/" + name, "/usr/lib/openldap/" + name} {
		if path, err := exec.LookPath(n); err == nil {
			return path
		}
	}
	t.Skipf("no %s", name)
	return ""
}

// A question is one operation whose answers the test compares.
type question struct {
	name string
	ask  func(c *ldap.Conn) *answer
}

// An answer contains the parts of an answer that the test compares.
type answer struct {
	Code      int
	Matched   string
	Entries   []string // the names of the entries, and "NAME ATTRIBUTE: VALUE" for each value, sorted
	Referrals []string
}

func answerOf(err error) *answer {
	a := &answer{Code: code(err)}
	var e *ldap.Error
	if errors.As(err, &e) {
		a.Matched = e.MatchedDN
	}
	return a
}

func searching(base string, scope, deref, limit int, filter string, attributes []string, controls ...ldap.Control) question {
	q := question{name: fmt.Sprintf("search of %s, scope %d, deref %d, limit %d, %s %v", base, scope, deref, limit, filter, attributes)}
	q.ask = func(c *ldap.Conn) *answer {
		r, err := c.Search(ldap.NewSearchRequest(base, scope, deref, limit, 0, false, filter, attributes, controls))
		a := answerOf(err)
		if r == nil {
			return a
		}
		a.Referrals = r.Referrals
		if a.Code == ldap.LDAPResultSizeLimitExceeded {
			// Which entries and references a server returns before the limit is undefined, so
			// the test compares only the number of entries.
			a.Entries = []string{fmt.Sprint(len(r.Entries))}
			a.Referrals = nil
			return a
		}
		for _, e := range r.Entries {
			name := e.DN
			if parsed, err := dn.Parse(name); err == nil {
				name = parsed.String() // servers escape names differently
			}
			a.Entries = append(a.Entries, name)
			for _, x := range e.Attributes {
				for _, v := range x.Values {
					a.Entries = append(a.Entries, fmt.Sprintf("%s %s: %q", name, x.Name, v))
				}
			}
		}
		slices.Sort(a.Entries)
		slices.Sort(a.Referrals)
		return a
	}
	return q
}

func change(name string, do func(c *ldap.Conn) error) question {
	return question{name, func(c *ldap.Conn) *answer { return answerOf(do(c)) }}
}

const (
	base, one, sub, children = ldap.ScopeBaseObject, ldap.ScopeSingleLevel, ldap.ScopeWholeSubtree, ldap.ScopeChildren
	devicesDN                = "ou=devices," + suffix
	printer                  = "cn=printer-1," + devicesDN
	jdoe                     = "uid=jdoe," + peopleDN
)

func questions() (qs []question) {
	for _, scope := range []int{base, one, sub, children} {
		for _, at := range []string{suffix, peopleDN, printer, jdoe, "cn=boss," + suffix, "ou=partners," + suffix, "cn=x,ou=partners," + suffix, "cn=nobody," + peopleDN} {
			qs = append(qs, searching(at, scope, ldap.NeverDerefAliases, 0, "(objectClass=*)", nil))
		}
	}
	for _, f := range []string{
		"(uid=JDOE)", "(cn=*o*d*e*)", "(cn=j*)", "(cn=*n)", "(uidNumber>=10005)", "(uidNumber<=10003)", "(!(objectClass=person))",
		"(&)", "(|)", "(cn:caseExactMatch:=John Doe)", "(cn:caseExactMatch:=john doe)", "(ou:dn:=alumni)", "(bogus=x)", "(!(bogus=x))",
		"(|(bogus=x)(uid=jdoe))", "(&(!(bogus=x))(uid=jdoe))", "(member=UID=jdoe, OU=people,dc=example,dc=com)", "(telephoneNumber=+41445550100)",
		"(telephoneNumber=*550100)", "(name=doe)", "(name=*oe)", "(cn;lang-de=*)", "(o;lang-de=beispiel gmbh)", "(o=beispiel gmbh)",
		"(o;lang-de=Example Ltd)", "(l=zürich)", "(l=ZÜRICH)", "(l=zu\\cc\\88rich)", "(postalAddress=*)", "(createTimestamp=*)",
		"(objectClass=2.5.6.6)", "(objectClass=nothing)", "(objectClass=organizationalPerson)", "(2.5.4.3=john doe)", "(uidNumber=010000)",
		"(uidNumber=x)", "(!(uidNumber=x))", "(seeAlso=not a name)", "(!(title=*))", "(uniqueMember=uid=jmuller,ou=people,dc=example,dc=com)",
		"(jpegPhoto=*)", "(cn=doe\\2c john)", "(cn= John   Doe )", "(memberUid=jdoe)", "(memberUid=JDOE)",
		"(entryDN=UID=jdoe,ou=people,dc=example,dc=com)", "(gidNumber=10)", "(member:distinguishedNameMatch:=uid=jdoe,ou=people,dc=example,dc=com)",
		"(:caseIgnoreMatch:=doe)", "(:dn:caseIgnoreMatch:=alumni)", "(cn:bogusMatch:=x)", "(!(cn:bogusMatch:=x))",
	} {
		qs = append(qs, searching(suffix, sub, ldap.NeverDerefAliases, 0, f, []string{"1.1"}))
	}
	for _, as := range [][]string{{"*"}, {"cn"}, {"name"}, {"CN", "2.5.4.4"}, {"cn;lang-de"}, {"1.1"}, {"1.1", "sn"}, {"@person"}, {"bogus"},
		{"*", "structuralObjectClass"}, {"hasSubordinates"}, {"userPassword"}} {
		qs = append(qs, searching(jdoe, base, ldap.NeverDerefAliases, 0, "(objectClass=*)", as))
	}
	for _, deref := range []int{ldap.NeverDerefAliases, ldap.DerefInSearching, ldap.DerefFindingBaseObj, ldap.DerefAlways} {
		qs = append(qs, searching("cn=boss,"+suffix, base, deref, 0, "(objectClass=*)", []string{"cn"}),
			searching(suffix, one, deref, 0, "(sn=doe)", []string{"cn"}),
			searching(suffix, sub, deref, 0, "(uid=jdoe)", []string{"cn"}))
	}
	manage := ldap.NewControlManageDsaIT(true)
	unknown := ldap.NewControlString("1.2.3.4", true, "")
	qs = append(qs,
		searching(suffix, sub, ldap.NeverDerefAliases, 3, "(objectClass=*)", []string{"1.1"}),
		searching(suffix, sub, ldap.NeverDerefAliases, 0, "(ou=partners)", nil, manage),
		searching("ou=partners,"+suffix, base, ldap.NeverDerefAliases, 0, "(objectClass=*)", []string{"*", "ref"}, manage),
		searching(suffix, base, ldap.NeverDerefAliases, 0, "(objectClass=*)", nil, unknown),
		searching("dc=example,,", base, ldap.NeverDerefAliases, 0, "(objectClass=*)", nil),
	)
	return append(qs, changes()...)
}

// The function "changes" returns operations that are refused, or that leave both servers in the
// same state.
func changes() (qs []question) {
	modify := func(name string, f func(r *ldap.ModifyRequest)) {
		r := ldap.NewModifyRequest(printer, nil)
		f(r)
		qs = append(qs, change(name, func(c *ldap.Conn) error { return c.Modify(r) }))
	}
	modify("an undefined attribute", func(r *ldap.ModifyRequest) { r.Add("bogus", []string{"x"}) })
	modify("one that the class has not", func(r *ldap.ModifyRequest) { r.Add("title", []string{"x"}) })
	modify("another structural class", func(r *ldap.ModifyRequest) { r.Add("objectClass", []string{"person"}) })
	modify("a value that is there", func(r *ldap.ModifyRequest) { r.Add("serialNumber", []string{"sn-111111"}) })
	modify("no such attribute", func(r *ldap.ModifyRequest) { r.Delete("seeAlso", nil) })
	modify("no such value", func(r *ldap.ModifyRequest) { r.Delete("serialNumber", []string{"none"}) })
	modify("replace by nothing of what is not there", func(r *ldap.ModifyRequest) { r.Replace("seeAlso", nil) })
	modify("bad syntax", func(r *ldap.ModifyRequest) { r.Replace("owner", []string{"not a name"}) })
	modify("the server's", func(r *ldap.ModifyRequest) { r.Replace("createTimestamp", []string{"20200101000000Z"}) })
	modify("all or nothing", func(r *ldap.ModifyRequest) { r.Add("serialNumber", []string{"A"}); r.Add("bogus", []string{"x"}) })
	modify("in order", func(r *ldap.ModifyRequest) {
		r.Add("serialNumber", []string{"B", "C"})
		r.Delete("serialNumber", []string{"b"})
		r.Replace("description", []string{"new"})
	})
	add := func(what, name string, attributes map[string][]string) {
		qs = append(qs, change("add of "+what, func(c *ldap.Conn) error { return ldapChanger{c}.add(name, attributes) }))
	}
	device := map[string][]string{"objectClass": {"top", "device"}, "cn": {"a"}}
	add("an orphan", "cn=a,ou=nowhere,"+suffix, device)
	add("what is there", printer, map[string][]string{"objectClass": {"device"}, "cn": {"printer-1"}})
	add("a person without sn", "cn=a,"+suffix, map[string][]string{"objectClass": {"person"}, "cn": {"a"}})
	add("no structural class", "cn=a,"+suffix, map[string][]string{"objectClass": {"top"}, "cn": {"a"}})
	add("two structural classes", "cn=a,"+suffix, map[string][]string{"objectClass": {"device", "person"}, "cn": {"a"}, "sn": {"a"}})
	add("equal values", "cn=a,"+suffix, map[string][]string{"objectClass": {"device"}, "cn": {"a"}, "ou": {"b", "B"}})
	add("what is below an alias", "cn=a,cn=boss,"+suffix, device)
	add("a device", "cn=a,"+devicesDN, device)
	rename := func(what, name, rdn, superior string, keep bool) {
		qs = append(qs, change("rename "+what, func(c *ldap.Conn) error {
			return c.ModifyDN(ldap.NewModifyDNRequest(name, rdn, !keep, superior))
		}))
	}
	rename("to what is there", printer, "cn=printer-2", "", false)
	rename("of nothing", "cn=none,"+devicesDN, "cn=x", "", false)
	rename("keeping", "cn=a,"+devicesDN, "cn=b", "", true)
	rename("and move", "cn=b,"+devicesDN, "cn=c", peopleDN, false)
	remove := func(name string) {
		qs = append(qs, change("delete of "+name, func(c *ldap.Conn) error { return ldapChanger{c}.remove(name) }))
	}
	remove(devicesDN)
	remove("cn=none," + devicesDN)
	remove("cn=x,ou=partners," + suffix)
	remove("ou=partners," + suffix)
	compare := func(name, attribute, value string) {
		qs = append(qs, change(fmt.Sprintf("compare of %s of %s", attribute, name), func(c *ldap.Conn) error {
			_, err := c.Compare(name, attribute, value)
			return err
		}))
	}
	compare(printer, "serialNumber", "sn-111111")
	compare(printer, "title", "x")
	compare(printer, "bogus", "x")
	compare("cn=none,"+devicesDN, "cn", "x")
	bind := func(name, password string) {
		qs = append(qs, change("bind of "+name, func(c *ldap.Conn) error {
			return cmp.Or(c.Bind(name, password), c.Bind(slapdAdmin, adminPassword))
		}))
	}
	bind(jdoe, "opensesame")
	bind("uid=asantos,"+peopleDN, "Pão de queijo")
	return append(qs, searching(suffix, sub, ldap.NeverDerefAliases, 0, "(objectClass=*)", nil))
}
