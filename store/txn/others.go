package txn

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
)

// The type others watches the slots of other servers. It records for how long each server has
// been silent, recovers the slots of silent servers, and frees closed slots.
type others struct {
	e          *cluster
	seen       map[revision.Slot]observation // only openCluster and run use it
	cleaning   atomic.Bool
	recovering atomic.Bool
	helping    atomic.Bool
}

// An observation is the content of a slot's cell and the time since which the content has
// not changed.
type observation struct {
	raw   string
	since time.Time
}

// look records which cells have changed since the last reading of the heads.
func (o *others) look(h *journal.Heads) {
	now := time.Now()
	for _, s := range h.Slots() {
		if raw := string(h.Raw(s)); o.seen[s].raw != raw {
			o.seen[s] = observation{raw, now}
		}
	}
	maps.DeleteFunc(o.seen, func(s revision.Slot, _ observation) bool { return h.Raw(s) == nil })
}

// recoverSilent recovers, in the background, the slots of servers that have been silent
// for a lease. Recovery decides their pending commits and closes the slots.
func (o *others) recoverSilent() {
	e := o.e
	if e.db.o.ReadOnly {
		return
	}
	var silent []revision.Slot
	for _, s := range e.heads.Slots() {
		if c := e.heads.Cell(s); holds(c) && time.Since(o.seen[s].since) >= e.db.o.Lease {
			e.db.o.Log.Info("recovering the slot of a silent server", "slot", s, "owner", c.Owner)
			silent = append(silent, s)
		}
	}
	if len(silent) == 0 || !o.recovering.CompareAndSwap(false, true) {
		return
	}
	heads := e.heads
	e.done.Go(func() {
		defer o.recovering.Store(false)
		for _, s := range silent {
			if _, err := e.db.log.Recover(e.background, s, heads.Raw(s)); err != nil && e.background.Err() == nil {
				e.db.o.Log.Warn("recovering", "slot", s, "error", err)
			}
		}
	})
}

// startCleanUp rolls old aborted commits back a second time, and frees the closed slots of
// former holders. It does so in the background, once Options.InFlight has passed and no
// late write can still arrive.
func (o *others) startCleanUp(w *writer) {
	inFlight := w.e.db.o.InFlight
	var closed []revision.Slot
	for _, s := range w.e.heads.Slots() {
		if c := w.e.heads.Cell(s); c.Kind == revision.Server && c.State == revision.Closed && time.Since(o.seen[s].since) > inFlight { //rule:R4-landed
			closed = append(closed, s)
		}
	}
	w.mu.Lock()
	var old []abortedCommit
	for _, v := range w.aborted {
		if time.Since(v.since) > inFlight {
			old = append(old, v)
		}
	}
	w.mu.Unlock()
	if len(closed)+len(old) == 0 || !o.cleaning.CompareAndSwap(false, true) {
		return
	}
	heads := w.e.heads
	w.e.done.Go(func() {
		defer o.cleaning.Store(false)
		w.cleanUp(heads, closed, old)
	})
}

func (w *writer) cleanUp(heads *journal.Heads, slots []revision.Slot, old []abortedCommit) {
	ctx := w.e.background
	for _, v := range old {
		if ctx.Err() != nil {
			return
		}
		if err := w.e.db.log.Rollback(ctx, v.rec); err != nil {
			w.e.db.o.Log.Warn("cleaning up", "revision", v.rec.Revision.String(), "error", err)
			continue
		}
		w.mu.Lock()
		w.aborted = slices.DeleteFunc(w.aborted, func(x abortedCommit) bool { return x.rec == v.rec })
		w.mu.Unlock()
	}
	for _, s := range slots {
		if err := w.e.db.log.CleanUp(ctx, s, heads.Raw(s)); err != nil {
			w.e.db.o.Log.Warn("cleaning up", "slot", s, "error", err)
		}
	}
}
