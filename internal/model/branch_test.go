package model

import "fmt"

// In the model "branch", a branch has commits B0 on row 0 and B1 on row 1. The branch is
// merged either by the server of slot 0, as m0, or by the server of slot 2, as m1. Slot 0
// may be recovered, while its server continues as if the slot had not been recovered. T
// is a commit of slot 1. The model includes marks, the sets U, A and C, the branch's
// cell, which names its merge, and the purge of marks. The branch's base contains no
// commit of other servers.

const ( // revisions, as bits
	revB0 = iota
	revB1
	revT
	revM0
	revM1
	revisions
)

type mergeT struct {
	at, snap, conf, sequence, rows uint8
	seen                           int8
}

type branchState struct {
	p               [3]mergeT // T, m0, m1
	marks           [2]uint8
	journal         [revisions]uint8
	head            [3]int8 // heads of the slots 0 (m0), 1 (T) and 2 (m1)
	a, u, c         uint8
	slot, step      uint8 // state of slot 0, and step of its recovery
	dead            bool
	cell, by        uint8 // state of the branch's cell, and the merge that the cell names
	branchHead      int8
	sequence        uint8
	b1              uint8
	copied, copySeq uint8 // a second copy of m0's swap of the branch's cell
	acked           uint8
	purged          int8
	memory
}

const ( // states of the branch's cell
	merging = 1
	merged  = 2
)

const (
	bBegins uint8 = iota
	bTakes
	bSwaps // mergers swap the branch's cell from open to merging
	bJournals
	bMarks0
	bMarks1
	bReads0
	bReads1
	bResolves
	bDecides
	bPublishes
	bAborts
	bErases0
	bErases1
	bReopens // mergers swap the branch's cell from merging to open
	bClean
	bDone
)

type branchModel struct {
	rank                [revisions]int8
	rows                uint8 // the rows that T writes, as bits
	second, two, renews bool  // whether B1 runs, m1 runs, and idle slots renew
	purges              bool
	// The rules that a variant drops.
	passEarly, bytesRepeat, readNew, noMarks, oldList, byJournal, reopenEarly, ownIDs, lowID, ignoreBase bool
	reach                                                                                                func(*branchState) bool
}

func slotOfRev(r int) int { return [revisions]int{-1, -1, 1, 0, 2}[r] }

func (m *branchModel) showsRev(s *branchState, r int) bool {
	n := slotOfRev(r)
	ok := m.rank[r] <= s.head[n] && (s.a|s.u)>>r&1 == 0
	return ok || n == 0 && s.slot >= closed && s.c>>r&1 == 1
}

// visible returns T if it is visible, and the merge that makes the branch visible.
func (m *branchModel) visible(s *branchState) (v uint8) {
	if m.showsRev(s, revT) {
		v |= 1 << revT
	}
	if s.cell != open && m.showsRev(s, int(s.by)) {
		v |= 1 << s.by
	}
	return v
}

func (m *branchModel) low(s *branchState) int8 {
	low := min(s.head[1], s.head[2])
	if s.slot < swept {
		low = min(low, s.head[0])
	}
	for r := revT; r < revisions; r++ {
		if s.u>>r&1 == 1 && (slotOfRev(r) != 0 || s.slot < swept) {
			low = min(low, m.rank[r]-1)
		}
	}
	return low
}

// upTo returns what a reader at time t sees. A merge is seen from the time of its own
// id.
func (m *branchModel) upTo(t int8) (set uint8) {
	for r := revT; r < revisions; r++ {
		id := m.rank[r]
		if r != revT && m.ownIDs {
			id = m.rank[revB0]
		}
		if id <= t {
			set |= 1 << r
		}
	}
	return set
}

func (s *branchState) committed() uint8 { return committedIn(s.journal[:]) }

func (m *branchModel) branchRows(s *branchState) uint8 {
	if s.branchHead >= m.rank[revB1] {
		return 3
	}
	return 1
}

func (m *branchModel) note(s *branchState) {
	s.keep(m.visible(s)&s.committed(), m.low(s), m.upTo)
}

func (m *branchModel) check(s *branchState) string {
	v := m.visible(s)
	switch {
	case m.reach != nil && m.reach(s):
		return "reached"
	case s.failure != kept:
		return s.failure.String()
	case s.acked&^(1<<revB1)&^v != 0:
		return "an acknowledged commit or merge is not visible"
	case s.acked>>revB1&1 == 1 && s.branchHead < m.rank[revB1]:
		return "an acknowledged commit of the branch is lost"
	case s.cell == merged && v>>s.by&1 == 0:
		return "the branch is lost: its cell says merged, the merge is void"
	}
	for r := revM0; r <= revM1; r++ {
		if s.journal[r] == committed && m.showsRev(s, r) && v>>r&1 == 0 {
			return fmt.Sprintf("m%d is committed and visible, the branch's cell does not name it", r-revM0)
		}
	}
	if marked := (s.marks[0] | s.marks[1]) >> revT & 1; v>>revT&1 == 1 && s.journal[revT] != committed && marked == 1 {
		return "T is visible and not committed"
	}
	if s.cell != open && v>>s.by&1 == 1 {
		return m.checkMerged(s, v)
	}
	return ""
}

func (m *branchModel) checkMerged(s *branchState, v uint8) string {
	by := int(s.by)
	if s.journal[by] != committed {
		return fmt.Sprintf("the branch is visible, its merge m%d is not committed", by-revM0)
	}
	if o := revM0 + revM1 - by; s.journal[o] == committed && m.showsRev(s, o) {
		return "the branch is merged twice"
	}
	if v>>revT&1 == 1 && s.journal[revT] == committed {
		saw := s.p[0].snap>>by&1 == 1
		if !saw && m.rows&m.branchRows(s) != 0 {
			return "T and the branch wrote one row and neither saw the other"
		}
		if saw && m.rank[revT] < m.rank[by] {
			return "T saw the merge, which has a larger id"
		}
	}
	if m.rank[by] < s.branchHead {
		return "the merge has a smaller id than a commit of its branch"
	}
	return ""
}

func (m *branchModel) next(s branchState, emit0 Emit[branchState]) {
	emit := func(n branchState, what string, a, b int) { m.note(&n); emit0(n, what, a, b) }
	for p := range s.p {
		if !(p == 1 && s.dead) && (p < 2 || m.two) {
			m.commit(s, p, emit)
		}
	}
	for slot := range s.head {
		m.publish(s, slot, emit)
	}
	m.recover(s, emit)
	if m.second {
		m.commitB1(s, emit)
	}
	if s.copied == 1 && s.cell == open && (s.sequence == s.copySeq || m.bytesRepeat) && s.branchHead == m.rank[revB0] {
		n := s
		n.copied, n.cell, n.by = 2, merging, revM0
		n.sequence++
		emit(n, "a second copy of m0's swap of the branch's cell is done", 0, 0)
	}
	if s.cell == merging {
		m.help(s, emit)
	}
	if m.purges {
		m.purge(s, emit)
	}
}

// purge deletes marks. While the branch is not merged, it deletes only marks up to the
// branch's base.
func (m *branchModel) purge(s branchState, emit Emit[branchState]) {
	bound := m.low(&s)
	if s.cell != merged && !m.ignoreBase {
		bound = 0 // the base shows no commit of other servers
	}
	for p := range s.p {
		if at := s.p[p].at; at > bBegins && at < bPublishes {
			bound = min(bound, 0) // a snapshot is in use
			if p > 0 && m.ignoreBase {
				bound = m.low(&s) // a merge's snapshot is its base
			}
		}
	}
	if bound > s.purged {
		s.purged = bound
		for r := revT; r < revisions; r++ {
			if m.rank[r] <= bound {
				s.marks[0] &^= 1 << r
				s.marks[1] &^= 1 << r
			}
		}
		emit(s, "marks up to %d are deleted", int(bound), 0)
	}
}

// commitB1 does the next step of B1, the branch's second commit, which the owner makes.
func (m *branchModel) commitB1(s branchState, emit Emit[branchState]) {
	switch {
	case s.b1 == 0 && s.cell == open:
		s.b1, s.journal[revB1] = 1, pending
		emit(s, "B1: journal P on the branch", 0, 0)
	case s.b1 == 1:
		s.b1, s.journal[revB1] = 2, committed
		emit(s, "B1: journal C", 0, 0)
	case s.b1 == 2 && s.cell == open:
		s.b1, s.branchHead = 3, m.rank[revB1]
		s.sequence++
		s.acked |= 1 << revB1
		emit(s, "B1 is published in the branch's cell and acknowledged", 0, 0)
	}
}

// help moves the branch's cell out of the state merging. Any server may do this, and may
// abort the merge.
func (m *branchModel) help(s branchState, emit Emit[branchState]) {
	by := int(s.by)
	visible := m.showsRev(&s, by)
	over := slotOfRev(by) == 0 && s.slot >= closed
	n := s
	if s.journal[by] < committed {
		n.journal[by] = aborted
		emit(n, "somebody takes m%d back", by-revM0, 0)
	}
	n = s
	n.sequence++
	switch {
	case m.byJournal && over && s.journal[by] == committed:
		n.cell = merged
		emit(n, "help: m%d is committed, the branch is merged", by-revM0, 0)
	case m.reopenEarly && !visible:
		n.cell = open
		emit(n, "help: m%d is not visible, the branch is open", by-revM0, 0)
	case over && !visible, !over && s.journal[by] == aborted:
		n.cell = open
		emit(n, "help: m%d is void, the branch is open", by-revM0, 0)
	case visible && s.journal[by] == committed:
		n.cell = merged
		emit(n, "help: m%d is visible, the branch is merged", by-revM0, 0)
	}
}

func (m *branchModel) commit(s branchState, p int, emit Emit[branchState]) {
	t, r := &s.p[p], revT+p
	merger := p > 0
	b := uint8(1) << r
	rows := m.rows
	if merger {
		rows = t.rows
	}
	switch t.at {
	case bBegins:
		m.begin(s, p, emit)
	case bTakes:
		if m.rank[r] <= t.seen || m.rank[r] <= s.head[slotOfRev(r)] {
			return
		}
		if t.at = bJournals; merger {
			t.at = bSwaps
		}
		emit(s, "%d takes id %d (0 is T, 1 m0, 2 m1)", p, int(m.rank[r]))
	case bSwaps:
		m.swapBranch(s, p, emit)
	case bJournals:
		t.at = bMarks0
		if s.journal[r] == 0 {
			s.journal[r] = pending
		} else if t.at = bClean; merger {
			t.at = bReopens
		}
		emit(s, "%d: journal %d", p, int(s.journal[r]))
	case bMarks0, bMarks1:
		k := int(t.at - bMarks0)
		if rows>>k&1 == 1 && !(merger && m.noMarks) {
			s.marks[k] |= b
		}
		if t.at++; t.at == bMarks1 && rows&2 == 0 {
			t.at++
		}
		emit(s, "%d marks row %d", p, k)
	case bReads0, bReads1:
		k := int(t.at - bReads0)
		if rows>>k&1 == 1 {
			met := s.marks[k] &^ b
			// Ignore marks of commits that the snapshot shows. A merger ignores none,
			// because its base shows no commit of other servers.
			if !merger || m.readNew {
				met &^= t.snap
			}
			t.conf |= met
		}
		if t.at++; t.at == bReads1 && rows&2 == 0 {
			t.at++
		}
		emit(s, "%d reads back, it meets %05b", p, int(t.conf))
	case bResolves:
		m.resolve(s, p, emit)
	case bDecides:
		if t.at = bAborts; s.journal[r] == pending {
			s.journal[r], t.at = committed, bPublishes
		}
		emit(s, "%d decides, journal %d", p, int(s.journal[r]))
	case bPublishes:
		if m.visible(&s)&b != 0 {
			s.acked |= b
			t.at = bDone
			emit(s, "%d is acknowledged", p, 0)
		}
	case bAborts:
		if s.journal[r] != committed {
			s.journal[r] = aborted
		}
		t.at = bErases0
		emit(s, "%d: journal A", p, 0)
	case bErases0, bErases1:
		s.marks[t.at-bErases0] &^= b
		if t.at++; t.at == bErases1 && s.marks[1]&b == 0 {
			t.at++
		}
		if t.at == bReopens && !merger {
			t.at = bClean
		}
		emit(s, "%d is rolled back", p, 0)
	case bReopens:
		if s.cell == merging && int(s.by) == r {
			s.cell = open
			s.sequence++
		}
		t.at = bClean
		emit(s, "%d: the branch's cell is open, if it named it", p, 0)
	}
}

func (m *branchModel) begin(s branchState, p int, emit Emit[branchState]) {
	t := &s.p[p]
	if p > 0 && s.cell != open {
		return
	}
	t.snap = m.visible(&s) & s.committed()
	t.seen = max(s.head[0], s.head[1], s.head[2])
	for r := revT; r < revisions; r++ {
		if s.slot >= closed && s.c>>r&1 == 1 {
			t.seen = max(t.seen, m.rank[r])
		}
	}
	if p > 0 {
		t.sequence, t.rows = s.sequence, m.branchRows(&s)
		if !m.lowID {
			t.seen = max(t.seen, s.branchHead)
		}
	}
	t.at = bTakes
	emit(s, "%d begins, it sees %05b", p, int(t.snap))
}

// swapBranch swaps the branch's cell. The rows of the merge are the rows in the cell
// that the swap compares with.
func (m *branchModel) swapBranch(s branchState, p int, emit Emit[branchState]) {
	t, r := &s.p[p], revT+p
	same := s.sequence == t.sequence || m.bytesRepeat && !m.second || m.oldList
	if s.cell != open || !same {
		t.at = bDone
		emit(s, "%d: the branch's cell has changed, it gives up", p, 0)
		return
	}
	if r == revM0 {
		s.copied, s.copySeq = 1, s.sequence
	}
	s.cell, s.by = merging, uint8(r)
	s.sequence++
	t.at = bJournals
	emit(s, "%d: the branch's cell is merging", p, 0)
}

func (m *branchModel) resolve(s branchState, p int, emit Emit[branchState]) {
	t, r := &s.p[p], revT+p
	t.at = bDecides
	for o := revT; o < revisions; o++ {
		if t.conf>>o&1 == 0 {
			continue
		}
		t.at = bResolves
		t.conf &^= 1 << o
		gone := slotOfRev(o) == 0 && s.slot >= closed && !m.showsRev(&s, o)
		switch {
		case gone || s.a>>o&1 == 1 || s.journal[o] == aborted:
		case s.journal[o] == committed, s.journal[o] == pending && m.rank[o] < m.rank[r]:
			t.at, t.conf = bAborts, 0
		default:
			s.journal[o] = aborted
		}
		emit(s, "%d settles with %d", p, o-revT)
		return
	}
	emit(s, "%d meets nobody more", p, 0)
}

func (m *branchModel) publish(s branchState, slot int, emit Emit[branchState]) {
	if slot == 0 && (s.slot != open || s.dead) {
		return
	}
	r := [3]int{revM0, revT, revM1}[slot]
	b := uint8(1) << r
	at := s.p[r-revT].at
	for _, h := range []int8{s.head[slot], m.rank[r], m.rank[revB0], 6} {
		if h < s.head[slot] || !m.renews && h != s.head[slot] && h != m.rank[r] {
			continue
		}
		n := s
		n.head[slot] = h
		n.u &^= b
		undecided := at >= bSwaps && at <= bDecides || at >= bAborts && at < bReopens || at == bReopens && !m.passEarly
		if m.rank[r] <= h && undecided {
			n.u |= b
		}
		if n != s {
			emit(n, "slot %d publishes head %d", slot, int(h))
		}
	}
}

func (m *branchModel) recover(s branchState, emit Emit[branchState]) {
	b := uint8(1) << revM0
	step := s.step
	s.step++
	switch step {
	case 0:
		s.slot = recovering
		emit(s, "R0: slot 0 is recovering", 0, 0)
	case 1:
		if m.rank[revM0] > s.head[0] || s.u&b != 0 {
			switch s.journal[revM0] {
			case pending:
				s.journal[revM0] = aborted
			case committed:
				s.c |= b
			}
		}
		emit(s, "R1: m0, journal %d", int(s.journal[revM0]), 0)
	case 2:
		if s.journal[revM0] == aborted {
			s.marks[0] &^= b
			s.marks[1] &^= b
		}
		emit(s, "R2: rolls back", 0, 0)
	case 3:
		s.slot = closed
		emit(s, "R3: slot 0 is closed, C=%05b", int(s.c), 0)
	case 4:
		if !m.showsRev(&s, revM0) {
			s.marks[0] &^= b
			s.marks[1] &^= b
		}
		s.slot, s.dead = swept, true
		if s.copied == 1 {
			s.copied = 2
		}
		emit(s, "R4: slot 0 is swept", 0, 0)
	}
}

func branchVariants() (vs []variant) {
	type config struct {
		rows                uint8
		second, two, renews bool
		rank                [revisions]int8
	}
	ranks := [][revisions]int8{{2, 3, 1, 4, 5}, {2, 3, 4, 5, 6}, {2, 3, 5, 4, 6}, {2, 3, 6, 5, 4}, {2, 4, 5, 3, 6}}
	var configs []config
	for _, c := range []struct {
		config
		n int
	}{{config{1, false, false, true, ranks[0]}, 3}, {config{2, true, false, false, ranks[0]}, 5},
		{config{3, true, false, false, ranks[0]}, 3}, {config{1, false, true, false, ranks[0]}, 4}, {config{2, true, true, false, ranks[0]}, 2}} {
		for _, rank := range ranks[:c.n] {
			c.rank = rank
			configs = append(configs, c.config)
		}
	}
	add := func(name string, k kind, change func(*branchModel), only ...config) {
		v := variant{name: name, kind: k}
		if len(only) == 0 {
			only = configs
		}
		for _, c := range only {
			m := &branchModel{rank: c.rank, rows: c.rows, second: c.second, two: c.two, renews: c.renews}
			change(m)
			init := branchState{branchHead: 2}
			init.journal[revB0] = committed
			v.tries = append(v.tries, func(limit int) Report {
				return Model[branchState]{Init: init, Next: m.next, Check: m.check}.Explore(limit)
			})
		}
		vs = append(vs, v)
	}
	add("two mergers, a commit, recovery, helpers", holds, func(*branchModel) {})
	add("beside the purge of marks", holds, func(m *branchModel) { m.purges = true })
	add("witness: one merge lost with its server, the other acknowledged", witness, func(m *branchModel) {
		m.reach = func(s *branchState) bool {
			return s.journal[revM0] == aborted && s.slot == swept && s.cell == merged && s.acked>>revM1&1 == 1
		}
	}, config{1, false, true, false, ranks[0]})
	add("the head passes a merge that the branch still names", breaks, func(m *branchModel) { m.passEarly = true })
	add("the bytes of the branch's cell repeat", breaks, func(m *branchModel) { m.bytesRepeat = true })
	add("a merge meets what its server's snapshot does not show", breaks, func(m *branchModel) { m.readNew = true })
	add("a merge places no marks", breaks, func(m *branchModel) { m.noMarks = true })
	add("the rows are not of the cell that is compared", breaks, func(m *branchModel) { m.oldList = true },
		config{2, true, false, false, ranks[0]}, config{2, true, false, false, ranks[1]}, config{2, true, false, false, ranks[2]})
	add("a helper goes by the journal", breaks, func(m *branchModel) { m.byJournal = true })
	add("a helper opens a branch whose merge is not visible yet", breaks, func(m *branchModel) { m.reopenEarly = true })
	add("a moment shows a branch by its own ids", breaks, func(m *branchModel) { m.ownIDs = true })
	add("the merge's id is not above the branch's head", breaks, func(m *branchModel) { m.lowID = true },
		config{2, true, false, false, ranks[4]})
	add("marks above an open branch's base are purged", breaks, func(m *branchModel) { m.purges, m.ignoreBase = true, true })
	return vs
}
