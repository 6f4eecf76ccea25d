package plan_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/index/plan"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

var core = schema.Core()

// TestPlans runs testdata/plans, which declares indexes and entries, and plans filters. It
// compares the candidates of each plan with the entries.
func TestPlans(t *testing.T) {
	w := &world{indexes: map[*schema.AttributeType]*fake{}, entries: map[int]*entry.Entry{}}
	datadriven.RunTest(t, "testdata/plans", func(t *testing.T, d *datadriven.TestData) string {
		switch d.Cmd {
		case "indexes":
			w.declare(d.Input)
		case "entries":
			w.add(t, d.Input)
		case "plan":
			return w.plan(d.Input)
		case "run":
			return w.run(t, d.Input)
		case "run-long": // like run, but with 64 as the longestValue
			defer plan.SetLongestValue(64)()
			return w.run(t, d.Input)
		default:
			t.Fatalf("%s: no such command", d.Cmd)
		}
		return ""
	})
}

// A world is a catalog of fake indexes, and the entries that the indexes find.
type world struct {
	indexes  map[*schema.AttributeType]*fake
	entries  map[int]*entry.Entry
	inMemory []*fake
	matching map[int]bool // the entries that match the filter of the running command
}

// declare parses lines like "sn row" and "cn column".
func (w *world) declare(input string) {
	for l := range strings.Lines(input) {
		f := strings.Fields(l)
		t := core.Attribute(f[0])
		w.indexes[t] = &fake{w: w, typ: t, selective: f[1] == "column"}
	}
}

// add parses lines like "1 cn=ann sn=lee" and "10-200 sn=lee".
func (w *world) add(t *testing.T, input string) {
	for l := range strings.Lines(input) {
		f := strings.Fields(l)
		var from, to int
		if n, _ := fmt.Sscanf(f[0], "%d-%d", &from, &to); n == 1 {
			to = from
		}
		for n := from; n <= to; n++ {
			w.entries[n] = newEntry(t, n, f[1:])
		}
	}
}

func newEntry(t *testing.T, n int, values []string) *entry.Entry {
	e := &entry.Entry{}
	binary.BigEndian.PutUint64(e.ID[8:], uint64(n))
	for _, v := range values {
		d, value, _ := strings.Cut(v, "=")
		name, options, tagged := strings.Cut(d, ";")
		if tagged {
			options = ";" + options
		}
		typ := core.Attribute(name)
		if typ == nil {
			t.Fatalf("no type %s", name)
		}
		if e.Find(typ, options) == nil {
			e.Attributes = append(e.Attributes, entry.Attribute{Type: typ, Options: options})
		}
		a := e.Find(typ, options)
		a.Values = append(a.Values, []byte(value))
	}
	id := entry.Attribute{Type: core.Attribute("entryUUID"), Values: [][]byte{[]byte(e.ID.String())}}
	e.Attributes = append(e.Attributes, id)
	return e
}

func number(id entry.ID) int { return int(binary.BigEndian.Uint64(id[8:])) }

// Indexed implements plan.Catalog.
func (w *world) Indexed(t *schema.AttributeType) (index.Index, bool) {
	x, ok := w.indexes[t]
	if !ok {
		return nil, false
	}
	return x, true
}

func (w *world) build(text string, l *plan.Lists) (filter.Resolved, plan.Access) {
	f := filter.Definite(filter.Resolve(filter.MustParse(strings.TrimSpace(text)), core))
	return f, plan.Build(f, w, l)
}

func (w *world) plan(text string) string {
	_, a := w.build(text, nil)
	if a == nil {
		return "scan"
	}
	var b strings.Builder
	a.Describe(&b, 0, false)
	return b.String()
}

// run prints the candidates and the plan. A "?" marks a candidate that is Maybe. run also
// checks that the candidates are right with no index in memory, with all indexes in memory, and
// with each single index in memory. In the first two cases, it checks that a search can
// continue behind the first, the middle and the last candidate. It checks all this without Lists
// and with Lists, of which a plan that continues may know less.
func (w *world) run(t *testing.T, text string) string {
	f, a := w.build(text, nil)
	if a == nil {
		return "scan"
	}
	w.match(text)
	got := w.candidates(t, a, nil)
	var b strings.Builder
	a.Describe(&b, 0, true)
	states := [][]*fake{nil, slices.Collect(maps.Values(w.indexes))}
	for _, x := range w.indexes {
		states = append(states, []*fake{x})
	}
	defer func() { w.inMemory = nil }()
	for k := range 2 * len(states) {
		n := k / 2
		w.inMemory = states[n]
		fresh := func() (l *plan.Lists) {
			if k%2 > 0 {
				l = &plan.Lists{}
			}
			return l
		}
		l := fresh()
		a := plan.Build(f, w, l)
		w.right(t, text, w.candidates(t, a, nil))
		a = plan.Build(f, w, l) // like a search after an estimate
		some := w.candidates(t, a, nil)
		w.right(t, text, some)
		for i, c := range some {
			if n > 1 || i > 0 && i != len(some)/2 && i != len(some)-1 {
				continue
			}
			want := w.matchingOf(some[i+1:])
			for _, w.inMemory = range states[:2] {
				again := plan.Build(f, w, fresh())
				if rest := w.matchingOf(w.candidates(t, again, c.Position)); !slices.Equal(rest, want) {
					t.Errorf("%s: behind %d come %d, want %d", text, number(c.ID), len(rest), len(want))
				}
			}
		}
	}
	return printCandidates(got) + b.String()
}

// TestBrokenList checks that a list that cannot be read is an error, or that the entries are tested
// instead.
func TestBrokenList(t *testing.T) {
	w := &world{indexes: map[*schema.AttributeType]*fake{}, entries: map[int]*entry.Entry{}}
	w.declare("sn row\nl row")
	w.add(t, "1-300 sn=lee l=rome\n301-400 l=rome\n401-500 sn=lee")
	sn, l := w.indexes[core.Attribute("sn")], w.indexes[core.Attribute("l")]
	l.fails = true
	for _, w.inMemory = range [][]*fake{nil, {sn}} {
		for _, text := range []string{"(&(sn=lee)(l=rome))", "(|(sn=lee)(l=rome))", "(l=rome)"} {
			lists := &plan.Lists{}
			for range 2 {
				_, a := w.build(text, lists)
				var got []index.Candidate
				var failed error
				for c, err := range a.Run(t.Context(), nil, nil) {
					if failed = err; err == nil {
						got = append(got, c)
					}
				}
				if failed == nil {
					w.match(text)
					w.right(t, text, got)
				} else if !errors.Is(failed, errBroken) {
					t.Errorf("%s: %v", text, failed)
				}
			}
		}
	}
}

// right checks that no candidate occurs twice, that each candidate not marked Maybe
// matches, and that no matching entry is missing.
func (w *world) right(t *testing.T, text string, got []index.Candidate) {
	yielded := map[int]bool{}
	for _, c := range got {
		n := number(c.ID)
		if yielded[n] {
			t.Errorf("%s yields %d twice", text, n)
		}
		yielded[n] = true
		if !c.Maybe && !w.matching[n] {
			t.Errorf("%s: %d is said to match", text, n)
		}
	}
	for n := range w.matching {
		if !yielded[n] {
			t.Errorf("%s: %d is missing", text, n)
		}
	}
}

func (w *world) matchingOf(cs []index.Candidate) (ns []int) {
	for _, c := range cs {
		if n := number(c.ID); w.matching[n] {
			ns = append(ns, n)
		}
	}
	return ns
}

// match tests all entries.
func (w *world) match(text string) {
	f, _ := w.build(text, nil)
	w.matching = map[int]bool{}
	for n, e := range w.entries {
		if f.Match(&filter.EntrySource{Entry: e, Schema: core}) == filter.True {
			w.matching[n] = true
		}
	}
}

func (w *world) candidates(t *testing.T, a plan.Access, after []byte) (cs []index.Candidate) {
	for c, err := range a.Run(context.Background(), nil, after) {
		if err != nil {
			t.Fatal(err)
		}
		c.Position = bytes.Clone(c.Position)
		cs = append(cs, c)
	}
	return cs
}

func printCandidates(cs []index.Candidate) string {
	var words []string
	for i, c := range cs {
		if i == 8 {
			words = append(words, fmt.Sprintf("... %d more", len(cs)-i))
			break
		}
		word := fmt.Sprint(number(c.ID))
		if c.Maybe {
			word += "?"
		}
		words = append(words, word)
	}
	return "yields " + strings.Join(words, " ") + "\n"
}

// fake is an index that computes its candidates from all entries.
type fake struct {
	w         *world
	typ       *schema.AttributeType
	selective bool
	fails     bool // Head returns errBroken
	all       []index.Candidate
}

var errBroken = errors.New("broken")

func (x *fake) Equal(_ context.Context, _ table.Reader, key, after []byte) index.Candidates {
	return x.span(after, func(k []byte) bool { return bytes.Equal(k, key) })
}

// Head implements index.Index.
func (x *fake) Head(_ context.Context, _ table.Reader, key []byte, set *index.Set, n int) (bool, error) {
	if x.fails {
		return false, errBroken
	}
	for c := range x.Equal(context.Background(), nil, key, set.Last(key)) {
		if set.Len() == n {
			return true, nil
		}
		set.Append(c.ID, c.Parent)
	}
	return false, nil
}

func (x *fake) Table() table.Table { return nil }

func (x *fake) Selective() bool { return x.selective }

func (x *fake) Present(_ context.Context, _ table.Reader, after []byte, _ int) index.Candidates {
	var ids []index.Candidate
	for _, e := range x.w.entries {
		has := slices.ContainsFunc(e.Attributes, func(a entry.Attribute) bool { return a.Type == x.typ })
		if row := index.PresenceRow(e.ID); has && bytes.Compare(row, after) > 0 {
			ids = append(ids, index.Candidate{ID: e.ID, Position: row})
		}
	}
	slices.SortFunc(ids, func(a, b index.Candidate) int { return a.ID.Compare(b.ID) })
	return func(yield func(index.Candidate, error) bool) {
		for _, c := range ids {
			if !yield(c, nil) {
				return
			}
		}
	}
}

func (x *fake) Warm(context.Context, table.Reader, int) iter.Seq2[index.Value, error] { return nil }

// Known implements index.Memory.
func (x *fake) Known(_ context.Context, _ table.Reader, key []byte, _ int) (*index.Set, bool) {
	if !slices.Contains(x.w.inMemory, x) {
		return nil, false
	}
	set, err := index.Collect(x.Equal(context.Background(), nil, key, nil))
	return set, err == nil
}

// Longer implements index.Memory.
func (x *fake) Longer([]byte, int) bool { return false }

// NoteLonger implements index.Memory.
func (x *fake) NoteLonger([]byte, int) {}

func (x *fake) Postings(context.Context, table.Reader, [][]byte) ([]*index.Set, error) {
	return nil, nil
}

func (x *fake) Among(context.Context, table.Reader, []byte, []entry.ID) ([]index.Change, error) {
	return nil, nil
}

func (x *fake) Span(_ context.Context, _ table.Reader, s index.Span, after []byte) index.Candidates {
	return x.span(after, func(k []byte) bool {
		holds, _ := s.Holds(k, false)
		return holds
	})
}

func (x *fake) InOrder(context.Context, table.Reader, bool, []byte, int) index.Candidates { return nil }

func (x *fake) Mutation([]byte, entry.ID, entry.ID, bool) (m table.Mutation) { return m }

func (x *fake) Presence(entry.ID, entry.ID, bool) (m table.Mutation) { return m }

// span yields an entry once for each of its keys for which holds(key) is true, in the
// order of keys and ids.
func (x *fake) span(after []byte, holds func(key []byte) bool) index.Candidates {
	if x.all == nil {
		x.fill()
	}
	return func(yield func(index.Candidate, error) bool) {
		for _, c := range x.all {
			key, _, _, _ := index.CutKey(c.Position)
			if bytes.Compare(c.Position, after) > 0 && holds(key) && !yield(c, nil) {
				return
			}
		}
	}
}

// fill adds a candidate for each key of each entry to x.all.
func (x *fake) fill() {
	for _, e := range x.w.entries {
		for _, a := range e.Attributes {
			for _, v := range a.Values {
				if key, err := keyOf(x.typ, &a, v); err == nil {
					x.all = append(x.all, index.Candidate{ID: e.ID, Position: append(index.AppendKey(nil, key), e.ID[:]...)})
				}
			}
		}
	}
	slices.SortFunc(x.all, func(a, b index.Candidate) int { return bytes.Compare(a.Position, b.Position) })
	x.all = slices.CompactFunc(x.all, func(a, b index.Candidate) bool { return bytes.Equal(a.Position, b.Position) })
}

func keyOf(t *schema.AttributeType, a *entry.Attribute, v []byte) ([]byte, error) {
	if a.Type != t {
		return nil, fmt.Errorf("%s is not %s", a.Type.Name(), t.Name())
	}
	return t.Equality.Key(v)
}
