package model

import "fmt"

// In the model "lane", two servers keep one lane, which is a set of records that are kept
// up to date together (docs/decisions/0035-views.md). There are two records and four
// commits. What each commit adds to each record is known, so the right value of a record is
// known at every time. Times are numbers: commit n is made at time n.
//
// The lane's cell contains two times and a sequence number. The time W is the end of the last
// finished step. The time next is the end of the announced step, or zero. A part is a stored
// version of a record. A step reads the parts as they were at time W. For each record that has
// changed since then, it writes a part whose revision is the announced end of the step. It then
// records that the step is finished, and moves W to the end of the step. Both servers may do
// this at any time, and may die during a step. A write may land late, twice or never.
//
// A reader at time T finds b, the end of the newest finished step that does not end after
// T. It takes the newest version of a record up to b, and adds the commits in (b, T].

const (
	laneCommits = 4
	laneRecords = 2
)

// laneAdds[c][r] is what commit c+1 adds to record r.
var laneAdds = [laneCommits][laneRecords]int8{{1, 0}, {0, 1}, {1, 1}, {-1, -1}}

// laneSum returns what the commits in (from, to] add to a record.
func laneSum(record int, from, to int8) (sum int8) {
	for c := from; c < to; c++ {
		sum += laneAdds[c][record]
	}
	return sum
}

// absent is the version of a record that does not exist. If a step's new version of a
// record is absent, the step does not write the record.
const absent int8 = -9

// These are the phases of a server.
const (
	laneIdle uint8 = iota
	laneAnnounces
	laneReads // reads the first record, after comparing W with the horizon
	laneReadsSecond
	laneWrites
	laneWritesSecond
	laneAwaits
	laneFinishes
	laneMoves
	laneDead
)

// These are the fates of a write.
const (
	unsent uint8 = iota
	underWay
	landed
)

type laneServer struct {
	phase   uint8
	w, next int8
	seq     uint8
	part    [laneRecords]int8 // the parts that the step writes, with next as their revision
	sent    [laneRecords]uint8
}

type laneState struct {
	settled  int8 // every commit up to this time is known, so a step may end here, but not later
	w, next  int8 // w, next and seq are the lane's cell
	seq      uint8
	parts    [laneRecords][laneCommits + 1]int8 // versions by revision
	finished [laneCommits + 1]bool
	server   [2]laneServer
	// A copy of one write may land at any later time. If there is no such copy,
	// strayRecord is -1.
	strayRecord, strayAt, strayPart int8
	horizon                         int8 // versions that were superseded at or before this time are removed
}

type laneModel struct {
	// Each of these flags, if set, drops a rule of the protocol.
	unannounced, blindSwap, newestPart, finishEarly, moveEarly, unheld, belowHorizon, unsettled bool
	reach                                                                                       func(*laneState) bool
}

// part returns the newest version of a record up to a revision, or zero.
func (s *laneState) part(record int, upTo int8) int8 {
	for r := upTo; r >= 0; r-- {
		if s.parts[record][r] != absent {
			return s.parts[record][r]
		}
	}
	return 0
}

func (m *laneModel) check(s *laneState) string {
	if m.reach != nil && m.reach(s) {
		return "reached"
	}
	for t := s.horizon; t <= s.settled; t++ {
		b := t
		for b > 0 && !s.finished[b] {
			b--
		}
		if b < s.horizon {
			continue // the reader computes the record from the entries
		}
		for record := range laneRecords {
			got, want := s.part(record, b)+laneSum(record, b, t), laneSum(record, 0, t)
			if got != want {
				return fmt.Sprintf("record %d at %d, after the step to %d: %d, want %d", record, t, b, got, want)
			}
		}
	}
	return ""
}

func (m *laneModel) next(s laneState, emit Emit[laneState]) {
	if s.settled < laneCommits {
		n := s
		n.settled++
		emit(n, "commit %d is settled", int(n.settled), 0)
	}
	for i := range s.server {
		m.die(s, i, emit)
		m.land(s, i, emit)
		m.step(s, i, emit)
	}
	if s.strayRecord >= 0 {
		n := s
		n.parts[s.strayRecord][s.strayAt] = s.strayPart
		n.strayRecord, n.strayAt, n.strayPart = -1, 0, 0
		emit(n, "a copy of a write lands in record %d at %d", int(s.strayRecord), int(s.strayAt))
	}
	m.collect(s, emit)
}

func (m *laneModel) die(s laneState, i int, emit Emit[laneState]) {
	if phase := s.server[i].phase; phase != laneDead && phase != laneIdle {
		s.server[i].phase = laneDead // writes that the server has sent may still land
		emit(s, "server %d dies", i, 0)
	}
}

// land lets a write of server i that is under way take effect.
func (m *laneModel) land(s laneState, i int, emit Emit[laneState]) {
	d := s.server[i]
	for record := range laneRecords {
		if d.sent[record] != underWay {
			continue
		}
		n := s
		n.parts[record][d.next] = d.part[record]
		n.server[i].sent[record] = landed
		if n.strayRecord < 0 {
			twice := n
			twice.strayRecord, twice.strayAt, twice.strayPart = int8(record), d.next, d.part[record]
			emit(twice, "server %d's write of record %d lands, a copy is under way", i, record)
		}
		emit(n, "server %d's write of record %d lands", i, record)
	}
}

// step does a step of server i.
func (m *laneModel) step(s laneState, i int, emit Emit[laneState]) {
	d := &s.server[i]
	switch d.phase {
	case laneIdle:
		m.choose(s, i, emit)
	case laneAnnounces:
		if s.seq != d.seq && (!m.blindSwap || s.w != d.w) {
			d.phase = laneIdle
			emit(s, "server %d was late", i, 0)
			return
		}
		s.next = d.next
		s.seq++
		d.seq, d.phase = s.seq, laneReads
		emit(s, "server %d announces the step to %d", i, int(d.next))
	case laneReads, laneReadsSecond:
		m.read(s, i, emit)
	case laneWrites, laneWritesSecond:
		record := int(d.phase - laneWrites)
		if d.sent[record] = landed; d.part[record] != absent {
			d.sent[record] = underWay
		}
		d.phase++
		emit(s, "server %d sends record %d", i, record)
	case laneAwaits:
		if (d.sent[0] == underWay || d.sent[1] == underWay) && !m.finishEarly {
			return
		}
		if d.phase = laneFinishes; m.moveEarly {
			d.phase = laneMoves
		}
		emit(s, "server %d has its answers", i, 0)
	case laneFinishes:
		s.finished[d.next] = true
		if d.phase = laneMoves; m.moveEarly {
			d.phase = laneIdle
		}
		emit(s, "server %d finishes the step to %d", i, int(d.next))
	case laneMoves:
		if s.seq == d.seq || m.unannounced && s.w == d.w {
			s.w, s.next = d.next, 0
			s.seq++
		}
		if d.phase = laneIdle; m.moveEarly {
			d.phase = laneFinishes
		}
		emit(s, "server %d moves W to %d", i, int(d.next))
	}
}

// choose lets server i read the lane's cell. The server continues the announced step or,
// if there is none, chooses a step itself.
func (m *laneModel) choose(s laneState, i int, emit Emit[laneState]) {
	d := &s.server[i]
	*d = laneServer{w: s.w, next: s.next, seq: s.seq, part: [laneRecords]int8{absent, absent}}
	if d.next != 0 && !m.unannounced {
		d.phase = laneReads
		emit(s, "server %d takes up the step to %d", i, int(d.next))
		return
	}
	limit := s.settled
	if m.unsettled {
		limit = laneCommits
	}
	for b := d.w + 1; b <= limit; b++ {
		n := s
		n.server[i].next, n.server[i].phase = b, laneAnnounces
		if m.unannounced {
			n.server[i].phase = laneReads
		}
		emit(n, "server %d chooses the step to %d", i, int(b))
	}
}

// read lets server i read a record's part as of time W, and compute the part at the end
// of the step.
func (m *laneModel) read(s laneState, i int, emit Emit[laneState]) {
	d := &s.server[i]
	record := int(d.phase - laneReads)
	if record == 0 && d.w < s.horizon && !m.belowHorizon {
		*d = laneServer{}
		emit(s, "server %d finds W below the horizon", i, 0)
		return
	}
	upTo := d.w
	if m.newestPart {
		upTo = laneCommits
	}
	if added := laneSum(record, d.w, min(d.next, s.settled)); added != 0 {
		d.part[record] = s.part(record, upTo) + added
	}
	d.phase++
	emit(s, "server %d reads record %d", i, record)
}

// collect chooses a horizon that is not above any snapshot in use, and removes the
// history below the horizon.
func (m *laneModel) collect(s laneState, emit Emit[laneState]) {
	to := s.w
	for i := range s.server {
		// A server compares W with the horizon, and takes its snapshots, in one step.
		if d := &s.server[i]; d.phase > laneReads && d.phase < laneDead && !m.unheld {
			to = min(to, d.w)
		}
	}
	if s.horizon > 0 || to <= s.horizon {
		return // it is enough to collect once
	}
	s.horizon = to
	for record := range laneRecords {
		superseded := false
		for r := to; r >= 0; r-- {
			part := &s.parts[record][r]
			if superseded {
				*part = absent
			}
			superseded = superseded || *part != absent
		}
	}
	emit(s, "history up to %d is collected", int(to), 0)
}

func laneVariants() (vs []variant) {
	add := func(name string, k kind, change func(*laneModel)) {
		m := &laneModel{}
		change(m)
		init := laneState{strayRecord: -1}
		for record := range laneRecords {
			for r := range init.parts[record] {
				init.parts[record][r] = absent
			}
		}
		vs = append(vs, variant{name: name, kind: k, whole: true, tries: []func(int) Report{func(limit int) Report {
			return Model[laneState]{Init: init, Next: m.next, Check: m.check}.Explore(limit)
		}}})
	}
	add("two servers keep a lane", holds, func(*laneModel) {})
	add("witness: two steps are finished, a server is dead, a copy of a write is late", witness, func(m *laneModel) {
		m.reach = func(s *laneState) bool {
			return s.finished[2] && s.finished[4] && s.w == 4 && s.server[1].phase == laneDead && s.strayAt == 2
		}
	})
	add("a step is not announced", breaks, func(m *laneModel) { m.unannounced = true })
	add("an announcement does not compare", breaks, func(m *laneModel) { m.blindSwap = true })
	add("a step begins from the newest part, not from that as of W", breaks, func(m *laneModel) { m.newestPart = true })
	add("a step is finished before its writes have landed", breaks, func(m *laneModel) { m.finishEarly = true })
	add("a step's snapshots do not count", breaks, func(m *laneModel) { m.unheld = true })
	add("a step begins below the horizon", breaks, func(m *laneModel) { m.belowHorizon = true })
	add("a step goes beyond what is settled", breaks, func(m *laneModel) { m.unsettled = true })
	// The model holds even if W moves first, because readers go by the finished steps and
	// not by W.
	add("W moves before the step is finished", holds, func(m *laneModel) { m.moveEarly = true })
	return vs
}
