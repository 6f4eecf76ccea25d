package render

import (
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/directory/access"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// Rules returns the access rules at an entry, in the state that the request reads, if the
// requester may be shown them. The rules of the whole directory are at entry.Root.
func Rules(ctx context.Context, req *request.Request, name *dn.Name, e *entry.Entry) ([][]byte, error) {
	rules, err := rulesOf(ctx, req)
	here := func(r partition.AccessRule) bool { return r.Place == e.ID }
	if err != nil || !slices.ContainsFunc(rules, here) {
		return nil, err
	}
	shown, err := req.Judge.Case(name, e).ShowsRules(ctx, req.Known.AccessRule)
	if err != nil || !shown {
		return nil, err
	}
	return access.Values(ctx, req.Snapshot, rules, e.ID)
}

func rulesOf(ctx context.Context, req *request.Request) ([]partition.AccessRule, error) {
	if req.IsPast() {
		return req.Snapshot.Catalog.AccessAt(ctx, req.Snapshot.Reader)
	}
	return req.Snapshot.Catalog.Access.Rules, nil
}

// appendRules adds the access rules of an entry, if requested by name or by "+".
func (v *Presenter) appendRules(ctx context.Context, as []entry.Attribute, found *partition.Result) ([]entry.Attribute, error) {
	t := v.Req.Known.AccessRule
	if t == nil || !v.selector.operational && !v.selector.asks(t) {
		return as, nil
	}
	rules, err := Rules(ctx, v.Req, found.Name, found.Entry)
	if err != nil || len(rules) == 0 {
		return as, err
	}
	return append(as, entry.Attribute{Type: t, Values: rules}), nil
}
