package hbase

import (
	"context"
	"encoding/binary"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tsuna/gohbase/pb"
	"github.com/tsuna/gohbase/zk"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/seed-4dac0d86/ldapd/store/hbase/internal/alltime"
	"github.com/seed-4dac0d86/ldapd/store/hbase/internal/rpctest"
)

// A node is a server with a connection registry. It answers with what answers has for a method, and if there is nothing, not at all.
type node struct{ answers map[string]func() []byte }

// start starts a server with a registry, and returns its address.
func (n node) start(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go n.serve(c)
		}
	}()
	return l.Addr().String()
}

// serve answers the calls of a connection.
func (n node) serve(c net.Conn) {
	rpctest.Calls(c, func(b []byte) bool {
		header, _ := protowire.ConsumeBytes(b)
		var h pb.RequestHeader
		if proto.Unmarshal(header, &h) != nil || n.answers[h.GetMethodName()] == nil {
			return true
		}
		head, err := proto.Marshal(&pb.ResponseHeader{CallId: h.CallId})
		if err != nil {
			return false
		}
		b = protowire.AppendBytes(protowire.AppendBytes(make([]byte, 4), head), n.answers[h.GetMethodName()]())
		binary.BigEndian.PutUint32(b, uint32(len(b)-4))
		_, err = c.Write(b)
		return err == nil
	})
}

// message returns an encoded message with length-delimited fields, which are numbered from 1 on.
func message(values ...[]byte) (b []byte) {
	for i, v := range values {
		b = protowire.AppendBytes(protowire.AppendTag(b, protowire.Number(i+1), protowire.BytesType), v)
	}
	return b
}

func encoded(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func serverName(t *testing.T, host string) []byte {
	return encoded(t, &pb.ServerName{HostName: &host, Port: proto.Uint32(16000), StartCode: proto.Uint64(7)})
}

// metaLocations is an answer with the locations of replicas of hbase:meta.
func metaLocations(t *testing.T, hosts ...string) (b []byte) {
	for i, host := range hosts {
		r := encoded(t, &pb.RegionInfo{
			RegionId: proto.Uint64(1), ReplicaId: proto.Int32(int32(len(hosts) - 1 - i)),
			TableName: &pb.TableName{Namespace: []byte("hbase"), Qualifier: []byte("meta")},
		})
		b = append(b, message(message(r, serverName(t, host)))...)
	}
	return b
}

func rpcConn(t *testing.T, timeout time.Duration, servers ...string) *conn {
	return &conn{target: Target{RPC: true, Servers: servers, Root: "/hbase"}, timeout: timeout, log: slog.New(slog.DiscardHandler), dialer: &alltime.Dialer{}, life: t.Context()}
}

// gohbase finds the active master and hbase:meta by a registry of which one server is away, one does not answer, and one knows
// nothing yet. It finds another master when that has become active.
func TestRegistry(t *testing.T) {
	master := atomic.Pointer[string]{}
	name := func(s string) { master.Store(&s) }
	nothing := func() []byte { return nil }
	knows := node{map[string]func() []byte{
		methodMaster: func() []byte { return message(serverName(t, *master.Load())) },
		methodMeta:   func() []byte { return metaLocations(t, "replica", "meta") },
	}}.start(t)
	silent := node{}.start(t)
	early := node{map[string]func() []byte{methodMaster: nothing, methodMeta: nothing}}.start(t)
	const away = "127.0.0.1:1"
	c := rpcConn(t, time.Minute, away, silent, early, knows)
	zooKeeper := zk.NewClient(strings.Join(c.numbers(), ","), c.timeout, c.dialZooKeeper(func(error) {}), c.log)
	for _, step := range []struct {
		active   string
		resource zk.ResourceName
		want     string
	}{
		{"first", zk.Master, "first:16000"},
		{"second", zk.Master, "second:16000"},
		{"second", zk.Meta, "meta:16000"},
	} {
		name(step.active)
		if got, err := zooKeeper.LocateResource(step.resource.Prepend("/hbase")); err != nil || got != step.want {
			t.Errorf("%+v: %q, %v", step, got, err)
		}
	}

	c = rpcConn(t, time.Second, away, silent, early)
	_, err := c.registered(t.Context(), methodMeta)
	for _, want := range []string{away + ": dial tcp", silent + ": " + methodMeta + ": context deadline exceeded", early + ": " + methodMeta + ": that server does not know yet"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := rpcConn(t, time.Minute, silent).registered(gone, methodMeta); err == nil {
		t.Error("an ended look-up succeeds")
	}
}

// An answer of a registry that is cut at any octet is an error.
func TestRegistryAnswers(t *testing.T) {
	for method, answer := range map[string][]byte{
		methodMaster: message(serverName(t, "m")),
		methodMeta:   metaLocations(t, "m"),
	} {
		if s, err := readServer(method, answer); err != nil || hostPort(s) != "m:16000" {
			t.Errorf("%s: %v, %v", method, s, err)
		}
		for i := range answer {
			if s, err := readServer(method, answer[:i]); err == nil {
				t.Errorf("the first %d octets of %s name %v", i, method, s)
			}
		}
	}
	if s, err := readServer(methodMeta, metaLocations(t, "a", "b")[:len(metaLocations(t, "a", "b"))/2]); err == nil {
		t.Errorf("hbase:meta is at its replica %v", s)
	}
}
