package bulk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/seed-4dac0d86/ldapd/directory/access"
	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// givenRules collects the access rules that imported entries contain as values of
// accessRule. A rule may name an entry that is imported later, so rules are resolved
// after all entries have been imported.
type givenRules struct {
	mu  sync.Mutex
	all []givenRule
}

type givenRule struct {
	place  string
	values [][]byte
}

// errRules is the error of an import if changes, or entries for a branch, contain access rules.
var errRules = errors.New("access rules are changed over LDAP: send the file to a running server")

// isRules reports whether an attribute description denotes the attribute of access rules.
func isRules(sch *schema.Schema, description string) bool {
	t := sch.Attribute(accessOf)
	return t != nil && sch.Attribute(description) == t
}

// rulesIn returns the index of the access rules among attributes, or -1.
func rulesIn(sch *schema.Schema, attributes []op.PartialAttribute) int {
	return slices.IndexFunc(attributes, func(a op.PartialAttribute) bool { return isRules(sch, a.Description) })
}

// take removes the access rules from the attributes of an entry and collects them.
func (g *givenRules) take(sch *schema.Schema, name string, attributes []op.PartialAttribute) ([]op.PartialAttribute, error) {
	i := rulesIn(sch, attributes)
	if i < 0 {
		return attributes, nil
	}
	for _, v := range attributes[i].Values {
		if _, err := acl.Parse(string(v)); err != nil {
			return nil, fmt.Errorf("accessRule: %w", err)
		}
	}
	g.mu.Lock()
	g.all = append(g.all, givenRule{name, attributes[i].Values})
	g.mu.Unlock()
	return slices.Delete(slices.Clone(attributes), i, i+1), nil
}

// settle sets the collected rules. It also makes the rules of the shared configuration
// refer to the imported entries that they name.
func (g *givenRules) settle(ctx context.Context, p *partition.Partition, note func(string)) error {
	err := onlineschema.SetAccess(ctx, p, partition.By{}, func(s *partition.Snapshot, rules []partition.AccessRule) ([]partition.AccessRule, error) {
		if rules != nil {
			resolved, unknown, err := access.Resolve(ctx, s, rules)
			if err != nil {
				return nil, err
			}
			for _, u := range unknown {
				note(u + ": it names nobody there")
			}
			rules = resolved
		}
		for _, r := range g.all {
			var err error
			if rules, err = r.add(ctx, s, rules); err != nil {
				return nil, err
			}
		}
		return rules, nil
	})
	if err != nil {
		return fmt.Errorf("the entries are imported, the access rules among them are not: %w", err)
	}
	return nil
}

// add adds the rules of an entry to rules. If the entry does not exist, because it was
// refused, add returns rules unchanged.
func (r *givenRule) add(ctx context.Context, s *partition.Snapshot, rules []partition.AccessRule) ([]partition.AccessRule, error) {
	name, err := dn.Parse(r.place)
	if err != nil {
		return nil, err
	}
	at, err := s.Find(ctx, name)
	if partition.Is(err, partition.NoSuchEntry) {
		return rules, nil
	}
	if err != nil {
		return nil, err
	}
	ed := access.Editor{State: s, Rules: rules, Place: at.ID, Name: name, Find: s.Find, Permissive: true}
	return ed.Apply(ctx, []op.Modification{{Kind: op.ModAdd, PartialAttribute: op.PartialAttribute{Description: accessOf, Values: r.values}}})
}
