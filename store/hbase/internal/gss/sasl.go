package gss

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/go-krb5/krb5/messages"
)

// Preamble is what a client without Kerberos begins with: magic, a version, and the code of simple authentication.
const Preamble = "HBas\x00\x50"

// preamble has the code of Kerberos instead.
const preamble = "HBas\x00\x51"

// toSimple is the length of a token with which a server without Kerberos asks for simple authentication.
const toSimple = -88

// These limit what a server may send before and after it has proved who it is.
const (
	maxToken = 64 << 10
	maxFrame = 256<<20 + 64<<10
)

// Client authenticates this side to the server of HBase at a host, and the server to this side. What is read from and
// written to the connection that it returns is protected as the options say. The caller has sent nothing before, and
// sends no preamble.
func (l *Login) Client(ctx context.Context, c net.Conn, host string) (net.Conn, error) {
	host = strings.ToLower(host)
	t, err := l.ticket(ctx, host)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	conn, err := l.exchange(c, t)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		if errors.As(err, new(refusal)) || errors.As(err, new(messages.KRBError)) {
			l.forget(host) // perhaps the server has another key by now
		}
		return nil, fmt.Errorf("kerberos with %s@%s: %w", l.server(host), l.serviceRealm, err)
	}
	return conn, nil
}

// exchange exchanges tokens. Each is a length and octets. A server writes a status before each of its tokens.
func (l *Login) exchange(c net.Conn, t *ticket) (net.Conn, error) {
	begun, token, err := initiate(t, l.name, l.realm)
	if err != nil {
		return nil, err
	}
	if _, err := c.Write(appendToken([]byte(preamble), token)); err != nil {
		return nil, err
	}
	r := bufio.NewReader(c)
	reply, err := readToken(r)
	if err != nil {
		return nil, err
	}
	sec, err := begun.finish(reply)
	if err != nil {
		return nil, err
	}
	if _, err := c.Write(appendToken(nil, nil)); err != nil {
		return nil, err
	}
	if reply, err = readToken(r); err != nil {
		return nil, err
	}
	offer, err := sec.unwrap(false, reply)
	if err != nil {
		return nil, err
	}
	room, err := l.choose(offer)
	if err != nil {
		return nil, err
	}
	// The choice, and the longest token that this side accepts.
	token, err = sec.wrap(false, []byte{l.protection, 0xff, 0xff, 0xff})
	if err != nil {
		return nil, err
	}
	if _, err := c.Write(appendToken(nil, token)); err != nil {
		return nil, err
	}
	if l.protection == protections["authentication"] {
		return &buffered{c, r}, nil
	}
	return &protected{Conn: c, r: r, sec: sec, seal: l.protection == protections["privacy"], room: room}, nil
}

// choose checks what a server offers, and returns how many octets it accepts in one token (RFC 4752, section 3.1).
func (l *Login) choose(offer []byte) (room int, err error) {
	if len(offer) != 4 {
		return 0, errors.New("the server's offer has not four octets")
	}
	if offer[0]&l.protection == 0 {
		var names []string
		for name, bit := range protections {
			if offer[0]&bit != 0 {
				names = append(names, name)
			}
		}
		return 0, fmt.Errorf("the server offers %q (hbase.rpc.protection), and hbase.kerberos-protection is %s", names, l.o.Protection)
	}
	// What a token adds: a header, and with privacy another one, a confounder and a checksum.
	const overhead = 2*headerSize + 16 + 24
	room = int(offer[1])<<16 | int(offer[2])<<8 | int(offer[3])
	if room -= overhead; room < 1 && l.protection != protections["authentication"] {
		return 0, fmt.Errorf("the server accepts no more than %d octets in one token", room+overhead)
	}
	return room, nil
}

// A refusal is the error with which a server ends the exchange.
type refusal struct{ class, text string }

func (r refusal) Error() string {
	return fmt.Sprintf("the server refuses: %s: %s; if its log says no more, compare its keytab and its clock with the KDC's", r.class, r.text)
}

func appendToken(b, token []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(token))), token...)
}

// readToken reads a status and a token, or an error of the server.
func readToken(r io.Reader) ([]byte, error) {
	status, err := readInt(r)
	if err != nil {
		return nil, err
	}
	if status != 0 {
		class, err := readString(r)
		if err != nil {
			return nil, err
		}
		text, err := readString(r)
		if err != nil {
			return nil, err
		}
		return nil, refusal{class, text}
	}
	n, err := readInt(r)
	switch {
	case err != nil:
		return nil, err
	case n == toSimple:
		return nil, errors.New("the server asks for simple authentication: it has no Kerberos (hbase.security.authentication), and this side does nothing without it")
	case n < 0 || n > maxToken:
		return nil, fmt.Errorf("the server sends a token of %d octets", n)
	}
	b := make([]byte, n)
	_, err = io.ReadFull(r, b)
	return b, ended(err)
}

func readInt(r io.Reader) (int32, error) {
	var b [4]byte
	_, err := io.ReadFull(r, b[:])
	return int32(binary.BigEndian.Uint32(b[:])), ended(err)
}

// readString reads a string of Hadoop: a length, which is -1 for none, and octets.
func readString(r io.Reader) (string, error) {
	n, err := readInt(r)
	if err != nil || n < 0 {
		return "", err
	}
	b, err := io.ReadAll(io.LimitReader(r, int64(min(n, maxToken))))
	if err == nil && len(b) < int(n) {
		err = io.EOF
	}
	return string(b), ended(err)
}

// ended explains the end of a connection during the exchange.
func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the server closed the connection during the exchange")
	}
	return err
}

// A buffered is a connection of which something has been read into a buffer.
type buffered struct {
	net.Conn
	r *bufio.Reader
}

func (b *buffered) Read(p []byte) (int, error) { return b.r.Read(p) }

// A protected is a connection whose octets are signed or sealed: each frame is a length and a token. One goroutine may
// read while another writes.
type protected struct {
	net.Conn
	r    *bufio.Reader
	sec  *secContext
	seal bool
	room int          // how many octets the server accepts in one token
	in   bytes.Buffer // a token
	rest []byte       // what was unwrapped and not read
}

func (p *protected) Read(b []byte) (int, error) {
	for len(p.rest) == 0 {
		if err := p.next(); err != nil {
			return 0, err
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// next reads and unwraps a frame.
func (p *protected) next() error {
	var size [4]byte
	if _, err := io.ReadFull(p.r, size[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxFrame {
		return fmt.Errorf("kerberos: a frame of %d octets, %d are the limit", n, maxFrame)
	}
	p.in.Reset() // grows as octets arrive
	if _, err := io.CopyN(&p.in, p.r, int64(n)); errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	} else if err != nil {
		return err
	}
	var err error
	if p.rest, err = p.sec.unwrap(p.seal, p.in.Bytes()); err != nil {
		return fmt.Errorf("kerberos: %w", err)
	}
	return nil
}

func (p *protected) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		part := b[:min(len(b), p.room)]
		token, err := p.sec.wrap(p.seal, part)
		if err != nil {
			return n, err
		}
		if _, err := p.Conn.Write(appendToken(make([]byte, 0, 4+len(token)), token)); err != nil {
			return n, err
		}
		n, b = n+len(part), b[len(part):]
	}
	return n, nil
}
