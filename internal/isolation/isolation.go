// Package isolation looks for anomalies in histories of transactions that were run
// by real servers, as Elle does (Kingsbury and Alvaro, 2020): transactions append
// unique values to lists and read lists whole, so the order of a list's versions
// can be seen, and with it who depends on whom.
//
// A [Txn] is what a client knows of one transaction. [Check] gives every [Anomaly]
// that snapshot isolation forbids (Adya's G0, G1a, G1b, G1c and G-single, of which
// lost updates are a kind, and long forks), also against the order in which one
// session ran its transactions, and against real time where a transaction was to
// begin on the newest state. Write skew is allowed, and counted.
//
// A set is many lists of at most one value: see [Set].
package isolation

import (
	"fmt"
	"strings"
	"time"
)

// A Txn is a transaction as its client saw it. It reads before it appends, all
// of one state.
type Txn struct {
	Name              string // for people
	Session           int    // transactions of a session come one after the other
	Invoked, Returned time.Duration
	Outcome           Outcome
	// Fresh: it began on a state that showed all that had returned when it was
	// invoked.
	Fresh   bool
	Reads   []Read
	Appends []Append
}

// An Outcome is what a client knows of how a transaction ended.
type Outcome int

// The outcomes. What failed has surely changed nothing.
const (
	OK Outcome = iota
	Failed
	Unknown
)

// A Read is a list as it was read.
type Read struct {
	Key  string
	List []string
}

// An Append adds values, which nobody else adds to the list, at its end.
type Append struct {
	Key    string
	Values []string
}

// Set returns the reads that show which of all values, each of which is added once
// at most, a set had.
func Set(key string, all []string, has func(string) bool) []Read {
	reads := make([]Read, 0, len(all))
	for _, v := range all {
		r := Read{Key: Element(key, v)}
		if has(v) {
			r.List = []string{v}
		}
		reads = append(reads, r)
	}
	return reads
}

// Element is the key of the list that stands for a value of a set.
func Element(key, value string) string { return key + "\x00" + value }

// An Anomaly is something that snapshot isolation forbids.
type Anomaly struct {
	Kind string
	Text string // what happened, a line each
}

func (a Anomaly) String() string { return a.Kind + "\n" + a.Text }

// A Report is what was found.
type Report struct {
	Anomalies []Anomaly
	Skews     int // groups of transactions that have no serial order, as snapshot isolation allows
}

// Check looks at a whole history.
func Check(history []Txn) Report {
	c := &checker{txns: history, lists: map[string]*list{}}
	c.collect()
	c.order()
	var r Report
	if g, ok := c.graph(); ok {
		r.Skews = c.cycles(g)
	}
	r.Anomalies = c.found
	return r
}

type checker struct {
	txns  []Txn
	lists map[string]*list
	keys  []string // of lists, in order of appearance
	found []Anomaly
}

func (c *checker) report(kind, format string, args ...any) {
	c.found = append(c.found, Anomaly{kind, fmt.Sprintf(format, args...)})
}

// describe is a transaction for people.
func (t *Txn) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s [%v, %v]", t.Name, t.Invoked.Round(time.Microsecond), t.Returned.Round(time.Microsecond))
	for _, a := range t.Appends {
		fmt.Fprintf(&b, " append %s %q", shown(a.Key), a.Values)
	}
	return b.String()
}

func shown(key string) string { return strings.ReplaceAll(key, "\x00", "/") }
