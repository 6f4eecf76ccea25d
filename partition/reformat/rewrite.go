package reformat

import (
	"fmt"
	"strings"
	"sync"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// A rewriter computes the new form of what a store contains. A row or a column contains only the beginning and a hash of a long key,
// from which the new key cannot be computed. So the table master must be copied first: the rewriter takes the
// keys from the values that it sees there.
type rewriter struct {
	from, to *schema.Schema
	oids     *schema.MatchingRule // computes keys of OIDs in the new form

	mu   sync.RWMutex
	long map[[hashSize]byte]string // new keys of long names and of certificates, by the hash of the old key
}

const hashSize = 16

func newRewriter(from *schema.Schema, codes int) *rewriter {
	to := from.WithCodes(codes)
	return &rewriter{from: from, to: to, oids: to.Attribute("objectClass").Equality, long: map[[hashSize]byte]string{}}
}

// A form is the table.Rewriter of one table.
type form struct {
	*rewriter
	name string
	span table.RevisionSpan // of the records of the journal, whose cells have no revisions
}

// Row implements table.Rewriter.
func (f form) Row(key []byte) ([]byte, error) {
	if f.name == journal.Table {
		if r, ok := journal.RevisionOf(key); ok && !f.span.Has(r) {
			return nil, nil
		}
	}
	return f.row(f.name, key)
}

// Cell implements table.Rewriter.
func (f form) Cell(c *table.Cell) (keep bool, err error) {
	switch {
	case c.Family == table.MarkFamily && f.name != journal.Table && f.name != journal.Cluster:
		return false, nil // marks are for transactions, and there are none
	case f.name == master.Name:
		return f.masterCell(c)
	case f.name == tree.Name && c.Family == tree.NormAttributes:
		return f.column(c)
	case f.name == journal.Table:
		err = journal.RewriteCell(c, f.row)
	case f.name == catalog.HeaderTable || f.name == catalog.SettingsTable:
		err = catalog.ToCodes(c, f.to.Codes())
	}
	return true, err
}

// row returns the new key of a row of a table.
func (w *rewriter) row(name string, key []byte) ([]byte, error) {
	if name == tree.Name {
		return w.treeRow(key)
	}
	if attribute, is := strings.CutPrefix(name, index.TablePrefix); is {
		return w.indexRow(attribute, key)
	}
	return key, nil
}

// attribute returns the new form of a type. It returns nil if the schema does not define the type: then its
// form stays as it is.
func (w *rewriter) attribute(text string) *schema.AttributeType {
	if t := w.from.StoredAs(text); t != nil {
		return w.to.Attribute(t.OID)
	}
	return nil
}

func (w *rewriter) treeRow(key []byte) ([]byte, error) {
	parent, rdn, hash := tree.CutKey(key)
	if hash != nil {
		whole, ok := w.whole(hash)
		if !ok {
			return nil, nil
		}
		return tree.Key(parent, dn.Norm(whole)), nil
	}
	norm, err := w.node(rdn)
	return tree.Key(parent, norm), err
}

func (w *rewriter) indexRow(attribute string, row []byte) ([]byte, error) {
	t := w.attribute(attribute)
	switch {
	case t == nil || t.Equality == nil || len(row) == 0:
		return row, nil
	case row[0] != index.ValueRow:
		if !index.HasPresence(t) {
			return nil, nil
		}
		return row, nil
	}
	key, cut, rest, err := index.CutKey(row)
	if err != nil || !w.changes(t) {
		return row, err
	}
	if cut {
		var ok bool
		if key, ok = w.whole(index.CutHash(row, rest)); !ok {
			return nil, nil
		}
	} else if key, err = w.key(t, key); err != nil || key == nil {
		return nil, err
	}
	return append(index.AppendKey(nil, key), rest...), nil
}

func (w *rewriter) masterCell(c *table.Cell) (keep bool, err error) {
	switch c.Family {
	case master.TreeInfo:
		return true, w.nodeCell(c)
	case master.NormAttributes:
		return w.column(c)
	}
	t, options, ok := master.Describe(c.Qualifier, w.from)
	if !ok {
		return false, fmt.Errorf("column %q of an entry: %w", c.Qualifier, table.ErrCorrupt)
	}
	if t == nil {
		return true, nil
	}
	n := w.to.Attribute(t.OID)
	c.Qualifier = master.Qualifier(n, options, master.PositionOf(c.Qualifier))
	if c.Tombstone || !w.changes(n) {
		return true, nil
	}
	old, err := t.Equality.Key(c.Value)
	if err != nil {
		return true, nil // a value without a key has none in the other tables either
	}
	if len(old) > index.MaxKey || !translates(n) {
		key, err := n.Equality.Key(c.Value)
		if err != nil {
			return false, err
		}
		w.remember(old, key)
	}
	return true, nil
}

func (w *rewriter) nodeCell(c *table.Cell) error {
	var n master.Node
	if c.Tombstone {
		return nil
	}
	n.Take(c)
	switch {
	case n.Order != (entry.Order{}):
		c.Value = []byte(n.Order.In(w.from, w.to).String())
	case n.NormRDN != "":
		norm, err := w.node(n.NormRDN)
		if err != nil {
			return err
		}
		if len(n.NormRDN) > index.MaxKey {
			w.remember([]byte(n.NormRDN), []byte(norm))
		}
		c.Value = []byte(norm)
	}
	return nil
}

// column rewrites a column of keys.
func (w *rewriter) column(c *table.Cell) (keep bool, err error) {
	col := tree.Decode(c)
	if col.Kind == 0 {
		return false, fmt.Errorf("column %q of keys: %w", c.Qualifier, table.ErrCorrupt)
	}
	t := w.attribute(string(col.Type))
	switch {
	case t == nil:
		return true, nil
	case t.Keyless():
		return false, nil
	}
	key := col.Key
	if w.changes(t) {
		switch {
		case col.Kind == tree.Cut:
			if key, keep = w.whole(col.CutHash()); !keep {
				return false, nil
			}
			c.Qualifier = tree.Qualifier(t, col.Options, key)
			return true, nil
		case col.Kind == tree.Whole || col.Kind == tree.Single && !c.Tombstone:
			if key, err = w.key(t, key); err != nil || key == nil {
				return false, err
			}
		}
	}
	c.Qualifier = tree.Plain(t, col.Options, col.Kind)
	switch {
	case col.Kind == tree.Whole || col.Kind == tree.Cut:
		c.Qualifier = append(c.Qualifier, key...)
	case col.Kind == tree.Single && !c.Tombstone:
		c.Value = key
	}
	return true, nil
}

// changes reports whether keys of a type may have another form in the copy.
func (w *rewriter) changes(t *schema.AttributeType) bool {
	return t.Equality != nil && (translates(t) || strings.HasPrefix(t.Equality.Form.Name, "certificate"))
}

// translates reports whether the new key of a value can be computed from the old one.
func translates(t *schema.AttributeType) bool {
	switch t.Equality.Form.Name {
	case "distinguishedName", "nameAndOptionalUID", "objectIdentifier", "objectIdentifierFirstComponent":
		return true
	}
	return false
}

// key returns the new form of a key that was not cut, or nil if the key belongs to no value of any entry.
func (w *rewriter) key(t *schema.AttributeType, key []byte) ([]byte, error) {
	switch t.Equality.Form.Name {
	case "distinguishedName":
		return w.name(key)
	case "nameAndOptionalUID":
		name := schema.NameOfUID(key)
		to, err := w.name(name)
		return append(key[:len(key)-len(name):len(key)-len(name)], to...), err
	case "objectIdentifier", "objectIdentifierFirstComponent":
		if len(key) > 0 && '0' <= key[0] && key[0] <= '2' {
			return w.oids.Key(key)
		}
		return key, nil
	}
	to, _ := w.whole(tree.Hash(key))
	return to, nil
}

// name returns the new key of a name.
func (w *rewriter) name(key []byte) ([]byte, error) {
	ns, err := dn.SplitKey(key)
	for i := range ns {
		if err == nil {
			ns[i], err = w.norm(ns[i])
		}
	}
	return dn.Key(ns), err
}

// node returns the new form of the RDN of an entry. The RDN of a naming context is the key of its whole name. The
// first octet of a key is a length. If it looks like the beginning of an OID, then the rest of an RDN does
// not begin with an OID, so it has no known type.
func (w *rewriter) node(rdn dn.Norm) (dn.Norm, error) {
	ns, err := dn.SplitKey([]byte(rdn))
	for _, n := range ns {
		for _, a := range n.AVAs() {
			if w.attribute(a.Type) == nil {
				return w.norm(rdn)
			}
		}
	}
	if err != nil || len(ns) == 0 {
		return w.norm(rdn)
	}
	name, err := w.name([]byte(rdn))
	return dn.Norm(name), err
}

// norm returns the new form of a normalised RDN.
func (w *rewriter) norm(n dn.Norm) (dn.Norm, error) {
	avas := n.AVAs()
	if avas == nil {
		return "", fmt.Errorf("RDN %q: %w", n, table.ErrCorrupt)
	}
	for i := range avas {
		t := w.attribute(avas[i].Type)
		if t == nil {
			continue
		}
		avas[i].Type = t.InKeys()
		if w.changes(t) {
			key, err := w.key(t, []byte(avas[i].Key))
			if err != nil {
				return "", err
			}
			avas[i].Key = string(key)
		}
	}
	return dn.JoinAVAs(avas), nil
}

// remember notes the new form of a key.
func (w *rewriter) remember(old, key []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.long[[hashSize]byte(tree.Hash(old))] = string(key)
}

// whole returns the new form of the key with a hash.
func (w *rewriter) whole(hash []byte) ([]byte, bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	key, ok := w.long[[hashSize]byte(hash)]
	return []byte(key), ok
}
