package model

import "fmt"

// In the model "slots", slot 0 has a first holder, which makes commit T0. The slot may be
// recovered at any time, is then archived, and is claimed again by a second holder, which
// makes commit T1. Two servers may claim the slot at the same time. T2 is a commit of slot
// 1. All commits write one row. T0's server continues as if its slot had not been
// recovered: its Put may land at any time. The answer to a swap by that server may be
// wrong: the swap may succeed although the answer says that it failed. The swap may also
// fail with an error.
//
// No id of the first holder is larger than the constant announced.

const announced = 2

type slotsT struct {
	at, snap, conf uint8
	seen           int8
}

type slotsState struct {
	t            [3]slotsT
	cells        uint8
	journal      [3]uint8
	head         [2]int8
	holder, slot uint8 // which holder slot 0 has (1 or 2), and the state of slot 0
	step         uint8 // the next step of the recovery
	late         bool  // T0 is in the list Late of the first holder's cell
	archived     bool
	oldHead      int8
	first        [2]int8 // first id of the second holder, as each claimer computes it
	claim        [2]uint8
	won          uint8 // number of the claimer that won, plus one; 0 if none has won
	sent         bool  // T0's Put was sent and has not landed
	acked        uint8
	memory
}

const free = 4

const (
	sBegins uint8 = iota
	sTakes
	sJournals
	sWrites
	sReads
	sResolves
	sDecides
	sLooks
	sPublishes
	sLooksAgain
	sAcks
	sAborts
	sErases
	sDone
)

type slotsModel struct {
	rank     [3]int8
	claimers int
	// Each of these flags, if set, drops a rule of the protocol.
	bySlot, freeFirst, low, early, falseIsAbort, errorIsDone, unpublished, readLow, lateZ, blindClaim bool
	reach                                                                                             func(*slotsState) bool
}

func (m *slotsModel) shows(s *slotsState, i int) bool {
	r := m.rank[i]
	switch {
	case i == 2:
		return r <= s.head[1]
	case s.holder == 2 && (r >= s.first[max(s.won, 1)-1] || m.bySlot):
		return s.slot == open && r <= s.head[0]
	case i == 1:
		return false
	case s.holder == 1 && s.slot < closed:
		return r <= s.head[0]
	case s.holder == 1 && s.slot == closed:
		return r <= s.head[0] || s.late
	}
	return s.archived && (r <= s.oldHead || s.late)
}

func (m *slotsModel) visible(s *slotsState) (v uint8) {
	for i := range s.t {
		if m.shows(s, i) {
			v |= 1 << i
		}
	}
	return v
}

func (s *slotsState) committed() uint8 { return committedIn(s.journal[:]) }

func (m *slotsModel) lowest(s *slotsState) int8 {
	if s.slot == free {
		return s.head[1]
	}
	return min(s.head[0], s.head[1])
}

func (m *slotsModel) note(s *slotsState) {
	low := m.lowest(s)
	sinks := m.readLow && low < s.stable
	s.keep(m.visible(s)&s.committed(), low, upTo(m.rank[:]))
	if sinks {
		s.failure = sunk
	}
}

func (m *slotsModel) check(s *slotsState) string {
	v := m.visible(s)
	switch {
	case m.reach != nil && m.reach(s):
		return "reached"
	case s.failure != kept:
		return s.failure.String()
	case s.acked&^v != 0:
		return "an acknowledged commit is not visible"
	case m.lateZ && m.rank[0] <= m.lowest(s) && v&1 == 0 && s.cells&1 != 0:
		return "a void cell lies below the low-water mark"
	case s.claim[0] == 3 && s.claim[1] == 3:
		return "two servers hold one slot"
	}
	for i := range s.t {
		if v>>i&1 == 0 {
			continue
		}
		if has := s.cells>>i&1 == 1; has != (s.journal[i] == committed) {
			return fmt.Sprintf("T%d is visible: its cell is there %v, journal %d", i, has, s.journal[i])
		}
		for o := range s.t {
			saw := s.t[i].snap>>o&1 == 1
			if saw && s.journal[i] == committed && m.rank[o] > m.rank[i] {
				return fmt.Sprintf("T%d saw T%d, which has a larger id", i, o)
			}
			both := v>>o&1 == 1 && s.journal[i] == committed && s.journal[o] == committed
			if o < i && both && !saw && s.t[o].snap>>i&1 == 0 {
				return fmt.Sprintf("T%d and T%d wrote one row and neither saw the other", o, i)
			}
		}
	}
	return ""
}

func (m *slotsModel) next(s slotsState, emit0 Emit[slotsState]) {
	emit := func(n slotsState, what string, a, b int) { m.note(&n); emit0(n, what, a, b) }
	for i := range s.t {
		if i != 1 || s.holder == 2 {
			m.commit(s, i, emit)
		}
	}
	if s.sent && s.cells&1 == 0 {
		n := s
		n.cells |= 1
		emit(n, "a Put of T0 lands", 0, 0)
	}
	for h := s.head[1] + 1; h <= 5; h++ {
		if at := s.t[2].at; at > sTakes && at != sDone && h >= m.rank[2] {
			break
		}
		n := s
		n.head[1] = h
		emit(n, "slot 1 renews, head %d", int(h), 0)
	}
	m.recover(s, emit)
	for c := range m.claimers {
		m.claimSlot(s, c, emit)
	}
}

func (m *slotsModel) recover(s slotsState, emit Emit[slotsState]) {
	step := s.step
	s.step++
	switch step {
	case 0:
		s.slot = recovering
		emit(s, "R0: slot 0 is recovering", 0, 0)
	case 1:
		if m.rank[0] > s.head[0] {
			s.late = s.journal[0] == committed
			if s.journal[0] == pending {
				s.journal[0] = aborted
			}
		}
		emit(s, "R1: T0, journal %d", int(s.journal[0]), 0)
	case 2:
		if m.rank[0] > s.head[0] && !s.late {
			s.cells &^= 1
		}
		emit(s, "R2: rolls back", 0, 0)
	case 3:
		s.slot = closed
		emit(s, "R3: slot 0 is closed, head %d", int(s.head[0]), 0)
	case 4:
		if !m.shows(&s, 0) {
			s.cells &^= 1
		}
		s.oldHead = s.head[0]
		if m.freeFirst {
			s.slot = free
		} else {
			s.archived = true
		}
		emit(s, "R4: swept, the first of archive and free cell", 0, 0)
	case 5:
		s.archived, s.slot = true, free
		emit(s, "R4: the second of archive and free cell", 0, 0)
	}
}

// claimSlot does the next step of claimer c: it reads the heads, or swaps the cell.
func (m *slotsModel) claimSlot(s slotsState, c int, emit Emit[slotsState]) {
	switch {
	case s.slot == free && s.claim[c] == 0:
		s.claim[c] = 1
		s.first[c] = max(s.oldHead, s.head[1]) + 1
		if s.late {
			s.first[c] = max(s.first[c], m.rank[0]+1)
		}
		if !m.low {
			s.first[c] = max(s.first[c], announced+1)
		}
		if m.early {
			s.t[1] = slotsT{at: sTakes, snap: m.visible(&s) & s.committed(), seen: s.first[c] - 1}
		}
		emit(s, "claimer %d reads the heads, first id %d", c, int(s.first[c]))
	case s.claim[c] == 1 && (s.slot == free || m.blindClaim):
		s.claim[c], s.holder, s.slot, s.won = 3, 2, open, uint8(c+1)
		s.head[0] = s.first[c] - 1
		emit(s, "claimer %d holds slot 0, head %d", c, int(s.head[0]))
	case s.claim[c] == 1:
		s.claim[c] = 2
		emit(s, "claimer %d comes too late", c, 0)
	}
}

func (m *slotsModel) commit(s slotsState, i int, emit Emit[slotsState]) {
	t, b := &s.t[i], uint8(1)<<i
	slot := i / 2
	fenced := i == 0 && (s.holder == 2 || s.slot != open)
	switch t.at {
	case sBegins:
		t.snap = m.visible(&s) & s.committed()
		t.seen = max(s.head[0], s.head[1])
		if s.late && (s.slot >= closed || s.holder == 2) {
			t.seen = max(t.seen, m.rank[0])
		}
		t.at = sTakes
		emit(s, "T%d begins, it sees %03b", i, int(t.snap))
	case sTakes:
		below := !fenced && m.rank[i] <= s.head[slot]
		if m.rank[i] <= t.seen || below || i == 1 && m.rank[1] < s.first[max(s.won, 1)-1] || i == 0 && m.rank[0] > announced {
			return
		}
		t.at = sJournals
		emit(s, "T%d takes id %d", i, int(m.rank[i]))
	case sJournals:
		t.at = sDone
		if s.journal[i] == 0 {
			s.journal[i], t.at = pending, sWrites
		}
		emit(s, "T%d: journal %d", i, int(s.journal[i]))
	case sWrites:
		if i == 0 {
			s.sent = true
			n := s
			n.t[0].at = sAborts
			emit(n, "T0 sends its Put, there is no answer", 0, 0)
		}
		s.cells |= b
		t.at = sReads
		emit(s, "T%d writes", i, 0)
	case sReads:
		t.conf = s.cells &^ t.snap &^ b
		t.at = sResolves
		emit(s, "T%d reads back, it meets %03b", i, int(t.conf))
	case sResolves:
		m.resolve(s, i, emit)
	case sDecides:
		m.decide(s, i, emit)
	case sLooks:
		t.at = []uint8{sDecides, sDecides, sPublishes, sErases}[s.journal[0]]
		emit(s, "T0 reads its journal row: %d", int(s.journal[0]), 0)
	case sPublishes:
		m.publish(s, i, fenced, emit)
	case sLooksAgain:
		switch {
		case fenced:
			t.at = sDone
		case s.head[0] >= m.rank[0]:
			t.at = sAcks
		default:
			t.at = sPublishes
		}
		emit(s, "T0 reads its cell of the heads", 0, 0)
	case sAcks:
		if m.shows(&s, i) {
			s.acked |= b
			t.at = sDone
			emit(s, "T%d is acknowledged", i, 0)
		}
	case sAborts:
		if s.journal[i] != committed {
			s.journal[i] = aborted
		}
		t.at = sErases
		emit(s, "T%d: journal A", i, 0)
	case sErases:
		s.cells &^= b
		t.at = sDone
		if i == 0 && s.journal[0] == committed && !fenced { // T0 is committed, but its server acts as if not
			s.head[0] = max(s.head[0], m.rank[0])
		}
		emit(s, "T%d is rolled back", i, 0)
	}
}

func (m *slotsModel) resolve(s slotsState, i int, emit Emit[slotsState]) {
	t := &s.t[i]
	t.at = sDecides
	for o := range s.t {
		if t.conf>>o&1 == 0 {
			continue
		}
		t.at = sResolves
		t.conf &^= 1 << o
		gone := o == 0 && (s.slot >= closed || s.holder == 2) && !m.shows(&s, 0)
		switch {
		case gone || s.journal[o] == aborted:
		case s.journal[o] == committed, s.journal[o] == pending && m.rank[o] < m.rank[i]:
			t.at, t.conf = sAborts, 0
		default:
			s.journal[o] = aborted
		}
		emit(s, "T%d settles with T%d", i, o)
		return
	}
	emit(s, "T%d meets nobody more", i, 0)
}

// decide swaps the state in the journal row of commit i. The answer that T0's server gets
// may be wrong.
func (m *slotsModel) decide(s slotsState, i int, emit Emit[slotsState]) {
	t := &s.t[i]
	if i == 0 {
		n := s
		n.t[0].at = sLooks
		if m.errorIsDone {
			n.t[0].at = sPublishes
		}
		emit(n, "T0's decision is not done, the answer is an error", 0, 0)
		if s.journal[0] == pending {
			n.journal[0] = committed
			n.t[0].at = sLooks
			if m.falseIsAbort {
				n.t[0].at = sErases
			}
			emit(n, "T0's decision is done, the answer is false", 0, 0)
		}
	}
	t.at = sAborts
	if s.journal[i] == pending {
		s.journal[i], t.at = committed, sPublishes
	}
	emit(s, "T%d decides, journal %d", i, int(s.journal[i]))
}

func (m *slotsModel) publish(s slotsState, i int, fenced bool, emit Emit[slotsState]) {
	t := &s.t[i]
	if i == 0 {
		n := s
		n.t[0].at = sLooksAgain
		if m.unpublished {
			n.t[0].at = sAcks
			n.acked |= 1
		}
		emit(n, "T0's head is not changed, the answer is an error", 0, 0)
		if !fenced {
			n = s
			n.head[0] = max(n.head[0], m.rank[0])
			n.t[0].at = sLooksAgain
			emit(n, "T0's head is changed, the answer is false", 0, 0)
		}
	}
	if fenced {
		t.at = sDone
		emit(s, "T0 is fenced, its outcome unknown", 0, 0)
		return
	}
	s.head[i/2] = max(s.head[i/2], m.rank[i])
	t.at = sAcks
	emit(s, "T%d is published, head %d", i, int(s.head[i/2]))
}

func slotsVariants() (vs []variant) {
	add := func(name string, k kind, change func(*slotsModel)) {
		v := variant{name: name, kind: k}
		for _, rank := range [][3]int8{{2, 3, 1}, {2, 3, 4}, {1, 3, 2}, {1, 4, 3}, {1, 4, 2}, {2, 4, 3}, {2, 5, 4}} {
			m := &slotsModel{rank: rank, claimers: 1}
			change(m)
			v.tries = append(v.tries, func(limit int) Report {
				return Model[slotsState]{Init: slotsState{holder: 1}, Next: m.next, Check: m.check}.Explore(limit)
			})
		}
		vs = append(vs, v)
	}
	add("a slot used again, wrong answers, Puts at any time", holds, func(*slotsModel) {})
	add("two claim it at once", holds, func(m *slotsModel) { m.claimers = 2 })
	add("witness: commits of both holders acknowledged", witness, func(m *slotsModel) {
		m.reach = func(s *slotsState) bool { return s.acked == 7 && s.holder == 2 }
	})
	add("visible is by slot, not by incarnation", breaks, func(m *slotsModel) { m.bySlot = true })
	add("the slot is free before the archive is written", breaks, func(m *slotsModel) { m.freeFirst = true })
	add("ids begin above the heads only", breaks, func(m *slotsModel) { m.low = true })
	add("the first snapshot is the one claimed from", breaks, func(m *slotsModel) { m.early = true })
	add("false is taken for aborted", breaks, func(m *slotsModel) { m.falseIsAbort = true })
	add("an error is taken for committed", breaks, func(m *slotsModel) { m.errorIsDone = true })
	add("an error is taken for published", breaks, func(m *slotsModel) { m.unpublished = true })
	add("the low-water mark of one row is taken to grow", breaks, func(m *slotsModel) { m.readLow = true })
	add("a Put lands after it was to have settled", breaks, func(m *slotsModel) { m.lateZ = true })
	add("a slot is claimed without comparing", breaks, func(m *slotsModel) { m.claimers, m.blindClaim = 2, true })
	return vs
}
