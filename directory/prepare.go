package directory

import (
	"context"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
)

// prepareFilter turns a client's filter into one that can run on the state that the
// request reads. Package filter makes assertions about secret attributes Undefined,
// whoever asks. Entries have what is shared too, if it is given.
func prepareFilter(ctx context.Context, o *operation, f filter.Filter, shared *collectives) (filter.Resolved, error) {
	f, err := o.lookUp(ctx, f)
	if err != nil {
		return nil, err
	}
	return shared.rewrite(ctx, resolveFilter(o, f)), nil
}

// prepareUnstored turns a client's filter into one for entries that no store has.
func prepareUnstored(o *operation, f filter.Filter) filter.Resolved { return resolveFilter(o, f) }

// prepareItems turns the items of a values return filter into tests. One that is
// Undefined matches no value.
func prepareItems(o *operation, items []filter.Filter) []*filter.Test {
	tests := []*filter.Test{}
	for _, f := range items {
		if t, ok := resolveFilter(o, f).(*filter.Test); ok {
			tests = append(tests, t)
		}
	}
	return tests
}

// resolveFilter looks up what a filter names. All filters of clients come by here.
func resolveFilter(o *operation, f filter.Filter) filter.Resolved { return filter.Resolve(f, o.schema) }

// lookUp replaces the tests that other entries than the one tested have a say in:
// (entryDN=X), which no stored attribute could answer, by a test of the entryUUID
// of X, and member in chain by tests of all names in the chain. A filter without
// any comes back as it is.
func (o *operation) lookUp(ctx context.Context, f filter.Filter) (filter.Filter, error) {
	if !needsLookUp(f) {
		return f, nil
	}
	switch f := f.(type) {
	case *filter.Equal:
		return o.nameTest(ctx, f)
	case *filter.Extensible:
		return o.chainTest(ctx, f)
	case *filter.Not:
		part, err := o.lookUp(ctx, f.Filter)
		return &filter.Not{Filter: part}, err
	case filter.And:
		parts, err := o.lookUpAll(ctx, f)
		return filter.And(parts), err
	case filter.Or:
		parts, err := o.lookUpAll(ctx, f)
		return filter.Or(parts), err
	}
	return f, nil
}

func (o *operation) lookUpAll(ctx context.Context, parts []filter.Filter) ([]filter.Filter, error) {
	changed := make([]filter.Filter, len(parts))
	for i, f := range parts {
		g, err := o.lookUp(ctx, f)
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

func (o *operation) nameTest(ctx context.Context, f *filter.Equal) (filter.Filter, error) {
	name, err := dn.Parse(string(f.Value))
	if err != nil {
		return f, nil // Undefined, as Resolve finds
	}
	at, err := o.s.Find(ctx, name)
	if isMissing(err) {
		return filter.Or{}, nil
	}
	if err != nil {
		return nil, err
	}
	return &filter.Equal{Attribute: "entryUUID", Value: []byte(at.ID.String())}, nil
}
