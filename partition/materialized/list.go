package materialized

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// The table of a list has a row for each entry of the view, in the order of the view. The
// rows contain no attributes: a reader reads the attributes of a record, and the attributes
// of joined entries, from the entries.

// A Join makes a list also show attributes of other entries: those whose names are values of
// the attribute Reference.
type Join struct {
	Reference *schema.AttributeType // its values are names
	Types     []*schema.AttributeType
}

// A Listed identifies one entry of a list.
type Listed struct {
	ID entry.ID
	// Key sorts the entries of the list: by the order of the view, and then by id.
	Key string
}

// ListOptions select entries of a list.
type ListOptions struct {
	After string // if not empty, the list begins behind this key
	// Filter, if not nil, is a filter for the records. The list may omit entries whose records
	// the filter cannot match, but the caller must test the records of the entries in the list.
	Filter filter.Resolved
	Most   int // the largest number of entries that may be examined if the list is not kept; 0: no limit
}

func (d *Definition) readOrder(k *catalog.Types, texts []string) error {
	var names []string
	for _, text := range texts {
		names = append(names, strings.Fields(text)...)
	}
	if n := len(names); n < 1 || n > MaxOrders {
		return fmt.Errorf("viewOrder: it has %d attributes, but 1 to %d are needed", n, MaxOrders)
	}
	for _, name := range names {
		t, err := storedType(k, name)
		if err == nil && slices.Contains(d.Shown, t) {
			err = fmt.Errorf("%s is there twice", t.Name())
		}
		if err != nil {
			return fmt.Errorf("viewOrder: %v", err)
		}
		rule := k.Schema.OrderingOf(t)
		if rule == nil {
			return fmt.Errorf("viewOrder: %s has no ordering rule", t.Name())
		}
		d.order = append(d.order, search.SortKey{Type: t, Rule: rule})
		d.Shown, d.needs = append(d.Shown, t), append(d.needs, t)
	}
	return nil
}

func (d *Definition) readShown(k *catalog.Types, texts []string) error {
	more, err := shownTypes(k, strings.Fields(strings.Join(texts, " ")))
	if err != nil {
		return fmt.Errorf("viewShow: %v", err)
	}
	for _, t := range more {
		if !slices.Contains(d.Shown, t) {
			d.Shown = append(d.Shown, t)
		}
	}
	if len(d.Shown) > MaxShown {
		return fmt.Errorf("viewShow: the records have %d attributes, but %d is the most", len(d.Shown), MaxShown)
	}
	return nil
}

// shownTypes returns the types with the given names. It returns an error if a list cannot
// show one of these types.
func shownTypes(k *catalog.Types, names []string) (ts []*schema.AttributeType, err error) {
	for _, name := range names {
		t, err := storedType(k, name)
		if err == nil && t == k.ObjectClass {
			err = fmt.Errorf("%s is that of the record", t.Name())
		}
		if err != nil {
			return nil, err
		}
		ts = append(ts, t)
	}
	return ts, nil
}

func (d *Definition) readJoins(k *catalog.Types, texts []string) error {
	if len(texts) > MaxJoins {
		return fmt.Errorf("viewJoin: it has %d values, but %d is the most", len(texts), MaxJoins)
	}
	for _, text := range texts {
		words := strings.Fields(text)
		if len(words) < 2 {
			return fmt.Errorf("viewJoin %q: it must be an attribute that names entries, and attributes of those", text)
		}
		reference, err := storedType(k, words[0])
		if err == nil && reference.Syntax.OID != catalog.NameSyntax {
			err = fmt.Errorf("%s has no names as values", reference.Name())
		}
		if err != nil {
			return fmt.Errorf("viewJoin %q: %v", text, err)
		}
		types, err := shownTypes(k, words[1:])
		if err == nil && len(types) > MaxShown {
			err = fmt.Errorf("it has %d attributes, but %d is the most", len(types), MaxShown)
		}
		if err != nil {
			return fmt.Errorf("viewJoin %q: %v", text, err)
		}
		d.Joins = append(d.Joins, Join{reference, types})
	}
	return nil
}

// Only lists the types that Compose needs of an entry.
func (d *Definition) Only() []*schema.AttributeType {
	only := slices.Concat(d.needs, d.Shown)
	for _, j := range d.Joins {
		only = append(only, j.Reference)
	}
	return only
}

// giveListed adds to ps the parts that an entry contributes to the rows of the list,
// multiplied by sign.
func (d *Definition) giveListed(e *entry.Entry, sign int64, ps parts) {
	one := &part{n: 1}
	ps.add(string(listedRow)+d.keyOfEntry(e), one, sign)
	if d.hasSeveral(e) {
		ps.add(string(severalRow), one, sign)
	}
}

func (d *Definition) keyOfEntry(e *entry.Entry) string {
	var b []byte
	for i := range d.order {
		b = d.order[i].Append(b, e)
	}
	return string(append(b, e.ID[:]...))
}

// hasSeveral reports whether an entry has several values of the first type of the order. The
// place of the entry in the order depends on the least of these values, but a filter may match
// another of the values.
func (d *Definition) hasSeveral(e *entry.Entry) bool {
	n := 0
	for i := range e.Attributes {
		if e.Attributes[i].Type.Is(d.order[0].Type) {
			n += len(e.Attributes[i].Values)
		}
	}
	return n > 1
}

// In reports whether an entry belongs to a view.
func (d *Definition) In(ctx context.Context, s *state.Snapshot, id entry.ID) (bool, error) {
	base, err := d.baseIn(ctx, s)
	if err != nil {
		return false, err
	}
	ps := parts{}
	err = d.giveBelow(ctx, s, base, id, 1, ps)
	return len(ps) > 0, err
}

// Each streams the entries of a list in a state, in the order of the list. Apart from those that
// o excludes, these are exactly the entries that the definition selects in the state: see
// [Read].
func Each(ctx context.Context, s *state.Snapshot, d *Definition, o ListOptions) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		l := &lister{d: d, s: s, o: o}
		for !l.ended {
			page, err := l.page(ctx)
			if err != nil {
				yield(Listed{}, err)
				return
			}
			for _, x := range page {
				l.o.After = x.Key
				if !yield(x, nil) {
					return
				}
			}
		}
	}
}

// A lister reads a list page by page. If the list's table is dropped in the meantime, the
// lister computes the rest of the list.
type lister struct {
	d     *Definition
	s     *state.Snapshot
	o     ListOptions
	from  *reading // nil: nothing was read yet
	table string   // name of the table that is read; empty: none was read yet
	ended bool
}

// listPage is the number of rows that are read at once.
const listPage = 256

func (l *lister) page(ctx context.Context) ([]Listed, error) {
	if l.from == nil || l.table != "" {
		page, err := l.kept(ctx)
		if !errors.Is(err, errNotKept) {
			return page, err
		}
		ps, err := l.d.compute(ctx, l.s, l.o.Most)
		if err != nil {
			return nil, err
		}
		l.table, l.from = "", &reading{ctx: ctx, d: l.d, tail: ps, sorted: sortedKeys(ps)}
	}
	return l.listed(l.from.listed(l.o))
}

// The method "kept" reads a page from the view's table.
func (l *lister) kept(ctx context.Context) (page []Listed, err error) {
	ls := l.d.lanes(l.s.Partition.DB)
	err = l.d.whileKept(ctx, l.s, ls, func(name string) error {
		if l.from == nil {
			if l.from, err = l.d.open(ctx, l.s, name, ls); err != nil {
				return err
			}
			l.table = name
		}
		if l.table != name {
			return errNotKept
		}
		page, err = l.listed(l.from.listed(l.o))
		return err
	})
	return page, err
}

func (l *lister) listed(page []Listed, more bool, err error) ([]Listed, error) {
	l.ended = !more
	return page, err
}

// The method "listed" returns the next entries of a list, and whether there may be more.
func (r *reading) listed(o ListOptions) (page []Listed, more bool, err error) {
	in, err := r.rangeOf(o)
	if err != nil {
		return nil, false, err
	}
	end := string(in.End)
	sums := parts{}
	n, last := 0, ""
	sel := table.Select{View: r.f, Families: []table.Family{family}, MaxRows: listPage}
	if r.t != nil {
		for row, err := range r.t.Scan(r.ctx, in, sel) {
			if err != nil {
				return nil, false, err
			}
			p, err := sumOf(row)
			if err != nil {
				return nil, false, err
			}
			last = string(row.Key)
			sums.add(last, p, 1)
			n++
		}
	}
	if n == listPage {
		more, end = true, last+"\x00"
	}
	i, _ := slices.BinarySearch(r.sorted, string(in.Start))
	for _, key := range r.sorted[i:] {
		if key >= end {
			break
		}
		if r.t == nil && len(sums) == listPage {
			more = true
			break
		}
		sums.add(key, r.tail[key], 1)
	}
	for _, key := range sortedKeys(sums) {
		if len(key) <= len(entry.ID{}) || sums[key].n < 0 {
			return nil, false, fmt.Errorf("view %s: row %x: %w", r.d.Name, key, table.ErrCorrupt)
		}
		page = append(page, Listed{entry.ID([]byte(key[len(key)-len(entry.ID{}):])), key[1:]})
	}
	if more && len(page) == 0 { // newer commits have removed all entries of this page
		o.After = last[1:]
		return r.listed(o)
	}
	return page, more, nil
}

// rangeOf returns the range that contains all rows that o selects.
func (r *reading) rangeOf(o ListOptions) (table.Range, error) {
	in := table.Prefix([]byte{listedRow})
	if span, ok := r.d.spanOf(o.Filter); ok {
		ps, err := r.parts(string(severalRow))
		if err != nil {
			return in, err
		}
		several := !ps[0].isZero()
		if several {
			span.From, span.Prefix = nil, nil // a value other than the least may match
		}
		if !several || span.To != nil {
			rows := span.Rows()
			in = table.Range{Start: append([]byte{listedRow}, rows.Start...), End: append([]byte{listedRow}, rows.End...)}
		}
	}
	if o.After != "" {
		in = index.Continue(in, append([]byte{listedRow}, o.After...))
	}
	return in, nil
}

// spanOf returns a span of values of the first type in the order. Each record that the filter
// matches has a value in the span. spanOf returns false if the filter does not bound the
// values of this type.
func (d *Definition) spanOf(f filter.Resolved) (index.Span, bool) {
	switch f := f.(type) {
	case *filter.AndNode:
		for _, p := range f.Parts {
			if span, ok := d.spanOf(p); ok {
				return span, true
			}
		}
	case *filter.Test:
		t := d.order[0].Type
		if f.DNAttrs || f.Rule == nil || f.Rule.Form != d.order[0].Rule.Form || slices.ContainsFunc(f.Types, func(x *schema.AttributeType) bool { return !x.Is(t) }) {
			return index.Span{}, false
		}
		switch f.Op {
		case filter.TestEqual:
			return index.Span{From: f.Key, To: f.Key}, true
		case filter.TestGreaterOrEqual:
			return index.Span{From: f.Key}, true
		case filter.TestLessOrEqual:
			return index.Span{To: f.Key}, true
		case filter.TestSubstrings:
			return index.Span{Prefix: f.Initial}, len(f.Initial) > 0
		}
	}
	return index.Span{}, false
}

// maxFollowed bounds the number of values of a reference that a join follows.
const maxFollowed = 100

// An Allow filters attributes of an entry: it returns the attributes and values that the
// reader of a list may use.
type Allow func(ctx context.Context, at state.Located, e *entry.Entry, attributes []entry.Attribute) ([]entry.Attribute, error)

// Compose returns the attributes of an entry's record. An attribute that comes from a joined
// entry has an option with the name of the reference. Compose passes all attributes through the
// function allow. If a joined entry has very many values, the function sees only values of the
// types that the record shows and of the types in looksAt.
func (d *Definition) Compose(ctx context.Context, s *state.Snapshot, at state.Located, e *entry.Entry, looksAt []*schema.AttributeType, allow Allow) ([]entry.Attribute, error) {
	as, err := allow(ctx, at, e, ofTypes(e, d.Shown))
	if err != nil {
		return nil, err
	}
	for _, j := range d.Joins {
		references, err := allow(ctx, at, e, ofTypes(e, []*schema.AttributeType{j.Reference}))
		if err != nil {
			return nil, err
		}
		followed := 0
		for i := range references {
			for _, name := range references[i].Values {
				if followed++; followed > maxFollowed {
					break
				}
				if as, err = j.follow(ctx, s, string(name), looksAt, allow, as); err != nil {
					return nil, err
				}
			}
		}
	}
	return as, nil
}

// ofTypes returns the attributes of an entry with the given types, or subtypes of them.
func ofTypes(e *entry.Entry, types []*schema.AttributeType) (as []entry.Attribute) {
	for _, a := range e.Attributes {
		if slices.ContainsFunc(types, a.Type.Is) {
			as = append(as, a)
		}
	}
	return as
}

// follow appends the attributes that the join shows of the entry with the given name, if
// that entry exists.
func (j *Join) follow(ctx context.Context, s *state.Snapshot, name string, looksAt []*schema.AttributeType, allow Allow, as []entry.Attribute) ([]entry.Attribute, error) {
	parsed, err := dn.Parse(name)
	if err != nil {
		return as, nil
	}
	pl, err := s.Locate(ctx, parsed)
	if err != nil || !pl.Found {
		return as, err
	}
	e, err := s.Some(ctx, pl.ID, slices.Concat(j.Types, looksAt))
	if err != nil || e == nil {
		return as, err
	}
	at := state.Located{ID: pl.ID}
	if at.Name, err = s.Name(ctx, pl.ID); err != nil {
		return nil, err
	}
	more, err := allow(ctx, at, e, ofTypes(e, j.Types))
	if err != nil {
		return nil, err
	}
	for _, a := range more {
		a.Options = entry.SortOptions(a.Options + ";of-" + strings.ToLower(j.Reference.Name()))
		as = appendValues(as, a)
	}
	return as, nil
}

// appendValues adds an attribute to the list as, and omits values that the list already
// contains.
func appendValues(as []entry.Attribute, a entry.Attribute) []entry.Attribute {
	i := slices.IndexFunc(as, func(x entry.Attribute) bool { return x.Type == a.Type && x.Options == a.Options })
	if i < 0 {
		return append(as, a)
	}
	values := slices.Clip(as[i].Values)
	for _, v := range a.Values {
		if !slices.ContainsFunc(values, func(x []byte) bool { return bytes.Equal(x, v) }) {
			values = append(values, v)
		}
	}
	as[i].Values = values
	return as
}
