package hbasetest

import (
	"context"

	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"
	"google.golang.org/protobuf/proto"
)

// Quotas are the properties of an HBase that observes quotas, and learns of new ones within a second.
var Quotas = [][2]string{{"hbase.quota.enabled", "true"}, {"hbase.quota.refresh.period", "1000"}}

// NewQuota returns the call of the master that limits the calls of all clients to a table to some number a second.
// Zero removes the limit.
func NewQuota(ctx context.Context, tbl string, calls uint64) hrpc.Call {
	throttle := &pb.ThrottleRequest{Type: pb.ThrottleType_REQUEST_NUMBER.Enum()}
	if calls > 0 {
		throttle.TimedQuota = &pb.TimedQuota{TimeUnit: pb.TimeUnit_SECONDS.Enum(), SoftLimit: proto.Uint64(calls), Scope: pb.QuotaScope_MACHINE.Enum()}
	}
	return newMasterCall(ctx, "SetQuota", encode(&pb.SetQuotaRequest{
		TableName: &pb.TableName{Namespace: []byte("default"), Qualifier: []byte(tbl)},
		Throttle:  throttle,
	}))
}
