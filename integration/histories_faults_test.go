package integration

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/hbase/hbasetest"
)

const (
	// settleTime is the time after which the servers treat a write as applied or lost
	// (txn.Options.InFlight). It is short, so that the tests can suspend a server for
	// longer.
	settleTime = 4 * time.Second
	// drift is how far a server's clock may be ahead, and skew is the error of the clocks
	// in these tests.
	drift = 40 * time.Second
	skew  = 35 * time.Second
)

// A fault is something that a test did to a server or to the store.
type fault struct {
	kind   string
	server int // -1: the fault concerns the store
	at     time.Duration
}

func (r *run) note(kind string, server int) {
	r.faults = append(r.faults, fault{kind, server, r.at()})
}

// kill kills a server, as a crash would, and starts another server at its seat.
func (r *run) kill(server int) {
	r.pause(2 * time.Second) // a time without a fault
	r.note("a server was killed", server)
	r.seats[server].process().kill()
	r.sit(server)
	r.pause(historiesLease)
}

// stop suspends a server for the given time and then continues it.
func (r *run) stop(server int, d time.Duration, kind string) {
	r.note(kind, server)
	p := r.seats[server].process().cmd.Process
	for _, s := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		if err := p.Signal(s); err != nil {
			r.t.Fatal(err)
		}
		r.pause(d)
		d = historiesLease / 2 // the second pause lets the server recover
	}
}

func (r *run) pause(d time.Duration) { <-time.After(d) }

// lasts is the time for which a fault may have effects.
const lasts = 2 * historiesLease

// during reports whether operation e was in progress while the fault may have had
// effects.
func (f *fault) during(e *event) bool { return e.ret >= f.at && e.call <= f.at+lasts }

// The method "stalls" writes to the log, for each kind of fault, the longest time that an
// operation at another server took during such a fault. This time may exceed the longest time
// that an operation took without a fault, but by at most the duration bound.
func (r *run) stalls(bound time.Duration) {
	peace := r.peace()
	worst := map[string]time.Duration{}
	times := map[string]int{}
	for _, f := range r.faults {
		times[f.kind]++
		for _, e := range r.events() {
			if e.server == f.server || !f.during(e) {
				continue
			}
			stall := e.ret - max(e.call, f.at)
			worst[f.kind] = max(worst[f.kind], stall)
			if stall > bound+peace {
				r.t.Errorf("%s at %v: an operation waited for %v\n%v", f.kind, f.at, stall, e)
			}
		}
	}
	for kind, d := range worst {
		r.t.Logf("%s, %d times: nobody at another server waited for more than %v", kind, times[kind], d.Round(time.Millisecond))
	}
	r.t.Logf("without a fault nobody waited for more than %v", peace.Round(time.Millisecond))
}

// peace returns the longest time that an operation took while no fault had effects.
func (r *run) peace() (longest time.Duration) {
	for _, e := range r.events() {
		if !slices.ContainsFunc(r.faults, func(f fault) bool { return f.during(e) }) {
			longest = max(longest, e.ret-e.call)
		}
	}
	return longest
}

// TestHistoriesFaults is like TestHistories, but servers are killed, and are suspended
// for longer than their lease and for longer than settleTime. The clocks of two servers are
// wrong by nearly as much as is allowed: one is ahead, and one is behind.
func TestHistoriesFaults(t *testing.T) {
	t.Parallel()
	arguments := [servers][]string{}
	for i, clock := range []time.Duration{skew, 0, -skew} {
		arguments[i] = []string{"--drift", drift.String(), "--test-in-flight", settleTime.String(), "--test-clock", clock.String()}
	}
	r := newRun(t, storeKinds[1].make(t), *historiesTime, arguments)
	r.run(func(n int) {
		server := n / 3 % servers
		switch n % 3 {
		case 0:
			r.kill(server)
		case 1:
			r.stop(server, historiesLease*3/2, "a server stood still for longer than its lease")
		case 2:
			r.stop(server, settleTime+historiesLease, "a server stood still for longer than the rollback horizon")
		}
	})
	r.stalls(historiesLease + 2*time.Second)
}

// TestHistoriesRegionServer is like TestHistories, but HBase's region servers are
// killed, one after the other.
func TestHistoriesRegionServer(t *testing.T) {
	c := hbasetest.StartCluster(t, 2)
	r := newRun(t, "hbase://"+c.Quorum()+"/"+hbasetest.Prefix(t), *historiesTime*2/3, [servers][]string{})
	r.run(func(n int) {
		r.pause(2 * time.Second)
		r.note("a region server was killed", -1)
		c.KillRegionServer(n % 2)
		r.pause(8 * time.Second) // until HBase has opened the regions elsewhere
		if err := c.StartRegionServer(n % 2); err != nil {
			t.Fatal(err)
		}
		r.pause(2 * time.Second)
	})
	r.stalls(time.Minute)
}
