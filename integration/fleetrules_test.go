package integration

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
)

var ruledTime = flag.Duration("fleet-rules", 0, "how long TestRulesOnHBase changes rules while servers are killed; 0: it is skipped, as TestFleet does the same for some seconds")

const (
	ruledDN      = "ou=ruled," + suffix
	ruledUser    = "uid=reader," + ruledDN
	ruledTeam    = "cn=team," + ruledDN
	ruledEntries = 8
	ruledModulus = 40 // number of values of description; the rules show one value at a time
)

// ruled is a test of access rules. One client changes the rules at the entry ruledDN
// again and again, while other clients read the entries below ruledDN as one user. Each
// request of the user must be judged by rules that are in force during the request. All
// entries of one request must be judged by the same rules.
//
// Successive versions of the rules show different values of description, so an answer shows
// which version judged it. A rule shows carLicense, and another rule shows title to the members
// of a group. The client that changes the rules writes secret values of carLicense only while
// the rule for carLicense is removed, and secret values of title only while the user is not in
// the group. So no answer may ever show a secret. An answer that shows a secret was judged by
// rules or groups that were older than the entries in the answer.
type ruled struct {
	*fleet
	next      int          // the next step of the cycle of changes
	attempted atomic.Int64 // the newest version that somebody has tried to put in force
	floor     atomic.Int64 // the newest version that is acknowledged
	changes   tally
	requests  tally
	exact     atomic.Int64 // answers that exactly one version of the rules can explain
}

// TestRulesOnHBase changes rules and groups at three servers on HBase, while clients
// search and compare, and while servers are killed.
func TestRulesOnHBase(t *testing.T) {
	if *ruledTime == 0 {
		t.Skip("give -fleet-rules 10m")
	}
	t.Parallel()
	store := storeKinds[1].make(t)
	mustRun(t, "import", "--store", store, "--suffix", suffix, example, ruledLDIF(t))
	x := newRuled(t, newFleet(t, store))
	x.disturb(*ruledTime, 2*historiesLease, x.enough, x.clients(3*servers)...)
	x.report()
	x.end()
}

// ruledLDIF writes an LDIF file of the entries.
func ruledLDIF(t *testing.T) string {
	var s strings.Builder
	fmt.Fprintf(&s, "dn: %s\nobjectClass: organizationalUnit\n\ndn: %s\nobjectClass: account\nobjectClass: simpleSecurityObject\nuserPassword: reader\n\n", ruledDN, ruledUser)
	fmt.Fprintf(&s, "dn: %s\nobjectClass: groupOfNames\nmember: %s\nmember: %s\n\n", ruledTeam, ruledUser, ruledDN)
	for n := range ruledEntries {
		fmt.Fprintf(&s, "dn: %s\nobjectClass: inetOrgPerson\nsn: x\ncarLicense: plain\ntitle: plain\n", ruledEntry(n))
		for v := range ruledModulus {
			fmt.Fprintf(&s, "description: v%d\n", v)
		}
		s.WriteString("\n")
	}
	return writeIn(t, t.TempDir(), "ruled.ldif", s.String())
}

func ruledEntry(n int) string { return fmt.Sprintf("cn=%d,%s", n, ruledDN) }

// newRuled puts rules in force. Only the rules at ruledDN let users read the entries below
// ruledDN.
func newRuled(t *testing.T, f *fleet) *ruled {
	t.Helper()
	rules := "bind: allow everyone to bind\nuse: allow everyone to use *\npast: allow everyone to past\nview: allow everyone to read *, + in \"cn=views\"\n" +
		"all: allow everyone to read *, + in \"" + suffix + "\" except \"" + ruledDN + "\"\n"
	if out, status := applyRules(t, f.store, rules); status != 0 {
		t.Fatal(out)
	}
	x := &ruled{fleet: f}
	c := f.seats[0].process().admin()
	defer c.Close()
	if err := persist(func() error { return c.Modify(x.rules(0, true)) }); err != nil {
		t.Fatal(err)
	}
	return x
}

// clients returns one client that changes rules, groups and entries, and n clients that
// read.
func (x *ruled) clients(n int) []func() {
	all := []func(){x.writer}
	for i := range n {
		all = append(all, x.clientAs(i, ruledUser, "reader", x.read))
	}
	return all
}

func (x *ruled) report() {
	x.t.Helper()
	x.t.Logf("%d changes of rules and groups, of %d the outcome was unknown at first; %d versions of rules; %d requests, and %d more without an answer; during %d the rules did not change",
		x.changes.done.Load(), x.changes.unknown.Load(), x.floor.Load(), x.requests.done.Load(), x.requests.unknown.Load(), x.exact.Load())
}

// enough reports whether the rules have changed, and did not change during some request.
func (x *ruled) enough() bool { return min(x.floor.Load(), x.exact.Load()) > 0 }

// The method "rules" returns the change that puts a version of the rules in force. If open is
// not set, no rule shows carLicense.
func (x *ruled) rules(version int64, open bool) *ldap.ModifyRequest {
	rules := []string{
		fmt.Sprintf("version: allow users to read objectClass, cn, description=\"v%d\"", version%ruledModulus),
		fmt.Sprintf("team: allow group %q to read title", ruledTeam),
	}
	if open {
		rules = append(rules, "open: allow users to read carLicense")
	}
	m := ldap.NewModifyRequest(ruledDN, nil)
	m.Replace("accessRule", rules)
	return m
}

// writer makes one change after the other, at random servers. It repeats each change until
// the change is known to be in force.
func (x *ruled) writer() {
	r := rand.New(rand.NewPCG(99, 1))
	for !x.stopped.Load() {
		c, err := dial(x.seats[r.IntN(servers)].process().url(), adminDN, adminPassword)
		if err != nil {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		for range 20 {
			done, ok := x.change(c, r)
			if done {
				x.next++
			}
			if !ok || x.stopped.Load() {
				break
			}
		}
		c.Close()
	}
}

// change makes the next change. It reports whether the change is in force, and whether the
// connection is still good.
func (x *ruled) change(c *ldap.Conn, r *rand.Rand) (done, ok bool) {
	version := x.attempted.Load()
	var m *ldap.ModifyRequest
	switch x.next % 8 {
	case 0:
		version = x.floor.Load() + 1
		x.attempted.Store(version)
		m = x.rules(version, true)
	case 1:
		m = x.rules(version, false)
	case 2, 3:
		m = ldap.NewModifyRequest(ruledEntry(r.IntN(ruledEntries)), nil)
		if x.next%8 == 3 {
			return x.clear(c, "carLicense")
		}
		m.Replace("carLicense", []string{"secret"})
	case 4, 7:
		m = ldap.NewModifyRequest(ruledTeam, []ldap.Control{ldap.NewControlString("1.2.840.113556.1.4.1413", true, "")}) // the permissive modify control
		if x.next%8 == 4 {
			m.Delete("member", []string{ruledUser})
		} else {
			m.Add("member", []string{ruledUser})
		}
	case 5, 6:
		if x.next%8 == 6 {
			return x.clear(c, "title")
		}
		m = ldap.NewModifyRequest(ruledEntry(r.IntN(ruledEntries)), nil)
		m.Replace("title", []string{"secret"})
	}
	done, ok = x.make(c, m)
	if done && x.next%8 == 0 {
		x.floor.Store(version)
	}
	return done, ok
}

// clear removes the secrets of an attribute from all entries.
func (x *ruled) clear(c *ldap.Conn, attribute string) (done, ok bool) {
	for n := range ruledEntries {
		m := ldap.NewModifyRequest(ruledEntry(n), nil)
		m.Replace(attribute, []string{"plain"})
		if done, ok = x.make(c, m); !done {
			return done, ok
		}
	}
	return true, true
}

func (x *ruled) make(c *ldap.Conn, m *ldap.ModifyRequest) (done, ok bool) {
	err := c.Modify(m)
	return err == nil, x.count(&x.changes, err)
}

// read makes one request as the user, and judges the answer.
func (x *ruled) read(c *ldap.Conn, r *rand.Rand) bool {
	floor := x.floor.Load()
	var err error
	switch r.IntN(5) {
	case 0:
		err = x.compare(c, floor+int64(r.IntN(3))-1, floor)
	case 1:
		err = x.search(c, "(|(carLicense=secret)(title=secret))", floor, r)
	default:
		err = x.search(c, "(cn=*)", floor, r)
	}
	return x.count(&x.requests, err)
}

// between reports whether an answer that has just arrived may show the given value of
// description. The parameter floor is the newest version that had been acknowledged when the
// request began.
func (x *ruled) between(value, floor int64) bool {
	top := x.attempted.Load()
	for v := floor; v <= top; v++ {
		if v%ruledModulus == value {
			if top == floor {
				x.exact.Add(1)
			}
			return true
		}
	}
	return false
}

// compare sends a compare request with the value of description that the rules of a version
// show. Only rules that show this value allow the user to compare it.
func (x *ruled) compare(c *ldap.Conn, version, floor int64) error {
	if version < 0 {
		return nil
	}
	holds, err := c.Compare(ruledEntry(0), "description", fmt.Sprintf("v%d", version%ruledModulus))
	switch top := x.attempted.Load(); {
	case err == nil && !holds:
		x.t.Error("a value that is there compares as false")
	case err == nil && !x.between(version%ruledModulus, floor):
		x.t.Errorf("the rules of version %d judged a compare that began after %d", version, floor)
	case code(err) == ldap.LDAPResultInsufficientAccessRights:
		if version == floor && top == floor {
			x.t.Errorf("version %d, which is in force, did not judge a compare", version)
		}
		return nil
	}
	return err
}

// search searches all entries, and judges the answer.
func (x *ruled) search(c *ldap.Conn, filter string, floor int64, r *rand.Rand) error {
	s := ldap.NewSearchRequest(ruledDN, ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, 0, 0, false, filter, []string{"description", "carLicense", "title"}, nil)
	if r.IntN(3) == 0 {
		s.Controls = append(s.Controls, ldap.NewControlString("1.3.6.1.1.22", true, "")) // the Don't Use Copy control
	}
	switch r.IntN(4) {
	case 0:
		s.Controls = append(s.Controls, ldap.NewControlPaging(100))
	case 1:
		s.Controls = append(s.Controls, ldap.NewControlServerSideSortingWithSortKeys([]*ldap.SortKey{{AttributeType: "cn"}}))
	}
	res, err := c.Search(s)
	if err != nil {
		return err
	}
	versions := map[string]bool{}
	for _, e := range res.Entries {
		if secret := append(e.GetAttributeValues("carLicense"), e.GetAttributeValues("title")...); strings.Contains(strings.Join(secret, " "), "secret") || strings.Contains(filter, "secret") {
			x.t.Errorf("%s shows %q to somebody who was not shown it at any moment", e.DN, secret)
		}
		if strings.HasPrefix(e.DN, "cn=team") || strings.HasPrefix(e.DN, "uid=") {
			continue
		}
		for _, v := range append(e.GetAttributeValues("description"), fmt.Sprint(len(e.GetAttributeValues("description")))) {
			versions[v] = true
		}
	}
	if strings.Contains(filter, "secret") {
		return nil
	}
	var value int64 = -1
	for v := range versions {
		if v != "1" {
			_, _ = fmt.Sscanf(v, "v%d", &value)
		}
	}
	if len(versions) != 2 || !versions["1"] || !x.between(value, floor) {
		x.t.Errorf("a search that began after version %d and ended before %d was judged by %v", floor, x.attempted.Load()+1, versions)
	}
	return nil
}
