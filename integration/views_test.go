package integration

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
	godiff "github.com/google/go-cmp/cmp"

	"github.com/seed-4dac0d86/ldapd/ldap/control"
)

var viewsTime = flag.Duration("hbaseviews", 0, "how long TestViewsOnHBase compares views with entries while servers are killed; 0: it is skipped")

const (
	shiftsDN  = "ou=shifts," + suffix
	byShiftDN = "cn=by-shift,cn=views"
	nightDN   = "cn=night,cn=views" // a list of the workers of department 1
	// shiftWorkers is the number of people who stay. When a client reads the number of
	// subordinates of an entry with at least 128 children, the servers begin to keep a view
	// of these numbers.
	shiftWorkers = 140
	reserves     = 10 // number of people who come and go
)

// The type shifts has people who change departments, are added and are deleted. It also has the
// views that count and list these people.
type shifts struct {
	*fleet
	tally
	compared atomic.Int64

	mu   sync.Mutex
	took []time.Duration // by each reading of the totals
}

// TestViewsOnHBase compares views with the entries that they follow from, at moments of the
// last three seconds, while three servers on HBase change the entries and are killed.
func TestViewsOnHBase(t *testing.T) {
	if *viewsTime == 0 {
		t.Skip("give -hbaseviews 10m; TestFleet does the same for some seconds")
	}
	t.Parallel()
	store := storeKinds[1].make(t)
	mustRun(t, "import", "--store", store, "--suffix", suffix, "--suffix", "cn=views", example, shiftEntries(t))
	x := &shifts{fleet: newFleet(t, store)}
	var clients []func()
	for n := range 3 * servers {
		clients = append(clients, x.client(n, x.compare))
		if n < servers {
			clients = append(clients, x.client(n, x.change))
		}
	}
	x.disturb(*viewsTime, 15*time.Second, func() bool { return x.done.Load() > 0 }, clients...)
	x.t.Log(x.awaitKept())
	x.fleet.end()
	slices.Sort(x.took)
	t.Logf("%d updates and %d comparisons; reading the totals took p50 %v, p99 %v", x.done.Load(), x.compared.Load(),
		x.took[len(x.took)/2].Round(time.Millisecond), x.took[len(x.took)*99/100].Round(time.Millisecond))
}

// end waits until the servers keep the view, and reads the view's records at each server. It
// reads anonymously. An anonymous client may not examine enough entries to compute the
// records, so the records must come from the kept view.
func (x *shifts) end() {
	x.t.Log(x.awaitKept())
	for i := range x.seats {
		c := x.seats[i].process().connect("", "")
		res, err := c.Search(ldap.NewSearchRequest(byShiftDN, ldap.ScopeSingleLevel, 0, 0, 0, false, "(viewCount>=1)", nil, nil))
		if err != nil || len(res.Entries) == 0 {
			x.t.Errorf("server %d does not read the kept records: %v", i, err)
		}
		c.Close()
	}
}

// shiftEntries writes an LDIF file of the people and the two views.
func shiftEntries(t *testing.T) string {
	var s strings.Builder
	fmt.Fprintf(&s, "dn: cn=views\nobjectClass: viewContainer\n\ndn: %s\nobjectClass: listView\nviewBase: %s\nviewFilter: (departmentNumber=1)\nviewOrder: uidNumber\nviewShow: departmentNumber\n\n", nightDN, shiftsDN)
	fmt.Fprintf(&s, "dn: %s\nobjectClass: totalsView\nviewBase: %s\nviewGroup: departmentNumber\nviewTotal: count\nviewTotal: sum uidNumber\nviewTotal: max uidNumber\n\n"+
		"dn: %[2]s\nobjectClass: organizationalUnit\n\n", byShiftDN, shiftsDN)
	for n := range shiftWorkers {
		fmt.Fprintf(&s, "dn: %s\nobjectClass: account\nobjectClass: extensibleObject\ndepartmentNumber: 0\nuidNumber: %d\n\n", shiftWorker(n), n)
	}
	return writeIn(t, t.TempDir(), "shifts.ldif", s.String())
}

func shiftWorker(n int) string { return fmt.Sprintf("uid=%d,%s", n, shiftsDN) }

// change changes, adds or deletes one entry.
func (x *shifts) change(c *ldap.Conn, r *rand.Rand) bool {
	reserve := shiftWorker(shiftWorkers + r.IntN(reserves))
	switch r.IntN(6) {
	case 0:
		a := ldap.NewAddRequest(reserve, nil)
		a.Attribute("objectClass", []string{"account", "extensibleObject"})
		a.Attribute("departmentNumber", []string{"1"})
		a.Attribute("uidNumber", []string{strconv.Itoa(r.IntN(1000))})
		return x.count(&x.tally, c.Add(a), ldap.LDAPResultEntryAlreadyExists)
	case 1:
		return x.count(&x.tally, c.Del(ldap.NewDelRequest(reserve, nil)), ldap.LDAPResultNoSuchObject)
	}
	m := ldap.NewModifyRequest(shiftWorker(r.IntN(shiftWorkers)), nil)
	m.Replace("departmentNumber", []string{strconv.Itoa(r.IntN(4))})
	m.Replace("uidNumber", []string{strconv.Itoa(r.IntN(1000))})
	return x.count(&x.tally, c.Modify(m))
}

// compare reads the records and the entries at one moment, and compares the records with
// what it computes from the entries.
func (x *shifts) compare(c *ldap.Conn, r *rand.Rand) bool {
	at := ldap.NewControlString(control.OIDAt, true, time.Now().Add(-time.Duration(r.IntN(3000))*time.Millisecond).UTC().Format("20060102150405.000000Z"))
	find := func(base string, scope int, attributes ...string) ([]*ldap.Entry, error) {
		res, err := c.Search(ldap.NewSearchRequest(base, scope, 0, 0, 0, false, "(objectClass=*)", attributes, []ldap.Control{at}))
		if err != nil {
			return nil, err
		}
		return res.Entries, nil
	}
	began := time.Now()
	records, err := find(byShiftDN, ldap.ScopeSingleLevel, "departmentNumber", "viewCount", "viewSum", "viewMax")
	if err != nil {
		return code(err) != -1
	}
	x.mu.Lock()
	x.took = append(x.took, time.Since(began))
	x.mu.Unlock()
	entries, err := find(shiftsDN, ldap.ScopeSingleLevel, "departmentNumber", "uidNumber")
	if err != nil {
		return code(err) != -1
	}
	listed, err := find(nightDN, ldap.ScopeSingleLevel, "viewEntry", "uidNumber", "departmentNumber")
	if err != nil {
		return code(err) != -1
	}
	top, err := find(shiftsDN, ldap.ScopeBaseObject, "numSubordinates", "numAllSubordinates")
	if err != nil {
		return code(err) != -1
	}
	want, n := nightOf(entries), strconv.Itoa(len(entries))
	diff := godiff.Diff(totalsOf(entries), recordsOf(records)) + godiff.Diff(want, listOf(listed))
	for _, name := range []string{"numSubordinates", "numAllSubordinates"} {
		diff += godiff.Diff(n, top[0].GetAttributeValue(name))
	}
	if diff != "" {
		x.t.Errorf("at %s (- entries, + views):\n%s", at.ControlValue, diff)
		x.stopped.Store(true)
	}
	x.compared.Add(1)
	return true
}

// totalsOf returns, for each department, the number of its entries, and the sum and the
// largest of their uidNumbers.
func totalsOf(entries []*ldap.Entry) map[string][3]int {
	all := map[string][3]int{}
	for _, e := range entries {
		n, _ := strconv.Atoi(e.GetAttributeValue("uidNumber"))
		d := e.GetAttributeValue("departmentNumber")
		x := all[d]
		all[d] = [3]int{x[0] + 1, x[1] + n, max(x[2], n)}
	}
	return all
}

// nightOf returns the entries of department 1, sorted by uidNumber, in the form that
// listOf returns.
func nightOf(entries []*ldap.Entry) (lines []string) {
	for _, e := range entries {
		if e.GetAttributeValue("departmentNumber") == "1" {
			n, _ := strconv.Atoi(e.GetAttributeValue("uidNumber"))
			lines = append(lines, fmt.Sprintf("%04d %s", n, e.DN))
		}
	}
	slices.Sort(lines)
	return lines
}

// listOf returns the entries in the records of a list. Their uidNumbers must be in
// ascending order; entries with equal numbers may come in any order.
func listOf(records []*ldap.Entry) (lines []string) {
	last := -1
	for _, e := range records {
		n, _ := strconv.Atoi(e.GetAttributeValue("uidNumber"))
		if n < last || e.GetAttributeValue("departmentNumber") != "1" {
			return []string{fmt.Sprintf("%s comes after one with the number %d", e.GetAttributeValue("viewEntry"), last)}
		}
		last = n
		lines = append(lines, fmt.Sprintf("%04d %s", n, e.GetAttributeValue("viewEntry")))
	}
	slices.Sort(lines)
	return lines
}

func recordsOf(records []*ldap.Entry) map[string][3]int {
	all := map[string][3]int{}
	for _, e := range records {
		var x [3]int
		for i, name := range []string{"viewCount", "viewSum;of-uidnumber", "viewMax;of-uidnumber"} {
			x[i], _ = strconv.Atoi(e.GetEqualFoldAttributeValue(name))
		}
		all[e.GetAttributeValue("departmentNumber")] = x
	}
	return all
}

// awaitKept waits until the servers keep the view up to a new commit.
func (x *shifts) awaitKept() (line string) {
	x.t.Helper()
	begin := time.Now()
	awaitWriter(x.t, x.seats[0].process())
	eventually(x.t, "the view is kept", func() error {
		lines := strings.Split(mustRun(x.t, "view", "list", "--store", x.store), "\n")
		i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, byShiftDN) })
		if i < 0 {
			return fmt.Errorf("no view in %q", lines)
		}
		_, upTo, found := strings.Cut(lines[i], ": kept up to ")
		t, err := time.Parse(time.RFC3339Nano, upTo)
		if !found || err != nil || t.Before(begin) {
			return fmt.Errorf("%s (want %s): %w", lines[i], begin.UTC().Format(time.RFC3339Nano), err)
		}
		line = lines[i]
		return nil
	})
	return line
}
