package write

import (
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/partition/cache"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// The method "before" returns the cached item of an entry that a modification is about to
// write. It returns nil if nobody wants the entry after the modification, if the transaction
// is in a branch, or if the cache does not contain the entry. On a store of one server, the cache
// wants it: the next to use the entry would have to read it.
func (tx *Tx) before(id entry.ID) *cache.Item {
	if tx.Partition.DB.Shared() && !tx.Partition.Recent.Wanted() || tx.At.InBranch() {
		return nil
	}
	if i := tx.Current(id); i != nil && !i.Wide() && i.Omits() == nil {
		return i
	}
	return nil
}

// modified is an entry before and after a modification. The values of the entry after it are final
// when the transaction commits (see finalCSN).
type modified struct {
	before *cache.Item
	after  *entry.Entry
	alone  bool // set when the transaction commits: nothing else has changed the entry since before
}

// remember records the modification for cache.Recent. Finish must have been called.
func (m *modification) remember() {
	if m.before == nil {
		return
	}
	if e := m.after(m.before.Packed.Entry(m.pl.ID)); e != nil {
		m.tx.modified = append(m.tx.modified, modified{before: m.before, after: e})
	}
}

// The method "after" returns the entry after the modification, except that the order of its
// attributes may differ from the stored order. It returns nil if the entry cannot be computed
// from the entry before the modification.
func (m *modification) after(before *entry.Entry) *entry.Entry {
	e := &entry.Entry{ID: before.ID, Attributes: slices.Clone(before.Attributes)}
	for _, t := range m.types {
		if t.typ.Secret() {
			continue // the entry before contains no secrets
		}
		for _, v := range t.lists {
			values, ok := v.after(e)
			if !ok {
				return nil
			}
			setValues(e, t.typ, v.before.Options, values)
		}
	}
	for _, s := range m.stamped {
		setValues(e, s.typ, "", [][]byte{s.value})
	}
	return e
}

// The method "after" returns the values of the description after the modification. The entry e
// contains the values before the modification. The result is false if not all values are known.
func (v *editedValues) after(e *entry.Entry) (values [][]byte, ok bool) {
	t, options := v.before.Typ, v.before.Options
	if !v.whole {
		if v.before.Many || len(v.removed) > 0 && t.Equality == nil {
			return nil, false
		}
		var before [][]byte
		if a := e.Find(t, options); a != nil {
			before = a.Values
		}
		for _, old := range before {
			if len(v.removed) > 0 {
				key, err := t.Equality.Key(old)
				if err != nil {
					return nil, false
				}
				q := tree.Qualifier(t, options, key)
				if v.removes(key, q) {
					continue
				}
			}
			values = append(values, old)
		}
	}
	for _, n := range v.now {
		if n.old == nil {
			values = append(values, n.value)
		}
	}
	return values, len(values) == len(v.now)
}

// setValues replaces the values of a type with exactly the given options.
func setValues(e *entry.Entry, t *schema.AttributeType, options string, values [][]byte) {
	a := e.Find(t, options)
	switch {
	case len(values) == 0:
		e.Attributes = slices.DeleteFunc(e.Attributes, func(a entry.Attribute) bool { return a.Type == t && a.Options == options })
	case a == nil:
		e.Attributes = append(e.Attributes, entry.Attribute{Type: t, Options: options, Values: values})
	default:
		a.Values = values
	}
}

// publish adds the modifications of the transaction to cache.Recent when the transaction
// commits, and to the cache of entries when the commit is shown. It omits an entry that the transaction
// changed in another way too, or that another commit changed after the cached item was read.
func (tx *Tx) publish() {
	if len(tx.modified) == 0 {
		return
	}
	once := tx.Txn.TouchedOnce()
	tx.Txn.AtCommit(func(r table.Revision) {
		var ms []*cache.Modification
		for i := range tx.modified {
			m := &tx.modified[i]
			id := m.after.ID
			m.alone = once[id] && !tx.Txn.ChangedAfter(id, m.before.AsOf)
			if m.alone && tx.Partition.Recent.Wanted() {
				ms = append(ms, &cache.Modification{Revision: r, Schema: tx.Catalog.Schema, ID: id, Before: m.before, After: itemAfter(tx, m, 0)})
			}
		}
		if ms != nil {
			tx.Partition.Recent.Add(ms)
		}
	})
	tx.Txn.WhenShown(func(ordinal uint64) {
		for i := range tx.modified {
			if m := &tx.modified[i]; m.alone && !isWide(m.after) {
				tx.Catalog.Cache.Keep(m.after.ID, itemAfter(tx, m, ordinal))
			}
		}
	})
}

// itemAfter returns the item of an entry after a modification, as if it had been read from the store.
func itemAfter(tx *Tx, m *modified, asOf uint64) *cache.Item {
	as := m.after.Attributes
	slices.SortStableFunc(as, func(a, b entry.Attribute) int { return strings.Compare(a.Options, b.Options) }) // as in the row
	m.before.Node.Order.Arrange(as)
	return tx.Catalog.Cache.NewItem(asOf, m.before.Node, as, nil)
}

// isWide reports whether an entry counts as wide when it is read.
func isWide(e *entry.Entry) bool {
	n := 0
	for i := range e.Attributes {
		n += len(e.Attributes[i].Values)
	}
	return n > state.MaxColumns/2 // near the limit, reading it tells
}
