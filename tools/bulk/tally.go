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
	mu     sync.Mutex
	counts // since the last call of keep or reset
	kept   counts
}

type counts struct {
	unusable   map[string]int // number of passwords that no bind can use, by scheme
	duplicates map[string]int // number of dropped values, by attribute
	empty      map[string]int // number of entries with empty values that were dropped, by attribute
	hidden     int            // passwords that the log of changes does not show
	policies   int            // password policies of 389 that were translated
}

func newCounts() counts {
	return counts{unusable: map[string]int{}, duplicates: map[string]int{}, empty: map[string]int{}}
}

func newTally() *tally { return &tally{counts: newCounts(), kept: newCounts()} }

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

func (t *tally) emptied(attribute string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.empty[attribute]++
}

func (t *tally) hide() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hidden++
}

func (t *tally) policy() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.policies++
}

// reset forgets what was counted since the last call of keep. It is called before each run of
// the function of a transaction.
func (t *tally) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts = newCounts()
}

// keep protects the counts from later calls of reset. It is called when a transaction has
// committed.
func (t *tally) keep() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for scheme, n := range t.unusable {
		t.kept.unusable[scheme] += n
	}
	for attribute, n := range t.duplicates {
		t.kept.duplicates[attribute] += n
	}
	for attribute, n := range t.empty {
		t.kept.empty[attribute] += n
	}
	t.kept.policies += t.policies
	t.kept.hidden += t.hidden
	t.counts = newCounts()
}

// report calls note with the counts.
func (t *tally) report(note func(string)) {
	t.keep()
	k := &t.kept
	if len(k.unusable) > 0 {
		note("passwords that no bind can use, as they are locked, damaged or in a scheme that is not known: " + listed(k.unusable))
	}
	if k.hidden > 0 {
		note(fmt.Sprintf("passwords that the audit log of 389 Directory Server hides by asterisks are left out, so older ones stay: %d", k.hidden))
	}
	if k.policies > 0 {
		note(fmt.Sprintf("password policies of 389 Directory Server that became policies of this server (pwdPolicy): %d", k.policies))
	}
	if len(k.empty) > 0 {
		note("empty values, which are no certificates or revocation lists, are left out: " + listed(k.empty))
	}
	if len(k.duplicates) > 0 {
		note("values that an entry had twice and now has once: " + listed(k.duplicates))
	}
}

func listed(numbers map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		parts = append(parts, fmt.Sprintf("%d %s", numbers[name], name))
	}
	return strings.Join(parts, ", ")
}
