package server_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
	peer "github.com/nmcclain/ldap"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
	"github.com/seed-4dac0d86/ldapd/ldap/wire/wiretest"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// people are the entries of both servers in these tests. Some of the encoded lengths take
// several octets.
var people = []*peer.Entry{
	{DN: "cn=Ann,dc=x", Attributes: []*peer.EntryAttribute{
		{Name: "cn", Values: []string{"Ann", "Ann A."}}, {Name: "sn", Values: []string{"Abel"}}}},
	{DN: "cn=Bob,dc=x", Attributes: []*peer.EntryAttribute{
		{Name: "cn", Values: []string{"Bob"}}, {Name: "description", Values: []string{strings.Repeat("long ", 100)}}}},
}

// A peerDirectory is a directory behind nmcclain/ldap's server, an independent
// implementation of LDAP.
type peerDirectory struct{ searches chan peer.SearchRequest }

func (peerDirectory) Bind(_, password string, _ net.Conn) (peer.LDAPResultCode, error) {
	if password == "secret" {
		return peer.LDAPResultSuccess, nil
	}
	return peer.LDAPResultInvalidCredentials, nil
}

func (d peerDirectory) Search(_ string, r peer.SearchRequest, _ net.Conn) (peer.ServerSearchResult, error) {
	d.searches <- r
	return peer.ServerSearchResult{Entries: people, ResultCode: peer.LDAPResultSuccess}, nil
}

func (peerDirectory) Modify(string, peer.ModifyRequest, net.Conn) (peer.LDAPResultCode, error) {
	return peer.LDAPResultNoSuchObject, nil
}

func (peerDirectory) Delete(string, string, net.Conn) (peer.LDAPResultCode, error) {
	return peer.LDAPResultNoSuchObject, nil
}

func (peerDirectory) Compare(string, peer.CompareRequest, net.Conn) (peer.LDAPResultCode, error) {
	return peer.LDAPResultCompareTrue, nil
}

func startPeer(t *testing.T) (addr string, searches chan peer.SearchRequest) {
	d := peerDirectory{make(chan peer.SearchRequest, 1)}
	s := peer.NewServer()
	s.BindFunc("", d)
	s.SearchFunc("", d)
	s.ModifyFunc("", d)
	s.DeleteFunc("", d)
	s.CompareFunc("", d)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan bool)
	go func() {
		s.Serve(l)
		close(done)
	}()
	t.Cleanup(func() {
		s.Quit <- true
		<-done
	})
	return l.Addr().String(), d.searches
}

// ours answers as the peer does, with the same texts.
func ours(_ context.Context, m *op.Message, sink op.Sink) {
	code := peer.LDAPResultCode(peer.LDAPResultSuccess)
	text := true
	switch r := m.Request.(type) {
	case *op.Bind:
		text = false
		if string(r.Password) != "secret" {
			code = peer.LDAPResultInvalidCredentials
		}
	case *op.Search:
		text = false
		for _, p := range people {
			sink.Entry(fromPeer(p))
		}
	case *op.Modify, *op.Delete:
		code = peer.LDAPResultNoSuchObject
	case *op.Compare:
		code = peer.LDAPResultCompareTrue
	}
	r := &op.Response{Result: op.Result{Code: op.Code(code)}}
	if text {
		r.Diagnostic = peer.LDAPResultCodeMap[code]
	}
	sink.Done(r)
}

func fromPeer(p *peer.Entry) *op.SearchEntry {
	e := &op.SearchEntry{Name: p.DN}
	for _, a := range p.Attributes {
		to := entry.Attribute{Type: schema.Core().Attribute(a.Name)}
		for _, v := range a.Values {
			to.Values = append(to.Values, []byte(v))
		}
		e.Attributes = append(e.Attributes, to)
	}
	return e
}

// TestSameOctetsAsPeer checks that the peer understands our encoding of requests, and
// that both servers answer the same requests with the same octets.
func TestSameOctetsAsPeer(t *testing.T) {
	theirs, searches := startPeer(t)
	r := start(t, ours, server.Options{})
	everybody := &op.Search{Base: "dc=x", Scope: op.WholeSubtree, Deref: op.DerefAlways, SizeLimit: 1000, TimeLimit: 5,
		Filter: filter.MustParse("(&(cn=a*)(!(sn=b))(|(l>=c)(l<=d)(l~=e)(l=*)))"), Attributes: []string{"cn", "sn"}}
	requests := []op.Message{
		{ID: 1, Request: &op.Bind{Version: 3, Name: "cn=a", Password: []byte("secret")}},
		{ID: 127, Request: &op.Bind{Version: 3, Name: "cn=a", Password: []byte("wrong")}},
		{ID: 128, Request: everybody},
		{ID: 65536, Request: &op.Compare{Name: "cn=a", Description: "cn", Value: []byte("a")}},
		{ID: 3, Request: &op.Delete{Name: "cn=a"}},
		{ID: 4, Request: &op.Modify{Name: "cn=a", Changes: []op.Modification{{Kind: op.ModReplace,
			PartialAttribute: op.PartialAttribute{Description: "cn", Values: [][]byte{[]byte("b")}}}}}},
	}
	for i := range requests {
		b := wiretest.AppendRequest(nil, &requests[i])
		b = wiretest.AppendRequest(b, &op.Message{ID: 5, Request: &op.Unbind{}})
		want, got := exchange(t, theirs, b), exchange(t, r.addr, b)
		if len(want) == 0 || !bytes.Equal(got, want) {
			t.Errorf("%T:\nours:   %x\ntheirs: %x", requests[i].Request, got, want)
		}
	}
	s := receive(t, searches, "the peer's search")
	if s.BaseDN != everybody.Base || s.Scope != int(everybody.Scope) || s.DerefAliases != int(everybody.Deref) ||
		s.SizeLimit != everybody.SizeLimit || s.TimeLimit != everybody.TimeLimit || s.TypesOnly ||
		s.Filter != everybody.Filter.String() || !slices.Equal(s.Attributes, everybody.Attributes) {
		t.Errorf("the peer read %+v", s)
	}
}

// exchange sends octets and returns everything received until the server closes.
func exchange(t *testing.T, addr string, b []byte) []byte {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patience))
	if _, err := nc.Write(b); err != nil {
		t.Fatal(err)
	}
	answers, err := io.ReadAll(nc)
	if err != nil {
		t.Fatal(err)
	}
	return answers
}

// TestSameToClientAsPeer checks that a client receives the same answers from both
// servers.
func TestSameToClientAsPeer(t *testing.T) {
	theirs, searches := startPeer(t)
	r := start(t, ours, server.Options{})
	var results []*ldap.SearchResult
	for _, addr := range []string{theirs, r.addr} {
		c, err := ldap.DialURL("ldap://" + addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.Bind("cn=a", "secret"); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
		if err := c.Bind("cn=a", "wrong"); !ldap.IsErrorWithCode(err, ldap.LDAPResultInvalidCredentials) {
			t.Errorf("%s: %v", addr, err)
		}
		res, err := c.Search(ldap.NewSearchRequest("dc=x", ldap.ScopeWholeSubtree, 0, 0, 0, false, "(cn=*)", nil, nil))
		if err != nil {
			t.Fatalf("%s: %v", addr, err)
		}
		results = append(results, res)
	}
	<-searches
	for i, e := range results[0].Entries {
		if o := results[1].Entries[i]; o.DN != e.DN || !slices.EqualFunc(o.Attributes, e.Attributes, sameAttribute) {
			t.Errorf("ours: %+v, theirs: %+v", o, e)
		}
	}
}

func sameAttribute(a, b *ldap.EntryAttribute) bool {
	return a.Name == b.Name && slices.Equal(a.Values, b.Values)
}
