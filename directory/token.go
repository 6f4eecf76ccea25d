package directory

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/directory/internal/bind"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// BindToken authenticates the session by a token of 'ldapd token add'. The session is then bound as the account that
// the token belongs to. If the token is not accepted, the error is a *op.Result and the session is anonymous. Like a
// bind, BindToken must run alone.
func (s *Session) BindToken(ctx context.Context, token string) error {
	req := s.d.pool.Get().(*request.Request)
	defer s.d.pool.Put(req)
	defer req.End()
	req.Begin(&s.s, 0)
	m := &op.Message{Request: &op.Bind{Version: 3, SASL: true, Mechanism: "TOKEN"}}
	ctx = req.Traced(ctx, m)
	s.s.Forget()
	req.Judge.Unrestrict()
	err := bind.Token(ctx, req, token)
	if err != nil {
		req.Response.Result = req.Server.ToResult(ctx, err)
		s.noteFailure(req, m)
		refused := req.Response.Result
		err = &refused
	}
	req.Observed(m)
	return err
}
