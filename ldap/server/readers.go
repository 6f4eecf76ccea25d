package server

import (
	"bufio"
	"io"
	"sync"
)

// An idle connection waits with a small buffer. Large buffers of ten thousand idle
// connections, and as much memory again for the garbage collector, took most of the
// server's memory. A connection that receives more octets at once uses one of busyReaders
// until it receives few octets again.
const (
	fewOctets  = 512     // enough for a few searches
	busyOctets = 8 << 10 // enough for about fifty searches
)

var busyReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, busyOctets) }}

// wait waits for the next input. The buffers must be empty.
func (c *conn) wait() error {
	if c.burst <= fewOctets {
		c.readFew()
	}
	c.burst = 0
	if _, err := c.in.Peek(1); err != nil {
		return err
	}
	if c.in == c.few && c.few.Buffered() == fewOctets {
		return c.readMuch()
	}
	return nil
}

// readMuch makes the connection read through a large buffer. The large buffer takes over
// the contents of the small buffer.
func (c *conn) readMuch() error {
	c.in = busyReaders.Get().(*bufio.Reader)
	c.in.Reset(c.few)
	_, err := c.in.Peek(min(1, c.few.Buffered()))
	return err
}

// readFew releases the large buffer, which must be empty.
func (c *conn) readFew() {
	if c.in == c.few {
		return
	}
	c.in.Reset(nil)
	busyReaders.Put(c.in)
	c.in = c.few
}

// unread returns the number of octets in the input buffers.
func (c *conn) unread() int {
	if c.in == c.few {
		return c.few.Buffered()
	}
	return c.in.Buffered() + c.few.Buffered()
}

// readFrom switches to another source, and returns the octets that were read ahead from
// the old source.
func (c *conn) readFrom(r io.Reader) (ahead []byte) {
	ahead = make([]byte, c.unread())
	io.ReadFull(c.in, ahead) // cannot fail, because the octets are buffered
	c.readFew()
	c.few.Reset(r)
	return ahead
}
