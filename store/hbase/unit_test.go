package hbase

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"
	"github.com/tsuna/gohbase/region"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		url, want string
		target    Target
	}{
		{"hbase://zk/dir", "hbase://zk:2181/dir", Target{false, []string{"zk:2181"}, "dir", "/hbase", "ldapd"}},
		{"hbase://zk1,zk2:2182/my-dir.v2", "hbase://zk1:2182,zk2:2182/my-dir.v2", Target{false, []string{"zk1:2182", "zk2:2182"}, "my-dir.v2", "/hbase", "ldapd"}},
		{"hbase://zk1:1,zk2/d?zkroot=/hbase-secure&user=dir", "hbase://zk1:1,zk2:2181/d?user=dir&zkroot=%2Fhbase-secure",
			Target{false, []string{"zk1:1", "zk2:2181"}, "d", "/hbase-secure", "dir"}},
		{"hbase+rpc://rs1,rs2:1,rs3/d?user=dir", "hbase+rpc://rs1:1,rs2:1,rs3:16020/d?user=dir",
			Target{true, []string{"rs1:1", "rs2:1", "rs3:16020"}, "d", "/hbase", "dir"}},
		{"hbase://[::1]:2181/d", "hbase://[::1]:2181/d", Target{false, []string{"[::1]:2181"}, "d", "/hbase", "ldapd"}},
	} {
		got, err := Parse(c.url)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if diff := cmp.Diff(c.target, got); diff != "" {
			t.Errorf("%s: %s", c.url, diff)
		}
		if got.String() != c.want {
			t.Errorf("%s is printed as %s", c.url, got)
		}
		if again, err := Parse(got.String()); err != nil || !cmp.Equal(again, got) {
			t.Errorf("%s does not come back: %v %v", got, again, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, s := range []string{
		"", "/var/lib/ldapd", "hbase://", "hbase://zk", "hbase://zk/", "hbase:///d", "hbase://zk,,z/d", "hbase://zk:/d",
		"hbase://zk/a_b", "hbase://zk/a/b", "hbase://zk/d?zkroot=hbase", "hbase://zk/d?user=", "hbase://zk/d?timeout=1", "hbase://zk/d?%",
		"hbase+rpc://", "hbase+rpc://rs/d?zkroot=/hbase", "hbase+zk://zk/d",
	} {
		if got, err := Parse(s); err == nil {
			t.Errorf("%q is %v", s, got)
		}
	}
}

func TestQualifiers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 'a', 0xff}), 0, 4)
		a, b := g.Draw(t, "a"), g.Draw(t, "b")
		sa, sb := storeQualifier(a), storeQualifier(b)
		if !bytes.Equal(loadQualifier(sa), a) {
			t.Fatalf("%x is stored as %x and comes back as %x", a, sa, loadQualifier(sa))
		}
		if bytes.Compare(a, b) != bytes.Compare(sa, sb) {
			t.Fatalf("%x and %x change their order to %x and %x", a, b, sa, sb)
		}
		if len(a) > 0 && bytes.HasPrefix(b, a) != bytes.HasPrefix(sb, sa) {
			t.Fatalf("prefix %x of %x is lost", a, b)
		}
		if bytes.Compare(sa, rowTombstone) <= 0 {
			t.Fatalf("%x is stored as %x, not behind the row tombstone", a, sa)
		}
		if q, ok := storeSpan(table.Column('f', a)).exact(); !ok || !bytes.Equal(q, sa) {
			t.Fatalf("column %x is not one: %x", a, q)
		}
	})
}

func TestMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := rapid.SliceOfN(rapid.SampledFrom([]byte("abc")), 1, 2)
		spans := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) span {
			s := span{from: q.Draw(t, "from")}
			if rapid.IntRange(0, 4).Draw(t, "end") > 0 {
				s.to = q.Draw(t, "to")
			}
			return s
		}), 0, 5).Draw(t, "spans")
		in := func(ss []span, q []byte) bool {
			for _, s := range ss {
				if s.holds(q) {
					return true
				}
			}
			return false
		}
		x := q.Draw(t, "x")
		want := in(spans, x)
		if got := in(merge(append([]span(nil), spans...)), x); got != want {
			t.Fatalf("%s in %q: %v, merged %v", x, spans, want, got)
		}
	})
}

// keyValue returns a cell encoded as HBase encodes it.
func keyValue(row, qualifier, value string, f table.Family, r table.Revision) []byte {
	var key []byte
	key = binary.BigEndian.AppendUint16(key, uint16(len(row)))
	key = append(key, row...)
	key = append(key, 1, byte(f))
	key = append(key, qualifier...)
	key = binary.BigEndian.AppendUint64(key, uint64(r))
	key = append(key, 4)
	var b []byte
	b = binary.BigEndian.AppendUint32(b, uint32(8+len(key)+len(value)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(key)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	return append(append(b, key...), value...)
}

func TestParseKeyValue(t *testing.T) {
	b := append(keyValue("row", "q", "\x01v", 'f', 7), "rest"...)
	row, v, n, err := parseKeyValue(b)
	if err != nil || string(row) != "row" || string(v.qualifier) != "q" || string(v.value) != "\x01v" || v.family != 'f' || v.revision != 7 || n != len(b)-4 {
		t.Errorf("%q %+v %d %v", row, v, n, err)
	}
	for i := range n {
		if _, _, _, err := parseKeyValue(b[:i]); err == nil {
			t.Errorf("the first %d bytes are taken for a cell", i)
		}
	}
}

func FuzzParseKeyValue(f *testing.F) {
	f.Add(keyValue("row", "q", "v", 'f', 7))
	f.Add(keyValue("", "", "", 0, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		row, v, n, err := parseKeyValue(b)
		if err != nil {
			return
		}
		if n > len(b) || len(row)+len(v.qualifier)+len(v.value) > n {
			t.Fatalf("%d bytes of %d hold row %q and %+v", n, len(b), row, v)
		}
	})
}

// TestResolve checks the cells that resolve returns for views that hide some revisions,
// and whether it requests more versions.
func TestResolve(t *testing.T) {
	const live, dead = "\x01v", "\x00"
	row := []version{
		{family: 'a', qualifier: []byte{0}, revision: 5, value: []byte(dead)},
		{family: 'a', qualifier: []byte("p"), revision: 9, value: []byte(live)},
		{family: 'a', qualifier: []byte("p"), revision: 4, value: []byte(live)},
		{family: 'a', qualifier: []byte("q"), revision: 6, value: []byte(dead)},
		{family: 'a', qualifier: []byte("q"), revision: 5, value: []byte(live)},
		{family: 'b', qualifier: []byte("p"), revision: 5, value: []byte(live)},
		{family: 'b', qualifier: []byte("q"), revision: 3, value: []byte(live)},
	}
	for _, c := range []struct {
		hide   []table.Revision
		depth  int
		want   string
		deeper bool
	}{
		{nil, 0, "a.p@9 b.p@5 ", false},
		{[]table.Revision{9}, 0, "b.p@5 ", false},
		{[]table.Revision{6}, 0, "a.p@9 a.q@5 b.p@5 ", false},
		{[]table.Revision{5}, 0, "a.p@9 b.q@3 ", false},
		{[]table.Revision{5}, 1, "", true},
		{[]table.Revision{9, 4}, 2, "", true},
		{[]table.Revision{9}, 2, "b.p@5 ", false},
	} {
		see := readView{view: hiding(c.hide)}
		cells, deeper, err := resolve(nil, row, &see, 0, c.depth)
		got := ""
		for _, x := range cells {
			got += string(rune(x.Family)) + "." + string(x.Qualifier) + "@" + string(rune('0'+x.Revision)) + " "
		}
		if err != nil || got != c.want || deeper != c.deeper {
			t.Errorf("hiding %v, depth %d: %q %v %v", c.hide, c.depth, got, deeper, err)
		}
	}
	bad := []version{{family: 'a', qualifier: []byte("q"), revision: 1, value: []byte("\x07")}}
	if _, _, err := resolve(nil, bad, &readView{}, 0, 1); !errors.Is(err, table.ErrCorrupt) {
		t.Errorf("a foreign value: %v", err)
	}
}

type hiding []table.Revision

func (hiding) Max() table.Revision { return 100 }
func (hiding) Low() table.Revision { return 0 }
func (h hiding) Visible(r table.Revision) bool {
	for _, x := range h {
		if x == r {
			return false
		}
	}
	return true
}

func latin1(b []byte) string {
	r := make([]rune, len(b))
	for i, c := range b {
		r[i] = rune(c)
	}
	return string(r)
}

func TestMatchPattern(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 'a', 'b', '.', '*', '\n', 0xff}), 0, 3)
		m := table.HasMatch{Family: 'f', Prefix: some.Draw(t, "prefix"), Parts: rapid.SliceOfN(some, 0, 3).Draw(t, "parts"), AtEnd: rapid.Bool().Draw(t, "end")}
		q := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 'a', 'b', '.', '*', '\n', 0xff}), 0, 8).Draw(t, "qualifier")
		row := table.Row{Cells: []table.Cell{{Family: 'f', Qualifier: q}}}
		// Go has no atomic groups. The same strings match without them.
		inGo := strings.NewReplacer("(?>", "(?:")
		re := regexp.MustCompile(`(?s)` + inGo.Replace(matchPattern(m)))
		if m.Match(row) && !re.MatchString(latin1(storeQualifier(q))) {
			t.Fatalf("%+v matches %q, %s does not", m, q, re)
		}
		k := table.KeyMatch{Prefix: m.Prefix, Parts: m.Parts}
		re = regexp.MustCompile(`(?s)` + inGo.Replace(writePattern(k.Prefix, k.Parts, false)))
		if k.Match(table.Row{Key: q}) != re.MatchString(latin1(q)) {
			t.Fatalf("%+v and %s differ on %q", k, re, q)
		}
	})
}

func TestRouteBefore(t *testing.T) {
	for _, k := range [][]byte{{1}, {0}, {5, 0}, {5, 1}, {0xff}, []byte("row")} {
		if got := routeBefore(k); bytes.Compare(got, k) >= 0 {
			t.Errorf("before %x is %x", k, got)
		}
	}
}

func TestPuts(t *testing.T) {
	h, tab := &shape{families: []table.Family{'a', 'b'}}, &Table{store: &Store{}}
	list, err := puts(tab, h, 1, []table.Mutation{
		{Row: []byte("r"), Cells: []table.Cell{{Family: 'a', Qualifier: []byte("q"), Value: []byte("1")}}},
		{Row: []byte("s"), DeleteRow: true},
		{Row: []byte("r"), Cells: []table.Cell{{Family: 'b', Tombstone: true}, {Family: 'a', Qualifier: []byte("q"), Value: []byte("2")}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]columns{}
	for _, p := range list {
		got[string(p.row)] = p.cols
	}
	want := map[string]columns{
		"r": {"a": {"q": []byte("\x012")}, "b": {"\x00\x01": {0}}},
		"s": {"a": {"\x00": {0}}, "b": {"\x00": {0}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, m := range []table.Mutation{
		{Row: nil},
		{Row: make([]byte, maxRow+1)},
		{Row: []byte("r"), Cells: []table.Cell{{Family: 'z'}}},
		{Row: []byte("r"), Cells: []table.Cell{{Family: 'a', Value: make([]byte, table.MaxValue+1)}}},
	} {
		if _, err := puts(tab, h, 1, []table.Mutation{m}); err == nil {
			t.Errorf("a row of %d bytes with %d cells is taken", len(m.Row), len(m.Cells))
		}
	}
}

func java(class, text string) error {
	return errors.New("HBase Java exception " + class + ":\n" + class + ": " + text + "\n\tat org.apache.Stack.trace(Stack.java:1)\n")
}

// HBase 3 finds nothing in an empty range.
func TestTimeRange(t *testing.T) {
	for _, c := range []struct {
		sel      selection
		from, to uint64
	}{
		{selection{}, 0, math.MaxInt64},
		{selection{view: upTo(7)}, 0, 8},
		{selection{view: upTo(math.MaxInt64)}, 0, math.MaxInt64},
		{selection{after: 7}, 8, math.MaxInt64},
	} {
		g, err := hrpc.NewGet(context.Background(), []byte("t"), []byte("r"), c.sel.options(1, 0)...)
		if err != nil {
			t.Fatal(err)
		}
		g.SetRegion(region.NewInfo(1, nil, []byte("t"), []byte("t,,1.x."), nil, nil))
		req, ok := g.ToProto().(*pb.GetRequest)
		if !ok {
			t.Fatalf("a Get is a %T", g.ToProto())
		}
		if r := req.Get.TimeRange; r.GetFrom() != c.from || r.GetTo() != c.to {
			t.Errorf("%+v: the range is %v, want [%d, %d)", c.sel, r, c.from, c.to)
		}
	}
}

func TestClassify(t *testing.T) {
	for _, c := range []struct {
		err   error
		is    error
		prose string
	}{
		{java("org.apache.hadoop.hbase.regionserver.NoSuchColumnFamilyException", "Column family z does not exist"), nil,
			"NoSuchColumnFamilyException: Column family z does not exist"},
		{java("org.apache.hadoop.hbase.security.AccessDeniedException", "no"), nil, "AccessDeniedException: no"},
		{java("org.apache.hadoop.hbase.DoNotRetryIOException", "Cell[1] with size 11 exceeds limit of 10 bytes"), table.ErrTooLarge, ""},
		{java("java.io.IOException", "disk full"), table.ErrUnavailable, ""},
		{region.ServerError{}, table.ErrUnavailable, ""},
		{errors.New("connection refused"), table.ErrUnavailable, ""},
	} {
		got := classify(c.err)
		if c.is != nil && !errors.Is(got, c.is) {
			t.Errorf("%v is %v", c.err, got)
		}
		if c.is == nil && (errors.Is(got, table.ErrUnavailable) || got.Error() != c.prose) {
			t.Errorf("%v is %v", c.err, got)
		}
	}
}

// A busyServer refuses calls. Like gohbase, it returns no more than the end of the context for a single
// call, and the last refusal for the calls of a batch.
type busyServer struct {
	gohbase.Client
	refusal error
}

func (b busyServer) SendRPC(rpc hrpc.Call) (proto.Message, error) {
	rpc.(hrpc.RPCObserver).OnComplete(nil, b.refusal, true)
	<-rpc.Context().Done()
	return nil, rpc.Context().Err()
}

func (b busyServer) SendBatch(ctx context.Context, calls []hrpc.Call) ([]hrpc.RPCResult, bool) {
	<-ctx.Done()
	return []hrpc.RPCResult{{Error: b.refusal}}, false
}

// fakeClient returns a client whose calls go to a fake server.
func fakeClient(t *testing.T, server interface {
	gohbase.Client
	gohbase.RPCClient
}) *client {
	cl := &client{Client: server, raw: server}
	cl.current, cl.replaced = context.WithCancel(t.Context())
	return cl
}

// TestBusy checks the error of calls that a server refuses until their deadline.
func TestBusy(t *testing.T) {
	for class, busy := range map[string]bool{
		"quotas.RpcThrottlingException": true, "RegionTooBusyException": true, "CallQueueTooBigException": true, "PleaseHoldException": false,
	} {
		s := &Store{conn: &conn{timeout: 20 * time.Millisecond, log: slog.New(slog.DiscardHandler)}, tables: map[string]*shape{
			"data": {families: []table.Family{'f'}}, "heads": {families: []table.Family{'f'}, unversioned: true}}, cuts: map[string]cuts{"data": {at: time.Now()}}}
		s.conn.life, s.conn.end = context.WithCancel(t.Context())
		s.conn.end() // no probes of the cluster
		b := busyServer{refusal: java("org.apache.hadoop.hbase."+class, "wait 100ms")}
		s.conn.client.Store(fakeClient(t, b))
		d := s.table("data")
		for name, read := range map[string]func() error{
			"get": func() error { _, err := d.Get(t.Context(), []byte("a"), table.Select{}); return err },
			"many": func() error {
				_, err := d.GetMany(t.Context(), [][]byte{[]byte("a"), []byte("b")}, table.Select{})
				return err
			},
			"put": func() error {
				return d.Apply(t.Context(), 1, []table.Mutation{{Row: []byte("a"), Cells: []table.Cell{{Family: 'f'}}}})
			},
			"swap": func() error {
				_, err := s.table("heads").Swap(t.Context(), []byte("a"), 'f', nil, nil, []table.Cell{{Family: 'f', Value: []byte("v")}})
				return err
			},
			"scan": func() error {
				for _, err := range d.Scan(t.Context(), table.Range{}, table.Select{Filter: table.Has{Family: 'f', Qualifier: []byte("q")}}) {
					return err
				}
				return nil
			},
		} {
			err := read()
			if !errors.Is(err, table.ErrUnavailable) || errors.Is(err, table.ErrBusy) != busy || busy && !strings.Contains(err.Error(), "Exception: wait 100ms") {
				t.Errorf("%s, %s: %v", class, name, err)
			}
		}
	}
}

// A silentServer does not answer.
type silentServer struct{ gohbase.Client }

func (silentServer) SendRPC(rpc hrpc.Call) (proto.Message, error) {
	<-rpc.Context().Done()
	return nil, rpc.Context().Err()
}

func (silentServer) SendBatch(ctx context.Context, calls []hrpc.Call) ([]hrpc.RPCResult, bool) {
	<-ctx.Done()
	return []hrpc.RPCResult{{Error: ctx.Err()}}, false
}

// TestSilence checks which calls that got no answer make the store look whether the cluster answers, and continue with a fresh client.
func TestSilence(t *testing.T) {
	const short, long = 20 * time.Millisecond, time.Minute
	lease := fmt.Errorf("%w: no answer within a lease", table.ErrUnavailable)
	for name, c := range map[string]struct {
		timeout, deadline time.Duration
		cause             error // of the deadline
		made              time.Time
		suspicious        bool
	}{
		"the store's own deadline":                    {short, long, nil, time.Time{}, true},
		"a deadline of the caller":                    {long, short, nil, time.Time{}, false},
		"a deadline of the caller for the store":      {long, short, lease, time.Time{}, true},
		"the same, and it had passed before the call": {long, 0, lease, time.Time{}, false},
		"the same, and the client is fresh":           {long, short, lease, time.Now(), false},
	} {
		s := &Store{conn: &conn{timeout: c.timeout, log: slog.New(slog.DiscardHandler), target: Target{Servers: []string{"127.0.0.1:1"}}},
			tables: map[string]*shape{"data": {families: []table.Family{'f'}}}}
		s.conn.life, s.conn.end = context.WithCancel(t.Context())
		cl := fakeClient(t, silentServer{})
		cl.made = c.made
		s.conn.client.Store(cl)
		ctx, cancel := context.WithTimeoutCause(t.Context(), c.deadline, c.cause)
		_, err := s.table("data").Get(ctx, []byte("a"), table.Select{})
		if unavailable := c.cause != nil || c.suspicious; errors.Is(err, table.ErrUnavailable) != unavailable {
			t.Errorf("%s: %v", name, err)
		}
		if got := s.conn.watching.Load(); got != c.suspicious {
			t.Errorf("%s: the store waits until the cluster answers: %v, want %v", name, got, c.suspicious)
		}
		cancel()
		s.conn.end()
		s.conn.wg.Wait()
	}
}

// An emptyServer answers that there are no rows.
type emptyServer struct{ silentServer }

func (emptyServer) SendRPC(rpc hrpc.Call) (proto.Message, error) {
	if c, ok := rpc.(*scanCall); ok {
		c.SetRegion(region.NewInfo(1, nil, []byte("data"), []byte("data,,1.x."), nil, nil))
		return &pb.ScanResponse{MoreResults: proto.Bool(false)}, nil
	}
	return &pb.GetResponse{}, nil
}

func (emptyServer) SendBatch(_ context.Context, calls []hrpc.Call) ([]hrpc.RPCResult, bool) {
	return make([]hrpc.RPCResult, len(calls)), true
}

// TestCallsFollow checks that reads and writes of revisions that wait at a client are made again when a fresh client replaces it, and
// that the outcome of a swap does not become unknown by that.
func TestCallsFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Store{conn: &conn{timeout: 10 * time.Second, log: slog.New(slog.DiscardHandler)}, tables: map[string]*shape{
			"data": {families: []table.Family{'f'}}, "heads": {families: []table.Family{'f'}, unversioned: true}}}
		s.conn.life, s.conn.end = context.WithCancel(t.Context())
		s.conn.end() // no probes of the cluster
		old := fakeClient(t, silentServer{})
		s.conn.client.Store(old)
		begun := time.Now()
		var g sync.WaitGroup
		for name, c := range map[string]struct {
			do    func() error
			waits time.Duration
		}{
			"get": {func() error {
				_, err := s.table("data").Get(t.Context(), []byte("a"), table.Select{})
				return err
			}, time.Second},
			"many": {func() error {
				_, err := s.table("data").GetMany(t.Context(), [][]byte{[]byte("a"), []byte("b")}, table.Select{})
				return err
			}, time.Second},
			"scan": {func() error {
				for _, err := range s.table("data").Scan(t.Context(), table.Range{}, table.Select{}) {
					return err
				}
				return nil
			}, time.Second},
			"write": {func() error { return s.table("data").Apply(t.Context(), 1, []table.Mutation{written("a")}) }, time.Second},
			"writes": {func() error {
				return s.table("data").Apply(t.Context(), 1, []table.Mutation{written("a"), written("b")})
			}, time.Second},
			"marks": {func() error {
				_, err := s.table("data").ApplyVersions(t.Context(), 1, []table.Mutation{written("a"), written("b"), written("c")}, [][]byte{[]byte("a")}, 'f', 0)
				return err
			}, time.Second},
			"swap": {func() error {
				_, err := s.table("heads").Swap(t.Context(), []byte("a"), 'f', nil, nil, []table.Cell{{Family: 'f', Value: []byte("v")}})
				if errors.Is(err, table.ErrUnavailable) {
					err = nil
				}
				return err
			}, s.conn.timeout},
		} {
			g.Go(func() {
				if err, took := c.do(), time.Since(begun); err != nil || took != c.waits {
					t.Errorf("%s: after %v, want %v: %v", name, took, c.waits, err)
				}
			})
		}
		time.Sleep(time.Second)
		s.conn.client.Store(fakeClient(t, emptyServer{}))
		old.replaced()
		g.Wait()
	})
}

func written(row string) table.Mutation {
	return table.Mutation{Row: []byte(row), Cells: []table.Cell{{Family: 'f', Qualifier: []byte("q"), Value: []byte("v")}}}
}

// A slowServer answers calls of a scan with a row now and then, and otherwise with heartbeats. It keeps the position if
// the client lets it keep the scanner, and otherwise tells the client where it is.
type slowServer struct {
	gohbase.Client
	calls int
	at    byte // the row that it has reached
}

func (s *slowServer) SendRPC(rpc hrpc.Call) (proto.Message, error) {
	c := rpc.(*scanCall)
	c.SetRegion(region.NewInfo(1, nil, []byte("data"), []byte("data,,1.x."), nil, nil))
	s.calls++
	resp := &pb.ScanResponse{MoreResults: proto.Bool(true), MoreResultsInRegion: proto.Bool(s.at < 'z'), HeartbeatMessage: proto.Bool(true)}
	if kept := !c.IsClosing(); kept {
		resp.ScannerId = proto.Uint64(7)
	} else if from := c.StartRow(); len(from) > 0 {
		s.at = from[0] + byte(len(from)-1) // behind a row, its key ends with 00
	}
	if c.rows = nil; s.at%2 == 0 {
		c.rows = []rawRow{{key: []byte{s.at}, versions: []version{{family: 'f', qualifier: []byte("q"), value: storePlain(nil), revision: 1}}}}
	}
	s.at++
	row := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte{s.at})
	resp.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, fieldCursor, protowire.BytesType), row))
	return resp, nil
}

// TestHeartbeats checks that a scan survives answers without rows, whether or not it keeps a scanner.
func TestHeartbeats(t *testing.T) {
	for _, brief := range []bool{false, true} {
		s := &Store{conn: &conn{timeout: time.Minute, log: slog.New(slog.DiscardHandler)}, tables: map[string]*shape{"data": {families: []table.Family{'f'}}}}
		s.conn.life, s.conn.end = context.WithCancel(t.Context())
		slow := &slowServer{at: 'a'}
		s.conn.client.Store(fakeClient(t, slow))
		sc, err := s.table("data").newScanner(t.Context(), table.Range{}, &table.Select{View: settled(1)})
		if err != nil {
			t.Fatal(err)
		}
		sc.brief = brief
		var keys []byte
		eachRow(t, sc, func(r table.Row) bool {
			keys = append(keys, r.Key...)
			return true
		})
		s.conn.end()
		if string(keys) != "bdfhjlnprtvxz" || slow.calls < 26 {
			t.Errorf("brief %v: rows %q in %d calls", brief, keys, slow.calls)
		}
	}
}

func TestWhisper(t *testing.T) {
	var b bytes.Buffer
	log := func(l slog.Level) *slog.Logger {
		return slog.New(debugOnly{slog.NewTextHandler(&b, &slog.HandlerOptions{Level: l})}).With("a", 1)
	}
	if log(slog.LevelInfo).Error("lost"); b.Len() > 0 {
		t.Errorf("gohbase is heard: %s", &b)
	}
	if log(slog.LevelDebug).Error("lost"); !strings.Contains(b.String(), "level=DEBUG msg=lost a=1") {
		t.Errorf("debugging shows %q", &b)
	}
}

// What HBase writes to ZooKeeper names a server, and is complete or refused.
func TestNode(t *testing.T) {
	// The node contains \xff, the length and id of the writer, "PBUF", and
	// MetaRegionServer{ServerName{"rs1", 16020}}.
	node := []byte("\xff\x00\x00\x00\x02idPBUF\x0a\x08\x0a\x03rs1\x10\x94\x7d")
	name, err := parseNode(node)
	if err != nil || hostPort(name) != "rs1:16020" {
		t.Errorf("%v %v", name, err)
	}
	for i := range node {
		if name, err := parseNode(node[:i]); err == nil {
			t.Errorf("the first %d bytes name %v", i, name)
		}
	}
	formed, err := formNode(name)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := parseNode(formed); err != nil || !proto.Equal(again, name) {
		t.Errorf("%v became %v, %v", name, again, err)
	}
}
