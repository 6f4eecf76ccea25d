package directory

import (
	"context"
	"errors"
	"strings"

	"github.com/seed-4dac0d86/ldapd/auth"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// identify returns who an authorization identity names (RFC 4513, 5.2.1.8): ""
// the anonymous, "dn:..." the administrator or an entry, "u:..." whom the rules
// lead to. The error is of the store; it is errNobody for a name that nobody has,
// or more than one.
func (o *operation) identify(ctx context.Context, authzID string) (*identity, error) {
	if authzID == "" {
		return nil, nil
	}
	kind, rest, _ := strings.Cut(authzID, ":")
	switch strings.ToLower(kind) {
	case "dn":
		if rest == "" {
			return nil, nil
		}
		name, err := dn.Parse(rest)
		if err != nil {
			return nil, errNobody
		}
		return o.reach(ctx, auth.Target{Name: name})
	case "u":
		if target, ok := auth.Find(o.server.settings().Identities, "u:"+rest); ok {
			return o.reach(ctx, target)
		}
	}
	return nil, errNobody
}

// reach returns who stands where a rule leads.
func (o *operation) reach(ctx context.Context, t auth.Target) (*identity, error) {
	if t.Search {
		return o.single(ctx, t)
	}
	if o.server.isAdmin(t.Name) {
		if t.Bare {
			return nil, errNobody
		}
		return &identity{name: o.server.settings().Admin, admin: true}, nil
	}
	at, err := o.s.Find(ctx, t.Name)
	switch {
	case isNobodys(err) && t.Bare:
		return &identity{name: t.Name.String()}, nil
	case isNobodys(err):
		return nil, errNobody
	case err != nil:
		return nil, err
	}
	return &identity{name: at.Name, id: at.ID}, nil
}

// single finds the one entry that a search finds.
func (o *operation) single(ctx context.Context, t auth.Target) (*identity, error) {
	base := entry.Root // all naming contexts
	if len(t.Name) > 0 {
		at, err := o.s.Find(ctx, t.Name)
		if isNobodys(err) {
			return nil, errNobody
		}
		if err != nil {
			return nil, err
		}
		base = at.ID
	}
	f, err := prepareFilter(ctx, o, t.Filter, nil)
	if err != nil {
		return nil, err
	}
	var who *identity
	for r, err := range o.s.Search(ctx, partition.Query{Base: base, Scope: t.Scope, Filter: f}) {
		if err != nil {
			return nil, err
		}
		if who != nil {
			o.server.log.Warn("a name leads to more than one entry, so to none", "filter", t.Filter.String(), "one", who.name, "other", r.Name)
			return nil, errNobody
		}
		who = &identity{name: r.Name, id: r.ID}
	}
	if who == nil {
		return nil, errNobody
	}
	return who, nil
}

// entryNamed returns who has an entry of a name: not the administrator, who has
// none.
func (o *operation) entryNamed(ctx context.Context, text string) (*identity, error) {
	name, err := dn.Parse(text)
	if err != nil || o.server.isAdmin(name) {
		return nil, errNobody
	}
	return o.reach(ctx, auth.Target{Name: name})
}

// isNobodys reports whether a name leads to no entry, or is none that the schema
// can compare.
func isNobodys(err error) bool {
	var problem *partition.Error
	return errors.As(err, &problem)
}

// errNobody: an authorization identity that is malformed or that nobody has.
var errNobody = op.Errorf(op.InvalidCredentials, "the authorization identity is not known")

// enabled returns an error if an account is disabled.
func (o *operation) enabled(ctx context.Context, who *identity, refusal error) error {
	a, err := o.accountOf(ctx, who)
	if err == nil && a.disabled {
		return refusal
	}
	return err
}
