package model

import "fmt"

// The model floor: history below a floor is collected, and journal rows with it,
// beside readers of the past on two servers. Moments are numbers; what a reader of
// moment T needs is there while nothing above T was collected up to.
//
// A leader announces a floor. Every server honours the announced floor or its
// oldest open snapshot, whichever is less: it opens none below, then says so in its
// cell. The collector reads the cells of one row of heads. Server 0 may die, fall
// silent and come back in a new slot; server 1 comes later. A follower reads the
// journal from a front on.

const moments = 3

type floorServer struct {
	slot    uint8 // open, recovering, closed; or free: it has none yet
	honours int8  // it opens no snapshot below
	says    int8  // so its cell
	reads   int8  // the moment of its open snapshot; none if it has none
	fresh   bool  // it may read: its heads are not older than a lease
	knows   int8  // the floor that it read before its claim
}

type floorState struct {
	now, announced   int8
	server           [2]floorServer
	bound, collected int8 // the collector read the heads; it is done
	front            int8 // of the follower; none: it has read
	scanned          bool
	missed           bool // rows were gone when it read
	checked          bool
	told             bool // it took what it read for whole
}

const none = -1

type floorModel struct {
	// Rules dropped.
	toAnnounced, onlyOpen, saysFirst, beforeClaim, outlives, checkFirst, forgetsReaders bool
	reach                                                                               func(*floorState) bool
}

func (m *floorModel) check(s *floorState) string {
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

func (m *floorModel) next(s floorState, emit Emit[floorState]) {
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

// serve takes a step of a server.
func (m *floorModel) serve(s floorState, i int, emit Emit[floorState]) {
	d := s.server[i]
	step := func(to floorServer, what string, a, b int) {
		n := s
		n.server[i] = to
		emit(n, what, a, b)
	}
	switch {
	case d.slot == free && d.knows == none:
		d.knows = s.announced
		step(d, "server %d reads the floor %d and the heads", i, int(d.knows))
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
	floor := s.announced
	if d.reads != none && !m.forgetsReaders {
		floor = min(floor, d.reads)
	}
	to := d
	switch {
	case m.saysFirst && floor > d.says:
		to.says = floor
		step(to, "server %d says in its cell that it honours %d", i, int(floor))
	case m.saysFirst && d.says > d.honours:
		to.honours = d.says
		step(to, "server %d honours %d", i, int(d.says))
	case !m.saysFirst && floor > d.honours:
		to.honours = floor
		step(to, "server %d honours %d", i, int(floor))
	case !m.saysFirst && d.honours > d.says:
		to.says = d.honours
		step(to, "server %d says in its cell that it honours %d", i, int(d.honours))
	}
}

// claim takes a slot for a server: it honours the floor that is announced when its
// claim is acknowledged.
func (m *floorModel) claim(s floorState, i int, emit Emit[floorState]) {
	d := &s.server[i]
	floor := s.announced
	if m.beforeClaim {
		floor = d.knows
	}
	d.slot, d.honours, d.says, d.fresh = open, floor, d.knows, true
	if !m.outlives {
		d.reads = none // snapshots of a former slot are over
	}
	emit(s, "server %d has a slot and honours %d", i, int(floor))
}

// recover closes the slot of server 0, which is silent: it stops reading before,
// and takes another slot after.
func (m *floorModel) recover(s floorState, emit Emit[floorState]) {
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

func (m *floorModel) collect(s floorState, emit Emit[floorState]) {
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

// follow reads the journal from the front, and looks at the floor.
func (m *floorModel) follow(s floorState, emit Emit[floorState]) {
	looks := !s.checked && (s.scanned || m.checkFirst)
	switch {
	case s.front == none:
	case looks && s.announced > s.front:
		s.front = none
		emit(s, "the follower is told to begin anew", 0, 0)
	case looks:
		s.checked = true
		emit(s, "the follower finds the floor below its front", 0, 0)
	case !s.scanned:
		s.scanned, s.missed = true, s.collected > s.front
		emit(s, "the follower reads the journal", 0, 0)
	case s.scanned && s.checked:
		s.front, s.told = none, true
		emit(s, "the follower has what came", 0, 0)
	}
}

func floorVariants() (vs []variant) {
	add := func(name string, k kind, change func(*floorModel)) {
		m := &floorModel{}
		change(m)
		init := floorState{bound: none, front: 1}
		init.server[0] = floorServer{slot: open, fresh: true, reads: none, knows: none}
		init.server[1] = floorServer{slot: free, reads: none, knows: none}
		vs = append(vs, variant{name: name, kind: k, whole: true, tries: []func(int) Report{func(limit int) Report {
			return Model[floorState]{Init: init, Next: m.next, Check: m.check}.Explore(limit)
		}}})
	}
	add("readers of the past and followers", holds, func(*floorModel) {})
	add("witness: collected beside a reader", witness, func(m *floorModel) {
		m.reach = func(s *floorState) bool {
			return s.collected == moments-1 && s.server[0].slot == closed && s.server[1].reads == moments-1
		}
	})
	add("up to the announced floor", breaks, func(m *floorModel) { m.toAnnounced = true })
	add("slots that are recovering do not count", breaks, func(m *floorModel) { m.onlyOpen = true })
	add("a floor is said before it is honoured", breaks, func(m *floorModel) { m.saysFirst = true })
	add("open snapshots do not count", breaks, func(m *floorModel) { m.forgetsReaders = true })
	add("a new server honours the floor from before its claim", breaks, func(m *floorModel) { m.beforeClaim = true })
	add("snapshots outlive their server's slot", breaks, func(m *floorModel) { m.outlives = true })
	add("a follower looks at the floor before it reads", breaks, func(m *floorModel) { m.checkFirst = true })
	return vs
}
