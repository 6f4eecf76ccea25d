package accountlog

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/pause"
)

// A memory contains failures for which the store is not up to date. One memory contains the
// failures that could not be stored, and another one contains the failures that are not yet
// deleted in the store.
type memory struct {
	accounts atomic.Int64 // len(all), which is nearly always 0
	mu       sync.Mutex
	all      map[entry.ID][]time.Time
}

// maxUnrecorded is the largest number of failures that are remembered for one account. No
// policy counts more failures.
const maxUnrecorded = 1000

func (m *memory) of(id entry.ID) []time.Time {
	if m.accounts.Load() == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.all[id])
}

// add remembers a failure. If the account already has a failure at the time t, add chooses a
// slightly later time. It returns the time of the failure.
func (m *memory) add(id entry.ID, t time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[entry.ID][]time.Time{}
	}
	for slices.ContainsFunc(m.all[id], t.Equal) {
		t = t.Add(1)
	}
	if m.all[id] = append(m.all[id], t); len(m.all[id]) > maxUnrecorded {
		m.all[id] = m.all[id][1:]
	}
	m.accounts.Store(int64(len(m.all)))
	return t
}

// keep remembers failures.
func (m *memory) keep(id entry.ID, failures []time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[entry.ID][]time.Time{}
	}
	m.all[id] = append(m.all[id], failures...)
	m.accounts.Store(int64(len(m.all)))
}

func (m *memory) drop(id entry.ID, failures []time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all[id] == nil {
		return
	}
	left := slices.DeleteFunc(m.all[id], func(t time.Time) bool { return slices.ContainsFunc(failures, t.Equal) })
	if m.all[id] = left; len(left) == 0 {
		delete(m.all, id)
	}
	m.accounts.Store(int64(len(m.all)))
}

// The type durations records how long recent operations took.
type durations struct {
	mu     sync.Mutex
	recent [64]time.Duration
	n      int
}

func (d *durations) add(t time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.recent[d.n%len(d.recent)] = t
	d.n++
}

// wait waits as long as a randomly chosen recent operation took.
func (d *durations) wait(ctx context.Context) error {
	d.mu.Lock()
	t := d.recent[0]
	if n := min(d.n, len(d.recent)); n > 0 {
		t = d.recent[rand.IntN(n)]
	}
	d.mu.Unlock()
	if t == 0 {
		return nil
	}
	return pause.For(ctx, t)
}

func bytesOf(n int64) []byte { return strconv.AppendInt(nil, n, 10) }

// number parses a result of bytesOf. It returns -1 if b is not a number.
func number(b []byte) int64 {
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		return -1
	}
	return n
}
