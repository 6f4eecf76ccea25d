package directory

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/auth"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// isPassword reports whether a description is userPassword, options or not.
func (o *operation) isPassword(description string) bool {
	return o.known.isOf(description, o.known.userPassword)
}

// hashAttributes returns the attributes of a new entry with its passwords hashed,
// and the keys of SCRAM of the first one.
func (o *operation) hashAttributes(ctx context.Context, as []op.PartialAttribute) ([]op.PartialAttribute, error) {
	var clear []byte
	cloned := false
	for i := range as {
		if !o.isPassword(as[i].Description) {
			continue
		}
		values, err := o.hashValues(ctx, as[i].Values)
		if err != nil {
			return nil, err
		}
		if clear == nil {
			clear = firstClear(as[i].Values)
		}
		if !cloned {
			as, cloned = slices.Clone(as), true
		}
		as[i].Values = values
	}
	keys, err := o.scramKeys(ctx, clear)
	if err != nil || len(keys) == 0 || slices.ContainsFunc(as, func(a op.PartialAttribute) bool { return o.isScramKey(a.Description) }) {
		return as, err
	}
	return append(as, op.PartialAttribute{Description: o.known.scramKey.Name(), Values: keys}), nil
}

// hashChanges returns the changes with new passwords hashed. It is done before the
// transaction, which may run more than once. Whatever is changed of passwords,
// the keys of SCRAM become those of the last one that was given in clear, or go:
// nobody can tell of which password they were.
func (o *operation) hashChanges(ctx context.Context, changes []op.Modification) ([]op.Modification, error) {
	var clear []byte
	touched, given, cloned := false, false, false
	for i := range changes {
		c := &changes[i]
		given = given || o.isScramKey(c.Description)
		if !o.isPassword(c.Description) {
			continue
		}
		touched = true
		if c.Kind != op.ModAdd && c.Kind != op.ModReplace {
			if len(c.Values) == 0 || slices.ContainsFunc(c.Values, func(v []byte) bool { return bytes.Equal(v, clear) }) {
				clear = nil
			}
			continue
		}
		values, err := o.hashValues(ctx, c.Values)
		if err != nil {
			return nil, err
		}
		clear = firstClear(c.Values)
		if !cloned {
			changes, cloned = slices.Clone(changes), true
		}
		changes[i].Values = values
	}
	if !touched || given {
		return changes, nil
	}
	return o.withScramKeys(ctx, changes, clear)
}

// withScramKeys adds the change to the keys of a password in clear; nil: to none.
func (o *operation) withScramKeys(ctx context.Context, changes []op.Modification, clear []byte) ([]op.Modification, error) {
	if o.known.scramKey == nil {
		return changes, nil
	}
	keys, err := o.scramKeys(ctx, clear)
	return append(slices.Clip(changes), replace(o.known.scramKey, keys...)), err
}

func replace(t *schema.AttributeType, values ...[]byte) op.Modification {
	return op.Modification{Kind: op.ModReplace, PartialAttribute: op.PartialAttribute{Description: t.Name(), Values: values}}
}

// newPassword returns the changes that set a password to one in clear, whatever it
// looks like.
func (o *operation) newPassword(ctx context.Context, clear []byte) ([]op.Modification, error) {
	if o.known.userPassword == nil {
		return nil, op.Errorf(op.UnwillingToPerform, "the schema has no userPassword")
	}
	hash, err := o.server.passwords.Hash(ctx, o.session.channel, "", clear)
	if err != nil {
		return nil, err
	}
	return o.withScramKeys(ctx, []op.Modification{replace(o.known.userPassword, hash)}, clear)
}

// scramKeys derives the keys of a password in clear, for the mechanisms that are
// offered.
func (o *operation) scramKeys(ctx context.Context, clear []byte) ([][]byte, error) {
	if clear == nil || o.known.scramKey == nil {
		return nil, nil
	}
	return o.server.passwords.ScramKeys(ctx, o.session.channel, o.server.settings().Mechanisms, clear)
}

func firstClear(values [][]byte) []byte {
	for _, v := range values {
		if !auth.Hashed(v) {
			return auth.Clear(v)
		}
	}
	return nil
}

// isScramKey reports whether a description is scramKey, options or not.
func (o *operation) isScramKey(description string) bool {
	return o.known.isOf(description, o.known.scramKey)
}

var errEmptyPassword = op.Errorf(op.ConstraintViolation, "an empty password would let nobody in")

func (o *operation) hashValues(ctx context.Context, values [][]byte) ([][]byte, error) {
	hashed := make([][]byte, len(values))
	for i, v := range values {
		switch {
		case len(auth.Clear(v)) == 0:
			return nil, errEmptyPassword
		case !auth.Hashed(v):
			h, err := o.server.passwords.Hash(ctx, o.session.channel, "", auth.Clear(v))
			if err != nil {
				return nil, err
			}
			hashed[i] = h
		case o.who.isAdmin():
			hashed[i] = v
		default:
			return nil, op.Errorf(op.ConstraintViolation, "the new password has the form of a stored one, such as {SCHEME}...: only the administrator may set one, by import or modify; give the password itself, in clear, and if that is what it looks like use Password Modify")
		}
	}
	return hashed, nil
}

// storedDeletes replaces the passwords in clear that are to be deleted by the
// stored values that they fit, so that a user can name the old one.
func (o *operation) storedDeletes(ctx context.Context, name dn.DN, changes []op.Modification) ([]op.Modification, error) {
	cloned := false
	for i := range changes {
		c := &changes[i]
		if c.Kind != op.ModDelete || len(c.Values) == 0 || !o.isPassword(c.Description) {
			continue
		}
		stored, err := o.storedPasswords(ctx, name, c.Description)
		if err != nil {
			return nil, err
		}
		if !cloned {
			changes, cloned = slices.Clone(changes), true
			c = &changes[i]
		}
		c.Values = slices.Clone(c.Values)
		for j := range c.Values {
			if c.Values[j], err = o.storedFor(ctx, stored, c.Values[j]); err != nil {
				return nil, err
			}
		}
	}
	return changes, nil
}

func (o *operation) storedPasswords(ctx context.Context, name dn.DN, description string) ([][]byte, error) {
	at, err := o.s.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	secrets, err := o.s.Secrets(ctx, at.ID)
	if err != nil {
		return nil, err
	}
	_, options, _ := strings.Cut(description, ";")
	options = entry.SortOptions(options)
	for i := range secrets {
		if secrets[i].Type == o.known.userPassword && secrets[i].Options == options {
			return secrets[i].Values, nil
		}
	}
	return nil, nil
}

// storedFor returns the stored value that is or verifies a given one, else the
// given one. Only the administrator may name a stored value itself: to others
// its bytes would be as good as the password.
func (o *operation) storedFor(ctx context.Context, stored [][]byte, given []byte) ([]byte, error) {
	for _, v := range stored {
		if bytes.Equal(v, given) && o.who.isAdmin() {
			return v, nil
		}
		ok, err := o.server.passwords.Verify(ctx, o.session.channel, v, given)
		if ok {
			return v, nil
		}
		if err != nil && !errors.Is(err, auth.ErrScheme) {
			return nil, err
		}
	}
	if o.who.isAdmin() {
		return given, nil
	}
	return nil, op.Errorf(op.NoSuchAttribute, "the old password is not right")
}
