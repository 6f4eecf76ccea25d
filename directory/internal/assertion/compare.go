package assertion

import (
	"bytes"
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/directory/account"
	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/directory/internal/accountcheck"
	"github.com/seed-4dac0d86/ldapd/directory/internal/collective"
	"github.com/seed-4dac0d86/ldapd/directory/internal/filterprep"
	"github.com/seed-4dac0d86/ldapd/directory/internal/locate"
	"github.com/seed-4dac0d86/ldapd/directory/internal/membership"
	"github.com/seed-4dac0d86/ldapd/directory/internal/password"
	"github.com/seed-4dac0d86/ldapd/directory/internal/render"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/virtual"
	"github.com/seed-4dac0d86/ldapd/directory/settings"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// Compare performs a Compare operation (RFC 4511, 4.10). It does not follow aliases.
func Compare(ctx context.Context, req *request.Request, r *op.Compare) error {
	s, err := req.State(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	t, options := req.Schema.Describe(r.Description)
	if t == nil {
		return op.Errorf(op.UndefinedAttributeType, "attribute %q is not in the schema, or one of its options is not known", r.Description)
	}
	holds, err := compareEntry(ctx, req, t, entry.SortOptions(options), r)
	if err != nil {
		return err
	}
	req.Response.Code = op.CompareFalse
	if holds {
		req.Response.Code = op.CompareTrue
	}
	return nil
}

func compareEntry(ctx context.Context, req *request.Request, t *schema.AttributeType, options string, r *op.Compare) (bool, error) {
	if at, ok := locate.Recall(ctx, req, r.Name); ok && req.Judge.ReadsAll() {
		return compareAt(ctx, req, at, t, options, r)
	}
	name, err := dn.Parse(r.Name)
	if err != nil {
		return false, op.Errorf(op.InvalidDNSyntax, "%v", err)
	}
	v, err := virtual.Named(ctx, req, name)
	if err != nil {
		return false, err
	}
	if v != nil {
		if err := v.Assert(ctx, req); err != nil {
			return false, err
		}
		return compareValues(t, slices.Collect(v.Source(req.Schema).Values(t, options)), r.Value)
	}
	at, err := locate.Entry(ctx, req, name)
	if err != nil {
		return false, err
	}
	req.Snapshot.Remember(r.Name, at)
	return compareAt(ctx, req, at, t, options, r)
}

func compareAt(ctx context.Context, req *request.Request, at partition.Located, t *schema.AttributeType, options string, r *op.Compare) (bool, error) {
	if err := filterprep.DrawValues(req, len(r.Value)); err != nil {
		return false, err
	}
	if err := Check(ctx, req, at.ID); err != nil {
		return false, err
	}
	all, err := mayCompare(ctx, req, at, t, options, r.Value)
	if err != nil {
		return false, err
	}
	switch {
	case t.Secret() && !req.IsPast() && (req.Who.IsAdmin() || t != req.Known.UserPassword && !req.Judge.ReadsAll()):
		return compareSecret(ctx, req, at.ID, t, options, r.Value)
	case t.Secret():
		return verifyPassword(ctx, req, at, t, options, r.Value)
	case t == req.Known.AccessRule:
		return compareRules(ctx, req, at, t, r.Value)
	case slices.Contains(req.Known.Computed, t):
		// The values may come from other entries. show.Computed leaves out the entries
		// that the requester does not see.
		values, err := render.Computed(ctx, req, t, at)
		if err != nil {
			return false, err
		}
		return compareValues(t, values, r.Value)
	}
	holds, has, err := compareShared(ctx, req, at, t, options, r.Value)
	if holds || err != nil {
		return holds, err
	}
	own, err := req.Snapshot.Compare(ctx, at.ID, r.Description, r.Value)
	if !own && t == req.Known.Member && options == "" {
		dynamic, err := membership.IsDynamic(ctx, req, at.ID)
		if err != nil {
			return false, err
		}
		if dynamic {
			return membership.Matches(ctx, req, at.ID, r.Value)
		}
	}
	if (has || !all) && partition.Is(err, partition.NoSuchAttribute) {
		return false, nil // there are collective values, or the requester must not learn that there is no value
	}
	return own, err
}

// verifyPassword compares an assertion with a password through package gate, as a bind does.
// A mismatch counts as a failure. For an account that cannot be used, no password matches.
// The requester needs the right to compare userPassword, granted by a rule that names
// userPassword.
func verifyPassword(ctx context.Context, req *request.Request, at partition.Located, t *schema.AttributeType, options string, assertion []byte) (bool, error) {
	refused := op.Errorf(op.InsufficientAccessRights, "%s is secret, and serves only to bind", t.Name())
	if t != req.Known.UserPassword || options != "" || req.IsPast() || req.Judge.Unrestricted() {
		return false, refused
	}
	d, err := req.Judge.DecideAt(ctx, at)
	switch {
	case err != nil:
		return false, err
	case d == nil || !d.All(t, acl.Compare):
		return false, refused
	case password.InClear(req):
		return false, password.ErrClear
	}
	a, err := accountcheck.Open(ctx, req, &settings.Identity{Name: at.Name, ID: at.ID}, at.Name.String())
	if err != nil {
		return false, err
	}
	v, _, err := a.Verify(ctx, assertion)
	return v == account.Right && a.Compares(), err
}

// compareRules compares an assertion with the access rules that are stored at an entry.
func compareRules(ctx context.Context, req *request.Request, at partition.Located, t *schema.AttributeType, assertion []byte) (bool, error) {
	e, err := req.Snapshot.Some(ctx, at.ID, append([]*schema.AttributeType{req.Known.ObjectClass}, req.Judge.NeededTypes()...))
	if err != nil || e == nil {
		return false, err
	}
	rules, err := render.Rules(ctx, req, at.Name, e)
	if err != nil {
		return false, err
	}
	return compareValues(t, rules, assertion)
}

// compareSecret compares an assertion with the stored values of a secret. A password does not
// match its stored hash.
func compareSecret(ctx context.Context, req *request.Request, id entry.ID, t *schema.AttributeType, options string, assertion []byte) (bool, error) {
	secrets, err := req.Snapshot.Secrets(ctx, id)
	if err != nil {
		return false, err
	}
	var values [][]byte
	for _, a := range secrets {
		if a.Type.Is(t) && entry.HasOptions(a.Options, options) {
			values = append(values, a.Values...)
		}
	}
	return compareValues(t, values, assertion)
}

// compareValues compares an assertion with values as RFC 4511 requires.
func compareValues(t *schema.AttributeType, values [][]byte, assertion []byte) (bool, error) {
	switch {
	case t.Equality == nil:
		return false, op.Errorf(op.InappropriateMatching, "%s has no equality matching rule", t.Name())
	case len(values) == 0:
		return false, op.Errorf(op.NoSuchAttribute, "the entry has no %s", t.Name())
	}
	want, err := t.Equality.Assertion(assertion)
	if err != nil {
		return false, op.Errorf(op.InvalidAttributeSyntax, "%v", err)
	}
	for _, v := range values {
		if key, err := t.Equality.Key(v); err == nil && bytes.Equal(key, want) {
			return true, nil
		}
	}
	return false, nil
}

// compareShared compares an assertion with the collective values of an entry. The second
// result reports whether the entry has a collective value of the type.
func compareShared(ctx context.Context, req *request.Request, at partition.Located, t *schema.AttributeType, options string, assertion []byte) (holds, has bool, err error) {
	if len(t.Shared()) == 0 {
		return false, false, nil
	}
	c, err := collective.Collect(ctx, req)
	if err != nil || c == nil {
		return false, false, err
	}
	e, err := req.Snapshot.Entry(ctx, at.ID, false)
	if err != nil {
		return false, false, err
	}
	all, err := c.Attributes(ctx, &partition.Result{Located: at, Entry: e})
	if err != nil {
		return false, false, err
	}
	var values [][]byte
	for _, a := range all[len(e.Attributes):] {
		if a.Type.Is(t) && entry.HasOptions(a.Options, options) {
			values = append(values, a.Values...)
		}
	}
	if len(values) == 0 {
		return false, false, nil
	}
	holds, err = compareValues(t, values, assertion)
	return holds, true, err
}

// mayCompare returns an error if the requester may not compare with the asserted value. The
// error does not depend on whether the entry has the value. The result all reports whether
// the requester may compare with every value of the type.
func mayCompare(ctx context.Context, req *request.Request, at partition.Located, t *schema.AttributeType, options string, assertion []byte) (all bool, err error) {
	if req.Judge.ReadsAll() {
		return true, nil
	}
	d, err := req.Judge.DecideAt(ctx, at)
	if err != nil {
		return false, err
	}
	all = true
	for _, sub := range req.Schema.Subtypes(t) {
		switch {
		case d == nil:
			return false, request.ErrAccess
		case !d.Assertion(sub, options, assertion, acl.Compare):
			return false, req.Judge.Refuse(d, acl.Question{Right: acl.Compare, Type: sub, Options: options, Value: assertion})
		}
		all = all && d.All(sub, acl.Compare)
	}
	return all, nil
}
