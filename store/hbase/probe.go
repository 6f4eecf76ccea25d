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
)

// probe looks the cluster up as a client does, but without gohbase. It returns nil if
// three conditions are met: ZooKeeper answers, ZooKeeper has the address of hbase:meta,
// and the region server at that address accepts connections. Otherwise the error states
// which condition is not met. gohbase itself would retry in the background without giving
// a reason.
func (c *conn) probe(ctx context.Context) error {
	t := c.target
	node := path.Join(t.Root, "meta-region-server")
	data, err := c.readNode(ctx, node)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return fmt.Errorf("ZooKeeper at %s has no %s: is HBase running, and is zkroot right?", t.zk(), node)
	case err != nil:
		return fmt.Errorf("no ZooKeeper answers at %s: %w", t.zk(), err)
	}
	addr, err := metaServer(data)
	if err != nil {
		return fmt.Errorf("%s in ZooKeeper at %s: %w", node, t.zk(), err)
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	line, err := c.dialer.Dial(ctx, "tcp", addr, func(net.Conn) {})
	if err != nil {
		return fmt.Errorf("ZooKeeper at %s names a region server that does not answer: %w", t.zk(), err)
	}
	defer line.Close()
	if tcp, ok := line.(*alltime.Conn); ok && tcp.NeedsKerberos() {
		return fmt.Errorf("%s permits no simple authentication: HBase has Kerberos, and this side does not", addr)
	}
	return nil
}

func (c *conn) readNode(ctx context.Context, node string) ([]byte, error) {
	dial := zk.WithDialer(net.DialTimeout)
	failed := make(chan error, 1)
	if c.zkDial != nil {
		dial = zk.WithDialer(func(network, addr string, timeout time.Duration) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			line, err := c.zkDial(ctx, network, addr)
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
			return line, err
		})
	}
	conn, _, err := zk.Connect(c.target.Quorum, 5*time.Second, zk.WithLogger(silent{}), dial)
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

var errNode = errors.New("not what HBase writes there")

// metaServer decodes the address of the region server of hbase:meta. The data consist of
// FF, the length of an id, the id, "PBUF", and a MetaRegionServer message.
func metaServer(b []byte) (string, error) {
	if len(b) < 5 || b[0] != 0xff {
		return "", errNode
	}
	id := uint64(binary.BigEndian.Uint32(b[1:]))
	if id > uint64(len(b)-5) {
		return "", errNode
	}
	msg, ok := strings.CutPrefix(string(b[5+id:]), "PBUF")
	if !ok {
		return "", errNode
	}
	var m pb.MetaRegionServer
	if err := proto.Unmarshal([]byte(msg), &m); err != nil {
		return "", errNode
	}
	s := m.GetServer()
	return net.JoinHostPort(s.GetHostName(), strconv.FormatUint(uint64(s.GetPort()), 10)), nil
}
