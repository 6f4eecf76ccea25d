package txn

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/journal"
	"github.com/seed-4dac0d86/ldapd/revision"
	"github.com/seed-4dac0d86/ldapd/table"
)

// An oracle sees all that is done at a simulated store and holds it to the
// invariants I1 to I7 of transactions.md, after every step (I8, of garbage collection,
// is held by the tests in gc_test.go and a model). The first that is
// broken ends the history.
type oracle struct {
	net *net
	log *journal.Log // of the store without the net

	commits map[table.Revision]*commitSeen
	order   []table.Revision // keys of commits, in the order they were begun
	heads   *journal.Heads
	states  map[string]int // I7: which state of the heads a snapshot is of
	stable  table.Revision // the largest low-water mark there was
	marks   map[string][]*commitSeen
	broken  string

	recovering map[revision.Slot]*node // who fenced the slot's holder
}

// A commitSeen is what the oracle knows of a revision.
type commitSeen struct {
	r       table.Revision
	state   journal.State
	owner   *node           // who began it
	rows    int             // of its write list
	cells   map[string]bool // rows that have cells of it
	attempt *attempt        // of the simulation's clients; nil: not known
	shown   bool            // it was visible once
}

// An attempt is what a client knows of a try to commit.
type attempt struct {
	n        int // of the transaction
	op       simOp
	snapshot *revision.Vector
	low      table.Revision
	marks    []markRow
}

func newOracle(n *net) *oracle {
	return &oracle{
		net: n, log: journal.New(n.mem),
		commits: map[table.Revision]*commitSeen{}, states: map[string]int{"": 0}, marks: map[string][]*commitSeen{},
		recovering: map[revision.Slot]*node{},
	}
}

func (o *oracle) breaks(format string, args ...any) {
	if o.broken == "" {
		o.broken = fmt.Sprintf("%v: ", o.net.now()) + fmt.Sprintf(format, args...)
	}
}

func (o *oracle) commit(r table.Revision) *commitSeen {
	c := o.commits[r]
	if c == nil {
		c = &commitSeen{r: r, cells: map[string]bool{}}
		o.commits[r] = c
		o.order = append(o.order, r)
	}
	return c
}

// applied: cells were written.
func (o *oracle) applied(t simTable, r table.Revision, ms []table.Mutation) {
	c := o.commit(r)
	if c.state == journal.None && len(ms) > 0 {
		o.breaks("I1: cells of %s are written, its journal row is not there", revision.String(r))
	}
	for _, m := range ms {
		c.cells[t.name+"/"+string(m.Row)] = true
	}
	o.judge(c)
}

// erased: cells were removed.
func (o *oracle) erased(t simTable, r table.Revision, rows [][]byte) {
	c := o.commit(r)
	for _, row := range rows {
		delete(c.cells, t.name+"/"+string(row))
	}
	o.judge(c)
}

// swapped: a row of the journal or of the cluster was changed.
func (o *oracle) swapped(t simTable, row, q, old []byte, cells []table.Cell) {
	switch {
	case t.name == journal.Table && len(row) == 10:
		o.decided(t.node, table.Revision(binary.BigEndian.Uint64(row[2:])), old, cells[0].Value)
	case t.name == journal.Cluster && string(row) == "heads":
		o.headChanged(t.node, revision.Slot(binary.BigEndian.Uint16(q)), old, cells[0].Value)
	}
}

// decided: I2.
func (o *oracle) decided(by *node, r table.Revision, old, now []byte) {
	c := o.commit(r)
	to := journal.State(now[1])
	switch {
	case old == nil && to == journal.Pending:
		c.owner = by
		rec, err := o.log.Get(context.Background(), r)
		if err != nil {
			o.breaks("I2: %v", err)
		}
		for _, t := range rec.Rows {
			c.rows += len(t.Keys)
		}
	case old == nil && to == journal.Aborted:
	case c.state != journal.Pending:
		o.breaks("I2: %s goes from %c to %c", revision.String(r), c.state, to)
	case to == journal.Committed && by != c.owner:
		o.breaks("I2: %s is committed by another server than began it", revision.String(r))
	}
	c.state = to
	o.judge(c)
}

// headChanged: I3 of the slot, then what the new heads show.
func (o *oracle) headChanged(by *node, s revision.Slot, old, now []byte) {
	after, err := revision.DecodeCell(now)
	var before revision.Cell
	if err == nil && old != nil {
		before, err = revision.DecodeCell(old)
	}
	if err != nil {
		o.breaks("I3: %v", err)
		return
	}
	o.recovers(by, s, &after)
	if after.Sequence <= before.Sequence || after.Incarnation < before.Incarnation ||
		after.Incarnation == before.Incarnation && after.Head < before.Head {
		o.breaks("I3: slot %d goes from %+v to %+v", s, before, after)
	}
	if after.Incarnation > before.Incarnation && after.First <= max(before.Head, before.Limit) {
		o.breaks("I3: slot %d: incarnation %d begins at %s, before %s", s, after.Incarnation, revision.String(after.First), revision.String(max(before.Head, before.Limit)))
	}
	if o.heads, err = o.log.Heads(context.Background()); err != nil {
		o.breaks("heads: %v", err)
		return
	}
	o.states[stateKey(o.heads.Vector)] = len(o.states)
	for _, r := range o.order {
		o.judge(o.commits[r])
	}
	o.stable = max(o.stable, o.heads.Stable())
}

// recovers counts slots that one server began to recover and another one closed.
func (o *oracle) recovers(by *node, s revision.Slot, after *revision.Cell) {
	switch {
	case after.State == revision.Recovering:
		o.recovering[s] = by
	case after.State == revision.Closed && o.recovering[s] != nil && o.recovering[s] != by && !o.recovering[s].crashed:
		o.net.faults.both++
	}
}

// stateKey names a state of the heads.
func stateKey(v *revision.Vector) string {
	var b []byte
	for _, s := range v.Slots() {
		c := v.Cell(s)
		b = binary.BigEndian.AppendUint16(b, uint16(s))
		b = binary.AppendUvarint(b, c.Sequence)
	}
	return string(b)
}

// judge holds one revision to I3 to I6.
func (o *oracle) judge(c *commitSeen) {
	if o.heads == nil {
		return
	}
	visible := o.heads.Visible(c.r)
	name := revision.String(c.r)
	switch {
	case c.shown && !visible:
		o.breaks("I3: %s was visible and is no more", name)
	case visible && c.state != journal.Committed && len(c.cells) > 0:
		o.breaks("I4: %s is visible, has cells and is in state %q", name, string(c.state))
	case visible && c.state == journal.Committed && len(c.cells) != c.rows:
		o.breaks("I4: %s is visible, committed, and has cells in %d of %d rows", name, len(c.cells), c.rows)
	case visible && c.state == journal.Committed && c.r > o.heads.Max():
		o.breaks("I7: %s is visible and above all that a snapshot reads", name)
	case !visible && len(c.cells) > 0 && c.r <= o.heads.Low() && !o.net.unsettled:
		o.breaks("I4: %s has cells below the low-water mark and is not visible", name)
	}
	if visible && c.state == journal.Committed && !c.shown {
		if c.r <= o.stable {
			o.breaks("I3: %s appears below what was settled already", name)
		}
		c.shown = true
		o.appears(c)
	}
}

// appears: I6, of two commits with incompatible marks one saw the other.
func (o *oracle) appears(c *commitSeen) {
	a := c.attempt
	if a == nil {
		return
	}
	for _, m := range a.marks {
		row := m.table + "/" + string(m.row)
		for _, other := range o.marks[row] {
			if other == c || !slices.ContainsFunc(other.attempt.marks, func(x markRow) bool {
				return x.table == m.table && bytes.Equal(x.row, m.row) && x.mark.conflicts(m.mark)
			}) {
				continue
			}
			if !a.snapshot.Visible(other.r) && !other.attempt.snapshot.Visible(c.r) {
				o.breaks("I6: %s and %s conflict in %s and neither saw the other", revision.String(other.r), revision.String(c.r), row)
			}
		}
		o.marks[row] = append(o.marks[row], c)
	}
}

// begins: I7 and the beginning of I5: what a transaction begins at.
func (o *oracle) begins(v *revision.Vector, newest int) int {
	at, ok := o.states[stateKey(v)]
	if !ok {
		o.breaks("I7: a snapshot of heads that there never were")
	}
	if at < newest {
		o.breaks("I7: a snapshot older than one before it")
	}
	return at
}

// issued: I5, of a revision that a client's transaction gets.
func (o *oracle) issued(r table.Revision, a *attempt) {
	if r <= a.snapshot.Max() {
		o.breaks("I5: %s saw %s", revision.String(r), revision.String(a.snapshot.Max()))
	}
	// What the store's clock was measured by may have been on its way for long.
	latest := virtualTime().Add(o.net.o.Drift + 2*o.net.o.Lease + o.net.o.Settle)
	if at := revision.Time(r); at.After(latest) {
		o.breaks("%s leads the store's clock by %v", revision.String(r), at.Sub(virtualTime()))
	}
	o.commit(r).attempt = a
}
