// Package web has what pages and SCIM share: they are clients of package directory that speak HTTP.
package web

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// A Client runs operations in a session, as a client of LDAP would, and waits for their results.
// The session decides who may do what. Clients run one operation at a time.
type Client struct {
	Session *directory.Session
	Trace   func(*op.Message, op.Sink) op.Sink // for tests: sees each message before it is served; nil: nobody does
}

// An Answer receives what precedes the result of an operation. Any of its functions may be nil. An
// entry is valid until Entry returns. An error of a function ends the operation.
type Answer struct {
	Entry        func(*op.SearchEntry) error
	Reference    func(urls []string) error
	Intermediate func(oid string, value []byte) error
}

// Do runs an operation. If its result is no success, the error is a *op.Result.
func (c Client) Do(ctx context.Context, r op.Request, a Answer, controls ...op.Control) (*op.Response, error) {
	s := &sink{answer: a}
	m := &op.Message{ID: number.Add(1) & math.MaxInt32, Request: r, Controls: controls}
	var to op.Sink = s
	if c.Trace != nil {
		to = c.Trace(m, s)
	}
	c.Session.Serve(ctx, m, to)
	switch {
	case s.err != nil:
		return nil, s.err
	case s.response.Code == op.Success, s.response.Code == op.CompareTrue, s.response.Code == op.CompareFalse:
		return &s.response, nil
	}
	return &s.response, &s.response.Result
}

// IsResult reports whether an error is a result of an operation with one of some codes; without codes, with any.
func IsResult(err error, codes ...op.Code) bool {
	var r *op.Result
	return errors.As(err, &r) && (len(codes) == 0 || slices.Contains(codes, r.Code))
}

// BindRequest returns the bind for a name that somebody has typed and a password: a simple bind for a DN, and otherwise
// PLAIN, whose names the identity rules map to entries.
func BindRequest(name, password string) *op.Bind {
	if d, err := dn.Parse(name); err == nil && len(d) > 0 {
		return &op.Bind{Version: 3, Name: name, Password: []byte(password)}
	}
	return &op.Bind{Version: 3, SASL: true, Mechanism: "PLAIN", Credentials: []byte("\x00" + name + "\x00" + password)}
}

// number is the last message ID. The updates of a transaction need different ones.
var number atomic.Int32

// sink calls the functions of an answer and keeps the result.
type sink struct {
	answer   Answer
	response op.Response
	err      error // of a function
}

func (s *sink) Entry(e *op.SearchEntry) error {
	if s.answer.Entry != nil {
		s.err = s.answer.Entry(e)
	}
	return s.err
}

func (s *sink) Reference(urls []string, _ []op.Control) error {
	if s.answer.Reference != nil {
		s.err = s.answer.Reference(urls)
	}
	return s.err
}

func (s *sink) Intermediate(oid string, value []byte, _ []op.Control) error {
	if s.answer.Intermediate != nil {
		s.err = s.answer.Intermediate(oid, value)
	}
	return s.err
}

func (s *sink) Done(r *op.Response) error {
	s.response = *r
	return nil
}
