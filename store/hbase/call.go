package hbase

import (
	"fmt"
	"iter"

	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A getCall is a Get that stores its answer as versions. This avoids a gohbase message
// for each cell.
type getCall struct {
	*hrpc.Get
	attempts
	versions []version
}

// DeserializeCellBlocks replaces g.versions instead of appending to it, because gohbase
// deserializes again when it repeats a call.
func (g *getCall) DeserializeCellBlocks(m proto.Message, b []byte) (uint32, error) {
	resp, ok := m.(*pb.GetResponse)
	if !ok {
		return 0, fmt.Errorf("answer to a Get is a %T", m)
	}
	res := resp.GetResult()
	n := int(res.GetAssociatedCellCount())
	vs, _, read, err := appendVersions(make([]version, 0, n+len(res.GetCell())), b, n)
	// HBase answers a single Get without a cell block, because gohbase does not send its
	// client version.
	for _, c := range res.GetCell() {
		if len(c.GetFamily()) != 1 {
			return 0, errKeyValue
		}
		vs = append(vs, version{
			family:    table.Family(c.Family[0]),
			qualifier: c.Qualifier,
			value:     c.Value,
			revision:  table.Revision(c.GetTimestamp()),
		})
	}
	g.versions = vs
	return uint32(read), err
}

// A mutateCall is a Put or a Delete that is sent alone.
type mutateCall struct {
	*hrpc.Mutate
	attempts
}

// A swapCall is a Put with a condition.
type swapCall struct {
	*hrpc.CheckAndPut
	attempts
}

// appendVersions parses the n cells of one row at the beginning of b.
func appendVersions(dst []version, b []byte, n int) (vs []version, row []byte, read int, err error) {
	for range n {
		r, v, size, err := parseKeyValue(b[read:])
		if err != nil {
			return dst, nil, read, err
		}
		row, dst, read = r, append(dst, v), read+size
	}
	return dst, row, read, nil
}

// A rawRow is a row as a scan returns it.
type rawRow struct {
	key      []byte
	versions []version
	partial  bool // more cells of the row may follow
}

// A scanCall reads one page of a scan. It opens a scanner, or continues one. It adds fields that
// gohbase's messages lack, and stores its answer as rawRows.
type scanCall struct {
	*hrpc.Scan
	tries     attempts
	route     []byte // a key in the region that the call is sent to
	exclusive bool   // the result begins after the start row
	withStop  bool   // the result includes the stop row
	reversed  bool
	read      uint64 // the value of Scan.readType
	seq       uint64 // if the call continues a scanner: the number of earlier calls that continued it
	rows      []rawRow
}

// These are the numbers of fields that gohbase's older copy of Client.proto lacks.
const (
	fieldIncludeStart = 21 // Scan.include_start_row
	fieldIncludeStop  = 22 // Scan.include_stop_row
	fieldReadType     = 23 // Scan.readType
	fieldNeedCursor   = 24 // Scan.need_cursor_result
	fieldCursor       = 12 // ScanResponse.cursor, in which the row is field 1
)

// These are the values of Scan.readType. A scanner of the default type begins as readPositioned and
// changes to readStream after some blocks (256 KiB). It answers before it changes, with or without rows.
const (
	readDefault    uint64 = 0
	readStream     uint64 = 1
	readPositioned uint64 = 2
)

// OnComplete implements hrpc.RPCObserver, in place of the method of hrpc.Scan.
func (s *scanCall) OnComplete(m proto.Message, err error, again bool) {
	s.tries.OnComplete(m, err, again)
}

func (s *scanCall) lastRefusal() error { return s.tries.refused }

// Key returns the key by which gohbase chooses the region. In a reverse scan the start
// row may be just after the end of that region, so Key returns s.route.
func (s *scanCall) Key() []byte { return s.route }

// ToProto returns the request. It adds the fields that gohbase does not have.
func (s *scanCall) ToProto() proto.Message {
	req, ok := s.Scan.ToProto().(*pb.ScanRequest)
	if !ok {
		return req
	}
	if req.Scan == nil {
		// If gohbase sends the call again although the server has answered it, the server
		// finds a wrong number and refuses the call, so that no page is lost.
		req.NextCallSeq = &s.seq
		return req
	}
	b := appendBool(nil, fieldNeedCursor, true)
	b = protowire.AppendVarint(protowire.AppendTag(b, fieldReadType, protowire.VarintType), s.read)
	if s.exclusive {
		b = appendBool(b, fieldIncludeStart, false)
	}
	if s.withStop {
		b = appendBool(b, fieldIncludeStop, true)
	}
	req.Scan.ProtoReflect().SetUnknown(b)
	if s.reversed {
		// By default, a server loads families on demand: it first reads the families that the
		// filter needs, and reads the other families only for rows that match. A server refuses
		// a reverse scan that loads families on demand.
		req.Scan.LoadColumnFamiliesOnDemand = proto.Bool(false)
	}
	return req
}

func appendBool(b []byte, field protowire.Number, v bool) []byte {
	b = protowire.AppendTag(b, field, protowire.VarintType)
	return protowire.AppendVarint(b, protowire.EncodeBool(v))
}

// DeserializeCellBlocks replaces s.rows instead of appending to it, because gohbase
// deserializes again when it repeats a call.
func (s *scanCall) DeserializeCellBlocks(m proto.Message, b []byte) (uint32, error) {
	resp, ok := m.(*pb.ScanResponse)
	if !ok {
		return 0, fmt.Errorf("answer to a Scan is a %T", m)
	}
	counts, partial := resp.GetCellsPerResult(), resp.GetPartialFlagPerResult()
	if len(counts) != len(partial) {
		return 0, fmt.Errorf("answer to a Scan has %d rows and %d flags", len(counts), len(partial))
	}
	total := 0
	for _, n := range counts {
		total += int(n)
	}
	all := make([]version, 0, total)
	rows := make([]rawRow, 0, len(counts))
	read := 0
	for i, n := range counts {
		vs, key, size, err := appendVersions(all[len(all):], b[read:], int(n))
		if err != nil {
			return 0, err
		}
		read += size
		if n > 0 {
			rows = append(rows, rawRow{key: key, versions: vs, partial: partial[i]})
			all = all[:len(all)+len(vs)]
		}
	}
	s.rows = rows
	return uint32(read), nil
}

// cursor returns the position of the server in an answer without rows: the row that the
// server has reached. It returns nil if the answer has no position.
func cursor(resp *pb.ScanResponse) []byte {
	msg := field(resp.ProtoReflect().GetUnknown(), fieldCursor)
	return field(msg, 1)
}

// field returns the first length-delimited field of an encoded message with a number, or nil.
func field(b []byte, want protowire.Number) []byte {
	for v := range fields(b, want) {
		return v
	}
	return nil
}

// fields returns the length-delimited fields of an encoded message with a number.
func fields(b []byte, want protowire.Number) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			num, typ, n := protowire.ConsumeField(b)
			if n < 0 {
				return
			}
			if num == want && typ == protowire.BytesType {
				_, _, tag := protowire.ConsumeTag(b)
				if v, _ := protowire.ConsumeBytes(b[tag:n]); !yield(v) {
					return
				}
			}
			b = b[n:]
		}
	}
}
