package model

import "fmt"

// In the model "horizon", the history below a horizon is collected, with its journal
// rows, while two servers read the past. Times are numbers. A reader at time T finds
// everything that it needs as long as nothing above T has been collected.
//
// A leader announces a horizon. Every server honours the earlier of two times: the announced
// horizon and the time of its oldest open snapshot. A server first stops opening snapshots
// before the time that it honours. Only then does it publish this time in its cell. The
// collector reads all servers' cells from one row of heads. Server 0 may die, or may stop
// answering and come back in a new slot. Server 1 joins later. A follower reads the journal
// from a frontier.

const moments = 3

type horizonServer struct {
	slot    uint8 // open, recovering or closed; free before the server's claim
	honours int8  // the server opens no snapshot before this time
	says    int8  // the horizon in the server's cell
	reads   int8  // time of the server's open snapshot, or none
	fresh   bool  // the server may read, because its heads are not older than a lease
	knows   int8  // the horizon that the server read before its claim
}

type horizonState struct {
	now, announced   int8
	server           [2]horizonServer
	bound, collected int8 // the bound that the collector read, and the time up to which it has collected
	frontier         int8 // the follower's frontier, or none if it has finished
	scanned          bool
	missed           bool // rows were missing when the follower read
	checked          bool
	told             bool // the follower treated what it read as complete
}

const none = -1

type horizonModel struct {
	// Each of these flags, if set, drops a rule of the protocol.
	toAnnounced, onlyOpen, saysFirst, beforeClaim, outlives, checkFirst, forgetsReaders bool
	reach                                                                               func(*horizonState) bool
}

func (m *horizonModel) check(s *horizonState) string {
	if m.reach != nil && m.reach(s) {
		return "reached"
	}
	for n := range s.server {
		if d := &s.server[n]; d.reads != none && d.fresh && d.reads < s.collected {
			return fmt.Sprintf("server %d reads at %d, collected is up to %d", n, d.reads, s.collected)
		}
	}
	if s.told && s.missed {
		return "a follower takes for whole what has been purged"
	}
	return ""
}

func (m *horizonModel) next(s horizonState, emit Emit[horizonState]) {
	if s.now < moments {
		n := s
		n.now++
		emit(n, "it is %d", int(n.now), 0)
	}
	if s.announced < s.now {
		n := s
		n.announced = s.now
		emit(n, "the leader announces %d", int(n.announced), 0)
	}
	for i := range s.server {
		m.serve(s, i, emit)
	}
	m.recover(s, emit)
	m.collect(s, emit)
	m.follow(s, emit)
}

// serve does a step of server i.
func (m *horizonModel) serve(s horizonState, i int, emit Emit[horizonState]) {
	d := s.server[i]
	step := func(to horizonServer, what string, a, b int) {
		n := s
		n.server[i] = to
		emit(n, what, a, b)
	}
	switch {
	case d.slot == free && d.knows == none:
		d.knows = s.announced
		step(d, "server %d reads the horizon %d and the heads", i, int(d.knows))
		return
	case d.slot == free:
		m.claim(s, i, emit)
		return
	case !d.fresh:
		return
	}
	for t := d.honours; t <= s.now && d.reads == none; t++ {
		to := d
		to.reads = t
		step(to, "server %d opens a snapshot at %d", i, int(t))
	}
	if d.reads != none {
		to := d
		to.reads = none
		step(to, "server %d closes its snapshot", i, 0)
	}
	if d.slot != open {
		return
	}
	horizon := s.announced
	if d.reads != none && !m.forgetsReaders {
		horizon = min(horizon, d.reads)
	}
	to := d
	switch {
	case m.saysFirst && horizon > d.says:
		to.says = horizon
		step(to, "server %d says in its cell that it honours %d", i, int(horizon))
	case m.saysFirst && d.says > d.honours:
		to.honours = d.says
		step(to, "server %d honours %d", i, int(d.says))
	case !m.saysFirst && horizon > d.honours:
		to.honours = horizon
		step(to, "server %d honours %d", i, int(horizon))
	case !m.saysFirst && d.honours > d.says:
		to.says = d.honours
		step(to, "server %d says in its cell that it honours %d", i, int(d.honours))
	}
}

// claim lets server i claim a slot. The server honours the horizon that is announced
// when the claim is acknowledged.
func (m *horizonModel) claim(s horizonState, i int, emit Emit[horizonState]) {
	d := &s.server[i]
	horizon := s.announced
	if m.beforeClaim {
		horizon = d.knows
	}
	d.slot, d.honours, d.says, d.fresh = open, horizon, d.knows, true
	if !m.outlives {
		d.reads = none // snapshots that were opened under a former slot have ended
	}
	emit(s, "server %d has a slot and honours %d", i, int(horizon))
}

// recover closes the slot of server 0, which does not answer. The server stops reading
// before its slot is closed, and claims another slot afterwards.
func (m *horizonModel) recover(s horizonState, emit Emit[horizonState]) {
	d := &s.server[0]
	switch d.slot {
	case open:
		d.slot = recovering
		emit(s, "R0: slot 0 is recovering", 0, 0)
	case recovering:
		d.slot, d.fresh = closed, false
		emit(s, "R3: slot 0 is closed, its server reads no more", 0, 0)
	case closed:
		d.slot, d.knows = free, s.announced
		emit(s, "server 0 looks for another slot", 0, 0)
	}
}

func (m *horizonModel) collect(s horizonState, emit Emit[horizonState]) {
	if s.bound != none {
		s.collected, s.bound = s.bound, none
		emit(s, "all up to %d is collected", int(s.collected), 0)
		return
	}
	bound := s.announced
	for i := range s.server {
		d := &s.server[i]
		if !m.toAnnounced && (d.slot == open || d.slot == recovering && !m.onlyOpen) {
			bound = min(bound, d.says)
		}
	}
	if bound > s.collected {
		s.bound = bound
		emit(s, "the heads are read: history may go up to %d", int(bound), 0)
	}
}

// follow lets the follower read the journal from its frontier and then check the
// horizon.
func (m *horizonModel) follow(s horizonState, emit Emit[horizonState]) {
	looks := !s.checked && (s.scanned || m.checkFirst)
	switch {
	case s.frontier == none:
	case looks && s.announced > s.frontier:
		s.frontier = none
		emit(s, "the follower is told to begin anew", 0, 0)
	case looks:
		s.checked = true
		emit(s, "the follower finds the horizon below its frontier", 0, 0)
	case !s.scanned:
		s.scanned, s.missed = true, s.collected > s.frontier
		emit(s, "the follower reads the journal", 0, 0)
	case s.scanned && s.checked:
		s.frontier, s.told = none, true
		emit(s, "the follower has what came", 0, 0)
	}
}

func horizonVariants() (vs []variant) {
	add := func(name string, k kind, change func(*horizonModel)) {
		m := &horizonModel{}
		change(m)
		init := horizonState{bound: none, frontier: 1}
		init.server[0] = horizonServer{slot: open, fresh: true, reads: none, knows: none}
		init.server[1] = horizonServer{slot: free, reads: none, knows: none}
		vs = append(vs, variant{name: name, kind: k, whole: true, tries: []func(int) Report{func(limit int) Report {
			return Model[horizonState]{Init: init, Next: m.next, Check: m.check}.Explore(limit)
		}}})
	}
	add("readers of the past and followers", holds, func(*horizonModel) {})
	add("witness: collected beside a reader", witness, func(m *horizonModel) {
		m.reach = func(s *horizonState) bool {
			return s.collected == moments-1 && s.server[0].slot == closed && s.server[1].reads == moments-1
		}
	})
	add("up to the announced horizon", breaks, func(m *horizonModel) { m.toAnnounced = true })
	add("slots that are recovering do not count", breaks, func(m *horizonModel) { m.onlyOpen = true })
	add("a horizon is said before it is honoured", breaks, func(m *horizonModel) { m.saysFirst = true })
	add("open snapshots do not count", breaks, func(m *horizonModel) { m.forgetsReaders = true })
	add("a new server honours the horizon from before its claim", breaks, func(m *horizonModel) { m.beforeClaim = true })
	add("snapshots outlive their server's slot", breaks, func(m *horizonModel) { m.outlives = true })
	add("a follower looks at the horizon before it reads", breaks, func(m *horizonModel) { m.checkFirst = true })
	return vs
}
