package server

import (
	"bytes"
	"io"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/gss/layer"
)

// protect begins a security layer of SASL (RFC 4422, section 3.7). The answer to the Bind is the last message without it.
func (c *conn) protect(s *layer.Stream) error {
	if err := c.out.flush(); err != nil {
		return err
	}
	under := c.underLayer()
	ahead := c.in.readFrom(s)
	s.R, s.W = io.MultiReader(bytes.NewReader(ahead), under), under
	s.Most = c.server.options().MaxMessage + layer.Kept
	s.Begin = func(octets int) error {
		if r := c.in.drawMessage(octets); r != nil {
			return r
		}
		return nil
	}
	c.info.layer.Store(s)
	c.in.deadline(time.Time{}) // perhaps the reaper has just set one, to park the connection
	c.out.secure(s, nil)
	return nil
}

// underLayer returns the connection without the security layer of SASL.
func (c *conn) underLayer() io.ReadWriter {
	if c.tls != nil {
		return c.tls
	}
	return &c.nc
}
