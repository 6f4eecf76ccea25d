package search

import (
	"context"
	"errors"
	"slices"

	"github.com/seed-4dac0d86/ldapd/directory/internal/locate"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// The functions in this file follow the aliases that a search finds (RFC 4511, 4.5.1.3).

// maxBases is the largest number of different targets that the aliases of one search may
// have.
const maxBases = 1000

// isAlias reports whether a found entry is an alias to follow. A search follows the
// aliases below the base, but not an alias at the base. If the requester may not learn
// the target of an alias, the alias is an ordinary entry.
func (st *Stream) isAlias(ctx context.Context, found *partition.Result) (bool, error) {
	if !st.aliases || found.ID == st.base || !st.Req.Known.Is(found.Entry, st.Req.Known.Alias) {
		return false, nil
	}
	return st.Req.Judge.Case(found.Name, found.Entry).MayFollow(ctx, st.Req.Known.AliasedObjectName)
}

// isReferral reports whether a found entry is a referral to send. If the requester may
// not learn the target of a referral, the referral is an ordinary entry.
func (st *Stream) isReferral(ctx context.Context, found *partition.Result) (bool, error) {
	if !st.Referrals || !st.Req.Known.Is(found.Entry, st.Req.Known.Referral) {
		return false, nil
	}
	return st.Req.Judge.Case(found.Name, found.Entry).MayFollow(ctx, st.Req.Known.Ref)
}

// takeAlias records the target of an alias as another base of the search. If the target is
// on another server, takeAlias records nothing and returns true. It ignores an alias whose
// target does not exist.
func (st *Stream) takeAlias(ctx context.Context, found *partition.Result) (away bool, err error) {
	at, err := st.aliased(ctx, found, st.Req.Known.Alias)
	var result *op.Result
	switch {
	case errors.As(err, &result) && result.Code == op.LoopDetect:
		return false, err
	case errors.As(err, &result), request.IsMissing(err):
		urls, err := st.aliasedElsewhere(ctx, found)
		return urls != nil, err
	case err != nil:
		return false, err
	case slices.Contains(st.bases, at.ID):
		return false, nil
	case len(st.bases) == maxBases:
		return false, op.Errorf(op.AdminLimitExceeded, "aliases lead to more than %d places", maxBases)
	}
	st.bases = append(st.bases, at.ID)
	return false, nil
}

// aliasedElsewhere returns the URLs for an alias whose target is below a referral. It
// returns nil for any other alias.
func (st *Stream) aliasedElsewhere(ctx context.Context, found *partition.Result) ([]string, error) {
	if !st.Referrals {
		return nil, nil
	}
	_, err := st.aliased(ctx, found, st.Req.Known.Alias, st.Req.Known.Referral)
	var result *op.Result
	switch {
	case errors.As(err, &result):
		return result.Referrals, nil
	case request.IsMissing(err):
		return nil, nil
	}
	return nil, err
}

// aliased finds the target of an alias. The parameter classes states which entries on the
// way to the target count as redirects: aliases, or aliases and referrals.
func (st *Stream) aliased(ctx context.Context, found *partition.Result, classes ...*schema.ObjectClass) (partition.Located, error) {
	target, err := locate.AliasTarget(st.Req, found.Entry)
	if err != nil {
		return partition.Located{}, err
	}
	return locate.Follow(ctx, st.Req, target, st.continuation(), classes)
}
