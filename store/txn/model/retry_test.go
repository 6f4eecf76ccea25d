package model

import "fmt"

// In the model "retry", transactions of different servers write one row. They abort each
// other, give way, wait, and try again on newer snapshots. Every attempt has its own id.
// The priority of an attempt is the id of its transaction's first attempt. One
// transaction may die.
//
// One attempt of an older transaction can cost a younger transaction two attempts: one is
// aborted, and the next one gives way. Only committed transactions abort the oldest
// transaction. So the number of lost attempts is bounded. The constant tries is large
// enough that no transaction runs out of attempts.

const (
	players = 3
	tries   = 12
)

type retryT struct {
	at, try uint8
	snap    uint64 // a set: bit p*tries+try is set if the snapshot shows that attempt of transaction p
	conf    uint64
	seen    int8
	prio    int8
	waits   uint8 // number of the attempt that this transaction waits for, plus one; 0 if none
	dead    bool
}

type retryState struct {
	t       [players]retryT
	marks   uint64
	journal [players * tries]uint8
	id      [players * tries]int8
	prio    [players * tries]int8
	shown   uint64
	next    int8
	unfair  uint8
}

const (
	rBegins uint8 = iota
	rTakes
	rMarks
	rReads
	rSettles
	rDecides
	rPublishes
	rGivesUp
	rErases
	rWaits
	rDone
	rBusy
)

type retryModel struct {
	players, tries int
	deaths         bool
	// Each of these flags, if set, drops a rule of the protocol.
	alwaysYield, alwaysWound, newPrio, blindWound, noWait bool
	reach                                                 func(*retryState) bool
}

func attemptOf(p int, t *retryT) int { return p*tries + int(t.try) }

func (m *retryModel) check(s *retryState) string {
	if m.reach != nil && m.reach(s) {
		return "reached"
	}
	if s.unfair != 0 {
		return "an older transaction was taken back for a younger one"
	}
	for a := range s.journal {
		for b := range a {
			if s.journal[a] != committed || s.journal[b] != committed {
				continue
			}
			if !m.saw(s, a, b) && !m.saw(s, b, a) {
				return fmt.Sprintf("attempts %d and %d committed and neither saw the other", b, a)
			}
		}
	}
	for p := range m.players {
		if s.t[p].at == rBusy {
			return fmt.Sprintf("T%d gave up", p)
		}
	}
	return m.checkStuck(s)
}

// checkStuck checks that some step is possible until every living transaction is done.
func (m *retryModel) checkStuck(s *retryState) string {
	moves := false
	m.next(*s, func(retryState, string, int, int) { moves = true })
	for p := range m.players {
		if t := &s.t[p]; !moves && t.at != rDone && !t.dead {
			return fmt.Sprintf("T%d waits for ever", p)
		}
	}
	return ""
}

func (m *retryModel) saw(s *retryState, a, b int) bool {
	t := &s.t[a/tries]
	return int(t.try) == a%tries && t.snap>>b&1 == 1
}

func (m *retryModel) next(s retryState, emit Emit[retryState]) {
	for p := range m.players {
		if s.t[p].dead {
			continue
		}
		m.step(s, p, emit)
		if at := s.t[p].at; m.deaths && p == 0 && at > rBegins && at < rDone {
			n := s
			n.t[p].dead = true
			emit(n, "T%d dies", p, 0)
		}
	}
}

func (m *retryModel) step(s retryState, p int, emit Emit[retryState]) {
	t := &s.t[p]
	a := attemptOf(p, t)
	b := uint64(1) << a
	switch t.at {
	case rBegins:
		t.snap, t.conf = s.shown, 0
		for o := range s.id {
			if s.shown>>o&1 == 1 {
				t.seen = max(t.seen, s.id[o])
			}
		}
		t.at = rTakes
		emit(s, "T%d begins attempt %d", p, int(t.try))
	case rTakes:
		s.next++
		s.id[a] = s.next
		if t.prio == 0 || m.newPrio {
			t.prio = s.next
		}
		s.prio[a] = t.prio
		t.at = rMarks
		emit(s, "T%d takes id %d", p, int(s.next))
	case rMarks:
		s.journal[a] = pending
		s.marks |= b
		t.at = rReads
		emit(s, "T%d: journal P, its mark", p, 0)
	case rReads:
		t.conf = s.marks &^ t.snap &^ b
		t.at = rSettles
		emit(s, "T%d reads back, it meets %b", p, int(t.conf))
	case rSettles:
		m.settle(s, p, emit)
	case rDecides:
		t.at = rGivesUp
		if s.journal[a] == pending {
			s.journal[a], t.at = committed, rPublishes
		}
		emit(s, "T%d decides, journal %d", p, int(s.journal[a]))
	case rPublishes:
		s.shown |= b
		t.at = rDone
		emit(s, "T%d is published", p, 0)
	case rGivesUp:
		if s.journal[a] == pending {
			s.journal[a] = aborted
		}
		t.at = rErases
		emit(s, "T%d takes its attempt back", p, 0)
	case rErases:
		s.marks &^= b
		t.at = rWaits
		emit(s, "T%d erases its mark", p, 0)
	case rWaits:
		m.wait(s, p, emit)
	}
}

// settle resolves one of the conflicts that transaction p has met.
func (m *retryModel) settle(s retryState, p int, emit Emit[retryState]) {
	t := &s.t[p]
	for o := range s.journal {
		if t.conf>>o&1 == 0 {
			continue
		}
		t.conf &^= 1 << o
		other := &s.t[o/tries]
		gives := m.alwaysYield || !m.alwaysWound && s.prio[o] < t.prio
		switch {
		case s.journal[o] == aborted:
		case s.journal[o] == committed && !m.blindWound, s.journal[o] == pending && gives:
			t.at, t.waits = rGivesUp, uint8(o+1)
		case s.journal[o] == pending:
			s.journal[o] = aborted
			if !other.dead && m.older(&s, o/tries, p) && !m.alwaysWound {
				s.unfair = 1
			}
		}
		emit(s, "T%d settles with attempt %d", p, o)
		return
	}
	t.at = rDecides
	emit(s, "T%d meets nobody more", p, 0)
}

// older reports whether the first id of transaction a is less than that of transaction
// b.
func (m *retryModel) older(s *retryState, a, b int) bool {
	return s.id[a*tries] != 0 && s.id[a*tries] < s.id[b*tries]
}

// wait waits until the winner of a conflict is decided and, if it is committed,
// visible. If the winner's server is dead, transaction p aborts the winner when its
// patience ends.
func (m *retryModel) wait(s retryState, p int, emit Emit[retryState]) {
	t := &s.t[p]
	if w := int(t.waits) - 1; w >= 0 && !m.noWait {
		dead := s.t[w/tries].dead
		switch {
		case s.journal[w] == pending && dead:
			s.journal[w] = aborted
			emit(s, "T%d's patience with attempt %d ends", p, w)
			return
		case s.journal[w] == committed && dead && s.shown>>w&1 == 0:
			s.shown |= 1 << w
			emit(s, "attempt %d is recovered", w, 0)
			return
		case s.journal[w] == pending, s.journal[w] == committed && s.shown>>w&1 == 0:
			return
		}
	}
	t.waits = 0
	if t.at = rBegins; int(t.try)+1 == m.tries {
		t.at = rBusy
	} else {
		t.try++
	}
	emit(s, "T%d tries again", p, 0)
}

func retryVariants() (vs []variant) {
	add := func(name string, k kind, players int, change func(*retryModel)) {
		m := &retryModel{players: players, tries: tries}
		change(m)
		vs = append(vs, variant{name: name, kind: k, whole: true, tries: []func(int) Report{func(limit int) Report {
			return Model[retryState]{Next: m.next, Check: m.check}.Explore(limit)
		}}})
	}
	add("two, nobody gives up", holds, 2, func(*retryModel) {})
	add("two, one may die", holds, 2, func(m *retryModel) { m.deaths = true })
	add("three, nobody gives up", holds, 3, func(*retryModel) {})
	add("three, one may die", holds, 3, func(m *retryModel) { m.deaths = true })
	add("witness: three committed, one of them at its third attempt", witness, 3, func(m *retryModel) {
		m.reach = func(s *retryState) bool {
			return s.t[0].at == rDone && s.t[1].at == rDone && s.t[2].at == rDone && s.t[1].try == 2
		}
	})
	add("everybody gives way", breaks, 2, func(m *retryModel) { m.alwaysYield, m.tries = true, 4 })
	add("everybody takes the other back", breaks, 2, func(m *retryModel) { m.alwaysWound, m.tries = true, 4 })
	add("the priority is the attempt's", breaks, 3, func(m *retryModel) { m.newPrio = true })
	add("a commit that was quicker is passed over", breaks, 2, func(m *retryModel) { m.blindWound = true })
	add("nobody waits for the one that won", breaks, 2, func(m *retryModel) { m.noWait, m.tries = true, 4 })
	return vs
}
