package directory_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// gone is the sink of a client that leaves after some entries.
type gone struct {
	answers
	after int
}

func (g *gone) Entry(e *op.SearchEntry) error {
	if g.after--; g.after < 0 {
		return errors.New("gone")
	}
	return g.answers.Entry(e)
}

// TestSearchStopsWithItsClient checks that a search stops when the client is gone.
func TestSearchStopsWithItsClient(t *testing.T) {
	_, s := newPeople(t, 9)
	sink := &gone{after: 3}
	s.Serve(t.Context(), &op.Message{Request: devices("(objectClass=device)")}, sink)
	if sink.after != -1 || len(sink.entries) != 3 {
		t.Errorf("asked %d times more, %d entries", -sink.after, len(sink.entries))
	}
}

// TestTimeLimit checks that a search ends at the time limit, or when its operation is
// canceled.
func TestTimeLimit(t *testing.T) {
	d, _ := newPeople(t, 3)
	for _, o := range []struct {
		limit time.Duration
		ctx   func() (context.Context, context.CancelFunc)
		code  op.Code
	}{
		{time.Nanosecond, func() (context.Context, context.CancelFunc) { return context.WithCancel(t.Context()) }, op.TimeLimitExceeded},
		{time.Hour, func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return ctx, cancel
		}, op.Canceled},
		{time.Hour, func() (context.Context, context.CancelFunc) { return context.WithCancel(t.Context()) }, op.Success},
	} {
		s := newDirectory(t, directory.PartitionOf(d), directory.Options{Limits: directory.Limits{Time: o.limit}}).NewSession(nil)
		ctx, cancel := o.ctx()
		var out answers
		s.Serve(ctx, &op.Message{Request: devices("(!(serialNumber=x))")}, &out)
		cancel()
		if out.done.Code != o.code {
			t.Errorf("limit %v: %v", o.limit, &out.done.Result)
		}
	}
}

// TestServerSizeLimit checks that the server's size limit applies to everyone except the
// administrator.
func TestServerSizeLimit(t *testing.T) {
	d, _ := newPeople(t, 5)
	s := newDirectory(t, directory.PartitionOf(d), directory.Options{Limits: directory.Limits{Size: 2}}).NewSession(nil)
	for _, c := range []struct {
		client, entries int
		code            op.Code
	}{{0, 2, op.SizeLimitExceeded}, {1, 1, op.SizeLimitExceeded}, {100, 2, op.SizeLimitExceeded}} {
		r := devices("(objectClass=device)")
		r.SizeLimit = c.client
		var out answers
		s.Serve(t.Context(), &op.Message{Request: r}, &out)
		if len(out.entries) != c.entries || out.done.Code != c.code {
			t.Errorf("size limit %d: %d entries, %v", c.client, len(out.entries), &out.done.Result)
		}
	}
	serve(t, s, &op.Bind{Version: 3, Name: "cn=admin,dc=example,dc=com", Password: []byte("secret")})
	var out answers
	s.Serve(t.Context(), &op.Message{Request: devices("(objectClass=device)")}, &out)
	if len(out.entries) != 5 || out.done.Code != op.Success {
		t.Errorf("administrator: %d entries, %v", len(out.entries), &out.done.Result)
	}
}

// TestConcurrentOperations checks that one session can serve many operations at once, and
// that these operations share no buffers.
func TestConcurrentOperations(t *testing.T) {
	_, s := newPeople(t, 9)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			name := "cn=d0" + string(rune('0'+i)) + ",dc=example,dc=com"
			for range 50 {
				var out answers
				r := devices("(entryDN=" + name + ")")
				r.Attributes = []string{"cn"}
				s.Serve(context.Background(), &op.Message{Request: r}, &out)
				if len(out.entries) != 1 || out.entries[0] != "dn: "+name+"\n  cn: "+name[3:6]+"\n" {
					t.Errorf("%s: %q, %v", name, out.entries, &out.done.Result)
					return
				}
				s.Serve(context.Background(), &op.Message{Request: &op.Modify{Name: name, Changes: []op.Modification{{Kind: op.ModReplace,
					PartialAttribute: op.PartialAttribute{Description: "description", Values: [][]byte{[]byte(name)}}}}}}, &out)
				if out.done.Code != op.Success {
					t.Errorf("%s: %v", name, &out.done.Result)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestStartTLSWithinSASL checks that TLS does not begin during a SASL bind of several
// steps (RFC 4513, 3.1.1).
func TestStartTLSWithinSASL(t *testing.T) {
	d := newUsers(t, directory.Options{})
	s := d.NewSession(nil)
	var out answers
	s.Serve(t.Context(), &op.Message{Request: &op.Bind{Version: 3, SASL: true, Mechanism: "SCRAM-SHA-256", Credentials: []byte("n,,n=x,r=abc")}}, &out)
	if out.done.Code != op.SASLBindInProgress {
		t.Fatalf("%v", &out.done.Result)
	}
	if r := s.StartTLS(); r == nil || r.Code != op.OperationsError {
		t.Errorf("within: %v", r)
	}
	s.Serve(t.Context(), &op.Message{Request: &op.Bind{Version: 3, Password: []byte{}}}, &out)
	if r := s.StartTLS(); r != nil {
		t.Errorf("after: %v", r)
	}
}
