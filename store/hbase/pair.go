package hbase

import (
	"context"
	"fmt"

	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

var _ table.Pairer = (*Table)(nil)

// A pairCall is a Put or a CheckAndPut, and then a Get of the same row. Both are parts of one Multi. A Multi
// usually has one part for a region, but of the actions in one part HBase does Gets before Puts. It does the
// parts in order.
type pairCall struct {
	hrpc.Call // the Put or the CheckAndPut
	attempts
	get       *hrpc.Get
	processed bool // the condition was true
	versions  []version
	whole     bool // both parts were answered, without an exception
}

// These are the numbers of fields that gohbase's older copy of Client.proto lacks. HBase has them since 2.4.
const (
	fieldCondition = 4 // RegionAction.condition
	fieldProcessed = 3 // RegionActionResult.processed
)

// Name implements hrpc.Call.
func (*pairCall) Name() string { return "Multi" }

// Description implements hrpc.Call.
func (*pairCall) Description() string { return "Multi" }

// NewResponse implements hrpc.Call.
func (*pairCall) NewResponse() proto.Message { return &pb.MultiResponse{} }

// ToProto implements hrpc.Call.
func (c *pairCall) ToProto() proto.Message {
	c.get.SetRegion(c.Region())
	put, isPut := c.Call.ToProto().(*pb.MutateRequest)
	get, isGet := c.get.ToProto().(*pb.GetRequest)
	if !isPut || !isGet {
		return &pb.MultiRequest{}
	}
	first := &pb.RegionAction{Region: put.Region, Action: []*pb.Action{{Mutation: put.Mutation}}}
	if put.Condition != nil {
		b, err := proto.Marshal(put.Condition)
		if err != nil {
			return &pb.MultiRequest{}
		}
		first.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, fieldCondition, protowire.BytesType), b))
	}
	return &pb.MultiRequest{RegionAction: []*pb.RegionAction{first, {Region: get.Region, Action: []*pb.Action{{Get: get.Get}}}}}
}

// DeserializeCellBlocks takes the answer.
func (c *pairCall) DeserializeCellBlocks(m proto.Message, b []byte) (uint32, error) {
	resp, ok := m.(*pb.MultiResponse)
	if !ok {
		return 0, fmt.Errorf("answer to a Multi is a %T", m)
	}
	c.whole, c.processed, c.versions = false, false, nil
	parts := resp.GetRegionActionResult()
	for _, p := range parts {
		if p.Exception != nil || len(p.ResultOrException) != 1 || p.ResultOrException[0].Exception != nil ||
			len(p.ResultOrException[0].GetResult().GetCell()) > 0 { // cells are expected behind the message, not in it
			return uint32(len(b)), nil
		}
	}
	if len(parts) != 2 {
		return uint32(len(b)), nil
	}
	c.processed = varint(parts[0].ProtoReflect().GetUnknown(), fieldProcessed) != 0
	vs, _, read, err := appendVersions(nil, b, int(parts[1].ResultOrException[0].GetResult().GetAssociatedCellCount()))
	c.versions, c.whole = vs, err == nil
	return uint32(read), err
}

// varint returns a field of an encoded message, or 0.
func varint(b []byte, want protowire.Number) uint64 {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeField(b)
		if n < 0 {
			return 0
		}
		if num == want && typ == protowire.VarintType {
			_, _, k := protowire.ConsumeTag(b)
			v, _ := protowire.ConsumeVarint(b[k:])
			return v
		}
		b = b[n:]
	}
	return 0
}

// A runner is conn.do or conn.repeat.
type runner = func(ctx context.Context, op string, name []byte, f func(context.Context, *client) error) error

// pair sends a pairCall. The function make makes its Put. If the call is not answered whole, its parts may
// have been done or not.
func pair(ctx context.Context, t *Table, run runner, op string, row []byte, make func(context.Context) (hrpc.Call, error), sel *selection, depth int) (c *pairCall, err error) {
	err = run(ctx, op, t.full, func(ctx context.Context, cl *client) error {
		put, err := make(ctx)
		if err != nil {
			return err
		}
		get, err := hrpc.NewGet(ctx, t.full, row, sel.options(depth, 0)...)
		if err != nil {
			return err
		}
		c = &pairCall{Call: put, get: get}
		_, err = cl.send(c)
		return err
	})
	return c, err
}

// pairedRows is the number of rows that ApplyVersions writes and reads with a call for each. It does more
// rows in batches.
const pairedRows = 8

// ApplyVersions implements table.Pairer.
func (t *Table) ApplyVersions(ctx context.Context, r table.Revision, ms []table.Mutation, keys [][]byte, f table.Family, after table.Revision) ([]table.Row, error) {
	h, err := t.writable(ctx, r)
	if err != nil {
		return nil, err
	}
	if len(keys) > pairedRows {
		if err := t.Apply(ctx, r, ms); err != nil {
			return nil, err
		}
		return t.Versions(ctx, keys, f, after)
	}
	rows, at := make([]table.Row, len(keys)), make(map[string]int, len(keys))
	for i, k := range keys {
		rows[i].Key, at[string(k)] = k, i
	}
	var paired, rest []table.Mutation
	for i := range ms {
		if _, ok := at[string(ms[i].Row)]; ok {
			paired = append(paired, ms[i])
		} else {
			rest = append(rest, ms[i])
		}
	}
	list, err := puts(t, h, r, paired)
	if err != nil {
		return nil, err
	}
	g, ctx := errgroup.WithContext(ctx)
	if len(rest) > 0 {
		g.Go(func() error { return t.Apply(ctx, r, rest) })
	}
	for _, p := range list {
		g.Go(func() (err error) {
			rows[at[string(p.row)]].Cells, err = putVersions(ctx, t, p, f, after)
			return err
		})
	}
	return rows, g.Wait()
}

// putVersions writes a row, and then reads its versions.
func putVersions(ctx context.Context, t *Table, p *put, f table.Family, after table.Revision) ([]table.Cell, error) {
	put := func(ctx context.Context) (hrpc.Call, error) { return p.call(ctx, t) }
	c, err := pair(ctx, t, t.store.conn.repeat, "write", p.row, put, versionsOf(f, after), allVersions)
	switch {
	case err != nil:
		return nil, err
	case c.whole:
		return allCells(c.versions, t.opener(p.row))
	}
	// A region has moved, for example. The calls that follow look it up.
	if err := t.write(ctx, "write", 1, func(ctx context.Context, _ int) (hrpc.Call, error) { return put(ctx) }); err != nil {
		return nil, err
	}
	rows, err := t.Versions(ctx, [][]byte{p.row}, f, after)
	if err != nil {
		return nil, err
	}
	return rows[0].Cells, nil
}

// SwapGet implements table.Pairer.
func (t *Table) SwapGet(ctx context.Context, row []byte, f table.Family, q, old []byte, cells []table.Cell) (bool, table.Row, error) {
	h, err := t.shape(ctx)
	if err != nil {
		return false, table.Row{}, err
	}
	cols, err := swapColumns(t, h, row, f, old, cells)
	if err != nil {
		return false, table.Row{}, err
	}
	sel, err := selectFor(h, &table.Select{}, false)
	if err != nil {
		return false, table.Row{}, err
	}
	if s := t.store.seal; old != nil && (s == nil || !s.covers(t.name, f, q)) {
		c, err := pair(ctx, t, t.store.conn.do, "swap", row, func(ctx context.Context) (hrpc.Call, error) {
			return t.checkAndPut(ctx, row, f, q, storePlain(old), cols)
		}, sel, 1)
		if err != nil {
			return false, table.Row{}, err
		}
		if c.whole {
			got := table.Row{Key: row}
			got.Cells, _, err = resolve(nil, c.versions, &readView{opener: t.opener(row)}, 0, 1)
			return c.processed, got, err
		}
	}
	ok, err := t.Swap(ctx, row, f, q, old, cells)
	if err != nil {
		return false, table.Row{}, err
	}
	got, err := t.Get(ctx, row, table.Select{})
	return ok, got, err
}
