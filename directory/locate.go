package directory

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// maxAliases bounds the aliases followed to find one name.
const maxAliases = 16

// locate finds the entry that an operation is about. A referral above it, or in
// its place, ends the operation unless ManageDsaIT is given.
func (o *operation) locate(ctx context.Context, name dn.DN) (partition.Located, error) {
	if err := o.checkReferral(ctx, name, ""); err != nil {
		return partition.Located{}, err
	}
	return o.s.Find(ctx, name)
}

// recall finds a name that was asked for before, unless a referral may stand in
// the way.
func (o *operation) recall(ctx context.Context, name string) (partition.Located, bool) {
	if !o.controls.manageDsaIT {
		if has, err := o.s.HasClass(ctx, o.known.referral); err != nil || has {
			return partition.Located{}, false
		}
	}
	return o.s.Recall(name)
}

// checkReferral fails with a referral if one stands above the name or in its
// place (RFC 3296, 4), or if the name is outside all naming contexts. Scope is what a search adds to the URLs.
func (o *operation) checkReferral(ctx context.Context, name dn.DN, scope string) error {
	if err := o.checkOutside(name, scope); err != nil {
		return err
	}
	if o.controls.manageDsaIT {
		return nil
	}
	if has, err := o.s.HasClass(ctx, o.known.referral); err != nil || !has {
		return err
	}
	h, err := o.firstHurdle(ctx, name, o.known.referral)
	if h == nil {
		return err
	}
	return o.referral(h, scope)
}

func (o *operation) referral(h *hurdle, scope string) error {
	return &op.Result{
		Code:       op.Referral,
		MatchedDN:  h.at.Name,
		Diagnostic: "held by another server",
		Referrals:  referralURLs(h.entry.Values(o.known.ref), h.at.Name, h.rest, scope),
	}
}

// locateBase finds the base of a search, following aliases on the way if asked
// to (RFC 4511, 4.5.1.3).
func locateBase(ctx context.Context, o *operation, r *op.Search, name dn.DN) (partition.Located, error) {
	if err := o.checkOutside(name, scopeName(r.Scope)); err != nil {
		return partition.Located{}, err
	}
	var classes []*schema.ObjectClass
	if r.Deref == op.DerefFindingBase || r.Deref == op.DerefAlways {
		if has, err := o.s.HasClass(ctx, o.known.alias); err != nil {
			return partition.Located{}, err
		} else if has {
			classes = append(classes, o.known.alias)
		}
	}
	if !o.controls.manageDsaIT {
		if has, err := o.s.HasClass(ctx, o.known.referral); err != nil {
			return partition.Located{}, err
		} else if has {
			classes = append(classes, o.known.referral)
		}
	}
	if classes == nil {
		return o.s.Find(ctx, name)
	}
	return follow(ctx, o, name, scopeName(r.Scope), classes)
}

// follow finds a name that may lead over aliases and referrals.
func follow(ctx context.Context, o *operation, name dn.DN, scope string, classes []*schema.ObjectClass) (partition.Located, error) {
	var last *hurdle   // the last alias on the way
	below := len(name) // RDNs of the name that was given, below all aliases
	for range maxAliases {
		h, err := o.firstHurdle(ctx, name, classes...)
		if err != nil {
			return partition.Located{}, err
		}
		if h == nil {
			return arrive(ctx, o.s, name, below, last)
		}
		if o.known.is(h.entry, o.known.referral) {
			return partition.Located{}, o.referral(h, scope)
		}
		target, err := aliasTarget(o, h.entry)
		if err != nil {
			return partition.Located{}, err
		}
		last, below = h, min(below, len(h.rest))
		name = append(h.rest[:len(h.rest):len(h.rest)], target...)
	}
	return partition.Located{}, op.Errorf(op.LoopDetect, "more than %d aliases to follow: they lead in a circle", maxAliases)
}

// arrive finds a name in whose way nothing stands any more. If there is no entry
// where the last alias leads, that is the alias's problem, and otherwise the
// name's (RFC 4511, A.2).
func arrive(ctx context.Context, s *partition.Snapshot, name dn.DN, below int, last *hurdle) (partition.Located, error) {
	at, err := s.Find(ctx, name)
	if last == nil || !isMissing(err) {
		return at, err
	}
	if _, err := s.Find(ctx, name[below:]); isMissing(err) {
		return at, &op.Result{Code: op.AliasProblem, MatchedDN: last.at.Name, Diagnostic: "the alias leads to an entry that does not exist"}
	}
	return at, err
}

func aliasTarget(o *operation, alias *entry.Entry) (dn.DN, error) {
	values := alias.Values(o.known.aliasedObjectName)
	if len(values) == 0 {
		return nil, op.Errorf(op.AliasDereferencingProblem, "an alias without aliasedObjectName")
	}
	target, err := dn.Parse(string(values[0]))
	if err != nil {
		return nil, op.Errorf(op.AliasDereferencingProblem, "an alias to a malformed name")
	}
	return target, nil
}

// A hurdle is an entry on the way down to a name at which it does not simply go
// on: a referral or an alias. Rest are the RDNs of the name below it.
type hurdle struct {
	at    partition.Located
	entry *entry.Entry
	rest  dn.DN
}

// firstHurdle walks from the top down to a name, the named entry included, and gives
// the first entry of one of the classes; nil if there is none.
func (o *operation) firstHurdle(ctx context.Context, name dn.DN, classes ...*schema.ObjectClass) (*hurdle, error) {
	found := false
	for i := len(name) - 1; i >= 0; i-- {
		at, err := o.s.Find(ctx, name[i:])
		switch {
		case isMissing(err) && !found:
			continue // above the naming context
		case isMissing(err):
			return nil, nil
		case err != nil:
			return nil, err
		}
		found = true
		e, err := o.s.Entry(ctx, at.ID, false)
		if err != nil {
			return nil, err
		}
		for _, c := range classes {
			if o.known.is(e, c) {
				return &hurdle{at, e, name[:i:i]}, nil
			}
		}
	}
	return nil, nil
}
