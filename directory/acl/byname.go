package acl

// ByName returns the program for the entries of the changelog and of the monitor. The entries
// of the changelog show who did what, and the entries of the monitor show the state of the
// server. The author of a rule about the whole directory rarely has these entries in mind. So
// a rule that allows something includes these entries only if one of its targets names a part
// of their tree. Rules that deny something keep all their targets.
func (p *Program) ByName() *Program {
	p.onceByName.Do(func() { p.byName = p.makeByName() })
	return p.byName
}

func (p *Program) makeByName() *Program {
	q := &Program{set: p.set, who: p.who, tests: p.tests, text: p.text, zones: map[string]*Zone{}, parents: map[string]*Zone{}}
	for _, c := range p.clauses {
		if !c.rule.Rule.Deny {
			c.in = withBase(c.in)
		}
		if len(c.in) > 0 {
			q.clauses = append(q.clauses, c)
		}
	}
	q.always = q.decideAlways()
	q.readsAll = q.decideReadsAll()
	return q
}

// withBase returns the targets that name a part of the tree.
func withBase(targets []bound) (named []bound) {
	for _, t := range targets {
		if len(t.base) > 0 {
			named = append(named, t)
		}
	}
	return named
}
