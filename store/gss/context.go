// Package gss establishes security contexts of Kerberos between a client and a server, and signs and seals what they
// send (RFC 4121). It serves both sides: the client of HBase, and the server for LDAP clients.
package gss

import (
	"bytes"
	"crypto/hmac"
	"encoding/binary"
	"errors"

	"github.com/go-krb5/krb5/crypto/etype"
	"github.com/go-krb5/krb5/iana/keyusage"
	"github.com/go-krb5/krb5/types"

	"github.com/seed-4dac0d86/ldapd/store/gss/layer"
)

// These are flags of a wrap token (RFC 4121, section 4.2.2).
const (
	fromAcceptor   = 1
	sealed         = 2
	acceptorSubkey = 4
)

const headerSize = 16

// A Context is an established security context. One goroutine may call Wrap while another calls Unwrap.
type Context struct {
	key    types.EncryptionKey
	etype  etype.EType
	mine   byte // flags of what this side sends
	theirs byte // flags of what the other side sends
	send   uint64
	seen   window
}

// usage returns the usage of the key for what this side sends or receives.
func (c *Context) usage(flags byte) uint32 {
	if flags&fromAcceptor != 0 {
		return keyusage.GSSAPI_ACCEPTOR_SEAL
	}
	return keyusage.GSSAPI_INITIATOR_SEAL
}

func header(flags byte, extra uint16, n uint64) []byte {
	b := append(make([]byte, 0, headerSize), 5, 4, flags, 0xff)
	b = binary.BigEndian.AppendUint16(b, extra)
	b = binary.BigEndian.AppendUint16(b, 0)
	return binary.BigEndian.AppendUint64(b, n)
}

// Wrap returns a token that contains the payload, sealed or only signed (RFC 4121, section 4.2.4).
func (c *Context) Wrap(seal bool, payload []byte) ([]byte, error) {
	n := c.send
	c.send++
	if seal {
		h := header(c.mine|sealed, 0, n)
		_, box, err := c.etype.EncryptMessage(c.key.KeyValue, append(bytes.Clone(payload), h...), c.usage(c.mine))
		return append(h, box...), err
	}
	h := header(c.mine, 0, n)
	sum, err := c.etype.GetChecksumHash(c.key.KeyValue, append(bytes.Clone(payload), h...), c.usage(c.mine))
	if err != nil {
		return nil, err
	}
	binary.BigEndian.PutUint16(h[4:], uint16(len(sum)))
	return append(append(h, payload...), sum...), nil
}

var (
	errWrap   = errors.New("a token has the wrong form")
	errForged = errors.New("a token was not made with the key of this connection")
)

// Unwrap returns the payload of a token, which must be sealed or only signed.
func (c *Context) Unwrap(seal bool, token []byte) ([]byte, error) {
	want := c.theirs
	if seal {
		want |= sealed
	}
	if len(token) < headerSize || token[0] != 5 || token[1] != 4 || token[2] != want || token[3] != 0xff {
		return nil, errWrap
	}
	extra, rotated := int(binary.BigEndian.Uint16(token[4:])), int(binary.BigEndian.Uint16(token[6:]))
	n := binary.BigEndian.Uint64(token[8:])
	body := token[headerSize:]
	if len(body) == 0 {
		return nil, errWrap
	}
	if rotated %= len(body); rotated > 0 {
		body = append(bytes.Clone(body[rotated:]), body[:rotated]...)
	}
	var payload []byte
	if seal {
		plain, err := decrypt(c.etype, c.key, body, c.usage(want))
		if err != nil {
			return nil, err
		}
		at := len(plain) - headerSize - extra
		if at < 0 || !bytes.Equal(plain[len(plain)-headerSize:], header(want, uint16(extra), n)) {
			return nil, errForged
		}
		payload = plain[:at]
	} else {
		at := len(body) - extra
		if at < 0 {
			return nil, errWrap
		}
		payload = body[:at]
		sum, err := c.etype.GetChecksumHash(c.key.KeyValue, append(bytes.Clone(payload), header(want, 0, n)...), c.usage(want))
		if err != nil || !hmac.Equal(sum, body[at:]) {
			return nil, errForged
		}
	}
	return payload, c.seen.add(n)
}

// A window finds tokens that arrive twice. Servers of HBase 2.4 and 2.5 wrap answers in one order and send them in
// another, so the order is not checked.
type window struct {
	next  uint64 // all before it have arrived
	early map[uint64]struct{}
}

// mostEarly bounds the tokens that arrive before an earlier one.
const mostEarly = 1 << 12

var errReplay = errors.New("a token arrived twice, or tokens are missing")

func (w *window) add(n uint64) error {
	if _, ok := w.early[n]; ok || n < w.next || len(w.early) == mostEarly {
		return errReplay
	}
	if n != w.next {
		if w.early == nil {
			w.early = map[uint64]struct{}{}
		}
		w.early[n] = struct{}{}
		return nil
	}
	for ok := true; ok; _, ok = w.early[w.next] {
		delete(w.early, w.next)
		w.next++
	}
	return nil
}

// overhead bounds by how much a token is longer than its payload: a header, and with sealing another one, a confounder
// and a checksum.
const overhead = 2*headerSize + 16 + 24

// Protect returns a layer that signs, or also seals, for a side that accepts tokens of at most most octets. It returns
// nil if that is no room. The caller sets the reader and the writer.
func (c *Context) Protect(seal bool, most int) *layer.Stream {
	if most <= overhead {
		return nil
	}
	return &layer.Stream{P: protection{c, seal}, Seals: seal, Room: most - overhead}
}

type protection struct {
	*Context
	seal bool
}

func (p protection) Wrap(payload []byte) ([]byte, error) { return p.Context.Wrap(p.seal, payload) }
func (p protection) Unwrap(token []byte) ([]byte, error) { return p.Context.Unwrap(p.seal, token) }
