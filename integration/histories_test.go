package integration

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var historiesTime = flag.Duration("histories", 10*time.Second, "how long clients work at servers that are disturbed, of whose histories nobody may see an anomaly")

const (
	servers        = 3
	clients        = 16
	historiesLease = 3 * time.Second
	// clientPatience is how long a client waits before it uses another server. It is
	// longer than any server has to wait for the undecided commits of a dead server.
	clientPatience = historiesLease + 7*time.Second
	// generationTime is how long one generation of objects is used. A generation ends
	// because porcupine cannot check long histories, and because an operation with an
	// unknown outcome may take effect at any later time.
	generationTime = 8 * time.Second
)

// A run is a test of three servers on one store, with the events that clients recorded.
type run struct {
	t           *testing.T
	store       string
	seats       [servers]seat
	workers     []*worker
	length      time.Duration
	generations int // number of generations, used one after the other
	began       time.Time
	sessions    atomic.Int32
	stopped     atomic.Bool
	faults      []fault
}

// A seat is a place at which one server at a time runs.
type seat struct {
	args   []string
	mu     sync.Mutex
	p      *process
	former []*process
}

func (s *seat) process() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.p
}

// logged reports whether a server that sits or sat at the seat has logged a text.
func (s *seat) logged(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(append(slices.Clip(s.former), s.p), func(p *process) bool { return strings.Contains(p.stderr.String(), text) })
}

func (r *run) url(server int) string { return r.seats[server].process().url() }

// newRun creates the objects and starts the servers. arguments has the arguments of each
// server.
func newRun(t *testing.T, store string, length time.Duration, arguments [servers][]string) *run {
	r := &run{t: t, store: store, length: length, generations: int(length/generationTime) + 1}
	importInto(t, store, example, r.objects())
	for i := range r.seats {
		r.seats[i].args = append([]string{"--lease", historiesLease.String()}, arguments[i]...)
		r.sit(i)
	}
	for i := range r.seats {
		awaitWriter(t, r.seats[i].process())
	}
	for n := range clients {
		r.workers = append(r.workers, r.worker(n, n%servers))
	}
	return r
}

// objects writes an LDIF file of all generations of objects, and returns its path.
func (r *run) objects() string {
	var b strings.Builder
	entry := func(dn string, more ...string) {
		fmt.Fprintf(&b, "dn: %s\nobjectClass: organizationalUnit\nobjectClass: extensibleObject\n%s\n", dn, strings.Join(more, "\n"))
	}
	entry(historiesDN, "")
	for g := range r.generations {
		entry(generationDN(g), "")
		for _, name := range flat() {
			attributes := []string{"uidNumber: 0", ""}
			if strings.HasPrefix(name, "register-") {
				attributes = []string{"description: 0", ""}
			}
			dn := "ou=" + name + "," + generationDN(g)
			entry(dn, attributes...)
			if strings.HasPrefix(name, "moves") {
				for _, path := range movers {
					entry(below(path, dn), "description: "+path, "")
				}
			}
		}
	}
	file := filepath.Join(r.t.TempDir(), "objects.ldif")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return file
}

// sit starts a server at a seat. If the store does not answer that server, sit tries
// again.
func (r *run) sit(i int) { r.seats[i].sit(r.t, r.store) }

func (s *seat) sit(t *testing.T, store string) {
	eventually(t, "a server starts", func() error {
		p, err := tryServe(t, store, s.args...)
		if err != nil {
			return err
		}
		s.mu.Lock()
		if s.p != nil {
			s.former = append(s.former, s.p)
		}
		s.p = p
		s.mu.Unlock()
		return nil
	})
}

func (r *run) worker(client, at int) *worker {
	return &worker{r: r, client: client, at: at, forbidden: func(err error) { r.t.Errorf("client %d at server %d: %v", client, at, err) }}
}

// The method "at" returns the time since the start of the run. The method "now" returns the
// current generation.
func (r *run) at() time.Duration { return time.Since(r.began) }
func (r *run) now() int          { return min(int(r.at()/generationTime), r.generations-1) }

// run lets the clients work for r.length, and then calls finish. If disturb is set, run calls
// it repeatedly while the clients work.
func (r *run) run(disturb func(n int)) {
	r.began = time.Now()
	var g sync.WaitGroup
	for _, w := range r.workers {
		g.Go(w.work)
	}
	stop := func() {
		r.stopped.Store(true)
		g.Wait()
	}
	defer stop()
	end := time.After(r.length)
	for n := 0; disturb != nil && r.at() < r.length; n++ {
		disturb(n)
	}
	<-end
	stop()
	r.t.Logf("the clients worked for %v", r.at().Round(time.Second))
	r.finish()
}

// finish reads all objects. It reads each generation of objects at one server, and uses the
// servers in turn. Then it judges the run and checks the store.
func (r *run) finish() {
	for i := range r.seats {
		w := r.worker(clients+i, i)
		r.workers = append(r.workers, w)
		awaitWriter(r.t, r.seats[i].process())
		for g := i; g < r.generations; g += servers {
			eventually(r.t, "everything is read", func() error { return w.readAll(g) })
		}
		w.close()
	}
	r.judge()
	for i := range r.seats {
		r.seats[i].process().stop()
	}
	checkStore(r.t, r.store)
}

// TestHistories runs clients at three servers. No client may see an anomaly.
func TestHistories(t *testing.T) {
	t.Parallel()
	newRun(t, storeKinds[1].make(t), *historiesTime/4, [servers][]string{}).run(nil)
}
