package directory

import (
	"bytes"
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/internal/bind"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/settings"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// ErrTicket refuses a ticket that is over, altered, of another store, or of an account that is gone,
// may not bind here or has another password since.
var ErrTicket = errors.New("the ticket is over or no longer valid: bind again")

// A ticket says who is bound. It is sealed with AES-GCM, with a key that is derived
// from the secret of the store, so that every server of the store can open it, and nobody else.
type ticket struct {
	Entry    string `json:"entry,omitempty"` // entryUUID; "": the administrator
	Password []byte `json:"password"`        // digest of the stored password
	Bound    string `json:"bound"`           // the mechanism of the bind
	Reset    bool   `json:"reset,omitempty"` // the password must be changed before anything else
	Since    int64  `json:"since"`           // when the bind was, in Unix seconds
	Until    int64  `json:"until"`           // when the ticket ends
}

// resumed is an identity that Resume has bound, and its ticket.
type resumed struct {
	who    *settings.Identity
	ticket ticket
}

// Ticket returns a text with which [Directory.Resume] binds another session as this session is
// bound, at any server of the store, until the given time or until the password changes. Ticket fails
// if the session is anonymous, or bound as an identity without an entry.
func (s *Session) Ticket(ctx context.Context, until time.Time) (string, error) {
	who := s.s.Who.Load()
	switch {
	case who == nil:
		return "", errors.New("the session is anonymous: bind first")
	case !who.Admin && !who.HasEntry():
		return "", errors.New("the session's identity has no entry, so there is no ticket for it")
	}
	var t ticket
	if s.resumed != nil && s.resumed.who == who {
		t = s.resumed.ticket
	} else {
		s.d.server.Background.Wait() // perhaps the bind stores the password in another form
		var err error
		t = ticket{Bound: who.Bound, Reset: who.Reset.Load(), Since: time.Now().Unix()}
		if !who.Admin {
			t.Entry = who.ID.String()
		}
		if t.Password, err = s.passwordOf(ctx, who); err != nil {
			return "", err
		}
	}
	t.Until = until.Unix()
	return s.d.seal("ticket", t)
}

// Resumed returns the time of the bind that a session's ticket is from, and when the ticket ends. It
// returns zero times unless Resume has bound the session.
func (s *Session) Resumed() (since, until time.Time) {
	if s.resumed == nil || s.resumed.who != s.s.Who.Load() {
		return since, until
	}
	return time.Unix(s.resumed.ticket.Since, 0), time.Unix(s.resumed.ticket.Until, 0)
}

// Resume begins a session that is bound as the session was that the ticket is of. It fails with
// ErrTicket if the ticket is not valid, and with another error if it cannot find out.
func (d *Directory) Resume(ctx context.Context, c auth.Channel, sealed string) (*Session, error) {
	var t ticket
	if d.unseal("ticket", sealed, &t) != nil || time.Now().Unix() >= t.Until {
		return nil, ErrTicket
	}
	s := d.NewSession(c)
	if err := s.resume(ctx, t); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// resume binds the session by a ticket that has not ended.
func (s *Session) resume(ctx context.Context, t ticket) error {
	req := s.reading()
	defer req.Snapshot.Close()
	who := &settings.Identity{Name: dn.NewName(s.d.Admin()), Admin: true, Bound: t.Bound}
	if t.Entry != "" {
		var err error
		if who, err = entryOf(ctx, req, t.Entry, t.Bound); err != nil {
			return err
		}
	}
	password, err := digest(ctx, req, who)
	if err != nil {
		return err
	}
	if !hmac.Equal(password, t.Password) || who.Admin && s.d.server.Settings().AdminKey == "" {
		return ErrTicket
	}
	if may, err := bind.MayBind(ctx, req, who); err != nil || !may {
		return cmp.Or(err, ErrTicket)
	}
	who.Reset.Store(t.Reset)
	s.s.Who.Store(who)
	s.resumed = &resumed{who, t}
	return nil
}

// entryOf returns the identity of the entry with an entryUUID. It returns ErrTicket if there is no such entry.
func entryOf(ctx context.Context, req *request.Request, uuid, bound string) (*settings.Identity, error) {
	id, err := entry.ParseID(uuid)
	if err != nil {
		return nil, ErrTicket
	}
	if e, err := req.Snapshot.Entry(ctx, id, false); err != nil || e == nil {
		return nil, cmp.Or(err, ErrTicket)
	}
	name, err := req.Snapshot.Name(ctx, id)
	return &settings.Identity{Name: name, ID: id, Bound: bound}, err
}

// reading returns a request of the session that reads the newest state, which the caller must close.
func (s *Session) reading() *request.Request {
	req := request.New(s.d.server)
	req.Begin(&s.s, 0)
	req.Now()
	return req
}

func (s *Session) passwordOf(ctx context.Context, who *settings.Identity) ([]byte, error) {
	req := s.reading()
	defer req.Snapshot.Close()
	return digest(ctx, req, who)
}

// digest returns a digest of an identity's password as it is stored. The digest of an account without
// a password is the one of no values.
func digest(ctx context.Context, req *request.Request, who *settings.Identity) ([]byte, error) {
	set := req.Server.Settings()
	stored := [][]byte{[]byte(set.AdminKey), []byte(set.AdminPassword)}
	if !who.Admin {
		stored = nil
		secrets, err := req.Snapshot.Secrets(ctx, who.ID)
		if err != nil {
			return nil, err
		}
		for i := range secrets {
			if t := secrets[i].Type; t == req.Known.UserPassword || t == req.Known.AuthPassword {
				stored = append(stored, secrets[i].Values...)
			}
		}
		slices.SortFunc(stored, bytes.Compare)
	}
	mac := hmac.New(sha256.New, keyFor(req.Server, "password in a ticket"))
	for _, v := range stored {
		mac.Write(binary.AppendUvarint(nil, uint64(len(v))))
		mac.Write(v)
	}
	return mac.Sum(nil), nil
}

// keyFor derives a key from the secret of the store.
func keyFor(s *request.Server, use string) []byte {
	key, err := hkdf.Key(sha256.New, s.Settings().Secret, nil, "ldapd "+use, 32)
	if err != nil {
		panic(err) // 32 octets are few enough
	}
	return key
}

// seal seals a ticket for a use. Another use has another key, so that a ticket is good for one use only.
func (d *Directory) seal(use string, ticket any) (string, error) {
	text, err := json.Marshal(ticket)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(d.sealer(use).Seal(nil, nil, text, nil)), nil
}

func (d *Directory) unseal(use, sealed string, ticket any) error {
	x, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil {
		return err
	}
	text, err := d.sealer(use).Open(nil, nil, x, nil)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, ticket)
}

// sealer returns the cipher of tickets for a use. A sealed ticket begins with its random nonce.
func (d *Directory) sealer(use string) cipher.AEAD {
	block, err := aes.NewCipher(keyFor(d.server, use))
	if err != nil {
		panic(err) // the key has the length of one of AES-256
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // it is a cipher of package aes
	}
	return aead
}
