package onlineschema

import (
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// SetAccess replaces the access rules. The caller passes change, a function that receives the
// present rules and a state that shows them, and returns the new rules. SetAccess returns when
// every server applies the new rules, so that no later operation is judged by the old rules.
func SetAccess(ctx context.Context, p *catalog.Partition, by write.By, change func(s *state.Snapshot, old []catalog.AccessRule) ([]catalog.AccessRule, error)) error {
	return setSettings(ctx, p, by, func(s *state.Snapshot, h *catalog.Header) (bool, error) {
		old := h.Access
		rules, err := change(s, slices.Clone(old))
		h.Access = rules
		return (rules == nil) != (old == nil) || !slices.Equal(rules, old), err
	})
}

// SetPolicy replaces the default password policy. The caller passes change, a function that
// receives the present policy and returns the new policy. A nil policy means that there is no
// policy.
func SetPolicy(ctx context.Context, p *catalog.Partition, by write.By, change func(s *state.Snapshot, old []catalog.PolicyAttribute) ([]catalog.PolicyAttribute, error)) error {
	return setSettings(ctx, p, by, func(s *state.Snapshot, h *catalog.Header) (bool, error) {
		old := h.Policy
		policy, err := change(s, slices.Clone(old))
		h.Policy = policy
		return !catalog.SamePolicy(policy, old), err
	})
}

// setSettings lets the caller's function, change, edit a copy of the present settings. If
// change returns true, setSettings installs the edited settings and returns when every server
// applies them.
func setSettings(ctx context.Context, p *catalog.Partition, by write.By, change func(s *state.Snapshot, h *catalog.Header) (changed bool, err error)) error {
	end, err := p.Reshape(ctx)
	if err != nil {
		return err
	}
	defer end()
	old, err := p.Latest()
	if err != nil {
		return err
	}
	h := *old.Header
	s := state.Newest(p)
	changed, err := change(s, &h)
	s.Close()
	if err != nil || !changed {
		return err
	}
	r, err := installBy(ctx, p, by, old, &h)
	if err != nil {
		return err
	}
	return awaitStep(ctx, p, r)
}

// UpdateSettings is Update for a function that changes access rules or the default
// password policy, and perhaps entries. It returns when every server applies the new
// settings.
func UpdateSettings(ctx context.Context, p *catalog.Partition, by write.By, fn func(*write.Tx) error) (table.Revision, error) {
	end, err := p.Reshape(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	r, err := write.UpdateLocked(ctx, p, by, fn)
	if err != nil {
		return r, err
	}
	if err := awaitStep(ctx, p, r); err != nil {
		return r, &catalog.NotEverywhere{Err: err}
	}
	return r, nil
}
