package gss

import (
	"bytes"
	"crypto/md5"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-krb5/krb5/asn1tools"
	"github.com/go-krb5/krb5/crypto"
	"github.com/go-krb5/krb5/iana/asn1apptag"
	"github.com/go-krb5/krb5/iana/chksumtype"
	"github.com/go-krb5/krb5/iana/flags"
	"github.com/go-krb5/krb5/iana/keyusage"
	"github.com/go-krb5/krb5/iana/msgtype"
	"github.com/go-krb5/krb5/keytab"
	"github.com/go-krb5/krb5/messages"
	"github.com/go-krb5/krb5/types"
	"github.com/go-krb5/x/encoding/asn1"
)

// maxSkew is by how much the clocks of a client and of this server may differ, as in RFC 4120.
const maxSkew = 5 * time.Minute

// An Acceptor accepts the tickets of clients of one service. It may be used concurrently.
type Acceptor struct {
	Service string // the first component of the server's principals, such as ldap
	seen    replays
}

// An Accepted is a context whose client is known.
type Accepted struct {
	*Context
	Client string // the client's principal, such as ann@EXAMPLE.COM
	Flags  uint32 // what the client asked for, as signed by it
	Reply  []byte // the token that proves who the server is; nil if the client has not asked for it
}

// Accept checks the first token of a client. The keys must include those of the principal that the ticket is for. If
// the client has bound the token to a channel, the application data of the binding must be among bindings.
//
// If the client asks for mutual authentication, as nearly all do, the context has a new key that only the client of the
// ticket can learn, so nothing that was sent in another context is accepted in this one. If it does not ask, a token is
// accepted once: the Acceptor remembers it.
func (a *Acceptor) Accept(token []byte, keys *keytab.Keytab, bindings [][]byte, now time.Time) (accepted *Accepted, err error) {
	defer func() {
		if r := recover(); r != nil { // the library panics on some octets
			accepted, err = nil, ErrToken
		}
	}()
	kind, message, err := unframe(token)
	if err != nil || kind != tokenRequest {
		return nil, ErrToken
	}
	var req messages.APReq
	if err := req.Unmarshal(message); err != nil {
		return nil, ErrToken
	}
	if err := a.open(&req, keys); err != nil {
		return nil, err
	}
	if err := check(&req, now); err != nil {
		return nil, err
	}
	c := &Accepted{Client: principal(req.Authenticator.CName, req.Authenticator.CRealm)}
	if c.Flags, err = checkSum(req.Authenticator.Cksum, bindings); err != nil {
		return nil, err
	}
	if err := a.seen.add(req.EncryptedAuthenticator.Cipher, now); err != nil {
		return nil, err
	}
	return c, c.establish(&req)
}

// open decrypts a ticket and its authenticator.
func (a *Acceptor) open(req *messages.APReq, keys *keytab.Keytab) error {
	t := &req.Ticket
	if len(t.SName.NameString) == 0 || !strings.EqualFold(t.SName.NameString[0], a.Service) {
		return fmt.Errorf("the ticket is for %s, not for a principal %s/HOST", principal(t.SName, t.Realm), a.Service)
	}
	if err := checkKey(t.EncPart.EType); err != nil {
		return fmt.Errorf("the ticket for %s has %w: give the principal such a key only", principal(t.SName, t.Realm), err)
	}
	key, _, err := keys.GetEncryptionKey(t.SName, t.Realm, t.EncPart.KVNO, t.EncPart.EType)
	if err != nil {
		return fmt.Errorf("the keytab has no key of %s with version %d and encryption %d: export it again",
			principal(t.SName, t.Realm), t.EncPart.KVNO, t.EncPart.EType)
	}
	plain, err := decryptPart(t.EncPart, key, keyusage.KDC_REP_TICKET)
	if err != nil {
		return fmt.Errorf("the keytab has another key of %s than the KDC: export it again", principal(t.SName, t.Realm))
	}
	if err := t.DecryptedEncPart.Unmarshal(plain); err != nil {
		return ErrToken
	}
	session := t.DecryptedEncPart.Key
	if err := checkKey(session.KeyType); err != nil {
		return fmt.Errorf("the session key of the ticket has %w", err)
	}
	if plain, err = decryptPart(req.EncryptedAuthenticator, session, keyusage.AP_REQ_AUTHENTICATOR); err != nil {
		return err
	}
	if err := req.Authenticator.Unmarshal(plain); err != nil {
		return ErrToken
	}
	return nil
}

func decryptPart(part types.EncryptedData, key types.EncryptionKey, usage uint32) ([]byte, error) {
	et, err := crypto.GetEtype(key.KeyType)
	if err != nil {
		return nil, err
	}
	if part.EType != key.KeyType || len(key.KeyValue) != et.GetKeyByteSize() {
		return nil, errForged
	}
	return decrypt(et, key, part.Cipher, usage)
}

// check checks what a ticket and its authenticator say (RFC 4120, section 3.2.3).
func check(req *messages.APReq, now time.Time) error {
	t, auth := &req.Ticket.DecryptedEncPart, &req.Authenticator
	client := principal(auth.CName, auth.CRealm)
	sent := auth.CTime.Add(time.Duration(auth.Cusec) * time.Microsecond)
	switch {
	case !slices.Equal(auth.CName.NameString, t.CName.NameString) || auth.CRealm != t.CRealm:
		return fmt.Errorf("the ticket is not of %s", client)
	case types.IsFlagSet(&t.Flags, flags.Invalid) || t.StartTime.Sub(now) > maxSkew:
		return fmt.Errorf("the ticket of %s is not valid yet", client)
	case now.Sub(t.EndTime) > maxSkew:
		return fmt.Errorf("the ticket of %s has ended", client)
	case now.Sub(sent).Abs() > maxSkew:
		return fmt.Errorf("the clocks of %s and of this server differ by %v: set them by NTP", client, now.Sub(sent).Round(time.Second))
	case t.CRealm != req.Ticket.Realm && !types.IsFlagSet(&t.Flags, flags.TransitedPolicyChecked):
		return fmt.Errorf("the KDC of %s has not checked the realms between it and %s", req.Ticket.Realm, client)
	}
	return nil
}

// checkSum reads the flags in the checksum of GSSAPI, and checks the channel bindings (RFC 4121, section 4.1.1).
func checkSum(sum types.Checksum, bindings [][]byte) (flags uint32, err error) {
	b := sum.Checksum
	if sum.CksumType != chksumtype.GSSAPI || len(b) < 24 || binary.LittleEndian.Uint32(b) != 16 {
		return 0, errors.New("the token has no checksum of GSSAPI")
	}
	here := func(data []byte) bool { return bytes.Equal(b[4:20], hashBindings(data)) }
	if !here(nil) && !slices.ContainsFunc(bindings, here) {
		return 0, errors.New("the token is bound to another channel: is there something between the client and this server that ends TLS?")
	}
	return binary.LittleEndian.Uint32(b[20:]), nil
}

// hashBindings returns the hash of channel bindings without addresses; nil means that there are none.
func hashBindings(data []byte) []byte {
	if data == nil {
		return make([]byte, md5.Size)
	}
	b := make([]byte, 16, 20+len(data)) // no addresses
	b = binary.LittleEndian.AppendUint32(b, uint32(len(data)))
	sum := md5.Sum(append(b, data...)) // as RFC 4121 demands
	return sum[:]
}

// establish makes the context, and the answer if the client asks for it.
func (c *Accepted) establish(req *messages.APReq) (err error) {
	session, auth := req.Ticket.DecryptedEncPart.Key, &req.Authenticator
	c.Context = &Context{key: session, mine: fromAcceptor}
	if len(auth.SubKey.KeyValue) > 0 {
		c.key = auth.SubKey
	}
	if err := checkKey(c.key.KeyType); err != nil {
		return fmt.Errorf("the client's key has %w", err)
	}
	c.seen.next = uint64(uint32(auth.SeqNumber))
	c.send = c.seen.next // what the client expects if there is no answer
	// The options of a request are not signed, the flags are.
	if c.Flags&Mutual != 0 || types.IsFlagSet(&req.APOptions, flags.APOptionMutualRequired) {
		et, err := crypto.GetEtype(session.KeyType)
		if err != nil {
			return err
		}
		key := types.EncryptionKey{KeyType: session.KeyType, KeyValue: make([]byte, et.GetKeyByteSize())}
		rand.Read(key.KeyValue)
		if err := c.answer(session, auth, key); err != nil {
			return err
		}
	}
	c.etype, err = cipher(c.key.KeyType)
	return err
}

// answer makes the answer, with a new key for the context unless that is empty.
func (c *Accepted) answer(session types.EncryptionKey, auth *types.Authenticator, key types.EncryptionKey) error {
	var first [4]byte
	rand.Read(first[:])
	c.send = uint64(binary.BigEndian.Uint32(first[:]) >> 2) // some clients read the number as a signed one
	if len(key.KeyValue) > 0 {
		c.key = key
		c.mine |= acceptorSubkey
		c.theirs |= acceptorSubkey
	}
	part := messages.EncAPRepPart{CTime: auth.CTime, Cusec: auth.Cusec, Subkey: key, SequenceNumber: int64(c.send)}
	b, err := asn1.Marshal(part)
	if err != nil {
		return err
	}
	box, err := crypto.GetEncryptedData(asn1tools.AddASNAppTag(b, asn1apptag.EncAPRepPart), session, keyusage.AP_REP_ENCPART, 0)
	if err != nil {
		return err
	}
	if b, err = asn1.Marshal(messages.APRep{PVNO: 5, MsgType: msgtype.KRB_AP_REP, EncPart: box}); err != nil {
		return err
	}
	c.Reply, err = frame(tokenReply, asn1tools.AddASNAppTag(b, asn1apptag.APREP))
	return err
}

func principal(name types.PrincipalName, realm string) string {
	return strings.Join(name.NameString, "/") + "@" + realm
}
