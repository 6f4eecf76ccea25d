package filterprep

import (
	"context"
	"iter"
	"slices"

	"github.com/seed-4dac0d86/ldapd/directory/internal/accountlog"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/usage"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// ofAccounts reports whether a test is about an attribute of accounts whose values are computed, or
// are not stored in the entry. States of the past have no such values.
func ofAccounts(req *request.Request, t *filter.Test) bool {
	return len(t.Types) == 1 && slices.Contains(req.Known.Account.Shown, t.Types[0]) && !req.IsPast()
}

// accountTest returns a test of what reading an entry shows: of the values that the entry stores, or
// of those that are computed. The test lists the entries with computed values, except those of the
// policy, which most accounts have.
func accountTest(ctx context.Context, req *request.Request, t *filter.Test) filter.Resolved {
	a := &accounts{req: req, t: t, typ: t.Types[0]}
	computed := t.Computed(func(e filter.Source) bool {
		s, ok := e.(*filter.EntrySource)
		return ok && a.matches(ctx, s)
	})
	if a.typ != req.Known.Account.Policy {
		computed = computed.Listed(a.list(ctx))
	}
	if a.typ.Secret() {
		return computed
	}
	return filter.MakeOr(t, computed)
}

// accounts evaluates a test of an attribute of accounts.
type accounts struct {
	req   *request.Request
	t     *filter.Test
	typ   *schema.AttributeType
	alone int // how many entries were read one by one
	// used, if not nil, contains what is stored of the use of all accounts, as far as the test
	// depends on it.
	used map[entry.ID][]entry.Attribute
}

// maxAlone is the number of entries that are read one by one before all accounts are read in one
// scan.
const maxAlone = 64

// needs returns the type of the secrets that the test depends on: failures lock accounts.
func (a *accounts) needs() *schema.AttributeType {
	if a.typ.Secret() {
		return a.typ
	}
	return a.req.Known.Account.Failure
}

// matches reports whether a value of an entry that is not stored in the entry matches.
func (a *accounts) matches(ctx context.Context, s *filter.EntrySource) bool {
	if slices.ContainsFunc(s.Entry.Attributes, func(x entry.Attribute) bool { return x.Type == a.typ }) {
		return false // a stored value takes the place of a computed value
	}
	var used []entry.Attribute
	var err error
	if a.typ != a.req.Known.Account.Policy {
		used, err = a.usedBy(ctx, s.Entry.ID)
	}
	match := false
	if err == nil {
		match, err = a.computed(ctx, partition.Located{ID: s.Entry.ID, Name: s.Stored}, used)
	}
	if err != nil {
		a.req.Judge.Fail(err)
	}
	return match
}

// computed reports whether a computed value of an account matches. The parameter used is the use of
// the account. The name may be nil.
func (a *accounts) computed(ctx context.Context, at partition.Located, used []entry.Attribute) (bool, error) {
	if len(used) == 0 && a.typ != a.req.Known.Account.Policy {
		return false, nil
	}
	values := accountlog.Values(used, a.typ)
	if !a.typ.Secret() {
		set, err := a.req.Server.Policies.Set(ctx, a.req.Snapshot, a.req.Known)
		if err == nil && at.Name == nil {
			at.Name, err = a.req.Snapshot.Name(ctx, at.ID)
		}
		if err != nil {
			return false, err
		}
		found, err := a.req.Server.Policies.In(ctx, a.req.Snapshot, a.req.Known, set, at)
		if err != nil {
			return false, err
		}
		values = a.req.Server.Ledgers.Of(a.req.Known, at.ID).Computed(a.typ, found.Policy, used)
	}
	e := entry.Entry{ID: at.ID, Attributes: []entry.Attribute{{Type: a.typ, Values: values}}}
	return len(values) > 0 && a.t.Match(&filter.EntrySource{Schema: a.req.Schema, Entry: &e}) == filter.True, nil
}

// usedBy returns what is stored of the use of an account. It reads the first accounts one by one.
// Then it reads all accounts in one scan.
func (a *accounts) usedBy(ctx context.Context, id entry.ID) ([]entry.Attribute, error) {
	if a.used == nil && a.alone < maxAlone {
		a.alone++
		secrets, err := a.req.Snapshot.Secrets(ctx, id)
		return slices.DeleteFunc(slices.Clone(secrets), func(x entry.Attribute) bool { return x.Type != a.needs() }), err
	}
	if a.used == nil {
		a.used = map[entry.ID][]entry.Attribute{}
		for u, err := range usage.All(ctx, a.req.Snapshot, a.needs()) {
			if err == nil {
				err = a.req.Draw(sizeOfUse * int64(len(u.Attribute.Values)))
			}
			if err != nil {
				return nil, err
			}
			a.used[u.ID] = []entry.Attribute{u.Attribute}
		}
	}
	return a.used[id], nil
}

// sizeOfUse is about how much memory a value takes.
const sizeOfUse = 128

// list streams the entries with a computed value that matches.
func (a *accounts) list(ctx context.Context) iter.Seq2[filter.EntryRef, error] {
	return func(yield func(filter.EntryRef, error) bool) {
		for u, err := range usage.Located(ctx, a.req.Snapshot, usage.All(ctx, a.req.Snapshot, a.needs())) {
			match := false
			if err == nil {
				match, err = a.listed(ctx, &u)
			}
			if (match || err != nil) && !yield(filter.EntryRef{ID: u.ID, Parent: u.Parent}, err) {
				return
			}
		}
	}
}

// listed reports whether a computed value of the account that was used matches. A stored value takes
// the place of a computed value.
func (a *accounts) listed(ctx context.Context, u *usage.Use) (bool, error) {
	match, err := a.computed(ctx, partition.Located{ID: u.ID}, []entry.Attribute{u.Attribute})
	if err != nil || !match || a.typ.Secret() {
		return match, err
	}
	e, err := a.req.Snapshot.Some(ctx, u.ID, []*schema.AttributeType{a.typ})
	return e != nil && len(e.Values(a.typ)) == 0, err
}
