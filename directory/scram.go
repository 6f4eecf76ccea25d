package directory

import (
	"context"
	"crypto/subtle"
	"errors"
	"strings"

	"github.com/seed-4dac0d86/ldapd/auth"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
)

func usableScram(*operation) error { return nil }

func usablePlus(o *operation) error {
	if auth.Bindable(o.session.channel) {
		return nil
	}
	return op.Errorf(op.AuthMethodNotSupported, "there is no TLS to bind to")
}

// scramming is an exchange of SCRAM (RFC 5802) under way.
type scramming struct {
	mechanism string
	conv      *auth.Scram
	who       *identity // nil: nobody, who is asked all the same
	// name and key are what the client was asked with.
	base, name string
	key        auth.ScramKey
}

func beginScram(mechanism string) func(context.Context, *operation, []byte) (*identity, error) {
	return func(ctx context.Context, o *operation, message []byte) (*identity, error) {
		x := &scramming{mechanism: mechanism}
		conv, err := auth.NewScram(mechanism, o.session.channel, message,
			func(base, name string) (k auth.ScramKey, err error) {
				x.base, x.name = base, name
				x.who, x.key, err = o.scramKey(ctx, base, name)
				return x.key, err
			})
		if err != nil {
			return nil, err
		}
		x.conv = conv
		challenge, _, err := conv.Step(message)
		if err != nil {
			return nil, o.scramFailure(challenge, err)
		}
		return nil, o.proceed(mechanism, challenge, x.finish)
	}
}

// finish takes the client's proof. The key must still be what it was: the client
// may have taken its time, and the password may be another one by now.
func (x *scramming) finish(ctx context.Context, o *operation, message []byte) (*identity, error) {
	answer, done, err := x.conv.Step(message)
	if err != nil {
		return nil, o.scramFailure(answer, err)
	}
	if !done || x.who == nil {
		return nil, errCredentials
	}
	who, key, err := o.scramKey(ctx, x.base, x.name)
	if err != nil {
		return nil, err
	}
	if who == nil || who.id != x.who.id || who.admin != x.who.admin || subtle.ConstantTimeCompare(key.StoredKey, x.key.StoredKey) != 1 {
		return nil, errCredentials
	}
	s := o.now()
	defer s.Close()
	if who, err = o.actAs(ctx, who, x.conv.AuthzID()); err != nil {
		return nil, err
	}
	o.response.SASLCredentials = answer
	return who, nil
}

// scramFailure tells the client as SCRAM does, besides the result.
func (o *operation) scramFailure(answer []byte, err error) error {
	if errors.Is(err, auth.ErrProof) {
		o.response.SASLCredentials = answer
		return errCredentials
	}
	return err
}

// scramKey returns who has a name, and their key: a fake one for who has none, and
// for nobody.
func (o *operation) scramKey(ctx context.Context, mechanism, name string) (*identity, auth.ScramKey, error) {
	s := o.now()
	defer s.Close()
	id := auth.NameOf(name)
	who, err := o.named(ctx, id)
	if err != nil {
		return nil, auth.ScramKey{}, err
	}
	if who != nil {
		key, ok, err := o.storedKey(ctx, who, mechanism)
		if err != nil {
			return who, key, err
		}
		if ok {
			return o.usableKey(ctx, who, key)
		}
	}
	return nil, auth.FakeScramKey(mechanism, o.server.settings().Secret, o.canonical(id)), nil
}

// usableKey returns a key that no proof fits if an account cannot be used, with the
// salt and the iterations of the one there is.
func (o *operation) usableKey(ctx context.Context, who *identity, key auth.ScramKey) (*identity, auth.ScramKey, error) {
	a, err := o.accountOf(ctx, who)
	if err != nil {
		return nil, key, err
	}
	if a.disabled || a.expired {
		key = auth.Unusable(key)
	}
	who.reset.Store(a.reset)
	return who, key, nil
}

func (o *operation) storedKey(ctx context.Context, who *identity, mechanism string) (k auth.ScramKey, ok bool, err error) {
	if who.admin {
		k, ok = findKey(o.server.settings().AdminKeys, mechanism)
		return k, ok, nil
	}
	secrets, err := o.passwordsOf(ctx, who)
	if err != nil {
		return k, false, err
	}
	k, ok = o.keyIn(secrets, mechanism)
	return k, ok, nil
}

// keyIn finds the key for a mechanism: one derived here, or one that somebody put
// into authPassword (RFC 5803).
func (o *operation) keyIn(secrets []entry.Attribute, mechanism string) (k auth.ScramKey, ok bool) {
	for i := range secrets {
		if t := secrets[i].Type; t != o.known.scramKey && t != o.known.authPassword {
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
func (o *operation) canonical(name string) string {
	if text, ok := strings.CutPrefix(name, "dn:"); ok {
		if key, err := o.parse(text); err == nil {
			return "dn:" + key
		}
		return name
	}
	if rule := o.schema.Rule("caseIgnoreMatch"); rule != nil {
		if key, err := rule.Key([]byte(name)); err == nil {
			return string(key)
		}
	}
	return strings.ToLower(name)
}
