package server

import (
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/server/peer"
)

// The server does not record when each request arrives. Connections count their
// activity, and the reaper checks now and then whether the counts have changed.

// A standstill measures how long a count has not changed.
type standstill struct {
	count uint64
	since time.Time
}

func (s *standstill) observe(count uint64, now time.Time) time.Duration {
	if s.count != count || s.since.IsZero() {
		s.count, s.since = count, now
	}
	return now.Sub(s.since)
}

// idleness is the reaper's record of a connection.
type idleness struct {
	requests, writes, unbound standstill
	binding                   *operation // the Bind that was outstanding
}

// reap ends connections that exceed a timeout. It runs until the server's context ends.
func (s *Server) reap() {
	for {
		o := s.options()
		every := min(o.IdleTimeout, o.BindTimeout, o.WriteTimeout)/8 + 1
		t := time.NewTimer(min(every, time.Second))
		select {
		case now := <-t.C:
			s.reapIdle(now)
		case <-s.ctx.Done():
			t.Stop()
			return
		}
	}
}

// maxPatient is the largest number of slow clients for which the whole WriteTimeout
// applies. If there are more slow clients, the timeout is shorter, because each slow
// client has a buffer and a running search.
const maxPatient = 256

func (s *Server) reapIdle(now time.Time) {
	open := s.open()
	patience, slow := s.options().WriteTimeout, 0
	for _, c := range open {
		if c.nc.writes.Load()%2 == 1 {
			slow++
		}
	}
	if slow > maxPatient {
		patience /= 10
	}
	for _, c := range open {
		c.reapIfIdle(now, patience)
	}
}

// reapIfIdle ends the connection if it has been idle, unbound or blocked in a write for
// too long. patience is the longest time that a write to the client may take.
func (c *conn) reapIfIdle(now time.Time, patience time.Duration) {
	requests, writes := c.in.requests.Load(), c.nc.writes.Load()
	still := c.idle.requests.observe(requests, now)
	outstanding, binding := c.ops.busy()
	// While a Bind runs, nobody reads, so nobody else notices that the client has gone.
	if binding != nil && binding == c.idle.binding && peer.Gone(c.nc.Conn) {
		binding.stop(abandoned)
	}
	c.idle.binding = binding
	if outstanding {
		c.idle.requests.since = now
	} else if still >= c.server.options().IdleTimeout {
		c.stop(idleEnd)
	}
	if still := c.idle.unbound.observe(0, now); c.bound.Load() {
		c.idle.unbound.since = now
	} else if still >= c.server.options().BindTimeout {
		c.stop(unboundEnd)
	}
	if d := c.idle.writes.observe(writes, now); writes%2 == 1 && d >= patience {
		c.stop(slowEnd)
		c.nc.Close() // ends the write
	}
}
