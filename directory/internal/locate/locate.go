// Package locate finds the entry that an operation names. It follows aliases and stops at
// referrals.
package locate

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// maxAliases is the largest number of aliases that are followed to find one name.
const maxAliases = 16

// Entry finds the entry that an operation names. It returns an error if CheckReferral does.
func Entry(ctx context.Context, req *request.Request, name dn.DN) (partition.Located, error) {
	if err := CheckReferral(ctx, req, name, ""); err != nil {
		return partition.Located{}, err
	}
	return req.Judge.Find(ctx, name)
}

// Recall finds an entry by a name that the state remembers from an earlier request. If the
// state has any referrals and ManageDsaIT is not set, Recall returns false, because a
// referral may be above the name.
func Recall(ctx context.Context, req *request.Request, name string) (partition.Located, bool) {
	if !req.Controls.ManageDsaIT {
		if has, err := search.HasClass(ctx, req.Snapshot, req.Known.Referral); err != nil || has {
			return partition.Located{}, false
		}
	}
	return req.Snapshot.Recall(ctx, name)
}

// CheckReferral returns a referral if ManageDsaIT is not set and a referral entry is at or
// above the name (RFC 3296, 4). With or without ManageDsaIT, it returns the configured
// referral if the name is outside all naming contexts. The parameter scope is the scope that
// the URLs contain for a search, and otherwise "".
func CheckReferral(ctx context.Context, req *request.Request, name dn.DN, scope string) error {
	if err := checkOutside(req, name, scope); err != nil {
		return err
	}
	if req.Controls.ManageDsaIT {
		return nil
	}
	if has, err := search.HasClass(ctx, req.Snapshot, req.Known.Referral); err != nil || !has {
		return err
	}
	h, err := firstRedirect(ctx, req, name, req.Known.Referral)
	if h == nil {
		return err
	}
	return referral(req, h, scope)
}

func referral(req *request.Request, h *redirect, scope string) error {
	return &op.Result{
		Code:       op.Referral,
		MatchedDN:  h.at.Name.String(),
		Diagnostic: "the entry is held by another server",
		Referrals:  ReferralURLs(h.entry.Values(req.Known.Ref), h.at.Name.String(), h.rest, scope),
	}
}

// Base finds the base of a search. It follows aliases on the way to the base if the
// search requests this (RFC 4511, 4.5.1.3).
//
// For a requester who reads everything, Base recalls names that were used before: most searches
// begin at the same few entries.
func Base(ctx context.Context, req *request.Request, r *op.Search) (partition.Located, error) {
	classes, err := redirects(ctx, req, r)
	if err != nil {
		return partition.Located{}, err
	}
	// A search that waits for changes is served from the tree also where another search is not.
	plain := classes == nil && req.Judge.ReadsAll() && !req.Controls.Waits()
	if plain {
		if at, ok := state.RecallBase(ctx, req.Snapshot, r.Scope, r.Base); ok {
			return at, nil
		}
	}
	name, err := dn.Parse(r.Base)
	if err != nil {
		return partition.Located{}, op.Errorf(op.InvalidDNSyntax, "base: %v", err)
	}
	if err := checkOutside(req, name, scopeName(r.Scope)); err != nil {
		return partition.Located{}, err
	}
	if classes != nil {
		return Follow(ctx, req, name, scopeName(r.Scope), classes)
	}
	at, err := req.Judge.Find(ctx, name)
	if err == nil && plain {
		state.RememberBase(req.Snapshot, r.Scope, r.Base, at)
	}
	return at, err
}

// redirects returns the classes of entries that send a search from its base to another place, as
// far as the directory has such entries.
func redirects(ctx context.Context, req *request.Request, r *op.Search) (classes []*schema.ObjectClass, err error) {
	if r.Deref == op.DerefFindingBase || r.Deref == op.DerefAlways {
		if has, err := search.HasClass(ctx, req.Snapshot, req.Known.Alias); err != nil {
			return nil, err
		} else if has {
			classes = append(classes, req.Known.Alias)
		}
	}
	if !req.Controls.ManageDsaIT {
		if has, err := search.HasClass(ctx, req.Snapshot, req.Known.Referral); err != nil {
			return nil, err
		} else if has {
			classes = append(classes, req.Known.Referral)
		}
	}
	return classes, nil
}

// Follow finds the entry with a name. The parameter classes contains the class of aliases, of
// referrals, or both. On the way down to the entry, Follow follows aliases and stops at
// referrals, if classes contains their class.
func Follow(ctx context.Context, req *request.Request, name dn.DN, scope string, classes []*schema.ObjectClass) (partition.Located, error) {
	var last *redirect // the last alias on the way
	below := len(name) // number of RDNs of the requested name that are below every alias so far
	for range maxAliases {
		h, err := firstRedirect(ctx, req, name, classes...)
		if err != nil {
			return partition.Located{}, err
		}
		if h == nil {
			return arrive(ctx, req, name, below, last)
		}
		if req.Known.Is(h.entry, req.Known.Referral) {
			return partition.Located{}, referral(req, h, scope)
		}
		target, err := AliasTarget(req, h.entry)
		if err != nil {
			return partition.Located{}, err
		}
		last, below = h, min(below, len(h.rest))
		name = append(h.rest[:len(h.rest):len(h.rest)], target...)
	}
	return partition.Located{}, op.Errorf(op.LoopDetect, "more than %d aliases to follow: they form a loop", maxAliases)
}

// arrive finds the entry with a name after all aliases in the name were replaced by their
// targets. If the target of the last alias does not exist, the error is aliasProblem. If the
// target exists, but has no such entry below it, the error is noSuchObject (RFC 4511, A.2).
func arrive(ctx context.Context, req *request.Request, name dn.DN, below int, last *redirect) (partition.Located, error) {
	at, err := req.Judge.Find(ctx, name)
	if last == nil || !request.IsMissing(err) {
		return at, err
	}
	if _, err := req.Judge.Find(ctx, name[below:]); request.IsMissing(err) {
		return at, &op.Result{Code: op.AliasProblem, MatchedDN: last.at.Name.String(), Diagnostic: "the alias leads to an entry that does not exist"}
	}
	return at, err
}

// AliasTarget returns the name that an alias leads to.
func AliasTarget(req *request.Request, alias *entry.Entry) (dn.DN, error) {
	values := alias.Values(req.Known.AliasedObjectName)
	if len(values) == 0 {
		return nil, op.Errorf(op.AliasDereferencingProblem, "an alias has no aliasedObjectName")
	}
	target, err := dn.Parse(string(values[0]))
	if err != nil {
		return nil, op.Errorf(op.AliasDereferencingProblem, "an alias points to a malformed name")
	}
	return target, nil
}

// A redirect is a referral or an alias at or above a name. The field rest contains the RDNs
// of the name that are below the redirect.
type redirect struct {
	at    partition.Located
	entry *entry.Entry
	rest  dn.DN
}

// firstRedirect looks at the entries above a name, from the top down, and then at the entry
// with the name. It returns the first entry that is of one of the classes and whose target
// the requester may learn, or nil if there is none.
func firstRedirect(ctx context.Context, req *request.Request, name dn.DN, classes ...*schema.ObjectClass) (*redirect, error) {
	found := false
	for i := len(name) - 1; i >= 0; i-- {
		at, err := req.Snapshot.Find(ctx, name[i:])
		switch {
		case request.IsMissing(err) && !found:
			continue // above the naming context
		case request.IsMissing(err):
			return nil, nil
		case err != nil:
			return nil, err
		}
		found = true
		e, err := req.Snapshot.Some(ctx, at.ID, []*schema.AttributeType{req.Known.ObjectClass, req.Known.AliasedObjectName, req.Known.Ref})
		if err != nil {
			return nil, err
		}
		for _, c := range classes {
			if !req.Known.Is(e, c) {
				continue
			}
			leads, err := leadsOn(ctx, req, at, c)
			if err != nil {
				return nil, err
			}
			if leads {
				return &redirect{at, e, name[:i:i]}, nil
			}
		}
	}
	return nil, nil
}

// leadsOn reports whether the requester may learn where an alias or a referral leads.
func leadsOn(ctx context.Context, req *request.Request, at partition.Located, c *schema.ObjectClass) (bool, error) {
	if c == req.Known.Alias {
		return req.Judge.MayFollowAt(ctx, at, req.Known.AliasedObjectName)
	}
	return req.Judge.MayFollowAt(ctx, at, req.Known.Ref)
}
