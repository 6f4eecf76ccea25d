package render

import (
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/directory/internal/accountcheck"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// appendAccount adds account attributes that are computed from failures and policies.
// Attributes that record how the account is used, such as pwdFailureTime, are returned only
// if the client requests them by name.
func (v *Presenter) appendAccount(ctx context.Context, as []entry.Attribute, found *partition.Result) ([]entry.Attribute, error) {
	sel, req := &v.selector, v.Req
	if !sel.operational && len(sel.named) == 0 || req.IsPast() {
		return as, nil
	}
	k := &req.Known.Account
	var wanted []*schema.AttributeType
	for _, t := range k.Shown {
		if !sel.asks(t) && (!sel.operational || t.Secret()) || t.Secret() && !req.Judge.Secrets(acl.Show) {
			continue
		}
		if !slices.ContainsFunc(as, func(a entry.Attribute) bool { return a.Type == t }) {
			wanted = append(wanted, t)
		}
	}
	if len(wanted) == 0 {
		return as, nil
	}
	set, err := req.Server.Policies.Set(ctx, req.Snapshot, req.Known)
	if err != nil || set == nil && !slices.ContainsFunc(wanted, (*schema.AttributeType).Secret) {
		return as, err
	}
	a, err := accountcheck.At(ctx, req, found.Located)
	if err != nil {
		return as, err
	}
	for _, t := range wanted {
		if values := a.Computed(t); len(values) > 0 {
			as = append(as, entry.Attribute{Type: t, Values: values})
		}
	}
	return as, nil
}

// appendUsable adds the account usable control to an entry, if the client requested the
// control, the state is not a past state, the entry has a password, and the requester may see
// whether the account is locked.
func (v *Presenter) appendUsable(ctx context.Context, controls []op.Control, found *partition.Result) ([]op.Control, error) {
	req := v.Req
	t := req.Known.Account.LockedTime
	if !req.Controls.AccountUsable || t == nil || req.IsPast() {
		return controls, nil
	}
	if !req.Judge.Unrestricted() {
		d, err := req.Judge.DecideAt(ctx, found.Located)
		if err != nil || d == nil || !d.All(t, acl.Show) {
			return controls, err
		}
	}
	a, err := accountcheck.At(ctx, req, found.Located)
	if err != nil || !a.HasPassword() {
		return controls, err
	}
	return append(slices.Clip(controls), op.Control{OID: control.OIDAccountUsable, Value: a.Control().Encode()}), nil
}
