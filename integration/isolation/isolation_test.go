package isolation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// history parses transactions, each on a line of its own:
//
//	S FROM-TO [failed|unknown] [fresh] KEY=a,b ... KEY+c,d ...
//
// S is the session, KEY= is a read and KEY+ an append.
func history(t *testing.T, text string) []Txn {
	t.Helper()
	var h []Txn
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		line = strings.TrimSpace(line)
		x := Txn{Name: line}
		f := strings.Fields(line)
		var from, to int
		if _, err := fmt.Sscanf(f[0]+" "+f[1], "%d %d-%d", &x.Session, &from, &to); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		x.Invoked, x.Returned = time.Duration(from), time.Duration(to)
		for _, word := range f[2:] {
			key, list, read := strings.Cut(word, "=")
			values := strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
			switch {
			case word == "failed":
				x.Outcome = Failed
			case word == "unknown":
				x.Outcome = Unknown
			case word == "fresh":
				x.Fresh = true
			case read:
				x.Reads = append(x.Reads, Read{key, values})
			default:
				key, list, _ = strings.Cut(word, "+")
				x.Appends = append(x.Appends, Append{key, strings.Split(list, ",")})
			}
		}
		h = append(h, x)
	}
	return h
}

func TestCheck(t *testing.T) {
	cases := []struct {
		name, history string
		want          string // kinds of anomalies, separated by semicolons
		skews         int
	}{
		{name: "in order", history: `
			1 0-1 x= x+a
			2 2-3 x=a x+b
			3 4-5 fresh x=a,b`},
		{name: "stale but in order", history: `
			1 0-1 x+a
			2 2-3 x=
			3 2-3 x=a`},
		{name: "unknown, and seen", history: `
			1 0-1 unknown x+a
			2 2-3 x=a`},
		{name: "unknown, and never seen", history: `
			1 0-1 unknown x+a
			2 2-3 fresh x=`},
		{name: "failed, and never seen", history: `
			1 0-1 failed x+a
			2 2-3 fresh x=`},
		{name: "G0", want: "G0 (write cycle)", history: `
			1 0-9 x+a y+a
			2 0-9 x+b y+b
			3 0-9 x=a,b y=b,a`},
		{name: "torn append", want: "G0 (write cycle)", history: `
			1 0-9 x+a,c
			2 0-9 x+b
			3 0-9 x=a,b,c`},
		{name: "G1a", want: "G1a (aborted read)", history: `
			1 0-1 failed x+a
			2 2-3 x=a`},
		{name: "G1b", want: "G1b (intermediate read)", history: `
			1 0-9 x+a,b
			2 2-3 x=a
			3 4-5 x=a,b`},
		{name: "G1c", want: "G1c (circular information flow)", history: `
			1 0-9 x+a y=b
			2 0-9 y+b x=a`},
		{name: "lost update", want: "lost update", history: `
			1 0-9 x= x+a
			2 0-9 x= x+b
			3 10-11 x=a,b`},
		{name: "lost update, never read", want: "G-single (read skew), against real time", history: `
			1 0-1 x= x+a
			2 0-1 x= x+b
			3 2-3 fresh x=a`},
		{name: "read skew", want: "G-single (read skew)", history: `
			1 0-9 x+a y+a
			2 0-9 x= y=a`},
		{name: "long fork", want: "long fork", history: `
			1 0-9 x+a
			2 0-9 y+b
			3 0-9 x=a y=
			4 0-9 x= y=b`},
		{name: "long fork by sessions", want: "long fork, against a session's order", history: `
			1 0-9 x+a
			2 0-9 y+b
			3 0-1 x=a
			3 2-3 y=
			4 0-1 y=b
			4 2-3 x=`},
		{name: "write skew", skews: 1, history: `
			1 0-9 x= y= x+a
			2 0-9 x= y= y+b
			3 10-11 x=a y=b`},
		{name: "a session does not see its own", want: "G-single (read skew), against a session's order", history: `
			1 0-1 x+a
			1 2-3 x=`},
		{name: "a session goes back", want: "G-single (read skew), against a session's order", history: `
			1 0-1 x+a
			2 2-3 x=a
			2 4-5 x=`},
		{name: "fresh is stale", want: "G-single (read skew), against real time", history: `
			1 0-1 x+a
			2 2-3 fresh x=`},
		{name: "fresh beside the write", history: `
			1 0-3 x+a
			2 2-4 fresh x=`},
		{name: "incompatible", want: "incompatible order", history: `
			1 0-9 x+a
			2 0-9 x+b
			3 0-9 x=a,b
			4 0-9 x=b`},
		{name: "duplicate", want: "duplicate", history: `
			1 0-9 x+a
			2 0-9 x=a,a`},
		{name: "garbage", want: "garbage read", history: `
			1 0-9 x=a`},
		{name: "written twice", want: "value written twice", history: `
			1 0-9 x+a
			2 0-9 x+a`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := Check(history(t, c.history))
			var kinds []string
			for _, a := range r.Anomalies {
				kinds = append(kinds, a.Kind)
			}
			if got := strings.Join(kinds, "; "); got != c.want {
				t.Errorf("found %q, want %q: %v", got, c.want, r.Anomalies)
			}
			if r.Skews != c.skews {
				t.Errorf("%d skews, want %d", r.Skews, c.skews)
			}
		})
	}
}

func TestSet(t *testing.T) {
	add := func(session int, value string) Txn {
		return Txn{Session: session, Returned: 9, Appends: []Append{{Element("s", value), []string{value}}}}
	}
	read := func(session int, values ...string) Txn {
		return Txn{Session: session, Returned: 9, Reads: Set("s", []string{"a", "b"}, func(v string) bool { return slices.Contains(values, v) })}
	}
	if r := Check([]Txn{add(1, "a"), add(2, "b"), read(3, "b"), read(4), read(5, "a", "b")}); len(r.Anomalies) > 0 {
		t.Error(r.Anomalies)
	}
	r := Check([]Txn{add(1, "a"), add(2, "b"), read(3, "b"), read(4, "a")})
	if len(r.Anomalies) != 1 || r.Anomalies[0].Kind != "long fork" || !strings.Contains(r.Anomalies[0].Text, "s/a") {
		t.Errorf("two orders of adding to a set: %v", r.Anomalies)
	}
}

// A database has a few lists. It runs transactions one at a time, but may begin a
// transaction on an older state.
type database struct {
	rnd      *rand.Rand
	now      time.Duration
	versions []map[string][]string // all states
	changed  []map[string]bool     // changed[i] has the keys whose change made versions[i]
	seen     map[int]int           // the newest state that each session has seen

	blind, torn, stale, dirty bool // the faults of the database
}

var keys = []string{"x", "y", "z"}

// run returns a history of n transactions.
func (d *database) run(n int) []Txn {
	d.versions, d.changed = []map[string][]string{{}}, []map[string]bool{{}}
	d.seen = map[int]int{}
	var h []Txn
	for i := range n {
		h = append(h, d.txn(i))
	}
	return h
}

func (d *database) txn(i int) Txn {
	x := Txn{Name: fmt.Sprint("T", i), Session: d.rnd.IntN(4), Fresh: d.rnd.IntN(3) == 0}
	last := len(d.versions) - 1
	at := max(d.seen[x.Session], last-d.rnd.IntN(3))
	if x.Fresh && !d.stale {
		at = last
	}
	d.now += 2
	x.Invoked, x.Returned = d.now, d.now+1
	for _, k := range keys {
		if d.rnd.IntN(2) == 0 {
			from := at
			if d.torn && d.rnd.IntN(2) == 0 {
				from = last
			}
			x.Reads = append(x.Reads, Read{k, d.versions[from][k]})
		}
	}
	writes := map[string]bool{}
	for _, k := range keys {
		if d.rnd.IntN(4) == 0 {
			writes[k] = true
			x.Appends = append(x.Appends, Append{k, []string{fmt.Sprint(i)}})
		}
	}
	for n := at + 1; n <= last; n++ {
		for k := range writes {
			if d.changed[n][k] && !d.blind {
				x.Outcome = Failed
			}
		}
	}
	if len(writes) > 0 && (x.Outcome == OK || d.dirty) {
		d.commit(writes, fmt.Sprint(i))
		at = len(d.versions) - 1
	}
	d.seen[x.Session] = at
	return x
}

func (d *database) commit(writes map[string]bool, value string) {
	next := map[string][]string{}
	for k, l := range d.versions[len(d.versions)-1] {
		next[k] = l
	}
	for k := range writes {
		next[k] = append(slices.Clone(next[k]), value)
	}
	d.versions, d.changed = append(d.versions, next), append(d.changed, writes)
}

// TestDatabases checks that Check finds no anomaly in a correct database, and finds one
// in most histories of each faulty database.
func TestDatabases(t *testing.T) {
	const seeds, txns = 100, 200
	cases := []struct {
		name string
		d    database
		most int // number of histories in which Check may miss the fault; -1 if there is no fault
	}{
		{"right", database{}, -1},
		{"updates are lost", database{blind: true}, 10},
		{"states are torn", database{torn: true}, 25},
		{"fresh is stale", database{stale: true}, 10},
		{"what failed is done", database{dirty: true}, 10},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			right := 0
			for seed := range seeds {
				d := c.d
				d.rnd = rand.New(rand.NewPCG(uint64(seed), 1))
				r := Check(d.run(txns))
				if len(r.Anomalies) == 0 {
					right++
				} else if c.most < 0 {
					t.Fatalf("seed %d: %v", seed, r.Anomalies)
				}
			}
			if c.most >= 0 && right > c.most {
				t.Errorf("%d of %d histories look right", right, seeds)
			}
		})
	}
}

// BenchmarkCheck measures Check on a long history.
func BenchmarkCheck(b *testing.B) {
	d := database{rnd: rand.New(rand.NewPCG(1, 1))}
	h := d.run(5000)
	for b.Loop() {
		Check(h)
	}
}
