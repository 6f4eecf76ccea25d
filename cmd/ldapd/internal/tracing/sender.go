package tracing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// The times and sizes of sending. Tests change the times.
var (
	gather  = time.Second      // how long a batch waits for further spans before it is sent
	timeout = 10 * time.Second // of one request
	retry   = time.Second      // the first pause after a failure; each pause is twice the one before
)

const (
	waiting      = 2048 // largest number of spans that wait to be sent
	largest      = 512  // spans in a request
	longestPause = 30 * time.Second
)

// A sender is the span processor that sends spans. A goroutine sends them in batches, and
// tries again while the collector is away. Meanwhile a limited number of spans wait, and
// further spans are dropped.
type sender struct {
	url, endpoint string
	client        *http.Client
	exporter      *otlptrace.Exporter
	log           *slog.Logger
	sent, dropped prometheus.Counter

	queue   chan sdk.ReadOnlySpan
	stop    chan struct{}   // closed by Shutdown
	done    chan struct{}   // closed when the goroutine has ended
	ctx     context.Context // ends when Shutdown no longer waits
	cancel  context.CancelFunc
	failing bool // the last request failed
}

func newSender(o Options) *sender {
	spans := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ldapd_trace_spans_total", Help: "Spans of traces that the collector took (sent), and that were lost (dropped)."}, []string{"result"})
	o.Registerer.MustRegister(spans)
	s := &sender{
		url: o.Endpoint + "/v1/traces", endpoint: o.Endpoint, client: &http.Client{Timeout: timeout}, log: o.Log,
		sent: spans.WithLabelValues("sent"), dropped: spans.WithLabelValues("dropped"),
		queue: make(chan sdk.ReadOnlySpan, waiting), stop: make(chan struct{}), done: make(chan struct{}),
	}
	s.exporter = otlptrace.NewUnstarted(s)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	go s.run()
	return s
}

// OnStart implements sdk.SpanProcessor.
func (s *sender) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd implements sdk.SpanProcessor.
func (s *sender) OnEnd(x sdk.ReadOnlySpan) {
	select {
	case s.queue <- withoutNames(x):
	default:
		s.dropped.Inc()
	}
}

// ForceFlush implements sdk.SpanProcessor. It does nothing, because spans are sent within a
// second if the collector accepts them.
func (s *sender) ForceFlush(context.Context) error { return nil }

// Shutdown implements sdk.SpanProcessor. It sends the waiting spans. When ctx ends, it
// drops the spans that are left.
func (s *sender) Shutdown(ctx context.Context) error {
	close(s.stop)
	select {
	case <-s.done:
	case <-ctx.Done():
		s.cancel()
		<-s.done
	}
	s.client.CloseIdleConnections()
	return ctx.Err()
}

// run sends spans until the sender is stopped and no spans wait.
func (s *sender) run() {
	defer close(s.done)
	for {
		batch := s.next()
		if len(batch) == 0 {
			return
		}
		s.deliver(batch)
	}
}

// next waits for spans and returns them. It returns an empty batch if the sender is
// stopped and no spans wait.
func (s *sender) next() (batch []sdk.ReadOnlySpan) {
	select {
	case x := <-s.queue:
		batch = append(batch, x)
	case <-s.stop:
	}
	enough := time.NewTimer(gather)
	defer enough.Stop()
	stop := s.stop
	for len(batch) < largest {
		select {
		case x := <-s.queue:
			batch = append(batch, x)
			continue
		default:
		}
		if stop == nil {
			return batch // stopped, and the queue is empty
		}
		select {
		case x := <-s.queue:
			batch = append(batch, x)
		case <-stop:
			stop = nil
		case <-enough.C:
			return batch
		}
	}
	return batch
}

// deliver sends a batch. If the collector is away, deliver tries until the collector
// takes the batch. After Shutdown, deliver tries only once. It drops a batch that cannot
// be sent.
func (s *sender) deliver(batch []sdk.ReadOnlySpan) {
	for pause := retry; ; pause = min(2*pause, longestPause) {
		last := s.stopped()
		err := s.exporter.ExportSpans(s.ctx, batch)
		s.note(err)
		if err == nil {
			s.sent.Add(float64(len(batch)))
			return
		}
		if last || !passing(err) {
			s.dropped.Add(float64(len(batch)))
			return
		}
		select {
		case <-s.stop:
		case <-time.After(pause):
		}
	}
}

// passing reports whether the same spans can perhaps be sent later: the collector cannot
// be reached, or asks for another attempt. A batch that cannot be encoded, for example,
// would fail again and again.
func passing(err error) bool {
	var refused *refusal
	if errors.As(err, &refused) {
		return !refused.final()
	}
	var network *url.Error
	return errors.As(err, &network)
}

func (s *sender) stopped() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// note logs a message when sending begins to fail, and another one when sending works again.
func (s *sender) note(err error) {
	switch failing := err != nil; {
	case failing == s.failing:
		return
	case failing:
		s.log.Warn("traces do not reach the collector", "endpoint", s.endpoint, "error", err)
	default:
		s.log.Info("traces reach the collector again", "endpoint", s.endpoint)
	}
	s.failing = err != nil
}

// A refusal is an answer of the collector other than success.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string {
	return fmt.Sprintf("the collector answers %d: %q", r.status, r.text)
}

// final reports whether the collector would refuse the same spans again (OpenTelemetry
// Protocol, "Retryable Response Codes").
func (r *refusal) final() bool {
	switch r.status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return false
	}
	return true
}

// Start implements otlptrace.Client.
func (s *sender) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (s *sender) Stop(context.Context) error { return nil }

// UploadTraces implements otlptrace.Client.
func (s *sender) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// TracesData has the encoding of an ExportTraceServiceRequest, whose package needs
	// gRPC.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	answer, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 200))
	if answer.StatusCode/100 != 2 {
		return &refusal{answer.StatusCode, string(text)}
	}
	return nil
}
