package search

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/index/plan"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/cache"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/span"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// A Query is a search.
type Query struct {
	Base   entry.ID // id of the base entry; entry.Root: search all naming contexts
	Scope  op.Scope
	Filter filter.Resolved
	// Children is a filter for the subordinates of entries. If it is set, hasSubordinates,
	// numSubordinates and numAllSubordinates in Filter count only the entries that match
	// Children. If Children is nil, these attributes count all subordinates.
	Children filter.Resolved
	// BaseName, if set, is the name of the base. It saves a base search the look-up of the name.
	BaseName *dn.Name
	// Secrets adds secret attributes to the entries in the results.
	Secrets bool
	// Lend makes the search reuse the memory of the entry in a result, except for its values, for the
	// next result. So the caller must not keep the entry.
	Lend bool
	// Only, if set, lists the attribute types whose values the caller needs. For an entry
	// with very many values, the search reads only the values of these types. It reads
	// other entries whole, except for large values.
	Only []*schema.AttributeType
	// After, if set, is the position of a result of the same query at the same revision. The
	// search continues behind that result.
	After []byte
	// Order sorts the results by one key. Callers must check with Ordered that the key can be
	// used.
	Order *SortKey
	// Most is the largest number of entries and rows of the tree that the search may
	// examine. A search that would examine more ends with the problem TooMany. Zero means
	// that there is no limit.
	Most int
	// Ahead, if set, is told the names of the entries that the search is about to return, if these
	// are at least two and it has read them together. Candidates that the filter may still exclude are left out.
	Ahead func(context.Context, []*dn.Name) error
	// Cost, if set, is increased by the cost of the search when the search ends.
	Cost *Cost
}

// Cost is the work that searches have done.
type Cost struct {
	Candidates int        // entries examined
	Rows       int        // rows of the tree whose columns exclude the entry
	Indexes    []plan.Use // indexes used
	Scans      int        // searches without an index
}

// A Result is one entry that a search found. The Result is valid until the next result. The
// caller may keep the Entry, unless Query.Lend is set.
type Result struct {
	state.Located
	Entry *entry.Entry
	// Wide is set if the entry has very many values. Then, if Query.Only is set, Entry contains
	// only values of these types.
	Wide bool
	// Position is the position of the result in the stream, for Query.After.
	Position []byte
}

// Search streams the entries that match a query, each entry once. Without an Order the entries
// have no particular order. A search that continues with Query.After keeps the order.
func Search(ctx context.Context, s *state.Snapshot, q Query) iter.Seq2[*Result, error] {
	return func(yield func(*Result, error) bool) { Each(ctx, s, q, yield) }
}

// Each passes what Search returns to a function, until the function returns false. Unlike the iterator of
// Search and a loop over it, Each allocates nothing.
func Each(ctx context.Context, s *state.Snapshot, q Query, yield func(*Result, error) bool) {
	if q.Order != nil {
		q.Lend = false // entries are kept until their place in the order is known
		searchInOrder(ctx, s, q, yield)
		return
	}
	f := newFinder(s, q, yield)
	defer f.release()
	if q.Cost != nil {
		defer f.addTo(q.Cost)
	}
	f.run(ctx)
}

// Lookup reports whether an entry matches a query. If it does, Lookup returns the result that
// a search would return for the entry, but with no Position.
func Lookup(ctx context.Context, s *state.Snapshot, q Query, id entry.ID) (found Result, ok bool, err error) {
	f := newFinder(s, q, func(r *Result, e error) bool {
		if err = e; e == nil {
			found, ok = *r, true
			found.Position = nil
		}
		return false
	})
	defer f.release()
	node, err := s.Node(ctx, id)
	if err != nil || node == nil {
		return found, false, err
	}
	in := id == q.Base
	if q.Scope != op.BaseObject {
		if in, err = f.inScope(ctx, id, node.Parent); err != nil {
			return found, false, err
		}
	}
	if in && f.offer(ctx, index.Candidate{ID: id, Parent: node.Parent, Maybe: true}) {
		f.flush(ctx)
	}
	return found, ok, err
}

// A finder runs one query.
type finder struct {
	s *state.Snapshot
	q Query

	yield   func(*Result, error) bool
	access  plan.Access
	lists   *plan.Lists // what the access and estimates have read; see listsFor
	batch   []index.Candidate
	items   []*cache.Item       // items of the batch
	secrets [][]entry.Attribute // secret attributes of the batch, if the search needs them
	ids     [][]byte
	bytes   []byte // memory of the batch's positions
	row     []byte // memory of a candidate's position
	size    int    // number of candidates at which the batch is looked up
	tested  int    // number of entries examined
	found   int
	skipped int                   // number of rows of the tree whose columns exclude the entry
	walking bool                  // the search walks the subtree, perhaps instead of running the access
	whole   bool                  // the search scans the whole table, although the base is no naming context
	below   catalog.Count         // about how many entries are below the base, if that is known
	counted bool                  // the method count has read counts
	counts  []catalog.Count       // nil: not known
	planned bool                  // the search is only planned: it makes no columns
	columns *inColumns            // the search takes the candidates from columns; nil: it does not
	byID    bool                  // the search takes the candidates from the journal, in the order of ids
	changed *changed              // these candidates; with byID, nil means all entries
	inner   map[entry.ID]struct{} // ids of the entries that have children; nil: unknown
	above   map[entry.ID]*dn.Name // names of parents, see nameOf
	// derived are the types in the filter whose values no entry stores. The method
	// lookForDerived finds them.
	derived []*schema.AttributeType
	looked  bool
	secret  bool                    // the filter tests secret types; set with looked
	types   []*schema.AttributeType // types in the filter, for matches
	asked   unpacked                // what the filter tests of the entry
	lent    unpacked                // what is lent to the caller
	matched *entry.Entry            // the whole entry, if the filter needed it
	// The field only, if it is not nil, is a function that selects the results: the search
	// omits a matching entry if the function returns false for it.
	only   func(e *entry.Entry, position []byte) bool
	result Result
}

// The size of a batch grows, so that the first results need only a small batch and later
// results need few round trips.
const (
	firstBatch = 16
	largeBatch = 256
)

func newFinder(s *state.Snapshot, q Query, yield func(*Result, error) bool) *finder {
	q.Filter = filter.Definite(q.Filter) // False and Undefined need not be distinguished
	f := finders.Get().(*finder)
	f.s, f.q, f.yield, f.size = s, q, yield, firstBatch
	return f
}

// finders is a pool of finders with their buffers. Without the pool, finders were a fifth
// of the memory that small searches allocate.
var finders = sync.Pool{New: func() any { return new(finder) }}

func (f *finder) release() {
	clear(f.batch[:cap(f.batch)])
	clear(f.items[:cap(f.items)])
	clear(f.ids[:cap(f.ids)])
	clear(f.secrets[:cap(f.secrets)])
	f.asked.clear()
	f.lent.clear()
	*f = finder{batch: f.batch[:0], items: f.items[:0], secrets: f.secrets[:0], ids: f.ids[:0], bytes: f.bytes[:0], row: f.row[:0], asked: f.asked, lent: f.lent}
	finders.Put(f)
}

func (f *finder) addTo(c *Cost) {
	c.Candidates += f.tested
	c.Rows += f.skipped
	switch {
	case f.changed != nil:
		c.Indexes = append(c.Indexes, plan.Use{Attribute: f.changed.test.Types[0].Name(), Kind: "journal"})
	case f.columns != nil:
		c.Indexes = f.columns.uses(c.Indexes)
	case f.access != nil && !f.walking && !f.byID:
		c.Indexes = f.access.Indexes(c.Indexes)
	case f.q.Scope != op.BaseObject:
		c.Scans++
	}
}

func (f *finder) run(ctx context.Context) {
	switch {
	case f.q.Scope == op.BaseObject:
		f.base(ctx)
	case f.plan(ctx):
		f.candidates(ctx)
	case f.columns != nil:
		f.columns.take(ctx)
	case f.byID:
		f.takeByID(ctx)
	case f.q.Scope == op.SingleLevel:
		f.scan(ctx, tree.Children(f.q.Base), f.q.Base)
	default:
		f.subtree(ctx)
	}
}

// plan builds the access. It returns false if the search does not run the access, but takes its
// candidates from columns or the journal, or scans or walks the entries in scope.
func (f *finder) plan(ctx context.Context) bool {
	ctx, s := span.Start(ctx, "plan")
	defer s.End()
	if f.lists == nil {
		f.lists = listsFor(f.s)
	}
	f.access = plan.Build(f.q.Filter, f.s.Catalog, f.lists)
	f.byID = f.prefersJournal(ctx)
	if !f.byID && f.prefersColumns(ctx) {
		return false
	}
	f.walking = f.access != nil && !f.byID && f.prefersWalk(ctx)
	return f.access != nil && !f.byID && !f.walking
}

// listsFor returns the lists for the plans of a search, or nil if reads are no round trips. A
// transaction has none, because lists are read by several goroutines at once.
func listsFor(s *state.Snapshot) *plan.Lists {
	if !s.Partition.DB.Shared() || s.Reader != table.Reader(s.At) {
		return nil
	}
	return &plan.Lists{}
}

func (f *finder) fail(err error) { f.yield(nil, err) }

// base offers the base entry. It does nothing if the base is the root or if Query.After
// is set.
func (f *finder) base(ctx context.Context) {
	if len(f.q.After) > 0 || f.q.Base == catalog.Root {
		return
	}
	f.offer(ctx, index.Candidate{ID: f.q.Base, Maybe: true, Position: f.q.Base[:]})
	f.flush(ctx)
}

// candidates runs the access and offers the candidates in scope. For a list in memory, it does so
// without an iterator, which allocates.
func (f *finder) candidates(ctx context.Context) {
	f.listed()
	var set *index.Set
	maybe := false
	if len(f.q.After) == 0 {
		set, f.row, maybe = plan.Known(ctx, f.s.Reader, f.access, f.row[:0])
	}
	if set == nil {
		f.runAccess(ctx)
		return
	}
	for i, n := 0, len(f.row); i < set.Len(); i++ {
		id := set.ID(i)
		f.row = append(f.row[:n], id[:]...)
		if !f.consider(ctx, index.Candidate{ID: id, Parent: set.Parent(i), Maybe: maybe, Position: f.row}, nil) {
			return
		}
	}
	f.flush(ctx)
}

func (f *finder) runAccess(ctx context.Context) {
	for c, err := range f.access.Run(ctx, f.s.Reader, f.q.After) {
		if !f.consider(ctx, c, err) {
			return
		}
	}
	f.flush(ctx)
}

// listed is called before candidates from a list are offered, or all rows of a scan. On a store that
// servers share, each batch is a round trip, so the first batch is large too. The first candidates of a
// scan with a filter are offered in small batches, because the scan may take long to find more.
func (f *finder) listed() {
	if f.s.Partition.DB.Shared() {
		f.size = largeBatch
	}
}

// consider offers a candidate if it is in scope. It returns false if the search must
// stop.
func (f *finder) consider(ctx context.Context, c index.Candidate, err error) bool {
	if err != nil {
		f.fail(err)
		return false
	}
	if f.s.Partition.DB.Shared() {
		return f.offer(ctx, c) // narrow checks the scope of many candidates together
	}
	in, err := f.inScope(ctx, c.ID, c.Parent)
	if err != nil {
		f.fail(err)
		return false
	}
	return !in || f.offer(ctx, c)
}

// narrow removes the candidates that are not in scope from the batch. It reads their parents, which
// their names need too, in one call.
func (f *finder) narrow(ctx context.Context) error {
	if f.s.Cached || f.s.Items != nil {
		var parents []entry.ID
		for i := range f.batch {
			if p := f.batch[i].Parent; p != catalog.Root && p != f.q.Base && f.q.Scope != op.SingleLevel && !slices.Contains(parents, p) {
				parents = append(parents, p)
			}
		}
		if len(parents) > 1 {
			if err := f.s.ReadItems(ctx, parents, noTypes); err != nil {
				return err
			}
		}
	}
	n := 0
	for _, c := range f.batch {
		in, err := f.inScope(ctx, c.ID, c.Parent)
		if err != nil {
			return err
		}
		if in {
			f.batch[n] = c
			n++
		}
	}
	f.batch = f.batch[:n]
	return nil
}

// inScope reports whether an entry is in the query's scope. For a single level, the parent's
// id decides. For a subtree, inScope reads the nodes of the ancestors, which are few and
// cached.
func (f *finder) inScope(ctx context.Context, id, parent entry.ID) (bool, error) {
	if parent == catalog.Root && (f.q.Base != catalog.Root || f.q.Scope == op.SingleLevel) {
		// This is the entry of a naming context, or a candidate with an unknown parent.
		if node, err := f.s.Node(ctx, id); err != nil || node == nil {
			return false, err
		} else {
			parent = node.Parent
		}
	}
	switch f.q.Scope {
	case op.SingleLevel:
		return parent == f.q.Base, nil
	case op.WholeSubtree:
		if id == f.q.Base {
			return true, nil
		}
	case op.Subordinates:
		if id == f.q.Base {
			return false, nil
		}
	}
	return f.s.Below(ctx, parent, f.q.Base)
}

// offer adds a candidate in scope to the batch. It returns false if the search must stop.
func (f *finder) offer(ctx context.Context, c index.Candidate) bool {
	if c.ID == catalog.SubschemaID {
		return true
	}
	at := len(f.bytes)
	switch {
	case f.walking:
		f.bytes = append(f.bytes, walkMark)
	case f.whole:
		f.bytes = append(f.bytes, scanMark)
	case f.byID:
		f.bytes = append(f.bytes, journalMark)
	case f.columns != nil:
		f.bytes = append(f.bytes, columnMark)
	}
	f.bytes = append(f.bytes, c.Position...)
	c.Position = f.bytes[at:len(f.bytes):len(f.bytes)]
	f.batch = append(f.batch, c)
	if len(f.batch) < f.size {
		return true
	}
	f.size = min(2*f.size, largeBatch)
	return f.flush(ctx)
}

// flush looks up the entries of the batch, and tests and yields them. It reads all
// uncached entries in one call.
func (f *finder) flush(ctx context.Context) bool {
	if f.s.Partition.DB.Shared() && !f.byID && f.q.Scope != op.BaseObject {
		if err := f.narrow(ctx); err != nil {
			f.fail(err)
			return false
		}
	}
	if err := f.lookUp(ctx); err != nil {
		f.fail(err)
		return false
	}
	if f.q.Ahead != nil {
		if err := f.announce(ctx); err != nil {
			f.fail(err)
			return false
		}
	}
	for i, it := range f.items {
		if it == nil {
			continue // there is no such entry, or this transaction deleted it
		}
		if ok := f.test(ctx, &f.batch[i], it, f.secretsOf(i)); !ok {
			return false
		}
	}
	f.batch, f.bytes = f.batch[:0], f.bytes[:0]
	return true
}

// announce passes the names of the batch to Query.Ahead.
func (f *finder) announce(ctx context.Context) error {
	var names []*dn.Name
	for i, it := range f.items {
		if it == nil || f.batch[i].Maybe {
			continue
		}
		name, err := f.nameOf(ctx, f.batch[i].ID, it)
		if err != nil {
			return err
		}
		names = append(names, name)
	}
	if len(names) < 2 {
		return nil
	}
	return f.q.Ahead(ctx, names)
}

// noTypes are the types for callers that need only the place of an entry.
var noTypes = []*schema.AttributeType{}

// onlySecrets contains the family of secret attributes.
var onlySecrets = []table.Family{master.Secrets}

// lookUp reads the entries of the batch and, if the search needs them, their secret attributes. It
// reads everything that is not in memory in one call.
func (f *finder) lookUp(ctx context.Context) error {
	f.items, f.secrets, f.ids = f.items[:0], f.secrets[:0], f.ids[:0]
	secrets := f.needsSecrets()
	sel := table.Select{Families: state.WholeEntry, MaxCells: state.MaxColumns}
	if secrets {
		sel = table.Select{Families: onlySecrets, MaxCells: state.MaxColumnsWithSecrets}
	}
	without := f.s.Catalog.Cache.Without(f.q.Only, f.q.Filter)
	without.Narrow(&sel)
	for i := range f.batch {
		id := f.batch[i].ID
		it := f.s.Current(id)
		if it != nil && it.Omits().ConcernsQuery(f.q.Only, f.q.Filter) {
			it = nil
		}
		f.items = append(f.items, it)
		if secrets {
			f.secrets = append(f.secrets, state.CurrentSecrets(f.s, id, it))
			if it == nil {
				sel.Families = state.WithSecrets
			}
		}
		if f.lacks(i) {
			f.ids = append(f.ids, master.Row(id))
		}
	}
	if len(f.ids) == 0 {
		return nil
	}
	ctx, s := span.Start(ctx, "read")
	defer s.End()
	rows, err := getMany(ctx, f.s, f.ids, sel)
	if err != nil {
		return err
	}
	for i := range f.items {
		if !f.lacks(i) {
			continue
		}
		if id := f.batch[i].ID; secrets {
			f.items[i], f.secrets[i], err = state.DecodeWithSecrets(ctx, f.s, id, f.items[i], rows[0], without)
		} else {
			f.items[i], err = f.s.Decode(ctx, id, rows[0], without)
		}
		if err != nil {
			return err
		}
		rows = rows[1:]
	}
	return nil
}

// lacks reports whether the i-th entry of the batch or its secret attributes have to be read.
func (f *finder) lacks(i int) bool {
	return f.items[i] == nil || len(f.secrets) > 0 && f.secrets[i] == nil
}

// needsSecrets reports whether the search needs the secret attributes of entries of the batch.
func (f *finder) needsSecrets() bool {
	if !f.q.Secrets && !f.looked && slices.ContainsFunc(f.batch, func(c index.Candidate) bool { return c.Maybe }) {
		f.lookForDerived()
	}
	return f.q.Secrets || f.secret
}

// secretsOf returns the secret attributes of the i-th entry of the batch, as far as the search
// needs them.
func (f *finder) secretsOf(i int) []entry.Attribute {
	if len(f.secrets) == 0 {
		return nil
	}
	return f.secrets[i]
}

func getMany(ctx context.Context, s *state.Snapshot, ids [][]byte, sel table.Select) ([]table.Row, error) {
	if len(ids) == 1 {
		row, err := s.Reader.Get(ctx, s.Partition.Master, ids[0], sel)
		return []table.Row{row}, err
	}
	return s.Reader.GetMany(ctx, s.Partition.Master, ids, sel)
}

// maxAbove bounds the number of names that a search in the past remembers.
const maxAbove = 1024

// nameOf returns an entry's name. In a state of the past, names are not cached, so the search
// remembers the names of parents: it may find many entries with the same parent. On HBase,
// reading the past state of a parent is slow if the parent has changed very often since.
func (f *finder) nameOf(ctx context.Context, id entry.ID, it *cache.Item) (*dn.Name, error) {
	switch {
	case id == f.q.Base && f.q.BaseName != nil:
		return f.q.BaseName, nil
	case it.Node.Parent == catalog.Root:
		return f.s.NameOf(ctx, id, it)
	case f.s.At.Ordinal() != 0 && f.q.Lend:
		return state.NewName(ctx, f.s, it)
	case f.s.At.Ordinal() != 0:
		return f.s.NameOf(ctx, id, it)
	}
	above := f.above[it.Node.Parent]
	if above == nil {
		var err error
		if above, err = f.s.Name(ctx, it.Node.Parent); err != nil {
			return nil, err
		}
		if f.above == nil || len(f.above) >= maxAbove {
			f.above = map[entry.ID]*dn.Name{}
		}
		f.above[it.Node.Parent] = above
	}
	return dn.NewName(it.Node.UpRDN + "," + above.String()), nil
}

// test tests one entry and yields the entry if it matches. It returns false if the search
// must stop.
func (f *finder) test(ctx context.Context, c *index.Candidate, it *cache.Item, secrets []entry.Attribute) bool {
	if f.tested++; !f.within() {
		return false
	}
	if f.byID { // only now the parent is known
		if in, err := f.inScope(ctx, c.ID, it.Node.Parent); err != nil || !in {
			if err != nil {
				f.fail(err)
			}
			return err == nil
		}
	}
	name, err := f.nameOf(ctx, c.ID, it)
	if err != nil {
		f.fail(err)
		return false
	}
	f.matched = nil
	if c.Maybe {
		match, err := f.matches(ctx, c.ID, it, secrets, name)
		if err != nil {
			f.fail(err)
			return false
		}
		if !match {
			return true
		}
	}
	e := f.matched
	switch {
	case e != nil:
	case f.q.Lend && !it.Wide():
		e = f.lent.unpack(c.ID, it, nil)
	default:
		if e, err = f.s.EntryOf(ctx, c.ID, it, false, f.q.Only); err != nil {
			f.fail(err)
			return false
		}
	}
	if f.q.Secrets {
		e = state.AddSecrets(e, it, secrets)
	}
	if f.only != nil && !f.only(e, c.Position) {
		return true
	}
	f.found++
	f.result = Result{state.Located{ID: c.ID, Parent: it.Node.Parent, Name: name}, e, it.Wide(), c.Position}
	return f.yield(&f.result, nil)
}

// within reports whether the search has examined at most Query.Most entries and rows.
// Otherwise it ends the search with the problem TooMany.
func (f *finder) within() bool {
	if f.q.Most == 0 || f.tested+f.skipped <= f.q.Most {
		return true
	}
	f.fail(catalog.Errorf(catalog.TooMany, "the search looks at more than %d entries, the limit on candidates: narrow it", f.q.Most))
	return false
}

// matches evaluates the filter on an entry. For an entry with very many values, it looks values that
// the filter asks for up by their keys, and otherwise reads only the types in the filter.
func (f *finder) matches(ctx context.Context, id entry.ID, it *cache.Item, secrets []entry.Attribute, name *dn.Name) (bool, error) {
	if f.q.Filter == filter.Const(filter.True) {
		return true, nil
	}
	var e *entry.Entry
	if !f.q.Lend { // what is lent is unpacked anyway
		e = it.Opened()
	}
	asked := f.q.Filter
	var err error
	switch {
	case e != nil:
		f.matched = e
	case !it.Wide() && !filter.NeedsValues(asked):
		e = f.unpack(id, it)
	case !it.Wide():
		e, err = f.s.EntryOf(ctx, id, it, false, f.q.Only)
		f.matched = e
	default:
		if asked, err = f.lookUpValues(ctx, id); err != nil {
			return false, err
		}
		if known, is := asked.(filter.Const); is {
			return filter.Tri(known) == filter.True, nil
		}
		e, err = f.s.Wide(ctx, id, filterTypes(asked))
	}
	if err == nil {
		e, err = f.withChildren(ctx, id, e)
	}
	if err != nil {
		return false, err
	}
	if f.secret {
		e = &entry.Entry{ID: id, Attributes: append(slices.Clip(e.Attributes), secrets...)}
	}
	src := filter.EntrySource{Entry: e}
	if filter.NeedsValues(asked) {
		parsed, err := name.DN()
		if err != nil {
			return false, err
		}
		src.Name, src.Stored, src.Schema = parsed, name, f.s.Catalog.Schema
	}
	return asked.Match(&src) == filter.True, nil
}

// unpack unpacks the attributes of an entry that the filter tests. The result is valid until the next
// call.
func (f *finder) unpack(id entry.ID, it *cache.Item) *entry.Entry {
	if f.types == nil {
		f.types = slices.Grow(filterTypes(f.q.Filter), 1)
	}
	return f.asked.unpack(id, it, f.types)
}

// An unpacked is an entry in memory that is used again for the next entry.
type unpacked struct {
	entry  entry.Entry
	values [][]byte
}

// unpack unpacks the attributes of the types, or all if types is nil. The result is valid until the
// next call.
func (u *unpacked) unpack(id entry.ID, it *cache.Item, types []*schema.AttributeType) *entry.Entry {
	u.entry.ID = id
	u.entry.Attributes, u.values = it.Packed.Append(u.entry.Attributes[:0], u.values[:0], types)
	return &u.entry
}

// manyUnpacked is the number of values or attributes above which their memory is not kept for other
// searches, which would have to clear it.
const manyUnpacked = 256

// clear removes what was unpacked.
func (u *unpacked) clear() {
	as, values := u.entry.Attributes, u.values
	if cap(as) > manyUnpacked || cap(values) > manyUnpacked {
		as, values = nil, nil
	}
	clear(as[:cap(as)])
	clear(values[:cap(values)])
	*u = unpacked{entry.Entry{Attributes: as[:0]}, values[:0]}
}

// lookUpValues returns the filter with those tests decided that ask whether a wide entry has a value.
func (f *finder) lookUpValues(ctx context.Context, id entry.ID) (filter.Resolved, error) {
	if !f.looked {
		f.lookForDerived()
	}
	var failed error
	asked := filter.Map(f.q.Filter, func(t *filter.Test) filter.Resolved {
		if !t.IsValue() {
			return t
		}
		typ := t.Types[0]
		if typ == f.s.Catalog.EntryUUID || typ.Secret() || slices.Contains(f.derived, typ) || failed != nil {
			return t
		}
		_, held, err := state.HoldsKey(ctx, f.s, id, typ, t.Options, t.Key)
		if failed = err; held {
			return filter.Const(filter.True)
		}
		return filter.Const(filter.False)
	})
	return asked, failed
}

// withChildren returns a copy of the entry with the attributes that count subordinates, as
// far as the filter needs them. These attributes are not stored.
func (f *finder) withChildren(ctx context.Context, id entry.ID, e *entry.Entry) (*entry.Entry, error) {
	if !f.looked {
		f.lookForDerived()
	}
	if len(f.derived) == 0 {
		return e, nil
	}
	more := slices.Clip(e.Attributes)
	for _, t := range f.derived {
		value, err := f.ofChildren(ctx, t, id)
		if err != nil {
			return nil, err
		}
		more = append(more, entry.Attribute{Type: t, Values: [][]byte{value}})
	}
	return &entry.Entry{ID: id, Attributes: more}, nil
}

// lookForDerived finds out which of the types that count subordinates the filter needs.
// It runs once per query.
func (f *finder) lookForDerived() {
	f.looked, f.secret = true, filter.AsksSecrets(f.q.Filter)
	k := f.s.Catalog.Types
	for test := range filter.Tests(f.q.Filter) {
		for _, t := range test.Types {
			if t != nil && (t == k.HasSubordinates || t == k.NumSubordinates || t == k.NumAllSubordinates) && !slices.Contains(f.derived, t) {
				f.derived = append(f.derived, t)
			}
		}
	}
}

// ofChildren computes an entry's value of t, one of the types that count subordinates.
func (f *finder) ofChildren(ctx context.Context, t *schema.AttributeType, id entry.ID) ([]byte, error) {
	switch t {
	case f.s.Catalog.NumSubordinates:
		n, err := f.countChildren(ctx, id, math.MaxInt)
		return strconv.AppendInt(nil, int64(n), 10), err
	case f.s.Catalog.NumAllSubordinates:
		n, err := CountBelow(ctx, f.s, id, f.q.Children, noTypes, f.q.Most)
		return strconv.AppendInt(nil, int64(n), 10), err
	}
	n, err := f.countChildren(ctx, id, 1)
	return []byte(strings.ToUpper(strconv.FormatBool(n > 0))), err
}

// countChildren counts the children of an entry that match Query.Children. It may stop when the
// count has reached most.
func (f *finder) countChildren(ctx context.Context, id entry.ID, most int) (n int, err error) {
	if f.q.Children == nil {
		if most > 1 {
			return f.s.CountChildren(ctx, id)
		}
		has, err := f.s.HasChildren(ctx, id)
		if has {
			n = 1
		}
		return n, err
	}
	q := Query{Base: id, Scope: op.SingleLevel, Filter: f.q.Children, Only: noTypes}
	for _, err := range Search(ctx, f.s, q) {
		if n++; err != nil || n == most {
			return n, err
		}
	}
	return n, nil
}

// CountBelow counts the entries below an entry that match f. If f is nil, it counts all entries
// below the entry. The parameter types contains the attribute types that f needs. If f is nil
// and a view keeps the number, CountBelow examines no entries. Otherwise, if limit is not zero
// and CountBelow would examine more than limit entries, it returns an error with the problem
// TooMany.
func CountBelow(ctx context.Context, s *state.Snapshot, id entry.ID, f filter.Resolved, types []*schema.AttributeType, limit int) (n int, err error) {
	if has, err := s.HasChildren(ctx, id); err != nil || !has {
		return 0, err
	}
	if f == nil {
		if c, known, err := s.Subordinates(ctx, true, id); known || err != nil {
			return int(c[0].All), err
		}
		f = filter.Const(filter.True)
	}
	for _, err := range Search(ctx, s, Query{Base: id, Scope: op.Subordinates, Filter: f, Only: types, Most: limit}) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// filterTypes returns the attribute types in a filter.
func filterTypes(f filter.Resolved) (ts []*schema.AttributeType) {
	for t := range filter.Tests(f) {
		ts = append(ts, t.Types...)
	}
	return ts
}

// Explain describes how Search would evaluate a query. If run is set, Explain evaluates
// the query and also describes what Search did.
func Explain(ctx context.Context, s *state.Snapshot, q Query, run bool) (string, error) {
	var failed error
	f := newFinder(s, q, func(_ *Result, err error) bool {
		failed = err
		return err == nil
	})
	if run {
		f.run(ctx)
	} else {
		f.planned = true
		f.plan(ctx)
	}
	var b strings.Builder
	switch {
	case q.Scope == op.BaseObject:
		b.WriteString("the base entry\n")
	case f.changed != nil:
		f.changed.describe(&b, f.access)
	case f.columns != nil:
		f.columns.describe(&b)
	case f.walking && f.access != nil:
		b.WriteString("walk of the subtree, which is shorter than\n")
		f.access.Describe(&b, 1, false)
	case f.access != nil:
		f.access.Describe(&b, 0, run)
	case q.Scope == op.SingleLevel:
		b.WriteString("scan of the children of the base\n")
	default:
		b.WriteString("scan of the subtree\n")
	}
	if run {
		fmt.Fprintf(&b, "%d entries found, %d looked at, %d rows ruled out by their columns\n", f.found, f.tested, f.skipped)
	}
	return b.String(), failed
}

// HasClass reports whether any entry has a class. Nearly every search calls HasClass for the
// watched classes, such as referral and alias, so the results for these classes are cached. A
// result is valid until a commit adds or removes an entry of the class, because that commit
// touches the class.
func HasClass(ctx context.Context, s *state.Snapshot, c *schema.ObjectClass) (bool, error) {
	w := s.Catalog.Watched[c]
	if w != nil {
		if asOf, has := w.Seen(); s.Unchanged(w.ID, asOf) {
			return has, nil
		}
	}
	has, err := findClass(ctx, s, c)
	if asOf := s.Ordinal(); err == nil && w != nil && asOf != 0 {
		w.See(asOf, has)
	}
	return has, err
}

// findClass reports whether any entry has a class. It is not a part of HasClass, which must not
// allocate: a function allocates the variables of a loop over an iterator even if it returns
// before the loop.
func findClass(ctx context.Context, s *state.Snapshot, c *schema.ObjectClass) (bool, error) {
	f := filter.Resolve(filter.EqualTo(s.Catalog.ObjectClass.Name(), c.Name()), s.Catalog.Schema)
	for _, err := range Search(ctx, s, Query{Base: catalog.Root, Scope: op.WholeSubtree, Filter: f}) {
		return err == nil, err
	}
	return false, nil
}
