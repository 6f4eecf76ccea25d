package server_test

import (
	"context"
	"net"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A recorder sends each message to a channel, and answers the message as a directory might.
type recorder struct{ messages chan *op.Message }

func (r *recorder) serve(_ context.Context, m *op.Message, sink op.Sink) {
	r.messages <- m
	cn := schema.Core().Attribute("cn")
	switch req := m.Request.(type) {
	case *op.Bind:
		if string(req.Password) != "secret" {
			sink.Done(&op.Response{Result: *op.Errorf(op.InvalidCredentials, "wrong name or password")})
			return
		}
		sink.Done(&op.Response{})
	case *op.Search:
		sink.Entry(&op.SearchEntry{Name: "cn=Zoë,dc=x", Attributes: []entry.Attribute{
			{Type: cn, Values: [][]byte{[]byte("Zoë"), []byte("Z")}},
			{Type: cn, Options: ";lang-de", Values: [][]byte{[]byte("Zoe")}}}})
		sink.Reference([]string{"ldap://other/dc=y"}, nil)
		sink.Done(&op.Response{Controls: []op.Control{{OID: ldap.ControlTypePaging, Value: []byte{0x30, 5, 2, 1, 0, 4, 0}}}})
	case *op.Compare:
		sink.Done(&op.Response{Result: op.Result{Code: op.CompareTrue}})
	case *op.Extended:
		sink.Done(&op.Response{Value: []byte("dn:cn=a")})
	case *op.Delete:
		sink.Done(&op.Response{Result: op.Result{Code: op.NoSuchObject, MatchedDN: "dc=x", Diagnostic: "nothing there"}})
	default:
		sink.Done(&op.Response{})
	}
}

// TestGoLDAP sends requests of most kinds with go-ldap. The server must receive what go-ldap
// was called to send, and go-ldap must understand the answers.
func TestGoLDAP(t *testing.T) {
	rec := &recorder{messages: make(chan *op.Message, 1)}
	r := start(t, rec.serve, server.Options{})
	socket, err := server.Listen("ldapi://" + filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	go r.Serve(socket)
	for _, url := range []string{"ldap://" + r.addr, "ldapi://" + socket.Addr().String()} {
		c, err := ldap.DialURL(url, ldap.DialWithDialer(&net.Dialer{Timeout: patience}))
		if err != nil {
			t.Fatal(err)
		}
		useGoLDAP(t, c, rec)
		if err := c.Unbind(); err != nil {
			t.Error(err)
		}
	}
}

func useGoLDAP(t *testing.T, c *ldap.Conn, rec *recorder) {
	arrived := func(want op.Request) {
		t.Helper()
		if got := receive(t, rec.messages, "a request").Request; !reflect.DeepEqual(got, want) {
			t.Errorf("got %#v\nwant %#v", got, want)
		}
	}
	if err := c.Bind("cn=a", "secret"); err != nil {
		t.Error(err)
	}
	arrived(&op.Bind{Version: 3, Name: "cn=a", Password: []byte("secret")})
	if err := c.Bind("cn=a", "wrong"); !ldap.IsErrorWithCode(err, ldap.LDAPResultInvalidCredentials) {
		t.Errorf("wrong password: %v", err)
	}
	<-rec.messages
	if err := c.ExternalBind(); !ldap.IsErrorWithCode(err, ldap.LDAPResultInvalidCredentials) {
		t.Errorf("external: %v", err)
	}
	arrived(&op.Bind{Version: 3, SASL: true, Mechanism: "EXTERNAL", Credentials: []byte{}})
	searchGoLDAP(t, c, rec)
	writeGoLDAP(t, c, arrived)
	if ok, err := c.Compare("cn=a", "cn", "v"); !ok || err != nil {
		t.Errorf("compare: %v, %v", ok, err)
	}
	arrived(&op.Compare{Name: "cn=a", Description: "cn", Value: []byte("v")})
	if who, err := c.WhoAmI(nil); err != nil || who.AuthzID != "dn:cn=a" {
		t.Errorf("who am I: %v, %v", who, err)
	}
	arrived(&op.Extended{OID: "1.3.6.1.4.1.4203.1.11.3"})
}

func searchGoLDAP(t *testing.T, c *ldap.Conn, rec *recorder) {
	res, err := c.Search(&ldap.SearchRequest{BaseDN: "dc=x", Scope: ldap.ScopeSingleLevel, DerefAliases: ldap.DerefAlways,
		SizeLimit: 5, TimeLimit: 6, TypesOnly: true, Filter: "(&(cn=a*b*c)(!(sn>=x))(o:dn:2.5.13.5:=A))",
		Attributes: []string{"cn", "+"}, Controls: []ldap.Control{ldap.NewControlPaging(100), ldap.NewControlManageDsaIT(true)}})
	if err != nil {
		t.Fatal(err)
	}
	e := res.Entries[0]
	if e.DN != "cn=Zoë,dc=x" || e.GetAttributeValue("cn;lang-de") != "Zoe" || len(e.GetAttributeValues("cn")) != 2 ||
		res.Referrals[0] != "ldap://other/dc=y" || ldap.FindControl(res.Controls, ldap.ControlTypePaging) == nil {
		t.Errorf("search: %+v", res)
	}
	m := <-rec.messages
	s := m.Request.(*op.Search)
	if s.Base != "dc=x" || s.Scope != op.SingleLevel || s.Deref != op.DerefAlways || s.SizeLimit != 5 || s.TimeLimit != 6 ||
		!s.TypesOnly || s.Filter.String() != "(&(cn=a*b*c)(!(sn>=x))(o:dn:2.5.13.5:=A))" || len(s.Attributes) != 2 {
		t.Errorf("got %+v with %v", s, s.Filter)
	}
	if len(m.Controls) != 2 || m.Controls[0].Critical || m.Controls[0].Value == nil || !m.Controls[1].Critical || m.Controls[1].Value != nil {
		t.Errorf("controls: %+v", m.Controls)
	}
}

func writeGoLDAP(t *testing.T, c *ldap.Conn, arrived func(op.Request)) {
	add := ldap.NewAddRequest("cn=a", nil)
	add.Attribute("cn", []string{"a", "b"})
	if err := c.Add(add); err != nil {
		t.Error(err)
	}
	cn := op.PartialAttribute{Description: "cn", Values: [][]byte{[]byte("a"), []byte("b")}}
	arrived(&op.Add{Name: "cn=a", Attributes: []op.PartialAttribute{cn}})

	modify := ldap.NewModifyRequest("cn=a", nil)
	modify.Replace("cn", []string{"a", "b"})
	modify.Delete("sn", nil)
	modify.Increment("uidNumber", "1")
	if err := c.Modify(modify); err != nil {
		t.Error(err)
	}
	arrived(&op.Modify{Name: "cn=a", Changes: []op.Modification{{Kind: op.ModReplace, PartialAttribute: cn},
		{Kind: op.ModDelete, PartialAttribute: op.PartialAttribute{Description: "sn"}},
		{Kind: op.ModIncrement, PartialAttribute: op.PartialAttribute{Description: "uidNumber", Values: [][]byte{[]byte("1")}}}}})

	if err := c.ModifyDN(ldap.NewModifyDNRequest("cn=a", "cn=b", true, "dc=y")); err != nil {
		t.Error(err)
	}
	superior := "dc=y"
	arrived(&op.ModifyDN{Name: "cn=a", NewRDN: "cn=b", DeleteOldRDN: true, NewSuperior: &superior})

	err := c.Del(ldap.NewDelRequest("cn=gone,dc=x", nil))
	if e, ok := err.(*ldap.Error); !ok || e.ResultCode != ldap.LDAPResultNoSuchObject || e.MatchedDN != "dc=x" || e.Err.Error() != "nothing there" {
		t.Errorf("delete: %v", err)
	}
	arrived(&op.Delete{Name: "cn=gone,dc=x"})
}
