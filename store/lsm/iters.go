package lsm

import (
	"bytes"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// maxIdle bounds the number of idle iterators in the pool. If the pool is full, an
// iterator is closed after its use.
const maxIdle = 16

// An iterPool keeps iterators for reuse, because opening an iterator costs as much as a read.
// An iterator shows the store at the time of its opening. So it can be reused if nothing was
// written since, or if the view sees only revisions that were complete at that time. The second
// condition is enough only if revisions are written in ascending order. If a revision is
// written out of order, the method changed begins a new epoch.
type iterPool struct {
	db *pebble.DB
	m  *counters

	epoch   atomic.Uint64 // number of refreshes, and of changes to revisions that were already complete
	writes  atomic.Uint64 // counts all changes
	applied atomic.Uint64 // the largest revision written

	mu     sync.Mutex
	idle   []*iterator
	closed bool
}

// An iterator records how much of the store it shows. The keys and values that it returns
// are valid until it moves.
type iterator struct {
	*pebble.Iterator
	epoch, writes, applied uint64
}

func (p *iterPool) init(db *pebble.DB, m *counters) { p.db, p.m = db, m }

// The method "changed" must be called after each write, before the writer returns, unless a call
// of swapped is enough. r is 0 for a change without a revision.
func (p *iterPool) changed(r table.Revision) {
	if uint64(r) <= p.applied.Load() {
		p.epoch.Add(1)
	} else {
		p.applied.Store(uint64(r))
	}
	p.writes.Add(1)
}

// A call of swapped is enough after a write that matters only to iterators of get(0), such as a
// write to an unversioned table.
func (p *iterPool) swapped() { p.writes.Add(1) }

// refresh begins a new epoch and closes the idle iterators in the background, so that the files
// and memory tables that they use can be freed.
func (p *iterPool) refresh() {
	p.epoch.Add(1)
	go func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.closeIdle()
	}()
}

func (p *iterPool) closeIdle() {
	for _, it := range p.idle {
		it.Close()
	}
	p.idle = nil
}

// get returns an iterator that shows everything up to revision max. If max is 0, the
// iterator shows everything written before the call.
func (p *iterPool) get(max table.Revision) (*iterator, error) {
	for {
		p.mu.Lock()
		n := len(p.idle)
		if n == 0 {
			p.mu.Unlock()
			return p.open()
		}
		it := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		if p.shows(it, max) {
			return it, nil
		}
		it.Close()
	}
}

func (p *iterPool) shows(it *iterator, max table.Revision) bool {
	if it.epoch != p.epoch.Load() {
		return false
	}
	return it.writes == p.writes.Load() || max != 0 && uint64(max) <= it.applied
}

func (p *iterPool) open() (*iterator, error) {
	it := &iterator{epoch: p.epoch.Load(), writes: p.writes.Load(), applied: p.applied.Load()}
	p.m.opened.Add(1)
	var err error
	it.Iterator, err = p.db.NewIter(nil)
	return it, err
}

// put returns an iterator to the pool. In three cases it closes the iterator instead: the
// iterator has an error, the iterator belongs to an earlier epoch, or the pool is full or was
// drained.
func (p *iterPool) put(it *iterator) {
	if it.Error() == nil && it.epoch == p.epoch.Load() {
		p.mu.Lock()
		if !p.closed && len(p.idle) < maxIdle {
			p.idle = append(p.idle, it)
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
	}
	it.Close()
}

// drain closes the idle iterators and makes later calls of put close the iterators that
// they are given.
func (p *iterPool) drain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.closeIdle()
}

// group returns an iterator for looking up rows of a group. It returns nil if the
// group is empty, as it is in the first load of a directory.
func (p *iterPool) group(t *tableInfo, g *group) (*iterator, error) {
	it, err := p.get(0)
	if err != nil {
		return nil, err
	}
	if it.SeekGE(appendHead(nil, t.id, g.name)) && bytes.Compare(it.Key(), appendGroupEnd(nil, t.id, g.name)) < 0 {
		return it, nil
	}
	err = it.Error()
	p.put(it)
	return nil, err
}
