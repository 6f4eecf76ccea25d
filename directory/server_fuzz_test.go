package directory_test

import (
	"bytes"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/ber"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
	"github.com/seed-4dac0d86/ldapd/ldap/wire"
	"github.com/seed-4dac0d86/ldapd/ldap/wire/wiretest"
)

// The kinds of fuzzed requests.
const (
	fuzzBind = iota
	fuzzSASL
	fuzzSearch
	fuzzSearchBER // like fuzzSearch, but if the text is not a filter, the value is the encoded filter
	fuzzCompare
	fuzzAdd
	fuzzModify
	fuzzDelete
	fuzzModifyDN
	fuzzAbandon
	fuzzExtended
	fuzzOctets // the value is the message
	fuzzKinds
)

// FuzzWholeServer sends requests to a server that has every log enabled. No request may
// cause a panic or an internal error. The test finds both in the server's log.
func FuzzWholeServer(f *testing.F) {
	deep := filter.Filter(&filter.Present{Attribute: "cn"})
	for range filter.MaxDepth + 1 {
		deep = &filter.Not{Filter: deep}
	}
	wide := slices.Repeat(filter.And{&filter.Present{Attribute: "cn"}}, filter.MaxParts)
	oids := slices.Sorted(maps.Keys(directory.Controls(nil)))
	for kind := range byte(fuzzKinds) {
		f.Add(true, kind, "dc=example,dc=com", "cn", []byte("x"), byte(0), []byte(nil), false)
		f.Add(false, kind, "cn=\xff", "\xff", []byte("\xff"), byte(0), []byte("\xff"), true)
		f.Add(false, kind, "", "", []byte(nil), byte(0), []byte(nil), false)
	}
	for i := range oids {
		f.Add(true, byte(fuzzSearch), "dc=example,dc=com", "(cn=*)", []byte(nil), byte(i+1), []byte("0\x03\x02\x01\x01"), true)
	}
	for _, bad := range []filter.Filter{deep, wide} {
		f.Add(false, byte(fuzzSearchBER), "dc=example,dc=com", "", wire.AppendFilter(nil, bad), byte(0), []byte(nil), false)
	}
	f.Add(false, byte(fuzzExtended), "1.3.6.1.1.8", "", []byte("0\x03\x02\x01\x09"), byte(0), []byte(nil), false)
	s := newLoggedServer(f)
	f.Fuzz(func(t *testing.T, admin bool, kind byte, name, text string, value []byte, control byte, controlValue []byte, critical bool) {
		var controls []op.Control
		if n := int(control); n > 0 && n <= len(oids) {
			controls = []op.Control{{OID: oids[n-1], Value: controlValue, Critical: critical}}
		}
		s.ask(t, admin, message(kind%fuzzKinds, name, text, value, controls))
	})
}

// message encodes a request of a kind, with message ID 2. For fuzzOctets, it returns the
// value unchanged.
func message(kind byte, name, text string, value []byte, controls []op.Control) []byte {
	values := []op.PartialAttribute{{Description: text, Values: [][]byte{value}}, {Description: "objectClass", Values: [][]byte{[]byte("device")}}}
	var r op.Request
	switch kind {
	case fuzzBind:
		r = &op.Bind{Version: 3, Name: name, Password: value}
	case fuzzSASL:
		r = &op.Bind{Version: 3, Name: name, SASL: true, Mechanism: text, Credentials: value}
	case fuzzSearch, fuzzSearchBER:
		parsed, err := filter.Parse(text)
		if err != nil {
			parsed = filter.Unknown(value)
		}
		r = &op.Search{Base: name, Scope: op.WholeSubtree, Filter: parsed, Attributes: []string{text, "*", "+"}}
	case fuzzCompare:
		r = &op.Compare{Name: name, Description: text, Value: value}
	case fuzzAdd:
		r = &op.Add{Name: name, Attributes: values}
	case fuzzModify:
		r = &op.Modify{Name: name, Changes: []op.Modification{{Kind: op.ModKind(len(value) % 4), PartialAttribute: values[0]}}}
	case fuzzDelete:
		r = &op.Delete{Name: name}
	case fuzzModifyDN:
		r = &op.ModifyDN{Name: name, NewRDN: text, NewSuperior: (*string)(nil), DeleteOldRDN: len(value) > 0}
	case fuzzAbandon:
		r = &op.Abandon{MessageID: int32(len(value))}
	case fuzzExtended:
		r = &op.Extended{OID: name, Value: value}
	default:
		return value
	}
	return wiretest.AppendRequest(nil, &op.Message{ID: 2, Request: r, Controls: controls})
}

// A loggedServer is a server of a directory in memory. Every operation is in the access
// log and counts as slow.
type loggedServer struct {
	*server.Server
	ended chan bool // receives a value when a session ends
	log   lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

// take empties the buffer and returns its contents.
func (b *lockedBuffer) take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.Reset()
	return b.String()
}

func newLoggedServer(f *testing.F) *loggedServer {
	s := &loggedServer{ended: make(chan bool)}
	log := slog.New(slog.NewTextHandler(&s.log, nil))
	d := newDirectory(f, newPartition(f), directory.Options{Access: slog.New(slog.NewJSONHandler(io.Discard, nil)), Log: log, Slow: time.Nanosecond})
	session := d.NewSession(nil)
	for _, e := range everyRequest[:4] {
		session.Serve(f.Context(), &op.Message{ID: 1, Request: e.request}, discard{})
	}
	s.Server = server.New(sessions{d, s.ended}, server.Options{Logger: log})
	f.Cleanup(func() { s.Shutdown(f.Context()) })
	return s
}

// The type sessions sends a value on the channel ended when a session ends.
type sessions struct {
	*directory.Directory
	ended chan bool
}

type endingSession struct {
	*directory.Session
	ended chan bool
}

func (h sessions) NewSession(c *server.ConnInfo) server.Session {
	return endingSession{h.Directory.NewSession(c), h.ended}
}

func (s endingSession) Close() {
	s.Session.Close()
	s.ended <- true
}

// ask sends a message and an Unbind on a new connection, and then checks the server's log. If
// admin is set, it first binds as the administrator.
func (s *loggedServer) ask(t *testing.T, admin bool, message []byte) {
	near, far := net.Pipe()
	go s.ServeConn(far)
	go io.Copy(io.Discard, near)
	var b []byte
	if admin {
		b = wiretest.AppendRequest(nil, &op.Message{ID: 1, Request: everyRequest[0].request})
	}
	b = append(b, message...)
	near.Write(append(b, 0x30, 5, byte(ber.Integer), 1, 3, 0x42, 0))
	near.Close()
	<-s.ended
	for line := range strings.Lines(s.log.take()) {
		if strings.Contains(line, "panic") || strings.Contains(line, "operation failed") {
			t.Error(line)
		}
	}
}
