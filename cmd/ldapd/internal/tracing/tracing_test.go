package tracing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/ber"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/span"
)

// A collector receives spans as an OpenTelemetry collector does.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	code  int // status of the answers; 0 means 200
	spans []*tracepb.Span
	asked int
}

func newCollector(t testing.TB) *collector {
	c := &collector{}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	var d tracepb.TracesData
	switch {
	case c.code != 0:
		w.WriteHeader(c.code)
		return
	case err != nil, r.URL.Path != "/v1/traces", r.Header.Get("Content-Type") != "application/x-protobuf", proto.Unmarshal(body, &d) != nil:
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for _, of := range d.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
}

func (c *collector) answer(code int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.code = code
}

func (c *collector) requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// trees returns the spans received: each span below its parent, with the attributes that
// do not change from run to run.
func (c *collector) trees() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := map[string]bool{}
	for _, s := range c.spans {
		known[string(s.SpanId)] = true
	}
	slices.SortFunc(c.spans, func(a, b *tracepb.Span) int { return int(a.StartTimeUnixNano) - int(b.StartTimeUnixNano) })
	var b strings.Builder
	var write func(s *tracepb.Span, indent string)
	write = func(s *tracepb.Span, indent string) {
		fmt.Fprintf(&b, "%s%s", indent, s.Name)
		for _, a := range s.Attributes {
			switch a.Key {
			case "ldap.connection", "ldap.message_id", "ldap.revision":
			default:
				fmt.Fprintf(&b, " %s=%s", strings.TrimPrefix(a.Key, "ldap."), value(a.Value.String()))
			}
		}
		if s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
			fmt.Fprintf(&b, " error %q", s.Status.Message)
		}
		if indent == "" && len(s.ParentSpanId) > 0 {
			fmt.Fprintf(&b, " below %x of %x", s.ParentSpanId, s.TraceId)
		}
		b.WriteString("\n")
		for _, child := range c.spans {
			if string(child.ParentSpanId) == string(s.SpanId) && string(child.TraceId) == string(s.TraceId) {
				write(child, indent+"  ")
			}
		}
	}
	for _, s := range c.spans {
		if !known[string(s.ParentSpanId)] {
			write(s, "")
		}
	}
	return b.String()
}

func value(s string) string {
	_, s, _ = strings.Cut(s, ":")
	return strings.Trim(s, `"`)
}

// A log is a buffer to which several goroutines may write.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A rig is a directory whose operations are traced.
type rig struct {
	*Tracer
	registry *prometheus.Registry
	log      *log
	session  *directory.Session
}

func newRig(t testing.TB, endpoint string, ratio float64, slow time.Duration) *rig {
	t.Helper()
	r := &rig{registry: prometheus.NewRegistry(), log: &log{}}
	r.Tracer = New(Options{Endpoint: endpoint, Ratio: ratio, Version: "test", Host: "here",
		Registerer: r.registry, Log: slog.New(slog.NewTextHandler(r.log, nil))})
	r.session = session(t, directory.Options{Slow: slow, Trace: r.Begin, Observers: []monitor.Observer{r.Observe}})
	return r
}

func session(t testing.TB, o directory.Options) *directory.Session {
	t.Helper()
	ctx := context.Background()
	s, err := lsm.Open(lsm.Options{Path: "store", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	p, err := partition.Open(ctx, s, partition.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := onlineschema.SetSuffixes(ctx, p, []string{"dc=example,dc=com"}); err != nil {
		t.Fatal(err)
	}
	// This is the hash of the password "secret".
	o.Admin, o.AdminPassword = "cn=admin", "{SSHA}y+dX0kZIbVwVNdDNg5T1bjbFH+F/+wKO"
	o.Log = slog.New(slog.DiscardHandler)
	d, err := directory.New(p, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.Close()
		p.Close(ctx)
		s.Close()
	})
	x := d.NewSession(nil)
	x.Serve(ctx, &op.Message{ID: 1, Request: &op.Bind{Version: 3, Name: "cn=admin", Password: []byte("secret")}}, discard{})
	return x
}

type discard struct{}

func (discard) Entry(*op.SearchEntry) error                     { return nil }
func (discard) Reference([]string, []op.Control) error          { return nil }
func (discard) Intermediate(string, []byte, []op.Control) error { return nil }
func (discard) Done(*op.Response) error                         { return nil }

func (r *rig) serve(request op.Request, cs ...op.Control) {
	r.session.Serve(context.Background(), &op.Message{ID: 7, Request: request, Controls: cs}, discard{})
}

// finish closes the tracer, which sends the waiting spans.
func (r *rig) finish(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := r.Close(ctx); err != nil {
		t.Error(err)
	}
}

func (r *rig) expect(t *testing.T, sent, dropped int) {
	t.Helper()
	want := fmt.Sprintf(`# HELP ldapd_trace_spans_total Spans of traces that the collector took (sent), and that it did not take (dropped).
# TYPE ldapd_trace_spans_total counter
ldapd_trace_spans_total{result="dropped"} %d
ldapd_trace_spans_total{result="sent"} %d
`, dropped, sent)
	if err := testutil.GatherAndCompare(r.registry, strings.NewReader(want), "ldapd_trace_spans_total"); err != nil {
		t.Error(err)
	}
}

func add(name, class, attribute, value string) *op.Add {
	return &op.Add{Name: name, Attributes: []op.PartialAttribute{
		{Description: "objectClass", Values: [][]byte{[]byte(class)}}, {Description: attribute, Values: [][]byte{[]byte(value)}}}}
}

func search(base string, scope op.Scope, f string) *op.Search {
	return &op.Search{Base: base, Scope: scope, Filter: filter.MustParse(f)}
}

// tracking returns a session tracking control with an identifier.
func tracking(identifier string) op.Control {
	b := ber.Open(nil, ber.Sequence)
	for _, s := range []string{"192.0.2.1", "app", "1.3.6.1.4.1.21008.108.63.1.3", identifier} {
		b = ber.AppendString(b, ber.OctetString, s)
	}
	return op.Control{OID: control.OIDSessionTracking, Value: ber.Close(b, 0)}
}

const (
	sampled   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	unsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

// TestTrees checks the trees of spans that a collector receives.
func TestTrees(t *testing.T) {
	c := newCollector(t)
	r := newRig(t, c.URL, 1, 0)
	r.serve(add("dc=example,dc=com", "domain", "dc", "example"))
	r.serve(add("ou=people,dc=example,dc=com", "organizationalUnit", "ou", "people"), tracking(sampled))
	r.serve(add("ou=people,dc=example,dc=com", "organizationalUnit", "ou", "people"))
	r.serve(search("dc=example,dc=com", op.WholeSubtree, "(ou=people)"))
	r.serve(search("dc=example,dc=com", op.SingleLevel, "(description=secret)"), tracking(unsampled))
	r.finish(t)
	want := `bind result=success
add result=success attempts=1
  prepare
    plan
  commit
add result=success attempts=1 below b7ad6b7169203331 of 0af7651916cd43dd8448eb211c80319c
  prepare
  plan
  commit
add result=entryAlreadyExists attempts=1
  prepare
search result=success scope=sub filter=(ou=?) entries=1 candidates=1 rows=0 index=ou value
  plan
  plan
  read
search result=success scope=one filter=(description=?) entries=0 candidates=0 rows=0 index=none below b7ad6b7169203331 of 0af7651916cd43dd8448eb211c80319c
  plan
`
	if got := c.trees(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	r.expect(t, 17, 0)
}

// TestNotSampled checks which operations are sent if the ratio is 0: only operations whose
// clients ask for it, and operations that failed by the server's fault.
func TestNotSampled(t *testing.T) {
	c := newCollector(t)
	r := newRig(t, c.URL, 0, 0)
	r.serve(add("dc=example,dc=com", "domain", "dc", "example"))
	r.serve(search("dc=missing", op.BaseObject, "(objectClass=*)"), tracking(unsampled), tracking("who knows"))
	r.serve(search("dc=example,dc=com", op.BaseObject, "(objectClass=*)"), tracking(sampled))
	begun := time.Now().Add(-3 * time.Second)
	r.Observe(&monitor.Observation{Message: &op.Message{Request: &op.Delete{}, Controls: []op.Control{tracking(unsampled)}},
		Result: &op.Result{Code: op.Unavailable}, Begun: begun, Took: time.Second})
	r.finish(t)
	want := `delete afterwards=true result=unavailable error "unavailable" below b7ad6b7169203331 of 0af7651916cd43dd8448eb211c80319c
search result=success scope=base filter=(objectClass=*) entries=1 candidates=1 rows=0 below b7ad6b7169203331 of 0af7651916cd43dd8448eb211c80319c
  plan
  read
`
	if got := c.trees(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if s := c.spans[0]; s.StartTimeUnixNano != uint64(begun.UnixNano()) || s.EndTimeUnixNano-s.StartTimeUnixNano != 1e9 {
		t.Errorf("from %d to %d", s.StartTimeUnixNano, s.EndTimeUnixNano)
	}
}

// TestSlow checks that slow operations are sent even if the ratio is 0. In this test every
// operation counts as slow.
func TestSlow(t *testing.T) {
	c := newCollector(t)
	r := newRig(t, c.URL, 0, time.Nanosecond)
	r.serve(search("dc=example,dc=com", op.BaseObject, "(objectClass=*)"))
	r.finish(t)
	want := `bind afterwards=true result=success
search afterwards=true result=noSuchObject scope=base filter=(objectClass=*) entries=0 candidates=0 rows=0
`
	if got := c.trees(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestFaults uses a collector that is away, refuses, or does not answer. Operations must
// continue, the log must have one line, and Close must end in time.
func TestFaults(t *testing.T) {
	defer func(a, b time.Duration) { gather, retry = a, b }(gather, retry)
	gather, retry = time.Millisecond, time.Millisecond
	never := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		select {
		case <-never:
		case <-r.Context().Done():
		}
	}))
	defer hangs.Close()
	defer close(never)
	refuses, away := newCollector(t), newCollector(t)
	refuses.answer(http.StatusServiceUnavailable)
	away.Close()
	for name, endpoint := range map[string]string{"away": away.URL, "refuses": refuses.URL, "hangs": hangs.URL} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, endpoint, 1, 0)
			const n = sdk.DefaultMaxQueueSize + 2*sdk.DefaultMaxExportBatchSize
			begun := time.Now()
			for range n {
				r.serve(search("dc=example,dc=com", op.BaseObject, "(objectClass=*)"))
			}
			if took := time.Since(begun); took > time.Minute {
				t.Errorf("%d searches took %v", n, took)
			}
			if name != "hangs" {
				for i := 0; r.log.String() == ""; i++ {
					if i > 1000 {
						t.Fatal("no line in the log")
					}
					time.Sleep(10 * time.Millisecond)
				}
			}
			patience := 20 * time.Second
			if name == "hangs" {
				patience = 500 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			begun = time.Now()
			if err := r.Close(ctx); (err != nil) != (name == "hangs") {
				t.Errorf("closing: %v", err)
			}
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("closing took %v", took)
			}
			if sent := testutil.ToFloat64(r.exporter.spans.WithLabelValues("sent")); sent != 0 {
				t.Errorf("%v spans are sent", sent)
			}
			if lines := strings.Count(r.log.String(), "\n"); lines != 1 && name != "hangs" {
				t.Errorf("%d lines in the log: %s", lines, r.log)
			}
		})
	}
}

// TestRecovers uses a collector that refuses spans for a moment. The collector must
// receive all spans in the end.
func TestRecovers(t *testing.T) {
	defer func(a, b time.Duration) { gather, retry = a, b }(gather, retry)
	gather, retry = time.Millisecond, time.Millisecond
	c := newCollector(t)
	c.answer(http.StatusTooManyRequests)
	r := newRig(t, c.URL, 1, 0)
	for range 10 {
		r.serve(search("dc=example,dc=com", op.BaseObject, "(objectClass=*)"))
	}
	for c.requests() < 3 {
		time.Sleep(time.Millisecond)
	}
	c.answer(0)
	r.finish(t)
	r.expect(t, 12, 0) // including the bind, and a search that the first search needs
	if s := r.log.String(); strings.Count(s, "\n") != 2 || !strings.Contains(s, "429") || !strings.Contains(s, "again") {
		t.Errorf("the log: %s", s)
	}
}

// TestRefused uses a collector that does not understand the request, so that trying again
// is useless. The tracer must send one request and drop the span.
func TestRefused(t *testing.T) {
	c := newCollector(t)
	c.answer(http.StatusBadRequest)
	r := newRig(t, c.URL, 1, 0)
	r.finish(t)
	r.expect(t, 0, 1)
	if n := c.requests(); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// TestMostSpans checks that the number of spans of one operation is bounded.
func TestMostSpans(t *testing.T) {
	c := newCollector(t)
	r := newRig(t, c.URL, 1, 0)
	ctx, _ := r.Begin(context.Background(), &op.Message{Request: &op.Delete{}})
	root := trace.SpanFromContext(ctx)
	for range 2 * mostSpans {
		_, s := span.Start(ctx, "read")
		s.End()
	}
	root.End()
	r.finish(t)
	r.expect(t, mostSpans+1, 0) // the bind too
}

// TestOutsideOperations checks that libraries record nothing where there is no operation.
func TestOutsideOperations(t *testing.T) {
	c := newCollector(t)
	r := newRig(t, c.URL, 0, 0)
	_, s := r.Provider().Tracer("gohbase").Start(context.Background(), "compaction")
	s.End()
	r.finish(t)
	r.expect(t, 0, 0)
}

// TestForeign checks that a span of a library is sent without the attributes that may
// contain names and values of entries.
func TestForeign(t *testing.T) {
	c := newCollector(t)
	r := newRig(t, c.URL, 1, 0)
	ctx, _ := r.Begin(context.Background(), &op.Message{Request: &op.Delete{}})
	root := trace.SpanFromContext(ctx)
	link := trace.Link{SpanContext: root.SpanContext(), Attributes: []attribute.KeyValue{attribute.String("key", "jdoe")}}
	_, s := r.Provider().Tracer("gohbase").Start(ctx, "Get", trace.WithLinks(link), trace.WithAttributes(
		attribute.String("table", "prod_tree"), attribute.String("key", `"jdoe"`)))
	s.AddEvent("retry", trace.WithAttributes(attribute.String("key", "jdoe")))
	s.RecordError(errors.New("no region for jdoe"))
	s.SetStatus(codes.Error, "no region for jdoe")
	s.End()
	root.End()
	r.finish(t)
	if got := c.trees(); !strings.Contains(got, "delete\n  Get table=prod_tree error \"\"\n") {
		t.Errorf("got\n%s", got)
	}
	events := 0
	for _, s := range c.spans {
		events += len(s.Events)
		if strings.Contains(s.String(), "jdoe") {
			t.Errorf("a name is sent: %s", s)
		}
	}
	if events != 2 {
		t.Errorf("%d events", events)
	}
}

// TestUnsendable makes spans that cannot be encoded. They must be dropped, and later
// spans must be sent.
func TestUnsendable(t *testing.T) {
	defer func(a time.Duration) { gather = a }(gather)
	gather = time.Millisecond
	c := newCollector(t)
	r := newRig(t, c.URL, 0, 0)
	ask := tracking(sampled)
	ctx, _ := r.Begin(context.Background(), &op.Message{Request: &op.Delete{}, Controls: []op.Control{ask}})
	root := trace.SpanFromContext(ctx)
	root.SetName("\xff")
	root.End()
	for i := 0; r.log.String() == ""; i++ {
		if i > 1000 {
			t.Fatal("no line in the log")
		}
		time.Sleep(10 * time.Millisecond)
	}
	ctx, _ = r.Begin(context.Background(), &op.Message{Request: &op.Delete{}, Controls: []op.Control{ask}})
	trace.SpanFromContext(ctx).End()
	for i := 0; c.requests() == 0; i++ {
		if i > 1000 {
			t.Fatal("no later span is sent")
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.finish(t)
	r.expect(t, 1, 1)
}

// TestBudget checks that the number of operations that are sampled because clients ask
// for it is bounded.
func TestBudget(t *testing.T) {
	b := budget{most: 3}
	now := time.Unix(1e9, 0)
	n := 0
	for range 10 {
		if b.spend(now) {
			n++
		}
	}
	if n != 3 || !b.spend(now.Add(time.Second)) {
		t.Errorf("%d of 10 were allowed, or none in the next second", n)
	}
}

// TestAllocations checks that tracing allocates nothing for an operation that is not
// sampled.
func TestAllocations(t *testing.T) {
	c := newCollector(t)
	m := &op.Message{Request: search("dc=example,dc=com", op.BaseObject, "(objectClass=*)")}
	watched := session(t, directory.Options{Observers: []monitor.Observer{func(*monitor.Observation) {}}})
	without := testing.AllocsPerRun(100, func() { watched.Serve(context.Background(), m, discard{}) })
	r := newRig(t, c.URL, 0, 0)
	with := testing.AllocsPerRun(100, func() { r.session.Serve(context.Background(), m, discard{}) })
	r.finish(t)
	if with > without {
		t.Errorf("%v allocations with traces, %v without", with, without)
	}
}

// BenchmarkSearch searches a directory with one entry, without tracing and with sampling ratios
// of 0.01 and 1. It reports the processor time of the process, which includes the sending of
// spans.
func BenchmarkSearch(b *testing.B) {
	c := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }))
	defer c.Close()
	run := func(name string, s *directory.Session) {
		s.Serve(context.Background(), &op.Message{Request: add("dc=example,dc=com", "domain", "dc", "example")}, discard{})
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			m := &op.Message{Request: search("dc=example,dc=com", op.WholeSubtree, "(dc=example)")}
			begun := processorTime()
			for b.Loop() {
				s.Serve(context.Background(), m, discard{})
			}
			b.ReportMetric(float64(processorTime()-begun)/float64(b.N), "cpu-ns/op")
		})
	}
	run("off", session(b, directory.Options{Observers: []monitor.Observer{monitor.New("test").Observe}}))
	for _, ratio := range []float64{0.01, 1} {
		r := newRig(b, c.URL, ratio, 0)
		r.session = session(b, directory.Options{Trace: r.Begin, Observers: []monitor.Observer{monitor.New("test").Observe, r.Observe}})
		run(fmt.Sprint(ratio), r.session)
		_ = r.Close(context.Background())
	}
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
