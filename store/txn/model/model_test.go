package model

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
)

var long = flag.Bool("long", false, "explore every model to its end")

// A variant of a model is of one of three kinds. The kind "holds": it must have no wrong state.
// The kind "breaks": it drops a rule, and must reach a wrong state. The kind "witness": it must
// reach a certain state, to show that the model includes that state.
type variant struct {
	name  string // what the variant includes, the dropped rule, or the state that a witness reaches
	kind  kind
	tries []func(limit int) Report // an exploration for each configuration
	whole bool                     // the variant is small and always explored completely
}

type kind int

const (
	holds kind = iota
	breaks
	witness
)

// models lists all models.
var models = []struct {
	name     string
	variants func() []variant
}{
	{"commit", commitVariants},
	{"retry", retryVariants},
	{"turn", turnVariants},
	{"kinds", kindsVariants},
	{"slots", slotsVariants},
	{"purge", purgeVariants},
	{"horizon", horizonVariants},
	{"branch", branchVariants},
	{"branches", branchesVariants},
	{"names", namesVariants},
	{"line", lineVariants},
	{"lane", laneVariants},
}

// These constants limit the number of states that are visited. someStates is for a
// configuration that must hold. manyStates is for a configuration that must break, is a
// witness, or is small. allStates is for long tests.
const (
	someStates = 60_000
	manyStates = 3_000_000
	allStates  = 40_000_000
)

// far are variants that reach what they must reach after a million states or so. A short test leaves them out: they
// took half of its time, and say the same until a model changes.
var far = []string{
	"commit/ids are not above late commits",
	"commit/witness: a commit that was taken back is gone, and the other one is acknowledged",
	"commit/two slots: sweeping does not read the journal again",
	"purge/snapshots that run count, not the polled one",
	"purge/up to the low-water mark",
	"purge/a branch's creator lets its base go too early",
	"purge/a branch's base does not count",
	"purge/slots that are recovering do not count",
	"purge/witness: acknowledged and purged",
	"branch/witness: one merge lost with its server, the other acknowledged, T too",
}

// TestModels explores every variant, and checks that it does what its kind says.
func TestModels(t *testing.T) {
	for _, m := range models {
		for _, v := range m.variants() {
			t.Run(m.name+"/"+v.name, func(t *testing.T) {
				if slices.Contains(far, m.name+"/"+v.name) && !*long {
					t.Skip("only with -long")
				}
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

// explore explores the configurations of v until it finds a wrong state.
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

// TestExplore checks that Explore finds the shortest path to a wrong state, and ends
// when it has visited all states.
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
