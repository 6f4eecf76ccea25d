package model

import "fmt"

// In the model "branch", a branch has commits B0 on row 0 and B1 on row 1; the branch has
// its marks in these rows. The branch is merged either by the server of slot 0, as m0, or
// by the server of slot 2, as m1. A merger freezes the branch's cell, reads the marks of
// others in the branch's rows, writes the revision of its merge into the cell, writes the
// merge's row in the journal, and decides the merge. While the cell is frozen, nothing
// can be committed in the branch. Anybody may thaw the cell, that is, make it open again.
// A merger writes no marks. T is a commit of slot 1. After T has written its marks, it
// reads the branch's cell. Slot 0 may be recovered, while its server continues as if the
// slot had not been recovered. The branch's base contains neither T nor a merge.

const ( // the revisions; each is the number of its bit in a set of revisions
	revB0 = iota
	revB1
	revT
	revM0
	revM1
	revisions
)

type mergeT struct {
	at, snap, sequence, rows uint8
	seen                     int8
	conf, looked             bool
}

type branchState struct {
	p             [3]mergeT // T, m0, m1
	marks         [2]bool   // the rows that have a mark of T
	journal       [revisions]uint8
	head          [3]int8 // heads of the slots 0 (m0), 1 (T) and 2 (m1)
	a, u, c       uint8
	slot, step    uint8 // state of slot 0, and the next step of its recovery
	dead          bool
	cell, by      uint8 // state of the branch's cell, and the merge that the cell names
	branchHead    int8
	sequence      uint8
	b1            uint8
	freeze, named swapCopy // duplicates of m0's swaps of the branch's cell
	acked         uint8
	purged        int8
	memory
}

// A swapCopy is a duplicate of a compare-and-swap that m0 has sent to the branch's cell.
// It takes effect only if the cell still has the given sequence number.
type swapCopy struct {
	sent, over bool
	sequence   uint8
}

const ( // the states of the branch's cell, in addition to open
	frozen uint8 = iota + 1
	merging
	merged
	freed // the cell is archived, and the branch's marks are purged
)

const (
	bBegins uint8 = iota
	bFreezes
	bReads0
	bReads1
	bTakes
	bNames
	bJournals
	bMarks0
	bMarks1
	bLooks
	bDecides
	bPublishes
	bAborts
	bErases0
	bErases1
	bReopens // mergers swap the branch's cell back to open
	bClean
	bDone
)

type branchModel struct {
	rank                [revisions]int8
	rows                uint8 // the rows that T writes, as bits
	second, two, renews bool  // whether B1 runs, whether m1 runs, and whether idle slots advance their heads
	purges              bool
	// Each of these flags, if set, drops a rule of the protocol.
	noLook, lookEarly, noThaw, readEarly, readNew, noWait, looseRows, bytesRepeat, lowID bool
	passEarly, reopenEarly, byJournal, ownIDs, ignoreBase, freeEarly                     bool
	reach                                                                                func(*branchState) bool
}

func slotOfRev(r int) int { return [revisions]int{-1, -1, 1, 0, 2}[r] }

func (m *branchModel) showsRev(s *branchState, r int) bool {
	n := slotOfRev(r)
	ok := m.rank[r] <= s.head[n] && (s.a|s.u)>>r&1 == 0
	return ok || n == 0 && s.slot >= closed && s.c>>r&1 == 1
}

// visible returns the visible commits, as bits. It considers two commits: T, and the merge that
// the branch's cell names. If that merge is visible, so is the branch.
func (m *branchModel) visible(s *branchState) (v uint8) {
	if m.showsRev(s, revT) {
		v |= 1 << revT
	}
	if s.cell >= merging && m.showsRev(s, int(s.by)) {
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

// upTo returns the commits that a reader at time t sees, as bits. The reader sees a
// merge, and with it the branch, if the merge's id is at most t.
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
	case s.cell >= merged && v>>s.by&1 == 0:
		return "the branch is lost: its cell says merged, the merge is void"
	}
	for r := revM0; r <= revM1; r++ {
		if s.journal[r] == committed && m.showsRev(s, r) && v>>r&1 == 0 {
			return fmt.Sprintf("m%d is committed and visible, the branch's cell does not name it", r-revM0)
		}
	}
	if v>>revT&1 == 1 && s.journal[revT] != committed && (s.marks[0] || s.marks[1]) {
		return "T is visible and not committed"
	}
	if s.cell >= merging && v>>s.by&1 == 1 {
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
	m.repeat(s, emit)
	m.help(s, emit)
	if m.purges {
		m.purge(s, emit)
	}
}

// repeat lets duplicates of m0's swaps of the branch's cell take effect.
func (m *branchModel) repeat(s branchState, emit Emit[branchState]) {
	if c := s.freeze; c.sent && !c.over && s.cell == open && (s.sequence == c.sequence || m.bytesRepeat) {
		n := s
		n.freeze.over, n.cell, n.by = true, frozen, revM0
		n.sequence++
		emit(n, "a second copy of m0's swap to frozen is done", 0, 0)
	}
	if c := s.named; c.sent && !c.over && s.cell == frozen && (s.sequence == c.sequence || m.bytesRepeat && s.by == revM0) {
		n := s
		n.named.over, n.cell, n.by = true, merging, revM0
		n.sequence++
		emit(n, "a second copy of m0's swap to merging is done", 0, 0)
	}
}

// purge deletes T's marks, and frees the branch's cell together with the branch's marks.
// While the branch is not merged, purge deletes only marks up to the branch's base. It
// frees the cell when the branch is merged and every snapshot in use shows the merge.
func (m *branchModel) purge(s branchState, emit Emit[branchState]) {
	bound := m.low(&s)
	if s.cell < merged && !m.ignoreBase {
		bound = 0 // the base shows no commit of other servers
	}
	for p := range s.p {
		if at := s.p[p].at; at > bBegins && at < bPublishes {
			bound = min(bound, 0) // a snapshot is in use
			if p > 0 && m.ignoreBase {
				bound = m.low(&s) // the snapshot of a merge is the branch's base
			}
		}
	}
	if bound > s.purged {
		n := s
		n.purged = bound
		if m.rank[revT] <= bound {
			n.marks = [2]bool{}
		}
		emit(n, "marks up to %d are deleted", int(bound), 0)
	}
	older := s.p[0].at > bBegins && s.p[0].at < bPublishes && s.p[0].snap>>s.by&1 == 0
	if s.cell == merged && (m.freeEarly || !older && m.low(&s) >= m.rank[s.by]) {
		s.cell = freed
		emit(s, "the branch's cell is freed, its marks are deleted", 0, 0)
	}
}

// commitB1 does the next step of B1, the branch's second commit.
func (m *branchModel) commitB1(s branchState, emit Emit[branchState]) {
	switch {
	case s.b1 == 0 && s.cell == open:
		s.b1, s.journal[revB1] = 1, pending
		emit(s, "B1: journal P on the branch", 0, 0)
	case s.b1 == 1 && s.cell == open:
		s.b1, s.branchHead, s.journal[revB1] = 2, m.rank[revB1], committed
		s.sequence++
		s.acked |= 1 << revB1
		emit(s, "B1 is published in the branch's cell and acknowledged", 0, 0)
	}
}

// help takes the branch's cell out of the states frozen and merging. Any server may do
// this, and may abort the merge.
func (m *branchModel) help(s branchState, emit Emit[branchState]) {
	n := s
	n.sequence++
	if s.cell == frozen {
		n.cell = open
		emit(n, "somebody thaws the branch", 0, 0)
	}
	if s.cell != merging {
		return
	}
	by := int(s.by)
	visible := m.showsRev(&s, by)
	over := slotOfRev(by) == 0 && s.slot >= closed
	if s.journal[by] < committed {
		n := s
		n.journal[by] = aborted
		emit(n, "somebody takes m%d back", by-revM0, 0)
	}
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
	switch t.at {
	case bBegins:
		m.begin(s, p, emit)
	case bFreezes, bReads0, bReads1, bNames:
		m.merge(s, p, emit)
	case bTakes:
		if m.rank[r] <= t.seen || m.rank[r] <= s.head[slotOfRev(r)] {
			return
		}
		if t.at = bJournals; merger {
			t.at = bNames
		}
		emit(s, "%d takes id %d (0 is T, 1 m0, 2 m1)", p, int(m.rank[r]))
	case bJournals:
		if t.at = bMarks0; merger {
			t.at = bDecides
		}
		if s.journal[r] == 0 {
			s.journal[r] = pending
		} else if t.at = bClean; merger {
			t.at = bReopens
		}
		emit(s, "%d: journal %d", p, int(s.journal[r]))
	case bMarks0, bMarks1, bLooks:
		m.mark(s, emit)
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
		if t.at = bErases0; merger {
			t.at = bReopens
		}
		emit(s, "%d: journal A", p, 0)
	case bErases0, bErases1:
		s.marks[t.at-bErases0] = false
		if t.at++; t.at > bErases1 {
			t.at = bClean
		}
		emit(s, "%d is rolled back", p, 0)
	case bReopens:
		if int(s.by) == r && (s.cell == frozen && s.sequence == t.sequence || s.cell == merging && s.journal[r] == aborted) {
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
	t.seen = m.maxHead(&s)
	t.at = bTakes
	if p > 0 {
		t.sequence, t.rows = s.sequence, m.branchRows(&s)
		if !m.lowID {
			t.seen = max(t.seen, s.branchHead)
		}
		if t.at = bFreezes; m.readEarly {
			t.at = bReads0
		}
	}
	emit(s, "%d begins, it sees %05b", p, int(t.snap))
}

func (m *branchModel) maxHead(s *branchState) int8 {
	h := max(s.head[0], s.head[1], s.head[2])
	for r := revT; r < revisions; r++ {
		if s.slot >= closed && s.c>>r&1 == 1 {
			h = max(h, m.rank[r])
		}
	}
	return h
}

// merge does the next step of a merger that has not yet written its merge's journal row.
func (m *branchModel) merge(s branchState, p int, emit Emit[branchState]) {
	t, r := &s.p[p], revT+p
	switch t.at {
	case bFreezes:
		same := s.sequence == t.sequence || m.bytesRepeat && !m.second || m.looseRows
		if s.cell != open || !same {
			t.at = bDone
			emit(s, "%d: the branch's cell has changed, it gives up", p, 0)
			return
		}
		if r == revM0 {
			s.freeze = swapCopy{sent: true, sequence: s.sequence}
		}
		s.cell, s.by = frozen, uint8(r)
		s.sequence++
		t.sequence = s.sequence
		if t.at = bReads0; m.readEarly {
			t.at = bTakes
		}
		emit(s, "%d freezes the branch", p, 0)
	case bNames:
		if s.cell != frozen || int(s.by) != r || s.sequence != t.sequence {
			t.at = bReopens
			emit(s, "%d: the branch was thawed, it gives up", p, 0)
			return
		}
		if r == revM0 {
			s.named = swapCopy{sent: true, sequence: s.sequence}
		}
		s.cell, t.at = merging, bJournals
		s.sequence++
		emit(s, "%d: the branch's cell is merging", p, 0)
	default:
		m.readMarks(s, p, emit)
	}
}

// readMarks lets a merger look for a mark of T in one row of the branch. T is not in the
// branch's base. If T is pending, the merger waits until T is decided.
func (m *branchModel) readMarks(s branchState, p int, emit Emit[branchState]) {
	t := &s.p[p]
	k := int(t.at - bReads0)
	known := m.readNew && t.snap>>revT&1 == 1
	if t.rows>>k&1 == 1 && s.marks[k] && !known && s.a>>revT&1 == 0 {
		switch {
		case s.journal[revT] == committed:
			t.conf = true
		case s.journal[revT] == pending && !m.noWait:
			return
		}
	}
	if t.at++; t.at == bReads1 && t.rows&2 == 0 {
		t.at++
	}
	if t.at > bReads1 {
		if t.at = bTakes; m.readEarly {
			t.at = bFreezes
		}
		t.seen = max(t.seen, m.maxHead(&s))
		if t.conf {
			t.at = bReopens
		}
	}
	emit(s, "%d reads marks", p, 0)
}

// mark does the next step of T, after T's journal row is written and before T is decided.
func (m *branchModel) mark(s branchState, emit Emit[branchState]) {
	t := &s.p[0]
	after := bDecides
	if m.lookEarly {
		after = bMarks0
	}
	if t.at == bLooks {
		m.look(s, after, emit)
		return
	}
	if m.lookEarly && !t.looked {
		t.at, t.looked = bLooks, true
		emit(s, "T looks before its marks are there", 0, 0)
		return
	}
	k := int(t.at - bMarks0)
	if m.rows>>k&1 == 1 {
		s.marks[k] = true
	}
	if t.at++; t.at == bMarks1 && m.rows&2 == 0 {
		t.at++
	}
	if t.at > bMarks1 && (m.noLook || m.lookEarly) {
		t.at = bDecides
	}
	emit(s, "T marks row %d", k, 0)
}

// look lets T read the branch's cell if the branch has a mark in a row that T writes. If
// the branch is frozen, T thaws it. A conflict of T with a merge is resolved like a
// conflict with any other commit: either T aborts itself, or T aborts the merge.
func (m *branchModel) look(s branchState, after uint8, emit Emit[branchState]) {
	t, by := &s.p[0], int(s.by)
	gone := slotOfRev(by) == 0 && s.slot >= closed && !m.showsRev(&s, by)
	switch {
	case m.rows&m.branchRows(&s) == 0, s.cell == open, s.cell == freed, s.cell == frozen && m.noThaw:
		t.at = after
	case s.cell == frozen:
		s.cell, t.at = open, after
		s.sequence++
		emit(s, "T thaws the branch and continues", 0, 0)
		return
	case t.snap>>by&1 == 1:
		t.at = after
	case s.cell == merged, m.showsRev(&s, by) && s.journal[by] == committed:
		t.at = bAborts
	case gone, s.a>>by&1 == 1, s.journal[by] == aborted:
		t.at = after
	case s.journal[by] == committed, s.journal[by] == pending && m.rank[by] < m.rank[revT]:
		t.at = bAborts
	default:
		s.journal[by] = aborted
		emit(s, "T takes m%d back", by-revM0, 0)
		return
	}
	emit(s, "T looks at the branch, whose state is %d", int(s.cell), 0)
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
		undecided := at >= bNames && at <= bDecides || at >= bAborts && at < bReopens || at == bReopens && !m.passEarly
		if m.rank[r] <= h && undecided {
			n.u |= b
		}
		if n != s {
			emit(n, "slot %d publishes head %d", slot, int(h))
		}
	}
}

func (m *branchModel) recover(s branchState, emit Emit[branchState]) {
	step := s.step
	s.step++
	switch step {
	case 0:
		s.slot = recovering
		emit(s, "R0: slot 0 is recovering", 0, 0)
	case 1:
		if b := uint8(1) << revM0; m.rank[revM0] > s.head[0] || s.u&b != 0 {
			switch s.journal[revM0] {
			case pending:
				s.journal[revM0] = aborted
			case committed:
				s.c |= b
			}
		}
		emit(s, "R1: m0, journal %d", int(s.journal[revM0]), 0)
	case 2:
		s.slot = closed
		emit(s, "R3: slot 0 is closed, C=%05b", int(s.c), 0)
	case 3:
		s.slot, s.dead = swept, true
		s.freeze.over, s.named.over = true, true
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
	later := []config{{2, true, false, false, ranks[0]}, {2, true, false, false, ranks[1]}, {2, true, false, false, ranks[2]}}
	add("two mergers, a commit, recovery, helpers", holds, func(*branchModel) {})
	add("beside the purge of marks", holds, func(m *branchModel) { m.purges = true })
	add("witness: one merge lost with its server, the other acknowledged, T too", witness, func(m *branchModel) {
		m.reach = func(s *branchState) bool {
			return s.journal[revM0] == aborted && s.slot == swept && s.cell == merged && s.acked>>revM1&1 == 1 && s.acked>>revT&1 == 1
		}
	}, config{1, false, true, false, ranks[3]})
	add("T does not look at the branch's cell", breaks, func(m *branchModel) { m.noLook = true })
	add("T looks before its marks are there", breaks, func(m *branchModel) { m.lookEarly = true })
	add("T passes over a frozen branch", breaks, func(m *branchModel) { m.noThaw = true })
	add("a merger reads marks before it freezes", breaks, func(m *branchModel) { m.readEarly = true })
	add("a merge meets what its server's snapshot does not show", breaks, func(m *branchModel) { m.readNew = true })
	add("a merger does not wait for a pending commit", breaks, func(m *branchModel) { m.noWait = true })
	add("the rows are not of the cell that is compared", breaks, func(m *branchModel) { m.looseRows = true }, later...)
	add("the bytes of the branch's cell repeat", breaks, func(m *branchModel) { m.bytesRepeat = true })
	add("the merge's id is not above the branch's head", breaks, func(m *branchModel) { m.lowID = true },
		config{2, true, false, false, ranks[4]})
	add("the head passes a merge that the branch still names", breaks, func(m *branchModel) { m.passEarly = true })
	add("a helper goes by the journal", breaks, func(m *branchModel) { m.byJournal = true })
	add("a helper opens a branch whose merge is not visible yet", breaks, func(m *branchModel) { m.reopenEarly = true })
	add("a moment shows a branch by its own ids", breaks, func(m *branchModel) { m.ownIDs = true })
	add("marks above an open branch's base are purged", breaks, func(m *branchModel) { m.purges, m.ignoreBase = true, true })
	add("a merged branch's cell is freed before every snapshot shows it", breaks, func(m *branchModel) { m.purges, m.freeEarly = true, true })
	return vs
}
