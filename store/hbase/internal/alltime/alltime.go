// Package alltime connects gohbase to servers of HBase: of HBase 3, and with TLS and Kerberos.
//
// gohbase sends an empty time range with each Get and Scan that has none, and also with the scans of hbase:meta with
// which it looks up regions. HBase 2 reads an empty range as all time, but HBase 3 reads it as [0, 0): it finds no
// region, without an error. The calls of this program state their range. gohbase's own look-ups cannot, so a Conn takes
// the empty range out of them (docs/decisions/0054-hbase-client.md).
package alltime

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"

	"github.com/tsuna/gohbase/pb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// A Conn is a connection to a server of HBase without TLS.
//
// gohbase writes a call in one of two ways, without a lock: a call without cells in one Write, and a call with cells by
// net.Buffers. The latter finds the method of the embedded TCPConn for many buffers, which does not call Write. Both are
// atomic in package net. So each Write gets a whole call, and may replace it.
type Conn struct {
	*net.TCPConn
	closed func(net.Conn)
}

// Close closes the connection.
func (c *Conn) Close() error {
	err := c.TCPConn.Close()
	c.closed(c)
	return err
}

// Write writes b. If b is a look-up, it writes it without an empty time range.
func (c *Conn) Write(b []byte) (int, error) { return write(c.TCPConn, b) }

func write(w io.Writer, b []byte) (int, error) {
	mended := mend(b)
	if mended == nil {
		return w.Write(b)
	}
	if _, err := w.Write(mended); err != nil {
		return 0, err
	}
	return len(b), nil
}

const metaRegion = "hbase:meta,,1"

// mend returns a call without its time range if it is a scan of hbase:meta with an empty one. For all else it returns nil.
// A call is its length in four octets, a header, and a request, each of these after its length.
func mend(b []byte) []byte {
	// The region is at the beginning of a request: most calls are not read further.
	if len(b) < 4 || uint64(binary.BigEndian.Uint32(b)) != uint64(len(b)-4) || !bytes.Contains(b[:min(len(b), 128)], []byte(metaRegion)) {
		return nil
	}
	header, n := protowire.ConsumeBytes(b[4:])
	if n < 0 {
		return nil
	}
	request, m := protowire.ConsumeBytes(b[4+n:])
	if m < 0 || 4+n+m != len(b) {
		return nil
	}
	var h pb.RequestHeader
	var r pb.ScanRequest
	if proto.Unmarshal(header, &h) != nil || h.GetMethodName() != "Scan" || proto.Unmarshal(request, &r) != nil {
		return nil
	}
	if string(r.GetRegion().GetValue()) != metaRegion || r.Scan == nil || r.Scan.TimeRange == nil || proto.Size(r.Scan.TimeRange) > 0 {
		return nil
	}
	r.Scan.TimeRange = nil
	request, err := proto.Marshal(&r)
	if err != nil {
		return nil
	}
	out := protowire.AppendBytes(b[:4+n:4+n], request)
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out
}
