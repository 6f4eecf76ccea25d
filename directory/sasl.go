package directory

import (
	"context"
	"errors"
	"strings"

	"github.com/seed-4dac0d86/ldapd/auth"
	"github.com/seed-4dac0d86/ldapd/op"
)

// A mechanism is one of SASL (RFC 4422) that is offered.
type mechanism struct {
	name string
	// usable says why it does not work on this connection; nil: it does.
	usable func(o *operation) error
	// begin takes the client's first message. It returns who the client is, or an
	// error, or lets the client go on by proceed.
	begin func(ctx context.Context, o *operation, message []byte) (*identity, error)
}

// mechanisms returns those that are configured; the SCRAM ones bring their -PLUS.
func mechanisms(o *operation) (ms []mechanism) {
	set := o.server.settings()
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

// sasl takes one message of a SASL exchange. In the middle of one the mechanism
// is named again; another one, or a bind of another kind, abandons it.
func (o *operation) sasl(ctx context.Context, r *op.Bind, x *exchange) (*identity, error) {
	m := o.mechanismNamed(r.Mechanism)
	if m == nil {
		return nil, op.Errorf(op.AuthMethodNotSupported, "SASL mechanism %q is not served: see supportedSASLMechanisms", r.Mechanism)
	}
	if err := m.usable(o); err != nil {
		return nil, err
	}
	who, err := o.step(ctx, m, r.Credentials, x)
	if errors.Is(err, auth.ErrMessage) {
		err = op.Errorf(op.ProtocolError, "%v", err)
	}
	return who, err
}

func (o *operation) step(ctx context.Context, m *mechanism, message []byte, x *exchange) (*identity, error) {
	if x != nil && x.mechanism == m.name {
		return x.next(ctx, o, message)
	}
	if message == nil && m.name != "EXTERNAL" {
		// The client begins all others, and this one wants to be asked (RFC 4422, 3).
		return nil, o.proceed(m.name, nil, m.begin)
	}
	return m.begin(ctx, o, message)
}

func (o *operation) mechanismNamed(name string) *mechanism {
	all := mechanisms(o)
	for i := range all {
		if m := &all[i]; m.name == name {
			return m
		}
	}
	return nil
}

// usableMechanisms are what this connection can use now.
func usableMechanisms(o *operation) (names []string) {
	all := mechanisms(o)
	for i := range all {
		if m := &all[i]; m.usable(o) == nil {
			names = append(names, m.name)
		}
	}
	return names
}

// proceed asks the client for its next message.
func (o *operation) proceed(mechanism string, challenge []byte, next func(context.Context, *operation, []byte) (*identity, error)) error {
	o.session.exchange = &exchange{mechanism, next}
	o.response.SASLCredentials = challenge
	return &op.Result{Code: op.SASLBindInProgress}
}

// actAs returns who the client wants to be: itself, or by the administrator
// anyone (RFC 4513, 5.2.1.8). Neither may be disabled.
func (o *operation) actAs(ctx context.Context, who *identity, authzID string) (*identity, error) {
	if err := o.enabled(ctx, who, errCredentials); err != nil {
		return nil, err
	}
	other, err := o.wanted(ctx, who, authzID)
	if err != nil || other == who {
		return who, err
	}
	return other, o.enabled(ctx, other, errCredentials)
}

func (o *operation) wanted(ctx context.Context, who *identity, authzID string) (*identity, error) {
	if authzID == "" || o.isName(who, authzID) {
		return who, nil
	}
	other, err := o.identify(ctx, authzID)
	switch {
	case errors.Is(err, errNobody):
		return nil, errCredentials
	case err != nil:
		return nil, err
	case other != nil && other.id == who.id && other.admin == who.admin && other.name == who.name:
		return who, nil
	case who.isAdmin():
		return other, nil
	}
	return nil, errCredentials
}

// isName reports whether an authorization identity is somebody's name, also one
// that no entry has.
func (o *operation) isName(who *identity, authzID string) bool {
	kind, name, _ := strings.Cut(authzID, ":")
	if !strings.EqualFold(kind, "dn") {
		return false
	}
	key, err := o.parse(name)
	own, ownErr := o.parse(who.name)
	return err == nil && ownErr == nil && key == own
}

// named returns who a name belongs to that a client gave itself; nobody, if there
// is none.
func (o *operation) named(ctx context.Context, name string) (*identity, error) {
	who, err := o.identify(ctx, name)
	if errors.Is(err, errNobody) {
		return nil, nil
	}
	return who, err
}

func usablePlain(o *operation) error {
	if auth.Confidential(o.session.channel) || o.server.settings().PlainInClear && !o.inClear() {
		return nil
	}
	return errClear
}

// bindPlain is RFC 4616.
func bindPlain(ctx context.Context, o *operation, message []byte) (*identity, error) {
	authzID, name, password, err := auth.ParsePlain(message)
	if err != nil {
		return nil, err
	}
	s := o.now()
	defer s.Close()
	who, err := o.named(ctx, auth.NameOf(name))
	if err != nil {
		return nil, err
	}
	if who, err = o.verify(ctx, who, password); err != nil {
		return nil, err
	}
	return o.actAs(ctx, who, authzID)
}

func usableExternal(o *operation) error {
	if auth.External(o.session.channel) {
		return nil
	}
	return op.Errorf(op.InappropriateAuthentication, "the connection does not identify you: use TLS with a client certificate, or ldapi")
}

// bindExternal is RFC 4422, appendix A; the message is the authorization
// identity, if one is wanted.
func bindExternal(ctx context.Context, o *operation, message []byte) (*identity, error) {
	s := o.now()
	defer s.Close()
	who, err := o.external(ctx)
	if errors.Is(err, errNobody) {
		return nil, errCredentials
	}
	if err != nil {
		return nil, err
	}
	return o.actAs(ctx, who, string(message))
}

// external returns who the layers below LDAP know. Rules come first. Without one a
// certificate is for the entry that has its subject's name, and a process on the
// same machine is who it is, without an entry. Only a rule makes anyone the
// administrator.
func (o *operation) external(ctx context.Context) (*identity, error) {
	names := auth.ExternalNames(o.session.channel)
	if target, ok := auth.Find(o.server.settings().Identities, names...); ok {
		return o.reach(ctx, target)
	}
	if uid, gid, ok := o.session.channel.Peer(); ok {
		return &identity{name: auth.PeerName(uid, gid)}, nil
	}
	for _, name := range names {
		if subject, ok := strings.CutPrefix(name, "dn:"); ok {
			return o.entryNamed(ctx, subject)
		}
	}
	return nil, errNobody
}

func usableBearer(o *operation) error {
	if auth.Confidential(o.session.channel) {
		return nil
	}
	return op.Errorf(op.ConfidentialityRequired, "tokens are not taken in clear: use TLS")
}

// bindBearer is RFC 7628. Its failures come in two steps: the client is told
// where tokens are to be had, answers anything, and then is refused.
func bindBearer(ctx context.Context, o *operation, message []byte) (*identity, error) {
	authzID, token, err := auth.ParseBearer(message)
	if err != nil {
		return nil, err
	}
	who, err := o.bearer(ctx, authzID, token)
	if !errors.Is(err, auth.ErrToken) && !errors.Is(err, errCredentials) {
		return who, err
	}
	return nil, o.proceed("OAUTHBEARER", o.server.settings().Tokens.Discovery("invalid_token"),
		func(context.Context, *operation, []byte) (*identity, error) { return nil, errCredentials })
}

// bearer returns who a token is of. What it says is a name for rules, never a DN.
func (o *operation) bearer(ctx context.Context, authzID, token string) (*identity, error) {
	name, err := o.server.settings().Tokens.Verify(token)
	if err != nil {
		return nil, err
	}
	s := o.now()
	defer s.Close()
	who, err := o.named(ctx, "u:"+name)
	if err != nil {
		return nil, err
	}
	if who == nil {
		o.server.log.Info("a token's name belongs to nobody", "name", name)
		return nil, errCredentials
	}
	return o.actAs(ctx, who, authzID)
}
