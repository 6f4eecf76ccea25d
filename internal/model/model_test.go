package model

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
)

var long = flag.Bool("long", false, "explore every model to its end")

// A variant of a model holds, or breaks because a rule was dropped, or is a witness
// that shows that an interesting state can be reached.
type variant struct {
	name  string // "holding", the dropped rule, or what is witnessed
	kind  kind
	tries []func(limit int) Report // one per configuration
	whole bool                     // it is small and explored completely
}

type kind int

const (
	holds kind = iota
	breaks
	witness
)

// models are all models.
var models = []struct {
	name     string
	variants func() []variant
}{
	{"commit", commitVariants},
	{"retry", retryVariants},
	{"kinds", kindsVariants},
	{"slots", slotsVariants},
	{"purge", purgeVariants},
	{"horizon", horizonVariants},
	{"branch", branchVariants},
}

// Limits of the number of states: for a configuration that must hold, and for one that
// must break.
const (
	someStates = 60_000
	manyStates = 3_000_000
	allStates  = 40_000_000
)

// TestModels explores every variant. Without a rule of transactions.md a model must
// break.
func TestModels(t *testing.T) {
	for _, m := range models {
		for _, v := range m.variants() {
			t.Run(m.name+"/"+v.name, func(t *testing.T) {
				r, states, whole := v.explore()
				end := "to the end"
				if !whole {
					end = "up to the limit"
				}
				if v.kind == holds && r.Wrong != "" {
					t.Fatalf("%d states: %s\n%s", states, r.Wrong, steps(r.Trace))
				}
				if v.kind != holds && r.Wrong == "" {
					t.Fatalf("%d states %s and nothing is wrong", states, end)
				}
				if v.kind == holds {
					t.Logf("%d states %s", states, end)
				} else {
					t.Logf("%d states: %s\n%s", states, r.Wrong, steps(r.Trace))
				}
			})
		}
	}
}

// explore explores the configurations until something is wrong.
func (v variant) explore() (last Report, states int, whole bool) {
	limit := someStates
	switch {
	case *long:
		limit = allStates
	case v.kind != holds, v.whole:
		limit = manyStates
	}
	whole = true
	for _, try := range v.tries {
		last = try(limit)
		states += last.States
		whole = whole && last.Whole
		if last.Wrong != "" {
			break
		}
	}
	return last, states, whole
}

func steps(trace []string) string {
	lines := make([]string, len(trace))
	for i, s := range trace {
		lines[i] = fmt.Sprintf("%4d %s", i+1, s)
	}
	return strings.Join(lines, "\n")
}

// TestExplore checks that Explore finds the shortest path to a wrong state, and the end
// of a model.
func TestExplore(t *testing.T) {
	count := Model[int]{
		Next: func(s int, emit Emit[int]) {
			if s < 100 {
				emit(s+1, "%d and one", s, 0)
				emit(s+2, "%d and %d", s, 2)
			}
		},
		Check: func(*int) string { return "" },
	}
	if r := count.Explore(1000); r.States != 102 || !r.Whole || r.Wrong != "" {
		t.Errorf("got %+v", r)
	}
	if r := count.Explore(10); r.Whole || r.States > 13 {
		t.Errorf("limited: got %+v", r)
	}
	count.Check = func(s *int) string {
		if *s == 5 {
			return "five"
		}
		return ""
	}
	r := count.Explore(1000)
	if r.Wrong != "five" || !slices.Equal(r.Trace, []string{"0 and one", "1 and 2", "3 and 2"}) {
		t.Errorf("got %+v", r)
	}
}
