package model

// In the model "names", servers make branches and rename them, and all want the same name. A
// rename reads the cells, adds the new name to the branch's cell, reads the cells again, and
// drops the old name. A new branch gets its name when its cell is made, and is opened after
// another reading of the cells. At any time somebody may drop the new name of an unfinished
// rename, or end a branch that is not open yet. Every change of a cell compares its sequence
// number, so it may also land late.

const nameWanted uint8 = 3 // the name that all want; branch 0 has the name 1, and branch 2 has 2

const (
	nameFree uint8 = iota
	nameMaking
	nameOpen
	nameEnded
)

type nameCell struct{ state, name, next, sequence uint8 }

type nameServer struct {
	at       uint8
	sequence uint8 // of the cell as this server last saw it
	tries    uint8
}

type namesState struct {
	cell   [3]nameCell
	server [3]nameServer
}

const (
	nameLooks uint8 = iota
	nameAdds
	nameLooksAgain
	nameDrops
	nameGivesWay
	nameDone
)

type namesModel struct {
	branch                   []int // the branch of each server; branch 1 is new
	ignoreNext, lookOnce     bool  // each drops a rule of the protocol, if set
	openUnseen, dropUnlooked bool
	reach                    bool
}

// taken reports whether a branch other than i has the wanted name or is about to get it.
func (m *namesModel) taken(s *namesState, i int) bool {
	for o, c := range s.cell {
		if o != i && (c.state == nameMaking || c.state == nameOpen) && (c.name == nameWanted || c.next == nameWanted && !m.ignoreNext) {
			return true
		}
	}
	return false
}

func (m *namesModel) check(s *namesState) string {
	named := 0
	for _, c := range s.cell {
		if c.state == nameOpen && c.name == nameWanted {
			named++
		}
	}
	switch {
	case m.reach && named == 1 && s.cell[0].name == nameWanted && s.cell[1].state == nameEnded && s.server[0].tries == 1:
		return "reached"
	case !m.reach && named > 1:
		return "two branches have one name"
	}
	return ""
}

func (m *namesModel) next(s namesState, emit Emit[namesState]) {
	for i, b := range m.branch {
		if b == 1 {
			m.create(s, i, emit)
		} else {
			m.rename(s, i, b, emit)
		}
	}
	for i, c := range s.cell {
		n := s
		n.cell[i].sequence++
		switch {
		case c.state == nameOpen && c.next != 0:
			n.cell[i].next = 0
			emit(n, "somebody drops the new name of branch %d", i, 0)
		case c.state == nameMaking:
			n.cell[i].state = nameEnded
			emit(n, "somebody ends branch %d", i, 0)
		}
	}
}

func (m *namesModel) rename(s namesState, i, b int, emit Emit[namesState]) {
	v, c := &s.server[i], &s.cell[b]
	swaps := c.sequence == v.sequence
	switch v.at {
	case nameLooks:
		if v.at, v.sequence = nameAdds, c.sequence; c.name == nameWanted || m.taken(&s, b) {
			v.at = nameDone
		}
		emit(s, "server %d looks at the names before it renames branch %d", i, b)
		return
	case nameAdds:
		if swaps {
			c.next, v.at = nameWanted, nameLooksAgain
		}
	case nameLooksAgain:
		if v.at = nameDrops; !m.lookOnce && m.taken(&s, b) {
			v.at = nameGivesWay
		}
		emit(s, "server %d looks again before it renames branch %d", i, b)
		return
	case nameDrops:
		if swaps = swaps || m.dropUnlooked && c.next == nameWanted; swaps {
			c.name, c.next, v.at = nameWanted, 0, nameDone
		}
	case nameGivesWay:
		if v.at = nameDone; swaps {
			c.next = 0
		}
	default:
		return
	}
	if swaps {
		c.sequence++
		v.sequence = c.sequence
	} else if v.at != nameDone {
		if v.at, v.tries = nameLooks, v.tries+1; v.tries == 2 {
			v.at = nameDone
		}
	}
	emit(s, "server %d changes the names of branch %d, unless its cell was changed", i, b)
}

func (m *namesModel) create(s namesState, i int, emit Emit[namesState]) {
	v, c := &s.server[i], &s.cell[1]
	switch v.at {
	case nameLooks:
		if v.at = nameAdds; m.taken(&s, 1) {
			v.at = nameDone
		}
	case nameAdds:
		if v.at = nameDone; c.state == nameFree {
			c.state, c.name, v.at = nameMaking, nameWanted, nameLooksAgain
		}
	case nameLooksAgain:
		if v.at = nameDrops; !m.openUnseen && m.taken(&s, 1) {
			v.at = nameGivesWay
		}
	case nameDrops, nameGivesWay:
		if c.state == nameMaking {
			c.state = nameOpen
			if v.at == nameGivesWay {
				c.state = nameEnded
			}
		}
		v.at = nameDone
	default:
		return
	}
	emit(s, "server %d goes on making branch 1", i, 0)
}

func namesVariants() (vs []variant) {
	add := func(name string, k kind, rules namesModel) {
		v := variant{name: name, kind: k, whole: true}
		for _, branches := range [][]int{{0, 1, 2}, {0, 0, 1}, {0, 0, 2}} {
			m := rules
			m.branch = branches
			init := namesState{cell: [3]nameCell{{state: nameOpen, name: 1}, {}, {state: nameOpen, name: 2}}}
			v.tries = append(v.tries, func(limit int) Report {
				return Model[namesState]{Init: init, Next: m.next, Check: m.check}.Explore(limit)
			})
		}
		vs = append(vs, v)
	}
	add("branches are made and renamed", holds, namesModel{})
	add("witness: a rename succeeds at the second attempt, and a new branch is ended", witness, namesModel{reach: true})
	add("the name that a branch is about to get counts for nothing", breaks, namesModel{ignoreNext: true})
	add("a rename looks at the names only once", breaks, namesModel{lookOnce: true})
	add("a new branch is opened without another look", breaks, namesModel{openUnseen: true})
	add("a rename that lost its name drops the old one for another rename", breaks, namesModel{dropUnlooked: true})
	return vs
}
