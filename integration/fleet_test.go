package integration

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
)

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

// disturb runs the clients for some time. Meanwhile it kills a server every two leases
// and starts another one in its place.
func (f *fleet) disturb(length time.Duration, clients ...func()) {
	var g sync.WaitGroup
	for _, c := range clients {
		g.Go(c)
	}
	begin := time.Now()
	for n := 0; time.Since(begin) < length; n++ {
		time.Sleep(2 * historiesLease)
		seat := &f.seats[n%servers]
		seat.process().kill()
		seat.sit(f.t, f.store)
	}
	f.stopped.Store(true)
	g.Wait()
}

// client calls do until the fleet is stopped, on a connection to one server and, after
// that server is killed, to its successor. It reconnects after do returns false.
func (f *fleet) client(n int, do func(*ldap.Conn, *rand.Rand) bool) func() {
	return func() {
		r := rand.New(rand.NewPCG(uint64(n), 1))
		var c *ldap.Conn
		for !f.stopped.Load() {
			if c == nil || c.IsClosing() {
				var err error
				if c, err = dial(f.seats[n%servers].process().url(), adminDN, adminPassword); err != nil {
					time.Sleep(50 * time.Millisecond)
					continue
				}
			}
			if !do(c, r) {
				c.Close()
			}
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
