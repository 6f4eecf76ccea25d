// Package password turns changes of passwords into the values that are stored: hashes,
// and the SCRAM keys that are derived from passwords.
package password

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// Is reports whether a description is userPassword, with or without options.
func Is(req *request.Request, description string) bool {
	return req.Known.IsOf(description, req.Known.UserPassword)
}

// HashAttributes returns the attributes of a new entry with the passwords hashed. If there
// are passwords in clear and the attributes do not include SCRAM keys, it adds the SCRAM keys
// of the first password in clear.
func HashAttributes(ctx context.Context, req *request.Request, as []op.PartialAttribute) ([]op.PartialAttribute, error) {
	var clear []byte
	cloned := false
	for i := range as {
		if !Is(req, as[i].Description) {
			continue
		}
		values, err := hashValues(ctx, req, as[i].Values)
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
	keys, err := scramKeys(ctx, req, clear)
	if err != nil || len(keys) == 0 || slices.ContainsFunc(as, func(a op.PartialAttribute) bool { return isScramKey(req, a.Description) }) {
		return as, err
	}
	return append(as, op.PartialAttribute{Description: req.Known.ScramKey.Name(), Values: keys}), nil
}

// HashChanges returns the changes with new passwords hashed. It runs before the transaction,
// because the transaction may run more than once. If passwords change and the changes do not
// include scramKey, HashChanges also replaces the SCRAM keys. The new keys are those of the
// password in clear that the last addition or replacement of passwords contains. If it contains
// none, or a later change deletes that password, HashChanges only deletes the SCRAM keys,
// because they may belong to a password that the changes remove.
func HashChanges(ctx context.Context, req *request.Request, changes []op.Modification) ([]op.Modification, error) {
	var clear []byte
	touched, given, cloned := false, false, false
	for i := range changes {
		c := &changes[i]
		given = given || isScramKey(req, c.Description)
		if !Is(req, c.Description) {
			continue
		}
		touched = true
		if c.Kind != op.ModAdd && c.Kind != op.ModReplace {
			if len(c.Values) == 0 || slices.ContainsFunc(c.Values, func(v []byte) bool { return bytes.Equal(v, clear) }) {
				clear = nil
			}
			continue
		}
		values, err := hashValues(ctx, req, c.Values)
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
	return withScramKeys(ctx, req, changes, clear)
}

// withScramKeys adds the change that stores the SCRAM keys of a password in clear. If
// clear is nil, the change deletes the SCRAM keys.
func withScramKeys(ctx context.Context, req *request.Request, changes []op.Modification, clear []byte) ([]op.Modification, error) {
	if req.Known.ScramKey == nil {
		return changes, nil
	}
	keys, err := scramKeys(ctx, req, clear)
	return append(slices.Clip(changes), Replace(req.Known.ScramKey, keys...)), err
}

// Replace returns the change that replaces all values of a type.
func Replace(t *schema.AttributeType, values ...[]byte) op.Modification {
	return op.Modification{Kind: op.ModReplace, PartialAttribute: op.PartialAttribute{Description: t.Name(), Values: values}}
}

// New returns the changes that set a password sent in clear. A password that looks like a
// hash is hashed too.
func New(ctx context.Context, req *request.Request, clear []byte) ([]op.Modification, error) {
	if req.Known.UserPassword == nil {
		return nil, op.Errorf(op.UnwillingToPerform, "the schema has no userPassword")
	}
	hash, err := req.Server.Passwords.Hash(ctx, req.Session.Channel, "", clear)
	if err != nil {
		return nil, err
	}
	return withScramKeys(ctx, req, []op.Modification{Replace(req.Known.UserPassword, hash)}, clear)
}

// scramKeys derives the SCRAM keys of a password, one for each SCRAM mechanism that the
// server offers.
func scramKeys(ctx context.Context, req *request.Request, clear []byte) ([][]byte, error) {
	if clear == nil || req.Known.ScramKey == nil {
		return nil, nil
	}
	return req.Server.Passwords.ScramKeys(ctx, req.Session.Channel, req.Server.Settings().Mechanisms, clear)
}

func firstClear(values [][]byte) []byte {
	for _, v := range values {
		if !auth.Hashed(v) {
			return auth.Clear(v)
		}
	}
	return nil
}

// isScramKey reports whether a description is scramKey, with or without options.
func isScramKey(req *request.Request, description string) bool {
	return req.Known.IsOf(description, req.Known.ScramKey)
}

var errCostly = op.Errorf(op.ConstraintViolation, "the stored password asks for so many rounds, or so much memory, that one bind would take seconds: store one that costs less, or send the password in clear")

var ErrEmptyPassword = op.Errorf(op.ConstraintViolation, "the password is empty: nobody could bind with it")

func hashValues(ctx context.Context, req *request.Request, values [][]byte) ([][]byte, error) {
	hashed := make([][]byte, len(values))
	for i, v := range values {
		switch {
		case len(auth.Clear(v)) == 0:
			return nil, ErrEmptyPassword
		case !auth.Hashed(v):
			h, err := req.Server.Passwords.Hash(ctx, req.Session.Channel, "", auth.Clear(v))
			if err != nil {
				return nil, err
			}
			hashed[i] = h
		case req.Who.IsAdmin() && auth.TooCostly(v):
			return nil, errCostly
		case req.Who.IsAdmin():
			hashed[i] = v
		default:
			return nil, op.Errorf(op.ConstraintViolation, "the new password has the form of a stored password, such as {SCHEME}...: only the administrator may set stored passwords, by import or modify; send the password itself in clear, or use Password Modify if it really has this form")
		}
	}
	return hashed, nil
}

// Stored returns an entry's stored values of userPassword with the description's options.
func Stored(ctx context.Context, req *request.Request, name dn.DN, description string) ([][]byte, error) {
	at, err := req.Snapshot.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	secrets, err := req.Snapshot.Secrets(ctx, at.ID)
	return storedIn(req, secrets, description), err
}

func storedIn(req *request.Request, secrets []entry.Attribute, description string) [][]byte {
	_, options, _ := strings.Cut(description, ";")
	options = entry.SortOptions(options)
	for i := range secrets {
		if secrets[i].Type == req.Known.UserPassword && secrets[i].Options == options {
			return secrets[i].Values
		}
	}
	return nil
}
