package hbase

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/hrpc"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/seed-4dac0d86/ldapd/store/hbase/internal/alltime"
)

// A Traffic counts what a store's client exchanges with region servers.
type Traffic struct {
	conn  *conn
	calls atomic.Int64
}

// Watch begins to count the calls of a store.
func Watch(s *Store) *Traffic {
	t := &Traffic{conn: s.conn}
	cl := s.conn.client.Load()
	cl.raw = countedRaw{cl.raw, t}
	cl.Client = countedClient{cl.Client, t}
	return t
}

// count counts a call or a batch, unless it is of the tables of the transactions: a server reads these
// from time to time.
func (t *Traffic) count(rpc hrpc.Call) {
	if n := string(rpc.Table()); !strings.HasSuffix(n, "cluster") && !strings.HasSuffix(n, "journal") {
		t.calls.Add(1)
	}
}

// Calls returns the number of calls since Watch. A batch counts as one call.
func (t *Traffic) Calls() int { return int(t.calls.Load()) }

// Received returns the number of octets that have arrived in the store's connections.
func (t *Traffic) Received(tb testing.TB) int {
	tb.Helper()
	l := &t.conn.client.Load().lines
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for c := range l.open {
		tcp, ok := c.(*alltime.Conn)
		if !ok {
			tb.Fatalf("a connection is a %T", c)
		}
		raw, err := tcp.SyscallConn()
		if err != nil {
			tb.Fatal(err)
		}
		if cerr := raw.Control(func(fd uintptr) {
			var info *unix.TCPInfo
			if info, err = unix.GetsockoptTCPInfo(int(fd), unix.SOL_TCP, unix.TCP_INFO); err == nil {
				n += int(info.Bytes_received)
			}
		}); cerr != nil || err != nil {
			tb.Fatal(cerr, err)
		}
	}
	return n
}

type countedRaw struct {
	gohbase.RPCClient
	t *Traffic
}

func (c countedRaw) SendRPC(rpc hrpc.Call) (proto.Message, error) {
	c.t.count(rpc)
	return c.RPCClient.SendRPC(rpc)
}

type countedClient struct {
	gohbase.Client
	t *Traffic
}

func (c countedClient) SendBatch(ctx context.Context, batch []hrpc.Call) ([]hrpc.RPCResult, bool) {
	c.t.count(batch[0])
	return c.Client.SendBatch(ctx, batch)
}
