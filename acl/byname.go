package acl

// ByName returns the program for entries that a rule allows something with only if a
// target of the rule names a part of the tree. The entries of the changelog and of the
// monitor are such entries: they say who did what and how a server is, which a rule about
// the whole directory is hardly meant to show. A rule that denies something includes them
// without naming them.
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
