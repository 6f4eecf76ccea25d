package hbase

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tsuna/gohbase/pb"
	"google.golang.org/protobuf/proto"
)

// The RPC connection registry of HBase is the ClientMetaService of masters, and since 2.5 also of region servers. These of
// its methods return what HBase writes to ZooKeeper.
const (
	methodMaster = "GetActiveMaster"
	methodMeta   = "GetMetaRegionLocations"
)

// registryMethods are the methods by the nodes of ZooKeeper that have the same. gohbase only asks for nodes.
var registryMethods = map[string]string{masterNode: methodMaster, metaNode: methodMeta}

// registered asks all servers of the store's URL at the same time for a server of the cluster. The first answer counts.
func (c *conn) registered(ctx context.Context, method string) (*pb.ServerName, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout/2) // gohbase's client of ZooKeeper waits two thirds of it
	defer cancel()
	type answer struct {
		from   int
		server *pb.ServerName
		err    error
	}
	got := make(chan answer, len(c.target.Servers))
	for i, server := range c.target.Servers {
		go func() {
			name, err := c.askRegistry(ctx, server, method)
			got <- answer{i, name, err}
		}()
	}
	reasons := make([]string, len(c.target.Servers))
	for range c.target.Servers {
		a := <-got
		if a.err == nil {
			return a.server, nil
		}
		reasons[a.from] = fmt.Sprintf("%s: %v", c.target.Servers[a.from], a.err)
	}
	return nil, errors.New(strings.Join(reasons, "; "))
}

func (c *conn) askRegistry(ctx context.Context, server, method string) (*pb.ServerName, error) {
	s, err := c.service(ctx, server, "ClientMetaService", c.timeout)
	if err != nil {
		return nil, err
	}
	defer s.line.Close()
	// gohbase does not have the messages. All requests are empty.
	m, err := s.call(ctx, method, &pb.CompactRegionResponse{}, &pb.CompactRegionResponse{})
	if err != nil {
		return nil, c.explain(err, "it is a region server before HBase 2.5, which has no connection registry")
	}
	return readServer(method, m.ProtoReflect().GetUnknown())
}

// readServer reads the name of the server in an answer of the registry. GetActiveMasterResponse has it in field 1.
// GetMetaRegionLocationsResponse has a RegionLocation for each replica in field 1, which has the region in field 1 and the
// server in field 2. There is none while the server does not know one.
func readServer(method string, answer []byte) (*pb.ServerName, error) {
	var server []byte
	if method == methodMaster {
		server = field(answer, 1)
	} else {
		for location := range fields(answer, 1) {
			var r pb.RegionInfo
			if err := proto.Unmarshal(field(location, 1), &r); err == nil && r.GetReplicaId() == 0 {
				server = field(location, 2)
			}
		}
	}
	if server == nil {
		return nil, fmt.Errorf("%s: that server does not know yet", method)
	}
	name := &pb.ServerName{}
	if err := proto.Unmarshal(server, name); err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	return name, nil
}
