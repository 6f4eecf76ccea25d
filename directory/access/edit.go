package access

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// An Editor changes the rules at one place by the changes that a modify operation makes to
// the attribute accessRule.
type Editor struct {
	State      *partition.Snapshot
	Rules      []partition.AccessRule // all rules of the directory; nil: the directory has never had rules
	Place      entry.ID               // entry.Root: the whole directory
	Name       dn.DN                  // name of the entry Place
	Find       Finder                 // looks up the names in new rules
	Permissive bool                   // adding an existing rule or removing a missing rule is no error

	own  []own // rules at Place
	rest []partition.AccessRule
}

// own is a rule at the place that an Editor changes.
type own struct {
	stored partition.AccessRule
	rule   *acl.Rule // the parsed rule, with the current names of entries
}

// Values returns the rules at a place as values of accessRule.
func Values(ctx context.Context, s *partition.Snapshot, rules []partition.AccessRule, at entry.ID) (values [][]byte, err error) {
	for _, rule := range rules {
		if rule.Place != at {
			continue
		}
		text, err := Text(ctx, s, rule)
		if err != nil {
			return nil, err
		}
		values = append(values, []byte(text))
	}
	return values, nil
}

// Text returns the text of a rule with the names that entries have in the state s. It
// returns "" if the entry at which the rule is placed no longer exists.
func Text(ctx context.Context, s *partition.Snapshot, rule partition.AccessRule) (string, error) {
	p, err := place(ctx, s, rule)
	if errors.Is(err, errGone) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return p.Rule.String(), nil
}

// Apply applies changes to the rules at the place and returns all rules of the directory.
// If the directory has never had rules, Apply starts with the rules of the profile "open".
func (ed *Editor) Apply(ctx context.Context, changes []op.Modification) ([]partition.AccessRule, error) {
	if err := ed.read(ctx); err != nil {
		return nil, err
	}
	for i := range changes {
		if err := ed.change(ctx, &changes[i]); err != nil {
			return nil, err
		}
	}
	if n := len(ed.rest) + len(ed.own); n > acl.MaxRules {
		return nil, problem(partition.Constraint, "accessRule: %d rules are more than the %d that a directory can have", n, acl.MaxRules)
	}
	rules := slices.Clone(ed.rest)
	for _, o := range ed.own {
		rules = append(rules, o.stored)
	}
	return rules, nil
}

func (ed *Editor) read(ctx context.Context) error {
	rules := ed.Rules
	if rules == nil {
		begin, err := open(ed.State.Schema())
		if err == nil {
			rules, err = Store(ctx, ed.State, begin)
		}
		if err != nil {
			return err
		}
	}
	for _, rule := range rules {
		if rule.Place != ed.Place {
			ed.rest = append(ed.rest, rule)
			continue
		}
		p, err := place(ctx, ed.State, rule)
		if err != nil {
			return err
		}
		ed.own = append(ed.own, own{rule, p.Rule})
	}
	return nil
}

func (ed *Editor) change(ctx context.Context, c *op.Modification) error {
	switch {
	case c.Kind == op.ModIncrement:
		return problem(partition.Constraint, "accessRule cannot be incremented")
	case c.Kind == op.ModAdd && len(c.Values) == 0:
		return problem(partition.BadOperand, "add of accessRule: no values given")
	case c.Kind == op.ModDelete && len(c.Values) == 0:
		if len(ed.own) == 0 && !ed.Permissive {
			return problem(partition.NoSuchAttribute, "the entry has no accessRule")
		}
		ed.own = nil
		return nil
	}
	before := ed.own
	if c.Kind == op.ModReplace {
		ed.own = nil
	}
	for _, v := range c.Values {
		var err error
		if c.Kind == op.ModDelete {
			err = ed.remove(v)
		} else {
			err = ed.add(ctx, v, before)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// add adds a rule. If oldRules contains the rule, the rule keeps referring to the same
// entries, even if the requester cannot find those entries.
func (ed *Editor) add(ctx context.Context, value []byte, oldRules []own) error {
	if len(value) > acl.MaxRule {
		return problem(partition.Constraint, "accessRule: %d bytes are more than the %d that a rule may have", len(value), acl.MaxRule)
	}
	rule, err := acl.Parse(string(value))
	if err != nil {
		return problem(partition.InvalidSyntax, "accessRule: %v", err)
	}
	named := func(o own) bool { return o.rule.Name == rule.Name }
	if i := slices.IndexFunc(ed.own, named); i >= 0 {
		switch {
		case !ed.own[i].is(rule):
			return problem(partition.Constraint, "accessRule: the entry has another rule of the name %s", rule.Name)
		case ed.Permissive:
			return nil
		}
		return problem(partition.ValueExists, "the entry has the accessRule %s already", rule.Name)
	}
	if i := slices.IndexFunc(oldRules, named); i >= 0 && oldRules[i].is(rule) {
		ed.own = append(ed.own, oldRules[i])
		return nil
	}
	stored, err := StoreAt(ctx, ed.State, ed.Place, acl.Placed{Place: ed.Name, Rule: rule}, ed.Find)
	if err != nil {
		return refused(err)
	}
	ed.own = append(ed.own, own{stored, rule})
	return nil
}

// remove removes a rule. The argument is the text of the rule as a search returns it.
func (ed *Editor) remove(value []byte) error {
	value = bytes.TrimSpace(value)
	i := slices.IndexFunc(ed.own, func(o own) bool {
		rule, err := acl.Parse(string(value))
		return err == nil && o.is(rule)
	})
	if i < 0 {
		if ed.Permissive {
			return nil
		}
		return problem(partition.NoSuchAttribute, "the entry has no such accessRule")
	}
	ed.own = slices.Delete(slices.Clone(ed.own), i, i+1)
	return nil
}

func (o *own) is(r *acl.Rule) bool { return o.rule.String() == r.String() }

// refused converts an error of StoreAt to an error with a problem code of package
// partition.
func refused(err error) error {
	var broken *acl.Problem
	var known *partition.Error
	switch {
	case errors.As(err, &broken):
		return problem(partition.Constraint, "accessRule: %v", broken)
	case errors.As(err, &known) && known.Problem != partition.NoSuchEntry, errors.As(err, new(*dn.Error)):
		return problem(partition.InvalidSyntax, "accessRule: %v", err)
	case errors.Is(err, errNoEntry):
		return problem(partition.Constraint, "accessRule: %v", err)
	}
	return err
}

func problem(p partition.Problem, format string, args ...any) error {
	return &partition.Error{Problem: p, Text: fmt.Sprintf(format, args...)}
}

// Managed reports whether some identity may manage the whole directory: a rule allows it, and
// no rule denies it to everyone.
func Managed(rules []acl.Placed) bool {
	return slices.ContainsFunc(rules, acl.Placed.ManagesAll) && !slices.ContainsFunc(rules, acl.Placed.ManagesNothing)
}
