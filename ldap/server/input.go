package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/ber"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/wire"
)

// firstPiece is the number of octets that are allocated for a long message at first.
// More memory is allocated only after so many octets have arrived. Otherwise a client
// that sends only the six octets of a header could make the server allocate 16 MiB.
const firstPiece = smallSize

// maxHeader is the maximum length of identifier and length octets together (package ber).
const maxHeader = 10

// A connection waits with a small buffer, and parked (see [conn.park]) with none. Large buffers of ten
// thousand connections, and as much memory again for the garbage collector, took most of the
// server's memory. A connection that receives more octets at once uses one of busyReaders
// until it receives few octets again.
const (
	fewOctets  = 512     // enough for a few searches
	busyOctets = 8 << 10 // enough for about fifty searches
)

var busyReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, busyOctets) }}

// An input reads and decodes the messages of a connection. Only the reader uses it, except requests,
// stop and ending.
type input struct {
	conn *conn

	// The field from is the buffer few, or a larger buffer from busyReaders that reads from few.
	from   *bufio.Reader
	few    *bufio.Reader // small buffer over the connection; nil while the connection is parked
	burst  int           // octets of messages since the reader last waited
	octets int           // octets of the last message read
	drawn  int64         // memory drawn for the last message read, unless an operation has it

	requests atomic.Uint64 // number of requests read so far

	mu      sync.Mutex             // held while the deadline for reading is set
	ending  atomic.Pointer[ending] // why the reader has to end the connection; set with mu
	timed   bool                   // the reader has set a deadline; guarded by mu
	parking bool                   // the connection is parked, or will be when its reader waits; guarded by mu
}

// decoded reads and decodes one message.
func (in *input) decoded() (*op.Message, error) {
	b, err := in.message()
	if err != nil {
		return nil, err
	}
	in.requests.Add(1)
	in.octets = len(b)
	in.conn.traffic.Received.Add(len(b))
	if err := in.drawParts(b); err != nil {
		return nil, err
	}
	return wire.Decode(b)
}

// message reads one LDAPMessage. The memory is newly allocated, because the decoded
// message refers to it. Before waiting for input, message writes the buffered output.
func (in *input) message() ([]byte, error) {
	if b, err := in.buffered(); b != nil || err != nil {
		return b, err
	}
	if err := in.conn.out.flush(); err != nil {
		return nil, err
	}
	if in.from.Buffered() == 0 {
		if err := in.wait(); err != nil {
			return nil, err
		}
		if b, err := in.buffered(); b != nil || err != nil {
			return b, err
		}
	}
	return in.rest()
}

// buffered returns the message at the start of the buffer, or nil if the message is
// incomplete.
func (in *input) buffered() ([]byte, error) {
	have, _ := in.from.Peek(in.from.Buffered())
	size, err := in.size(have)
	if err != nil || size == 0 || size > len(have) {
		return nil, err
	}
	b := make([]byte, size)
	copy(b, have)
	in.from.Discard(size)
	in.burst += size
	return b, nil
}

func (in *input) size(b []byte) (int, error) {
	size, err := wire.Size(b)
	switch o := in.conn.server.options(); {
	case err != nil:
		return 0, err
	case size > o.MaxMessage:
		return 0, &wire.Error{Err: fmt.Errorf("it has %d octets, and the limit is %d", size, o.MaxMessage)}
	case size > o.MaxUnbound && !in.conn.bound.Load():
		return 0, &wire.Error{Err: fmt.Errorf("it has %d octets, and the limit before a bind is %d", size, o.MaxUnbound)}
	}
	return size, nil
}

// rest reads a message that is not completely in the buffer. The message has begun, so
// its end must arrive within the ReadTimeout.
func (in *input) rest() ([]byte, error) {
	in.deadline(time.Now().Add(in.conn.server.options().ReadTimeout))
	defer in.deadline(time.Time{})
	size, err := in.header()
	if err != nil {
		return nil, in.truncated(err)
	}
	in.burst += size
	b := make([]byte, 0, min(size, firstPiece))
	for len(b) < size {
		if len(b) == cap(b) {
			more := min(size, 2*cap(b))
			if r := in.drawMessage(more - cap(b)); r != nil {
				return nil, in.skip(b, size, r)
			}
			b = append(make([]byte, 0, more), b...)
		}
		n, err := io.ReadFull(in.from, b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err != nil {
			return nil, in.truncated(err)
		}
	}
	return b, nil
}

// skip reads the rest of a message for which there is no memory. It returns the refusal of the
// message.
func (in *input) skip(b []byte, size int, r *op.Result) error {
	if _, err := io.CopyN(io.Discard, in.from, int64(size-len(b))); err != nil {
		return in.truncated(err)
	}
	return refused(b, r)
}

// header waits for the identifier and length octets of a message. It returns the length
// of the whole message.
func (in *input) header() (int, error) {
	for n := in.from.Buffered(); ; n++ {
		b, err := in.from.Peek(min(n, maxHeader))
		if err != nil {
			return 0, err
		}
		if size, err := in.size(b); size > 0 || err != nil {
			return size, err
		}
	}
}

// truncated returns the error for a message whose rest did not arrive.
func (in *input) truncated(err error) error {
	switch {
	case in.ending.Load() != nil:
		return errEnding
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &wire.Error{Err: errors.New("the connection ends within it")}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &wire.Error{Err: fmt.Errorf("its end did not come within %v", in.conn.server.options().ReadTimeout)}
	}
	return err
}

// deadline sets the deadline for reading. It does nothing after stop has set a deadline.
func (in *input) deadline(t time.Time) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.timed, in.parking = !t.IsZero(), false
	if in.ending.Load() == nil {
		in.conn.nc.SetReadDeadline(t)
	}
}

// stop makes the reader end the connection soon, and wakes a reader that waits for input. It returns
// false if the reader has a reason to end the connection already.
func (in *input) stop(e *ending) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.ending.Load() != nil {
		return false
	}
	in.ending.Store(e)
	in.conn.nc.SetReadDeadline(time.Unix(1, 0))
	return true
}

// ended makes the reason why the connection ends final. It is that of stop, or the given error.
func (in *input) ended(err error) *ending {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.ending.Load() == nil {
		in.ending.Store(endingOf(err))
	}
	return in.ending.Load()
}

// wait waits for the next input. The buffers must be empty.
func (in *input) wait() error {
	if in.burst <= fewOctets {
		in.readFew()
	}
	in.burst = 0
	if _, err := in.from.Peek(1); err != nil {
		if in.parks(err) {
			return errPark
		}
		return err
	}
	if in.from == in.few && in.few.Buffered() == fewOctets {
		return in.readMuch()
	}
	return nil
}

// readMuch makes the connection read through a large buffer. The large buffer takes over
// the contents of the small buffer.
func (in *input) readMuch() error {
	in.from = busyReaders.Get().(*bufio.Reader)
	in.from.Reset(in.few)
	_, err := in.from.Peek(min(1, in.few.Buffered()))
	return err
}

// readFew releases the large buffer, which must be empty.
func (in *input) readFew() {
	if in.from == in.few {
		return
	}
	in.from.Reset(nil)
	busyReaders.Put(in.from)
	in.from = in.few
}

// unread returns the number of octets in the input buffers.
func (in *input) unread() int {
	if in.from == in.few {
		return in.few.Buffered()
	}
	return in.from.Buffered() + in.few.Buffered()
}

// readFrom switches to another source, and returns the octets that were read ahead from
// the old source.
func (in *input) readFrom(r io.Reader) (ahead []byte) {
	ahead = make([]byte, in.unread())
	io.ReadFull(in.from, ahead) // cannot fail, because the octets are buffered
	in.readFew()
	in.few.Reset(r)
	return ahead
}

// drawMessage draws memory for the message that the reader reads.
func (in *input) drawMessage(n int) *op.Result {
	r := in.conn.memory.draw(int64(n))
	if r == nil {
		in.drawn += int64(n)
	}
	return r
}

// forget gives back the memory of the message that was read last, unless an operation has it.
func (in *input) forget() {
	in.conn.memory.giveBack(in.drawn)
	in.drawn = 0
}

// drawParts draws memory for the parts into which a message will be decoded.
func (in *input) drawParts(b []byte) error {
	if len(b) <= smallSize {
		return nil
	}
	if r := in.drawMessage(partSize * ber.Count(b)); r != nil {
		return refused(b, r)
	}
	return nil
}

// refused returns the refusal of a message of which the beginning is known.
func refused(b []byte, r *op.Result) error {
	if m := wire.Head(b); m != nil {
		return &wire.Refusal{Message: m, Result: r}
	}
	return &wire.Error{Err: r}
}
