// Package zookeeper is what is between gohbase's client of ZooKeeper and the network: SASL, which that client lacks, and a
// stand-in, which answers instead of ZooKeeper (docs/decisions/0066-connection-registry.md).
//
// The protocol of ZooKeeper is a frame from each side that begins a session, and then a frame for each request and for each
// reply. A frame is its length in four octets and that many octets.
package zookeeper

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/seed-4dac0d86/ldapd/store/gss/layer"
	"github.com/seed-4dac0d86/ldapd/store/hbase/internal/krb"
)

// Codes of requests.
const (
	codeGet   = 4
	codeSASL  = 102
	codeClose = -11
)

// maxFrame is the limit of a frame by default, on both sides (jute.maxbuffer).
const maxFrame = 1 << 20

// errFrame is the error for a frame that is not of this protocol.
var errFrame = errors.New("not ZooKeeper's protocol")

func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxFrame {
		return nil, fmt.Errorf("%w: a frame of %d octets", errFrame, n)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(r, b)
	return b, err
}

func writeFrame(w io.Writer, b []byte) error {
	_, err := w.Write(layer.Append(nil, b))
	return err
}

// buffer returns the octets at the beginning of b that follow their length. It returns nil for the length -1.
func buffer(b []byte) ([]byte, error) {
	if len(b) < 4 {
		return nil, errFrame
	}
	n := int32(binary.BigEndian.Uint32(b))
	if n == -1 {
		return nil, nil
	}
	if n < 0 || int64(n) > int64(len(b)-4) {
		return nil, errFrame
	}
	return b[4 : 4+n], nil
}

// A conn is a connection on which SASL comes before the first request of its user.
type conn struct {
	net.Conn
	exchange func(ask func(token []byte) ([]byte, error)) error
	begun    bool
	rest     []byte // of the frame that began the session
}

// Authenticate returns a connection for a client that has not written yet. When the server has begun the session, it calls
// exchange, which authenticates by tokens: ask sends one, and returns the answer to it. The client gets the server's first
// frame when exchange has returned.
func Authenticate(c net.Conn, exchange func(ask func(token []byte) ([]byte, error)) error) net.Conn {
	return &conn{Conn: c, exchange: exchange}
}

func (c *conn) Read(b []byte) (int, error) {
	if !c.begun {
		c.begun = true
		first, err := readFrame(c.Conn)
		if err != nil {
			return 0, err
		}
		if err := c.exchange(c.ask); err != nil {
			c.Close()
			return 0, err
		}
		c.rest = layer.Append(nil, first)
	}
	if len(c.rest) == 0 {
		return c.Conn.Read(b)
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *conn) ask(token []byte) ([]byte, error) {
	if err := writeFrame(c.Conn, layer.Append([]byte{0, 0, 0, 1, 0, 0, 0, codeSASL}, token)); err != nil {
		return nil, err
	}
	b, err := readFrame(c.Conn)
	if err != nil {
		return nil, fmt.Errorf("ZooKeeper ends the connection: %w", err)
	}
	if len(b) < replyHeader {
		return nil, errFrame
	}
	if code := int32(binary.BigEndian.Uint32(b[12:])); code != 0 {
		return nil, krb.Refusal{Class: "ZooKeeper", Text: fmt.Sprintf("error %d", code)}
	}
	return buffer(b[replyHeader:])
}

// replyHeader is the length of the number of a request (4 octets), of a transaction (8), and of the code of an error (4).
const replyHeader = 16

// stat is the length of what ZooKeeper says of a node beside its data.
const stat = 68

// StandIn answers a client of ZooKeeper, and closes the connection when it ends. What get returns are the data of a
// node. If it returns an error, the connection ends.
func StandIn(c net.Conn, get func(path string) ([]byte, error)) {
	defer c.Close()
	// Version (4 octets), newest transaction (8), and time limit (4). The answer has the same version and time limit, the
	// session's number and its password.
	hello, err := readFrame(c)
	if err != nil || len(hello) < 16 {
		return
	}
	answer := append(hello[:4:4], hello[12:16]...)
	answer = layer.Append(binary.BigEndian.AppendUint64(answer, 1), make([]byte, 16))
	for err = writeFrame(c, answer); err == nil; err = writeFrame(c, answer) {
		request, err := readFrame(c)
		if err != nil || len(request) < 8 {
			return
		}
		answer = append(request[:4:4], make([]byte, replyHeader-4)...)
		switch int32(binary.BigEndian.Uint32(request[4:])) {
		case codeGet:
			path, err := buffer(request[8:])
			if err != nil {
				return
			}
			data, err := get(string(path))
			if err != nil {
				return
			}
			answer = append(layer.Append(answer, data), make([]byte, stat)...)
		case codeClose:
			_ = writeFrame(c, answer)
			return
		}
	}
}
