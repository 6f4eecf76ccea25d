package gss

import (
	"bytes"
	"crypto/hmac"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/go-krb5/krb5/crypto"
	"github.com/go-krb5/krb5/crypto/etype"
	"github.com/go-krb5/krb5/iana/chksumtype"
	"github.com/go-krb5/krb5/iana/etypeID"
	"github.com/go-krb5/krb5/iana/flags"
	"github.com/go-krb5/krb5/iana/keyusage"
	"github.com/go-krb5/krb5/messages"
	"github.com/go-krb5/krb5/types"
	"golang.org/x/crypto/cryptobyte"
	cryptoasn1 "golang.org/x/crypto/cryptobyte/asn1"
)

// krb5 is the OID of Kerberos as a mechanism of GSSAPI.
var krb5 = asn1.ObjectIdentifier{1, 2, 840, 113554, 1, 2, 2}

// These are the kinds of context tokens (RFC 4121, section 4.1).
const (
	tokenRequest = 0x0100
	tokenReply   = 0x0200
	tokenError   = 0x0300
)

// These are flags of a context: mutual authentication, detection of replays and of wrong order, confidentiality and
// integrity (RFC 4121, section 4.1.1.1).
const contextFlags = 2 | 4 | 8 | 16 | 32

// These are flags of a wrap token (RFC 4121, section 4.2.2).
const (
	fromAcceptor   = 1
	sealed         = 2
	acceptorSubkey = 4
)

const headerSize = 16

// A secContext is an established security context.
type secContext struct {
	key    types.EncryptionKey
	etype  etype.EType
	mine   byte // flags of what this side sends
	theirs byte // flags of what the other side sends
	send   uint64
	seen   window
}

// An initiation is a context before the answer of the server.
type initiation struct {
	t    *ticket
	auth types.Authenticator
}

// initiate returns the first token for a server.
func initiate(t *ticket, name, realm string) (*initiation, []byte, error) {
	switch t.key.KeyType {
	case etypeID.AES128_CTS_HMAC_SHA1_96, etypeID.AES256_CTS_HMAC_SHA1_96, etypeID.AES128_CTS_HMAC_SHA256_128:
	default:
		return nil, nil, fmt.Errorf("the KDC gave a ticket with encryption %d, not aes256-cts-hmac-sha1-96, aes128-cts-hmac-sha1-96 or aes128-cts-hmac-sha256-128", t.key.KeyType)
	}
	auth, err := types.NewAuthenticator(realm, types.NewPrincipalName(1, name))
	if err != nil {
		return nil, nil, err
	}
	if err := auth.GenerateSeqNumberAndSubKey(t.key.KeyType, len(t.key.KeyValue)); err != nil {
		return nil, nil, err
	}
	sum := make([]byte, 24) // the length of the channel bindings, no bindings, and the flags
	binary.LittleEndian.PutUint32(sum, 16)
	binary.LittleEndian.PutUint32(sum[20:], contextFlags)
	auth.Cksum = types.Checksum{CksumType: chksumtype.GSSAPI, Checksum: sum}
	req, err := messages.NewAPReq(t.ticket, t.key, auth)
	if err != nil {
		return nil, nil, err
	}
	types.SetFlag(&req.APOptions, flags.APOptionMutualRequired)
	b, err := req.Marshal()
	if err != nil {
		return nil, nil, err
	}
	token, err := frame(tokenRequest, b)
	return &initiation{t, auth}, token, err
}

// frame puts a message into a context token (RFC 2743, section 3.1).
func frame(kind uint16, message []byte) ([]byte, error) {
	var b cryptobyte.Builder
	b.AddASN1(cryptoasn1.Tag(0).Constructed()|0x40, func(b *cryptobyte.Builder) {
		b.AddASN1ObjectIdentifier(krb5)
		b.AddUint16(kind)
		b.AddBytes(message)
	})
	return b.Bytes()
}

var errToken = errors.New("this is no token of Kerberos")

// unframe returns the message in a context token.
func unframe(token []byte) (kind uint16, message []byte, err error) {
	in := cryptobyte.String(token)
	var body cryptobyte.String
	var oid asn1.ObjectIdentifier
	if !in.ReadASN1(&body, cryptoasn1.Tag(0).Constructed()|0x40) || !in.Empty() || !body.ReadASN1ObjectIdentifier(&oid) || !oid.Equal(krb5) || !body.ReadUint16(&kind) {
		return 0, nil, errToken
	}
	return kind, body, nil
}

// finish checks the server's answer, which proves that it has the key of its principal, and returns the context.
func (i *initiation) finish(token []byte) (*secContext, error) {
	kind, message, err := unframe(token)
	if err != nil {
		return nil, err
	}
	switch kind {
	case tokenReply:
	case tokenError:
		var e messages.KRBError
		if err := e.Unmarshal(message); err != nil {
			return nil, errToken
		}
		return nil, e
	default:
		return nil, errToken
	}
	var rep messages.APRep
	if err := rep.Unmarshal(message); err != nil {
		return nil, err
	}
	et, err := crypto.GetEtype(i.t.key.KeyType)
	if err != nil {
		return nil, err
	}
	plain, err := decrypt(et, i.t.key, rep.EncPart.Cipher, keyusage.AP_REP_ENCPART)
	if err != nil {
		return nil, fmt.Errorf("the server does not have the key of its principal: %w", err)
	}
	var part messages.EncAPRepPart
	if err := part.Unmarshal(plain); err != nil {
		return nil, err
	}
	if part.CTime.Unix() != i.auth.CTime.Unix() || part.Cusec != i.auth.Cusec {
		return nil, errors.New("the server answers another request")
	}
	c := &secContext{key: i.auth.SubKey, theirs: fromAcceptor, send: uint64(i.auth.SeqNumber)}
	c.seen.next = uint64(uint32(part.SequenceNumber))
	if len(part.Subkey.KeyValue) > 0 {
		c.key = part.Subkey
		c.mine |= acceptorSubkey
		c.theirs |= acceptorSubkey
	}
	c.etype, err = cipher(c.key.KeyType)
	return c, err
}

// decrypt decrypts a box. The library panics if a box is too short.
func decrypt(et etype.EType, key types.EncryptionKey, box []byte, usage uint32) ([]byte, error) {
	if len(box) < et.GetConfounderByteSize()+et.GetHMACBitLength()/8 {
		return nil, errForged
	}
	plain, err := et.DecryptMessage(key.KeyValue, box, usage)
	if err != nil {
		return nil, errForged
	}
	return plain, nil
}

// usage returns the usage of the key for what this side sends or receives.
func (c *secContext) usage(flags byte) uint32 {
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

// wrap returns a token that contains the payload, sealed or only signed (RFC 4121, section 4.2.4).
func (c *secContext) wrap(seal bool, payload []byte) ([]byte, error) {
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

// unwrap returns the payload of a token, which must be sealed or only signed.
func (c *secContext) unwrap(seal bool, token []byte) ([]byte, error) {
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
