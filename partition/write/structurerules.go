package write

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Governor determines the DIT structure rules that govern entries (RFC 4512, 4.1.7).
// These rules are not stored with entries. The rule of an entry follows from the entry's
// classes, its RDN and the rule of its parent. If a schema has no name forms, a Governor
// reads nothing.
type Governor struct {
	Snapshot *state.Snapshot
	Types    *catalog.Types // types of the schema in force or of an announced schema
}

// Govern returns the rule for an entry with the given classes and RDN below a parent, or
// nil if the entry needs no rule. It returns a NamingViolation if no rule allows the
// entry at this position.
func (g Governor) Govern(ctx context.Context, cs *catalog.Classes, rdn dn.RDN, parent entry.ID) (*schema.StructureRule, error) {
	if len(g.Types.Schema.NameForms()) == 0 {
		return nil, nil
	}
	above, err := g.of(ctx, parent)
	if err != nil {
		return nil, err
	}
	return Govern(g.Types, cs, rdn, parent == catalog.Root, above)
}

// Govern is like Governor.Govern for a caller that knows the rule of the parent.
func Govern(k *catalog.Types, cs *catalog.Classes, rdn dn.RDN, top bool, above *schema.StructureRule) (*schema.StructureRule, error) {
	rule, wrong := k.Schema.Govern(place(k, cs, rdn, top, above))
	if wrong != "" {
		return nil, catalog.Errorf(catalog.NamingViolation, "%s", wrong)
	}
	return rule, nil
}

func place(k *catalog.Types, cs *catalog.Classes, rdn dn.RDN, top bool, above *schema.StructureRule) schema.Place {
	p := schema.Place{Class: cs.Structural, Top: top, Superior: above}
	for _, ava := range rdn {
		if t := k.Schema.Attribute(ava.Type); t != nil {
			p.RDN = append(p.RDN, t)
		}
	}
	return p
}

// The method "of" returns the rule that governs an entry. It returns nil for an entry at a
// position that no rule allows.
func (g Governor) of(ctx context.Context, id entry.ID) (*schema.StructureRule, error) {
	if id == catalog.Root || len(g.Types.Schema.StructureRules()) == 0 {
		return nil, nil
	}
	p, err := g.place(ctx, id)
	if err != nil {
		return nil, err
	}
	rule, _ := g.Types.Schema.Govern(p)
	return rule, nil
}

// place reads the data of an entry that name forms and structure rules test: its classes, its
// RDN, and the rule that governs its parent.
func (g Governor) place(ctx context.Context, id entry.ID) (p schema.Place, err error) {
	node, err := g.Snapshot.Node(ctx, id)
	if err != nil {
		return p, err
	}
	if node == nil {
		return p, table.ErrCorrupt
	}
	values, err := g.Snapshot.ClassValues(ctx, id)
	if err != nil {
		return p, err
	}
	cs, err := g.Types.ClassesOf(values)
	if err != nil {
		return p, err
	}
	name, err := dn.Parse(node.UpRDN)
	if err != nil || len(name) == 0 {
		return p, table.ErrCorrupt
	}
	above, err := g.of(ctx, node.Parent)
	return place(g.Types, cs, name[0], node.Parent == catalog.Root, above), err
}

// Below checks the entries below a parent that the given rule will govern. It does not descend
// below an entry whose own rule stays the same.
func (g Governor) Below(ctx context.Context, parent entry.ID, rule *schema.StructureRule) error {
	if len(g.Types.Schema.StructureRules()) == 0 {
		return nil
	}
	q := search.Query{Base: parent, Scope: op.SingleLevel, Filter: filter.Const(filter.True)}
	for r, err := range search.Search(ctx, g.Snapshot, q) {
		if err != nil {
			return err
		}
		if err := g.child(ctx, r.ID, r.Name, rule); err != nil {
			return err
		}
	}
	return nil
}

func (g Governor) child(ctx context.Context, id entry.ID, name *dn.Name, above *schema.StructureRule) error {
	p, err := g.place(ctx, id)
	if err != nil {
		return err
	}
	before, _ := g.Types.Schema.Govern(p)
	p.Superior = above
	rule, wrong := g.Types.Schema.Govern(p)
	if wrong != "" {
		return catalog.Errorf(catalog.NamingViolation, "the entry %s: %s", name, wrong)
	}
	if rule == before {
		return nil
	}
	return g.Below(ctx, id, rule)
}

// GoverningRule returns the DIT structure rule that governs an entry, or nil if no rule
// does.
func GoverningRule(ctx context.Context, s *state.Snapshot, id entry.ID) (*schema.StructureRule, error) {
	return governor(s).of(ctx, id)
}

func governor(s *state.Snapshot) Governor { return Governor{s, s.Catalog.Types} }

// governsMoved returns an error if the DIT structure rules do not allow an entry, or the
// entries below it, at a new position.
func (tx *Tx) governsMoved(ctx context.Context, id entry.ID, rdn dn.RDN, parent entry.ID) error {
	if len(tx.Catalog.Schema.NameForms()) == 0 {
		return nil
	}
	cs, err := tx.ClassesAt(ctx, id)
	if err != nil {
		return err
	}
	return tx.governs(ctx, id, cs, rdn, parent)
}

// governs returns an error if the DIT structure rules do not allow an entry with the given
// classes and RDN below the given parent. It also returns an error if the rules do not allow
// the entries below the entry there.
func (tx *Tx) governs(ctx context.Context, id entry.ID, cs *catalog.Classes, rdn dn.RDN, parent entry.ID) error {
	if len(tx.Catalog.Schema.NameForms()) == 0 {
		return nil
	}
	g := governor(&tx.Snapshot)
	before, err := g.of(ctx, id)
	if err != nil {
		return err
	}
	after, err := g.Govern(ctx, cs, rdn, parent)
	if err != nil || after == before {
		return err
	}
	return g.Below(ctx, id, after)
}
