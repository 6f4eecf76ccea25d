package access

import (
	"context"
	"errors"
	"slices"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/changestream"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Change is the commit that last changed a rule.
type Change struct {
	Revision table.Revision // 0: the commit is older than the history
	By       partition.By
}

// Changes returns, for each rule, the commit that last changed the rule at or before the state
// s. The state s must be the state at a single revision, such as Partition.At returns. Changes
// reads each older version of the settings in turn. So the work grows with the number of
// changes of the settings, and not with the number of other commits.
func Changes(ctx context.Context, p *partition.Partition, s *partition.Snapshot, rules []partition.AccessRule) ([]Change, error) {
	all := make([]Change, len(rules))
	close := func() {}
	defer func() { close() }()
	for left := len(rules); left > 0; {
		since, err := s.Catalog.SettingsSince(ctx, s.Reader)
		if err != nil || since == 0 || since <= p.DB.Horizon() {
			return all, err
		}
		before, err := state.At(ctx, p, since-1)
		if err != nil {
			return nil, err
		}
		close()
		close = before.Close
		old, err := before.Catalog.AccessAt(ctx, before.Reader)
		if err != nil {
			return nil, err
		}
		by, err := committedBy(ctx, p, since)
		if err != nil {
			return nil, err
		}
		for i, rule := range rules {
			if all[i].Revision == 0 && !slices.Contains(old, rule) {
				all[i] = Change{since, by}
				left--
			}
		}
		s = before
	}
	return all, nil
}

// committedBy returns the author of the commit with the revision r.
func committedBy(ctx context.Context, p *partition.Partition, r table.Revision) (by partition.By, err error) {
	s, err := state.At(ctx, p, r)
	if err != nil {
		return by, err
	}
	defer s.Close()
	for c, err := range changestream.ShownAfter(ctx, s, r-1) {
		if err != nil {
			return by, err
		}
		if c.Revision == r {
			return write.ParseMessage(c.Message).By, nil
		}
	}
	return by, nil
}

// A Shown is a rule with its place, the entries that it names, and its last change.
type Shown struct {
	acl.Placed
	At     entry.ID // the entry at which the rule is placed; entry.Root: the whole directory
	Names  []NamedEntry
	Change Change
}

// A NamedEntry is an entry that a rule names, with the name that the entry has in some
// state.
type NamedEntry struct {
	What string // part of the rule: "who" or "target"; the command "access show" adds "place"
	Name string
	ID   entry.ID // entry.Root only for a place that is the whole directory
}

// Show returns the rules at a place, each with its named entries and its last change. If
// name is not "", Show returns only the rule with that name. The state s must be
// the state at a single revision, such as Partition.At returns.
func Show(ctx context.Context, p *partition.Partition, s *partition.Snapshot, at entry.ID, name string) (shown []Shown, err error) {
	rules, err := s.Catalog.AccessAt(ctx, s.Reader)
	if err != nil {
		return nil, err
	}
	var here []partition.AccessRule
	for _, rule := range rules {
		if rule.Place != at {
			continue
		}
		x := Shown{At: at}
		if x.Placed, err = place(ctx, s, rule); err != nil {
			return nil, err
		}
		if name != "" && x.Rule.Name != name {
			continue
		}
		if x.Names, err = namedEntries(ctx, s, rule); err != nil {
			return nil, err
		}
		shown, here = append(shown, x), append(here, rule)
	}
	changes, err := Changes(ctx, p, s, here)
	if err != nil {
		return nil, err
	}
	for i := range shown {
		shown[i].Change = changes[i]
	}
	return shown, nil
}

// namedEntries returns the entries that a rule names, with their names in the state s.
func namedEntries(ctx context.Context, s *partition.Snapshot, rule partition.AccessRule) (all []NamedEntry, err error) {
	written, err := acl.Parse(rule.Text)
	if err != nil {
		return nil, err
	}
	refs := written.References()
	for i, id := range named(rule) {
		if id == entry.Root || i >= len(refs) {
			continue
		}
		n := NamedEntry{What: "who", ID: id}
		if refs[i].Target {
			n.What = "target"
		}
		name, err := nameOf(ctx, s, id)
		switch {
		case errors.Is(err, errGone):
			n.Name = "nobody; it was " + refs[i].Name
		case err != nil:
			return nil, err
		default:
			n.Name = name.String()
		}
		all = append(all, n)
	}
	return all, nil
}
