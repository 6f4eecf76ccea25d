package model

import "fmt"

// In the model "kinds", each of three slots makes one commit on the same entry. The entry
// has one attribute with the values a and b, each in its own cell. A commit places one of
// the marks x (exclusive), u (update), c (child) or v (one value), which
// docs/design/transactions.md defines. A replay applies the visible commits in the order
// of their ids, and checks their preconditions. A reader must see the result of such a
// replay.

const (
	addA uint8 = iota + 1
	delA
	addB
	delB
	clears  // places the mark u: the attribute loses the values that the transaction saw
	deletes // places the mark x: the entry, which must have no child, is deleted
	child   // places the mark c: a child is added
	kindsEnd
)

var kindNames = [...]string{"nothing", "add a", "delete a", "add b", "delete b", "clear", "delete entry", "add child"}

type kindsT struct{ at, snap, conf uint8 }

type kindsState struct {
	t       [3]kindsT
	marks   uint8
	journal [3]uint8
	head    [3]bool
}

type kindsModel struct {
	op    [3]uint8
	rank  [3]int8
	start uint8
	keep  bool // the attribute must keep a value, so its marks are u
	// Each of these flags, if set, drops a rule of the protocol.
	vv, uv, xv, cx, valueMarks, oneCell bool
}

// value returns the value that the operation op marks with v, or zero if op places a mark
// of another kind.
func (m *kindsModel) value(op uint8) int {
	switch {
	case m.keep && !m.valueMarks:
	case op == addA || op == delA:
		return 1
	case op == addB || op == delB:
		return 2
	}
	return 0
}

func (m *kindsModel) incompatible(p, q uint8) bool {
	p, q = min(p, q), max(p, q)
	switch {
	case q == child:
		return p == deletes && !m.cx
	case m.value(p) > 0 && m.value(q) > 0:
		return m.value(p) == m.value(q) && !m.vv
	case m.value(p) > 0 && q == clears:
		return !m.uv
	case m.value(p) > 0 && q == deletes:
		return !m.xv
	}
	return true
}

// exists is the bit that is set while the entry exists. The bits of an entry are a, b,
// child and exists.
const exists = 8

// apply applies an operation to an entry. It returns false if the entry does not allow the
// operation.
func (m *kindsModel) apply(e, op uint8) (uint8, bool) {
	if e&exists == 0 {
		return e, false
	}
	n := e
	switch op {
	case addA:
		n |= 1
	case delA:
		n &^= 1
	case addB:
		n |= 2
	case delB:
		n &^= 2
	case clears:
		n &^= 3
	case child:
		return e | 4, true
	case deletes:
		return 0, e&4 == 0
	}
	return n, n != e && !(m.keep && n&3 == 0)
}

func (m *kindsModel) order() (order [3]int) {
	for i, r := range m.rank {
		order[r-1] = i
	}
	return order
}

func (s *kindsState) visible() (v uint8) {
	for i := range s.head {
		if s.head[i] && s.journal[i] == committed {
			v |= 1 << i
		}
	}
	return v
}

// read returns the entry as a reader sees it if the commits v are visible: the newest
// value of each cell.
func (m *kindsModel) read(s *kindsState, v uint8) uint8 {
	e := m.start
	for _, i := range m.order() {
		if v>>i&1 == 0 {
			continue
		}
		saw := m.read(s, s.t[i].snap)
		n, ok := m.apply(saw, m.op[i])
		if !ok {
			continue
		}
		written := n ^ saw
		if m.oneCell && written&3 != 0 {
			written |= 3
		}
		e = e&^written | n&written
	}
	return e
}

func (m *kindsModel) check(s *kindsState) string {
	v := s.visible()
	e := m.start
	for _, i := range m.order() {
		if v>>i&1 == 0 {
			continue
		}
		n, ok := m.apply(e, m.op[i])
		if !ok {
			return fmt.Sprintf("replayed in the order of ids T%d (%s) is refused", i, kindNames[m.op[i]])
		}
		e = n
	}
	if got := m.read(s, v); got != e {
		return fmt.Sprintf("a reader sees %04b, the replay gives %04b (there, child, b, a)", got, e)
	}
	return ""
}

func (m *kindsModel) next(s kindsState, emit Emit[kindsState]) {
	for i, op := range m.op {
		if op != 0 {
			m.step(s, i, emit)
		}
	}
}

func (m *kindsModel) step(s kindsState, i int, emit Emit[kindsState]) {
	t, b := &s.t[i], uint8(1)<<i
	switch t.at {
	case 0:
		t.snap = s.visible()
		for o := range m.rank {
			if t.snap>>o&1 == 1 && m.rank[o] > m.rank[i] {
				return // an id must be above all ids that the snapshot shows
			}
		}
		if _, ok := m.apply(m.read(&s, t.snap), m.op[i]); !ok {
			return
		}
		t.at = 1
		emit(s, "T%d sees %03b", i, int(t.snap))
	case 1:
		if s.journal[i] == 0 {
			s.journal[i] = pending
		}
		s.marks |= b
		t.at = 2
		emit(s, "T%d: journal P, cells, mark", i, 0)
	case 2:
		for o := range m.op {
			if o != i && s.marks>>o&1 == 1 && t.snap>>o&1 == 0 && m.incompatible(m.op[i], m.op[o]) {
				t.conf |= 1 << o
			}
		}
		t.at = 3
		emit(s, "T%d reads back, it meets %03b", i, int(t.conf))
	case 3:
		t.at = 4
		for o := range m.op {
			if t.conf>>o&1 == 0 {
				continue
			}
			t.at = 3
			t.conf &^= 1 << o
			if s.journal[o] == committed || s.journal[o] == pending && m.rank[o] < m.rank[i] {
				t.at, t.conf = 6, 0
			} else {
				s.journal[o] = aborted
			}
			break
		}
		emit(s, "T%d settles", i, 0)
	case 4:
		t.at = 6
		if s.journal[i] == pending {
			s.journal[i], t.at = committed, 5
		}
		emit(s, "T%d decides, journal %d", i, int(s.journal[i]))
	case 5:
		s.head[i], t.at = true, 7
		emit(s, "T%d is published", i, 0)
	case 6:
		s.journal[i] = aborted
		s.marks &^= b
		t.at = 7
		emit(s, "T%d is rolled back", i, 0)
	}
}

// kindsVariants returns the variants. Each variant explores all combinations of three
// operations, an order of their ids, and an initial entry.
func kindsVariants() (vs []variant) {
	add := func(name string, k kind, keep bool, change func(*kindsModel)) {
		all := func(limit int) (sum Report) {
			sum.Whole = true
			for a := addA; a < kindsEnd; a++ {
				for b := a; b < kindsEnd; b++ {
					for d := uint8(0); d < kindsEnd; d++ {
						r := exploreKinds(kindsModel{op: [3]uint8{a, b, d}, keep: keep}, change, limit)
						sum.States += r.States
						if sum.Wrong = r.Wrong; r.Wrong != "" {
							sum.Trace = r.Trace
							return sum
						}
					}
				}
			}
			return sum
		}
		vs = append(vs, variant{name: name, kind: k, tries: []func(int) Report{all}})
	}
	add("every two commute or conflict", holds, false, func(*kindsModel) {})
	add("an attribute that must keep a value takes u", holds, true, func(*kindsModel) {})
	add("v does not meet v of the same value", breaks, false, func(m *kindsModel) { m.vv = true })
	add("u does not meet v", breaks, false, func(m *kindsModel) { m.uv = true })
	add("x does not meet v", breaks, false, func(m *kindsModel) { m.xv = true })
	add("c does not meet a deleting x", breaks, false, func(m *kindsModel) { m.cx = true })
	add("v on an attribute that must keep a value", breaks, true, func(m *kindsModel) { m.valueMarks = true })
	add("all values in one cell", breaks, false, func(m *kindsModel) { m.oneCell = true })
	return vs
}

func exploreKinds(m kindsModel, change func(*kindsModel), limit int) (sum Report) {
	for _, rank := range [][3]int8{{1, 2, 3}, {1, 3, 2}, {2, 3, 1}, {2, 1, 3}, {3, 1, 2}, {3, 2, 1}} {
		for start := uint8(exists); start < 2*exists; start++ {
			if m.keep && start&3 == 0 {
				continue
			}
			m.rank, m.start = rank, start
			change(&m)
			r := Model[kindsState]{Next: m.next, Check: m.check}.Explore(limit)
			sum.States += r.States
			if r.Wrong != "" {
				sum.Wrong = r.Wrong
				sum.Trace = append([]string{fmt.Sprintf("T0 %s, T1 %s, T2 %s; ids %v; entry %04b", kindNames[m.op[0]], kindNames[m.op[1]], kindNames[m.op[2]], rank, start)}, r.Trace...)
				return sum
			}
		}
	}
	return sum
}
