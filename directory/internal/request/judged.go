package request

import (
	"context"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/access"
	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/directory/internal/judge"
	"github.com/seed-4dac0d86/ldapd/directory/settings"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// ErrAccess is the result for an operation that the access rules do not allow.
var ErrAccess = judge.ErrAccess

// Judged sets the request's Judge to decide by the access rules of a state. The state must be
// the newest state or a transaction's state. For the administrator, the Judge allows
// everything.
func (req *Request) Judged(ctx context.Context, newest *partition.Snapshot) error {
	if req.Who.IsAdmin() {
		req.Judge.Unrestrict()
		return nil
	}
	req.Seen.Rules = newest.Catalog.Access.Since
	p, err := req.ProgramOf(ctx, newest, req.Who)
	if err == nil {
		req.Judge.By(p)
		req.judged = newest.Ordinal()
	}
	return err
}

// Keep keeps the state by which the request was admitted, so that the next call of Newest returns it. It is
// not for a request that waits for anything before it calls Newest.
func (req *Request) Keep(s *partition.Snapshot) { req.kept = s }

// Newest sets the request to read the newest state, and returns that state. The Judge then
// decides by the access rules of that state. By the rules that were in force when the
// request arrived, the request might show a value that was written later, under newer rules
// that hide the value.
func (req *Request) Newest(ctx context.Context) (*partition.Snapshot, error) {
	s := req.kept
	if s != nil {
		req.kept = nil
		req.Read(s)
	} else {
		s = req.Now()
	}
	if req.Judge.Unrestricted() || s.Ordinal() == req.judged {
		return s, nil
	}
	if err := req.Judged(ctx, s); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// ProgramOf returns the access rules of a state for an identity on the request's
// connection.
func (req *Request) ProgramOf(ctx context.Context, newest *partition.Snapshot, who *settings.Identity) (*acl.Program, error) {
	return req.Server.rules.Program(ctx, newest, req.asker(who), req.connection(who))
}

// Everyone returns rights that every identity has on every entry, by the access rules of a state.
func (req *Request) Everyone(ctx context.Context, newest *partition.Snapshot) (acl.Rights, error) {
	set, err := req.Server.rules.Set(ctx, newest)
	if err != nil {
		return 0, err
	}
	return set.Everyone(), nil
}

// connection returns the properties of the request's connection that access rules test. They
// include the mechanism by which the given identity was bound.
func (req *Request) connection(who *settings.Identity) acl.Connection {
	c := req.Session.connection()
	c.Mechanism, c.Proxied = who.Mechanism(), req.Controls.Proxied != nil
	return c
}

// ProgramAt returns the access rules of a past state, compiled for the requester. The name
// and the groups of the requester are those of the past state.
func (req *Request) ProgramAt(ctx context.Context, s *partition.Snapshot) (*acl.Program, error) {
	return req.Server.rules.At(ctx, s, req.asker(req.Who), req.connection(req.Who))
}

// DynamicGroups returns the dynamic groups of the state that the request reads.
func (req *Request) DynamicGroups(ctx context.Context) (*access.DynamicGroups, error) {
	if req.dynamic != nil {
		return req.dynamic, nil
	}
	d, err := req.Server.rules.Dynamic(ctx, req.Snapshot)
	if err == nil {
		req.dynamic = d
	}
	return d, err
}

// asker returns an identity in the form that access rules use.
func (req *Request) asker(who *settings.Identity) *access.Who {
	if who == nil {
		return &req.Session.anonymous
	}
	return who.Asker(req.Server.rules)
}

// connection returns the properties of the connection that access rules test, and the present
// time. Most are read anew for each request, because they change when TLS begins.
func (s *Session) connection() acl.Connection {
	_, _, local := s.Channel.Peer()
	c := acl.Connection{Secure: s.Channel.TLS() != nil || local, Local: local, Time: time.Now()}
	if c.Secure {
		// Every cipher suite that the server accepts has a strength of at least 128
		// bits. A local connection counts as equally strong.
		c.SSF = 128
	}
	c.Address = s.address
	return c
}
