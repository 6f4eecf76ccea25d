package model

import "fmt"

// In the model "purge", marks are deleted up to a bound. T0 is a slow commit of slot 0,
// or the merge of a branch whose base is T0's snapshot. T1 and T2 are commits of slot 1.
// All three commits mark the same row. A transaction begins at the state that its server
// has polled last. Slot 0 may be recovered.

type purgeT struct {
	at, snap, conf uint8
	low, seen      int8
}

type purgeState struct {
	t             [3]purgeT
	marks         uint8
	journal       [3]uint8
	head, oldest  [2]int8
	u, c          uint8
	slot, step    uint8
	polled        [2]uint8 // for each server, the commits that it polled last
	polledLow     [2]int8  // for each server, the low-water mark that it polled last
	polledMax     [2]int8  // for each server, the largest id that it polled last
	base          int8     // base of the branch; noBase if no branch is open
	bound, purged int8     // bounds of the running purge, and of the last purge that has ended
	masked        bool
	acked         uint8
}

const noBase = 9

const (
	pBegins uint8 = iota
	pBranches
	pTakes
	pWrites
	pReads
	pResolves
	pDecides
	pPublishes
	pAborts
	pDone
)

type purgeModel struct {
	rank          [3]int8
	branch, three bool
	// Each of these flags, if set, drops a rule of the protocol.
	onlyLow, onlyRunning, onlyOpen, ignoreBase, letGo bool
	reach                                             func(*purgeState) bool
}

func purgeSlot(i int) int { return min(i, 1) }

func (m *purgeModel) visible(s *purgeState) (v uint8) {
	for i := range s.t {
		b := uint8(1) << i
		shown := m.rank[i] <= s.head[purgeSlot(i)] && s.u&b == 0 || i == 0 && s.slot == closed && s.c&b != 0
		if shown && s.journal[i] == committed {
			v |= b
		}
	}
	return v
}

func (m *purgeModel) low(s *purgeState) int8 {
	low := min(s.head[0], s.head[1])
	for i := range s.t {
		if s.u>>i&1 == 1 {
			low = min(low, m.rank[i]-1)
		}
	}
	return low
}

func (m *purgeModel) check(s *purgeState) string {
	v := m.visible(s)
	switch {
	case m.reach != nil && m.reach(s):
		return "reached"
	case s.masked:
		return "a live commit's mark lies below the purge's delete marker"
	case s.acked&^v != 0:
		return "an acknowledged commit is not visible"
	}
	for i := range s.t {
		for o := range i {
			if v>>i&1 == 1 && v>>o&1 == 1 && s.t[i].snap>>o&1 == 0 && s.t[o].snap>>i&1 == 0 {
				return fmt.Sprintf("T%d and T%d wrote one row and neither saw the other", o, i)
			}
		}
	}
	return ""
}

// inUse returns what the server of slot n publishes as its oldest snapshot in use.
func (m *purgeModel) inUse(s *purgeState, n int) int8 {
	oldest := s.polledLow[n] // the next transaction would begin at this low-water mark
	if m.onlyRunning {
		oldest = noBase
	}
	for i := range s.t {
		t := &s.t[i]
		if purgeSlot(i) != n || t.at == pBegins || t.at > pDecides {
			continue
		}
		if m.branch && i == 0 && (t.at > pBranches || m.letGo) {
			continue // the branch's cell contains this snapshot as the base
		}
		oldest = min(oldest, t.low)
	}
	return oldest
}

func (m *purgeModel) next(s purgeState, emit Emit[purgeState]) {
	for i := range s.t {
		if i < 2 || m.three {
			m.commit(s, i, emit)
		}
	}
	for n := range s.head {
		m.poll(s, n, emit)
		m.publish(s, n, emit)
	}
	m.purge(s, emit)
	if !m.three {
		m.recover(s, emit)
	}
}

func (m *purgeModel) poll(s purgeState, n int, emit Emit[purgeState]) {
	was := s
	s.polled[n], s.polledLow[n] = m.visible(&s), max(s.polledLow[n], m.low(&s))
	s.polledMax[n] = max(s.head[0], s.head[1])
	if s.slot == closed && s.c&1 != 0 {
		s.polledMax[n] = max(s.polledMax[n], m.rank[0])
	}
	if s != was {
		emit(s, "server %d polls, low-water mark %d", n, int(s.polledLow[n]))
	}
}

func (m *purgeModel) publish(s purgeState, slot int, emit Emit[purgeState]) {
	if slot == 0 && s.slot != open {
		return
	}
	for h := s.head[slot]; h <= 3; h++ {
		n := s
		n.head[slot] = h
		n.oldest[slot] = m.inUse(&s, slot)
		for i := range s.t {
			if purgeSlot(i) != slot {
				continue
			}
			n.u &^= 1 << i
			if at := s.t[i].at; m.rank[i] <= h && at >= pWrites && (at < pPublishes || at == pAborts) {
				n.u |= 1 << i
			}
		}
		if n != s {
			emit(n, "slot %d publishes head %d and its oldest snapshot", slot, int(h))
		}
	}
}

// purge reads the bound from one row of heads. Its next step deletes the marks up to the
// bound.
func (m *purgeModel) purge(s purgeState, emit Emit[purgeState]) {
	if s.bound >= 0 {
		s.purged, s.bound = s.bound, -1
		s.marks &^= upTo(m.rank[:])(s.purged)
		emit(s, "marks up to %d are deleted", int(s.purged), 0)
		return
	}
	bound := m.low(&s)
	if !m.onlyLow {
		if s.slot == open || s.slot == recovering && !m.onlyOpen {
			bound = min(bound, s.oldest[0])
		}
		bound = min(bound, s.oldest[1])
		if !m.ignoreBase {
			bound = min(bound, s.base)
		}
	}
	if bound > s.purged {
		s.bound = bound
		emit(s, "the heads are read: marks may go up to %d", int(bound), 0)
	}
}

func (m *purgeModel) recover(s purgeState, emit Emit[purgeState]) {
	step := s.step
	s.step++
	switch step {
	case 0:
		s.slot = recovering
		emit(s, "R0: slot 0 is recovering", 0, 0)
	case 1:
		if m.rank[0] > s.head[0] || s.u&1 != 0 {
			switch s.journal[0] {
			case pending:
				s.journal[0] = aborted
			case committed:
				s.c |= 1
			}
		}
		emit(s, "R1: T0, journal %d", int(s.journal[0]), 0)
	case 2:
		s.slot = closed
		if m.visible(&s)&1 == 0 {
			s.marks &^= 1
		}
		emit(s, "R2, R3: slot 0 is closed, C=%b", int(s.c), 0)
	}
}

func (m *purgeModel) commit(s purgeState, i int, emit Emit[purgeState]) {
	t, slot, b := &s.t[i], purgeSlot(i), uint8(1)<<i
	merge := m.branch && i == 0
	switch t.at {
	case pBegins:
		t.snap, t.low, t.seen = s.polled[slot], s.polledLow[slot], s.polledMax[slot]
		if t.at = pTakes; merge {
			t.at = pBranches
		}
		emit(s, "T%d begins at what was polled, low-water mark %d", i, int(t.low))
	case pBranches:
		s.base, t.at = t.low, pTakes
		emit(s, "the branch's cell has its base, %d", int(t.low), 0)
	case pTakes:
		if merge {
			t.seen = max(t.seen, s.polledMax[slot]) // a merge's id is above all that its server has polled
		}
		if m.rank[i] <= t.seen || m.rank[i] <= s.head[slot] || i == 1 && s.t[2].at > pTakes {
			return
		}
		t.at = pWrites
		emit(s, "T%d takes id %d", i, int(m.rank[i]))
	case pWrites:
		if t.at = pAborts; s.journal[i] == 0 {
			s.journal[i], t.at = pending, pReads
			if m.rank[i] > s.purged {
				s.marks |= b
			} else if slot == 1 || s.slot < closed {
				s.masked = true
			}
		}
		emit(s, "T%d: journal P, its mark", i, 0)
	case pReads:
		for o := range s.t {
			if o != i && s.marks>>o&1 == 1 && t.snap>>o&1 == 0 && m.rank[o] > t.low {
				t.conf |= 1 << o
			}
		}
		t.at = pResolves
		emit(s, "T%d reads back, it meets %03b", i, int(t.conf))
	case pResolves:
		m.resolve(s, i, emit)
	case pDecides:
		if t.at = pAborts; s.journal[i] == pending {
			s.journal[i], t.at = committed, pPublishes
			if merge {
				s.base = noBase
			}
		}
		emit(s, "T%d decides, journal %d", i, int(s.journal[i]))
	case pPublishes:
		if m.visible(&s)&b != 0 {
			s.acked |= b
			t.at = pDone
			emit(s, "T%d is acknowledged", i, 0)
		}
	case pAborts:
		if s.journal[i] != committed {
			s.journal[i] = aborted
		}
		s.marks &^= b
		t.at = pDone
		emit(s, "T%d is rolled back", i, 0)
	}
}

func (m *purgeModel) resolve(s purgeState, i int, emit Emit[purgeState]) {
	t := &s.t[i]
	t.at = pDecides
	for o := range s.t {
		if t.conf>>o&1 == 0 {
			continue
		}
		t.at = pResolves
		t.conf &^= 1 << o
		gone := o == 0 && s.slot == closed && m.visible(&s)&1 == 0
		switch {
		case gone || s.journal[o] == aborted:
		case s.journal[o] == committed, m.rank[o] < m.rank[i]:
			t.at, t.conf = pAborts, 0
		default:
			s.journal[o] = aborted
		}
		emit(s, "T%d settles with T%d", i, o)
		return
	}
	emit(s, "T%d meets nobody more", i, 0)
}

func purgeVariants() (vs []variant) {
	add := func(name string, k kind, change func(*purgeModel)) {
		v := variant{name: name, kind: k}
		for _, rank := range [][3]int8{{2, 1, 3}, {1, 2, 3}, {3, 1, 2}} {
			m := &purgeModel{rank: rank}
			change(m)
			v.tries = append(v.tries, func(limit int) Report {
				return Model[purgeState]{Init: purgeState{base: noBase, bound: -1}, Next: m.next, Check: m.check}.Explore(limit)
			})
		}
		vs = append(vs, v)
	}
	add("below every snapshot in use", holds, func(*purgeModel) {})
	add("beside a branch", holds, func(m *purgeModel) { m.branch = true })
	add("three commits", holds, func(m *purgeModel) { m.three = true })
	add("witness: acknowledged and purged", witness, func(m *purgeModel) {
		m.reach = func(s *purgeState) bool { return s.acked&3 == 3 && s.purged >= 2 && s.marks&3 == 0 }
	})
	add("up to the low-water mark", breaks, func(m *purgeModel) { m.onlyLow = true })
	add("snapshots that run count, not the polled one", breaks, func(m *purgeModel) { m.onlyRunning = true })
	add("slots that are recovering do not count", breaks, func(m *purgeModel) { m.onlyOpen = true })
	add("a branch's base does not count", breaks, func(m *purgeModel) { m.branch, m.ignoreBase = true, true })
	add("a branch's creator lets its base go too early", breaks, func(m *purgeModel) { m.branch, m.letGo = true, true })
	return vs
}
