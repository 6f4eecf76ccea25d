package gssapi

import (
	"bytes"
	"encoding/asn1"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-krb5/krb5/iana/etypeID"
	"github.com/go-krb5/krb5/iana/nametype"
	"github.com/go-krb5/krb5/keytab"
	"github.com/go-krb5/krb5/messages"
	"github.com/go-krb5/krb5/types"
	"golang.org/x/crypto/cryptobyte"
	cryptoasn1 "golang.org/x/crypto/cryptobyte/asn1"

	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/store/gss"
)

const realm = "EXAMPLE.COM"

// A service is a keytab in a file.
type service struct {
	t    testing.TB
	path string
	keys *keytab.Keytab
}

func newService(t testing.TB) *service {
	s := &service{t: t, path: filepath.Join(t.TempDir(), "keytab"), keys: keytab.New()}
	s.key(1)
	return s
}

// key adds a key of a version to the file.
func (s *service) key(version uint8) {
	s.t.Helper()
	if err := s.keys.AddEntry("ldap/here", realm, "secret"+string('0'+rune(version)), time.Now(), version, etypeID.AES256_CTS_HMAC_SHA1_96); err != nil {
		s.t.Fatal(err)
	}
	b, err := s.keys.Marshal()
	if err == nil {
		err = os.WriteFile(s.path, b, 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// token returns the first token of a client whose ticket is encrypted with the key of a version.
func (s *service) token(version int, flags uint32) []byte {
	s.t.Helper()
	now := time.Now().UTC()
	tkt, key, err := messages.NewTicket(types.NewPrincipalName(nametype.KRB_NT_PRINCIPAL, "ann"), realm,
		types.NewPrincipalName(nametype.KRB_NT_SRV_HST, "ldap/here"), realm, types.NewKrbFlags(), s.keys, etypeID.AES256_CTS_HMAC_SHA1_96, version, now, now, now.Add(time.Hour), now)
	if err != nil {
		s.t.Fatal(err)
	}
	_, token, err := gss.Initiate(gss.Request{Ticket: tkt, Key: key, Name: "ann", Realm: realm, Flags: flags})
	if err != nil {
		s.t.Fatal(err)
	}
	return token
}

// negotiation returns a first token of SPNEGO that names mechanisms.
func negotiation(token []byte, mechanisms ...asn1.ObjectIdentifier) []byte {
	var b cryptobyte.Builder
	b.AddASN1(tokenTag, func(b *cryptobyte.Builder) {
		b.AddASN1ObjectIdentifier(spnego)
		b.AddASN1(field(0), func(b *cryptobyte.Builder) {
			b.AddASN1(cryptoasn1.SEQUENCE, func(b *cryptobyte.Builder) {
				b.AddASN1(field(0), func(b *cryptobyte.Builder) {
					b.AddASN1(cryptoasn1.SEQUENCE, func(b *cryptobyte.Builder) {
						for _, m := range mechanisms {
							b.AddASN1ObjectIdentifier(m)
						}
					})
				})
				b.AddASN1(field(1), func(b *cryptobyte.Builder) { b.AddASN1BitString([]byte{0x40}) })
				if token != nil {
					b.AddASN1(field(2), func(b *cryptobyte.Builder) { b.AddASN1OctetString(token) })
				}
			})
		})
	})
	return b.BytesOrPanic()
}

var ntlm = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 2, 2, 10}

func TestAccept(t *testing.T) {
	s := newService(t)
	var log bytes.Buffer
	a, err := Open(s.path, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	const all = gss.Mutual | gss.Integrity | gss.Confidentiality
	got, err := a.Accept(s.token(1, all), auth.NoChannel{})
	if err != nil || got.Principal != "ann@"+realm || got.SPNEGO || !got.Sign || !got.Seal || got.Reply == nil {
		t.Errorf("%+v, %v", got, err)
	}
	for _, m := range []asn1.ObjectIdentifier{kerberos, microsoft} {
		got, err = a.Accept(negotiation(s.token(1, gss.Mutual|gss.Integrity), m, ntlm), auth.NoChannel{})
		oid, _ := asn1.Marshal(m)
		if err != nil || got.Principal != "ann@"+realm || !got.SPNEGO || !got.Sign || got.Seal || got.Reply[0] != 0xa1 || !bytes.Contains(got.Reply, oid) {
			t.Errorf("SPNEGO: %+v, %v", got, err)
		}
	}
	good := negotiation(s.token(1, all), kerberos)
	for i := range good {
		if _, err := a.Accept(good[:i], auth.NoChannel{}); err == nil {
			t.Errorf("cut after %d octets, a token is accepted", i)
		}
	}
	for name, c := range map[string]struct {
		token []byte
		want  string
	}{
		"NTLM first":    {negotiation(s.token(1, all), ntlm, kerberos), "first mechanism is not Kerberos"},
		"no mechanisms": {negotiation(s.token(1, all)), gss.ErrToken.Error()},
		"no token":      {negotiation(nil, kerberos), gss.ErrToken.Error()},
		"NTLM":          {[]byte("NTLMSSP\x00\x01"), gss.ErrToken.Error()},
	} {
		if _, err := a.Accept(c.token, auth.NoChannel{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A new key is used at once, and the old one still is.
	s.key(2)
	for version := range 2 {
		if _, err := a.Accept(s.token(version+1, all), auth.NoChannel{}); err != nil {
			t.Errorf("version %d: %v", version+1, err)
		}
	}
	if err := os.WriteFile(s.path, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Accept(s.token(2, all), auth.NoChannel{}); err != nil || !strings.Contains(log.String(), "the keytab cannot be read") {
		t.Errorf("with a damaged keytab: %v, %s", err, log.String())
	}
	if _, err := Open(s.path, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a damaged keytab is opened")
	}
}

func FuzzNegotiated(f *testing.F) {
	f.Add(negotiation([]byte("token"), kerberos))
	f.Add(negotiation([]byte("token"), microsoft, ntlm))
	f.Fuzz(func(t *testing.T, b []byte) {
		mechanism, token, err := negotiated(b)
		if err == nil && mechanism != nil && !bytes.Contains(b, token) {
			t.Errorf("%x is in no part of %x", token, b)
		}
	})
}
