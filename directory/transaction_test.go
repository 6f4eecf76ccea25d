package directory_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"golang.org/x/sync/errgroup"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// start begins a transaction and returns its identifier.
func (c *client) start(input ...string) string {
	c.t.Helper()
	out := c.do("start", append(input, "x: x")...)
	_, id, ok := strings.Cut(out, "0\nvalue: ")
	if !ok {
		c.t.Fatalf("start: %s", out)
	}
	return strings.TrimSpace(id)
}

// within adds the control of a transaction to an update.
func within(id string, input ...string) []string {
	return append(input, "control: transaction "+id+" critical")
}

// newTransactions returns a client bound as the administrator of a directory with one
// entry.
func newTransactions(t *testing.T, o directory.Options) *client {
	t.Helper()
	p := newPartition(t)
	c := &client{t: t, p: p, d: newDirectory(t, p, o)}
	c.s = c.d.NewSession(nil)
	c.must("bind", "dn: cn=admin,dc=example,dc=com", "password: secret")
	c.must("add", "dn: dc=example,dc=com", "objectClass: domain", "dc: example")
	return c
}

// TestTransactionLimits checks that a transaction that exceeds a limit is aborted, with a
// notice.
func TestTransactionLimits(t *testing.T) {
	c := newTransactions(t, directory.Options{})
	id := c.start()
	for i := range 10000 {
		c.must("delete", within(id, fmt.Sprintf("dn: cn=%d,dc=example,dc=com", i))...)
	}
	want := "11 (the transaction has 10000 operations, which is the limit: it is aborted)\n"
	notice := fmt.Sprintf("notice 1.3.6.1.1.21.4 %s: %s", id, want)
	if out := c.do("delete", within(id, "dn: cn=more,dc=example,dc=com")...); out != want+notice {
		t.Errorf("operation 10,001: %q", out)
	}
	if out := c.do("end", "id: "+id); !strings.HasPrefix(out, "1 ") {
		t.Errorf("the end of an aborted transaction: %s", out)
	}

	c = newTransactions(t, directory.Options{Transactions: directory.TransactionLimits{Octets: 10000}})
	id = c.start()
	c.must("modify", within(id, "dn: dc=example,dc=com", "replace description: "+strings.Repeat("x", 5000))...)
	out := c.do("modify", within(id, "dn: dc=example,dc=com", "replace description: "+strings.Repeat("x", 5000))...)
	if !strings.HasPrefix(out, "11 (the transaction takes more than 10000 octets") || !strings.Contains(out, "notice 1.3.6.1.1.21.4 "+id) {
		t.Errorf("too many octets: %s", out)
	}
	if id := c.start(); c.do("end", "id: "+id) != "0\n" {
		t.Error("no transaction after one that was aborted")
	}
}

// TestTransactionIdle checks that an idle transaction is aborted with a notice, and that a
// transaction that keeps receiving updates is not aborted.
func TestTransactionIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransactions(t, directory.Options{Transactions: directory.TransactionLimits{Idle: time.Minute}})
		defer c.s.Close()
		id := c.start()
		for range 3 {
			time.Sleep(50 * time.Second)
			c.must("modify", within(id, "dn: dc=example,dc=com", "replace description: x")...)
			c.id++
		}
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if want := "notice 1.3.6.1.1.21.4 " + id + ": 11 (the transaction was idle for 1m0s, which is the limit)\n"; !slices.Equal(c.notices, []string{want}) {
			t.Errorf("notices %q", c.notices)
		}
		c.notices = nil
		if out := c.do("end", "id: "+id); !strings.HasPrefix(out, "1 ") {
			t.Errorf("the end of an idle transaction: %s", out)
		}
	})
}

// TestTransactionIsOneCommit checks that a transaction is one commit: it has one token and one
// revision, and a change number for each change.
func TestTransactionIsOneCommit(t *testing.T) {
	c := newTransactions(t, directory.Options{Secret: []byte("k")})
	id := c.start()
	for i := range 100 {
		c.must("add", within(id, fmt.Sprintf("dn: cn=d%d,dc=example,dc=com", i), "objectClass: device")...)
	}
	before := state.Newest(c.p)
	defer before.Close()
	if out := c.do("end", "id: "+id, "control: token"); out != "0\ntoken: of the newest commit true, <nil>\n" {
		t.Fatalf("end: %s", out)
	}
	all, _ := changesOf(t, c.s, "cn=changelog", op.SingleLevel, "(&(changeType=add)(!(targetDN=dc=example,dc=com)))", "changeNumber changeRevision")
	numbers, revisions := map[string]bool{}, map[string]bool{}
	for _, e := range all {
		for line := range strings.Lines(e) {
			if n, is := strings.CutPrefix(strings.TrimSpace(line), "changeNumber: "); is {
				numbers[n] = true
			}
			if r, is := strings.CutPrefix(strings.TrimSpace(line), "changeRevision: "); is {
				revisions[r] = true
			}
		}
	}
	if len(all) != 100 || len(revisions) != 1 || len(numbers) != 100 {
		t.Errorf("%d changes, %d of them with a number of their own, have the revisions %v", len(all), len(numbers), revisions)
	}
}

// TestTransactionIsJudgedByItsOwnState checks that each update is judged by the access
// rules, entries and names as the earlier updates of the transaction have left them.
func TestTransactionIsJudgedByItsOwnState(t *testing.T) {
	c := newTransactions(t, directory.Options{})
	c.addPerson("ann")
	c.must("add", "dn: ou=a,dc=example,dc=com", "objectClass: organizationalUnit")
	c.must("add", "dn: cn=admins,dc=example,dc=com", "objectClass: groupOfNames", "member: cn=nobody,dc=example,dc=com")
	c.setRules(&datadriven.TestData{Input: `use: allow everyone to use *
all: allow everyone to read, bind
admins: allow group "cn=admins,dc=example,dc=com" to manage
ann: allow "uid=ann,dc=example,dc=com" to write member`})
	ann := &client{t: t, p: c.p, d: c.d, s: c.d.NewSession(nil)}
	ann.must("bind", "dn: uid=ann,dc=example,dc=com", "password: p")
	add := []string{"dn: cn=x,ou=a,dc=example,dc=com", "objectClass: device"}

	// Ann is not a member yet, so she may not make the update.
	id := ann.start()
	ann.must("add", within(id, add...)...)
	if out := ann.do("end", "id: "+id); !strings.HasPrefix(out, "50 ") || !strings.Contains(out, "failed: message "+strconv.Itoa(int(ann.id)-1)) {
		t.Errorf("who may not add: %s", out)
	}
	// In one transaction, Ann becomes a member, and then may make updates. At the last
	// update she is no longer a member, so the transaction fails.
	id = ann.start()
	ann.must("modify", within(id, "dn: cn=admins,dc=example,dc=com", "add member: uid=ann,dc=example,dc=com")...)
	ann.must("add", within(id, add...)...)
	ann.must("modify", within(id, "dn: ou=a,dc=example,dc=com", `add accessRule: no: deny "uid=ann,dc=example,dc=com" to write`)...)
	ann.must("modify", within(id, "dn: cn=admins,dc=example,dc=com", "delete member: uid=ann,dc=example,dc=com")...)
	ann.must("add", within(id, "dn: cn=y,ou=a,dc=example,dc=com", "objectClass: device")...)
	if out := ann.do("end", "id: "+id); !strings.HasPrefix(out, "50 ") || !strings.Contains(out, "failed: message "+strconv.Itoa(int(ann.id)-1)) {
		t.Errorf("who may no longer add: %s", out)
	}
	id = ann.start()
	ann.must("modify", within(id, "dn: cn=admins,dc=example,dc=com", "add member: uid=ann,dc=example,dc=com")...)
	ann.must("add", within(id, add...)...)
	ann.must("modify", within(id, "dn: ou=a,dc=example,dc=com", `add accessRule: no: deny users to read description`)...)
	if out := ann.do("end", "id: "+id); out != "0\n" {
		t.Errorf("a member: %s", out)
	}
	if out := c.do("search", "base: ou=a,dc=example,dc=com", "attrs: accessRule"); !strings.Contains(out, "accessRule: no:") {
		t.Errorf("the rule is not in force: %s", out)
	}
}

// TestTransactionPasswords checks passwords in a transaction that adds, renames and changes
// an entry. New passwords must be hashed. Old passwords must be verified against the state
// of the transaction.
func TestTransactionPasswords(t *testing.T) {
	c := newTransactions(t, directory.Options{})
	id := c.start()
	c.must("add", within(id, "dn: uid=a,dc=example,dc=com", "objectClass: inetOrgPerson", "cn: a", "sn: a", "userPassword: one")...)
	c.must("modify", within(id, "dn: uid=a,dc=example,dc=com", "delete userPassword: one", "add userPassword: two")...)
	c.must("modifydn", within(id, "dn: uid=a,dc=example,dc=com", "rdn: uid=b")...)
	c.must("extended", within(id, "passwd: uid=b,dc=example,dc=com | two | three")...)
	c.must("add", within(id, "dn: uid=c,dc=example,dc=com", "objectClass: inetOrgPerson", "cn: c", "sn: c", "userPassword: c")...)
	generated := c.do("extended", within(id, "passwd: uid=c,dc=example,dc=com | - | -")...)
	if out := c.do("end", "id: "+id); out != "0\n" {
		t.Fatalf("end: %s", out)
	}
	value, err := strconv.Unquote(strings.TrimSpace(strings.TrimPrefix(generated, "0\nvalue: ")))
	if err != nil {
		t.Fatalf("no generated password: %s", generated)
	}
	_, secret, _ := strings.Cut(value, "\x80")
	for uid, password := range map[string]string{"b": "three", "c": secret[1:]} {
		s := &client{t: t, p: c.p, d: c.d, s: c.d.NewSession(nil)}
		if out := s.do("bind", "dn: uid="+uid+",dc=example,dc=com", "password: "+password); out != "0\n" {
			t.Errorf("bind as %s by %q: %s", uid, password, out)
		}
	}
	// A wrong old password fails the whole transaction.
	id = c.start()
	c.must("modify", within(id, "dn: uid=c,dc=example,dc=com", "replace sn: changed")...)
	c.must("extended", within(id, "passwd: uid=b,dc=example,dc=com | wrong | four")...)
	if out := c.do("end", "id: "+id); !strings.HasPrefix(out, "53 (the old password is wrong)") || !strings.Contains(out, "failed:") {
		t.Errorf("a wrong old password: %s", out)
	}
	if out := c.do("compare", "dn: uid=c,dc=example,dc=com", "assert: sn=c"); out != "6\n" {
		t.Errorf("sn has changed: %s", out)
	}
}

// TestTransactionProxied checks that a transaction runs as the identity that its start
// requests, and that the start is refused if the identity has no entry.
func TestTransactionProxied(t *testing.T) {
	c := newTransactions(t, directory.Options{})
	c.addPerson("ann")
	id := c.start("control: proxied dn:uid=ann,dc=example,dc=com critical")
	c.must("modify", within(id, "dn: dc=example,dc=com", "replace description: x")...)
	if out := c.do("end", "id: "+id); !strings.HasPrefix(out, "50 ") {
		t.Errorf("as ann: %s", out)
	}
	if out := c.do("start", "control: proxied dn:uid=none,dc=example,dc=com critical", "x: x"); !strings.HasPrefix(out, "123 ") {
		t.Errorf("as nobody: %s", out)
	}
	id = c.start("control: proxied dn:uid=ann,dc=example,dc=com critical")
	c.must("delete", "dn: uid=ann,dc=example,dc=com")
	if out := c.do("end", "id: "+id); !strings.HasPrefix(out, "123 ") {
		t.Errorf("as ann, who is gone: %s", out)
	}
}

// TestTransactionIsItsOperations compares a transaction with the same operations sent one
// after another without a transaction. The transaction must result in the same entries, or
// fail at the first operation that fails.
func TestTransactionIsItsOperations(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for engine, store := range map[string]func() table.Store{
		"embedded": func() table.Store { return tabletest.NewBatchMem() },
		"shared":   func() table.Store { return tabletest.NewMem() },
	} {
		t.Run(engine, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			alone, together := newOf(t, store()), newOf(t, store())
			for range 60 {
				updates := randomUpdates(r)
				id, first := together.start(), together.id+1
				want := "0\n"
				for _, u := range updates {
					together.must(u[0], within(id, u[1:]...)...)
				}
				undo := dump(alone)
				for i, u := range updates {
					if out := alone.do(u[0], u[1:]...); out != "0\n" {
						want = fmt.Sprintf("%sfailed: message %d\n", out, int(first)+i)
						break
					}
				}
				got := together.do("end", "id: "+id)
				if got != want {
					t.Fatalf("a transaction of\n%v\ncomes to %q, want %q", updates, got, want)
				}
				if got != "0\n" {
					if now := dump(together); now != undo {
						t.Fatalf("a transaction that failed has changed\n%s\nto\n%s", undo, now)
					}
					// The failed transaction has not changed the directory of the client
					// together. So that both directories are equal again, the client alone gets
					// a copy of this directory.
					alone = newOf(t, store())
					restore(alone, together)
					continue
				}
				if a, b := dump(alone), dump(together); a != b {
					t.Fatalf("after\n%v\none after the other:\n%s\nas a transaction:\n%s", updates, a, b)
				}
			}
		})
	}
}

// newOf returns a client of a new directory on a store. The directory has one entry, which is
// its naming context.
func newOf(t *testing.T, s table.Store) *client {
	t.Helper()
	c := newServer(t, s)
	c.must("add", "dn: dc=example,dc=com", "objectClass: domain", "dc: example")
	return c
}

// dump returns the entries below dc=example,dc=com, with the lines of each entry sorted, so
// that two directories can be compared.
func dump(c *client) string {
	entries := strings.Split(c.do("search", "base: dc=example,dc=com", "scope: children", "attrs: * structuralObjectClass hasSubordinates memberOf"), "dn: ")
	for i, e := range entries {
		name, attributes, _ := strings.Cut(e, "\n")
		sorted := strings.Split(attributes, "\n")
		slices.Sort(sorted)
		entries[i] = name + "\n" + strings.Join(sorted, "\n")
	}
	return strings.Join(entries, "dn: ")
}

// restore copies the entries of one directory to another.
func restore(to, from *client) {
	var entries []string
	for _, e := range strings.Split(from.do("search", "base: dc=example,dc=com", "scope: children"), "dn: ") {
		if strings.Contains(e, ",dc=com\n") {
			entries = append(entries, strings.TrimSuffix(strings.TrimSuffix("dn: "+e, "0\n"), "\n"))
		}
	}
	slices.SortFunc(entries, func(a, b string) int {
		a, _, _ = strings.Cut(a, "\n")
		b, _, _ = strings.Cut(b, "\n")
		return strings.Count(a, ",") - strings.Count(b, ",")
	})
	for _, e := range entries {
		to.must("add", strings.Split(e, "\n")...)
	}
}

// randomUpdates returns a few updates. They use only a few names, so that several updates
// often concern the same entry.
func randomUpdates(r *rand.Rand) (updates [][]string) {
	names := []string{"cn=a,dc=example,dc=com", "cn=b,dc=example,dc=com", "cn=c,cn=a,dc=example,dc=com", "cn=d,cn=c,cn=a,dc=example,dc=com", "cn=c,cn=b,dc=example,dc=com"}
	name := func() string { return names[r.IntN(len(names))] }
	for range 1 + r.IntN(7) {
		switch n := r.IntN(12); {
		case n < 4:
			updates = append(updates, []string{"add", "dn: " + name(), "objectClass: groupOfNames", "member: " + name(), "description: " + strconv.Itoa(r.IntN(3))})
		case n < 8:
			change := []string{"add description: %d", "delete description: %d", "replace description: %d", "delete description", "add member: cn=%d,dc=example,dc=com",
				"delete member: cn=%d,dc=example,dc=com", "replace o: %d | x", "replace member: " + name()}[r.IntN(8)]
			if strings.Contains(change, "%d") {
				change = fmt.Sprintf(change, r.IntN(3))
			}
			updates = append(updates, []string{"modify", "dn: " + name(), change})
		case n < 10:
			updates = append(updates, []string{"delete", "dn: " + name()})
		default:
			u := []string{"modifydn", "dn: " + name(), "rdn: cn=" + string(rune('a'+r.IntN(4)))}
			if r.IntN(2) == 0 {
				u = append(u, "superior: "+name())
			}
			updates = append(updates, u)
		}
	}
	return updates
}

// TestBank moves money between accounts at three servers of one store, with four
// operations in each transaction. The sum must be the same in every state, now and in the
// past.
func TestBank(t *testing.T) {
	const accounts, each, transfers = 4, 100, 25
	store := tabletest.NewMem()
	var cs [3]*client
	for i := range cs {
		p, err := partition.Open(t.Context(), store, partition.Options{Create: true, Schema: schema.Core(),
			Txn: txn.Options{Lease: 10 * time.Second, Poll: 5 * time.Millisecond, InFlight: 50 * time.Millisecond, Attempts: 1000}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close(context.Background()) })
		if i == 0 {
			if err := onlineschema.SetSuffixes(t.Context(), p, []string{"dc=example,dc=com"}); err != nil {
				t.Fatal(err)
			}
		} else if err := p.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		cs[i] = &client{t: t, p: p, d: newDirectory(t, p, directory.Options{})}
		cs[i].s = cs[i].d.NewSession(nil)
		cs[i].must("bind", "dn: cn=admin,dc=example,dc=com", "password: secret")
	}
	cs[0].must("add", "dn: dc=example,dc=com", "objectClass: domain", "dc: example")
	for i := range accounts {
		cs[0].must("add", fmt.Sprintf("dn: uid=%d,dc=example,dc=com", i), "objectClass: account", "objectClass: posixAccount", "cn: x",
			fmt.Sprintf("uidNumber: %d", each), fmt.Sprintf("gidNumber: %d", each), "homeDirectory: /")
	}
	var mu sync.Mutex
	var moments []string
	var g errgroup.Group
	for i, c := range cs {
		if err := c.p.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		g.Go(func() error {
			r := rand.New(rand.NewPCG(uint64(i), 2))
			for range transfers {
				id, n := c.start(), r.IntN(10)
				for _, leg := range []struct {
					attribute string
					by        int
				}{{"uidNumber", n}, {"uidNumber", -n}, {"gidNumber", 2 * n}, {"gidNumber", -2 * n}} {
					c.must("modify", within(id, fmt.Sprintf("dn: uid=%d,dc=example,dc=com", r.IntN(accounts)), fmt.Sprintf("increment %s: %d", leg.attribute, leg.by))...)
				}
				if out := c.do("end", "id: "+id); out != "0\n" {
					return fmt.Errorf("server %d: %s", i, out)
				}
				if s := sum(c); s != 2*accounts*each {
					return fmt.Errorf("server %d shows the sum %d", i, s)
				}
				mu.Lock()
				moments = append(moments, time.Now().Format(time.RFC3339Nano))
				mu.Unlock()
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, c := range cs { // after these commits, all earlier states are decided
		c.must("modify", "dn: dc=example,dc=com", "replace description: over")
	}
	for i, c := range cs {
		if err := c.p.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, at := range moments {
			if s := sum(c, "control: at "+at+" critical"); s != 2*accounts*each {
				t.Errorf("server %d: at %s the sum is %d", i, at, s)
			}
		}
	}
}

// sum returns the sum of uidNumber and gidNumber over all accounts.
func sum(c *client, control ...string) (n int) {
	out := ""
	for range 300 { // wait until no server can commit before that moment any more
		out = c.do("search", append([]string{"base: dc=example,dc=com", "scope: one", "attrs: uidNumber gidNumber"}, control...)...)
		if !strings.Contains(out, "is not decided yet") {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if !strings.HasSuffix(out, "\n0\n") {
		c.t.Errorf("search: %s", out)
	}
	for _, word := range strings.Fields(out)[:max(0, len(strings.Fields(out))-1)] {
		if i, err := strconv.Atoi(word); err == nil {
			n += i
		}
	}
	return n
}

// TestAccessLogOfTransactions checks what the access log contains about the end of a
// transaction: the identifier of the transaction, its number of operations, its changes and
// the result.
func TestAccessLogOfTransactions(t *testing.T) {
	var log bytes.Buffer
	c := newTransactions(t, directory.Options{Access: slog.New(slog.NewJSONHandler(&log, nil))})
	id := c.start()
	c.must("modify", within(id, "dn: dc=example,dc=com", "replace description: x")...)
	c.must("delete", within(id, "dn: cn=none,dc=example,dc=com")...)
	log.Reset()
	c.do("end", "id: "+id)
	for _, want := range []string{`"transaction":"` + id + `"`, `"operations":2`, `"changed":["modify dc=example,dc=com","delete cn=none,dc=example,dc=com"]`, `"result":32`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %s: %s", want, &log)
		}
	}
}
