package model

import "fmt"

// In the model "turn", servers want one row. Each makes some commits, one after the other. A transaction that loses
// places a reservation, a mark that is never committed, waits for all that its mark met, and begins again. A
// server keeps its reservation for several commits, and ends it in the change of its cell that publishes the last of them.
// Commits that met each other settle by their priorities, as in the model "retry".

const (
	turnServers = 3
	turnItems   = 14
)

type turnServer struct {
	at       uint8
	left     uint8 // transactions that still have to commit
	lost     uint8 // attempts that the present transaction has lost
	reserved int8  // index of the reservation plus one, or 0
	commit   int8  // index of the commit
	used     uint8 // commits since the reservation was placed
	snap     uint16
	met      uint16 // what the mark met; a reservation waits for them
}

// A turnState has the commits and reservations in the order of their ids.
type turnState struct {
	t                [turnServers]turnServer
	n                int8
	owner, prio      [turnItems]int8
	snap             [turnItems]uint16 // of commits
	reserves, marked uint16            // sets of items
	shown, void      uint16
	kept             bool // a reservation was used for two commits
}

const (
	tBegins uint8 = iota
	tMarks
	tReads
	tSettles
	tPublishes
	tReserves
	tMeets
	tWaits
	tDone
	tDead
	tBusy
)

type turnModel struct {
	servers, commits, tries, length int
	deaths                          bool
	// Each of these flags, if set, drops a rule of the protocol.
	waitForLater, noWait, passOver, neverEnd bool
	reach                                    func(*turnState) bool
}

func (m *turnModel) check(s *turnState) string {
	if m.reach != nil && m.reach(s) {
		return "reached"
	}
	for a := range s.n {
		for b := range a {
			if s.shown>>a&1 == 1 && s.shown>>b&1 == 1 && s.snap[a]>>b&1 == 0 && s.snap[b]>>a&1 == 0 {
				return fmt.Sprintf("commits %d and %d are shown and neither saw the other", b, a)
			}
		}
	}
	for p := range m.servers {
		if s.t[p].at == tBusy {
			return fmt.Sprintf("T%d gave up", p)
		}
	}
	if s.shown&s.void != 0 {
		return "what was shown is void"
	}
	moves := false
	m.next(*s, func(turnState, string, int, int) { moves = true })
	for p := range m.servers {
		if at := s.t[p].at; !moves && at != tDone && at != tDead {
			return fmt.Sprintf("T%d waits for ever", p)
		}
	}
	return ""
}

func (m *turnModel) next(s turnState, emit Emit[turnState]) {
	for p := range m.servers {
		t := &s.t[p]
		switch {
		case t.at == tDead:
			if mine := s.of(p) &^ s.shown &^ s.void; mine != 0 {
				n := s
				n.void |= mine
				emit(n, "T%d is recovered", p, 0)
			}
			continue
		case t.at == tDone:
			continue
		case m.deaths && p == 0:
			n := s
			n.t[p].at = tDead
			emit(n, "T%d dies", p, 0)
		}
		if s.n < turnItems || t.at != tBegins && t.at != tReserves {
			m.step(s, p, emit)
		}
	}
}

// of returns the items of a server.
func (s *turnState) of(p int) (set uint16) {
	for i := range s.n {
		if int(s.owner[i]) == p {
			set |= 1 << i
		}
	}
	return set
}

// take adds an item of server p.
func (s *turnState) take(p int, prio int8) int8 {
	i := s.n
	s.n++
	s.owner[i], s.prio[i] = int8(p), prio
	return i
}

// meets returns the items that item i meets: marks that server p neither made nor saw, nor knows as void.
func (m *turnModel) meets(s *turnState, p int, i int8, seen uint16) (met uint16) {
	for o := range s.n {
		later := s.reserves>>o&1 == 1 && s.prio[o] > s.prio[i]
		if (s.marked&^s.of(p)&^seen)>>o&1 == 1 && (!later || m.waitForLater) {
			met |= 1 << o
		}
	}
	return met
}

func (m *turnModel) step(s turnState, p int, emit Emit[turnState]) {
	t := &s.t[p]
	c := uint16(1) << t.commit
	switch t.at {
	case tBegins:
		prio := s.n
		if t.reserved != 0 {
			prio = s.prio[t.reserved-1]
		}
		t.snap = s.shown
		t.commit = s.take(p, prio)
		s.snap[t.commit] = t.snap
		t.met = s.void // what the transaction knows as void
		t.at = tMarks
		emit(s, "T%d begins commit %d", p, int(t.commit))
	case tMarks:
		s.marked |= c
		t.at = tReads
		emit(s, "T%d writes its mark", p, 0)
	case tReads:
		t.met = m.meets(&s, p, t.commit, t.snap|t.met)
		t.at = tSettles
		emit(s, "T%d reads, it meets %b", p, int(t.met))
	case tSettles:
		m.settle(s, p, emit)
	case tPublishes:
		m.publish(s, p, emit)
	case tReserves:
		i := s.take(p, s.n)
		s.reserves |= 1 << i
		t.reserved, t.used, t.snap = i+1, 0, s.shown|s.void
		s.marked |= 1 << i
		t.at = tMeets
		emit(s, "T%d places reservation %d", p, int(i))
	case tMeets:
		t.met = m.meets(&s, p, t.reserved-1, t.snap)
		t.at = tWaits
		emit(s, "T%d reads, its reservation meets %b", p, int(t.met))
	case tWaits:
		if t.met&^s.shown&^s.void == 0 || m.noWait {
			t.at = tBegins
			emit(s, "T%d has its turn", p, 0)
		}
	}
}

// settle resolves one of the conflicts that the commit of server p has met.
func (m *turnModel) settle(s turnState, p int, emit Emit[turnState]) {
	t := &s.t[p]
	if s.void>>t.commit&1 == 1 {
		m.lose(s, p, emit)
		return
	}
	for o := range s.n {
		if t.met>>o&1 == 0 {
			continue
		}
		t.met &^= 1 << o
		first := s.prio[o] < s.prio[t.commit] || s.prio[o] == s.prio[t.commit] && o < t.commit
		switch {
		case s.void>>o&1 == 1:
		case s.reserves>>o&1 == 1 && m.passOver:
		case s.shown>>o&1 == 1, first:
			t.met = 1 << o
			m.lose(s, p, emit)
			return
		case s.reserves>>o&1 == 0:
			s.void |= 1 << o // taken back
		}
		emit(s, "T%d settles with %d", p, int(o))
		return
	}
	t.at = tPublishes
	emit(s, "T%d meets nobody more", p, 0)
}

// ends reports whether a reservation ends with the next commit.
func (m *turnModel) ends(t *turnServer) bool { return t.left == 1 || int(t.used)+1 == m.length }

func (m *turnModel) lose(s turnState, p int, emit Emit[turnState]) {
	t := &s.t[p]
	s.void |= 1 << t.commit
	t.lost++
	switch {
	case int(t.lost) == m.tries:
		t.at = tBusy
	case t.reserved == 0:
		t.at = tReserves
	default:
		t.at = tWaits
	}
	emit(s, "T%d takes commit %d back", p, int(t.commit))
}

func (m *turnModel) publish(s turnState, p int, emit Emit[turnState]) {
	t := &s.t[p]
	if s.void>>t.commit&1 == 1 {
		t.met = 0
		m.lose(s, p, emit)
		return
	}
	s.shown |= 1 << t.commit
	if t.reserved != 0 && !m.neverEnd && m.ends(t) {
		s.void |= 1 << (t.reserved - 1)
		t.reserved = 0
	}
	t.left--
	t.used++
	s.kept = s.kept || t.reserved != 0
	t.lost, t.met, t.snap = 0, 0, 0
	if t.at = tBegins; t.left == 0 {
		t.at = tDone
	}
	emit(s, "T%d publishes commit %d", p, int(t.commit))
}

func turnVariants() (vs []variant) {
	add := func(name string, k kind, servers, commits int, change func(*turnModel)) {
		m := &turnModel{servers: servers, commits: commits, tries: 4, length: 2}
		change(m)
		vs = append(vs, variant{name: name, kind: k, whole: servers == 2, tries: []func(int) Report{func(limit int) Report {
			var init turnState
			for p := range servers {
				init.t[p].left = uint8(commits)
			}
			return Model[turnState]{Init: init, Next: m.next, Check: m.check}.Explore(limit)
		}}})
	}
	add("two, nobody gives up", holds, 2, 2, func(*turnModel) {})
	add("two, one may die", holds, 2, 2, func(m *turnModel) { m.deaths = true })
	add("three, nobody gives up", holds, 3, 1, func(*turnModel) {})
	add("three, one may die", holds, 3, 1, func(m *turnModel) { m.deaths = true })
	add("witness: all committed, two commits by one reservation", witness, 2, 3, func(m *turnModel) {
		m.reach = func(s *turnState) bool { return s.kept && s.t[0].at == tDone && s.t[1].at == tDone }
	})
	add("who reserves waits for later reservations too", breaks, 3, 1, func(m *turnModel) { m.waitForLater = true })
	add("who reserves waits for nobody", breaks, 2, 1, func(m *turnModel) { m.noWait = true })
	add("commits pass over reservations", breaks, 2, 4, func(m *turnModel) { m.passOver = true })
	add("a reservation never ends", breaks, 2, 2, func(m *turnModel) { m.neverEnd = true })
	return vs
}
