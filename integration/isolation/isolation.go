// Package isolation looks for anomalies in histories of transactions that real servers
// ran. It does what Elle does (Kingsbury and Alvaro, 2020). Transactions append unique
// values to lists and read whole lists. So the values of a list show the order of the
// list's versions, and this order shows the dependencies between transactions.
//
// A [Txn] is what a client knows of one transaction. [Check] looks for the anomalies that
// snapshot isolation forbids: Adya's G0, G1a, G1b, G1c and G-single (which
// includes lost updates), and long forks. Check also checks the order in which one
// session ran its transactions. For transactions that had to begin on the newest state,
// it checks the order of real time. Check counts write skews, which are allowed.
//
// Histories of sets can be checked too. Each possible element of a set is then a list of
// its own; see [Set].
package isolation

import (
	"fmt"
	"strings"
	"time"
)

// A Txn is a transaction as its client saw it. A transaction first reads, from a single
// state, and then appends.
type Txn struct {
	Name              string // for messages
	Session           int    // a session runs its transactions one after another
	Invoked, Returned time.Duration
	Outcome           Outcome
	// Fresh is set if the transaction began on a state that includes all transactions
	// that had returned when this one was invoked.
	Fresh   bool
	Reads   []Read
	Appends []Append
}

// An Outcome is what a client knows about the end of a transaction.
type Outcome int

// The outcomes of a transaction. A failed transaction has certainly changed nothing.
const (
	OK Outcome = iota
	Failed
	Unknown
)

// A Read is the contents of a list that a transaction read.
type Read struct {
	Key  string
	List []string
}

// An Append adds values at the end of a list. No other transaction adds one of these
// values to the list.
type Append struct {
	Key    string
	Values []string
}

// Set returns the reads that represent a read of a set. The parameter all lists the
// possible values of the set. The parameter has is a function that must report whether the set
// contained a value. In a whole history, each value must be added to the set at most once.
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

// Element returns the key of the list that represents a value of a set.
func Element(key, value string) string { return key + "\x00" + value }

// An Anomaly is something that snapshot isolation forbids.
type Anomaly struct {
	Kind string
	Text string // what happened, in lines
}

func (a Anomaly) String() string { return a.Kind + "\n" + a.Text }

// A Report is the result of a check.
type Report struct {
	Anomalies []Anomaly
	Skews     int // groups of transactions without a serial order; they are allowed
}

// Check looks for anomalies in a whole history.
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

// describe returns a description of a transaction.
func (t *Txn) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s [%v, %v]", t.Name, t.Invoked.Round(time.Microsecond), t.Returned.Round(time.Microsecond))
	for _, a := range t.Appends {
		fmt.Fprintf(&b, " append %s %q", shown(a.Key), a.Values)
	}
	return b.String()
}

func shown(key string) string { return strings.ReplaceAll(key, "\x00", "/") }
