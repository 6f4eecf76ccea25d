package directory

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/seed-4dac0d86/ldapd/auth"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// upgrade stores the password that somebody has just bound with in the default
// scheme if it is in a fast one, derives the keys of SCRAM that are missing and
// removes those of mechanisms that are not offered. The bind does not wait for it.
func (o *operation) upgrade(who *identity, secrets []entry.Attribute, stored, clear []byte) {
	d := o.server
	if !d.settings().UpgradePasswords || who.admin || auth.Slow(stored) && o.hasKeys(secrets) && !o.hasSpareKeys(secrets) {
		return
	}
	spare := o.hasSpareKeys(secrets)
	stored, clear = bytes.Clone(stored), bytes.Clone(clear)
	x := o.apart()
	d.beside.start(func(ctx context.Context) {
		defer d.containPanic("storing a password anew")
		err := x.restore(ctx, who, stored, clear, spare)
		if err != nil && ctx.Err() == nil && !errors.Is(err, txn.ErrReadOnly) && !isMissing(err) {
			d.log.Warn("a password stays as it is stored", "dn", who.name, "error", err)
		}
	})
}

// hasKeys reports whether there are all keys of SCRAM that would be derived.
func (o *operation) hasKeys(secrets []entry.Attribute) bool {
	if o.known.scramKey == nil {
		return true
	}
	for _, m := range o.server.settings().Mechanisms {
		if !auth.IsScram(m) {
			continue
		}
		if _, ok := o.keyIn(secrets, m); !ok {
			return false
		}
	}
	return true
}

// hasSpareKeys reports whether there are keys that were derived for a mechanism of
// SCRAM that is not offered.
func (o *operation) hasSpareKeys(secrets []entry.Attribute) bool {
	offered := func(key []byte) bool {
		return slices.ContainsFunc(o.server.settings().Mechanisms, func(m string) bool {
			if !auth.IsScram(m) {
				return false
			}
			_, ok := auth.ParseScramKey(m, key)
			return ok
		})
	}
	for i := range secrets {
		if t := secrets[i].Type; t == o.known.scramKey && t != nil {
			return slices.ContainsFunc(secrets[i].Values, func(key []byte) bool { return !offered(key) })
		}
	}
	return false
}

// restore replaces what is stored of a password, unless that was changed
// meanwhile.
func (o *operation) restore(ctx context.Context, who *identity, stored, clear []byte, spare bool) error {
	o.who = who
	changes, err := o.newPassword(ctx, clear)
	if err != nil {
		return err
	}
	if auth.Slow(stored) {
		changes = changes[1:] // only the keys
		if len(changes) == 0 || len(changes[0].Values) == 0 && !spare {
			return nil // SCRAM cannot have this password
		}
	}
	_, err = o.server.part.Update(ctx, partition.By{Name: who.name}, func(tx *partition.Tx) error {
		name, err := dn.Parse(who.name)
		if err != nil {
			return err
		}
		o.read(&tx.Snapshot)
		at, err := tx.Find(ctx, name)
		if err != nil || at.ID != who.id {
			return err
		}
		now, err := o.storedPasswords(ctx, name, "userPassword")
		if err != nil || len(now) != 1 || !bytes.Equal(now[0], stored) {
			return err
		}
		return tx.Modify(ctx, name, changes)
	})
	return err
}
