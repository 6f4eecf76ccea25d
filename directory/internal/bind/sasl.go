package bind

import (
	"context"
	"errors"
	"strings"

	"github.com/seed-4dac0d86/ldapd/account"
	"github.com/seed-4dac0d86/ldapd/auth"
	"github.com/seed-4dac0d86/ldapd/directory/internal/gate"
	"github.com/seed-4dac0d86/ldapd/directory/internal/identify"
	"github.com/seed-4dac0d86/ldapd/directory/internal/password"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/settings"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/op"
)

// A mechanism is a SASL mechanism (RFC 4422) that the server offers.
type mechanism struct {
	name string
	// usable returns why the mechanism cannot be used on this connection, or nil if it
	// can.
	usable func(req *request.Request) error
	// begin takes the client's first message. It returns the authenticated identity, or
	// an error, or the result of proceed if the client has to send more.
	begin func(ctx context.Context, req *request.Request, message []byte) (*settings.Identity, error)
}

// mechanisms returns the configured mechanisms. Each SCRAM mechanism adds its -PLUS
// variant.
func mechanisms(req *request.Request) (ms []mechanism) {
	set := req.Server.Settings()
	for _, name := range set.Mechanisms {
		switch {
		case name == "EXTERNAL":
			ms = append(ms, mechanism{name, usableExternal, bindExternal})
		case name == "PLAIN":
			ms = append(ms, mechanism{name, usablePlain, bindPlain})
		case name == "OAUTHBEARER" && set.Tokens != nil:
			ms = append(ms, mechanism{name, usableBearer, bindBearer})
		case auth.IsScram(name):
			ms = append(ms, mechanism{name, usableScram, beginScram(name)},
				mechanism{name + auth.Plus, usablePlus, beginScram(name + auth.Plus)})
		}
	}
	return ms
}

// sasl takes one message of a SASL exchange. Each message of an exchange names the
// mechanism. A message for another one, or a bind of another kind, abandons the exchange.
func sasl(ctx context.Context, req *request.Request, r *op.Bind, x *request.Exchange) (*settings.Identity, error) {
	m := mechanismNamed(req, r.Mechanism)
	if m == nil {
		return nil, op.Errorf(op.AuthMethodNotSupported, "SASL mechanism %q is not served: see supportedSASLMechanisms", r.Mechanism)
	}
	if err := m.usable(req); err != nil {
		return nil, err
	}
	who, err := step(ctx, req, m, r.Credentials, x)
	if errors.Is(err, auth.ErrMessage) {
		err = op.Errorf(op.ProtocolError, "%v", err)
	}
	return who, err
}

func step(ctx context.Context, req *request.Request, m *mechanism, message []byte, x *request.Exchange) (*settings.Identity, error) {
	if x != nil && x.Mechanism == m.name {
		return x.Next(ctx, req, message)
	}
	if message == nil && m.name != "EXTERNAL" {
		// In all other mechanisms the client begins; this one expects a challenge (RFC
		// 4422, 3).
		return nil, proceed(req, m.name, nil, m.begin)
	}
	return m.begin(ctx, req, message)
}

func mechanismNamed(req *request.Request, name string) *mechanism {
	all := mechanisms(req)
	for i := range all {
		if m := &all[i]; m.name == name {
			return m
		}
	}
	return nil
}

// UsableMechanisms returns the mechanisms that this connection can use now.
func UsableMechanisms(req *request.Request) (names []string) {
	all := mechanisms(req)
	for i := range all {
		if m := &all[i]; m.usable(req) == nil {
			names = append(names, m.name)
		}
	}
	return names
}

// proceed asks the client for its next message.
func proceed(req *request.Request, mechanism string, challenge []byte, next func(context.Context, *request.Request, []byte) (*settings.Identity, error)) error {
	req.Session.Exchange = &request.Exchange{Mechanism: mechanism, Next: next}
	req.Response.SASLCredentials = challenge
	return &op.Result{Code: op.SASLBindInProgress}
}

// actAs returns the identity that an authenticated client wants to act as (RFC 4513,
// 5.2.1.8). Neither the client's account nor that one may be disabled.
func actAs(ctx context.Context, req *request.Request, mechanism string, who *settings.Identity, authzID string) (*settings.Identity, error) {
	if err := identify.Enabled(ctx, req, who, errCredentials); err != nil {
		return nil, err
	}
	who.Bound = strings.ToLower(mechanism)
	other, err := wanted(ctx, req, who, authzID)
	if err != nil || other == who {
		return who, err
	}
	return other, identify.Enabled(ctx, req, other, errCredentials)
}

func wanted(ctx context.Context, req *request.Request, who *settings.Identity, authzID string) (*settings.Identity, error) {
	if authzID == "" || isName(req, who, authzID) {
		return who, nil
	}
	other, err := identify.AuthzID(ctx, req, authzID)
	switch {
	case errors.Is(err, identify.ErrNobody):
		return nil, errCredentials
	case err != nil:
		return nil, err
	case other != nil && other.ID == who.ID && other.Admin == who.Admin && other.DN() == who.DN():
		return who, nil
	case who.IsAdmin():
		return other, nil
	}
	return other, mayActAs(ctx, req, who, other)
}

// mayActAs refuses an identity that may not bind, or may not act as the other one. The
// latter takes the proxy right on the other's entry.
func mayActAs(ctx context.Context, req *request.Request, who, other *settings.Identity) error {
	if err := mayBind(ctx, req, who); err != nil {
		return err
	}
	j, err := judgeOf(ctx, req, who)
	if err != nil {
		return err
	}
	return identify.MayAssume(ctx, j, other, errCredentials)
}

// isName reports whether an authorization identity is the DN of who. The DN need not be
// that of an entry.
func isName(req *request.Request, who *settings.Identity, authzID string) bool {
	kind, name, _ := strings.Cut(authzID, ":")
	if !strings.EqualFold(kind, "dn") {
		return false
	}
	key, err := req.Parse(name)
	own, ownErr := req.Parse(who.DN())
	return err == nil && ownErr == nil && key == own
}

// named returns the identity with a name that a client claimed, or nil if there is none.
func named(ctx context.Context, req *request.Request, name string) (*settings.Identity, error) {
	who, err := identify.AuthzID(ctx, req, name)
	if errors.Is(err, identify.ErrNobody) {
		return nil, nil
	}
	return who, err
}

func usablePlain(req *request.Request) error {
	if auth.Confidential(req.Session.Channel) || req.Server.Settings().PlainInClear && !password.InClear(req) {
		return nil
	}
	return password.ErrClear
}

// bindPlain is the mechanism PLAIN (RFC 4616).
func bindPlain(ctx context.Context, req *request.Request, message []byte) (*settings.Identity, error) {
	authzID, name, password, err := auth.ParsePlain(message)
	if err != nil {
		return nil, err
	}
	s := req.Now()
	defer s.Close()
	who, err := named(ctx, req, auth.NameOf(name))
	if err != nil {
		return nil, err
	}
	if who, err = verify(ctx, req, who, name, password); err != nil {
		return nil, err
	}
	return actAs(ctx, req, "PLAIN", who, authzID)
}

func usableExternal(req *request.Request) error {
	if auth.External(req.Session.Channel) {
		return nil
	}
	return op.Errorf(op.InappropriateAuthentication, "the connection does not identify you: use TLS with a client certificate, or ldapi")
}

// bindExternal is the mechanism EXTERNAL (RFC 4422, appendix A). The message is the
// authorization identity, if the client wants one.
func bindExternal(ctx context.Context, req *request.Request, message []byte) (*settings.Identity, error) {
	s := req.Now()
	defer s.Close()
	who, err := external(ctx, req)
	if errors.Is(err, identify.ErrNobody) {
		return nil, errCredentials
	}
	if err != nil {
		return nil, err
	}
	if err := suffices(ctx, req, who, account.Certificate, req.Session.Channel.TLS() != nil); err != nil {
		return nil, err
	}
	return actAs(ctx, req, "EXTERNAL", who, string(message))
}

// suffices refuses a bind by one factor if the account needs two. Strong means that the
// mechanism counts as two factors if the account's policy allows that.
func suffices(ctx context.Context, req *request.Request, who *settings.Identity, way string, strong bool) error {
	if !who.HasEntry() {
		return nil
	}
	a, err := gate.Open(ctx, req, who, "")
	if err != nil {
		return err
	}
	if a.NeedsCode() && !(strong && a.Policy.CountsAsSecond(way)) {
		return errCredentials
	}
	return nil
}

// external returns the identity that the layers below LDAP have authenticated. Configured
// rules come first. Without a matching rule, a certificate identifies the entry that has
// its subject's name, and a process on this machine has an identity without an entry.
// Only a rule can make a client the administrator.
func external(ctx context.Context, req *request.Request) (*settings.Identity, error) {
	names := auth.ExternalNames(req.Session.Channel)
	if target, ok := auth.Find(req.Server.Settings().Identities, names...); ok {
		return identify.Reach(ctx, req, target)
	}
	if uid, gid, ok := req.Session.Channel.Peer(); ok {
		return &settings.Identity{Name: dn.NewName(auth.PeerName(uid, gid))}, nil
	}
	for _, name := range names {
		if subject, ok := strings.CutPrefix(name, "dn:"); ok {
			return identify.EntryNamed(ctx, req, subject)
		}
	}
	return nil, identify.ErrNobody
}

func usableBearer(req *request.Request) error {
	if auth.Confidential(req.Session.Channel) {
		return nil
	}
	return op.Errorf(op.ConfidentialityRequired, "tokens are not taken in clear: use TLS")
}

// bindBearer is the mechanism OAUTHBEARER (RFC 7628). A failure takes two steps: the
// client learns where to get tokens, sends any answer, and is then refused.
func bindBearer(ctx context.Context, req *request.Request, message []byte) (*settings.Identity, error) {
	authzID, token, err := auth.ParseBearer(message)
	if err != nil {
		return nil, err
	}
	who, err := bearer(ctx, req, authzID, token)
	if !errors.Is(err, auth.ErrToken) && !errors.Is(err, errCredentials) {
		return who, err
	}
	return nil, proceed(req, "OAUTHBEARER", req.Server.Settings().Tokens.Discovery("invalid_token"),
		func(context.Context, *request.Request, []byte) (*settings.Identity, error) {
			return nil, errCredentials
		})
}

// bearer returns the identity that a token belongs to. The token's name is looked up by
// the identity rules. It is never taken as a DN.
func bearer(ctx context.Context, req *request.Request, authzID, token string) (*settings.Identity, error) {
	says, err := req.Server.Settings().Tokens.Verify(token)
	if err != nil {
		return nil, err
	}
	s := req.Now()
	defer s.Close()
	who, err := named(ctx, req, "u:"+says.Name)
	if err != nil {
		return nil, err
	}
	if who == nil {
		req.Server.Log.Info("a token's name belongs to nobody", "name", says.Name)
		return nil, errCredentials
	}
	if err := suffices(ctx, req, who, account.Token, says.MultiFactor); err != nil {
		return nil, err
	}
	return actAs(ctx, req, "OAUTHBEARER", who, authzID)
}
