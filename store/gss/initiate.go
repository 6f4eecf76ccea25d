package gss

import (
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
)

// A Request is what a client asks of a context.
type Request struct {
	Ticket      messages.Ticket
	Key         types.EncryptionKey // the session key of the ticket
	Name, Realm string              // of the client
	Flags       uint32
	Bindings    []byte // the application data of channel bindings, or nil
}

// An Initiation is the client's side of a context, before the answer of the server.
type Initiation struct {
	key  types.EncryptionKey
	auth types.Authenticator
}

// checkKey returns an error for a key that this package does not use.
func checkKey(id int32) error {
	switch id {
	case etypeID.AES128_CTS_HMAC_SHA1_96, etypeID.AES256_CTS_HMAC_SHA1_96, etypeID.AES128_CTS_HMAC_SHA256_128:
		return nil
	}
	return fmt.Errorf("encryption %d, not aes256-cts-hmac-sha1-96, aes128-cts-hmac-sha1-96 or aes128-cts-hmac-sha256-128", id)
}

// Initiate returns the first token for a server.
func Initiate(r Request) (*Initiation, []byte, error) {
	if err := checkKey(r.Key.KeyType); err != nil {
		return nil, nil, fmt.Errorf("the KDC gave a ticket with %w", err)
	}
	auth, err := types.NewAuthenticator(r.Realm, types.NewPrincipalName(1, r.Name))
	if err != nil {
		return nil, nil, err
	}
	if err := auth.GenerateSeqNumberAndSubKey(r.Key.KeyType, len(r.Key.KeyValue)); err != nil {
		return nil, nil, err
	}
	sum := binary.LittleEndian.AppendUint32(nil, 16) // the length of what follows
	sum = append(sum, hashBindings(r.Bindings)...)
	sum = binary.LittleEndian.AppendUint32(sum, r.Flags)
	auth.Cksum = types.Checksum{CksumType: chksumtype.GSSAPI, Checksum: sum}
	req, err := messages.NewAPReq(r.Ticket, r.Key, auth)
	if err != nil {
		return nil, nil, err
	}
	if r.Flags&Mutual != 0 {
		types.SetFlag(&req.APOptions, flags.APOptionMutualRequired)
	}
	b, err := req.Marshal()
	if err != nil {
		return nil, nil, err
	}
	token, err := frame(tokenRequest, b)
	return &Initiation{r.Key, auth}, token, err
}

// Finish checks the server's answer, which proves that it has the key of its principal, and returns the context.
func (i *Initiation) Finish(token []byte) (*Context, error) {
	kind, message, err := unframe(token)
	if err != nil {
		return nil, err
	}
	switch kind {
	case tokenReply:
	case tokenError:
		var e messages.KRBError
		if err := e.Unmarshal(message); err != nil {
			return nil, ErrToken
		}
		return nil, e
	default:
		return nil, ErrToken
	}
	var rep messages.APRep
	if err := rep.Unmarshal(message); err != nil {
		return nil, err
	}
	et, err := crypto.GetEtype(i.key.KeyType)
	if err != nil {
		return nil, err
	}
	plain, err := decrypt(et, i.key, rep.EncPart.Cipher, keyusage.AP_REP_ENCPART)
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
	c := &Context{key: i.auth.SubKey, theirs: fromAcceptor, send: uint64(i.auth.SeqNumber)}
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
