package alltime

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"log/slog"
	"math"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"
	"github.com/tsuna/gohbase/region"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/seed-4dac0d86/ldapd/ldap/server/certstest"
	"github.com/seed-4dac0d86/ldapd/store/hbase/internal/rpctest"
)

var (
	meta = region.NewInfo(0, []byte("hbase"), []byte("meta"), []byte(metaRegion), nil, nil)
	user = region.NewInfo(1, nil, []byte("t"), []byte("t,,1.x."), nil, nil)
)

// both runs a test without TLS and with it.
func both(t *testing.T, test func(t *testing.T, rc hrpc.RegionClient, calls <-chan []byte)) {
	t.Run("plain", func(t *testing.T) {
		rc, calls := server(t, listen(t), &Dialer{})
		test(t, rc, calls)
	})
	t.Run("tls", func(t *testing.T) {
		ca := certstest.New(t)
		l := tls.NewListener(listen(t), &tls.Config{Certificates: []tls.Certificate{ca.Server()}})
		rc, calls := server(t, l, &Dialer{TLS: func() (*tls.Config, error) { return &tls.Config{RootCAs: ca.Pool()}, nil }})
		test(t, rc, calls)
	})
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// server accepts a connection of gohbase. It returns the client and the calls that arrive.
func server(t *testing.T, l net.Listener, d *Dialer) (hrpc.RegionClient, <-chan []byte) {
	t.Helper()
	t.Cleanup(func() { l.Close() })
	calls := make(chan []byte, 1000)
	go func() {
		defer close(calls)
		c, err := l.Accept()
		if err != nil {
			return
		}
		rpctest.Calls(c, func(b []byte) bool { calls <- b; return true })
	}()
	rc := region.NewClient(l.Addr().String(), region.RegionClient, &region.RegionClientOptions{
		QueueSize: 1, Logger: slog.New(slog.DiscardHandler),
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return d.Dial(ctx, network, addr, func(net.Conn) {})
		},
	})
	t.Cleanup(rc.Close)
	if err := rc.Dial(context.Background()); err != nil {
		t.Fatal(err)
	}
	return rc, calls
}

func scan(t testing.TB, of hrpc.RegionInfo, opts ...func(hrpc.Call) error) *hrpc.Scan {
	t.Helper()
	s, err := hrpc.NewScanRange(context.Background(), of.Table(), []byte("a"), []byte("b"), append(opts, hrpc.NumberOfRows(1))...)
	if err != nil {
		t.Fatal(err)
	}
	s.SetRegion(of)
	return s
}

// split splits a call without its length into its header, its request, and its cells.
func split(t testing.TB, b []byte) (h *pb.RequestHeader, request, cells []byte) {
	t.Helper()
	header, n := protowire.ConsumeBytes(b)
	if n < 0 {
		t.Fatalf("no header in %q", b)
	}
	request, m := protowire.ConsumeBytes(b[n:])
	if m < 0 {
		t.Fatalf("no request in %q", b)
	}
	h = &pb.RequestHeader{}
	if err := proto.Unmarshal(header, h); err != nil {
		t.Fatal(err)
	}
	return h, request, b[n+m:]
}

// A scan of hbase:meta arrives without the empty range that gohbase gives it, and all else as gohbase writes it.
func TestLookUp(t *testing.T) { both(t, testLookUp) }

func testLookUp(t *testing.T, rc hrpc.RegionClient, calls <-chan []byte) {
	for _, c := range []struct {
		name  string
		scan  *hrpc.Scan
		plain bool
	}{
		{"look-up", scan(t, meta, hrpc.Reversed()), false},
		{"range", scan(t, meta, hrpc.TimeRangeUint64(0, math.MaxInt64)), true},
		{"range from", scan(t, meta, hrpc.TimeRangeUint64(7, math.MaxUint64)), true},
		{"continued", scan(t, meta, hrpc.ScannerID(7)), true},
		{"table", scan(t, user), true},
	} {
		rc.QueueRPC(c.scan)
		_, request, _ := split(t, <-calls)
		want, ok := c.scan.ToProto().(*pb.ScanRequest)
		if !ok {
			t.Fatal("a scan is no ScanRequest")
		}
		if !c.plain {
			want.Scan.TimeRange = nil
		}
		var got pb.ScanRequest
		if err := proto.Unmarshal(request, &got); err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(&got, want) {
			t.Errorf("%s: got %v, want %v", c.name, &got, want)
		}
	}
}

// Look-ups and calls with cells arrive whole, although gohbase writes them from many goroutines.
func TestWhole(t *testing.T) { both(t, testWhole) }

func testWhole(t *testing.T, rc hrpc.RegionClient, calls <-chan []byte) {
	const writers, each = 8, 50
	cells := map[string][]byte{}
	for q := range 20 {
		cells[string(rune('a'+q))] = bytes.Repeat([]byte("v"), 10_000)
	}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for range each {
				if w%2 == 0 {
					rc.QueueRPC(scan(t, meta))
					continue
				}
				put, err := hrpc.NewPut(context.Background(), user.Table(), []byte("r"), map[string]map[string][]byte{"f": cells}, hrpc.SkipBatch())
				if err != nil {
					t.Error(err)
					return
				}
				put.SetRegion(user)
				rc.QueueRPC(put)
			}
		})
	}
	seen := map[string]int{}
	for range writers * each {
		select {
		case b := <-calls:
			h, request, block := split(t, b)
			seen[h.GetMethodName()]++
			if n := int(h.GetCellBlockMeta().GetLength()); n != len(block) || bytes.Count(block, []byte("v")) != 20*10_000 && n > 0 {
				t.Fatalf("%s has %d octets of cells, and says %d", h.GetMethodName(), len(block), n)
			}
			if h.GetMethodName() == "Scan" {
				var r pb.ScanRequest
				if err := proto.Unmarshal(request, &r); err != nil || r.GetScan().TimeRange != nil {
					t.Fatalf("got %v, %v", &r, err)
				}
			}
		case <-time.After(time.Minute):
			t.Fatalf("calls are missing: %v arrived", seen)
		}
	}
	wg.Wait()
	if seen["Scan"] != writers/2*each || seen["Mutate"] != writers/2*each {
		t.Errorf("arrived: %v", seen)
	}
}

// FuzzMend checks that a call that was mended is the same call without its range, and that other octets are left alone.
func FuzzMend(f *testing.F) {
	frame := func(s *hrpc.Scan) []byte {
		h, err := proto.Marshal(&pb.RequestHeader{CallId: proto.Uint32(1), MethodName: proto.String(s.Name()), RequestParam: proto.Bool(true)})
		if err != nil {
			f.Fatal(err)
		}
		r, err := proto.Marshal(s.ToProto())
		if err != nil {
			f.Fatal(err)
		}
		b := protowire.AppendBytes(protowire.AppendBytes(make([]byte, 4), h), r)
		binary.BigEndian.PutUint32(b, uint32(len(b)-4))
		return b
	}
	lookUp := frame(scan(f, meta, hrpc.Reversed()))
	if mend(lookUp) == nil {
		f.Fatal("a look-up is left alone")
	}
	f.Add(lookUp)
	f.Add(frame(scan(f, meta, hrpc.TimeRangeUint64(1, 2))))
	f.Add(frame(scan(f, user)))
	f.Fuzz(func(t *testing.T, b []byte) {
		was := bytes.Clone(b)
		got := mend(b)
		if !bytes.Equal(b, was) {
			t.Fatal("the caller's octets were changed")
		}
		if got == nil {
			return
		}
		if int(binary.BigEndian.Uint32(got)) != len(got)-4 || mend(got) != nil {
			t.Fatalf("%x became %x", b, got)
		}
		h, request, rest := split(t, b[4:])
		mh, mended, mrest := split(t, got[4:])
		var a, z pb.ScanRequest
		if proto.Unmarshal(request, &a) != nil || proto.Unmarshal(mended, &z) != nil || len(rest)+len(mrest) > 0 {
			t.Fatalf("%x became %x", b, got)
		}
		if a.Scan.TimeRange = nil; !proto.Equal(&a, &z) || !proto.Equal(h, mh) {
			t.Fatalf("%x became %x", b, got)
		}
	})
}
