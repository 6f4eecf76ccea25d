package server

import (
	"bufio"
	"io"
	"sync"
)

// An idle connection waits with a small buffer. The large ones of ten thousand idle
// connections, and as much again for the garbage collector, were most of the server's
// memory. A connection that receives more at once gets one of busyReaders until it
// receives little.
const (
	fewOctets  = 512     // some searches
	busyOctets = 8 << 10 // some fifty
)

var busyReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, busyOctets) }}

// wait waits for the next input. Nothing may be buffered.
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

// readMuch reads through a large buffer from now on. That takes over what the small one
// holds.
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

// unread returns the number of octets read from the connection but not yet as messages.
func (c *conn) unread() int {
	if c.in == c.few {
		return c.few.Buffered()
	}
	return c.in.Buffered() + c.few.Buffered()
}

// readFrom switches to another source, and returns what was read ahead from the old one.
func (c *conn) readFrom(r io.Reader) (ahead []byte) {
	ahead = make([]byte, c.unread())
	io.ReadFull(c.in, ahead) // cannot fail: it is buffered
	c.readFew()
	c.few.Reset(r)
	return ahead
}
