package hbase

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/tsuna/gohbase/pb"

	"github.com/seed-4dac0d86/ldapd/store/hbase/internal/alltime"
)

// probe looks the cluster up as a client does, but without gohbase. It returns nil if
// three conditions are met: ZooKeeper or the RPC connection registry answers, it has the address of hbase:meta,
// and the region server at that address accepts connections. Otherwise the error states
// which condition is not met. gohbase itself would retry in the background without giving
// a reason.
func (c *conn) probe(ctx context.Context) error {
	meta, where, err := c.askForMeta(ctx)
	if err != nil {
		return err
	}
	if err := c.reach(ctx, hostPort(meta)); err != nil {
		return fmt.Errorf("%s names a region server that is of no use: %w", where, err)
	}
	return nil
}

// askForMeta returns the region server of hbase:meta, and who named it.
func (c *conn) askForMeta(ctx context.Context) (meta *pb.ServerName, where string, err error) {
	if !c.target.RPC {
		meta, err = c.askZooKeeper(ctx)
		return meta, "ZooKeeper at " + c.target.servers(), err
	}
	if meta, err = c.registered(ctx, methodMeta); err != nil {
		err = fmt.Errorf("no server of HBase says where hbase:meta is: %w", err)
	}
	return meta, "HBase at " + c.target.servers(), err
}

// reach returns nil if a server of HBase accepts connections of this side.
func (c *conn) reach(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	line, err := c.dialer.Dial(ctx, "tcp", addr, func(net.Conn) {})
	if err != nil {
		return err
	}
	defer line.Close()
	if tcp, ok := line.(*alltime.Conn); ok && tcp.NeedsKerberos() {
		return fmt.Errorf("%s permits no simple authentication: HBase has Kerberos, and this side does not", addr)
	}
	return nil
}
