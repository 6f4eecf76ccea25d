package krb

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/go-krb5/krb5/messages"

	"github.com/seed-4dac0d86/ldapd/store/gss"
	"github.com/seed-4dac0d86/ldapd/store/gss/layer"
)

// Preamble is what a client without Kerberos begins with: magic, a version, and the code of simple authentication.
const Preamble = "HBas\x00\x50"

// preamble has the code of Kerberos instead.
const preamble = "HBas\x00\x51"

// toSimple is the length of a token with which a server without Kerberos asks for simple authentication.
const toSimple = -88

// contextFlags are what this side asks of a context.
const contextFlags = gss.Mutual | gss.Replay | gss.Sequence | gss.Confidentiality | gss.Integrity

// These limit what a server may send before and after it has proved who it is.
const (
	maxToken = 64 << 10
	maxFrame = 256<<20 + 64<<10
)

// Client authenticates this side to the server of HBase at a host, and the server to this side. What is read from and
// written to the connection that it returns is protected as the options say. The caller has sent nothing before, and
// sends no preamble.
func (l *Login) Client(ctx context.Context, c net.Conn, host string) (conn net.Conn, err error) {
	err = l.with(ctx, c, host, func(t *ticket) error {
		conn, err = l.exchange(c, t)
		return err
	})
	return conn, err
}

// Exchange authenticates this side to a server of another kind at a host, and the server to this side: ask sends a token on
// the connection c and returns the answer. The protection of the Login must be authentication.
func (l *Login) Exchange(ctx context.Context, c net.Conn, host string, ask func(token []byte) ([]byte, error)) error {
	return l.with(ctx, c, host, func(t *ticket) error {
		_, _, last, err := l.negotiate(t, ask)
		if err == nil {
			_, err = ask(last)
		}
		return err
	})
}

// with calls do with a ticket for the server at a host. Reads and writes on c fail when ctx ends.
func (l *Login) with(ctx context.Context, c net.Conn, host string, do func(*ticket) error) error {
	host = strings.ToLower(host)
	t, err := l.ticket(ctx, host)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	err = do(t)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		if errors.As(err, new(Refusal)) || errors.As(err, new(messages.KRBError)) {
			l.forget(host) // perhaps the server has another key by now
		}
		return fmt.Errorf("kerberos with %s@%s: %w", l.server(host), l.serviceRealm, err)
	}
	return nil
}

// negotiate exchanges all tokens but the last one, which it returns, with the context that they make and how many octets the
// server accepts in one token. ask sends a token and returns the answer.
func (l *Login) negotiate(t *ticket, ask func(token []byte) ([]byte, error)) (sec *gss.Context, room int, last []byte, err error) {
	begun, token, err := gss.Initiate(gss.Request{Ticket: t.ticket, Key: t.key, Name: l.name, Realm: l.realm, Flags: contextFlags})
	if err != nil {
		return nil, 0, nil, err
	}
	reply, err := ask(token)
	if err != nil {
		return nil, 0, nil, err
	}
	if sec, err = begun.Finish(reply); err != nil {
		return nil, 0, nil, err
	}
	if reply, err = ask(nil); err != nil {
		return nil, 0, nil, err
	}
	offer, err := sec.Unwrap(false, reply)
	if err != nil {
		return nil, 0, nil, err
	}
	if room, err = l.choose(offer); err != nil {
		return nil, 0, nil, err
	}
	// The choice, and the longest token that this side accepts.
	last, err = sec.Wrap(false, []byte{l.protection, 0xff, 0xff, 0xff})
	return sec, room, last, err
}

// exchange exchanges tokens with HBase. Each is a length and octets. A server writes a status before each of its tokens.
func (l *Login) exchange(c net.Conn, t *ticket) (net.Conn, error) {
	r := bufio.NewReader(c)
	hello := []byte(preamble)
	sec, room, last, err := l.negotiate(t, func(token []byte) ([]byte, error) {
		if _, err := c.Write(layer.Append(hello, token)); err != nil {
			return nil, err
		}
		hello = nil
		return readToken(r)
	})
	if err != nil {
		return nil, err
	}
	if _, err := c.Write(layer.Append(nil, last)); err != nil {
		return nil, err
	}
	if l.protection == protections["authentication"] {
		return &buffered{c, r}, nil
	}
	stream := sec.Protect(l.protection == protections["privacy"], room)
	if stream == nil {
		return nil, fmt.Errorf("the server accepts no more than %d octets in one token", room)
	}
	stream.R, stream.W, stream.Most = r, c, maxFrame
	return &protected{c, stream}, nil
}

// choose checks what a server offers, and returns how many octets it accepts in one token (RFC 4752, section 3.1).
func (l *Login) choose(offer []byte) (most int, err error) {
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
	return int(offer[1])<<16 | int(offer[2])<<8 | int(offer[3]), nil
}

// A Refusal is the error with which a server ends the exchange.
type Refusal struct{ Class, Text string }

func (r Refusal) Error() string {
	return fmt.Sprintf("the server refuses: %s: %s; if its log says no more, compare its keytab and its clock with the KDC's", r.Class, r.Text)
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
		return nil, Refusal{class, text}
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

// A protected is a connection whose octets are signed or sealed.
type protected struct {
	net.Conn
	stream *layer.Stream
}

func (p *protected) Read(b []byte) (int, error)  { return p.stream.Read(b) }
func (p *protected) Write(b []byte) (int, error) { return p.stream.Write(b) }
