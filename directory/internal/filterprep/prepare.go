// Package filterprep turns a client's filter into a filter that can run. Every filter of a
// client must pass through this package before it runs.
package filterprep

import (
	"context"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/directory/internal/collective"
	"github.com/seed-4dac0d86/ldapd/directory/internal/membership"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// Prepare turns a client's filter into a filter that can run on the state that the
// request reads. Assertions about secret attributes are Undefined, unless a rule that names a
// secret attribute lets the requester search it. If shared is not nil, the tests also match
// collective attributes.
func Prepare(ctx context.Context, req *request.Request, f filter.Filter, shared *collective.Set) (filter.Resolved, error) {
	if err := DrawValues(req, filter.Octets(f)); err != nil {
		return nil, err
	}
	f, err := lookUp(ctx, req, f)
	if err != nil {
		return nil, err
	}
	resolved := resolveFilter(req, f)
	if filter.HasUndefined(resolved) {
		warn(req, f)
	}
	if n := filter.Memory(resolved); n > smallFilter {
		if err := req.Draw(n); err != nil {
			return nil, err
		}
	}
	r, err := relate(ctx, req, resolved)
	if err != nil {
		return nil, err
	}
	return shared.Rewrite(ctx, req.Judge.Guard(ctx, r)), nil
}

// warn logs each type that a filter tests although its definition lacks the matching rule for
// that test. It logs a type and a rule once.
func warn(req *request.Request, f filter.Filter) {
	for leaf := range filter.Leaves(f) {
		if t, rule := filter.Unmatchable(leaf, req.Schema); t != nil {
			req.Server.WarnUnmatchable(t, rule)
		}
	}
}

// smallFilter is the memory in octets up to which a filter is not counted.
const smallFilter = 64 << 10

// DrawValues draws the memory into which assertion values of n octets may grow: a character of
// three octets becomes up to 33 when it is prepared (RFC 4518, 2.3).
func DrawValues(req *request.Request, n int) error {
	if n <= smallFilter {
		return nil
	}
	return req.Draw(12 * int64(n))
}

// relate replaces tests of memberOf and isMemberOf by tests that look at groups, and tests of account
// attributes by tests that find what reading an entry shows.
func relate(ctx context.Context, req *request.Request, f filter.Resolved) (_ filter.Resolved, err error) {
	r := filter.Map(f, func(t *filter.Test) filter.Resolved {
		if ofAccounts(req, t) {
			return accountTest(ctx, req, t)
		}
		related, e := membership.Test(ctx, req, t)
		if e != nil {
			err = e
			return t
		}
		return related
	})
	return r, err
}

// AsksOthers reports whether a filter depends on entries other than the tested entry. Such
// a filter tests a member in a chain, a group membership, or the existence or number of
// subordinates.
func AsksOthers(req *request.Request, f filter.Filter) bool {
	return AnyPart(f, func(f filter.Filter) bool {
		if IsChain(f) {
			return true
		}
		for t := range filter.Tests(resolveFilter(req, f)) {
			for _, typ := range t.Types {
				of, _ := membership.Is(req, typ)
				if of || typ == req.Known.HasSubordinates || typ == req.Known.NumSubordinates || typ == req.Known.NumAllSubordinates {
					return true
				}
			}
		}
		return false
	})
}

// PrepareUnstored turns a client's filter into a filter for entries that are not stored.
func PrepareUnstored(req *request.Request, f filter.Filter) filter.Resolved {
	return resolveFilter(req, f)
}

// PrepareItems turns the items of a values return filter into tests. It drops Undefined
// items, because an Undefined item matches no value.
func PrepareItems(req *request.Request, items []filter.Filter) []*filter.Test {
	tests := []*filter.Test{}
	item := filter.ResolveItem
	if req.Judge.Secrets(acl.Show) { // only values that the requester is shown are tested
		item = filter.ResolveSecretItem
	}
	for _, f := range items {
		if t := item(f, req.Schema); t != nil {
			tests = append(tests, t)
		}
	}
	return tests
}

// resolveFilter resolves a client's filter by the schema.
func resolveFilter(req *request.Request, f filter.Filter) filter.Resolved {
	switch {
	case req.IsPast() || !req.Judge.Secrets(acl.Search):
	case req.Judge.Unrestricted(): // the administrator tests how accounts are used, but no passwords
		return filter.ResolveSome(f, req.Schema, req.Known.Account.Uses)
	default:
		return filter.ResolveSecrets(f, req.Schema)
	}
	return filter.Resolve(f, req.Schema)
}

// lookUp replaces the tests that it can answer only by looking up other entries or names. An
// equality test of entryDN, which is not a stored attribute, becomes a test of the entryUUID of
// the entry with that name. A member-in-chain test becomes the filter that chainTest returns, and
// a presence test of accessRule what ruledTest returns. All other tests stay unchanged.
func lookUp(ctx context.Context, req *request.Request, f filter.Filter) (filter.Filter, error) {
	if !needsLookUp(f) {
		return f, nil
	}
	switch f := f.(type) {
	case *filter.Equal:
		return nameTest(ctx, req, f)
	case *filter.Extensible:
		return chainTest(ctx, req, f)
	case *filter.Present:
		return ruledTest(req, f), nil
	case *filter.Not:
		part, err := lookUp(ctx, req, f.Filter)
		return &filter.Not{Filter: part}, err
	case filter.And:
		parts, err := lookUpAll(ctx, req, f)
		return filter.And(parts), err
	case filter.Or:
		parts, err := lookUpAll(ctx, req, f)
		return filter.Or(parts), err
	}
	return f, nil
}

func lookUpAll(ctx context.Context, req *request.Request, parts []filter.Filter) ([]filter.Filter, error) {
	changed := make([]filter.Filter, len(parts))
	for i, f := range parts {
		g, err := lookUp(ctx, req, f)
		if err != nil {
			return nil, err
		}
		changed[i] = g
	}
	return changed, nil
}

// needsLookUp reports whether f contains a test that lookUp replaces.
func needsLookUp(f filter.Filter) bool { return AnyPart(f, isLookedUp) }

func isLookedUp(f filter.Filter) bool {
	if p, ok := f.(*filter.Present); ok {
		return strings.EqualFold(p.Attribute, "accessRule")
	}
	e, ok := f.(*filter.Equal)
	return ok && (strings.EqualFold(e.Attribute, "entryDN") || e.Attribute == "1.3.6.1.1.20") || IsChain(f)
}

// AnyPart reports whether is(t) is true for at least one test t in f.
func AnyPart(f filter.Filter, is func(filter.Filter) bool) bool {
	switch f := f.(type) {
	case *filter.Not:
		return AnyPart(f.Filter, is)
	case filter.And:
		return slices.ContainsFunc(f, func(part filter.Filter) bool { return AnyPart(part, is) })
	case filter.Or:
		return slices.ContainsFunc(f, func(part filter.Filter) bool { return AnyPart(part, is) })
	}
	return is(f)
}

func nameTest(ctx context.Context, req *request.Request, f *filter.Equal) (filter.Filter, error) {
	name, err := dn.Parse(string(f.Value))
	if err != nil {
		return f, nil // filter.Resolve makes this test Undefined
	}
	at, err := req.Judge.Find(ctx, name)
	if request.IsMissing(err) {
		return filter.Or{}, nil
	}
	if err != nil {
		return nil, err
	}
	return filter.EqualTo("entryUUID", at.ID.String()), nil
}

// ruledTest returns the filter of the entries that have access rules, which are stored elsewhere. Only who manages the
// whole directory may find them.
func ruledTest(req *request.Request, f *filter.Present) filter.Filter {
	if req.IsPast() || !req.Judge.Everywhere().Manages() {
		return f
	}
	places := filter.Or{}
	for _, r := range req.Snapshot.Catalog.Access.Rules {
		if id := r.Place.String(); r.Place != entry.Root && !slices.ContainsFunc(places, func(o filter.Filter) bool { return string(o.(*filter.Equal).Value) == id }) {
			places = append(places, filter.EqualTo("entryUUID", id))
		}
	}
	return places
}
