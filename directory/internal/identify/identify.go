// Package identify finds the identity for a name or an authorization identity, and checks
// whether the identity's account may be used.
package identify

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/internal/filterprep"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/settings"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// AuthzID returns the identity for an authorization identity (RFC 4513, 5.2.1.8): "" and "dn:"
// are anonymous, "dn:NAME" is the administrator or an entry, and "u:..." is the identity to
// which the identity rules map the text. AuthzID returns ErrNobody if the text leads to no
// identity or to several identities. Any other error means that the search for the identity
// failed.
func AuthzID(ctx context.Context, req *request.Request, authzID string) (*settings.Identity, error) {
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
			return nil, ErrNobody
		}
		return Reach(ctx, req, auth.Target{Name: name})
	case "u":
		if target, ok := auth.Find(req.Server.Settings().Identities, "u:"+rest); ok {
			return Reach(ctx, req, target)
		}
	}
	return nil, ErrNobody
}

// Reach returns the identity that the target of an identity rule describes.
func Reach(ctx context.Context, req *request.Request, t auth.Target) (*settings.Identity, error) {
	if t.Search {
		return single(ctx, req, t)
	}
	if req.Server.IsAdmin(t.Name) {
		if t.Bare {
			return nil, ErrNobody
		}
		return &settings.Identity{Name: dn.NewName(req.Server.Settings().Admin), Admin: true}, nil
	}
	at, err := req.Snapshot.Find(ctx, t.Name)
	switch {
	case err == nil:
		return &settings.Identity{Name: at.Name, ID: at.ID}, nil
	case !isNobodys(err):
		return nil, err
	case !t.Bare:
		return nil, ErrNobody
	}
	return &settings.Identity{Name: dn.NameOf(t.Name)}, nil
}

// single returns the identity of the only entry that a search finds.
func single(ctx context.Context, req *request.Request, t auth.Target) (*settings.Identity, error) {
	base := entry.Root // all naming contexts
	if len(t.Name) > 0 {
		at, err := req.Snapshot.Find(ctx, t.Name)
		if isNobodys(err) {
			return nil, ErrNobody
		}
		if err != nil {
			return nil, err
		}
		base = at.ID
	}
	f, err := filterprep.Prepare(ctx, req, t.Filter, nil)
	if err != nil {
		return nil, err
	}
	var who *settings.Identity
	for r, err := range search.Search(ctx, req.Snapshot, partition.Query{Base: base, Scope: t.Scope, Filter: f}) {
		if err != nil {
			return nil, err
		}
		if who != nil {
			req.Server.Log.Warn("a name leads to more than one entry, so to none", "filter", t.Filter.String(), "one", who.Name, "other", r.Name)
			return nil, ErrNobody
		}
		who = &settings.Identity{Name: r.Name, ID: r.ID}
	}
	if who == nil {
		return nil, ErrNobody
	}
	return who, nil
}

// EntryNamed returns the identity of the entry with a name. The administrator has no
// entry, so the administrator's name leads to nobody.
func EntryNamed(ctx context.Context, req *request.Request, text string) (*settings.Identity, error) {
	name, err := dn.Parse(text)
	if err != nil || req.Server.IsAdmin(name) {
		return nil, ErrNobody
	}
	return Reach(ctx, req, auth.Target{Name: name})
}

// isNobodys reports whether an error means that no entry has a name, or that the name cannot
// be compared by the schema.
func isNobodys(err error) bool {
	var problem *partition.Error
	return errors.As(err, &problem)
}

// ErrNobody refuses an authorization identity that is malformed, unknown or ambiguous.
var ErrNobody = op.Errorf(op.InvalidCredentials, "the authorization identity is not known")

// Enabled returns the given refusal if the given identity's account may not be used.
func Enabled(ctx context.Context, req *request.Request, who *settings.Identity, refusal error) error {
	s, _, err := StateOf(ctx, req, who)
	if err != nil || who == nil || who.Admin {
		return err
	}
	found, err := req.Server.Policies.Of(ctx, req.Snapshot, req.Known, partition.Located{ID: who.ID, Name: who.Name})
	if err == nil && !found.Policy.Usable(&s, time.Now()) {
		return refusal
	}
	return err
}
