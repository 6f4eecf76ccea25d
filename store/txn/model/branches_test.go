package model

// In the model "branches", two branches wrote one row. The bases of both branches are
// older than both merges. Each branch is merged by a server of its own. That server
// freezes the branch's cell, reads the cell of the other branch, writes the revision of
// its merge into the branch's cell, writes the merge's row in the journal, and decides
// the merge.

type branchesState struct {
	cell     [2]uint8
	sequence [2]uint8
	journal  [2]uint8
	at       [2]uint8
	frozeAt  [2]uint8 // the sequence number after the freeze
	tries    [2]uint8
}

const (
	twoFreezes uint8 = iota
	twoLooks
	twoNames
	twoJournals
	twoDecides
	twoPublishes
	twoDone
)

type branchesModel struct {
	ignoreFrozen, ignoreMerging bool // each drops a rule of the protocol, if set
	reach                       bool
}

func (m *branchesModel) check(s *branchesState) string {
	switch {
	case m.reach && s.cell == [2]uint8{merged, open} && s.tries == [2]uint8{2, 1} && s.at[1] == twoDone:
		return "reached"
	case s.journal == [2]uint8{committed, committed}:
		return "both branches are merged and neither saw the other"
	}
	return ""
}

func (m *branchesModel) next(s branchesState, emit Emit[branchesState]) {
	for i := range 2 {
		m.merge(s, i, emit)
		n := s
		n.sequence[i]++
		if s.cell[i] == frozen || s.cell[i] == merging && s.journal[i] == aborted {
			n.cell[i] = open
			emit(n, "somebody opens branch %d", i, 0)
		}
	}
}

func (m *branchesModel) merge(s branchesState, i int, emit Emit[branchesState]) {
	switch at := &s.at[i]; *at {
	case twoFreezes:
		if s.tries[i] == 3 || s.cell[i] != open {
			return
		}
		s.cell[i], *at = frozen, twoLooks
		s.sequence[i]++
		s.frozeAt[i] = s.sequence[i]
		s.tries[i]++
		emit(s, "branch %d is frozen", i, 0)
	case twoLooks:
		m.look(s, i, emit)
	case twoNames:
		if *at = twoFreezes; s.cell[i] == frozen && s.sequence[i] == s.frozeAt[i] {
			s.cell[i], *at = merging, twoJournals
			s.sequence[i]++
		}
		emit(s, "branch %d: its cell names the merge, unless it was thawed", i, 0)
	case twoJournals:
		if *at = twoDone; s.journal[i] == 0 {
			s.journal[i], *at = pending, twoDecides
		}
		emit(s, "branch %d: journal", i, 0)
	case twoDecides:
		if *at = twoDone; s.journal[i] == pending {
			s.journal[i], *at = committed, twoPublishes
		}
		emit(s, "branch %d: decides", i, 0)
	case twoPublishes:
		s.cell[i], *at = merged, twoDone
		emit(s, "branch %d is merged", i, 0)
	}
}

// look lets the merger of branch i look at the other branch. If the other branch is frozen, the
// merger thaws it. If the merge of the other branch is under way, the merger aborts that merge.
// If that merge is committed, the merger of branch i ends without a merge.
func (m *branchesModel) look(s branchesState, i int, emit Emit[branchesState]) {
	o := 1 - i
	s.at[i] = twoNames
	switch {
	case s.cell[o] == frozen && !m.ignoreFrozen:
		s.cell[o] = open
		s.sequence[o]++
	case s.cell[o] == merging && m.ignoreMerging || s.journal[o] == aborted && s.cell[o] == merging:
	case s.cell[o] == merging && s.journal[o] != committed:
		s.at[i] = twoLooks
		s.journal[o] = aborted
		emit(s, "the merge of branch %d is taken back", o, 0)
		return
	case s.cell[o] >= merging:
		s.cell[i], s.at[i] = open, twoDone
	}
	emit(s, "the merger of branch %d looks at branch %d", i, o)
}

func branchesVariants() (vs []variant) {
	add := func(name string, k kind, m *branchesModel) {
		vs = append(vs, variant{name: name, kind: k, whole: true, tries: []func(int) Report{func(limit int) Report {
			return Model[branchesState]{Next: m.next, Check: m.check}.Explore(limit)
		}}})
	}
	add("two branches are merged at once", holds, &branchesModel{})
	add("witness: one is thawed and merged, the other meets it", witness, &branchesModel{reach: true})
	add("a frozen branch in the way is passed over", breaks, &branchesModel{ignoreFrozen: true})
	add("a merging branch in the way is not waited for", breaks, &branchesModel{ignoreMerging: true})
	return vs
}
