package server_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
)

// full returns a connection on which two modifies run until the test closes release. Other
// operations wait, because no more than two may run at once.
func full(t *testing.T, o server.Options) (r *rig, c *client, release chan bool) {
	t.Helper()
	release = make(chan bool)
	began := make(chan int32, 100)
	o.MaxOutstanding = 2
	r = start(t, func(_ context.Context, m *op.Message, sink op.Sink) {
		if m.ID <= 2 {
			began <- m.ID
			<-release
		}
		sink.Done(&op.Response{})
	}, o)
	c = r.dial()
	c.send(1, modify, modify)
	receive(t, began, "the first modify")
	receive(t, began, "the second modify")
	return r, c, release
}

// TestBusyConnectionIsRead checks that a connection is read even while as many operations
// run as may run at once. Waiting operations can be abandoned and canceled, and the other
// ones run later.
func TestBusyConnectionIsRead(t *testing.T) {
	r, c, release := full(t, server.Options{})
	c.send(3, modify, search, compare, &op.Abandon{MessageID: 4}, cancelOf(3))
	c.expect(3, op.Canceled)
	c.expect(7, op.Success)
	c.send(8, cancelOf(4))
	c.expect(8, op.NoSuchOperation)
	c.send(9, cancelOf(9))
	c.expect(9, op.CannotCancel)
	close(release)
	answered := []int32{c.read().ID, c.read().ID, c.read().ID}
	slices.Sort(answered)
	if !slices.Equal(answered, []int32{1, 2, 5}) {
		t.Errorf("answered in the end: %v", answered)
	}
	r.h.mu.Lock()
	defer r.h.mu.Unlock()
	if got := strings.Join(r.h.answered, ", "); got != "3 118, 7 0, 8 119, 9 121" {
		t.Errorf("the session was told of %s", got)
	}
}

// TestBindBehindWaiting checks that a bind waits for queued updates. The bind abandons queued
// searches that have not begun.
func TestBindBehindWaiting(t *testing.T) {
	_, c, release := full(t, server.Options{})
	c.send(3, modify, search, bind)
	close(release)
	seen := map[int32]bool{}
	for !seen[5] {
		seen[c.read().ID] = true
	}
	if !seen[1] || !seen[2] || !seen[3] {
		t.Errorf("answered before the bind: %v", seen)
	}
}

// TestUnbindBehindWaiting checks that updates in the queue still run after an Unbind.
func TestUnbindBehindWaiting(t *testing.T) {
	done := make(chan int32, 10)
	release := make(chan bool)
	c := start(t, func(_ context.Context, m *op.Message, sink op.Sink) {
		<-release
		done <- m.ID
		sink.Done(&op.Response{})
	}, server.Options{MaxOutstanding: 1}).dial()
	c.send(1, modify, modify, modify, &op.Unbind{})
	c.Close()
	close(release)
	for range 3 {
		receive(t, done, "a modify")
	}
}

// TestBusy checks that the queue is bounded, in operations and in octets. A request for which
// the queue has no room is answered with busy.
func TestBusy(t *testing.T) {
	t.Run("operations", func(t *testing.T) {
		_, c, release := full(t, server.Options{})
		c.send(3, slices.Repeat([]op.Request{modify}, 1001)...)
		if a := c.expect(1003, op.Busy); !strings.Contains(a.Response.Diagnostic, "2 operations run on this connection and 1000 wait") {
			t.Errorf("diagnostic: %q", a.Response.Diagnostic)
		}
		close(release)
		for range 1002 {
			if a := c.read(); a.Response.Code != op.Success {
				t.Fatalf("%d: %+v", a.ID, a.Response)
			}
		}
	})
	t.Run("octets", func(t *testing.T) {
		_, c, release := full(t, server.Options{MaxMessage: 1000})
		long := &op.Compare{Name: strings.Repeat("x", 600)}
		c.send(3, long, long, compare)
		c.expect(4, op.Busy)
		close(release)
		for range 4 {
			c.read()
		}
	})
}

// TestBindAfterWaiting checks that a Bind begins after the operations that were waiting when it
// arrived. Otherwise they would run with the rights of the new identity.
func TestBindAfterWaiting(t *testing.T) {
	for most := range 3 {
		first, order := make(chan struct{}), make(chan int32, 4)
		r := start(t, func(_ context.Context, m *op.Message, sink op.Sink) {
			if m.ID == 1 {
				<-first
			}
			order <- m.ID
			sink.Done(&op.Response{})
		}, server.Options{MaxOutstanding: most + 1})
		c := r.dial()
		c.send(1, modify, modify, modify, bind)
		time.Sleep(50 * time.Millisecond) // time for the Bind to arrive; if it arrives later, the test may miss an error, but does not fail
		close(first)
		for range 3 {
			if id := receive(t, order, "an operation"); id == 4 {
				t.Errorf("at most %d at once: the Bind overtook others", most+1)
			}
		}
	}
}
