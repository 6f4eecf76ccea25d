package access

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// Store makes what a partition stores of rules. The error names all rules that
// cannot be: of a place or of somebody that a state has no entry of, with words that
// its schema does not know, or with the name of another one at the same place.
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

func store(ctx context.Context, s *partition.Snapshot, r acl.Placed) (rule partition.AccessRule, err error) {
	rule.Text = r.Rule.String()
	if _, err = acl.NewSet(s.Schema(), s.Contexts(), []acl.Placed{r}); err != nil {
		return rule, err
	}
	if len(r.Place) > 0 {
		at, err := s.Find(ctx, r.Place)
		if err != nil {
			return rule, fmt.Errorf("rule %s: its place: %w", r.Label(), err)
		}
		rule.Place = at.ID
	}
	for _, text := range r.Rule.Names() {
		name, err := dn.Parse(text)
		if err == nil {
			_, err = s.Find(ctx, name)
		}
		if err != nil && !partition.Is(err, partition.NoSuchEntry) {
			return rule, fmt.Errorf("rule %s: %w", r.Label(), err)
		}
		if err != nil {
			return rule, fmt.Errorf("rule %s: no entry has the name %s", r.Label(), text)
		}
	}
	return rule, nil
}
