package partition_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/load"
	"github.com/seed-4dac0d86/ldapd/partition/materialized"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

var (
	viewPeople = flag.Int("viewpeople", 1000, "entries of TestViewFigures")
	viewLoad   = flag.Duration("viewload", 300*time.Millisecond, "how long TestViewFigures makes commits")
	viewRounds = flag.Int("viewrounds", 1, "how often TestViewFigures makes commits with views and without a manager, by turns")
	viewRate   = flag.Int("viewrate", 2000, "commits a second in TestViewFigures")
)

// cpu returns the CPU time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// figures is a directory whose views are measured.
type figures struct {
	t *testing.T
	p *partition.Partition

	thread  string           // of the manager, below /proc
	moments []table.Revision // states that were the newest during the last call of commit
}

// TestViewFigures prints what views cost. It checks that the views are kept and that the
// counts are right, but not how long this takes, because other processes share the machine.
func TestViewFigures(t *testing.T) {
	ctx := context.Background()
	s, err := lsm.Open(lsm.Options{Path: t.TempDir()})
	must(t, err)
	defer s.Close()
	p, err := partition.Open(ctx, s, partition.Options{Format: *storeFormat, Create: true})
	must(t, err)
	defer p.Close(ctx)
	f := &figures{t: t, p: p}
	must(t, onlineschema.SetSuffixes(ctx, p, []string{"dc=example,dc=com", "cn=views"}))
	f.loadPeople()
	f.commit("without views")
	stop := f.keep()
	defer func() { stop() }()
	people, err := f.find("ou=people,dc=example,dc=com")
	must(t, err)
	f.count(people) // from now on the number is kept
	f.add("cn=views", "objectClass: viewContainer")
	begin := time.Now()
	f.add("cn=phonebook,cn=views", "objectClass: listView", "viewBase: ou=people,dc=example,dc=com", "viewFilter: (objectClass=person)", "viewOrder: sn givenName", "viewShow: cn telephoneNumber")
	built := make(chan time.Duration, 1)
	go func() {
		f.await(f.built)
		built <- time.Since(begin)
	}()
	during := f.commit("while a list is built and counts begin")
	t.Logf("a list of %d entries and the counts were built after %v beside commits", *viewPeople, (<-built).Round(100*time.Millisecond))
	f.awaitKept()
	for i, group := range []string{"departmentNumber", "l", "title"} {
		f.add(fmt.Sprintf("cn=totals%d,cn=views", i), "objectClass: totalsView", "viewBase: dc=example,dc=com", "viewGroup: "+group, "viewTotal: count")
	}
	f.awaitKept()
	f.count(people)
	// The commits with views are compared with commits without a manager that are made by turns
	// with them. The commits before the first view were cheaper, because the store was new and
	// the caches were empty.
	var kept, alone costs
	var managing time.Duration
	for range *viewRounds {
		before := f.managerCPU()
		kept.add(f.commit("with five views"))
		managing += f.managerCPU() - before
		f.awaitKept()
		f.readPast()
		stop()
		alone.add(f.commit("without a manager"))
		stop = f.keep()
		f.awaitKept()
	}
	f.count(people)
	t.Logf("p99 of commits is %v with views and %v without, %.2f times as long, and %.2f times while building; managers make it use %v more CPU, %v of it in their own thread",
		kept.percent(99), alone.percent(99), float64(kept.percent(99))/float64(alone.percent(99)),
		float64(during.percent(99))/float64(alone.percent(99)), kept.each()-alone.each(), (managing / time.Duration(len(kept.times))).Round(time.Microsecond))
}

// keep keeps the views until the caller calls stop. The manager has a thread of its own, so that
// its CPU time can be read.
func (f *figures) keep() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var keeping sync.WaitGroup
	thread := make(chan string)
	keeping.Go(func() {
		runtime.LockOSThread()
		name, _ := os.Readlink("/proc/thread-self") // elsewhere than on Linux there is none
		thread <- name
		materialized.Keep(ctx, f.p, func(err error) { f.t.Error(err) })
	})
	f.thread = <-thread
	return func() { cancel(); keeping.Wait() }
}

// managerCPU returns the CPU time that the manager's thread has used. It does not include
// garbage collection. Only Linux has it.
func (f *figures) managerCPU() (used time.Duration) {
	b, err := os.ReadFile("/proc/" + f.thread + "/schedstat")
	if err == nil {
		fmt.Sscan(string(b), &used)
	}
	return used
}

func (f *figures) add(text string, lines ...string) {
	f.t.Helper()
	must(f.t, update(f.t, f.p, func(tx *partition.Tx) error {
		_, err := tx.Add(context.Background(), name(text), attrs(lines...), false)
		return err
	}))
}

func (f *figures) find(text string) (entry.ID, error) {
	s := state.Newest(f.p)
	defer s.Close()
	at, err := s.Find(context.Background(), name(text))
	return at.ID, err
}

func (f *figures) loadPeople() {
	ctx := context.Background()
	begin := time.Now()
	l, err := load.Load(ctx, f.p, load.Options{Folder: f.t.TempDir()})
	must(f.t, err)
	add := func(text string, as []op.PartialAttribute) {
		must(f.t, l.Add(ctx, name(text), as))
	}
	add("dc=example,dc=com", attrs("objectClass: organization", "objectClass: dcObject", "o: Example"))
	add("ou=people,dc=example,dc=com", attrs("objectClass: organizationalUnit"))
	for i := range *viewPeople {
		add(benchDN(i), benchPerson(i))
	}
	_, err = l.Commit(ctx)
	must(f.t, err)
	f.t.Logf("%d people loaded in %v", *viewPeople, time.Since(begin).Round(100*time.Millisecond))
}

// costs are the processor time and the durations of commits.
type costs struct {
	cpu   time.Duration
	times []time.Duration
}

func (c *costs) add(o costs) { c.cpu, c.times = c.cpu+o.cpu, append(c.times, o.times...) }

func (c *costs) percent(n int) time.Duration {
	return quantile(c.times, n).Round(10 * time.Microsecond)
}

// each returns the processor time of a commit.
func (c *costs) each() time.Duration {
	return (c.cpu / time.Duration(max(1, len(c.times)))).Round(time.Microsecond)
}

// commit modifies people at a fixed rate. It prints the times of the commits, and the lag
// of the views during the commits.
func (f *figures) commit(when string) costs {
	const committers = 32
	var mu sync.Mutex
	var times []time.Duration
	var lags []time.Duration
	var done atomic.Bool
	var all sync.WaitGroup
	f.moments = nil
	spent := cpu()
	begin := time.Now()
	for range committers {
		all.Go(func() {
			r := rand.New(rand.NewPCG(rand.Uint64(), 1))
			every := time.Second * committers / time.Duration(*viewRate)
			for next := time.Now(); !done.Load(); next = next.Add(every) {
				time.Sleep(time.Until(next))
				from := time.Now()
				must(f.t, update(f.t, f.p, func(tx *partition.Tx) error {
					m := op.Modification{Kind: op.ModReplace, PartialAttribute: attrs(fmt.Sprintf("departmentNumber: D%03d", r.IntN(100)))[0]}
					return tx.Modify(context.Background(), name(benchDN(r.IntN(*viewPeople))), []op.Modification{m})
				}))
				mu.Lock()
				times = append(times, time.Since(from))
				mu.Unlock()
			}
		})
	}
	for time.Since(begin) < *viewLoad {
		time.Sleep(10 * time.Millisecond)
		lags = append(lags, materialized.ProgressOf(f.p).Age)
		s := state.Newest(f.p)
		f.moments = append(f.moments, s.Revision())
		s.Close()
	}
	done.Store(true)
	all.Wait()
	c := costs{cpu() - spent, times}
	f.t.Logf("%s: %.0f commits/s, %v of CPU each, p50 %v, p99 %v; lag p50 %v, p99 %v", when, float64(len(times))/time.Since(begin).Seconds(),
		c.each(), c.percent(50), c.percent(99), quantile(lags, 50).Round(time.Millisecond), quantile(lags, 99).Round(time.Millisecond))
	return c
}

// readPast reads the totals of departments at moments of the last call of commit.
func (f *figures) readPast() {
	ctx := context.Background()
	var times []time.Duration
	for range 500 {
		begin := time.Now()
		s, err := state.At(ctx, f.p, f.moments[rand.IntN(len(f.moments))])
		must(f.t, err)
		d, err := materialized.Find(ctx, s, name("cn=totals0,cn=views"))
		must(f.t, err)
		records, err := materialized.Read(ctx, s, d, materialized.ReadOptions{})
		must(f.t, err)
		times = append(times, time.Since(begin))
		sum := int64(0)
		for _, r := range records {
			sum += r.Count
		}
		if sum != int64(*viewPeople) {
			f.t.Fatalf("at %d the departments have %d people, want %d", s.Revision(), sum, *viewPeople)
		}
		s.Close()
	}
	f.t.Logf("totals of %d moments of the past read: p50 %v, p99 %v", len(times), quantile(times, 50), quantile(times, 99))
}

func quantile(all []time.Duration, percent int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.SortFunc(all, cmp.Compare[time.Duration])
	return all[min(len(all)-1, len(all)*percent/100)]
}

// awaitKept waits until all views are kept and show all commits.
func (f *figures) awaitKept() {
	f.t.Helper()
	s := state.Newest(f.p)
	newest := s.Revision()
	s.Close()
	f.await(func() bool { return f.keptUpTo() >= newest })
}

func (f *figures) await(done func() bool) {
	f.t.Helper()
	for begin := time.Now(); time.Since(begin) < 10*time.Minute; time.Sleep(50 * time.Millisecond) {
		if done() {
			return
		}
	}
	f.t.Error("the views are not kept")
}

// built reports whether all views, and the numbers of subordinates, are kept.
func (f *figures) built() bool { return f.keptUpTo() > 0 }

// keptUpTo returns the revision up to which all views, and the numbers of subordinates, are
// kept, or 0 if not all are kept. If a view has failed, it fails the test and returns the
// largest revision.
func (f *figures) keptUpTo() table.Revision {
	ctx := context.Background()
	s := state.Newest(f.p)
	defer s.Close()
	defs, _, err := materialized.Definitions(ctx, s)
	if err != nil {
		f.t.Error(err)
		return revision.Last
	}
	d, err := materialized.Builtin(ctx, s)
	if err != nil || d == nil {
		return 0
	}
	r := revision.Last
	for _, d := range append(defs, d) {
		st, err := materialized.StatusOf(ctx, s, d)
		if err != nil || st.State == "failed" {
			f.t.Error(d.Name, st.Reason, err)
			return revision.Last
		}
		if st.State != "kept" {
			return 0
		}
		r = min(r, st.UpTo)
	}
	return r
}

// count counts the people in two ways and prints the processor time of both together.
func (f *figures) count(people entry.ID) {
	ctx := context.Background()
	s := state.Newest(f.p)
	defer s.Close()
	n := 1000
	if s, err := materialized.Builtin(ctx, s); err != nil || s == nil {
		n = 1
	}
	spent := cpu()
	for range n {
		children, err := s.CountChildren(ctx, people)
		must(f.t, err)
		all, err := search.CountBelow(ctx, s, people, nil, nil, 0)
		must(f.t, err)
		if children != *viewPeople || all != children {
			f.t.Fatalf("%d children and %d entries below, want %d", children, all, *viewPeople)
		}
	}
	f.t.Logf("counting %d children, and all below, takes %v of CPU (%d times)", *viewPeople, ((cpu() - spent) / time.Duration(n)).Round(time.Microsecond), n)
}
