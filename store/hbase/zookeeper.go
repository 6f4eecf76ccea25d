package hbase

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/tsuna/gohbase/pb"
	"google.golang.org/protobuf/proto"

	"github.com/seed-4dac0d86/ldapd/store/hbase/internal/alltime"
	"github.com/seed-4dac0d86/ldapd/store/hbase/internal/zookeeper"
)

// The nodes of ZooKeeper that name servers.
const (
	metaNode   = "meta-region-server"
	masterNode = "master"
)

// A dialer connects to a server.
type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// numbers returns the servers of ZooKeeper as its client gets them. That client resolves names itself, and passes addresses to
// its dialer, but TLS and Kerberos need the names. So each server is a number, the port of an address that nobody calls.
func (c *conn) numbers() []string {
	all := make([]string, len(c.target.Servers))
	for i := range all {
		all[i] = net.JoinHostPort("127.0.0.1", strconv.Itoa(i+1))
	}
	if c.target.RPC {
		return all[:1]
	}
	return all
}

// dialZooKeeper returns a dialer for the client of ZooKeeper, which returns errors to failed too, because that client only
// logs them. With the RPC connection registry, the connection is to a stand-in that asks the registry.
func (c *conn) dialZooKeeper(failed func(error)) dialer {
	if c.target.RPC {
		return func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			go zookeeper.StandIn(far, func(node string) ([]byte, error) {
				server, err := c.registered(c.life, registryMethods[path.Base(node)])
				if err != nil {
					return nil, err
				}
				return formNode(server)
			})
			return near, nil
		}
	}
	return func(ctx context.Context, network, number string) (net.Conn, error) {
		line, err := c.dialNumber(ctx, network, number, failed)
		if err != nil {
			failed(err)
		}
		return line, err
	}
}

func (c *conn) dialNumber(ctx context.Context, network, number string, failed func(error)) (net.Conn, error) {
	_, port, err := net.SplitHostPort(number)
	if err != nil {
		return nil, err
	}
	i, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	server := c.target.Servers[i-1]
	host, _, err := net.SplitHostPort(server)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	line, err := d.DialContext(ctx, network, server)
	if err != nil {
		return nil, err
	}
	if c.tlsZooKeeper {
		t, err := alltime.Handshake(ctx, line, c.dialer.TLS, host)
		if err != nil {
			line.Close()
			return nil, err
		}
		line = t
	}
	if c.zkLogin == nil {
		return line, nil
	}
	return zookeeper.Authenticate(line, func(ask func([]byte) ([]byte, error)) error {
		ctx, cancel := context.WithTimeout(c.life, c.timeout)
		defer cancel()
		err := c.zkLogin.Exchange(ctx, line, host, ask)
		if err != nil {
			failed(err)
		}
		return err
	}), nil
}

// readNode reads a node of ZooKeeper.
func (c *conn) readNode(ctx context.Context, node string) ([]byte, error) {
	failed := make(chan error, 1)
	dial := c.dialZooKeeper(func(err error) {
		select {
		case failed <- err:
		default:
		}
	})
	conn, _, err := zk.Connect(c.numbers(), 5*time.Second, zk.WithLogger(silent{}), zk.WithDialer(func(network, addr string, timeout time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return dial(ctx, network, addr)
	}))
	if err != nil {
		return nil, err
	}
	type answer struct {
		data []byte
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		data, _, err := conn.Get(node)
		got <- answer{data, err}
	}()
	defer conn.Close() // closing the connection also ends the Get
	select {
	case a := <-got:
		if a.err == nil || errors.Is(a.err, zk.ErrNoNode) {
			return a.data, a.err
		}
		err = a.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	select {
	case reason := <-failed:
		return nil, reason
	default:
		return nil, err
	}
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// askZooKeeper returns the region server of hbase:meta.
func (c *conn) askZooKeeper(ctx context.Context) (*pb.ServerName, error) {
	node, servers := path.Join(c.target.Root, metaNode), c.target.servers()
	data, err := c.readNode(ctx, node)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, fmt.Errorf("ZooKeeper at %s has no %s: is HBase running, and is zkroot right?", servers, node)
	case err != nil && err.Error() == wantsSASL:
		return nil, fmt.Errorf("ZooKeeper at %s wants Kerberos: set hbase.kerberos-zookeeper-principal", servers)
	case err != nil:
		return nil, fmt.Errorf("no ZooKeeper answers at %s: %w", servers, err)
	}
	name, err := parseNode(data)
	if err != nil {
		return nil, fmt.Errorf("%s in ZooKeeper at %s: %w", node, servers, err)
	}
	return name, nil
}

// wantsSASL is the error with which ZooKeeper's client reports a code of a later ZooKeeper than it knows, SESSIONCLOSEDREQUIRESASLAUTH.
const wantsSASL = "unknown error: -124"

var errNode = errors.New("not what HBase writes there")

// parseNode decodes a node that names a server. The data consist of FF, the length of an id, the id, "PBUF", and a message
// that has the server in its first field.
func parseNode(b []byte) (*pb.ServerName, error) {
	if len(b) < 5 || b[0] != 0xff {
		return nil, errNode
	}
	id := uint64(binary.BigEndian.Uint32(b[1:]))
	if id > uint64(len(b)-5) {
		return nil, errNode
	}
	msg, ok := strings.CutPrefix(string(b[5+id:]), "PBUF")
	if !ok {
		return nil, errNode
	}
	var m pb.MetaRegionServer
	if err := proto.Unmarshal([]byte(msg), &m); err != nil {
		return nil, errNode
	}
	return m.GetServer(), nil
}

// formNode encodes a node that parseNode decodes.
func formNode(server *pb.ServerName) ([]byte, error) {
	return proto.MarshalOptions{}.MarshalAppend([]byte("\xff\x00\x00\x00\x05ldapdPBUF"), &pb.MetaRegionServer{Server: server})
}

func hostPort(s *pb.ServerName) string {
	return net.JoinHostPort(s.GetHostName(), strconv.FormatUint(uint64(s.GetPort()), 10))
}
