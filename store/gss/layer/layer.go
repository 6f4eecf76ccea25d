// Package layer frames the octets of a connection with a security layer of SASL: each token is preceded by its length
// (RFC 4422, section 3.7).
package layer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A Protection signs or seals what is sent, and checks and opens what is received.
type Protection interface {
	Wrap(payload []byte) (token []byte, err error)
	Unwrap(token []byte) (payload []byte, err error)
}

// A Stream is a connection with a security layer. One goroutine may read while another writes.
type Stream struct {
	R     io.Reader
	W     io.Writer
	P     Protection
	Seals bool // P seals, and does not only sign
	Room  int  // how many octets of payload the other side accepts in one token
	Most  int  // how many octets this side accepts in one token
	// Begin is called before a token is read that has more than Kept octets, and may refuse it; nil: none is refused.
	Begin func(octets int) error

	in   bytes.Buffer // a token
	rest []byte       // what was unwrapped and not read
}

func (s *Stream) Read(b []byte) (int, error) {
	for len(s.rest) == 0 {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// next reads and unwraps a frame.
func (s *Stream) next() error {
	var size [4]byte
	if _, err := io.ReadFull(s.R, size[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(size[:])
	if int64(n) > int64(s.Most) {
		return fmt.Errorf("security layer: a frame of %d octets, and the limit is %d", n, s.Most)
	}
	if s.in.Cap() > 2*Kept {
		s.in = bytes.Buffer{}
	}
	if s.Begin != nil && n > Kept {
		if err := s.Begin(int(n)); err != nil {
			return err
		}
	}
	s.in.Reset() // grows as octets arrive
	if _, err := io.CopyN(&s.in, s.R, int64(n)); errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	} else if err != nil {
		return err
	}
	var err error
	if s.rest, err = s.P.Unwrap(s.in.Bytes()); err != nil {
		return fmt.Errorf("security layer: %w", err)
	}
	return nil
}

// Kept is the size of tokens up to which a Stream keeps its buffer.
const Kept = 64 << 10

func (s *Stream) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		part := b[:min(len(b), s.Room)]
		token, err := s.P.Wrap(part)
		if err != nil {
			return n, err
		}
		if _, err := s.W.Write(Append(make([]byte, 0, 4+len(token)), token)); err != nil {
			return n, err
		}
		n, b = n+len(part), b[len(part):]
	}
	return n, nil
}

// Append appends a token and its length to b.
func Append(b, token []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(token))), token...)
}
