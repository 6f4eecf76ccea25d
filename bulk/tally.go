package bulk

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// A tally counts what an import reports in notes at its end.
type tally struct {
	mu         sync.Mutex
	unusable   map[string]int // number of passwords that no bind can use, by scheme
	duplicates map[string]int // number of dropped values, by attribute
	policies   int            // password policies of 389 that were translated
}

func newTally() *tally { return &tally{unusable: map[string]int{}, duplicates: map[string]int{}} }

func (t *tally) password(scheme string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if scheme == "" {
		scheme = "empty"
	}
	t.unusable[scheme]++
}

func (t *tally) duplicate(attribute string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.duplicates[attribute]++
}

func (t *tally) policy() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.policies++
}

// reset sets all counts to zero. applyAll calls it, because a transaction may run applyAll
// several times.
func (t *tally) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.unusable)
	clear(t.duplicates)
	t.policies = 0
}

// report calls note with the counts.
func (t *tally) report(note func(string)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.unusable) > 0 {
		note("passwords that no bind can use, as they are locked, damaged or in a scheme that is not known: " + listed(t.unusable))
	}
	if t.policies > 0 {
		note(fmt.Sprintf("password policies of 389 Directory Server that became policies of this server (pwdPolicy): %d", t.policies))
	}
	if len(t.duplicates) > 0 {
		note("values that an entry had twice and now has once: " + listed(t.duplicates))
	}
}

func listed(counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[name], name))
	}
	return strings.Join(parts, ", ")
}
