package bind

import (
	"context"
	"encoding/binary"
	"errors"
	"math/bits"
	"unicode/utf8"

	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/internal/identify"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/settings"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

func usableAlways(*request.Request) error { return nil }

// These are the security layers of GSSAPI (RFC 4752, section 3.3).
const (
	layerNone = 1
	layerSign = 2
	layerSeal = 4
)

// mostToken is the size of the tokens that clients are asked not to exceed, as other servers do: a larger message comes in
// several tokens.
const mostToken = 64 << 10

// accept checks the first token of a client.
func accept(req *request.Request, token []byte) (*auth.Ticket, error) {
	t, err := req.Server.Settings().Kerberos.Accept(token, req.Session.Channel)
	if err != nil {
		req.Server.Log.Info("a Kerberos ticket was refused", "client", req.Session.Channel.Remote(), "reason", err)
		return nil, errCredentials
	}
	return t, nil
}

// beginGSSAPI begins a bind with the mechanism GSSAPI (RFC 4752). After the tokens of Kerberos, the server offers
// security layers, and the client chooses one.
func beginGSSAPI(_ context.Context, req *request.Request, message []byte) (*settings.Identity, error) {
	t, err := accept(req, message)
	switch {
	case err != nil:
		return nil, err
	case t.SPNEGO:
		return nil, op.Errorf(op.ProtocolError, "the token is one of SPNEGO: use the mechanism GSS-SPNEGO")
	case t.Reply == nil:
		return nil, offerLayers(req, t)
	}
	return nil, proceed(req, auth.GSSAPI, t.Reply, func(_ context.Context, req *request.Request, message []byte) (*settings.Identity, error) {
		if len(message) > 0 {
			return nil, op.Errorf(op.ProtocolError, "GSSAPI: the client must answer the server's token with an empty message")
		}
		return nil, offerLayers(req, t)
	})
}

// layers returns the layers that a connection can use. Below TLS another layer is of no use, and there is at most one.
func layers(c auth.Channel) byte {
	if c.TLS() != nil || c.Layer() != nil {
		return layerNone
	}
	return layerNone | layerSign | layerSeal
}

// offerLayers sends the offered layers and the size of the largest token.
func offerLayers(req *request.Request, t *auth.Ticket) error {
	offer := layers(req.Session.Channel)
	most := mostToken
	if offer == layerNone {
		most = 0
	}
	token, err := t.Context.Wrap(false, binary.BigEndian.AppendUint32(nil, uint32(offer)<<24|uint32(most)))
	if err != nil {
		return err
	}
	return proceed(req, auth.GSSAPI, token, func(ctx context.Context, req *request.Request, message []byte) (*settings.Identity, error) {
		choice, err := t.Context.Unwrap(false, message)
		if err != nil {
			return nil, errors.Join(errCredentials, err)
		}
		return finishGSSAPI(ctx, req, t, offer, choice)
	})
}

// finishGSSAPI reads the client's choice: a layer, the size of its largest token, and an authorization identity.
func finishGSSAPI(ctx context.Context, req *request.Request, t *auth.Ticket, offer byte, choice []byte) (*settings.Identity, error) {
	if len(choice) < 4 || bits.OnesCount8(choice[0]) != 1 || choice[0]&offer == 0 || !utf8.Valid(choice[4:]) {
		return nil, op.Errorf(op.ProtocolError, "GSSAPI: the client must choose one of the offered layers, and may add an authorization identity")
	}
	most := int(binary.BigEndian.Uint32(choice) & 0xffffff)
	who, err := withTicket(ctx, req, auth.GSSAPI, t, string(choice[4:]))
	if err != nil || choice[0] == layerNone {
		return who, err
	}
	return who, protect(req, t, choice[0] == layerSeal, most)
}

// bindSPNEGO performs a bind with the mechanism GSS-SPNEGO: the flags that the client has signed say which layer begins.
// Somebody who repeats a client's token does not have its key, so in clear a layer is required.
func bindSPNEGO(ctx context.Context, req *request.Request, message []byte) (*settings.Identity, error) {
	t, err := accept(req, message)
	if err != nil {
		return nil, err
	}
	protected := t.Seal || t.Sign
	switch {
	case protected && req.Session.Channel.Layer() != nil:
		return nil, op.Errorf(op.OperationsError, "GSS-SPNEGO: a security layer of SASL is in use already: connect again")
	case !protected && layers(req.Session.Channel) != layerNone:
		return nil, op.Errorf(op.ConfidentialityRequired, "GSS-SPNEGO: the client asks for no signing and no sealing: let it, or use TLS")
	}
	who, err := withTicket(ctx, req, auth.SPNEGO, t, "")
	if err == nil && protected {
		err = protect(req, t, t.Seal, mostToken)
	}
	if err == nil {
		req.Response.SASLCredentials = t.Reply
	}
	return who, err
}

// protect makes a security layer begin after the answer to the bind.
func protect(req *request.Request, t *auth.Ticket, seal bool, most int) error {
	l := t.Context.Protect(seal, most)
	if l == nil {
		return op.Errorf(op.ProtocolError, "the client accepts tokens of only %d octets", most)
	}
	req.Session.Layer = l
	return nil
}

// withTicket returns the identity of a client with a ticket. Only a rule maps its principal to an identity.
func withTicket(ctx context.Context, req *request.Request, mechanism string, t *auth.Ticket, authzID string) (*settings.Identity, error) {
	s := req.Now()
	defer s.Close()
	target, ok := auth.Find(req.Server.Settings().Identities, auth.PrincipalName(t.Principal))
	if !ok {
		req.Server.Log.Info("no rule of sasl.identity is for a principal", "name", auth.PrincipalName(t.Principal))
		return nil, errCredentials
	}
	who, err := identify.Reach(ctx, req, target)
	if errors.Is(err, identify.ErrNobody) {
		req.Server.Log.Info("a principal belongs to nobody", "name", auth.PrincipalName(t.Principal))
		return nil, errCredentials
	}
	if err != nil {
		return nil, err
	}
	if err := suffices(ctx, req, who, "", false); err != nil {
		return nil, err
	}
	return actAs(ctx, req, mechanism, who, authzID)
}
