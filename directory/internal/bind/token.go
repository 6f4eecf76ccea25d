package bind

import (
	"bytes"
	"context"
	"crypto/subtle"
	"errors"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/account"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/internal/password"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/settings"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Token authenticates the session by a stored token (package auth). The token says which entry has it, so one read
// finds its hash.
func Token(ctx context.Context, req *request.Request, text string) error {
	if password.InClear(req) {
		return password.ErrClear
	}
	id, hash, err := auth.ParseStoredToken(text)
	if err != nil {
		return errCredentials
	}
	s := req.Now()
	defer s.Close()
	has, err := hasToken(ctx, req, id, hash)
	if err != nil {
		return err
	}
	if !has {
		return errCredentials
	}
	name, err := req.Snapshot.Name(ctx, id)
	if errors.Is(err, table.ErrCorrupt) { // the entry was deleted
		return errCredentials
	}
	if err != nil {
		return err
	}
	who := &settings.Identity{Name: name, ID: id}
	if err := suffices(ctx, req, who, account.Token, true); err != nil {
		return err
	}
	who, err = actAs(ctx, req, "TOKEN", who, "")
	if err == nil {
		req.Session.Who.Store(who)
	}
	return err
}

// hasToken reports whether an entry has a token with a hash that is still valid.
func hasToken(ctx context.Context, req *request.Request, id entry.ID, hash string) (bool, error) {
	secrets, err := req.Snapshot.Secrets(ctx, id)
	if err != nil {
		return false, err
	}
	t := req.Schema.Attribute("bearerToken")
	for i := range secrets {
		if secrets[i].Type != t {
			continue
		}
		for _, v := range secrets[i].Values {
			stored, rest, _ := bytes.Cut(v, []byte(" "))
			until, _, _ := bytes.Cut(rest, []byte(" "))
			if subtle.ConstantTimeCompare(stored, []byte(hash)) == 1 && !over(string(until)) {
				return true, nil
			}
		}
	}
	return false, nil
}

// over reports whether the time until which a token is valid has passed. What is not a time has.
func over(until string) bool {
	if until == "-" {
		return false
	}
	end, err := time.Parse(time.RFC3339, until)
	return err != nil || !time.Now().Before(end)
}
