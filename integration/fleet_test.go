package integration

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
)

var fleetTime = flag.Duration("fleet", 5*time.Second, "how long clients of TestFleet work while servers are killed")

// TestFleet runs clients that write to three servers on HBase while servers are killed. Some
// clients move money between accounts in transactions, and some move it in branches, which they
// merge. Some clients rename, add and delete entries that are members of groups. Some clients
// change entries that a view counts. One client changes access rules while other clients read.
// No reader may see a wrong state at any moment.
func TestFleet(t *testing.T) {
	t.Parallel()
	store := storeKinds[1].make(t)
	mustRun(t, "import", "--store", store, "--suffix", suffix, "--suffix", "cn=views", example, bankEntries(t), teamEntries(t), shiftEntries(t), ruledLDIF(t))
	mustRun(t, "references", "--store", store, "--must-exist", "member", "manager")
	f := newFleet(t, store, fmt.Sprintf("--limits-rules=candidates=%d for anonymous", shiftWorkers/2))
	b, x, y := &bank{fleet: f}, &teams{fleet: f}, &shifts{fleet: f}
	z, w := &staging{bank: b}, newRuled(t, f)
	clients := append(w.clients(servers), b.audit)
	for n := range servers {
		clients = append(clients, f.client(n, b.transfer), f.client(n, z.transfer), f.client(n, x.update), f.client(n, y.change), f.client(n, y.compare))
	}
	begin := time.Now()
	f.disturb(*fleetTime, 2*historiesLease, func() bool {
		return w.enough() && min(b.done.Load(), z.tally.done.Load(), x.done.Load(), y.done.Load(), y.compared.Load()) >= 3
	}, clients...)
	b.past()
	x.past(begin)
	y.end()
	w.report()
	t.Logf("%d branches, of which %d were merged, %d had conflicts, and of %d the outcome is unknown", z.branches.Load(), z.tally.done.Load(), z.clashes.Load(), z.tally.unknown.Load())
	t.Logf("%d transactions, of %d the outcome is unknown; %d updates of names, of %d the outcome is unknown; %d updates and %d comparisons of the view",
		b.done.Load(), b.unknown.Load(), x.done.Load(), x.unknown.Load(), y.done.Load(), y.compared.Load())
	f.end()
}

// A fleet is several servers of one store, which are killed one after the other while
// clients write.
type fleet struct {
	t       *testing.T
	store   string
	seats   [servers]seat
	stopped atomic.Bool
}

// newFleet starts servers on a store and waits until all of them take writes.
func newFleet(t *testing.T, store string, args ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, store: store}
	for i := range f.seats {
		f.seats[i].args = append([]string{"--lease", historiesLease.String()}, args...)
		f.seats[i].sit(t, store)
	}
	for i := range f.seats {
		awaitWriter(t, f.seats[i].process())
	}
	return f
}

// disturb runs the clients for some time, and until they have done enough. At the given intervals, it
// kills one server after the other and starts another server in its place. After the given time, the
// intervals grow.
func (f *fleet) disturb(length, every time.Duration, enough func() bool, clients ...func()) {
	var g sync.WaitGroup
	for _, c := range clients {
		g.Go(c)
	}
	begin := time.Now()
	for n := 0; time.Since(begin) < length || !enough(); n++ {
		if time.Since(begin) > length+patience {
			f.t.Error("the clients have not done enough")
			break
		}
		if time.Since(begin) > length {
			every += every / 2 // the machine is slow: servers need longer to begin
		}
		time.Sleep(every)
		f.replace(n % servers)
	}
	f.stopped.Store(true)
	g.Wait()
}

// logged reports whether one of the servers has logged a text.
func (f *fleet) logged(text string) bool {
	for i := range f.seats {
		if f.seats[i].logged(text) {
			return true
		}
	}
	return false
}

// replace kills a server and starts another one in its place.
func (f *fleet) replace(n int) {
	f.seats[n].process().kill()
	f.seats[n].sit(f.t, f.store)
}

// A tally counts the requests of clients that succeeded, and those whose outcome is unknown.
type tally struct{ done, unknown atomic.Int64 }

// count counts the outcome of an update, which may be unknown. An update may be refused because
// the servers are killed, or with one of the result codes in refusals. After any other error,
// the test fails and the fleet is stopped. count returns false if the connection must be
// closed.
func (f *fleet) count(t *tally, err error, refusals ...int) bool {
	switch c := code(err); {
	case c == ldap.LDAPResultSuccess:
		t.done.Add(1)
	case c == ldap.LDAPResultBusy, c == ldap.LDAPResultUnavailable, c == ldap.LDAPResultUnwillingToPerform, slices.Contains(refusals, c):
	case c == -1, c == ldap.LDAPResultOther:
		t.unknown.Add(1)
		return false
	default:
		f.t.Error(err)
		f.stopped.Store(true)
	}
	return true
}

// client returns a function that calls do until the fleet is stopped. It connects to the
// server in seat n or, if the server was killed, to the next server in the seat. If do
// returns false, the client connects again.
func (f *fleet) client(n int, do func(*ldap.Conn, *rand.Rand) bool) func() {
	return f.clientAs(n, adminDN, adminPassword, do)
}

// clientAs is like client, but binds as the given user.
func (f *fleet) clientAs(n int, user, password string, do func(*ldap.Conn, *rand.Rand) bool) func() {
	return func() {
		r := rand.New(rand.NewPCG(uint64(n), 1))
		var c *ldap.Conn
		for !f.stopped.Load() {
			if c == nil || c.IsClosing() {
				var err error
				if c, err = dial(f.seats[n%servers].process().url(), user, password); err != nil {
					time.Sleep(50 * time.Millisecond)
					continue
				}
			}
			if !do(c, r) {
				c.Close()
			}
		}
		if c != nil {
			c.Close()
		}
	}
}

// end stops the servers and checks the store.
func (f *fleet) end() {
	f.t.Helper()
	for i := range f.seats {
		f.seats[i].process().stop()
	}
	checkStore(f.t, f.store)
}
