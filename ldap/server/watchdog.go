package server

import (
	"sync"
	"time"
)

// tickEvery is how long a reader may run one operation, and how long an entry may stay in
// the buffer. Either may last up to twice as long.
const tickEvery = 10 * time.Millisecond

// The type ticks calls conn.tick soon after a call of conn.arm. One timer serves all
// connections. With a timer for each connection, 16 busy connections spent about 1 us of every
// request on waking threads.
type ticks struct {
	mu    sync.Mutex
	timer *time.Timer
	armed []*conn
	spare []*conn // memory of an earlier armed slice
}

func (t *ticks) add(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.armed = append(t.armed, c)
	switch {
	case len(t.armed) > 1:
	case t.timer == nil:
		t.timer = time.AfterFunc(tickEvery, t.fire)
	default:
		t.timer.Reset(tickEvery)
	}
}

func (t *ticks) fire() {
	t.mu.Lock()
	armed := t.armed
	t.armed, t.spare = t.spare[:0], nil
	t.mu.Unlock()
	for i, c := range armed {
		c.tick()
		armed[i] = nil
	}
	t.mu.Lock()
	t.spare = armed[:0]
	t.mu.Unlock()
}

// arm makes the ticker call tick soon.
func (c *conn) arm() {
	if !c.armed.Load() && !c.armed.Swap(true) {
		c.server.ticks.add(c)
	}
}

// tick starts a new reader if the present reader takes long, and starts the writing of
// buffered output. tick does not wait, because other connections wait for their ticks.
func (c *conn) tick() {
	c.armed.Store(false)
	stuck, again := c.ops.tick()
	if stuck {
		go c.read()
	}
	waiting, known := c.out.waiting()
	if waiting {
		go c.flush()
	}
	if again || !known {
		c.arm()
	}
}
