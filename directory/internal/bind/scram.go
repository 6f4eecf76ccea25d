package bind

import (
	"context"
	"crypto/subtle"
	"errors"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/account"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/internal/accountcheck"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/settings"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

func usableScram(*request.Request) error { return nil }

func usablePlus(req *request.Request) error {
	if auth.Bindable(req.Session.Channel) {
		return nil
	}
	return op.Errorf(op.AuthMethodNotSupported, "channel binding needs TLS: use StartTLS or ldaps")
}

// scramming is a SCRAM exchange (RFC 5802) in progress.
type scramming struct {
	mechanism string
	conv      *auth.Scram
	who       *settings.Identity // nil: the name is unknown, but the exchange continues
	// base is the mechanism's name without the suffix -PLUS. name is the name in the
	// client's first message, and key is the key that the name had when this message arrived.
	base, name string
	key        auth.ScramKey
}

func beginScram(mechanism string) func(context.Context, *request.Request, []byte) (*settings.Identity, error) {
	return func(ctx context.Context, req *request.Request, message []byte) (*settings.Identity, error) {
		x := &scramming{mechanism: mechanism}
		conv, err := auth.NewScram(mechanism, req.Session.Channel, message,
			func(base, name string) (k auth.ScramKey, err error) {
				x.base, x.name = base, name
				x.who, x.key, err = scramKey(ctx, req, base, name)
				return x.key, err
			})
		if err != nil {
			return nil, err
		}
		x.conv = conv
		challenge, _, err := conv.Step(message)
		if err != nil {
			return nil, scramFailure(req, challenge, err)
		}
		return nil, proceed(req, mechanism, challenge, x.finish)
	}
}

// finish handles the message with the client's proof. It reads the key again, because the
// password may have changed since the exchange began.
func (x *scramming) finish(ctx context.Context, req *request.Request, message []byte) (*settings.Identity, error) {
	s := req.Now()
	defer s.Close()
	who, key, err := scramKey(ctx, req, x.base, x.name)
	if err != nil {
		return nil, err
	}
	a, err := accountcheck.Open(ctx, req, who, x.name)
	if err != nil {
		return nil, err
	}
	var answer []byte
	v, err := a.Attempt(ctx, a.Proof(func() (account.Match, error) {
		var m account.Match
		m, answer, err = x.verify(who, key, message)
		return m, err
	}))
	if err == nil {
		err = admitted(ctx, req, a, strings.ToLower(x.mechanism), v)
	}
	if err == nil {
		who, err = actAs(ctx, req, x.mechanism, who, x.conv.AuthzID())
	}
	switch {
	case err == nil:
		req.Response.SASLCredentials = answer
		return who, nil
	case errors.Is(err, accountcheck.ErrCredentials):
		req.Response.SASLCredentials = []byte(auth.InvalidProof)
	}
	return nil, err
}

// verify verifies a proof. The parameters who and key are the present identity and key. If
// they differ from the identity and key at the beginning of the exchange, the proof is a
// mismatch.
func (x *scramming) verify(who *settings.Identity, key auth.ScramKey, message []byte) (account.Match, []byte, error) {
	answer, done, err := x.conv.Step(message)
	switch {
	case errors.Is(err, auth.ErrProof):
		return account.Mismatch, answer, nil
	case err != nil:
		return account.Mismatch, nil, err
	case !done || x.who == nil || who == nil || who.ID != x.who.ID || who.Admin != x.who.Admin,
		subtle.ConstantTimeCompare(key.StoredKey, x.key.StoredKey) != 1:
		return account.Mismatch, answer, nil
	}
	return account.Fits, answer, nil
}

// scramFailure returns the error of the bind. If err is auth.ErrProof, scramFailure adds
// SCRAM's error message to the response.
func scramFailure(req *request.Request, answer []byte, err error) error {
	if errors.Is(err, auth.ErrProof) {
		req.Response.SASLCredentials = answer
		return errCredentials
	}
	return err
}

// scramKey returns the identity with a name, and the identity's key. If no identity has
// the name, or if the identity has no key, scramKey returns a nil identity and a fake
// key.
func scramKey(ctx context.Context, req *request.Request, mechanism, name string) (*settings.Identity, auth.ScramKey, error) {
	s := req.Now()
	defer s.Close()
	id := auth.NameOf(name)
	who, err := named(ctx, req, id)
	if err != nil {
		return nil, auth.ScramKey{}, err
	}
	if who != nil {
		key, ok, err := storedKey(ctx, req, who, id, mechanism)
		if ok || err != nil {
			return who, key, err
		}
	}
	return nil, auth.FakeScramKey(mechanism, req.Server.Settings().Secret, canonical(req, id)), nil
}

// storedKey returns the key of an account. It returns no key for an account that needs a
// second factor. If the account cannot be used, storedKey returns a key that no proof fits.
// Such a key has the salt and the iteration count of the stored key.
func storedKey(ctx context.Context, req *request.Request, who *settings.Identity, asked, mechanism string) (k auth.ScramKey, ok bool, err error) {
	if who.Admin {
		k, ok = findKey(req.Server.Settings().AdminKeys, mechanism)
		return k, ok, nil
	}
	a, err := accountcheck.Open(ctx, req, who, asked)
	if err != nil || a.NeedsCode() {
		return k, false, err
	}
	if k, ok = keyIn(req, a.Secrets, mechanism); ok && !a.Usable() {
		k = auth.Unusable(k)
	}
	return k, ok, nil
}

// keyIn returns the key for a mechanism from the secrets of an account. The server derived
// the key and stored it in scramKey, or a client stored the key in authPassword (RFC 5803).
func keyIn(req *request.Request, secrets []entry.Attribute, mechanism string) (k auth.ScramKey, ok bool) {
	for i := range secrets {
		if t := secrets[i].Type; t != req.Known.ScramKey && t != req.Known.AuthPassword {
			continue
		}
		if k, ok = findKey(secrets[i].Values, mechanism); ok {
			return k, true
		}
	}
	return k, false
}

func findKey(stored [][]byte, mechanism string) (k auth.ScramKey, ok bool) {
	for _, v := range stored {
		if k, ok = auth.ParseScramKey(mechanism, v); ok {
			return k, true
		}
	}
	return k, false
}

// canonical returns the same text for all spellings of a name. The fake salt of a name
// without an entry therefore does not depend on the spelling, just as the salt of an entry
// does not depend on the spelling of its name.
func canonical(req *request.Request, name string) string {
	if text, ok := strings.CutPrefix(name, "dn:"); ok {
		if key, err := req.Parse(text); err == nil {
			return "dn:" + key
		}
		return name
	}
	if rule := req.Schema.Rule("caseIgnoreMatch"); rule != nil {
		if key, err := rule.Key([]byte(name)); err == nil {
			return string(key)
		}
	}
	return strings.ToLower(name)
}
