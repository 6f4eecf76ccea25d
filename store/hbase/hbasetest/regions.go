package hbasetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"
	"github.com/tsuna/gohbase/region"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// metaRegion is the encoded name of the region of hbase:meta.
const metaRegion = "1588230740"

// MoveMeta moves the region of hbase:meta to another region server.
func (c *Cluster) MoveMeta(ctx context.Context) error { return c.move(ctx, []byte(metaRegion)) }

// MoveRegion moves a random region of the tables with a prefix to another region server.
func (c *Cluster) MoveRegion(ctx context.Context, prefix string) error {
	all, err := c.regionsOf(ctx, prefix)
	if err != nil {
		return err
	}
	return c.move(ctx, encodedName(all[rand.IntN(len(all))]))
}

func (c *Cluster) move(ctx context.Context, name []byte) error {
	m, err := hrpc.NewMoveRegion(ctx, name)
	if err != nil {
		return err
	}
	return gohbase.NewAdminClient(c.Quorum(), c.c.clientOptions()...).MoveRegion(m)
}

// SplitRegion splits a random region of the tables with a prefix. HBase refuses it for a region that a split has made
// and that has not been compacted since.
func (c *Cluster) SplitRegion(ctx context.Context, prefix string) error {
	all, err := c.regionsOf(ctx, prefix)
	if err != nil {
		return err
	}
	r := all[rand.IntN(len(all))]
	return c.callMaster(NewSplit(ctx, r, middle(r)))
}

// NewSplit returns the call of the master that splits a region at a key.
func NewSplit(ctx context.Context, r hrpc.RegionInfo, at []byte) hrpc.Call {
	return newMasterCall(ctx, "SplitRegion", append(field(1, regionInfo(r)), field(2, at)...))
}

// MergeRegions merges two random neighbours among the regions of a table with a prefix.
func (c *Cluster) MergeRegions(ctx context.Context, prefix string) error {
	all, err := c.regionsOf(ctx, prefix)
	if err != nil {
		return err
	}
	var pairs [][2]hrpc.RegionInfo
	for i := 1; i < len(all); i++ {
		if bytes.Equal(all[i-1].Table(), all[i].Table()) {
			pairs = append(pairs, [2]hrpc.RegionInfo{all[i-1], all[i]})
		}
	}
	if len(pairs) == 0 {
		return errors.New("no table has two regions")
	}
	p := pairs[rand.IntN(len(pairs))]
	return c.callMaster(NewMerge(ctx, p[0], p[1]))
}

// NewMerge returns the call of the master that merges two neighbours.
func NewMerge(ctx context.Context, low, high hrpc.RegionInfo) hrpc.Call {
	return newMasterCall(ctx, "MergeTableRegions", append(field(1, byHash(low)), field(1, byHash(high))...))
}

// NewReopen returns the calls of the master that close a region and open it again, as a move does.
func NewReopen(ctx context.Context, r hrpc.RegionInfo) (calls []hrpc.Call) {
	name := encode(&pb.RegionSpecifier{Type: pb.RegionSpecifier_REGION_NAME.Enum(), Value: r.Name()})
	for _, method := range []string{"UnassignRegion", "AssignRegion"} { // they know no region by its hash
		calls = append(calls, newMasterCall(ctx, method, field(1, name)))
	}
	return calls
}

// regionsOf returns the regions of the tables with a prefix, in order.
func (c *Cluster) regionsOf(ctx context.Context, prefix string) (all []hrpc.RegionInfo, err error) {
	cl := gohbase.NewClient(c.Quorum(), c.c.clientOptions()...)
	defer cl.Close()
	scan, err := hrpc.NewScanRange(ctx, []byte("hbase:meta"), []byte(prefix), append([]byte(prefix), 0xff))
	if err != nil {
		return nil, err
	}
	s := cl.Scan(scan)
	defer s.Close()
	for {
		row, err := s.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if r, _, err := region.ParseRegionInfo(row); err == nil { // the others are being split or merged
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no table begins with %s", prefix)
	}
	return all, nil
}

// encodedName returns the hash at the end of a region's name, table,start,time.HASH.
func encodedName(r hrpc.RegionInfo) []byte {
	name := bytes.TrimSuffix(r.Name(), []byte("."))
	return name[bytes.LastIndexByte(name, '.')+1:]
}

// middle returns a key in the middle of a region, by the first four octets.
func middle(r hrpc.RegionInfo) []byte {
	number := func(key []byte) uint64 { return uint64(binary.BigEndian.Uint32(append(bytes.Clone(key), 0, 0, 0, 0))) }
	end := uint64(1 << 32)
	if len(r.StopKey()) > 0 {
		end = number(r.StopKey())
	}
	return binary.BigEndian.AppendUint32(nil, uint32((number(r.StartKey())+end)/2))
}

func regionInfo(r hrpc.RegionInfo) []byte {
	return encode(&pb.RegionInfo{
		RegionId:  proto.Uint64(r.ID()),
		TableName: &pb.TableName{Namespace: []byte("default"), Qualifier: r.Table()},
		StartKey:  r.StartKey(),
		EndKey:    r.StopKey(),
		Offline:   proto.Bool(false),
		Split:     proto.Bool(false),
		ReplicaId: proto.Int32(0),
	})
}

func byHash(r hrpc.RegionInfo) []byte {
	return encode(&pb.RegionSpecifier{Type: pb.RegionSpecifier_ENCODED_REGION_NAME.Enum(), Value: encodedName(r)})
}

func encode(m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return b
}

func field(number protowire.Number, b []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), b)
}

func (c *Cluster) callMaster(call hrpc.Call) error {
	_, err := gohbase.NewAdminClient(c.Quorum(), c.c.clientOptions()...).(gohbase.RPCClient).SendRPC(call)
	return err
}

// A masterCall is a call of a method of MasterService for which gohbase has no messages.
type masterCall struct {
	*hrpc.GetProcedureState
	name    string
	message []byte
}

func newMasterCall(ctx context.Context, name string, message []byte) hrpc.Call {
	return &masterCall{hrpc.NewGetProcedureState(ctx, 0), name, message}
}

func (c *masterCall) Name() string        { return c.name }
func (c *masterCall) Description() string { return c.name }

func (c *masterCall) ToProto() proto.Message {
	m := &pb.ShutdownRequest{}
	m.ProtoReflect().SetUnknown(c.message)
	return m
}

func (*masterCall) NewResponse() proto.Message { return &pb.ShutdownResponse{} }
