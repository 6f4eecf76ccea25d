package model

import "fmt"

// In the model "commit", the commits T0, T1 and T2 write up to two rows, are published,
// and may be aborted. Slot 0 (in some variants also slot 1) may be recovered at any time,
// while its server continues as if the slot had not been recovered. Puts may land late or
// twice.
//
// The cell of its server decides a commit in byCell: it is committed when the cell shows it. Another server takes
// it back by making it void in that cell. The journal decides all other commits, as it does merges and loads.
//
// One step of a commit is one call of the store, or the part of a call that concerns one row. An id is a rank from 1 to 3.

const commits = 3

type commitT struct {
	at, snap, conf uint8
	wrote, read    uint8 // rows, as bits
	seen           int8  // the largest id that the commit's snapshot shows
	unclear        bool  // one of the commit's Puts may land later
}

type commitState struct {
	t       [commits]commitT
	cells   [2]uint8 // for each row, the commits with a cell and mark in it
	late    [2]uint8 // for each row, the commits whose Put may still land, even as a copy
	journal [commits]uint8
	head    [3]int8
	a, u, c uint8    // the void, undecided and late commits in a cell: the sets A, U and C of docs/design/transactions.md
	w       uint8    // commits that another server made void
	slot    [2]uint8 // states of slots 0 and 1
	// These arrays have an element for each recoverer: its next step, the commits that it
	// rolls back, and the commits that it found committed.
	step, list, kept [3]uint8
	acked            uint8
	gone             uint8 // journal rows that were purged
	again            bool  // a duplicate of T0's Put into the journal landed
	dead             [2]bool
	memory
}

const (
	pending   = 1 // states of a journal row; 0 means that there is no row
	committed = 2
	aborted   = 3

	open       = 0 // states of a slot
	recovering = 1
	closed     = 2
	swept      = 3
)

const (
	begins uint8 = iota
	allocates
	journals
	works // writes each row and then reads it back
	resolves
	decides
	publishes
	aborts
	erases0
	erases1
	void // aborted, but a Put may still land
	clean
	acknowledged
)

type commitModel struct {
	byCell uint8          // commits, as bits
	rows   [commits]uint8 // the rows that each commit writes, as bits
	rank   [commits]int8  // the id of each commit
	slots  [commits]int
	// Each of these flags, if set, allows an event, such as a timeout, in a variant.
	timeouts, resends, second, both, purges bool
	// Each of these flags, if set, drops a rule of the protocol.
	passUndecided, leaveEarly, forgetUnclear, ownHead, idsWithoutC, closeWithoutU, lowWithoutU,
	sweptAtOnce, sweepOldList, plainPut, noFence, closeOver, sweepOwn, maxWithoutC, raiseHead, forgetResent, purgeToHead bool
	// Each of these flags, if set, drops a rule of commits that their cell decides.
	publishOver, takeShown, takenForgotten, lateByCell bool
	readFirst                                          bool // drops the rule that a commit writes its mark in a row before it reads the row
	leavePending, leaveU                               bool // each drops a rule of step R1 of recovery, if set
	reach                                              func(s *commitState) bool
}

func (m *commitModel) visible(s *commitState) (v uint8) {
	for i := range commits {
		b := uint8(1) << i
		n := m.slots[i]
		over := n < 2 && s.slot[n] >= closed
		hidden := s.a | s.u
		if over && m.closeWithoutU {
			hidden = s.a
		}
		if m.rank[i] <= s.head[n] && hidden&b == 0 || over && s.c&b != 0 {
			v |= b
		}
	}
	return v
}

// counts reports whether slot n counts for the low-water mark.
func (m *commitModel) counts(s *commitState, n int) bool {
	return n == 2 || s.slot[n] < closed || s.slot[n] == closed && !m.sweptAtOnce
}

func (m *commitModel) used(n int) bool {
	for i := range commits {
		if m.rows[i] != 0 && m.slots[i] == n {
			return true
		}
	}
	return n == 0
}

func (m *commitModel) low(s *commitState) int8 {
	low := int8(commits)
	for n := range 3 {
		if m.used(n) && m.counts(s, n) {
			low = min(low, s.head[n])
		}
	}
	for i := range commits {
		if s.u>>i&1 == 1 && !m.lowWithoutU && m.counts(s, m.slots[i]) {
			low = min(low, m.rank[i]-1)
		}
	}
	return low
}

func (s *commitState) committed() uint8 { return committedIn(s.journal[:]) }

func (m *commitModel) note(s *commitState) {
	s.keep(m.visible(s)&s.committed(), m.low(s), upTo(m.rank[:]))
}

func (m *commitModel) check(s *commitState) string {
	v := m.visible(s)
	switch {
	case m.reach != nil && m.reach(s):
		return "reached"
	case s.failure != kept:
		return s.failure.String()
	case s.acked&^v != 0:
		return "an acknowledged commit is not visible"
	}
	for i := range commits {
		if wrong := m.checkCommit(s, i, v); wrong != "" {
			return wrong
		}
		below := m.rank[i] <= m.low(s) && v>>i&1 == 0 && (s.a|s.u)>>i&1 == 0
		if below && (s.cells[0]|s.cells[1])>>i&1 == 1 {
			return fmt.Sprintf("T%d is void, has cells below the low-water mark and is no exception", i)
		}
	}
	return ""
}

func (m *commitModel) checkCommit(s *commitState, i int, v uint8) string {
	if v>>i&1 == 0 {
		return ""
	}
	for k := range 2 {
		has := s.cells[k]>>i&1 == 1
		if has && s.journal[i] != committed {
			return fmt.Sprintf("T%d is visible and not committed", i)
		}
		if s.journal[i] == committed && m.rows[i]>>k&1 == 1 && !has {
			return fmt.Sprintf("T%d is visible and lacks its cell in row %d", i, k)
		}
	}
	if s.journal[i] != committed {
		return ""
	}
	heads := max(s.head[0], s.head[1], s.head[2])
	if m.maxWithoutC && m.rank[i] > heads {
		return fmt.Sprintf("T%d is visible and above the largest visible id: a read misses it", i)
	}
	for o := range commits {
		saw := s.t[i].snap>>o&1 == 1
		if saw && (m.rank[o] > m.rank[i] || v>>o&1 == 0) {
			return fmt.Sprintf("T%d saw T%d, which has a larger id or is invisible", i, o)
		}
		if o < i && v>>o&1 == 1 && s.journal[o] == committed && m.rows[i]&m.rows[o] != 0 && !saw && s.t[o].snap>>i&1 == 0 {
			return fmt.Sprintf("T%d and T%d wrote one row and neither saw the other", o, i)
		}
	}
	return ""
}

func (m *commitModel) next(s commitState, emit0 Emit[commitState]) {
	emit := func(n commitState, what string, a, b int) { m.note(&n); emit0(n, what, a, b) }
	for i := range commits {
		if n := m.slots[i]; m.rows[i] != 0 && !(n < 2 && s.dead[n]) {
			m.commit(s, i, emit)
		}
	}
	for k := range 2 {
		if s.late[k] != 0 && !s.dead[0] {
			n := s
			n.cells[k] |= n.late[k]
			n.late[k] = 0
			emit(n, "a late Put lands in row %d", k, 0)
		}
	}
	for slot := range 3 {
		if m.used(slot) {
			m.publish(s, slot, emit)
		}
	}
	m.recover(s, 0, 0, emit)
	if m.second {
		m.recover(s, 1, 0, emit)
	}
	if m.both {
		m.recover(s, 2, 1, emit)
	}
	for i := range commits {
		if m.purges && s.gone>>i&1 == 0 && s.journal[i] > pending && m.rank[i] <= m.purgeable(&s) {
			n := s
			n.gone |= 1 << i
			emit(n, "T%d's journal row is purged", i, 0)
		}
	}
	if m.plainPut && s.t[0].at > journals && !s.again && s.journal[0] != 0 {
		n := s
		n.again, n.journal[0] = true, pending
		emit(n, "a second copy of T0's journal row lands", 0, 0)
	}
}

// purgeable returns the id up to which journal rows may be purged.
func (m *commitModel) purgeable(s *commitState) int8 {
	if m.purgeToHead {
		return max(s.head[0], s.head[1], s.head[2])
	}
	return m.low(s)
}

// commit does the next step of commit i.
func (m *commitModel) commit(s commitState, i int, emit Emit[commitState]) {
	t, slot, b := &s.t[i], m.slots[i], uint8(1)<<i
	v := m.visible(&s)
	switch t.at {
	case begins:
		t.snap = v & s.committed()
		t.seen = max(s.head[0], s.head[1], s.head[2])
		for o := range commits {
			if n := m.slots[o]; n < 2 && s.slot[n] >= closed && s.c>>o&1 == 1 && !m.idsWithoutC {
				t.seen = max(t.seen, m.rank[o])
			}
		}
		t.at = allocates
		emit(s, "T%d begins, it sees %03b", i, int(t.snap))
	case allocates:
		later := false // a slot issues ids in order
		for o := range commits {
			later = later || m.slots[o] == slot && m.rank[o] > m.rank[i] && s.t[o].at > allocates
		}
		if m.rank[i] <= t.seen || !m.ownHead && m.rank[i] <= s.head[slot] || later {
			return
		}
		t.at = journals
		emit(s, "T%d takes id %d", i, int(m.rank[i]))
	case journals:
		if s.journal[i] != 0 {
			t.at = clean
			emit(s, "T%d finds a journal row and gives up", i, 0)
			return
		}
		s.journal[i] = pending
		if m.byCell&b != 0 {
			s.journal[i] = committed
		}
		t.at = works
		emit(s, "T%d: journal P", i, 0)
	case works:
		for k := range 2 {
			switch {
			case m.rows[i]>>k&1 == 0:
			case t.wrote>>k&1 == 0:
				m.write(s, i, k, emit)
				if m.readFirst && t.read>>k&1 == 0 {
					m.readBack(s, i, k, emit)
				}
			case t.read>>k&1 == 0:
				m.readBack(s, i, k, emit)
			}
		}
	case resolves:
		m.resolve(s, i, emit)
	case decides:
		if m.byCell&b != 0 {
			t.at = publishes
			emit(s, "T%d is ready", i, 0)
			return
		}
		t.at = aborts
		if s.journal[i] == pending {
			s.journal[i], t.at = committed, publishes
		}
		emit(s, "T%d decides, journal %d (2=C 3=A)", i, int(s.journal[i]))
	case publishes:
		if s.w&b != 0 && !m.publishOver {
			t.at = aborts
			emit(s, "T%d was taken back", i, 0)
			return
		}
		if v&b != 0 {
			s.acked |= b
			t.at = acknowledged
			emit(s, "T%d is acknowledged", i, 0)
		}
	case aborts:
		if s.journal[i] != committed || m.byCell&b != 0 {
			s.journal[i] = aborted
		}
		t.at = erases0
		emit(s, "T%d: journal A", i, 0)
	case erases0, erases1:
		k := int(t.at - erases0)
		s.cells[k] &^= b
		if t.at = m.stepAfter(i, t.at, void); t.at == void && !t.unclear {
			t.at = clean
		}
		emit(s, "T%d erases row %d", i, k)
	case void:
		s.late[0] &^= b
		s.late[1] &^= b
		s.cells[0] &^= b
		s.cells[1] &^= b
		t.at = clean
		emit(s, "T%d has settled and is erased again", i, 0)
	}
}

// stepAfter returns the step of commit i that follows the given step. The given step is
// done once for row 0 and once for row 1. stepAfter skips row 1 if the commit does not
// write row 1. The parameter next is the first step after the steps for both rows.
func (m *commitModel) stepAfter(i int, step, next uint8) uint8 {
	if step++; step+1 == next && m.rows[i]&2 == 0 {
		step++
	}
	return step
}

func (m *commitModel) write(s commitState, i, k int, emit Emit[commitState]) {
	t, b := &s.t[i], uint8(1)<<i
	if m.timeouts && i == 0 {
		n := s
		n.late[k] |= b
		n.t[i].unclear, n.t[i].at = true, aborts
		emit(n, "T%d's Put in row %d times out", i, k)
	}
	if m.resends && i == 0 { // the call succeeded, but a copy may still land
		s.late[k] |= b
		t.unclear = !m.forgetResent
	}
	s.cells[k] |= b
	t.wrote |= 1 << k
	m.worked(&s, i)
	emit(s, "T%d writes row %d", i, k)
}

func (m *commitModel) readBack(s commitState, i, k int, emit Emit[commitState]) {
	t := &s.t[i]
	t.conf |= s.cells[k] &^ t.snap &^ (1 << i)
	t.read |= 1 << k
	m.worked(&s, i)
	emit(s, "T%d reads back row %d", i, k)
}

// worked sets the next step of a commit that has written and read all its rows.
func (m *commitModel) worked(s *commitState, i int) {
	if t := &s.t[i]; t.wrote&t.read == m.rows[i] {
		t.at = resolves
	}
}

// resolve resolves one of the conflicts that commit i has met.
func (m *commitModel) resolve(s commitState, i int, emit Emit[commitState]) {
	t := &s.t[i]
	t.at = decides
	for o := range commits {
		if t.conf>>o&1 == 0 {
			continue
		}
		t.at = resolves
		t.conf &^= 1 << o
		n := m.slots[o]
		gone := n < 2 && s.slot[n] >= closed && m.visible(&s)>>o&1 == 0
		switch {
		case gone || s.a>>o&1 == 1 || s.journal[o] == aborted:
		case m.byCell>>o&1 == 1:
			m.takeBack(&s, i, o)
		case s.gone>>o&1 == 1 && m.visible(&s)>>o&1 == 0: // commit o cannot be decided: its row was purged
		case s.journal[o] == committed, s.journal[o] == pending && m.rank[o] < m.rank[i]:
			t.at, t.conf = aborts, 0
		default:
			s.journal[o] = aborted
		}
		emit(s, "T%d settles with T%d", i, o)
		return
	}
	emit(s, "T%d meets nobody more", i, 0)
}

// takeBack makes commit o void in its cell, unless it is visible or goes first. If commit o's slot is recovering,
// its server cannot publish any more.
func (m *commitModel) takeBack(s *commitState, i, o int) {
	t, n := &s.t[i], m.slots[o]
	shown := m.visible(s)>>o&1 == 1
	switch {
	case shown && !(m.takeShown && m.rank[o] > m.rank[i]), m.rank[o] < m.rank[i]:
		t.at, t.conf = aborts, 0
	case n == 2 || s.slot[n] == open:
		s.a |= 1 << o
		s.w |= 1 << o
	}
}

// publish advances a slot's head. The head may pass undecided commits.
func (m *commitModel) publish(s commitState, slot int, emit Emit[commitState]) {
	if slot < 2 && (s.dead[slot] || s.slot[slot] != open && !(m.noFence && s.slot[slot] < swept)) {
		return
	}
	for h := s.head[slot]; h <= commits; h++ {
		n := s
		n.head[slot] = h
		for i := range commits {
			b := uint8(1) << i
			if m.slots[i] != slot || m.rows[i] == 0 {
				continue
			}
			n.a &^= b
			n.u &^= b
			at := s.t[i].at
			switch {
			case s.w&b != 0 && !m.publishOver && !m.takenForgotten && at != clean:
				n.a |= b
			case m.rank[i] > h || at < journals:
			case at < publishes || at == aborts:
				if !m.passUndecided {
					n.u |= b
				}
			case at == erases0 || at == erases1:
				if !m.leaveEarly {
					n.u |= b
				}
			case at == void && !m.forgetUnclear:
				n.a |= b
			}
		}
		if n != s {
			emit(n, "slot %d publishes head %d", slot, int(h))
		}
	}
}

// recover does the next step of recoverer q, which recovers the slot. The steps are R0 to
// R4 of docs/design/transactions.md, "Crash recovery".
func (m *commitModel) recover(s commitState, q, slot int, emit Emit[commitState]) {
	if s.slot[slot] == swept {
		return
	}
	step := s.step[q]
	s.step[q]++
	switch step {
	case 0:
		s.slot[slot] = max(s.slot[slot], recovering)
		emit(s, "R0: slot %d is recovering (recoverer %d)", slot, q)
	case 1, 2, 3:
		i := int(step - 1)
		b := uint8(1) << i
		if m.slots[i] != slot {
			m.recover(s, q, slot, emit)
			return
		}
		if m.rank[i] > s.head[slot] || s.u&b != 0 && !m.leaveU {
			switch s.journal[i] {
			case pending:
				if !m.leavePending {
					s.journal[i] = aborted
				}
				s.list[q] |= b
			case committed:
				if m.byCell&b != 0 && !m.lateByCell {
					s.journal[i] = aborted
					s.list[q] |= b
					break
				}
				s.kept[q] |= b
			case aborted:
				s.list[q] |= b
			}
		}
		emit(s, "R1: T%d, journal %d", i, int(s.journal[i]))
	case 4:
		s.cells[0] &^= s.list[q]
		s.cells[1] &^= s.list[q]
		emit(s, "R2: recoverer %d rolls back %03b", q, int(s.list[q]))
	case 5:
		if s.slot[slot] == recovering || m.closeOver {
			s.slot[slot] = closed
			m.close(&s, slot, s.kept[q])
		}
		emit(s, "R3: slot %d is closed, C=%03b", slot, int(s.c))
	case 6:
		s.dead[slot] = true
		if slot == 0 {
			s.late = [2]uint8{}
		}
		list := m.swept(&s, q, slot)
		s.cells[0] &^= list
		s.cells[1] &^= list
		s.slot[slot] = swept
		emit(s, "R4: slot %d is swept of %03b", slot, int(list))
	}
}

// close updates the set C in the cell of a slot that is being closed. The set kept
// contains the commits that the recoverer found committed.
func (m *commitModel) close(s *commitState, slot int, kept uint8) {
	for i := range commits {
		if m.slots[i] != slot {
			continue
		}
		b := uint8(1) << i
		s.c = s.c&^b | kept&b
		if m.raiseHead && kept&b != 0 {
			s.head[slot] = max(s.head[slot], m.rank[i])
		}
	}
}

// swept returns the commits whose cells R4, the last step of recovery, removes.
func (m *commitModel) swept(s *commitState, q, slot int) (list uint8) {
	list = s.list[q] | s.a
	for i := range commits {
		if m.slots[i] == slot && s.journal[i] != 0 && !m.sweepOldList {
			list |= 1 << i
		}
	}
	for i := range commits {
		if m.slots[i] != slot {
			list &^= 1 << i
		}
	}
	if m.sweepOwn {
		return list &^ (s.kept[q] | m.visible(s)&^s.c)
	}
	return list &^ m.visible(s)
}

// commitVariants returns the variants. Unless a variant sets other slots, T0 and T1 are commits
// of slot 0, and T2 is a commit of slot 2.
func commitVariants() (vs []variant) {
	type config struct {
		rows [commits]uint8
		rank [commits]int8
	}
	var configs []config
	for _, rows := range [][commits]uint8{{1, 1, 1}, {3, 1, 3}, {1, 3, 3}, {3, 2, 3}} {
		for _, rank := range [][commits]int8{{1, 2, 3}, {1, 3, 2}, {2, 3, 1}} {
			configs = append(configs, config{rows, rank})
		}
	}
	add := func(name string, k kind, change func(*commitModel), only ...config) {
		v := variant{name: name, kind: k}
		if len(only) == 0 {
			only = configs
		}
		for _, c := range only {
			m := &commitModel{rows: c.rows, rank: c.rank, slots: [commits]int{0, 0, 2}}
			change(m)
			v.tries = append(v.tries, func(limit int) Report {
				return Model[commitState]{Next: m.next, Check: m.check}.Explore(limit)
			})
		}
		vs = append(vs, v)
	}
	two := func(m *commitModel) { m.second, m.rows[2] = true, 0 }
	both := func(m *commitModel) { m.both, m.slots = true, [commits]int{0, 1, 2} }
	add("recovery at any moment", holds, func(*commitModel) {})
	add("Puts time out and land late", holds, func(m *commitModel) { m.timeouts = true })
	add("Puts are sent twice", holds, func(m *commitModel) { m.resends = true })
	add("two recoverers", holds, two)
	add("two slots recovered together", holds, both)
	add("journal rows up to the low-water mark are purged", holds, func(m *commitModel) { m.purges = true })
	// Step R1 of recovery aborts pending commits, so that other servers stop waiting, and
	// keeps outcomes that a client may know. Step R3 closes the slot. R3 alone makes
	// recovery correct, so the variants that weaken R1 hold.
	add("R1 leaves pending what is pending", holds, func(m *commitModel) { m.leavePending = true })
	add("R1 does not look at what is undecided", holds, func(m *commitModel) { m.leaveU = true })
	add("two recoverers that leave pending what is pending", holds, func(m *commitModel) { two(m); m.leavePending = true })
	add("witness: recovered with a late commit, all visible", witness, func(m *commitModel) {
		m.rows[2] = 0
		m.reach = func(s *commitState) bool { return s.acked == 1 && s.shown == 3 && s.c == 2 && s.slot[0] == swept }
	}, configs[0])
	add("witness: two slots closed with a late commit each", witness, func(m *commitModel) {
		both(m)
		m.rows = [commits]uint8{1, 2, 0}
		m.reach = func(s *commitState) bool { return s.c&3 == 3 && s.slot[0] == swept && s.slot[1] == swept }
	}, configs[0])
	cells := func(m *commitModel) { m.byCell = 7 }
	add("the cell decides", holds, cells)
	add("the cell decides, Puts time out and land late", holds, func(m *commitModel) { cells(m); m.timeouts = true })
	add("the cell decides, Puts are sent twice", holds, func(m *commitModel) { cells(m); m.resends = true })
	add("the cell decides, two recoverers", holds, func(m *commitModel) { cells(m); two(m) })
	add("the cell decides, two slots recovered together", holds, func(m *commitModel) { cells(m); both(m) })
	add("the cell decides, journal rows up to the low-water mark are purged", holds, func(m *commitModel) { cells(m); m.purges = true })
	add("the cell decides, and beside it the journal", holds, func(m *commitModel) { m.byCell = 5 })
	add("witness: a commit that was taken back is gone, and the other one is acknowledged", witness, func(m *commitModel) {
		cells(m)
		m.reach = func(s *commitState) bool { return s.w == 4 && s.t[2].at == clean && s.acked&1 == 1 }
	})
	add("the owner publishes over what was taken back", breaks, func(m *commitModel) { cells(m); m.publishOver = true })
	add("what is shown is taken back", breaks, func(m *commitModel) { cells(m); m.takeShown = true })
	add("what was taken back is no exception while its server goes on", breaks, func(m *commitModel) { cells(m); m.takenForgotten = true })
	add("recovery takes the journal's word where the cell decides", breaks, func(m *commitModel) { cells(m); m.lateByCell = true })
	add("a row is read before it is written", breaks, func(m *commitModel) { m.readFirst = true })
	add("the head passes what is undecided", breaks, func(m *commitModel) { m.passUndecided = true })
	add("the low-water mark ignores what is undecided", breaks, func(m *commitModel) { m.lowWithoutU = true })
	add("an aborted commit leaves U before it is erased", breaks, func(m *commitModel) { m.leaveEarly = true })
	add("a Put that timed out is forgotten before it settles", breaks, func(m *commitModel) { m.forgetUnclear, m.timeouts = true, true })
	add("a good answer is taken for a Put sent once", breaks, func(m *commitModel) { m.forgetResent, m.resends, m.rows[2] = true, true, 0 },
		config{[commits]uint8{1, 1, 1}, [commits]int8{1, 2, 3}})
	add("ids are above the snapshot, not above the own head", breaks, func(m *commitModel) { m.ownHead = true })
	add("ids are not above late commits", breaks, func(m *commitModel) { m.idsWithoutC = true },
		config{[commits]uint8{1, 1, 1}, [commits]int8{1, 3, 2}})
	add("the largest visible id does not count late commits", breaks, func(m *commitModel) { m.maxWithoutC = true })
	add("closing forgets what was undecided", breaks, func(m *commitModel) { m.closeWithoutU = true })
	add("closing raises the head instead of keeping C", breaks, func(m *commitModel) { m.raiseHead = true })
	add("a slot counts as swept when it is closed", breaks, func(m *commitModel) { m.sweptAtOnce = true })
	add("sweeping does not read the journal again", breaks, func(m *commitModel) { m.sweepOldList = true })
	add("the journal's row is a plain Put", breaks, func(m *commitModel) { m.plainPut = true })
	add("journal rows up to the head are purged", breaks, func(m *commitModel) { m.purges, m.purgeToHead, m.rows[2] = true, true, 0 })
	add("recovery does not fence", breaks, func(m *commitModel) { m.noFence, m.rows[2] = true, 0 },
		config{[commits]uint8{1, 1, 1}, [commits]int8{1, 2, 3}})
	add("the second recoverer closes once more", breaks, func(m *commitModel) { two(m); m.closeOver = true })
	add("the second recoverer sweeps what it found itself", breaks, func(m *commitModel) { two(m); m.sweepOwn = true })
	add("two slots: closing forgets what was undecided", breaks, func(m *commitModel) { both(m); m.closeWithoutU = true })
	add("two slots: sweeping does not read the journal again", breaks, func(m *commitModel) { both(m); m.sweepOldList = true })
	return vs
}
