package erase

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// journal removes the target from the records of commits: from the messages, from the keys of
// the rows that the commits wrote, and from the hashes of the values that they touched.
func (e *erasure) journal(ctx context.Context, dry bool) (int, error) {
	lists, err := e.lostRows(ctx)
	if err != nil {
		return 0, err
	}
	var failed error
	n, err := e.r.Journal(ctx, dry, func(rec *journal.Record) bool {
		changed := false
		note, ok, err := e.redactNote(ctx, rec.Message)
		if failed = errors.Join(failed, err); ok {
			rec.Message, changed = note, true
		}
		for i := range rec.Rows {
			t := &rec.Rows[i]
			n := len(t.Keys)
			t.Keys = slices.DeleteFunc(t.Keys, func(key []byte) bool { return lists.has(t.Table, key) })
			changed = changed || len(t.Keys) < n
		}
		n := len(rec.Keys)
		rec.Keys = slices.DeleteFunc(rec.Keys, func(k uint64) bool { return lists.hashes[k] })
		return changed || len(rec.Keys) < n
	})
	return n, errors.Join(err, failed)
}

// lostRows contains the keys of rows that are removed, and prefixes of such keys, by
// table. It also contains the hashes of the removed values.
type lostRows struct {
	rows, prefixes map[string]map[string]bool
	hashes         map[uint64]bool
}

func (e *erasure) lostRows(ctx context.Context) (*lostRows, error) {
	l := &lostRows{map[string]map[string]bool{}, map[string]map[string]bool{}, map[uint64]bool{}}
	_, l.rows[tree.Name] = e.treeRows()
	l.rows[write.UniqueTable] = map[string]bool{}
	for _, x := range e.now.Catalog.Ordered {
		for _, row := range e.uniqueRows(x) {
			l.rows[write.UniqueTable][string(row)] = true
		}
		for _, key := range e.lostKeys(x) {
			l.hashes[catalog.PostingHash(x.Typ, key)] = true
		}
		own := rowSet{}
		if err := e.ownIndex(ctx, own, x); err != nil {
			return nil, err
		}
		l.rows[x.Table().Name()] = map[string]bool{}
		for key, r := range own {
			l.rows[x.Table().Name()][key] = r.All
		}
		l.prefixes[x.Table().Name()] = e.everywhere(x)
	}
	return l, nil
}

func (l *lostRows) has(table string, key []byte) bool {
	if l.rows[table][string(key)] {
		return true
	}
	if len(l.prefixes[table]) == 0 {
		return false
	}
	_, _, rest, err := index.CutKey(key)
	return err == nil && l.prefixes[table][string(key[:len(key)-len(rest)])]
}

// redactNote removes the target from a message. It reports whether the message changed.
func (e *erasure) redactNote(ctx context.Context, message []byte) ([]byte, bool, error) {
	n, t := write.ParseMessage(message), e.target
	sealed := len(n.Sealed)
	maps.DeleteFunc(n.Sealed, func(id entry.ID, _ string) bool { return e.gone[id] })
	changed, err := n.Sealed.Redact(ctx, e.now.Catalog, e.p, t.inValue)
	if err != nil {
		return nil, false, err
	}
	changed = changed || len(n.Sealed) < sealed
	set := func(s *string, to string) {
		if *s != to {
			*s, changed = to, true
		}
	}
	if t.norms != nil && (t.inName(n.By.Name) || t.inName(n.By.Bound)) {
		// The address from which a user works identifies the user.
		set(&n.By.From, "")
		set(&n.By.Session, "")
	}
	set(&n.By.Name, t.without(n.By.Name))
	set(&n.By.Bound, t.without(n.By.Bound))
	for _, s := range []*string{&n.By.From, &n.By.Session} {
		if t.inText(*s) {
			set(s, erasedText)
		}
	}
	for i := range n.Operations {
		set(&n.Operations[i].Name, t.without(n.Operations[i].Name))
	}
	return n.Append(nil), changed, nil
}
