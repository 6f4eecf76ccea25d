package txn

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

var (
	seeds = flag.Int("seeds", some, "histories of many servers to simulate")
	first = flag.Int("seed", 0, "the first of them")
)

// A simWorld is one simulated history. It has several servers, each with several lives in
// sequence, that share a store behind a net.
type simWorld struct {
	net  *net
	txs  []*simTx
	skew time.Duration // largest offset of a server's clock
	// think is the longest pause. There is a pause before each life and, on the first two
	// servers, before each transaction.
	think time.Duration
	// branches is set if clients also work in branches. If calm is set, nothing fails, so
	// the low-water mark passes commits in branches. merged has the revisions of the
	// acknowledged merges, by branch.
	branches bool
	calm     bool
	merged   map[string]table.Revision
}

// A history is the result of simulating a seed.
type history struct {
	hash  uint64
	calls int
	err   error
	trace string
}

// simulate runs the history that a seed determines.
func simulate(t *testing.T, seed uint64, faults *coverage, traced bool) (h history) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet(seed, Options{Lease: time.Second, Poll: 50 * time.Millisecond, InFlight: 3 * time.Second, Drift: 10 * time.Second, stripes: 16,
			SecretAge: 100 * time.Millisecond, Secrets: map[string][]table.Family{"data": {secretFamily}}}, faults)
		if traced {
			n.trace = &strings.Builder{}
		}
		w := &simWorld{net: n, branches: seed%2 == 1, calm: seed%4 == 1, merged: map[string]table.Revision{}}
		err := w.play()
		n.stop()
		h = history{hash: n.hash, calls: n.calls, err: err}
		if traced {
			h.trace = n.trace.String()
		}
	})
	return h
}

func (w *simWorld) play() error {
	ctx := context.Background()
	n := w.net
	if err := n.mem.Create(ctx, append(journal.Specs(), dataSpec, otherSpec)...); err != nil {
		return err
	}
	n.rate = 0.08 * n.rnd.Float64()
	w.skew = []time.Duration{time.Millisecond, 100 * time.Millisecond, 2 * time.Second, 6 * time.Second}[n.rnd.IntN(4)]
	n.unsettled = n.rnd.IntN(4) == 0
	servers := 2 + min(n.rnd.IntN(4), n.rnd.IntN(4))
	switch n.rnd.IntN(6) {
	case 0:
		w.think = n.o.Lease + n.o.InFlight // long enough that slots are swept and claimed again
		n.slowly = true
		servers = max(servers, 3)
		n.past = n.rnd.IntN(2) == 0
	case 1:
		n.past = true
	case 2, 3:
		n.crashes = true
	}
	if w.calm {
		n.rate, n.crashes, w.think = 0, false, 0
	}
	n.ended.Go(n.run)
	for ; n.calls < minBefore && n.oracle.broken == ""; servers = 2 {
		w.round(servers)
	}
	if err := n.broken(); err != nil {
		return err
	}
	return w.finish(ctx)
}

// minCalls is the minimum number of calls in a history, and minBefore is the minimum
// number before finish.
const minCalls, minBefore = 200, 120

// round runs lives of several servers. The servers run in parallel, and each runs its
// lives one after the other.
func (w *simWorld) round(servers int) {
	n := w.net
	var g sync.WaitGroup
	for s := range servers {
		var lives []*simLife
		for l := range w.lives(s) {
			lives = append(lives, w.life(fmt.Sprintf("%c%d", 'a'+s, l), s < 2))
		}
		g.Go(func() {
			for _, l := range lives {
				if l.run(); n.oracle.broken != "" {
					return
				}
			}
		})
	}
	g.Wait()
}

// lives returns the number of lives of a server in a round.
func (w *simWorld) lives(server int) int {
	if n := 1 + w.net.rnd.IntN(2); w.think == 0 || server < 2 {
		return n
	}
	return 3
}

func (n *net) broken() error {
	if n.oracle.broken != "" {
		return errors.New(n.oracle.broken)
	}
	return nil
}

// A simLife is one life of a server, from start to end, with its clients.
type simLife struct {
	w       *simWorld
	node    *node
	seed    uint64
	clients [][]*simTx
	staged  []*simTx // transactions in branches
	close   bool
	think   time.Duration // pause before the life starts
	stays   bool          // its clients also pause before each transaction
	newest  atomic.Int64
}

// The method "each" returns the number of transactions of a client: n, or more if the history is
// calm.
func (w *simWorld) each(n int) int {
	if w.calm {
		return 3 * n
	}
	return n
}

func (w *simWorld) life(name string, stays bool) *simLife {
	rnd := w.net.rnd
	l := &simLife{w: w, seed: rnd.Uint64(), close: rnd.IntN(4) == 0 || w.net.past && rnd.IntN(4) > 0}
	l.node = &node{net: w.net, name: name, faulty: true}
	w.net.nodes = append(w.net.nodes, l.node)
	l.node.skew = time.Duration(rnd.Int64N(int64(2*w.skew))) - w.skew
	if l.stays = stays; w.think > 0 {
		l.think = time.Duration(rnd.Int64N(int64(w.think)))
	}
	clients := 1 + rnd.IntN(2)
	if w.net.crashes {
		clients++
	}
	for range clients {
		var txs []*simTx
		for range w.each(1 + rnd.IntN(3)) {
			tx := &simTx{n: len(w.txs), op: simOp{opKind(rnd.IntN(int(opCount))), rnd.IntN(2)}}
			if rnd.IntN(40) == 0 {
				tx.jump = []time.Duration{-time.Hour, time.Hour, -time.Second, 3 * time.Second}[rnd.IntN(4)]
			}
			w.txs = append(w.txs, tx)
			txs = append(txs, tx)
		}
		l.clients = append(l.clients, txs)
	}
	if w.branches {
		for range w.each(2 + rnd.IntN(4)) {
			tx := &simTx{n: len(w.txs), op: simOp{opKind(rnd.IntN(int(opCount))), rnd.IntN(2)}}
			w.txs, l.staged = append(w.txs, tx), append(l.staged, tx)
		}
	}
	return l
}

// options returns the options of a server in the simulation.
func (d *node) options(seed uint64) Options {
	o := d.net.o
	if o.Owner = d.name; !d.faulty {
		o.Lease *= 3 // this server only waits, so its lease can be renewed less often
	}
	o.Now = func() time.Time { return virtualTime().Add(d.skew) }
	random := newSplitmix(seed)
	o.random = random.next
	return o
}

// virtualTime returns the time of the store's clock. It adds 26 years because the
// simulation's clock begins in 2000, before the first possible revision.
func virtualTime() time.Time { return time.Now().AddDate(26, 0, 0) }

// splitmix is a small source of random numbers. Several goroutines may use it.
type splitmix struct{ x atomic.Uint64 }

func newSplitmix(seed uint64) *splitmix {
	s := &splitmix{}
	s.x.Store(seed)
	return s
}

func (s *splitmix) next() uint64 {
	z := s.x.Add(0x9e3779b97f4a7c15)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (l *simLife) run() {
	time.Sleep(l.think)
	db := openSim(l.node, l.seed)
	if db == nil {
		return
	}
	var g sync.WaitGroup
	for i, txs := range l.clients {
		g.Go(func() {
			for _, tx := range txs {
				if l.stays {
					time.Sleep(l.think)
				}
				l.transact(context.WithValue(context.Background(), clientKey{}, i+1), db, tx)
			}
		})
	}
	if l.w.net.past {
		g.Go(func() {
			h := &historian{l, context.WithValue(context.Background(), clientKey{}, 9), db}
			h.run(newSplitmix(l.seed + 1))
		})
	}
	if l.w.branches {
		g.Go(func() {
			b := &simBrancher{l, context.WithValue(context.Background(), clientKey{}, 8), db}
			b.run(newSplitmix(l.seed + 2))
		})
	}
	g.Wait()
	l.node.yield(context.Background(), "end")
	if l.close && !l.node.crashed {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		db.Close(ctx)
		cancel()
	}
	kill(db)
}

// openSim opens the store up to 100 times, until this server can write or crashes.
func openSim(d *node, seed uint64) *DB {
	ctx := context.Background()
	for try := uint64(0); !d.crashed && try < 100; try++ {
		db, err := Open(ctx, d.store(), d.options(seed+try))
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		for range 200 {
			if db.Refusal() == nil {
				return db
			}
			if d.crashed {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		kill(db)
	}
	return nil
}

// transact runs a client's transaction and records the answer.
func (l *simLife) transact(ctx context.Context, db *DB, tx *simTx) {
	n, o := tx.n, l.w.net.oracle
	if l.node.yield(ctx, fmt.Sprintf("%d: %v", n, tx.op)) != nil {
		tx.failed = table.ErrClosed
		return
	}
	l.node.skew += tx.jump
	data, other := db.Table("data"), db.Table("other")
	r, err := db.Update(ctx, func(t *Tx) error {
		v := t.snapshot.heads
		l.node.uses(t.snapshot)
		at := o.begins(v, int(l.newest.Load()))
		l.newest.Store(max(l.newest.Load(), int64(at)))
		read, err := tx.op.do(ctx, t, n, data, other)
		if read != nil {
			o.answers(at, t.snapshot.max, read)
		}
		if err != nil {
			return err
		}
		t.AtCommit(func(r table.Revision) {
			tx.tries = append(tx.tries, r)
			o.issued(r, &try{n: n, op: tx.op, snapshot: v, low: t.snapshot.low, marks: t.markRows})
		})
		return nil
	})
	switch {
	case err == nil:
		tx.acked = r
	case errors.Is(err, ErrUnknown):
		tx.unknown = true
	}
	tx.failed = err
}

// finish opens the store once more, without faults, and checks the content. When all
// slots of dead servers are free, every cell must belong to a commit.
func (w *simWorld) finish(ctx context.Context) error {
	d := &node{net: w.net, name: "z"}
	w.net.regions = map[string]time.Duration{}
	db := openSim(d, 1)
	if db == nil {
		return errors.New("nobody could write")
	}
	defer kill(db)
	if err := w.verdict(ctx); err != nil {
		return err
	}
	end := time.Now().Add(20 * time.Second)
	for !allFree(db) || w.net.calls < minCalls {
		if time.Now().After(end) {
			return errors.New("slots were not freed for 20 s")
		}
		for _, b := range db.Branches() {
			_ = b.Discard(ctx) // if a merge is under way, a background task ends it, and the branch is discarded later
		}
		time.Sleep(100 * time.Millisecond)
	}
	for _, r := range w.net.mem.Revisions() {
		if w.net.unsettled {
			break // late cells may exist but must not be visible
		}
		if c := w.net.oracle.commits[r]; c.state != journal.Committed || !w.net.oracle.heads.Visible(r) {
			return fmt.Errorf("cells of %s, whose state is %q", r, string(c.state))
		}
	}
	if w.net.past {
		w.lookBack(ctx, db, d)
	}
	if err := w.verdict(ctx); err != nil {
		return fmt.Errorf("at the end: %w", err)
	}
	return w.net.broken()
}

// allFree reports whether every slot is free, except the slot of this server.
func allFree(db *DB) bool {
	v := db.current.Load().heads
	w := db.commits.(*cluster).writer.Load()
	for _, s := range v.Slots() {
		if (w == nil || s != w.slot) && v.Cell(s).State != revision.Free {
			return false
		}
	}
	return true
}

// The constant some is the number of histories that `go test` and `make test` run; `make
// test-long` runs 100,000. If the number of histories is at least the constant enough, every
// fault must happen at every step.
const some, enough = 1200, 20000

// TestSimulation runs histories of many servers over failing stores. An oracle checks each
// history (see oracle).
func TestSimulation(t *testing.T) {
	var total coverage
	var mu sync.Mutex
	var next, calls atomic.Int64
	next.Store(int64(*first))
	end := int64(*first + *seeds)
	begun := time.Now()
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // a history needs only a few megabytes
	t.Run("seeds", func(t *testing.T) {
		for i := range runtime.GOMAXPROCS(0) {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				var faults coverage
				for !t.Failed() {
					seed := next.Add(1) - 1
					if seed >= end {
						break
					}
					h := simulate(t, uint64(seed), &faults, false)
					calls.Add(int64(h.calls))
					if h.err != nil {
						again := simulate(t, uint64(seed), &faults, true)
						t.Errorf("%s\nseed %d: %v (again: %v)", again.trace, seed, h.err, again.err)
					}
				}
				mu.Lock()
				total.add(&faults)
				mu.Unlock()
			})
		}
	})
	t.Logf("%d histories, %d calls of the store, %v", *seeds, calls.Load(), time.Since(begun).Round(time.Millisecond))
	t.Logf("faults at steps:\n%v", &total)
	if never := total.empty(); *seeds >= enough && len(never) > 0 {
		t.Errorf("in %d histories there was no %s", *seeds, strings.Join(never, ", "))
	}
}

// TestReplay checks that the same seed produces the same history. For a few seeds, two
// goroutines act at the same instant in about one of a hundred runs, and their order is then
// random. So if two runs of a seed differ, TestReplay runs the seed ten more times. Of the
// twelve runs, at least eleven must be equal.
func TestReplay(t *testing.T) {
	for seed := range uint64(60) {
		var faults coverage
		a, b := simulate(t, seed, &faults, true), simulate(t, seed, &faults, true)
		if a.hash == b.hash {
			continue
		}
		const runs = 12
		histories := map[uint64]int{a.hash: 1, b.hash: 1}
		for range runs - 2 {
			histories[simulate(t, seed, &faults, true).hash]++
		}
		if most := slices.Max(slices.Collect(maps.Values(histories))); most < runs-1 {
			t.Errorf("seed %d: %d of %d runs are equal\n%s", seed, most, runs, firstDifference(a.trace, b.trace))
			return
		}
	}
}

// firstDifference returns the lines around the first difference of two traces.
func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range x {
		if i >= len(y) || x[i] != y[i] {
			from := max(0, i-30)
			return fmt.Sprintf("%s\n< %s\n> %s", strings.Join(x[from:i], "\n"), strings.Join(x[i:min(i+4, len(x))], "\n< "), strings.Join(y[i:min(i+4, len(y))], "\n> "))
		}
	}
	return "none"
}
