package server_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
	"github.com/seed-4dac0d86/ldapd/ldap/wire"
	"github.com/seed-4dac0d86/ldapd/ldap/wire/wiretest"
)

// BenchmarkRoundTrip measures compares over loopback: one at a time, and many in one
// packet. The CPU time includes that of the client.
func BenchmarkRoundTrip(b *testing.B) {
	for _, n := range []int{1, 16} {
		b.Run(fmt.Sprintf("pipelined=%d", n), func(b *testing.B) {
			c := start(b, succeed, server.Options{}).dial()
			var requests []byte
			for i := range n {
				requests = wiretest.AppendRequest(requests, &op.Message{ID: int32(i + 1), Request: compare})
			}
			answers := make([]byte, 14*n)
			before := cpu()
			b.ReportAllocs()
			for b.Loop() {
				c.exchange(requests, answers)
			}
			b.ReportMetric((cpu()-before)*1e6/float64(b.N*n), "cpu-us/request")
		})
	}
}

// TestValueAllocatesNothing checks that an operation that asks its context for a value allocates no more than one
// that does not.
func TestValueAllocatesNothing(t *testing.T) {
	allocations := func(serve func(context.Context, *op.Message, op.Sink)) float64 {
		c := start(t, serve, server.Options{}).dial()
		request := wiretest.AppendRequest(nil, &op.Message{ID: 1, Request: compare})
		return testing.AllocsPerRun(200, func() { c.exchange(request, make([]byte, 14)) })
	}
	without := allocations(succeed)
	with := allocations(func(ctx context.Context, m *op.Message, sink op.Sink) {
		ctx.Value(t)
		succeed(ctx, m, sink)
	})
	if with > without {
		t.Errorf("%v allocations with a value, %v without", with, without)
	}
}

func (c *client) exchange(requests, answers []byte) {
	if _, err := c.Write(requests); err != nil {
		c.t.Fatal(err)
	}
	for got := 0; got < len(answers); {
		n, err := c.r.Read(answers[got:])
		if err != nil {
			c.t.Fatal(err)
		}
		got += n
	}
}

// BenchmarkStream measures a search with 1000 entries.
func BenchmarkStream(b *testing.B) {
	const entries = 1000
	e := person("cn=somebody,ou=people,dc=example,dc=com", make([]byte, 400))
	c := start(b, func(_ context.Context, _ *op.Message, sink op.Sink) {
		for range entries {
			sink.Entry(e)
		}
		sink.Done(&op.Response{})
	}, server.Options{}).dial()
	request := wiretest.AppendRequest(nil, &op.Message{ID: 1, Request: search})
	answers := make([]byte, entries*len(wire.AppendEntry(nil, 1, e))+14)
	b.SetBytes(int64(len(answers)))
	b.ReportAllocs()
	for b.Loop() {
		c.exchange(request, answers)
	}
}

// cpu returns the process's CPU time in seconds.
func cpu() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(u.Utime) + seconds(u.Stime)
}
