package access

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A Finder looks up the entry with a name. Snapshot.Find is a Finder.
type Finder func(ctx context.Context, name dn.DN) (partition.Located, error)

// Store returns rules in the form in which a partition stores rules. The error lists all
// invalid rules. A rule is invalid, for example, if its place or an identity has no entry in
// the state, if the schema does not define one of its words, or if another rule at the same
// place has the same name.
func Store(ctx context.Context, s *partition.Snapshot, rules []acl.Placed) ([]partition.AccessRule, error) {
	stored := make([]partition.AccessRule, 0, len(rules))
	seen := map[string]bool{}
	var bad []error
	for _, r := range rules {
		rule, err := store(ctx, s, r)
		switch {
		case err != nil:
			bad = append(bad, err)
		case seen[r.Rule.Name+" "+rule.Place.String()]:
			bad = append(bad, fmt.Errorf("rule %s: there is another one of that name", r.Label()))
		}
		seen[r.Rule.Name+" "+rule.Place.String()] = true
		stored = append(stored, rule)
	}
	return stored, errors.Join(bad...)
}

// Profile returns the rules of a profile in the form in which a partition stores rules.
// It is for a directory that has no entries yet.
func Profile(name string, sch *schema.Schema, contexts []string) ([]partition.AccessRule, error) {
	rules, err := acl.Profile(name, sch, contexts)
	if err != nil {
		return nil, err
	}
	stored := make([]partition.AccessRule, len(rules))
	for i, r := range rules {
		stored[i] = partition.AccessRule{Place: entry.Root, Text: r.String()}
	}
	return stored, nil
}

func store(ctx context.Context, s *partition.Snapshot, r acl.Placed) (rule partition.AccessRule, err error) {
	place := entry.Root
	if len(r.Place) > 0 {
		at, err := s.Find(ctx, r.Place)
		if err != nil {
			return rule, fmt.Errorf("rule %s: its place: %w", r.Label(), err)
		}
		place = at.ID
	}
	return StoreAt(ctx, s, place, r, s.Find)
}

// StoreAt returns one rule in the form in which a partition stores rules. place must be
// the id of the entry at r.Place. StoreAt looks up the names in the rule with find.
func StoreAt(ctx context.Context, s *partition.Snapshot, place entry.ID, r acl.Placed, find Finder) (partition.AccessRule, error) {
	rule := partition.AccessRule{Place: place, Text: r.Rule.String()}
	if _, err := acl.NewSet(s.Schema(), s.Catalog.ContextNames(), []acl.Placed{r}); err != nil {
		return rule, err
	}
	var ids []string
	for _, ref := range r.Rule.References() {
		id, err := refersTo(ctx, r, ref, find)
		if err != nil {
			return rule, err
		}
		ids = append(ids, id.String())
	}
	rule.Names = strings.Join(ids, " ")
	return rule, nil
}

var errNoEntry = errors.New("no entry has the name")

// Resolve completes the rules that were imported as text: in the state s, it looks up the
// entries that such a rule names, and adds their ids to the rule. Resolve also returns a
// description of each identity that a rule names although the identity has no entry. In the
// rule, the name of such an identity matches nobody.
func Resolve(ctx context.Context, s *partition.Snapshot, rules []partition.AccessRule) (resolved []partition.AccessRule, unknown []string, err error) {
	for _, rule := range rules {
		if rule.Names == "" {
			missing, err := resolve(ctx, s, &rule)
			if err != nil {
				return nil, nil, err
			}
			unknown = append(unknown, missing...)
		}
		resolved = append(resolved, rule)
	}
	return resolved, unknown, nil
}

func resolve(ctx context.Context, s *partition.Snapshot, rule *partition.AccessRule) (missing []string, err error) {
	p, err := place(ctx, s, *rule)
	if err != nil {
		if errors.Is(err, errGone) {
			err = nil
		}
		return nil, err
	}
	var ids []string
	for _, ref := range p.Rule.References() {
		id, err := refersTo(ctx, p, ref, s.Find)
		if errors.Is(err, errNoEntry) {
			missing, err = append(missing, err.Error()), nil
		}
		if err != nil {
			return nil, err
		}
		ids = append(ids, id.String())
	}
	rule.Names = strings.Join(ids, " ")
	return missing, nil
}

// refersTo returns the id of the entry that a reference in a rule names. For a target without
// an entry, it returns entry.Root: the target may be an entry that is added later.
func refersTo(ctx context.Context, r acl.Placed, ref acl.Reference, find Finder) (entry.ID, error) {
	name, err := dn.Parse(ref.Name)
	if err != nil {
		return entry.Root, fmt.Errorf("rule %s: %w", r.Label(), err)
	}
	if ref.Target {
		name = append(name, r.Place...)
	}
	at, err := find(ctx, name)
	switch {
	case err == nil:
		return at.ID, nil
	case !partition.Is(err, partition.NoSuchEntry):
		return entry.Root, fmt.Errorf("rule %s: %w", r.Label(), err)
	case !ref.Target:
		return entry.Root, fmt.Errorf("rule %s: %w %s", r.Label(), errNoEntry, ref.Name)
	case repeats(name, r.Place):
		return entry.Root, fmt.Errorf("rule %s: %w %s: a name after in is relative to the rule's place, so leave out %s", r.Label(), errNoEntry, name, r.Place)
	}
	return entry.Root, nil
}

// repeats reports whether the name of a target ends with the name of the rule's place twice in
// a row. The author of such a target has repeated the name of the place, although names of
// targets are relative to the place. A deny rule with such a target would deny nothing.
func repeats(target, place dn.DN) bool {
	own := len(target) - 2*len(place)
	return len(place) > 0 && own >= 0 && strings.EqualFold(target[own:own+len(place)].String(), place.String())
}
