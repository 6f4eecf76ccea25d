package server_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
	"github.com/seed-4dac0d86/ldapd/ldap/wire/wiretest"
)

// TestMaxPerAddress checks that clients are distinguished by the addresses that a proxy
// reports.
func TestMaxPerAddress(t *testing.T) {
	r := start(t, succeed, server.Options{MaxPerAddress: 2, Proxies: loopback})
	dial := func(from string) *client {
		c := r.dial()
		a := netip.MustParseAddrPort(from)
		to := service
		if a.Addr().Is6() {
			to = service6
		}
		c.Write(header2(1, a, to))
		return c
	}
	served := func(c *client) *client {
		t.Helper()
		c.send(1, compare)
		c.expect(1, op.Success)
		return c
	}
	first := served(dial("192.0.2.7:1"))
	served(dial("192.0.2.7:2"))
	a := dial("192.0.2.7:3").notice(op.Unavailable)
	if !strings.Contains(a.Response.Diagnostic, "2 connections from this address") {
		t.Errorf("says %q", a.Response.Diagnostic)
	}
	if log := r.log.String(); !strings.Contains(log, "192.0.2.7:3") || !strings.Contains(log, "too many connections") {
		t.Errorf("log: %s", log)
	}
	served(dial("192.0.2.8:1"))
	// One network of 64 bits counts as one client.
	served(dial("[2001:db8::1]:1"))
	served(dial("[2001:db8::2]:1"))
	dial("[2001:db8::3]:1").notice(op.Unavailable)
	served(dial("[2001:db8:0:1::3]:1"))

	first.Close()
	port := 3
	eventually(t, "room for another", func() bool {
		port++
		c := dial(fmt.Sprintf("192.0.2.7:%d", port))
		c.send(1, compare)
		a, err := wiretest.Read(c.r)
		return err == nil && a.ID == 1
	})
}

// TestBindTimeout checks that a connection without a timely bind is closed, however busy
// it is. A connection with a bound identity must stay open.
func TestBindTimeout(t *testing.T) {
	var r *rig
	r = start(t, func(_ context.Context, m *op.Message, sink op.Sink) {
		if b, ok := m.Request.(*op.Bind); ok {
			r.h.name.Store(&b.Name)
		}
		sink.Done(&op.Response{})
	}, server.Options{BindTimeout: 200 * time.Millisecond})
	bound := r.dial()
	bound.send(1, &op.Bind{Version: 3, Name: "cn=a", Password: []byte("x")})
	bound.expect(1, op.Success)
	silent, busy := r.dial(), r.dial()
	id := int32(0)
	for {
		id++
		busy.send(id, compare)
		if a, err := wiretest.Read(busy.r); err != nil {
			break
		} else if a.ID == 0 {
			t.Fatalf("a notice: %+v", a.Response)
		}
	}
	silent.end()
	bound.send(2, compare)
	bound.expect(2, op.Success)
	// An anonymous bind ends the earlier bind.
	bound.send(3, bind)
	bound.expect(3, op.Success)
	bound.end()
}

// TestOutstandingByIdentity checks that the limit on operations of the bound identity
// applies if it is below the server's limit.
func TestOutstandingByIdentity(t *testing.T) {
	for limit, want := range map[int32]int32{2: 2, 0: 6, 100: 6} {
		var running, most atomic.Int32
		started, gate := make(chan struct{}, 32), make(chan struct{})
		var r *rig
		r = start(t, func(_ context.Context, m *op.Message, sink op.Sink) {
			if _, ok := m.Request.(*op.Bind); ok {
				r.h.most.Store(limit)
			} else {
				n := running.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				started <- struct{}{}
				<-gate
				running.Add(-1)
			}
			sink.Done(&op.Response{})
		}, server.Options{MaxOutstanding: 6})
		c := r.dial()
		c.send(1, bind)
		c.expect(1, op.Success)
		requests := slices.Repeat([]op.Request{modify}, 32)
		c.send(2, requests...)
		for range want {
			receive(t, started, "an operation that runs")
		}
		close(gate)
		for range requests {
			c.read()
		}
		if n := most.Load(); n != want {
			t.Errorf("limit %d: %d ran at once, want %d", limit, n, want)
		}
	}
}
