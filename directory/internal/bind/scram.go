package bind

import (
	"context"
	"crypto/subtle"
	"errors"
	"strings"

	"github.com/seed-4dac0d86/ldapd/auth"
	"github.com/seed-4dac0d86/ldapd/directory/internal/identify"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/settings"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
)

func usableScram(*request.Request) error { return nil }

func usablePlus(req *request.Request) error {
	if auth.Bindable(req.Session.Channel) {
		return nil
	}
	return op.Errorf(op.AuthMethodNotSupported, "there is no TLS to bind to")
}

// scramming is an exchange of SCRAM (RFC 5802) under way.
type scramming struct {
	mechanism string
	conv      *auth.Scram
	who       *settings.Identity // nil: nobody, who is asked all the same
	// name and key are what the client was asked with.
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

// finish takes the client's proof. The key must still be what it was: the client
// may have taken its time, and the password may be another one by now.
func (x *scramming) finish(ctx context.Context, req *request.Request, message []byte) (*settings.Identity, error) {
	answer, done, err := x.conv.Step(message)
	if err != nil {
		return nil, scramFailure(req, answer, err)
	}
	if !done || x.who == nil {
		return nil, errCredentials
	}
	who, key, err := scramKey(ctx, req, x.base, x.name)
	if err != nil {
		return nil, err
	}
	if who == nil || who.ID != x.who.ID || who.Admin != x.who.Admin || subtle.ConstantTimeCompare(key.StoredKey, x.key.StoredKey) != 1 {
		return nil, errCredentials
	}
	s := req.Now()
	defer s.Close()
	if who, err = actAs(ctx, req, who, x.conv.AuthzID()); err != nil {
		return nil, err
	}
	req.Response.SASLCredentials = answer
	return who, nil
}

// scramFailure tells the client as SCRAM does, besides the result.
func scramFailure(req *request.Request, answer []byte, err error) error {
	if errors.Is(err, auth.ErrProof) {
		req.Response.SASLCredentials = answer
		return errCredentials
	}
	return err
}

// scramKey returns who has a name, and their key: a fake one for who has none, and
// for nobody.
func scramKey(ctx context.Context, req *request.Request, mechanism, name string) (*settings.Identity, auth.ScramKey, error) {
	s := req.Now()
	defer s.Close()
	id := auth.NameOf(name)
	who, err := named(ctx, req, id)
	if err != nil {
		return nil, auth.ScramKey{}, err
	}
	if who != nil {
		key, ok, err := storedKey(ctx, req, who, mechanism)
		if err != nil {
			return who, key, err
		}
		if ok {
			return usableKey(ctx, req, who, key)
		}
	}
	return nil, auth.FakeScramKey(mechanism, req.Server.Settings().Secret, canonical(req, id)), nil
}

// usableKey returns a key that no proof fits if an account cannot be used, with the
// salt and the iterations of the one there is.
func usableKey(ctx context.Context, req *request.Request, who *settings.Identity, key auth.ScramKey) (*settings.Identity, auth.ScramKey, error) {
	a, err := identify.AccountOf(ctx, req, who)
	if err != nil {
		return nil, key, err
	}
	if a.Disabled || a.Expired {
		key = auth.Unusable(key)
	}
	who.Reset.Store(a.Reset)
	return who, key, nil
}

func storedKey(ctx context.Context, req *request.Request, who *settings.Identity, mechanism string) (k auth.ScramKey, ok bool, err error) {
	if who.Admin {
		k, ok = findKey(req.Server.Settings().AdminKeys, mechanism)
		return k, ok, nil
	}
	secrets, err := passwordsOf(ctx, req, who)
	if err != nil {
		return k, false, err
	}
	k, ok = keyIn(req, secrets, mechanism)
	return k, ok, nil
}

// keyIn finds the key for a mechanism: one derived here, or one that somebody put
// into authPassword (RFC 5803).
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

// canonical is the same for spellings of a name that would lead to the same
// entry, so that these are asked with the same salt, as those of an entry are.
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
