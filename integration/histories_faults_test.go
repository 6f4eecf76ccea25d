package integration

import (
	"context"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/integration/isolation"
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

// TestHistoriesCluster is like TestHistories, on three region servers with small memstores, which are often full. Every few
// seconds a region server is killed or stands still for longer than HBase waits, a region is moved, split, or merged
// with its neighbour, or hbase:meta is moved. Once, ZooKeeper stands still for up to a minute. It is a part of long tests.
func TestHistoriesCluster(t *testing.T) {
	if *historiesTime < time.Minute {
		t.Skip("only with -histories 1m or more")
	}
	c := hbasetest.StartCluster(t, 3,
		[2]string{"hbase.hregion.memstore.flush.size", "1048576"}, [2]string{"hbase.hregion.memstore.block.multiplier", "2"})
	prefix := hbasetest.Prefix(t)
	r := newRun(t, "hbase://"+c.Quorum()+"/"+prefix, *historiesTime, [servers][]string{})
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	stand := func(pause func() (func() error, error), d time.Duration) {
		resume, err := pause()
		must(err)
		r.pause(d)
		must(resume())
	}
	done := map[string]int{}
	faults := []struct {
		kind string
		do   func(server int)
	}{
		{"a region server was killed", func(server int) {
			c.KillRegionServer(server)
			r.pause(8 * time.Second)
			must(c.StartRegionServer(server))
		}},
		{"a region server stood still", func(server int) {
			stand(func() (func() error, error) { return c.PauseRegionServer(server) }, 6*time.Second)
		}},
	}
	for kind, do := range map[string]func(context.Context) error{
		"a region was moved":   func(ctx context.Context) error { return c.MoveRegion(ctx, prefix) },
		"a region was split":   func(ctx context.Context) error { return c.SplitRegion(ctx, prefix) },
		"regions were merged":  func(ctx context.Context) error { return c.MergeRegions(ctx, prefix) },
		"hbase:meta was moved": c.MoveMeta,
	} {
		faults = append(faults, struct {
			kind string
			do   func(server int)
		}{kind, func(int) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := do(ctx); err != nil {
				t.Logf("not now: %s: %v", kind, err)
				return
			}
			done[kind]++
		}})
	}
	zookeeper := false
	r.run(func(n int) {
		r.pause(3 * time.Second)
		if !zookeeper && r.at() > r.length/2 {
			zookeeper = true
			r.note("ZooKeeper stood still", -1)
			stand(c.PauseZooKeeper, min(time.Minute, r.length/6))
			r.pause(10 * time.Second)
			return
		}
		f := faults[n%len(faults)]
		r.note(f.kind, -1)
		f.do(n / len(faults) % 3)
	})
	for _, f := range faults[2:] {
		if t.Logf("%s %d times", f.kind, done[f.kind]); done[f.kind] == 0 {
			t.Errorf("never: %s", f.kind)
		}
	}
	r.stalls(3 * time.Minute)
	r.gaps()
}

// The method "gaps" writes to the log the longest time in which no update was acknowledged, and the 99th percentile of
// the time that an acknowledged update took, and how often each result code came.
func (r *run) gaps() {
	var took, at []time.Duration
	codes := map[int]int{}
	for _, e := range r.events() {
		codes[e.code]++
		if e.outcome == isolation.OK && (len(e.appends) > 0 || len(e.adds) > 0 || e.step != nil && !isRead(e.step)) {
			took, at = append(took, e.ret-e.call), append(at, e.ret)
		}
	}
	slices.Sort(at)
	longest := time.Duration(0)
	for i := 1; i < len(at) && at[i] < r.length; i++ {
		longest = max(longest, at[i]-at[i-1])
	}
	r.t.Logf("operations by result code, -1 without an answer: %v", codes)
	r.t.Logf("%d updates, 99 of 100 in %v; the longest time without one was %v", len(took), percentile99(took).Round(time.Millisecond), longest.Round(time.Millisecond))
}
