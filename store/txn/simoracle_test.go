package txn

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// An oracle observes all calls executed at a simulated store and checks the invariants I1
// to I8 of transactions.md after every step. The first violation ends the history.
type oracle struct {
	net *net
	log *journal.Log // reads the store directly, without the net

	commits map[table.Revision]*commitSeen
	order   []table.Revision // the keys of commits, in the order in which the commits began
	heads   *revision.Vector
	states  map[string]int // numbers the states of the heads, for I7
	stable  table.Revision // the largest low-water mark so far
	marks   map[string][]*commitSeen
	broken  string

	cells      map[revision.Slot]revision.Cell // the cells from which heads was made
	archives   map[revision.Slot][]revision.Archive
	recovering map[revision.Slot]*node // the server that fenced the slot's holder
	staged     map[stagedID]*try
}

// A commitSeen is the oracle's information about a commit.
type commitSeen struct {
	r       table.Revision
	state   journal.State
	owner   *node           // the server that began the commit
	rows    int             // number of rows in the write list
	cells   map[string]bool // rows that contain cells of the commit
	attempt *try            // the client's attempt, or nil if unknown
	shown   int             // number of the first state of the heads that showed the commit, or 0
	by      table.Revision  // the revision that makes the commit visible: the commit's own, or that of the merge of its branch
	void    bool            // the slot was closed without the commit
	// collected is set if garbage collection may have removed cells of the commit.
	collected bool
}

// A try is a client's information about one attempt to commit.
type try struct {
	n        int // number of the transaction
	op       simOp
	snapshot table.View
	low      table.Revision
	marks    []markRow
	branch   *node // for an attempt in a branch, the server that made it; otherwise nil
}

func newOracle(n *net) *oracle {
	return &oracle{
		net: n, log: journal.New(n.mem),
		commits: map[table.Revision]*commitSeen{}, states: map[string]int{"": 0}, marks: map[string][]*commitSeen{},
		cells:    map[revision.Slot]revision.Cell{},
		staged:   map[stagedID]*try{},
		archives: map[revision.Slot][]revision.Archive{}, recovering: map[revision.Slot]*node{},
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

// applied checks I1 when cells are written.
func (o *oracle) applied(t simTable, r table.Revision, ms []table.Mutation) {
	c := o.commit(r)
	if c.state == journal.None && len(ms) > 0 {
		o.breaks("I1: cells of %s are written, its journal row is not there", r)
	}
	for _, m := range ms {
		c.cells[t.name+"/"+string(m.Row)] = true
	}
	o.judge(c)
}

// erased checks the removal of a commit's cells.
func (o *oracle) erased(t simTable, r table.Revision, rows [][]byte) {
	c := o.commit(r)
	for _, row := range rows {
		delete(c.cells, t.name+"/"+string(row))
	}
	o.judge(c)
}

// swapped checks a change to a row of the journal or of the cluster table.
func (o *oracle) swapped(t simTable, row, q, old []byte, cells []table.Cell) {
	switch {
	case t.name == journal.Table && len(row) == 10:
		o.decided(t.node, table.Revision(binary.BigEndian.Uint64(row[2:])), old, cells[0].Value)
	case isFloor(t.name, row, q): // horizonSlot, which belongs to no server
	case t.name == journal.Cluster && string(row) == "heads":
		o.headChanged(t.node, revision.Slot(binary.BigEndian.Uint16(q)), cells[0].Value)
	case t.name == journal.Cluster && bytes.HasPrefix(row, []byte("archive")):
		o.archived(revision.Slot(binary.BigEndian.Uint16(row[len("archive"):])), cells[0].Value)
	}
}

// decided checks I2 when the state of a commit changes.
func (o *oracle) decided(by *node, r table.Revision, old, now []byte) {
	c := o.commit(r)
	to := journal.State(now[1])
	byCell := now[0] == 2 // see journal.Record.ByCell
	switch {
	case old == nil && (byCell || revision.SlotOf(r).IsBranch()) == (to == journal.Committed):
		if to == journal.Aborted {
			break
		}
		c.owner = by
		if a := o.staged[stagedID{by, r}]; a != nil {
			c.attempt = a
		}
		rec, err := o.log.Get(context.Background(), r)
		if err != nil {
			o.breaks("I2: %v", err)
		}
		for _, t := range rec.Rows {
			c.rows += len(t.Keys)
		}
	case old == nil:
		o.breaks("I2: %s begins as %c", r, to)
	case byCell && c.state == journal.Committed && to == journal.Aborted && !o.heads.Visible(r):
	case c.state != journal.Pending:
		o.breaks("I2: %s goes from %c to %c", r, c.state, to)
	case to == journal.Committed && by != c.owner:
		o.breaks("I2: %s is committed by another server than began it", r)
	}
	c.state = to
	o.judge(c)
}

// headChanged checks I3 for the slot, and then checks every commit against the new heads.
func (o *oracle) headChanged(by *node, s revision.Slot, now []byte) {
	after, err := revision.DecodeCell(now)
	if err != nil {
		o.breaks("I3: %v", err)
		return
	}
	before := o.cells[s]
	o.recovers(by, s, &after)
	if s.IsBranch() && !followsInBranch(&before, &after) || !s.IsBranch() && !follows(&before, &after) {
		o.breaks("I3: slot %d goes from %+v to %+v", s, before, after)
	}
	if after.Incarnation > before.Incarnation && after.First <= max(before.Head, before.Limit) {
		o.breaks("I3: slot %d: incarnation %d begins at %s, before %s", s, after.Incarnation, after.First, max(before.Head, before.Limit))
	}
	for other, c := range o.cells {
		if other != s && inProgress(after) && inProgress(c) && nameIn(&c) == nameIn(&after) {
			o.breaks("the slots %d and %d have branches of the name %s", other, s, nameIn(&c))
		}
	}
	o.cells[s] = after
	o.heads = revision.NewVector(o.cells, o.archives)
	o.states[stateKey(o.heads)] = len(o.states)
	for _, r := range o.order {
		c := o.commits[r]
		c.void = c.void || after.State == revision.Closed && revision.SlotOf(r) == s && r >= after.First && !o.heads.Visible(r)
		o.judge(c)
	}
	o.stable = max(o.stable, o.heads.Stable())
}

// nameIn returns the name of the branch in a cell. The cell also has the next name while the
// branch is being renamed. Two cells may have one next name for a moment.
func nameIn(c *revision.Cell) string {
	name, _, _ := strings.Cut(c.Owner, "\x00")
	return name
}

// follows reports whether a slot's cell may change from the first to the second content.
// Heads must only grow, an incarnation must pass through its states from open to free,
// and a closed cell must keep its content.
func follows(before, after *revision.Cell) bool {
	if after.Incarnation == before.Incarnation+1 {
		return after.Sequence > before.Sequence && before.State == revision.Free && after.State == revision.Open
	}
	rank := func(c *revision.Cell) int {
		return slices.Index([]revision.State{revision.Open, revision.Recovering, revision.Closed, revision.Free}, c.State)
	}
	a, b := rank(before), rank(after)
	return after.Incarnation == before.Incarnation && after.Sequence > before.Sequence && after.Head >= before.Head &&
		(a < b || a == b && before.State == revision.Open)
}

// followsInBranch is like follows, for the cell of a branch. A merged branch must stay
// merged, void revisions must stay void, and a branch that is frozen or is being merged
// must get no new commits.
func followsInBranch(before, after *revision.Cell) bool {
	if after.Incarnation == before.Incarnation+1 {
		return after.Sequence > before.Sequence && before.State == revision.Free && after.State == revision.Recovering
	}
	for _, r := range before.Void {
		if !slices.Contains(after.Void, r) && after.State != revision.Free {
			return false
		}
	}
	next := map[revision.State][]revision.State{
		revision.Recovering: {revision.Open, revision.Closed},
		revision.Open:       {revision.Open, revision.Frozen, revision.Parked, revision.Closed},
		revision.Parked:     {revision.Parked, revision.Closed},
		revision.Frozen:     {revision.Frozen, revision.Open, revision.Merging, revision.Closed},
		revision.Merging:    {revision.Open, revision.Merged},
		revision.Merged:     {revision.Free}, revision.Closed: {revision.Free},
	}
	same := after.Head == before.Head || before.State == revision.Open && after.Head > before.Head ||
		after.State == revision.Closed || after.State == revision.Free
	return after.Incarnation == before.Incarnation && after.Sequence > before.Sequence && same &&
		slices.Contains(next[before.State], after.State)
}

// archived notes that the archive of a former holder was written.
func (o *oracle) archived(s revision.Slot, value []byte) {
	a, err := revision.DecodeArchive(value)
	if err != nil {
		o.breaks("archive: %v", err)
	}
	o.archives[s] = append(slices.Clip(o.archives[s]), a)
}

// recovers counts the slots whose recovery was begun by one server and completed by
// another server although the first server had not crashed.
func (o *oracle) recovers(by *node, s revision.Slot, after *revision.Cell) {
	switch {
	case s.IsBranch():
	case after.State == revision.Recovering:
		o.recovering[s] = by
	case after.State == revision.Closed && o.recovering[s] != nil && o.recovering[s] != by && !o.recovering[s].crashed:
		o.net.faults.both++
	}
}

// stateKey returns a key for a state of the heads.
func stateKey(v *revision.Vector) string {
	var b []byte
	for _, s := range v.Slots() {
		c := v.Cell(s)
		b = binary.BigEndian.AppendUint16(b, uint16(s))
		b = binary.AppendUvarint(b, c.Sequence)
	}
	return string(b)
}

// judge checks I3, I4, I6, I7 and R3 for one commit.
func (o *oracle) judge(c *commitSeen) {
	if o.heads == nil {
		return
	}
	visible := o.heads.Visible(c.r)
	name := c.r.String()
	switch {
	case c.shown > 0 && !visible:
		o.breaks("I3: %s was visible and is no more", name)
	case c.void && visible:
		o.breaks("R3: %s is visible although its slot was closed without it", name)
	case visible && c.state != journal.Committed && len(c.cells) > 0:
		o.breaks("I4: %s is visible, has cells and is in state %q", name, string(c.state))
	case visible && c.state == journal.Committed && len(c.cells) != c.rows && !c.collected:
		o.breaks("I4: %s is visible, committed, and has cells in %d of %d rows", name, len(c.cells), c.rows)
	case visible && c.state == journal.Committed && c.r > o.heads.Max():
		o.breaks("I7: %s is visible and above all that a snapshot reads", name)
	case !visible && len(c.cells) > 0 && c.r <= min(o.heads.Low(), o.heads.Settled(revision.Last)) && !o.net.unsettled:
		o.breaks("I4: %s has cells below the low-water mark and is not visible", name)
	}
	if visible && c.state == journal.Committed && c.shown == 0 {
		c.by = o.heads.ShownBy(c.r)
		if c.by <= o.stable {
			o.breaks("I3: %s appears below what was settled already", name)
		}
		c.shown = len(o.states) - 1
		o.appears(c)
	}
}

// appears checks I6 for a commit that becomes visible: of two commits with incompatible
// marks, one must have seen the other.
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
				o.breaks("I6: %s and %s conflict in %s and neither saw the other", other.r, c.r, row)
			}
		}
		o.marks[row] = append(o.marks[row], c)
	}
}

// begins checks I7 for a transaction that begins at the heads v. It returns the number of
// the state of these heads.
func (o *oracle) begins(v *revision.Vector, newest int) int {
	at, ok := o.states[stateKey(v)]
	if !ok {
		o.breaks("I7: a snapshot of heads that there never were")
	}
	if at < newest {
		o.breaks("I7: a snapshot older than one before it")
	}
	for _, r := range o.order {
		if c := o.commits[r]; c.state == journal.Committed && v.Visible(r) != c.stood(at) {
			o.breaks("I7: a snapshot shows %s: %v; when the heads were so it was: %v", r, v.Visible(r), c.stood(at))
		}
	}
	return at
}

// stood reports whether a commit was visible in the given state of the heads.
func (c *commitSeen) stood(at int) bool { return c.shown > 0 && c.shown <= at }

// answers checks the result of reading a snapshot. It must equal the result of replaying
// the operations that the snapshot shows, in the order of their revisions.
func (o *oracle) answers(at int, upTo table.Revision, got *simState) {
	if want := o.replay(at, upTo); !got.same(want) {
		o.breaks("a snapshot at %s reads %v, replaying what it shows gives %v", upTo, got, want)
	}
}

// replay returns the result of the operations that a state of the heads shows, up to a
// revision.
func (o *oracle) replay(at int, upTo table.Revision) *simState {
	s := newSimState()
	for _, r := range slices.Sorted(slices.Values(o.order)) {
		if c := o.commits[r]; c.attempt != nil && c.by <= upTo && c.stood(at) && !s.apply(c.attempt.n, c.attempt.op) {
			o.breaks("replaying in the order of revisions, transaction %d (%v) at %s is refused", c.attempt.n, c.attempt.op, r)
		}
	}
	return s
}

// issued checks I5 for the revision issued to a client's transaction.
func (o *oracle) issued(r table.Revision, a *try) {
	if r <= a.snapshot.Max() {
		o.breaks("I5: %s saw %s", r, a.snapshot.Max())
	}
	// The server may have waited a long time for its reading of the store's clock.
	latest := virtualTime().Add(o.net.o.Drift + 2*o.net.o.Lease + o.net.o.InFlight)
	if at := r.Time(); at.After(latest) {
		o.breaks("%s leads the store's clock by %v", r, at.Sub(virtualTime()))
	}
	if a.branch != nil {
		o.staged[stagedID{a.branch, r}] = a
		return
	}
	o.commit(r).attempt = a
}

// A stagedID names an attempt to commit in a branch. Two servers may try the same
// revision; only the server that reserves the revision in the branch's cell begins the
// commit.
type stagedID struct {
	by *node
	r  table.Revision
}
