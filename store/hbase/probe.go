package hbase

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tsuna/gohbase/pb"
	"github.com/tsuna/gohbase/region"
	"google.golang.org/protobuf/proto"
)

// probe looks the cluster up as a client does, but without gohbase. It returns nil if
// three conditions are met: ZooKeeper or the RPC connection registry answers, it has the address of hbase:meta,
// and the region server at that address answers. Otherwise the error states
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

// reach returns nil if the region server of hbase:meta at an address answers a Get.
func (c *conn) reach(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	s, err := c.service(ctx, addr, string(region.RegionClient), c.timeout)
	if err != nil {
		return err
	}
	defer s.line.Close()
	meta := &pb.RegionSpecifier{Type: pb.RegionSpecifier_REGION_NAME.Enum(), Value: []byte("hbase:meta,,1")}
	if _, err = s.call(ctx, "Get", &pb.GetRequest{Region: meta, Get: &pb.Get{Row: []byte("-"), ExistenceOnly: proto.Bool(true)}}, &pb.GetResponse{}); err != nil {
		return c.explain(err, "see its log")
	}
	return nil
}

// explain returns the error of the first call on a connection. A server that wants something else than it gets ends the
// connection, and some say nothing before. Then the hint says what it may be.
func (c *conn) explain(err error, hint string) error {
	if !errors.Is(err, region.ErrClientClosed) {
		if e := parseServerError(err); e != nil {
			return e
		}
		return err
	}
	if c.dialer.Kerberos == nil {
		hint = "HBase has Kerberos, and this side does not; or " + hint
	}
	return fmt.Errorf("that server ends the connection: %s", hint)
}
