package evolve

import (
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/internal/state"
	"github.com/seed-4dac0d86/ldapd/partition/internal/write"
	"github.com/seed-4dac0d86/ldapd/table"
)

// SetAccess replaces the access rules. It calls change with the present rules and a state
// that shows them, and change returns the new rules. SetAccess returns when every server
// applies the new rules, so that no later operation is judged by the old rules.
func SetAccess(ctx context.Context, p *catalog.Keeper, by write.By, change func(s *state.Snapshot, old []catalog.AccessRule) ([]catalog.AccessRule, error)) error {
	end, err := p.Reshape(ctx)
	if err != nil {
		return err
	}
	defer end()
	old, err := p.Latest()
	if err != nil {
		return err
	}
	s := state.Newest(p)
	rules, err := change(s, slices.Clone(old.Header.Access))
	s.Close()
	if err != nil || (rules == nil) == (old.Header.Access == nil) && slices.Equal(rules, old.Header.Access) {
		return err
	}
	h := *old.Header
	h.Access = rules
	r, err := installBy(ctx, p, by, old, &h)
	if err != nil {
		return err
	}
	return awaitStep(ctx, p, r)
}

// UpdateAccess is Update for a function that changes access rules, and perhaps entries.
// It returns when every server applies the new rules.
func UpdateAccess(ctx context.Context, p *catalog.Keeper, by write.By, fn func(*write.Tx) error) (table.Revision, error) {
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
