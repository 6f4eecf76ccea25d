package bind

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/internal/password"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/settings"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// upgrade starts a background job after a successful bind, if the options permit this and the
// job has something to do. If the password is stored in a fast scheme, the job stores the
// password in the default scheme. The job also derives missing SCRAM keys, and removes the
// keys of mechanisms that are no longer offered.
func upgrade(req *request.Request, who *settings.Identity, secrets []entry.Attribute, stored, clear []byte) {
	d := req.Server
	if !d.Settings().UpgradePasswords || who.Admin || auth.Slow(stored) && hasKeys(req, secrets) && !hasSpareKeys(req, secrets) {
		return
	}
	spare := hasSpareKeys(req, secrets)
	stored, clear = bytes.Clone(stored), bytes.Clone(clear)
	x := req.Apart()
	d.Background.Start(func(ctx context.Context) {
		defer d.ContainPanic("storing a password anew")
		err := restore(ctx, x, who, stored, clear, spare)
		if err != nil && ctx.Err() == nil && !errors.Is(err, partition.ErrReadOnly) && !request.IsMissing(err) {
			d.Log.Warn("a password stays as it is stored", "dn", who.Name, "error", err)
		}
	})
}

// hasKeys reports whether the account has a SCRAM key for every SCRAM mechanism that the
// server offers.
func hasKeys(req *request.Request, secrets []entry.Attribute) bool {
	if req.Known.ScramKey == nil {
		return true
	}
	for _, m := range req.Server.Settings().Mechanisms {
		if !auth.IsScram(m) {
			continue
		}
		if _, ok := keyIn(req, secrets, m); !ok {
			return false
		}
	}
	return true
}

// hasSpareKeys reports whether the account has keys derived for a SCRAM mechanism that is
// not offered.
func hasSpareKeys(req *request.Request, secrets []entry.Attribute) bool {
	offered := func(key []byte) bool {
		return slices.ContainsFunc(req.Server.Settings().Mechanisms, func(m string) bool {
			if !auth.IsScram(m) {
				return false
			}
			_, ok := auth.ParseScramKey(m, key)
			return ok
		})
	}
	for i := range secrets {
		if t := secrets[i].Type; t == req.Known.ScramKey && t != nil {
			return slices.ContainsFunc(secrets[i].Values, func(key []byte) bool { return !offered(key) })
		}
	}
	return false
}

// restore stores the password again, in the default scheme and with the keys of the offered
// mechanisms. If the scheme of the stored password is slow already, only the keys change. If
// the password has changed since the bind, if the entry has several passwords, or if the
// directory follows another server, restore changes nothing.
func restore(ctx context.Context, req *request.Request, who *settings.Identity, stored, clear []byte, spare bool) error {
	req.Who = who
	changes, err := password.New(ctx, req, clear)
	if err != nil {
		return err
	}
	if auth.Slow(stored) {
		changes = changes[1:] // keep only the changes of the keys
		if len(changes) == 0 || len(changes[0].Values) == 0 && !spare {
			return nil // no keys: SCRAM cannot use this password
		}
	}
	_, err = write.Update(ctx, req.Server.Part, partition.By{Name: who.DN()}, func(tx *partition.Tx) error {
		name, err := who.Name.DN()
		if err != nil {
			return err
		}
		req.Read(&tx.Snapshot)
		at, err := tx.Find(ctx, name)
		if err != nil || at.ID != who.ID || (&tx.Snapshot).Catalog.Header.Following != nil {
			return err
		}
		now, err := password.Stored(ctx, req, name, "userPassword")
		if err != nil || len(now) != 1 || !bytes.Equal(now[0], stored) {
			return err
		}
		return tx.Modify(ctx, name, changes)
	})
	return err
}
