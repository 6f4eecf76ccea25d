package directory

import (
	"context"
	"strconv"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/revision"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// appendComputed adds the attributes that no entry stores: by name or "+".
func (v *view) appendComputed(ctx context.Context, as []entry.Attribute, found *partition.Result) ([]entry.Attribute, error) {
	sel, o := &v.selector, v.o
	if !sel.operational && len(sel.named) == 0 {
		return as, nil
	}
	for _, t := range o.known.computed {
		// Counting reads every child: only for who asks for it.
		if !sel.asks(t) && (!sel.operational || t == o.known.numSubordinates) {
			continue
		}
		values, err := o.computed(ctx, t, found.Located)
		if err != nil {
			return nil, err
		}
		if len(values) > 0 {
			as = append(as, entry.Attribute{Type: t, Values: values})
		}
	}
	return v.appendContextCSN(ctx, as, found)
}

// appendContextCSN adds how far the directory's commits have come: a CSN a
// writer, on the entries of naming contexts.
func (v *view) appendContextCSN(ctx context.Context, as []entry.Attribute, found *partition.Result) ([]entry.Attribute, error) {
	o := v.o
	t := o.known.contextCSN
	if found.Parent != entry.Root || t == nil || !v.selector.operational && !v.selector.asks(t) {
		return as, nil
	}
	front, err := o.s.Front(ctx)
	if err != nil || len(front) == 0 {
		return as, err
	}
	return append(as, entry.Attribute{Type: t, Values: csns(front)}), nil
}

// csns are the change sequence numbers of a front, as contextCSN has them.
func csns(f revision.Front) (values [][]byte) {
	for _, r := range f {
		values = append(values, revision.AppendCSN(nil, r))
	}
	return values
}

// computed returns the values of a computed attribute.
func (o *operation) computed(ctx context.Context, t *schema.AttributeType, at partition.Located) ([][]byte, error) {
	known := o.known
	switch t {
	case known.entryDN:
		return [][]byte{[]byte(at.Name)}, nil
	case known.subschemaSubentry:
		return [][]byte{[]byte(partition.SubschemaName)}, nil
	case known.hasSubordinates:
		has, err := o.s.HasChildren(ctx, at.ID)
		return [][]byte{boolean(has)}, err
	case known.governingStructureRule:
		rule, err := o.s.GoverningRule(ctx, at.ID)
		if rule == nil {
			return nil, err
		}
		return [][]byte{strconv.AppendInt(nil, int64(rule.ID), 10)}, err
	}
	n, err := o.s.CountChildren(ctx, at.ID)
	return [][]byte{strconv.AppendInt(nil, int64(n), 10)}, err
}

func boolean(b bool) []byte {
	if b {
		return []byte("TRUE")
	}
	return []byte("FALSE")
}
