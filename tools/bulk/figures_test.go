package bulk_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/branch"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/tools/bulk"
)

var (
	importPeople = flag.Int("importpeople", 1000, "people that TestImportFigures imports")
	importRate   = flag.Int("importrate", 1600, "operations a second of the clients in TestImportFigures")
	importAlone  = flag.Duration("importalone", 500*time.Millisecond, "how long TestImportFigures measures clients without an import")
)

// TestImportFigures prints how long imports take beside 16 clients, and how long the
// clients wait. On average, nine of ten operations of a client read an entry and one modifies
// an entry. The test checks that all entries are there but not how long anything takes,
// because other processes share the machine.
func TestImportFigures(t *testing.T) {
	for _, c := range []struct {
		name   string
		branch bool
		o      bulk.Options
	}{
		{"in batches", false, bulk.Options{Concurrent: true, Batches: true}},
		{"in a branch", true, bulk.Options{}},
		{"at once", false, bulk.Options{Together: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := openLSM(t)
			others := strings.ReplaceAll(company(1000), "dc=example,dc=com", "dc=example,dc=org")
			mustImport(t, p, bulk.Options{Files: []string{file(t, "others.ldif", others)}, Suffixes: []string{"dc=example,dc=org"}})
			text := file(t, "people.ldif", company(*importPeople))
			mustImport(t, p, bulk.Options{Files: []string{file(t, "top.ldif", "dn: dc=example,dc=net\nobjectClass: domain\n")}, Suffixes: []string{"dc=example,dc=com", "dc=example,dc=net"}, Concurrent: true, Batches: true})
			x := &importClients{t: t, p: p}
			alone := x.during(func() { time.Sleep(*importAlone) })
			c.o.Files = []string{text}
			if c.branch {
				var err error
				c.o.Branch, err = branch.Create(t.Context(), p, branch.Options{Name: "import"})
				must(t, err)
			} else {
				c.o.Suffixes = []string{"dc=example,dc=com"}
			}
			begin := time.Now()
			beside := x.during(func() {
				mustImport(t, p, c.o)
				if c.branch {
					_, err := c.o.Branch.Merge(t.Context(), partition.By{})
					must(t, err)
				}
			})
			took := time.Since(begin)
			if n := count(t, p, "dc=example,dc=com"); n != *importPeople+2 {
				t.Errorf("%d entries", n)
			}
			t.Logf("%d people in %v, %.0f entries/s; clients alone: %s; beside it: %s", *importPeople, took.Round(10*time.Millisecond),
				float64(*importPeople)/took.Seconds(), alone, beside)
		})
	}
}

// importClients are 16 clients of a directory.
type importClients struct {
	t *testing.T
	p *partition.Partition
}

// waits contains the durations of operations.
type waits struct{ reads, writes []time.Duration }

func (w *waits) String() string {
	return fmt.Sprintf("reads p99 %v, at most %v; updates p50 %v, p99 %v, at most %v", at(w.reads, 99), at(w.reads, 100), at(w.writes, 50), at(w.writes, 99), at(w.writes, 100))
}

func at(all []time.Duration, percent int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)-1, len(all)*percent/100)].Round(10 * time.Microsecond)
}

// during runs fn while the clients work, and returns how long the operations of the
// clients took.
func (x *importClients) during(fn func()) *waits {
	const clients = 16
	var all waits
	var mu sync.Mutex
	var done atomic.Bool
	var running sync.WaitGroup
	for k := range clients {
		running.Go(func() {
			r := rand.New(rand.NewPCG(uint64(k), 1))
			every := time.Second * clients / time.Duration(*importRate)
			for next := time.Now(); !done.Load(); next = next.Add(every) {
				time.Sleep(time.Until(next))
				begin := time.Now()
				writes := r.IntN(10) == 0
				x.do(fmt.Sprintf("uid=u%07d,ou=people,dc=example,dc=org", r.IntN(1000)), writes)
				mu.Lock()
				if writes {
					all.writes = append(all.writes, time.Since(begin))
				} else {
					all.reads = append(all.reads, time.Since(begin))
				}
				mu.Unlock()
			}
		})
	}
	fn()
	done.Store(true)
	running.Wait()
	return &all
}

func (x *importClients) do(name string, writes bool) {
	if writes {
		if err := describe(x.t.Context(), x.p, name, rand.Int()); err != nil {
			x.t.Error(err)
		}
		return
	}
	d, err := dn.Parse(name)
	if err != nil {
		x.t.Error(err)
		return
	}
	s := state.Newest(x.p)
	defer s.Close()
	found, err := s.Find(x.t.Context(), d)
	if err == nil {
		_, err = s.Entry(x.t.Context(), found.ID, false)
	}
	if err != nil {
		x.t.Error(err)
	}
}
