package search

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/directory/internal/delivery"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/bounded"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A sorted search runs in one of three ways. All pages of a search run in the same way. The
// first byte of the position in a cookie is the way.
const (
	byList   = 'l' // a list of all ids is sorted; pages continue by counting results
	byIndex  = 'i' // an index has the order; pages continue at a position in the index
	bySearch = 's' // the results are not sorted, and every page says so
)

// Even if an index has the requested order, a search with few candidates is sorted in a
// list. For a paged search, few means at most ListCheap candidates. For other searches, few
// means at most maxList candidates, and not more than fit into the sort memory if each takes
// sortedSize bytes.
const (
	maxList    = 1 << 18
	sortedSize = 256
)

// ListCheap applies to paged searches whose order an index has. If such a search has at most
// ListCheap candidates, it is still sorted in a list. Tests set a smaller number.
var ListCheap = 2048

// Lists caches the sorted ids of searches whose clients may request more results. The key of
// a list is a hash of everything that must not change between the requests, except the
// access rules. Each list records the access rules that it was made with, and is used only
// under the same rules. A list that is not cached can be made again, at any server.
type Lists = bounded.Cache[[16]byte, *list]

type list struct {
	program *acl.Program
	ids     []entry.ID
}

// listKey returns the key of a search's list, in the state that the request reads.
func listKey(req *request.Request, r *op.Search) [16]byte {
	at := binary.BigEndian.AppendUint64(delivery.CookieKey(req, r), uint64(req.Snapshot.Revision()))
	sum := sha256.Sum256(at)
	return [16]byte(sum[:16])
}

// listMemory is the largest size of all lists together, in bytes.
const listMemory = 64 << 20

// NewLists returns an empty cache.
func NewLists() Lists {
	return bounded.New(listMemory, func(_ [16]byte, l *list) uint32 { return uint32(128 + len(l.ids)*len(entry.ID{})) })
}

// errSortMemory ends a search whose list would exceed the sort memory.
var errSortMemory = errors.New("sort memory used up")

// runSorted runs a search with a sort control.
func (st *Stream) runSorted(ctx context.Context) error {
	way, err := st.chooseWay(ctx)
	if err != nil {
		return err
	}
	if way == byList {
		if err = st.runList(ctx); !errors.Is(err, errSortMemory) {
			return err
		}
		if way, err = st.withoutList(); err != nil {
			return err
		}
	}
	st.way = way
	if way == byIndex {
		st.Query.Order = &st.keys[0]
	}
	if st.Out.Page != nil && !st.aliases {
		st.Query.After = st.Out.Page.After
	}
	return st.runQueries(ctx)
}

// chooseWay returns the way in which the search runs. If there are earlier pages, it is
// their way. Otherwise it is the way that is expected to be fastest.
func (st *Stream) chooseWay(ctx context.Context) (byte, error) {
	if p := st.Out.Page; p != nil && len(p.After) > 0 {
		way := p.After[0]
		p.After = p.After[1:]
		if way == bySearch {
			return way, st.unsorted(st.tooMany())
		}
		return way, nil
	}
	if !st.ordered() || !st.quicklyOrdered() {
		return byList, nil
	}
	// Without pages, a list is faster than the index if the list fits into the sort
	// memory.
	most := ListCheap
	if st.Out.Page == nil {
		most = int(min(st.Req.Limits.SortBytes()/sortedSize, maxList))
	}
	large, err := search.Exceeds(ctx, st.Req.Snapshot, st.Query, most)
	if large && err == nil {
		return byIndex, nil
	}
	return byList, err
}

// ordered reports whether an index has the requested order.
func (st *Stream) ordered() bool {
	keys := st.keys
	return len(keys) == 1 && st.Req.Judge.SortsAll(keys) && !st.aliases && st.R.Scope != op.BaseObject && search.Ordered(st.Req.Snapshot, &keys[0])
}

// quicklyOrdered reports whether a search by the index finds the first entry of the order
// quickly. In reverse order, entries without a value of the sort key come first. To find
// them, the search has to read every entry, unless the filter excludes them.
func (st *Stream) quicklyOrdered() bool {
	k := &st.keys[0]
	if !k.Reverse {
		return true
	}
	parts := []filter.Resolved{st.Query.Filter}
	if and, ok := parts[0].(*filter.AndNode); ok {
		parts = and.Parts
	}
	for _, p := range parts {
		if t, ok := p.(*filter.Test); ok && len(t.Types) == 1 && t.Types[0] == k.Type && t.Options == k.Options && !t.DNAttrs {
			return true
		}
	}
	return false
}

// withoutList returns the way of a search that has too many entries for a list.
func (st *Stream) withoutList() (byte, error) {
	if st.ordered() {
		return byIndex, nil
	}
	return bySearch, st.unsorted(st.tooMany())
}

// unsorted makes the search continue without sorting. If the sort control is critical,
// unsorted returns an error instead.
func (st *Stream) unsorted(e *delivery.SortError) error {
	st.keys = nil
	return delivery.Unsorted(st.Req, e)
}

func (st *Stream) tooMany() *delivery.SortError {
	return &delivery.SortError{Code: op.AdminLimitExceeded, Text: st.Req.Limits.SortBytesText()}
}

// runList sends entries in the order of a list.
func (st *Stream) runList(ctx context.Context) error {
	ids, err := st.list(ctx)
	if err != nil {
		return err
	}
	st.way = byList
	if p := st.Out.Page; p != nil {
		ids = ids[min(p.Skip, len(ids)):]
		p.AtPlace()
	}
	return st.lookUp(ctx, ids)
}

// lookUp reads and sends the entries with the given ids.
func (st *Stream) lookUp(ctx context.Context, ids []entry.ID) error {
	for found, err := range search.Results(ctx, st.Req.Snapshot, ids, st.Query) {
		if err != nil {
			return err
		}
		if err := st.deliver(ctx, found); err != nil {
			return err
		}
	}
	return nil
}

// list returns the ids of all results, in order.
func (st *Stream) list(ctx context.Context) ([]entry.ID, error) {
	again := (st.Out.Page != nil || st.Req.Controls.Vlv != nil) && !st.Req.Judge.IsPast()
	var key [16]byte
	program := st.Req.Judge.Program()
	if again {
		key = listKey(st.Req, st.R)
		if l, ok := st.lists.Get(key); ok && l.program == program {
			return l.ids, nil
		}
	}
	ids, err := st.makeList(ctx)
	if err == nil && again {
		st.lists.Set(key, &list{program, ids})
	}
	return ids, err
}

func (st *Stream) makeList(ctx context.Context) ([]entry.ID, error) {
	st.sorter = search.NewSorter(st.keys, st.Req.Limits.SortBytes())
	defer func() {
		_ = st.Req.Draw(-st.drawn) // never fails
		st.sorter, st.drawn = nil, 0
	}()
	q := st.Query
	st.Query.Ahead = nil // the list needs no memberships
	if err := st.runQueries(ctx); err != nil {
		return nil, err
	}
	st.Query = q // runQueries has changed the query to follow aliases
	return st.sorter.IDs(), nil
}

// drawStep is how much memory a sorted search draws at a time, in octets.
const drawStep = 1 << 20

// drawSorter draws the memory that the sorter has used.
func (st *Stream) drawSorter() error {
	for st.sorter.Used()-st.drawn >= drawStep {
		if err := st.Req.Draw(drawStep); err != nil {
			return err
		}
		st.drawn += drawStep
	}
	return nil
}
