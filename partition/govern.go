package partition

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
)

// A governor finds the DIT structure rules that govern entries (RFC 4512,
// 4.1.7). They are not stored: what governs an entry follows from its class, its
// RDN and what governs the entry above. Where a schema has no name forms, nothing
// is looked at.
type governor struct {
	s *Snapshot
	k *types // may be those of a schema to come
}

// govern gives the rule for an entry of some classes with an RDN below a parent;
// nil if none needs to. The error is a NamingViolation if the entry may not
// stand there.
func (g governor) govern(ctx context.Context, cs *classes, rdn dn.RDN, parent entry.ID) (*schema.StructureRule, error) {
	if len(g.k.schema.NameForms()) == 0 {
		return nil, nil
	}
	above, err := g.of(ctx, parent)
	if err != nil {
		return nil, err
	}
	return g.k.govern(cs, rdn, parent == root, above)
}

// govern is the same where what governs the entry above is known.
func (k *types) govern(cs *classes, rdn dn.RDN, top bool, above *schema.StructureRule) (*schema.StructureRule, error) {
	rule, wrong := k.schema.Govern(k.place(cs, rdn, top, above))
	if wrong != "" {
		return nil, problem(NamingViolation, "%s", wrong)
	}
	return rule, nil
}

func (k *types) place(cs *classes, rdn dn.RDN, top bool, above *schema.StructureRule) schema.Place {
	p := schema.Place{Class: cs.structural, Top: top, Superior: above}
	for _, ava := range rdn {
		if t := k.schema.Attribute(ava.Type); t != nil {
			p.RDN = append(p.RDN, t)
		}
	}
	return p
}

// of gives the rule that governs an entry. One that stands where it may not is
// governed by none.
func (g governor) of(ctx context.Context, id entry.ID) (*schema.StructureRule, error) {
	if id == root || len(g.k.schema.StructureRules()) == 0 {
		return nil, nil
	}
	p, err := g.place(ctx, id)
	if err != nil {
		return nil, err
	}
	rule, _ := g.k.schema.Govern(p)
	return rule, nil
}

// place reads where an entry stands.
func (g governor) place(ctx context.Context, id entry.ID) (p schema.Place, err error) {
	node, err := g.s.node(ctx, id)
	if err != nil {
		return p, err
	}
	if node == nil {
		return p, table.ErrCorrupt
	}
	values, err := g.s.classValues(ctx, id)
	if err != nil {
		return p, err
	}
	cs, err := g.k.classesOf(values)
	if err != nil {
		return p, err
	}
	name, err := dn.Parse(node.UpRDN)
	if err != nil || len(name) == 0 {
		return p, table.ErrCorrupt
	}
	above, err := g.of(ctx, node.Parent)
	return g.k.place(cs, name[0], node.Parent == root, above), err
}

// below checks the entries below one that is to be governed by a rule, down to
// those for which nothing changes.
func (g governor) below(ctx context.Context, parent entry.ID, rule *schema.StructureRule) error {
	if len(g.k.schema.StructureRules()) == 0 {
		return nil
	}
	q := Query{Base: parent, Scope: op.SingleLevel, Filter: filter.Const(filter.True)}
	for r, err := range g.s.Search(ctx, q) {
		if err != nil {
			return err
		}
		if err := g.child(ctx, r.ID, r.Name, rule); err != nil {
			return err
		}
	}
	return nil
}

func (g governor) child(ctx context.Context, id entry.ID, name string, above *schema.StructureRule) error {
	p, err := g.place(ctx, id)
	if err != nil {
		return err
	}
	before, _ := g.k.schema.Govern(p)
	p.Superior = above
	rule, wrong := g.k.schema.Govern(p)
	if wrong != "" {
		return problem(NamingViolation, "the entry %s: %s", name, wrong)
	}
	if rule == before {
		return nil
	}
	return g.below(ctx, id, rule)
}

// GoverningRule gives the DIT structure rule that governs an entry; nil if none
// does.
func (s *Snapshot) GoverningRule(ctx context.Context, id entry.ID) (*schema.StructureRule, error) {
	return s.governor().of(ctx, id)
}

func (s *Snapshot) governor() governor { return governor{s, s.catalog.types} }

// governsMoved checks whether the DIT structure rules let an entry, with those
// below it, go to another place.
func (tx *Tx) governsMoved(ctx context.Context, id entry.ID, rdn dn.RDN, parent entry.ID) error {
	if len(tx.catalog.schema.NameForms()) == 0 {
		return nil
	}
	cs, err := tx.classesAt(ctx, id)
	if err != nil {
		return err
	}
	return tx.governs(ctx, id, cs, rdn, parent)
}

// governs checks whether an entry, with those below it, may be of some classes at
// a place.
func (tx *Tx) governs(ctx context.Context, id entry.ID, cs *classes, rdn dn.RDN, parent entry.ID) error {
	if len(tx.catalog.schema.NameForms()) == 0 {
		return nil
	}
	g := tx.governor()
	before, err := g.of(ctx, id)
	if err != nil {
		return err
	}
	after, err := g.govern(ctx, cs, rdn, parent)
	if err != nil || after == before {
		return err
	}
	return g.below(ctx, id, after)
}
