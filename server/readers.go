package server

import (
	"bufio"
	"io"
	"sync"
)

// A connection at rest waits with few octets of buffer: what ten thousand of them
// hold, and the collector's room for as much again, was most of the server's
// memory. Who sends more at once gets one of busyReaders until it sends little.
const (
	fewOctets  = 512     // some searches
	busyOctets = 8 << 10 // some fifty
)

var busyReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, busyOctets) }}

// wait waits for what comes next. Nothing is buffered.
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

// readMuch reads through a large buffer from now on, which has what the small one
// had then.
func (c *conn) readMuch() error {
	c.in = busyReaders.Get().(*bufio.Reader)
	c.in.Reset(c.few)
	_, err := c.in.Peek(min(1, c.few.Buffered()))
	return err
}

// readFew lets go of the large buffer, which must be empty.
func (c *conn) readFew() {
	if c.in == c.few {
		return
	}
	c.in.Reset(nil)
	busyReaders.Put(c.in)
	c.in = c.few
}

// unread is how many octets are there that were not read as messages.
func (c *conn) unread() int {
	if c.in == c.few {
		return c.few.Buffered()
	}
	return c.in.Buffered() + c.few.Buffered()
}

// readFrom begins to read from another source and returns what was read ahead from
// the one before.
func (c *conn) readFrom(r io.Reader) (ahead []byte) {
	ahead = make([]byte, c.unread())
	io.ReadFull(c.in, ahead) // it is there
	c.readFew()
	c.few.Reset(r)
	return ahead
}
