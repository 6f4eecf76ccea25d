package search

import (
	"cmp"
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/cache"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A Referrer is an entry that names another entry in a value.
type Referrer struct {
	ID   entry.ID
	Of   int                   // index of the named entry in the names that the caller passed
	Type *schema.AttributeType // a type that the caller passed; the value may be of a subtype
	Name *dn.Name              // the name of the entry with the ID
}

// Referrers returns the entries that have one of the names as a value of one of the types,
// sorted by ID. If an entry has several of the names as values, or one name under several
// types, the result contains a Referrer for each combination of name and type.
//
// Referrers looks up the names in the indexes of the types. If there are types without an
// index, Referrers makes one search of all entries for these types. If most is not 0, that
// search examines at most this many entries. The cost of the search is added to the argument
// cost.
//
// The argument known, which may be nil, remembers names from one call to the next. With known, the
// result is valid until the next call.
func Referrers(ctx context.Context, s *state.Snapshot, names []*dn.Name, types []*schema.AttributeType, most int, cost *Cost, known *Names) ([]Referrer, error) {
	r := referrers{s: s, names: names, known: known.of(s)}
	if known != nil {
		r.ahead, r.found = known.ahead, known.found[:0]
		defer func() { known.found = r.found }()
	}
	var scanned []*schema.AttributeType
	for _, t := range types {
		if !r.addIndexed(t) {
			scanned = append(scanned, t)
		}
	}
	if err := r.lookUp(ctx); err != nil {
		return nil, err
	}
	if len(scanned) > 0 {
		if err := r.scan(ctx, scanned, most, cost); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(r.found, func(a, b Referrer) int { return cmp.Or(a.ID.Compare(b.ID), a.Of-b.Of) })
	return r.found, nil
}

// Ahead reads together what calls of Referrers about each of the names need from the indexes of
// the types, and remembers it in known until the next call of Ahead. On HBase, this saves round
// trips.
func Ahead(ctx context.Context, s *state.Snapshot, names []*dn.Name, types []*schema.AttributeType, known *Names) error {
	known.of(s)
	r := referrers{s: s, names: names, known: known.of(s)}
	for _, t := range types {
		r.addIndexed(t)
	}
	known.ahead = nil
	if len(r.stored) == 0 {
		return nil
	}
	kept, err := r.postings(ctx)
	if err != nil {
		return err
	}
	if _, err := namesOf(ctx, s, kept, r.known); err != nil {
		return err
	}
	known.ahead = make(map[string]*cache.Referrers, len(names))
	for i, name := range names {
		known.ahead[name.String()] = kept[i]
	}
	return nil
}

// NamedUnder returns those of the types under which an entry has a name as a value, under any
// options. It returns no types if the entry does not exist.
//
// The values of a wide entry are not in the cache. So NamedUnder uses the postings of the name, if
// they are in the cache. If fill is set, it reads them from the indexes into the cache. This takes
// longer than reading the entry's values, but the name is found faster the next time, in the same
// entry or in others.
func NamedUnder(ctx context.Context, s *state.Snapshot, id entry.ID, types []*schema.AttributeType, name *dn.Name, fill bool) (under []*schema.AttributeType, err error) {
	i, err := s.Item(ctx, id)
	if err != nil || i == nil {
		return nil, err
	}
	if i.Wide() {
		r := referrers{s: s, names: []*dn.Name{name}}
		postings, err := r.posting(ctx, types, fill)
		if err != nil {
			return nil, err
		}
		if postings != nil {
			return r.naming(id, postings), nil
		}
	}
	for _, t := range types {
		held, err := s.Holds(ctx, id, i, t, name)
		if err != nil {
			return nil, err
		}
		if held {
			under = append(under, t)
		}
	}
	return under, nil
}

// posting adds the types to r, and returns the postings of the only name in r. It returns nil if a
// type has no index, or if the postings are not in the cache and fill is not set.
func (r *referrers) posting(ctx context.Context, types []*schema.AttributeType, fill bool) (*cache.Referrers, error) {
	unindexed := func(t *schema.AttributeType) bool { return !r.addIndexed(t) }
	switch {
	case len(types) == 0 || slices.ContainsFunc(types, unindexed):
		return nil, nil
	case !fill:
		return r.recall(r.names[0]), nil
	}
	all, err := r.postings(ctx)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// naming returns the types under which the entry has the name of the postings.
func (r *referrers) naming(id entry.ID, postings *cache.Referrers) (under []*schema.AttributeType) {
	for n, set := range postings.Sets {
		if set.Has(id) {
			under = append(under, r.asked[n])
		}
	}
	return under
}

// referrers gathers the result of Referrers.
type referrers struct {
	s     *state.Snapshot
	names []*dn.Name
	// stored contains the types to look up in indexes: the indexed types and their subtypes.
	// stored[i] is the type asked[i], which the caller passed, or a subtype of it.
	stored, asked []*schema.AttributeType
	found         []Referrer
	known         map[entry.ID]*dn.Name       // nil: names are not remembered
	ahead         map[string]*cache.Referrers // by name; read by Ahead
}

// addIndexed adds a type and its subtypes to r.stored. It returns false if the indexes of
// these types cannot be used to look up names.
func (r *referrers) addIndexed(t *schema.AttributeType) bool {
	for _, sub := range t.Stored() {
		if _, ok := r.s.Catalog.Indexed(sub); !ok || sub.Secret() || !sub.NamesEntries() || sub.Equality.Form != t.Equality.Form {
			return false
		}
	}
	for _, sub := range t.Stored() {
		r.stored, r.asked = append(r.stored, sub), append(r.asked, t)
	}
	return true
}

// lookUp adds the entries that have values of the types in stored.
func (r *referrers) lookUp(ctx context.Context) error {
	if len(r.stored) == 0 {
		return nil
	}
	kept, err := r.postings(ctx)
	if err != nil {
		return err
	}
	named, err := namesOf(ctx, r.s, kept, r.known)
	if err != nil {
		return err
	}
	for of, k := range kept {
		r.add(of, k.Sets, named[of])
	}
	return nil
}

// postings returns the postings of each name, from the cache or from the indexes.
func (r *referrers) postings(ctx context.Context) ([]*cache.Referrers, error) {
	kept := make([]*cache.Referrers, len(r.names))
	var missing []int // indexes of the names that are not in memory
	for of, name := range r.names {
		if kept[of] = r.ahead[name.String()]; kept[of] != nil {
			continue
		}
		if kept[of] = r.recall(name); kept[of] == nil {
			missing = append(missing, of)
		}
	}
	if len(missing) > 0 {
		read, err := r.read(ctx, missing)
		if err != nil {
			return nil, err
		}
		for i, of := range missing {
			kept[of] = read[i]
			r.keep(r.names[of], read[i])
		}
	}
	return kept, nil
}

func (r *referrers) add(of int, sets []*index.Set, names [][]*dn.Name) {
	for n, set := range sets {
		r.found = slices.Grow(r.found, set.Len())
		for i := range set.Len() {
			if name := names[n][i]; name != nil {
				r.found = append(r.found, Referrer{set.ID(i), of, r.asked[n], name})
			}
		}
	}
}

// read reads the postings of names from the indexes.
func (r *referrers) read(ctx context.Context, names []int) ([]*cache.Referrers, error) {
	read := make([]*cache.Referrers, len(names))
	keys := make([][]byte, len(names)) // of the names
	for i, of := range names {
		key, err := r.names[of].Key(r.s.Catalog.Schema)
		if err != nil {
			return nil, err
		}
		keys[i], read[i] = key, &cache.Referrers{AsOf: r.s.Ordinal(), Types: r.stored}
	}
	values := make([][]byte, len(keys))
	for _, t := range r.stored {
		for i, key := range keys {
			values[i] = t.KeyPrefix(key)
			read[i].Hashes = append(read[i].Hashes, catalog.PostingHash(t, values[i]))
		}
		in, _ := r.s.Catalog.Indexed(t)
		sets, err := in.Postings(ctx, r.s.Reader, values)
		if err != nil {
			return nil, err
		}
		for i, set := range sets {
			read[i].Sets = append(read[i].Sets, set)
		}
	}
	return read, nil
}

func (r *referrers) key(name *dn.Name) cache.ValuesKey {
	return cache.ValuesKey{Typ: r.stored[0], Text: name.String()}
}

// recall returns the cached Referrers of a name. It returns nil if there are none, or if they
// are not valid in the state.
func (r *referrers) recall(name *dn.Name) *cache.Referrers {
	if r.s.Ordinal() == 0 {
		return nil
	}
	kept, ok := r.s.Catalog.Cache.Referrers.Get(r.key(name))
	if !ok || !slices.Equal(kept.Types, r.stored) {
		return nil
	}
	for _, hash := range kept.Hashes {
		if !r.s.UnchangedKey(hash, kept.AsOf) {
			return nil
		}
	}
	return kept
}

// keep adds the Referrers of a name to the cache.
func (r *referrers) keep(name *dn.Name, read *cache.Referrers) {
	if read.AsOf != 0 {
		r.s.Catalog.Cache.Referrers.Set(r.key(name), read)
	}
}

// scan adds the entries that have values of types without an index.
func (r *referrers) scan(ctx context.Context, types []*schema.AttributeType, most int, cost *Cost) error {
	sch := r.s.Catalog.Schema
	var tests []filter.Resolved // one test for each combination of type and name
	for _, name := range r.names {
		for _, t := range types {
			tests = append(tests, filter.Resolve(filter.EqualTo(t.OID, name.String()), sch))
		}
	}
	q := Query{Base: entry.Root, Scope: op.WholeSubtree, Filter: filter.MakeOr(tests...), Only: types, Most: most, Cost: cost}
	for found, err := range Search(ctx, r.s, q) {
		if err != nil {
			return err
		}
		src := filter.EntrySource{Schema: sch, Entry: found.Entry}
		for i, test := range tests {
			if test.Match(&src) == filter.True {
				r.found = append(r.found, Referrer{found.ID, i / len(types), types[i%len(types)], found.Name})
			}
		}
	}
	return nil
}
