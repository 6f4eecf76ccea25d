package accountcheck

import (
	"context"
	"slices"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/internal/identify"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// ErrEnded ends the session of an account that may no longer be used.
var ErrEnded = op.Errorf(op.StrongerAuthRequired, "the account that has bound here may not be used any more, or its password was reset: bind again")

// byPassword are the mechanisms that use the password. A reset of the password ends the
// sessions that were bound with one of them.
var byPassword = []string{"simple", "plain", "scram-sha-1", "scram-sha-256", "scram-sha-512", "scram-sha-1-plus", "scram-sha-256-plus", "scram-sha-512-plus"}

// Still returns an error if the account of the session is gone or may no longer be used. It
// also returns an error if the session was bound with the account's password and somebody else
// has reset the password since. It reads the account only if the account's entry has changed
// since the last check, or if the account's end time has come. The caller must have set the
// request to read the newest state.
func Still(ctx context.Context, req *request.Request) error {
	who := req.Session.Who.Load()
	if !who.HasEntry() || who.IsAdmin() {
		return nil
	}
	s := req.Snapshot
	if s.Unchanged(who.ID, who.UsableSince()) {
		return nil
	}
	state, _, err := identify.StateOf(ctx, req, who)
	if err != nil {
		return err
	}
	found, err := req.Server.Policies.Of(ctx, s, req.Known, partition.Located{ID: who.ID, Name: who.Name})
	if err != nil {
		return err
	}
	now := time.Now()
	if !found.Policy.Usable(&state, now) {
		return ErrEnded
	}
	reset := found.Policy.AfterPassword(&state, now).MustChange && !who.Reset.Load()
	if reset && slices.Contains(byPassword, who.Bound) {
		return ErrEnded
	}
	who.SetUsable(s.Ordinal(), state.End)
	return nil
}
