package txn

import (
	"context"
	"sync/atomic"
	"time"
)

// A backoff says how often the heads are read. Where commits come in or snapshots
// are asked for they are read all the time; where nothing happens less and less
// often, down to once in idle. Who then asks for a snapshot wakes it up.
type backoff struct {
	busy, idle time.Duration

	asked  atomic.Int64  // the heads are to be read, if they were not since then
	bell   chan struct{} // somebody asked
	wanted atomic.Bool   // somebody asked for a snapshot since they were read
	dozing atomic.Bool   // they are read less often than when busy
	read   broadcast     // they were

	// Owned by run.
	interval time.Duration
	next     time.Time
	begun    time.Duration // when the last reading began, on the engine's clock
}

// idlePoll bounds how long the heads are not read where nothing happens.
const idlePoll = time.Second

func newBackoff(o *Options) *backoff {
	idle := max(o.Poll, min(idlePoll, o.Lease/8))
	return &backoff{busy: o.Poll, idle: idle, bell: make(chan struct{}, 1), interval: o.Poll}
}

// ask has the heads read soon, unless they were since a time on the engine's
// clock: many may ask for one reading.
func (p *backoff) ask(since time.Duration) {
	for old := p.asked.Load(); old < int64(since) && !p.asked.CompareAndSwap(old, int64(since)); {
		old = p.asked.Load()
	}
	select {
	case p.bell <- struct{}{}:
	default:
	}
}

// due reports whether the heads are to be read now.
func (p *backoff) due() bool {
	return p.asked.Load() > int64(p.begun) || !time.Now().Before(p.next)
}

// await returns when the heads are to be read. Who is in a hurry does not doze.
func (p *backoff) await(ctx context.Context, hurry bool) error {
	end := p.next
	if hurry {
		end = earliest(end, time.Now().Add(p.busy))
	}
	for p.asked.Load() <= int64(p.begun) && time.Now().Before(end) {
		if err := awaitEvent(ctx, p.bell, time.Until(end)); err != nil {
			return err
		}
	}
	return canceled(ctx)
}

// done notes that the heads were read, and whether they showed commits.
func (p *backoff) done(changed bool) {
	if p.interval = min(2*p.interval, p.idle); changed || p.wanted.Swap(false) {
		p.interval = p.busy
	}
	p.dozing.Store(p.interval > p.busy)
	p.next = time.Now().Add(p.interval)
	p.read.Broadcast()
}

// failed notes that they could not be read.
func (p *backoff) failed() {
	p.interval = p.busy
	p.dozing.Store(false)
	p.next = time.Now().Add(p.interval)
}
