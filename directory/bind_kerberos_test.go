package directory_test

import (
	"crypto/tls"
	"errors"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/store/gss/layer"
)

// tickets accepts tokens that are the names of their clients. Its contexts put a letter before what they wrap.
type tickets struct{ ticket auth.Ticket }

func (k *tickets) Accept(token []byte, _ auth.Channel) (*auth.Ticket, error) {
	if len(token) == 0 {
		return nil, errors.New("no token")
	}
	t := k.ticket
	t.Principal, t.Context = string(token)+"@EXAMPLE.COM", plainContext{}
	return &t, nil
}

type plainContext struct{}

func (plainContext) Wrap(seal bool, payload []byte) ([]byte, error) {
	return append([]byte("w"), payload...), nil
}

func (plainContext) Unwrap(seal bool, token []byte) ([]byte, error) {
	if len(token) == 0 || token[0] != 'w' {
		return nil, errors.New("forged")
	}
	return token[1:], nil
}

func (plainContext) Protect(seal bool, most int) *layer.Stream {
	if most < 100 {
		return nil
	}
	return &layer.Stream{Seals: seal, Room: most}
}

func kerberosUsers(t *testing.T, k *tickets) *directory.Directory {
	rule, err := auth.ParseRule(`krb:([^/@]+)@EXAMPLE\.COM -> ldap:///??sub?(uid=$1)`)
	if err != nil {
		t.Fatal(err)
	}
	return newUsers(t, directory.Options{Kerberos: k, Identities: append(auth.DefaultRules(), rule)})
}

// TestGSSAPI goes through the steps of GSSAPI: which layers are offered, and what may be chosen.
func TestGSSAPI(t *testing.T) {
	k := &tickets{}
	d := kerberosUsers(t, k)
	signed, sealed := simPeer{layer: &layer.Stream{}}, simPeer{layer: &layer.Stream{Seals: true}}
	for _, c := range []struct {
		name    string
		channel auth.Channel
		reply   string // of the server; "" if the client wants none
		client  string
		choice  string
		code    op.Code
		who     string
		room    int // of the layer; 0 if there is none
	}{
		{"no layer", nil, "reply", "ann", "w\x01\x00\x00\x00", op.Success, annDN, 0},
		{"without an answer", nil, "", "ann", "w\x01\x00\x00\x00", op.Success, annDN, 0},
		{"signed", nil, "reply", "ann", "w\x02\x00\x10\x00", op.Success, annDN, 0x1000},
		{"sealed", nil, "reply", "ann", "w\x04\x01\x00\x00", op.Success, annDN, 0x10000},
		{"in TLS", simPeer{state: &tls.ConnectionState{}}, "reply", "ann", "w\x01\x00\x00\x00", op.Success, annDN, 0},
		{"sealed in TLS", simPeer{state: &tls.ConnectionState{}}, "reply", "ann", "w\x04\x01\x00\x00", op.ProtocolError, "", 0},
		{"sealed twice", sealed, "reply", "ann", "w\x04\x01\x00\x00", op.ProtocolError, "", 0},
		{"sealed after signed", signed, "reply", "ann", "w\x04\x01\x00\x00", op.ProtocolError, "", 0},
		{"no room", nil, "reply", "ann", "w\x04\x00\x00\x08", op.ProtocolError, "", 0},
		{"two layers", nil, "reply", "ann", "w\x06\x01\x00\x00", op.ProtocolError, "", 0},
		{"an unknown layer", nil, "reply", "ann", "w\x08\x01\x00\x00", op.ProtocolError, "", 0},
		{"short", nil, "reply", "ann", "w\x01\x00\x00", op.ProtocolError, "", 0},
		{"forged", nil, "reply", "ann", "x\x01\x00\x00\x00", op.InvalidCredentials, "", 0},
		{"nobody", nil, "reply", "carol", "w\x01\x00\x00\x00", op.InvalidCredentials, "", 0},
		{"two people", nil, "reply", "twin", "w\x01\x00\x00\x00", op.InvalidCredentials, "", 0},
		{"a service", nil, "reply", "host/ann", "w\x01\x00\x00\x00", op.InvalidCredentials, "", 0},
		{"as herself", nil, "reply", "ann", "w\x01\x00\x00\x00u:ann", op.Success, annDN, 0},
		{"as another", nil, "reply", "ann", "w\x01\x00\x00\x00u:bob", op.InvalidCredentials, "", 0},
		{"text", nil, "reply", "ann", "w\x01\x00\x00\x00\xff", op.ProtocolError, "", 0},
	} {
		k.ticket.Reply = nil
		if c.reply != "" {
			k.ticket.Reply = []byte(c.reply)
		}
		s := d.NewSession(c.channel)
		r := send(t, s, "GSSAPI", []byte(c.client))
		if c.reply != "" {
			if r.Code != op.SASLBindInProgress || string(r.SASLCredentials) != c.reply {
				t.Errorf("%s: the first answer is %+v", c.name, r)
			}
			r = send(t, s, "GSSAPI", nil)
		}
		offer := "w\x07\x01\x00\x00"
		if c.channel != nil {
			offer = "w\x01\x00\x00\x00"
		}
		if r.Code != op.SASLBindInProgress || string(r.SASLCredentials) != offer {
			t.Errorf("%s: the offer is %+v", c.name, r)
		}
		r = send(t, s, "GSSAPI", []byte(c.choice))
		if r.Code != c.code || s.Name() != c.who {
			t.Errorf("%s: %v as %q", c.name, &r.Result, s.Name())
		}
		l := s.Layer()
		if (l != nil) != (c.room > 0) || l != nil && (l.Room != c.room || l.Seals != (c.choice[1] == 4)) || s.Layer() != nil {
			t.Errorf("%s: the layer is %+v", c.name, l)
		}
	}
	s := d.NewSession(nil)
	k.ticket.Reply = []byte("reply")
	send(t, s, "GSSAPI", []byte("ann"))
	if r := send(t, s, "GSSAPI", []byte("more")); r.Code != op.ProtocolError {
		t.Errorf("an answer that is not empty: %v", &r.Result)
	}
	if r := send(t, s, "GSSAPI", nil); r.Code != op.SASLBindInProgress {
		t.Errorf("no first message: %v", &r.Result)
	}
	if r := send(t, s, "GSSAPI", []byte{}); r.Code != op.InvalidCredentials || r.Diagnostic != "" {
		t.Errorf("a refused ticket: %v", &r.Result)
	}
	k.ticket.SPNEGO = true
	if r := send(t, s, "GSSAPI", []byte("ann")); r.Code != op.ProtocolError {
		t.Errorf("a token of SPNEGO: %v", &r.Result)
	}
}

// TestSPNEGO checks that a bind with GSS-SPNEGO has one step, and the layer that the client has asked for.
func TestSPNEGO(t *testing.T) {
	k := &tickets{}
	d := kerberosUsers(t, k)
	for _, c := range []struct {
		name       string
		channel    auth.Channel
		sign, seal bool
		client     string
		code       op.Code
		who        string
	}{
		{"sealed", nil, true, true, "ann", op.Success, annDN},
		{"signed", nil, true, false, "ann", op.Success, annDN},
		{"in clear", nil, false, false, "ann", op.ConfidentialityRequired, ""},
		{"in TLS", inTLS, false, false, "ann", op.Success, annDN},
		{"sealed in TLS", inTLS, true, true, "ann", op.Success, annDN},
		{"nobody", inTLS, true, true, "carol", op.InvalidCredentials, ""},
		{"sealed after signed", simPeer{layer: &layer.Stream{}}, true, true, "ann", op.OperationsError, ""},
	} {
		k.ticket = auth.Ticket{SPNEGO: true, Reply: []byte("reply"), Sign: c.sign, Seal: c.seal}
		s := d.NewSession(c.channel)
		r := send(t, s, "GSS-SPNEGO", []byte(c.client))
		if r.Code != c.code || s.Name() != c.who || (string(r.SASLCredentials) == "reply") != (c.code == op.Success) {
			t.Errorf("%s: %+v as %q", c.name, r, s.Name())
		}
		if l := s.Layer(); (l != nil) != (c.code == op.Success && c.sign) || l != nil && l.Seals != c.seal {
			t.Errorf("%s: the layer is %+v", c.name, l)
		}
	}
}

// TestKerberosOffered checks that the mechanisms are offered only with a keytab.
func TestKerberosOffered(t *testing.T) {
	d := newUsers(t, directory.Options{})
	if r := send(t, d.NewSession(nil), "GSS-SPNEGO", []byte("ann")); r.Code != op.AuthMethodNotSupported {
		t.Errorf("without a keytab: %v", &r.Result)
	}
}
