// Package status serves the state of a running server over HTTP for operators and their
// tools: /metrics, /live, /ready and /servers.
package status

import (
	"fmt"
	"sync"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// A Reason says why a server is not live or not ready.
type Reason struct {
	What  string    `json:"what"` // process, store, writes
	Since time.Time `json:"since"`
	Text  string    `json:"text"`
}

// A Phase is a phase in the life of a server process.
type Phase int

// The phases of a process.
const (
	Starting Phase = iota
	Serving
	Stopping
)

// Health reports whether a server is live and ready. It may be used concurrently.
type Health struct {
	mu     sync.Mutex
	phase  Phase
	store  func() txn.Status
	since  map[string]time.Time // when each reason was first seen
	asking time.Duration        // how long look waits for the store's status
}

// NewHealth returns the health of a process that is starting.
func NewHealth() *Health { return &Health{since: map[string]time.Time{}, asking: time.Second} }

// Serve notes that the server serves a store.
func (h *Health) Serve(store func() txn.Status) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.phase, h.store = Serving, store
}

// Stop notes that the server stops.
func (h *Health) Stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.phase = Stopping
}

// Live returns the reasons why the process must be restarted, or none.
func (h *Health) Live() []Reason {
	_, s := h.look()
	return h.reasons(text{"live", "store", s.Broken})
}

// Ready returns the reasons why the server should now receive no requests. If writes is
// set, it also returns the reasons why the server should receive no changes.
func (h *Health) Ready(writes bool) []Reason {
	phase, s := h.look()
	switch phase {
	case Starting:
		return h.reasons(text{"ready", "process", fmt.Errorf("the server starts")})
	case Stopping:
		return h.reasons(text{"ready", "process", fmt.Errorf("the server stops")})
	}
	all := []text{{"ready", "store", s.Stale}}
	if s.Broken != nil {
		all = []text{{"ready", "store", s.Broken}}
	}
	if writes {
		all = append(all, text{"ready", "writes", s.Refusal})
	}
	return h.reasons(all...)
}

// IsLive reports whether Live returns no reason.
func (h *Health) IsLive() bool { return len(h.Live()) == 0 }

// IsReady reports whether Ready returns no reason.
func (h *Health) IsReady(writes bool) bool { return len(h.Ready(writes)) == 0 }

// look returns the phase and the status of the store. The status is empty if there is no store,
// or if the process is stopping. If the store does not report its status in time, look returns
// a status which says that the store does not answer.
func (h *Health) look() (Phase, txn.Status) {
	h.mu.Lock()
	phase, store := h.phase, h.store
	h.mu.Unlock()
	if store == nil || phase == Stopping {
		return phase, txn.Status{}
	}
	answer := make(chan txn.Status, 1)
	go func() { answer <- store() }()
	t := time.NewTimer(h.asking)
	defer t.Stop()
	select {
	case s := <-answer:
		return phase, s
	case <-t.C:
		err := fmt.Errorf("the store does not answer")
		return phase, txn.Status{Stale: err, Refusal: err}
	}
}

// A text is a possible reason.
type text struct {
	of, what string
	err      error // nil if the reason does not apply now
}

// reasons returns a Reason for each text that has an error, with the time when the reason
// was first seen.
func (h *Health) reasons(texts ...text) []Reason {
	h.mu.Lock()
	defer h.mu.Unlock()
	rs := []Reason{}
	for _, x := range texts {
		key := x.of + " " + x.what
		if x.err == nil {
			delete(h.since, key)
			continue
		}
		if h.since[key].IsZero() {
			h.since[key] = time.Now().UTC()
		}
		rs = append(rs, Reason{x.what, h.since[key], x.err.Error()})
	}
	return rs
}
