package txn

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// A net connects simulated servers to their store. Every call to the store waits in the
// net until the net executes it. One seed decides everything: when each call is executed,
// in which order, whether and how a call fails, and which process crashes or pauses. Time
// is virtual (testing/synctest). The net takes a step only when no goroutine can run, so all
// code that runs between two steps is caused by one answer. So a seed determines the history,
// with rare exceptions (see TestReplay).
type net struct {
	rnd    *rand.Rand
	o      Options // its durations bound the times of events
	mem    *tabletest.Mem
	oracle *oracle
	faults *coverage
	rate   float64 // fraction of calls that have a fault
	// If unsettled is set, the net may execute the calls of an ended process even after
	// the time within which calls must have settled. The effects of such late calls must
	// not be visible.
	unsettled bool
	slowly    bool // recovery is slow: more faults at its scans, and longer pauses
	past      bool // history is read and garbage is collected
	crashes   bool // processes often end in the middle of commits
	slow      time.Duration

	start   time.Time
	events  []event // ordered by time
	seq     int
	written map[string]int64 // write times of cluster cells, in milliseconds since 1970
	// applied has the mutations of rows that were executed, and collected the largest horizon at which a row was collected
	// (see simTable.unmasked).
	applied   map[string]bool
	collected map[string]table.Revision
	// regions contains the tables that do not answer, with the time when each table
	// answers again.
	regions map[string]time.Duration
	nodes   []*node
	calls   int
	hash    uint64
	trace   *strings.Builder // nil if there is no trace
	ended   sync.WaitGroup

	mu      sync.Mutex
	arrived []*call
	closed  bool
	bell    chan struct{}
}

// An event happens at the store or on the way to the store.
type event struct {
	at  time.Duration
	seq int
	do  func()
}

// A node is the net's view of one life of a server process.
type node struct {
	net     *net
	name    string
	faulty  bool
	crashed bool
	paused  time.Duration // the time until which the process is paused
	skew    time.Duration // offset of the process's clock
	flying  []*call
	usingMu sync.Mutex
	using   []*Snapshot
}

// A call is a call to the store that has not been answered yet.
type call struct {
	node   *node
	client int
	step   step
	table  string
	key    string // distinguishes calls of the same step
	n      int    // number of rows that can be executed separately
	effect func(part int) (result string)
	sent   time.Duration
	drop   bool          // the call is never executed
	lands  time.Duration // earliest time of execution, for calls of a process that has ended

	answer chan struct{}
	over   bool // the caller has its answer or no longer waits
	fate   fault
	err    error
}

func newNet(seed uint64, o Options, faults *coverage) *net {
	n := &net{
		rnd: rand.New(rand.NewPCG(seed, 7)), o: o, mem: tabletest.NewMem(), faults: faults,
		start: time.Now(), regions: map[string]time.Duration{}, written: map[string]int64{}, applied: map[string]bool{}, collected: map[string]table.Revision{}, bell: make(chan struct{}, 1),
	}
	n.slow = time.Duration(200+n.rnd.IntN(3000)) * time.Microsecond
	n.oracle = newOracle(n)
	return n
}

func (n *net) now() time.Duration { return time.Since(n.start) }

// run executes events until stop is called. It runs in the net's own goroutine.
func (n *net) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		synctest.Wait()
		if !n.accept() {
			return
		}
		wait := time.Hour
		if len(n.events) > 0 {
			if wait = n.events[0].at - n.now(); wait <= 0 {
				e := n.events[0]
				n.events = n.events[1:]
				e.do()
				continue
			}
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-n.bell:
		}
	}
}

// stop ends run.
func (n *net) stop() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.ring()
	n.ended.Wait()
}

func (n *net) ring() {
	select {
	case n.bell <- struct{}{}:
	default:
	}
}

// The method "at" schedules a function call after the given delay.
func (n *net) at(after time.Duration, do func()) {
	n.seq++
	e := event{n.now() + after, n.seq, do}
	i, _ := slices.BinarySearchFunc(n.events, e, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.at, b.at), a.seq-b.seq)
	})
	n.events = slices.Insert(n.events, i, e)
}

// send passes a call to the net and waits for the answer on behalf of the caller.
func (n *net) send(ctx context.Context, c *call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.client, _ = ctx.Value(clientKey{}).(int)
	c.answer = make(chan struct{})
	n.mu.Lock()
	n.arrived = append(n.arrived, c)
	n.mu.Unlock()
	n.ring()
	select {
	case <-c.answer:
		return c.err
	case <-ctx.Done(): // the net may execute the call nevertheless
	}
	n.mu.Lock()
	c.over = true
	paused := c.node.paused > n.now()
	n.mu.Unlock()
	if paused { // a paused process sees the deadline only when it continues
		c.node.yield(context.WithValue(context.Background(), clientKey{}, c.client), "wake from "+c.key)
	}
	return context.Cause(ctx)
}

// yield waits until the net lets the caller go on. It is for actions that are not calls to
// the store.
func (d *node) yield(ctx context.Context, what string) error {
	return d.net.send(ctx, &call{node: d, step: clientStep, key: what, effect: func(int) string { return "" }})
}

type clientKey struct{}

// accept routes the calls that arrived since the last step, in an order that does not
// depend on the scheduling of goroutines. It reports whether the net is still open.
func (n *net) accept() bool {
	n.mu.Lock()
	calls, closed := n.arrived, n.closed
	n.arrived = nil
	n.mu.Unlock()
	if len(calls) > 1 {
		slices.SortFunc(calls, func(a, b *call) int {
			return cmp.Or(cmp.Compare(a.node.name, b.node.name), a.client-b.client, int(a.step)-int(b.step),
				cmp.Compare(a.table, b.table), cmp.Compare(a.key, b.key))
		})
	}
	for _, c := range calls {
		n.route(c)
	}
	return !closed
}

// route decides what happens to a call.
func (n *net) route(c *call) {
	d := c.node
	n.calls++
	if d.crashed {
		n.end(c)
		return
	}
	c.sent = n.now()
	after := 1 + time.Duration(n.rnd.Int64N(int64(n.slow)))
	if n.rnd.IntN(32) == 0 || n.crashes && c.step == writeCells && n.rnd.IntN(4) == 0 {
		after *= 16
	}
	if until := d.paused - n.now(); until > 0 {
		// The call will be sent when the process continues, unless the deadline of the
		// call has passed by then.
		after += until
		c.drop = until > 2*n.o.Lease
	}
	d.flying = append(d.flying, c)
	c.fate = n.fate(c)
	n.note(c, "sent", "")
	fates[c.fate](n, c, after)
}

// fate draws the fault of a call, or noFault.
func (n *net) fate(c *call) fault {
	if !c.node.faulty || n.regions[c.table] > n.now() {
		if n.regions[c.table] > n.now() && c.step != clientStep {
			return outage
		}
		return noFault
	}
	if n.crashes && (c.step == writeCells || c.step == readMarks || c.step == committing || c.step == publishingHead) && n.rnd.IntN(16) == 0 {
		n.faults.count(crash, c.step)
		return crash
	}
	rate := n.rate * weights[c.step]
	if n.slowly && c.step == scanLists {
		rate *= 4
	}
	if n.rnd.Float64() >= rate {
		return noFault
	}
	possible := faultsOf[c.step]
	f := possible[n.rnd.IntN(len(possible))]
	switch f {
	case crash, outage, pauseBefore, pauseAfter: // these faults take much virtual time
		if rare := weights[c.step] > 4; !rare && n.rnd.IntN(4) != 0 && !(n.slowly && (c.step == scanLists || c.step == closing)) {
			return noFault
		}
	}
	n.faults.count(f, c.step)
	return f
}

// do executes a call, or one part of it.
func (n *net) do(c *call, part int) {
	if c.drop {
		n.note(c, "dropped", "")
		return
	}
	if later := c.lands - n.now(); later > 0 {
		n.at(later, func() { n.do(c, part) })
		return
	}
	n.note(c, "done", c.effect(part))
}

// reply answers a call if the caller still waits. A paused process receives the answer
// when it continues.
func (n *net) reply(c *call, err error) {
	if until := c.node.paused - n.now(); until > 0 && !c.node.crashed {
		n.at(until, func() { n.reply(c, err) })
		return
	}
	n.mu.Lock()
	over := c.over
	c.over = true
	n.mu.Unlock()
	if over {
		return
	}
	if i := slices.Index(c.node.flying, c); i >= 0 {
		c.node.flying = slices.Delete(c.node.flying, i, i+1)
	}
	n.note(c, "answered", "")
	if c.err = err; c.drop && err == nil {
		c.err = failure(c)
	}
	close(c.answer)
}

// crash ends a process. The net drops some of the calls that the process has sent, and executes
// the others. All of them are answered with an error.
func (n *net) crash(d *node) {
	d.crashed = true
	for _, c := range slices.Clone(d.flying) {
		switch n.rnd.IntN(3) {
		case 0:
			c.drop = true
		case 1:
			if c.lands = n.now() + n.lateness(c, 0); n.unsettled {
				c.lands = n.now() + time.Duration(n.rnd.Int64N(int64(4*n.o.InFlight)))
			}
		}
		n.end(c)
	}
}

// end answers a call of a process that has ended. The calls of such a process are
// answered one after the other.
func (n *net) end(c *call) {
	n.at(1, func() { n.reply(c, fmt.Errorf("%w: the process has ended", table.ErrClosed)) })
}

// note adds an event to the hash of the history and a line to the trace.
func (n *net) note(c *call, what, result string) {
	n.mix(uint64(n.now()))
	n.mix(uint64(c.client)<<32 | uint64(c.step)<<16 | uint64(c.fate))
	for _, s := range [...]string{c.node.name, c.table, c.key, what, result} {
		for i := range len(s) {
			n.mix(uint64(s[i]))
		}
	}
	if n.trace != nil {
		fmt.Fprintf(n.trace, "%12v %s/%d %-9s %-14v %s %q", n.now(), c.node.name, c.client, what, c.step, c.table, c.key)
		if c.fate != noFault {
			fmt.Fprintf(n.trace, " (%v)", c.fate)
		}
		fmt.Fprintf(n.trace, " %s\n", result)
	}
}

// mix adds a number to the hash of the history.
func (n *net) mix(x uint64) { n.hash = (n.hash ^ x) * 1099511628211 }

// A fault is something that can happen to a call.
type fault int

const (
	noFault fault = iota
	notApplied
	applied  // executed, but answered with an error
	late     // executed after the call was answered with an error
	twice    // sent twice; the second copy is executed later
	retried  // sent twice at once; the answer is that of the second copy
	partial  // executed for some rows, and answered with an error
	lostPage // a scan ends with an error after some rows
	slow     // executed long after the call was sent
	outage   // a table's region does not answer for a while
	crash    // the process ends, in half of the cases after the call was executed
	pauseBefore
	pauseAfter
	faultCount
)

var faultNames = [...]string{"none", "not applied", "applied", "late", "twice", "retried", "partial", "lost page", "slow", "outage", "crash", "pause before", "pause after"}

func (f fault) String() string { return faultNames[f] }

func failure(c *call) error {
	return fmt.Errorf("%w: injected failure of %v", table.ErrUnavailable, c.step)
}

// fates contains, for each fault, the function that executes a call with this fault. The
// argument named after is the delay until the call would reach the store without the
// fault.
var fates [faultCount]func(n *net, c *call, after time.Duration)

func init() {
	done := func(n *net, c *call, err error) { n.do(c, c.n); n.reply(c, err) }
	half := func(n *net, c *call, after time.Duration) {
		part := n.rnd.IntN(c.n + 1)
		n.at(after, func() { n.do(c, part); n.reply(c, failure(c)) })
	}
	fates = [faultCount]func(n *net, c *call, after time.Duration){
		noFault:    func(n *net, c *call, after time.Duration) { n.at(after, func() { done(n, c, nil) }) },
		notApplied: func(n *net, c *call, after time.Duration) { n.at(after, func() { n.reply(c, failure(c)) }) },
		applied:    func(n *net, c *call, after time.Duration) { n.at(after, func() { done(n, c, failure(c)) }) },
		late: func(n *net, c *call, after time.Duration) {
			n.at(after, func() { n.reply(c, failure(c)) })
			n.at(after+n.lateness(c, after), func() { n.do(c, c.n) })
		},
		twice: func(n *net, c *call, after time.Duration) {
			n.at(after, func() { done(n, c, nil) })
			n.at(after+n.lateness(c, after), func() { n.do(c, c.n) })
		},
		retried: func(n *net, c *call, after time.Duration) {
			n.at(after, func() { n.do(c, c.n); done(n, c, nil) })
		},
		partial:  half,
		lostPage: half,
		slow: func(n *net, c *call, after time.Duration) {
			n.at(after+n.lateness(c, after), func() { done(n, c, nil) })
		},
		outage: func(n *net, c *call, after time.Duration) {
			if n.regions[c.table] <= n.now() {
				n.regions[c.table] = n.now() + time.Duration(n.rnd.Int64N(int64(n.o.Lease)))
			}
			n.at(after, func() { n.reply(c, failure(c)) })
		},
		crash: func(n *net, c *call, after time.Duration) {
			n.at(after, func() {
				if n.rnd.IntN(2) == 0 {
					n.do(c, c.n)
				}
				n.crash(c.node)
			})
		},
		pauseBefore: func(n *net, c *call, after time.Duration) {
			n.pause(c.node)
			c.drop = c.node.paused-n.now() > 2*n.o.Lease
			n.at(c.node.paused-n.now()+after, func() { done(n, c, nil) })
		},
		pauseAfter: func(n *net, c *call, after time.Duration) {
			n.pause(c.node)
			n.at(after, func() { done(n, c, nil) })
		},
	}
}

// lateness returns a random delay to add to the given delay. The sum is short enough
// that the call is executed within InFlight, the time in which calls must settle.
func (n *net) lateness(c *call, after time.Duration) time.Duration {
	left := c.sent + n.o.InFlight - (n.now() + after)
	return time.Duration(n.rnd.Int64N(int64(max(left, 1))))
}

// pause stops a process for up to two leases. In some cases the pause can be longer than any
// call can be in flight.
func (n *net) pause(d *node) {
	longest := 2 * n.o.Lease
	switch {
	case n.slowly:
		longest = 4 * n.o.InFlight
	case n.rnd.IntN(4) == 0:
		longest = 2 * n.o.InFlight
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	d.paused = max(d.paused, n.now()+time.Duration(n.rnd.Int64N(int64(longest))))
}
