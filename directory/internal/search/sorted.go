package search

import (
	"context"
	"errors"

	"github.com/maypok86/otter/v2"

	"github.com/seed-4dac0d86/ldapd/acl"
	"github.com/seed-4dac0d86/ldapd/directory/internal/results"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition/sorting"
	"github.com/seed-4dac0d86/ldapd/table"
)

// A sorted search goes one of three ways. All of its pages go the same way: the position
// in a cookie begins with it.
const (
	byList   = 'l' // all ids are sorted; pages continue by counting
	byIndex  = 'i' // an index has the order; pages continue by its positions
	bySearch = 's' // unsorted after all, which every page reports to the client
)

// Where an index has the order, a search with few candidates is sorted in a list all the
// same. If it is in pages, these are at most ListCheap. If not, these are as many as fit
// into the sort memory at sortedSize bytes each, and at most maxList.
const (
	maxList    = 1 << 18
	sortedSize = 256
)

// ListCheap bounds the list of a search in pages where an index has the order; tests
// change it.
var ListCheap = 2048

// Lists caches the order of searches whose client may ask for more: ids only, under a key
// of what must not change between requests. Any server can make a list again.
type Lists = otter.Cache[listKey, []entry.ID]

type listKey struct {
	search   [32]byte // cookieKey
	program  *acl.Program
	revision table.Revision
}

// listMemory bounds the memory of all lists, in bytes.
const listMemory = 64 << 20

// NewLists returns an empty cache.
func NewLists() *Lists {
	return otter.Must(&otter.Options[listKey, []entry.ID]{
		MaximumWeight: listMemory,
		Weigher:       func(_ listKey, ids []entry.ID) uint32 { return uint32(128 + len(ids)*len(entry.ID{})) },
	})
}

// errSortMemory ends the building of a list.
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

// chooseWay returns the way of the earlier pages, or the best one.
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
	// Without pages a list is best as long as it fits.
	most := ListCheap
	if st.Out.Page == nil {
		most = int(min(st.Req.Limits.SortBytes()/sortedSize, maxList))
	}
	large, err := st.Req.Snapshot.Exceeds(ctx, st.Query, most)
	if large && err == nil {
		return byIndex, nil
	}
	return byList, err
}

// ordered reports whether an index has the requested order.
func (st *Stream) ordered() bool {
	keys := st.keys
	return len(keys) == 1 && st.Req.Judge.SortsAll(keys) && !st.aliases && st.R.Scope != op.BaseObject && sorting.Ordered(st.Req.Snapshot, &keys[0])
}

// quicklyOrdered reports whether the first entry in order is found quickly. In reverse
// order, entries without a value come first, and finding that there are none takes a look
// at every entry, unless the filter rules them out.
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

// unsorted continues without sorting, or returns an error if that must end the search.
func (st *Stream) unsorted(e *results.SortError) error {
	st.keys = nil
	return results.Unsorted(st.Req, e)
}

func (st *Stream) tooMany() *results.SortError {
	return &results.SortError{Code: op.AdminLimitExceeded, Text: st.Req.Limits.SortBytesText()}
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

// lookUp reads and sends the entries with some ids.
func (st *Stream) lookUp(ctx context.Context, ids []entry.ID) error {
	for found, err := range st.Req.Snapshot.Results(ctx, ids, st.Query) {
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
	again := st.Out.Page != nil || st.Req.Controls.Vlv != nil
	var key listKey
	if again {
		key = listKey{[32]byte(results.CookieKey(st.Req, st.R)), st.Req.Judge.Program(), st.Req.Snapshot.Revision()}
		if ids, ok := st.lists.GetIfPresent(key); ok {
			return ids, nil
		}
	}
	ids, err := st.makeList(ctx)
	if err == nil && again {
		st.lists.Set(key, ids)
	}
	return ids, err
}

func (st *Stream) makeList(ctx context.Context) ([]entry.ID, error) {
	st.sorter = sorting.NewSorter(st.keys, st.Req.Limits.SortBytes())
	defer func() { st.sorter = nil }()
	q := st.Query
	if err := st.runQueries(ctx); err != nil {
		return nil, err
	}
	st.Query = q // reset what aliases have changed
	return st.sorter.IDs(), nil
}
