package directory

import (
	"context"
	"strconv"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// appendComputed adds the attributes that no entry stores: by name or "+".
func (o *operation) appendComputed(ctx context.Context, s *partition.Snapshot, as []entry.Attribute, found *partition.Result) ([]entry.Attribute, error) {
	sel := &o.selector
	if !sel.operational && len(sel.named) == 0 {
		return as, nil
	}
	for _, t := range o.known.computed {
		// Counting reads every child: only for who asks for it.
		if !sel.asks(t) && (!sel.operational || t == o.known.numSubordinates) {
			continue
		}
		values, err := o.computed(ctx, s, t, found.Located)
		if err != nil {
			return nil, err
		}
		if len(values) > 0 {
			as = append(as, entry.Attribute{Type: t, Values: values})
		}
	}
	return o.appendContextCSN(ctx, s, as, found)
}

// appendContextCSN adds how far the directory's commits have come: a CSN a
// writer, on the entries of naming contexts.
func (o *operation) appendContextCSN(ctx context.Context, s *partition.Snapshot, as []entry.Attribute, found *partition.Result) ([]entry.Attribute, error) {
	t := o.known.contextCSN
	if found.Parent != entry.Root || t == nil || !o.selector.operational && !o.selector.asks(t) {
		return as, nil
	}
	front, err := s.Front(ctx)
	if err != nil || len(front) == 0 {
		return as, err
	}
	return append(as, entry.Attribute{Type: t, Values: csns(front)}), nil
}

// computed returns the values of a computed attribute.
func (o *operation) computed(ctx context.Context, s *partition.Snapshot, t *schema.AttributeType, at partition.Located) ([][]byte, error) {
	known := o.known
	switch t {
	case known.entryDN:
		return [][]byte{[]byte(at.Name)}, nil
	case known.subschemaSubentry:
		return [][]byte{[]byte(partition.SubschemaName)}, nil
	case known.hasSubordinates:
		has, err := s.HasChildren(ctx, at.ID)
		return [][]byte{boolean(has)}, err
	case known.governingStructureRule:
		rule, err := s.GoverningRule(ctx, at.ID)
		if rule == nil {
			return nil, err
		}
		return [][]byte{strconv.AppendInt(nil, int64(rule.ID), 10)}, err
	}
	n, err := s.CountChildren(ctx, at.ID)
	return [][]byte{strconv.AppendInt(nil, int64(n), 10)}, err
}

func boolean(b bool) []byte {
	if b {
		return []byte("TRUE")
	}
	return []byte("FALSE")
}
