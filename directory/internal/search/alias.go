package search

import (
	"context"
	"errors"
	"slices"

	"github.com/seed-4dac0d86/ldapd/directory/internal/locate"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// Aliases while searching (RFC 4511, 4.5.1.3).

// maxBases bounds how many places the aliases of one search may lead to.
const maxBases = 1000

// isAlias reports whether what was found is to be followed. The base is not:
// only what is subordinate to it. One is an entry like others to a requester who may
// not learn where it leads.
func (st *Stream) isAlias(ctx context.Context, found *partition.Result) (bool, error) {
	if !st.aliases || found.ID == st.base || !st.Req.Known.Is(found.Entry, st.Req.Known.Alias) {
		return false, nil
	}
	return st.Req.Judge.Leads(ctx, found, st.Req.Known.AliasedObjectName)
}

// isReferral reports whether others go on from what was found, as isAlias does.
func (st *Stream) isReferral(ctx context.Context, found *partition.Result) (bool, error) {
	if !st.Referrals || !st.Req.Known.Is(found.Entry, st.Req.Known.Referral) {
		return false, nil
	}
	return st.Req.Judge.Leads(ctx, found, st.Req.Known.Ref)
}

// takeAlias notes where an alias leads; away says that it is to another server.
// One that leads nowhere is left out.
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

// aliasedElsewhere returns the URLs of what an alias names below a referral; nil if
// it names nothing there.
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

// aliased finds what an alias leads to, with only these classes in the way.
func (st *Stream) aliased(ctx context.Context, found *partition.Result, classes ...*schema.ObjectClass) (partition.Located, error) {
	target, err := locate.AliasTarget(st.Req, found.Entry)
	if err != nil {
		return partition.Located{}, err
	}
	return locate.Follow(ctx, st.Req, target, st.continuation(), classes)
}
