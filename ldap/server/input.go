package server

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/wire"
)

// firstPiece is the number of octets that are allocated for a long message at first.
// More memory is allocated only after so many octets have arrived. Otherwise a client
// that sends only the six octets of a header could make the server allocate 16 MiB.
const firstPiece = smallSize

// maxHeader is the maximum length of identifier and length octets together (package ber).
const maxHeader = 10

// message reads one LDAPMessage. The memory is newly allocated, because the decoded
// message refers to it. Before waiting for input, message writes the buffered output.
func (c *conn) message() ([]byte, error) {
	if b, err := c.buffered(); b != nil || err != nil {
		return b, err
	}
	if err := c.out.flush(); err != nil {
		return nil, err
	}
	if c.in.Buffered() == 0 {
		if err := c.wait(); err != nil {
			return nil, err
		}
		if b, err := c.buffered(); b != nil || err != nil {
			return b, err
		}
	}
	return c.rest()
}

// buffered returns the message at the start of the buffer, or nil if the message is
// incomplete.
func (c *conn) buffered() ([]byte, error) {
	have, _ := c.in.Peek(c.in.Buffered())
	size, err := c.size(have)
	if err != nil || size == 0 || size > len(have) {
		return nil, err
	}
	b := make([]byte, size)
	copy(b, have)
	c.in.Discard(size)
	c.burst += size
	return b, nil
}

func (c *conn) size(b []byte) (int, error) {
	size, err := wire.Size(b)
	switch o := c.server.options(); {
	case err != nil:
		return 0, err
	case size > o.MaxMessage:
		return 0, &wire.Error{Err: fmt.Errorf("it has %d octets, and the limit is %d", size, o.MaxMessage)}
	case size > o.MaxUnbound && !c.bound.Load():
		return 0, &wire.Error{Err: fmt.Errorf("it has %d octets, and the limit before a bind is %d", size, o.MaxUnbound)}
	}
	return size, nil
}

// rest reads a message that is not completely in the buffer. The message has begun, so
// its end must arrive within the ReadTimeout.
func (c *conn) rest() ([]byte, error) {
	c.deadline(time.Now().Add(c.server.options().ReadTimeout))
	defer c.deadline(time.Time{})
	size, err := c.header()
	if err != nil {
		return nil, c.truncated(err)
	}
	c.burst += size
	b := make([]byte, 0, min(size, firstPiece))
	for len(b) < size {
		if len(b) == cap(b) {
			more := min(size, 2*cap(b))
			if r := c.drawMessage(more - cap(b)); r != nil {
				return nil, c.skip(b, size, r)
			}
			b = append(make([]byte, 0, more), b...)
		}
		n, err := io.ReadFull(c.in, b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err != nil {
			return nil, c.truncated(err)
		}
	}
	return b, nil
}

// skip reads the rest of a message for which there is no memory. It returns the refusal of the
// message.
func (c *conn) skip(b []byte, size int, r *op.Result) error {
	if _, err := io.CopyN(io.Discard, c.in, int64(size-len(b))); err != nil {
		return c.truncated(err)
	}
	return refused(b, r)
}

// header waits for the identifier and length octets of a message. It returns the length
// of the whole message.
func (c *conn) header() (int, error) {
	for n := c.in.Buffered(); ; n++ {
		b, err := c.in.Peek(min(n, maxHeader))
		if err != nil {
			return 0, err
		}
		if size, err := c.size(b); size > 0 || err != nil {
			return size, err
		}
	}
}

// truncated returns the error for a message whose rest did not arrive.
func (c *conn) truncated(err error) error {
	switch {
	case c.ending.Load() != nil:
		return errEnding
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &wire.Error{Err: errors.New("the connection ends within it")}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &wire.Error{Err: fmt.Errorf("its end did not come within %v", c.server.options().ReadTimeout)}
	}
	return err
}

// deadline sets the deadline for reading. It does nothing after stop has set a deadline.
func (c *conn) deadline(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending.Load() == nil {
		c.nc.SetReadDeadline(t)
	}
}
