package server

import (
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/server/peer"
	"github.com/seed-4dac0d86/ldapd/store/pause"
)

// The server does not record when each request arrives. Connections count their
// activity, and the reaper checks now and then whether the counts have changed.

// A standstill measures how long a count has not changed. Times are those since the reaper began.
type standstill struct {
	count uint64
	since time.Duration // 0: nothing was observed yet
}

func (s *standstill) observe(count uint64, now time.Duration) time.Duration {
	if s.count != count || s.since == 0 {
		s.count, s.since = count, now
	}
	return now - s.since
}

// idleness is the reaper's record of a connection.
type idleness struct {
	requests, writes standstill
	unbound          time.Duration // since when no identity is bound; 0: nothing was observed yet
	binding          *operation    // the Bind that was outstanding
}

// every is the time after which the reaper looks again.
func (o *Options) every() time.Duration {
	return min(min(o.IdleTimeout, o.BindTimeout, o.WriteTimeout)/8+1, time.Second)
}

// reap ends connections that exceed a timeout, and parks those that are silent. It runs until the
// server's context ends.
func (s *Server) reap() {
	for began := time.Now(); ; {
		t := time.NewTimer(s.options().every())
		select {
		case now := <-t.C:
			s.reapIdle(now.Sub(began))
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

func (s *Server) reapIdle(now time.Duration) {
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
	parks := 0
	for _, c := range open {
		if still := c.reapIfIdle(now, patience); still < parkAfter*s.options().every() || !c.in.park() {
			continue
		}
		if parks++; parks%parksAtOnce == 0 {
			pause.For(s.ctx, time.Millisecond)
		}
	}
}

// reapIfIdle ends the connection if it has been idle, unbound or blocked in a write for
// too long. patience is the longest time that a write to the client may take. reapIfIdle returns for how
// long the connection has been idle.
func (c *conn) reapIfIdle(now, patience time.Duration) (still time.Duration) {
	requests, writes := c.in.requests.Load(), c.nc.writes.Load()
	still = c.idle.requests.observe(requests, now)
	outstanding, binding := c.ops.busy()
	// While a Bind runs, nobody reads, so nobody else notices that the client has gone.
	if binding != nil && binding == c.idle.binding && peer.Gone(c.nc.Conn) {
		binding.stop(abandoned)
	}
	c.idle.binding = binding
	if outstanding {
		c.idle.requests.since, still = now, 0
	} else if still >= c.server.options().IdleTimeout {
		c.stop(idleEnd)
	}
	if c.bound.Load() || c.idle.unbound == 0 {
		c.idle.unbound = now
	} else if now-c.idle.unbound >= c.server.options().BindTimeout {
		c.stop(unboundEnd)
	}
	if d := c.idle.writes.observe(writes, now); writes%2 == 1 && d >= patience {
		c.stop(slowEnd)
		c.nc.Close() // ends the write
	}
	return still
}
