package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// Placed reads the current rules, with the names that entries have in the state s. A rule
// applies to the entry at its place and to the entries below it. If that entry no longer
// exists, the rule applies to nothing, and Placed leaves it out.
func Placed(ctx context.Context, s *partition.Snapshot) ([]acl.Placed, error) {
	return readOrOpen(ctx, s, s.Catalog.Access.Rules)
}

// readOrOpen returns the result of Read if rules is not nil. If rules is nil, the
// directory has never had rules, and readOrOpen returns the rules of the profile "open".
func readOrOpen(ctx context.Context, s *partition.Snapshot, rules []partition.AccessRule) ([]acl.Placed, error) {
	if rules == nil {
		return open(s.Schema())
	}
	return Read(ctx, s, rules)
}

// PlacedAt returns the rules that were in force in the state s, with the names that
// entries had in s. The state may be a past state. Like Placed, PlacedAt leaves out a
// rule if the entry at its place does not exist.
func PlacedAt(ctx context.Context, s *partition.Snapshot) ([]acl.Placed, error) {
	rules, err := s.Catalog.AccessAt(ctx, s.Reader)
	if err != nil {
		return nil, err
	}
	return readOrOpen(ctx, s, rules)
}

// Read returns the given rules, with the names that entries have in the state s. Like
// Placed, Read leaves out a rule if the entry at its place does not exist.
func Read(ctx context.Context, s *partition.Snapshot, rules []partition.AccessRule) ([]acl.Placed, error) {
	var all []acl.Placed
	for _, rule := range rules {
		p, err := place(ctx, s, rule)
		if errors.Is(err, errGone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

func open(sch *schema.Schema) (all []acl.Placed, err error) {
	rules, err := acl.Profile("open", sch, nil)
	for _, r := range rules {
		all = append(all, acl.Placed{Rule: r})
	}
	return all, err
}

func place(ctx context.Context, s *partition.Snapshot, rule partition.AccessRule) (p acl.Placed, err error) {
	return placeOf(ctx, s, s, rule)
}

// placeOf returns a rule that contains names instead of the ids of entries. The place, the
// targets, and the groups in filters have the names that they have in the state s. The
// identities that the rule is for have the names that they have in the state who.
func placeOf(ctx context.Context, s, who *partition.Snapshot, rule partition.AccessRule) (p acl.Placed, err error) {
	if rule.Place != entry.Root {
		if p.Place, err = nameOf(ctx, s, rule.Place); err != nil {
			return p, err
		}
	}
	if p.Rule, err = acl.Parse(rule.Text); err != nil || rule.Names == "" {
		return p, err
	}
	ids, refs := named(rule), p.Rule.References()
	if len(ids) != len(refs) {
		return p, fmt.Errorf("rule %s: it names %d entries, of which %d are known", p.Label(), len(refs), len(ids))
	}
	names := make([]string, len(refs))
	for i, ref := range refs {
		in := who
		if ref.Target || ref.Group {
			in = s
		}
		if names[i], err = spelled(ctx, in, p.Place, ref, ids[i]); err != nil {
			return p, err
		}
	}
	p.Rule = p.Rule.WithNames(names)
	return p, nil
}

// named returns the ids of the entries that a rule names, in the order of
// [acl.Rule.References]. The id is entry.Root for a target that had no entry when the rule
// was stored.
func named(rule partition.AccessRule) (ids []entry.ID) {
	for text := range strings.FieldsSeq(rule.Names) {
		id, _ := entry.ParseID(text)
		ids = append(ids, id)
	}
	return ids
}

// spelled returns the current name of an entry, for use in a rule. If the entry still has the
// name that the rule contains, spelled returns the name as the rule spells it. It returns ""
// in three cases: the id is entry.Root, the entry is gone, or the entry is a target that is no
// longer below the place of the rule.
func spelled(ctx context.Context, s *partition.Snapshot, at dn.DN, ref acl.Reference, id entry.ID) (string, error) {
	if id == entry.Root {
		return "", nil
	}
	name, err := nameOf(ctx, s, id)
	if errors.Is(err, errGone) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if ref.Target {
		above := len(name) - len(at)
		if above <= 0 || !same(s.Schema(), name[above:], at) {
			return "", nil // the entry was moved out of the place of the rule
		}
		name = name[:above]
	}
	if old, err := dn.Parse(ref.Name); err == nil && same(s.Schema(), old, name) {
		return ref.Name, nil
	}
	return acl.EscapeName(name.String()), nil
}

// errGone reports that the entry with an id no longer exists.
var errGone = errors.New("the entry is gone")

func nameOf(ctx context.Context, s *partition.Snapshot, id entry.ID) (dn.DN, error) {
	if e, err := s.Some(ctx, id, []*schema.AttributeType{}); err != nil || e == nil {
		return nil, cmp.Or(err, errGone)
	}
	name, err := s.Name(ctx, id)
	if err != nil {
		return nil, err
	}
	return name.DN()
}

// The function "same" reports whether the schema treats two names as equal.
func same(sch *schema.Schema, a, b dn.DN) bool {
	x, err := a.Normalize(sch)
	y, err2 := b.Normalize(sch)
	return err == nil && err2 == nil && slices.Equal(x, y)
}
