package txn

import (
	"context"
	"sync/atomic"
	"time"
)

// A backoff decides how often the heads are read. While there are commits or requests for
// snapshots, the heads are read at the busy interval. Otherwise the interval doubles with
// each reading, up to the idle interval. A request for a snapshot ends an idle pause.
type backoff struct {
	busy, idle time.Duration

	// asked is the latest time passed to ask. It is time to read the heads if the last
	// reading began before asked.
	asked  atomic.Int64
	bell   chan struct{} // signals a change of asked
	wanted atomic.Bool   // a snapshot was requested, more than busy/2 after the last reading
	dozing atomic.Bool   // the interval is longer than busy
	read   broadcast     // signals each reading

	// Only openCluster and run use the following fields.
	interval time.Duration
	next     time.Time
	begun    time.Duration // time at which the last reading began, on the engine's clock
}

// idlePoll bounds the time between two readings of the heads on an idle server, unless
// Options.Poll is longer.
const idlePoll = time.Second

func newBackoff(o *Options) *backoff {
	idle := max(o.Poll, min(idlePoll, o.Lease/8))
	return &backoff{busy: o.Poll, idle: idle, bell: make(chan struct{}, 1), interval: o.Poll}
}

// ask requests a reading of the heads that begins no earlier than the given time on the
// engine's clock. Many callers can share one reading.
func (p *backoff) ask(since time.Duration) {
	for old := p.asked.Load(); old < int64(since) && !p.asked.CompareAndSwap(old, int64(since)); {
		old = p.asked.Load()
	}
	select {
	case p.bell <- struct{}{}:
	default:
	}
}

// due reports whether it is time to read the heads.
func (p *backoff) due() bool {
	return p.asked.Load() > int64(p.begun) || !time.Now().Before(p.next)
}

// await returns when it is time to read the heads. If hurry is set, await waits for at
// most the busy interval.
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

// done records that the heads were read, and whether they showed new commits.
func (p *backoff) done(changed bool) {
	if p.interval = min(2*p.interval, p.idle); changed || p.wanted.Swap(false) {
		p.interval = p.busy
	}
	p.dozing.Store(p.interval > p.busy)
	p.next = time.Now().Add(p.interval)
	p.read.Broadcast()
}

// failed records that an attempt to read the heads failed.
func (p *backoff) failed() {
	p.interval = p.busy
	p.dozing.Store(false)
	p.next = time.Now().Add(p.interval)
}
