package bind

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/account"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/internal/accountcheck"
	"github.com/seed-4dac0d86/ldapd/directory/internal/identify"
	"github.com/seed-4dac0d86/ldapd/directory/internal/password"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/settings"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/state"
)

// A mechanism is a SASL mechanism (RFC 4422) that the server offers.
type mechanism struct {
	name string
	// usable returns nil if the request's connection can use the mechanism, and
	// otherwise the reason why the connection cannot.
	usable func(req *request.Request) error
	// begin reads the client's first message. It returns the authenticated identity or an
	// error. If the client must send another message, begin returns the result of
	// proceed.
	begin func(ctx context.Context, req *request.Request, message []byte) (*settings.Identity, error)
}

// mechanisms returns the configured mechanisms, except those for which the server lacks an issuer of tokens or a keytab. For each SCRAM mechanism, it also returns the -PLUS variant of the mechanism.
func mechanisms(req *request.Request) (ms []mechanism) {
	set := req.Server.Settings()
	for _, name := range set.Mechanisms {
		switch {
		case name == "EXTERNAL":
			ms = append(ms, mechanism{name, usableExternal, bindExternal})
		case name == "PLAIN":
			ms = append(ms, mechanism{name, usablePlain, bindPlain})
		case name == auth.GSSAPI && set.Kerberos != nil:
			ms = append(ms, mechanism{name, usableAlways, beginGSSAPI})
		case name == auth.SPNEGO && set.Kerberos != nil:
			ms = append(ms, mechanism{name, usableAlways, bindSPNEGO})
		case name == "OAUTHBEARER" && set.Tokens != nil:
			ms = append(ms, mechanism{name, usableBearer, bindBearer})
		case auth.IsScram(name):
			ms = append(ms, mechanism{name, usableScram, beginScram(name)},
				mechanism{name + auth.Plus, usablePlus, beginScram(name + auth.Plus)})
		}
	}
	return ms
}

// sasl handles one message of a SASL exchange. Each message names the mechanism of its
// exchange. A message that names another mechanism, or a bind that is not SASL, abandons
// the exchange.
func sasl(ctx context.Context, req *request.Request, r *op.Bind, x *request.Exchange) (*settings.Identity, error) {
	m := mechanismNamed(req, r.Mechanism)
	if m == nil {
		return nil, op.Errorf(op.AuthMethodNotSupported, "SASL mechanism %q is not offered: see supportedSASLMechanisms", r.Mechanism)
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
		// The client sends the first message of these mechanisms. A client that sends
		// none expects an empty challenge (RFC 4422, 3). For EXTERNAL, a missing message
		// counts as an empty one.
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

// UsableMechanisms returns the names of the mechanisms that the request's connection can
// use now.
func UsableMechanisms(req *request.Request) (names []string) {
	all := mechanisms(req)
	for i := range all {
		if m := &all[i]; m.usable(req) == nil {
			names = append(names, m.name)
		}
	}
	return names
}

// proceed adds a challenge to the response and returns the result saslBindInProgress. The
// function next will handle the client's next message.
func proceed(req *request.Request, mechanism string, challenge []byte, next func(context.Context, *request.Request, []byte) (*settings.Identity, error)) error {
	req.Session.Exchange = &request.Exchange{Mechanism: mechanism, Next: next}
	req.Response.SASLCredentials = challenge
	return &op.Result{Code: op.SASLBindInProgress}
}

// actAs returns the identity that an authenticated client wants to act as (RFC 4513,
// 5.2.1.8). The client's account must be usable and allowed to bind on this connection. A
// client may act as another identity under three conditions: the client has the right to do
// so; it need not change its password first; and the other account is also usable and allowed
// to bind on this connection. If a condition is not met, actAs returns an error.
func actAs(ctx context.Context, req *request.Request, mechanism string, who *settings.Identity, authzID string) (*settings.Identity, error) {
	if err := identify.Enabled(ctx, req, who, errCredentials); err != nil {
		return nil, err
	}
	who.Bound = strings.ToLower(mechanism)
	if err := refuseBind(ctx, req, who); err != nil {
		return nil, err
	}
	other, err := wanted(ctx, req, who, authzID)
	if err != nil || other == who {
		return who, err
	}
	if who.Reset.Load() {
		return nil, errCredentials
	}
	if other != nil {
		other.Bound = who.Bound
	}
	if err := identify.Enabled(ctx, req, other, errCredentials); err != nil {
		return nil, err
	}
	return other, refuseBind(ctx, req, other)
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

// mayActAs returns an error if the client, whose identity is who, may not act as other. To
// act as other, the client needs the proxy right on the entry of other.
func mayActAs(ctx context.Context, req *request.Request, who, other *settings.Identity) error {
	newest := state.Newest(req.Server.Part)
	defer newest.Close()
	p, err := req.ProgramOf(ctx, newest, who)
	if err != nil {
		return err
	}
	return identify.MayAssume(ctx, judgeBy(p, newest), other, errCredentials)
}

// isName reports whether an authorization identity is the client's own DN. An entry with
// this DN need not exist.
func isName(req *request.Request, who *settings.Identity, authzID string) bool {
	kind, name, _ := strings.Cut(authzID, ":")
	if !strings.EqualFold(kind, "dn") {
		return false
	}
	key, err := req.Parse(name)
	own, ownErr := req.Parse(who.DN())
	return err == nil && ownErr == nil && key == own
}

// named returns the identity that a client claimed by name, or nil if the name leads to
// no identity.
func named(ctx context.Context, req *request.Request, name string) (*settings.Identity, error) {
	who, err := identify.AuthzID(ctx, req, name)
	if errors.Is(err, identify.ErrNobody) {
		return nil, nil
	}
	return who, err
}

func usablePlain(req *request.Request) error {
	c := req.Session.Channel
	if auth.Confidential(c) || (req.Server.Settings().PlainInClear || auth.ChoosesPlain(c)) && !password.InClear(req) {
		return nil
	}
	return password.ErrClear
}

// bindPlain performs a bind with the mechanism PLAIN (RFC 4616).
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
	if who, err = verify(ctx, req, who, "plain", name, password); err != nil {
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

// bindExternal performs a bind with the mechanism EXTERNAL (RFC 4422, appendix A). The
// message is the authorization identity that the client requests. It may be empty.
func bindExternal(ctx context.Context, req *request.Request, message []byte) (*settings.Identity, error) {
	s := req.Now()
	defer s.Close()
	who, err := external(ctx, req)
	if err == nil {
		err = certificateIn(ctx, req, who)
	}
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

// suffices returns an error if the account needs two factors and the bind proves only one
// factor. The bind proves two factors if the parameter strong is set and the account's
// policy accepts the parameter way as a second factor.
func suffices(ctx context.Context, req *request.Request, who *settings.Identity, way string, strong bool) error {
	if !who.HasEntry() {
		return nil
	}
	a, err := accountcheck.Open(ctx, req, who, "")
	if err != nil {
		return err
	}
	if a.NeedsCode() && !(strong && a.Policy.CountsAsSecond(way)) {
		return errCredentials
	}
	return nil
}

// external returns the identity that the layers below LDAP have authenticated. It tries
// the configured rules first. If no rule matches, a certificate identifies the entry that
// has the name of the certificate's subject, and a process on this machine has an
// identity without an entry. Only a rule can make a client the administrator.
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

// certificateIn returns ErrNobody if the client's certificate is not in the identity's entry
// although the options require this.
func certificateIn(ctx context.Context, req *request.Request, who *settings.Identity) error {
	cert := auth.Certificate(req.Session.Channel)
	if !req.Server.Settings().CertificateInEntry || cert == nil {
		return nil
	}
	t := req.Schema.Attribute("userCertificate")
	if !who.HasEntry() || t == nil {
		return identify.ErrNobody
	}
	e, err := req.Snapshot.Entry(ctx, who.ID, false)
	if err != nil || e == nil {
		return errors.Join(err, identify.ErrNobody)
	}
	for i := range e.Attributes {
		if e.Attributes[i].Type == t && slices.ContainsFunc(e.Attributes[i].Values, func(v []byte) bool { return bytes.Equal(v, cert.Raw) }) {
			return nil
		}
	}
	req.Server.Log.Info("a certificate that is not in its entry", "dn", who.Name)
	return identify.ErrNobody
}

func usableBearer(req *request.Request) error {
	if auth.Confidential(req.Session.Channel) {
		return nil
	}
	return op.Errorf(op.ConfidentialityRequired, "tokens are not accepted in clear: use TLS")
}

// bindBearer performs a bind with the mechanism OAUTHBEARER (RFC 7628). The refusal of a
// token takes two steps. The server first sends the address at which clients get tokens.
// After the client's next message, the server refuses the bind.
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

// bearer returns the identity that a token belongs to. The identity rules map the name in
// the token to the identity. The name in the token never counts as a DN.
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
