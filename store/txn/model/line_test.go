package model

import "fmt"

// In the model "line", two servers commit in one branch. A commit reads the branch's cell
// and a counter, reserves its revision in the cell, writes the counter plus one into two
// rows, and publishes the revision in the cell. Anybody may void a reservation: its
// revision is then never shown. A write may land late. Once no write of a void revision
// can land any more, the revision's cells are erased and the revision is forgotten.

const (
	lineRows      = 2
	lineRevisions = 5 // revisions 1 to 4 are for commits
)

type lineServer struct {
	at       uint8
	revision int8
	value    int8
	sequence uint8
	sent     [lineRows]uint8
}

type lineState struct {
	head, reserved int8 // reserved (U) is 0 if there is no reservation
	void           uint8
	sequence       uint8
	versions       [lineRows][lineRevisions]int8
	server         [2]lineServer
	acked          uint8
	nextRevision   int8
	dropped        bool // some void revision was forgotten
}

const (
	lineReads uint8 = iota
	lineReserves
	lineWrites
	lineAwaits
	linePublishes
	lineDead
)

type lineModel struct {
	noReservation, forgetEarly, noCompare, noVoid bool // each drops a rule of the protocol, if set
	reach                                         bool
}

func (s *lineState) shows(r int8) bool { return r <= s.head && s.void>>r&1 == 0 && r != s.reserved }

func (s *lineState) value(row int) int8 {
	for r := s.head; r > 0; r-- {
		if s.void>>r&1 == 0 && s.versions[row][r] != absent {
			return s.versions[row][r]
		}
	}
	return 0
}

func (m *lineModel) check(s *lineState) string {
	if m.reach && s.dropped && s.acked == 1<<1|1<<4 {
		return "reached"
	}
	n := int8(0)
	for r := int8(1); r < lineRevisions; r++ {
		if s.acked>>r&1 == 1 {
			n++
			if !s.shows(r) {
				return fmt.Sprintf("the acknowledged commit %d is not shown", r)
			}
		}
	}
	for row := range lineRows {
		if got := s.value(row); s.reserved == 0 && got != n {
			return fmt.Sprintf("row %d shows %d, %d commits are published", row, got, n)
		}
	}
	return ""
}

func (m *lineModel) next(s lineState, emit Emit[lineState]) {
	for i := range s.server {
		m.land(s, i, emit)
		m.step(s, i, emit)
		if at := s.server[i].at; at != lineReads && at != lineDead {
			n := s
			n.server[i].at = lineDead // writes that the server has sent may still land
			emit(n, "server %d dies", i, 0)
		}
	}
	if s.reserved != 0 {
		n := s
		n.head, n.reserved = max(s.head, s.reserved), 0
		if !m.noVoid {
			n.void |= 1 << s.reserved
		}
		n.sequence++
		emit(n, "somebody voids %d", int(s.reserved), 0)
	}
	for r := int8(1); r < lineRevisions; r++ {
		if s.void>>r&1 == 0 || s.late(r) && !m.forgetEarly {
			continue
		}
		n := s
		n.versions[0][r], n.versions[1][r], n.dropped = absent, absent, true
		n.void &^= 1 << r
		n.sequence++
		emit(n, "%d is erased and forgotten", int(r), 0)
	}
}

// late reports whether writes of a revision may still land.
func (s *lineState) late(r int8) bool {
	for _, d := range s.server {
		waits := d.at > lineReads && d.at < linePublishes
		if d.revision == r && (waits || d.sent[0] == underWay || d.sent[1] == underWay) {
			return true
		}
	}
	return false
}

func (m *lineModel) land(s lineState, i int, emit Emit[lineState]) {
	for row := range lineRows {
		if d := s.server[i]; d.sent[row] == underWay {
			n := s
			n.versions[row][d.revision] = d.value
			n.server[i].sent[row] = landed
			emit(n, "server %d's write of row %d lands", i, row)
		}
	}
}

func (m *lineModel) step(s lineState, i int, emit Emit[lineState]) {
	d := &s.server[i]
	switch d.at {
	case lineReads:
		if s.reserved != 0 && !m.noReservation || s.nextRevision >= lineRevisions {
			return
		}
		*d = lineServer{at: lineReserves, revision: s.nextRevision, value: s.value(0) + 1, sequence: s.sequence}
		if s.nextRevision++; m.noReservation {
			d.at = lineWrites
		}
		emit(s, "server %d reads the branch, takes %d", i, int(d.revision))
	case lineReserves:
		if s.sequence != d.sequence && !(m.noCompare && s.reserved == 0 && d.revision > s.head) {
			d.at = lineReads
			emit(s, "server %d was late", i, 0)
			return
		}
		s.reserved, d.at = d.revision, lineWrites
		s.sequence++
		d.sequence = s.sequence
		emit(s, "server %d reserves %d", i, int(d.revision))
	case lineWrites:
		d.sent, d.at = [lineRows]uint8{underWay, underWay}, lineAwaits
		emit(s, "server %d sends its cells", i, 0)
	case lineAwaits:
		if d.sent != [lineRows]uint8{landed, landed} {
			return
		}
		d.at = linePublishes
		emit(s, "server %d has its answers", i, 0)
	case linePublishes:
		d.at = lineReads
		if s.sequence == d.sequence && s.reserved == d.revision || m.noReservation && d.revision > s.head {
			s.head, s.reserved = d.revision, 0
			s.sequence++
			s.acked |= 1 << d.revision
			emit(s, "server %d publishes %d", i, int(d.revision))
			return
		}
		emit(s, "server %d was voided", i, 0)
	}
}

func lineVariants() (vs []variant) {
	add := func(name string, k kind, m *lineModel) {
		init := lineState{nextRevision: 1}
		for row := range lineRows {
			for r := range init.versions[row] {
				init.versions[row][r] = absent
			}
		}
		vs = append(vs, variant{name: name, kind: k, whole: true, tries: []func(int) Report{func(limit int) Report {
			return Model[lineState]{Init: init, Next: m.next, Check: m.check}.Explore(limit)
		}}})
	}
	add("two servers commit in one branch", holds, &lineModel{})
	add("witness: two commits stand around two void ones", witness, &lineModel{reach: true})
	add("a commit reserves nothing", breaks, &lineModel{noReservation: true})
	add("a void commit is forgotten while writes are under way", breaks, &lineModel{forgetEarly: true})
	add("reserving does not compare the cell", breaks, &lineModel{noCompare: true})
	add("a void commit is not kept in A", breaks, &lineModel{noVoid: true})
	return vs
}
