package directory

import (
	"context"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// resolve turns a client's filter into one that can run. Package filter makes
// assertions about secret attributes Undefined, whoever asks.
func (o *operation) resolve(ctx context.Context, s *partition.Snapshot, f filter.Filter) (filter.Resolved, error) {
	f, err := o.lookUp(ctx, s, f)
	if err != nil {
		return nil, err
	}
	return filter.Resolve(f, o.schema), nil
}

// lookUp replaces the tests that other entries than the one tested have a say in:
// (entryDN=X), which no stored attribute could answer, by a test of the entryUUID
// of X, and member in chain by tests of all names in the chain. A filter without
// any comes back as it is.
func (o *operation) lookUp(ctx context.Context, s *partition.Snapshot, f filter.Filter) (filter.Filter, error) {
	if !needsLookUp(f) {
		return f, nil
	}
	switch f := f.(type) {
	case *filter.Equal:
		return o.nameTest(ctx, s, f)
	case *filter.Extensible:
		return o.chainTest(ctx, s, f)
	case *filter.Not:
		part, err := o.lookUp(ctx, s, f.Filter)
		return &filter.Not{Filter: part}, err
	case filter.And:
		parts, err := o.lookUpAll(ctx, s, f)
		return filter.And(parts), err
	case filter.Or:
		parts, err := o.lookUpAll(ctx, s, f)
		return filter.Or(parts), err
	}
	return f, nil
}

func (o *operation) lookUpAll(ctx context.Context, s *partition.Snapshot, parts []filter.Filter) ([]filter.Filter, error) {
	changed := make([]filter.Filter, len(parts))
	for i, f := range parts {
		g, err := o.lookUp(ctx, s, f)
		if err != nil {
			return nil, err
		}
		changed[i] = g
	}
	return changed, nil
}

// needsLookUp reports whether such a test is in f.
func needsLookUp(f filter.Filter) bool { return anyPart(f, isLookedUp) }

func isLookedUp(f filter.Filter) bool {
	e, ok := f.(*filter.Equal)
	return ok && (strings.EqualFold(e.Attribute, "entryDN") || e.Attribute == "1.3.6.1.1.20") || isChain(f)
}

// anyPart reports whether one of the tests that f is made of is such.
func anyPart(f filter.Filter, is func(filter.Filter) bool) bool {
	switch f := f.(type) {
	case *filter.Not:
		return anyPart(f.Filter, is)
	case filter.And:
		return slices.ContainsFunc(f, func(part filter.Filter) bool { return anyPart(part, is) })
	case filter.Or:
		return slices.ContainsFunc(f, func(part filter.Filter) bool { return anyPart(part, is) })
	}
	return is(f)
}

func (o *operation) nameTest(ctx context.Context, s *partition.Snapshot, f *filter.Equal) (filter.Filter, error) {
	name, err := dn.Parse(string(f.Value))
	if err != nil {
		return f, nil // Undefined, as Resolve finds
	}
	at, err := s.Find(ctx, name)
	if isMissing(err) {
		return filter.Or{}, nil
	}
	if err != nil {
		return nil, err
	}
	return &filter.Equal{Attribute: "entryUUID", Value: []byte(at.ID.String())}, nil
}
