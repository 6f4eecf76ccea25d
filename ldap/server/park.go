package server

import (
	"bufio"
	"errors"
	"os"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/server/peer"
)

// Most connections of a directory are silent most of the time. A silent connection is parked: it keeps no
// buffers, and a new goroutine waits for its input. Requests make the stack of a reader grow, and the runtime does
// not shrink a stack to 2 KiB while somebody waits for a socket on it. Active connections are not parked, so
// requests do not pay for it.

const (
	parkAfter   = 2  // a connection is parked after so many looks of the reaper without a request
	parksAtOnce = 64 // after so many, the reaper lets other goroutines run
)

// spareReaders are small buffers of parked connections. A sync.Pool would keep those of ten thousand connections
// for two garbage collections.
var spareReaders = make(chan *bufio.Reader, 16)

var errPark = errors.New("the connection is to be parked")

// park makes the reader park the connection when the reader waits for the next message. It returns false if there
// is nothing to do, or if the reader does not wait for a whole message. It does not park connections with a security
// layer of SASL, which cannot go on with a frame after a deadline.
func (in *input) park() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.ending.Load() != nil || in.timed || in.parking || in.conn.info.Layer() != nil {
		return false
	}
	in.parking = true
	in.conn.nc.SetReadDeadline(time.Unix(1, 0))
	return true
}

// parks reports whether an error of reading means that the connection is to be parked, and takes away
// the deadline.
func (in *input) parks(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.ending.Load() != nil || !in.parking {
		return false
	}
	in.conn.nc.SetReadDeadline(time.Time{})
	return true
}

// park gives back what only requests need, and makes a new goroutine wait for input. The caller is
// the reader, must have no input in its buffers, and must return.
func (c *conn) park() {
	c.in.readFew()
	c.in.few.Reset(nil)
	select {
	case spareReaders <- c.in.few:
	default:
	}
	c.in.from, c.in.few = nil, nil
	c.out.mu.Lock()
	c.nc.direct = nil
	c.out.mu.Unlock()
	go c.wait()
}

// wait waits until a parked connection has input, ends, or has to end. Then it is the reader.
func (c *conn) wait() {
	peer.Await(c.nc.Conn)
	c.unpark()
	c.read()
}

// unpark gets what the reader needs.
func (c *conn) unpark() {
	c.in.mu.Lock()
	c.in.parking = false
	c.in.mu.Unlock()
	c.out.mu.Lock()
	c.nc.direct = newDirect(c.nc.Conn)
	c.out.mu.Unlock()
	select {
	case c.in.few = <-spareReaders:
	default:
		c.in.few = bufio.NewReaderSize(nil, fewOctets)
	}
	c.in.few.Reset(c.underLayer())
	c.in.from = c.in.few
}
