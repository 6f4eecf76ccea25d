package directory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/seed-4dac0d86/ldapd/auth"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/txn"
)

func TestToResult(t *testing.T) {
	d := &server{log: slog.New(slog.DiscardHandler)}
	for _, c := range []struct {
		err  error
		code op.Code
	}{
		{op.Errorf(op.SizeLimitExceeded, "x"), op.SizeLimitExceeded},
		{fmt.Errorf("add: %w", &partition.Error{Problem: partition.EntryExists}), op.EntryAlreadyExists},
		{fmt.Errorf("commit: %w", txn.ErrConflict), op.Busy},
		{txn.ErrReadOnly, op.UnwillingToPerform},
		{txn.ErrRevision, op.UnwillingToPerform},
		{txn.ErrUnknown, op.Other},
		{fmt.Errorf("get: %w", table.ErrUnavailable), op.Unavailable},
		{table.ErrClosed, op.Unavailable},
		{table.ErrTooLarge, op.AdminLimitExceeded},
		{table.ErrCorrupt, op.Other},
		{context.DeadlineExceeded, op.TimeLimitExceeded},
		{context.Canceled, op.Canceled},
		// A store that gave up at its own deadline is not the client's limit.
		{fmt.Errorf("%w: %w", table.ErrUnavailable, context.DeadlineExceeded), op.Unavailable},
		{errors.New("disk on fire at /secret/path"), op.Other},
	} {
		if r := d.toResult(c.err); r.Code != c.code {
			t.Errorf("%v: %d, want %d", c.err, r.Code, c.code)
		}
	}
	if r := d.toResult(errors.New("/secret/path")); r.Diagnostic != "internal error: the server's log has more" {
		t.Errorf("a client is told %q", r.Diagnostic)
	}
}

// Every problem has a code, and a missing entry tells its ancestor.
func TestEveryProblemHasACode(t *testing.T) {
	for p := partition.NoSuchEntry; p <= partition.Unwilling; p++ {
		if _, ok := problemCodes[p]; !ok {
			t.Errorf("problem %d has no result code", p)
		}
	}
	r := (&server{}).toResult(&partition.Error{Problem: partition.NoSuchEntry, Matched: "dc=a", Text: "x"})
	if r.MatchedDN != "dc=a" || r.Code != op.NoSuchObject || r.Diagnostic != "x" {
		t.Errorf("%+v", r)
	}
}

func FuzzControls(f *testing.F) {
	f.Add([]byte{0x30, 0x05, 0x02, 0x01, 0x05, 0x04, 0x00})
	f.Add([]byte{0x30, 0x84, 0, 0, 0, 5, 0x02, 0x01, 0x00, 0x04, 0x00})
	f.Add([]byte{})
	f.Add([]byte("\x30\x0f\x30\x0d\x04\x06member\x30\x03\x04\x01c")) // dereference
	f.Add([]byte("\x30\x0b\x30\x09\x04\x02cn\x80\x00\x81\x01\xff"))  // sort
	f.Add([]byte("\x30\x09\x02\x01\x00\x02\x01\x00\x81\x01a"))       // virtual list view
	f.Add([]byte("\x30\x0c\x87\x02cn\xa3\x06\x04\x01c\x04\x01x"))    // matched values
	f.Fuzz(func(t *testing.T, value []byte) {
		m := &op.Message{Request: &op.Search{}}
		for i := range supported {
			o := &operation{server: &server{}, schema: schema.Core(), session: &session{channel: auth.NoChannel{}}}
			supported[i].take(o, m, &op.Control{OID: supported[i].oid, Critical: true, Value: value})
		}
	})
}

// A cookie that was not made here is refused, whatever is in it.
func FuzzCookie(f *testing.F) {
	p := &page{key: []byte("k")}
	good := p.write(1<<40, 7, 0, []byte("position"))
	f.Add(good)
	f.Add(good[:20])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, cookie []byte) {
		if (&page{key: []byte("k")}).read(cookie) && string(cookie) != string(good) {
			t.Errorf("accepted %x", cookie)
		}
	})
}

func TestCookieRoundTrip(t *testing.T) {
	p := &page{key: []byte("k")}
	cookie := p.write(1<<40|5, 7, 9, []byte("position"))
	q := &page{key: []byte("k")}
	if !q.read(cookie) || q.revision != 1<<40|5 || q.sent != 7 || q.skip != 9 || string(q.after) != "position" {
		t.Errorf("%+v", q)
	}
}

func TestReferralURL(t *testing.T) {
	for _, c := range []struct{ url, own, scope, want string }{
		{"ldap://h/o=x", "ou=y", "", "ldap://h/o=x"},
		{"ldap://h/o=x??one?(a=b)", "ou=y", "sub", "ldap://h/o=x??sub"},
		{"ldap://h:389", "ou=ä?b", "", "ldap://h:389/ou=%C3%A4%3Fb"},
		{"ldap://h/", "ou=y", "base", "ldap://h/ou=y??base"},
		{"LDAPS://h/o=x", "ou=y", "base", "LDAPS://h/o=x??base"},
		{"http://h/page", "ou=y", "sub", "http://h/page"},
		{"nonsense", "ou=y", "sub", "nonsense"},
	} {
		if got := referralURL(c.url, c.own, nil, c.scope); got != c.want {
			t.Errorf("%s: %s, want %s", c.url, got, c.want)
		}
	}
}
