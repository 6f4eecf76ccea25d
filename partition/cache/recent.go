package cache

import (
	"sync"
	"sync/atomic"

	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// RecentWrites contains the latest modifications of entries that this process has committed. Package
// view finds both states of a modified entry here, so it need not read them from the store.
// Reading them took 80 us of the 100 us that five views cost for each commit. Recent may omit
// any modification.
type RecentWrites struct {
	wanted atomic.Bool

	mu      sync.Mutex
	entries map[entry.ID][]*Modification // in the order of revisions
	order   []*Modification              // all modifications, in the order of revisions
	weight  int
}

// A Modification is an entry before and after a commit whose only change of the entry is one
// modify operation. The two items have the same node.
type Modification struct {
	Revision      table.Revision // of the commit
	Schema        *schema.Schema // of both items
	ID            entry.ID
	Before, After *Item
}

func (m *Modification) weight() int { return int(m.Before.Weight() + m.After.Weight()) }

// recentMemory bounds the size of the items in Recent, in bytes.
const recentMemory = 16 << 20

// Want makes writers add modifications. If wanted is false, it makes them stop and removes all
// modifications.
func (r *RecentWrites) Want(wanted bool) {
	if r.wanted.Swap(wanted) != wanted {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.entries, r.order, r.weight = nil, nil, 0
	}
}

// Wanted reports whether writers should add modifications.
func (r *RecentWrites) Wanted() bool { return r.wanted.Load() }

// Add adds modifications of a commit that is newer than all commits before. If Recent becomes
// too large, Add removes the oldest modifications.
func (r *RecentWrites) Add(ms []*Modification) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries == nil {
		r.entries = map[entry.ID][]*Modification{}
	}
	for _, m := range ms {
		r.entries[m.ID] = append(r.entries[m.ID], m)
		r.weight += m.weight()
	}
	r.order = append(r.order, ms...)
	for r.weight > recentMemory {
		r.removeOldest()
	}
}

// Forget removes the modifications up to a revision.
func (r *RecentWrites) Forget(upTo table.Revision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.order) > 0 && r.order[0].Revision <= upTo {
		r.removeOldest()
	}
}

func (r *RecentWrites) removeOldest() {
	m := r.order[0]
	r.order[0] = nil
	r.order = r.order[1:]
	r.weight -= m.weight()
	if left := r.entries[m.ID][1:]; len(left) > 0 {
		r.entries[m.ID] = left
	} else {
		delete(r.entries, m.ID)
	}
}

// Find returns the modification of an entry by the commit first, and the modification by the
// commit last. A result is nil if Recent does not contain the modification.
func (r *RecentWrites) Find(id entry.ID, first, last table.Revision) (before, after *Modification) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.entries[id] {
		if m.Revision == first {
			before = m
		}
		if m.Revision == last {
			after = m
		}
	}
	return before, after
}
