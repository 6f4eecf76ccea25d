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
	f, err := o.nameTests(ctx, s, f)
	if err != nil {
		return nil, err
	}
	return filter.Resolve(f, o.schema), nil
}

// nameTests turns (entryDN=X), which no stored attribute could answer, into a
// test of the entryUUID of X. A filter without any comes back as it is.
func (o *operation) nameTests(ctx context.Context, s *partition.Snapshot, f filter.Filter) (filter.Filter, error) {
	if !namesEntries(f) {
		return f, nil
	}
	switch f := f.(type) {
	case *filter.Equal:
		return o.nameTest(ctx, s, f)
	case *filter.Not:
		part, err := o.nameTests(ctx, s, f.Filter)
		return &filter.Not{Filter: part}, err
	case filter.And:
		parts, err := o.nameTestsOf(ctx, s, f)
		return filter.And(parts), err
	case filter.Or:
		parts, err := o.nameTestsOf(ctx, s, f)
		return filter.Or(parts), err
	}
	return f, nil
}

func (o *operation) nameTestsOf(ctx context.Context, s *partition.Snapshot, parts []filter.Filter) ([]filter.Filter, error) {
	changed := make([]filter.Filter, len(parts))
	for i, f := range parts {
		g, err := o.nameTests(ctx, s, f)
		if err != nil {
			return nil, err
		}
		changed[i] = g
	}
	return changed, nil
}

// namesEntries reports whether an equality test of entryDN is in f.
func namesEntries(f filter.Filter) bool {
	switch f := f.(type) {
	case *filter.Equal:
		return strings.EqualFold(f.Attribute, "entryDN") || f.Attribute == "1.3.6.1.1.20"
	case *filter.Not:
		return namesEntries(f.Filter)
	case filter.And:
		return slices.ContainsFunc(f, namesEntries)
	case filter.Or:
		return slices.ContainsFunc(f, namesEntries)
	}
	return false
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
