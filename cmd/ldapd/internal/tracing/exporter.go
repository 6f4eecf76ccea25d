package tracing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/seed-4dac0d86/ldapd/store/pause"
)

// The times of sending. Tests change them.
var (
	gather = time.Second // how long a batch waits for further spans before it is sent
	retry  = time.Second // the first pause after a failure; each pause is twice the one before
)

const (
	timeout      = 10 * time.Second // of one request
	longestPause = 30 * time.Second
)

// An exporter sends the batches of the SDK's span processor, which has one batch sent at a
// time. If the collector is away, the exporter tries until the collector takes the batch.
// Meanwhile the processor keeps a limited number of spans, and drops further ones.
type exporter struct {
	*otlptrace.Exporter
	endpoint string
	client   http.Client
	retry    time.Duration
	log      *slog.Logger
	spans    *prometheus.CounterVec
	stopping context.Context // ends when a batch is to be tried only once more
	stop     context.CancelFunc
	failing  bool // the last request failed
}

func newExporter(o Options) *exporter {
	e := &exporter{endpoint: o.Endpoint, client: http.Client{Timeout: timeout}, retry: retry, log: o.Log,
		spans: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ldapd_trace_spans_total", Help: "Spans of traces that the collector took (sent), and that it did not take (dropped)."}, []string{"result"})}
	for _, result := range []string{"sent", "dropped"} {
		e.spans.WithLabelValues(result)
	}
	o.Registerer.MustRegister(e.spans)
	e.stopping, e.stop = context.WithCancel(context.Background())
	e.Exporter = otlptrace.NewUnstarted(e)
	return e
}

// ExportSpans implements sdk.SpanExporter. It returns nil always, because the SDK would write
// an error to the standard error.
func (e *exporter) ExportSpans(ctx context.Context, batch []sdk.ReadOnlySpan) error {
	for i, x := range batch {
		batch[i] = withoutNames(x)
	}
	result := "sent"
	for wait := e.retry; ; wait = min(2*wait, longestPause) {
		last := e.stopping.Err() != nil
		err := e.Exporter.ExportSpans(ctx, batch)
		e.note(err)
		if err == nil {
			break
		}
		if last || !errors.As(err, new(passing)) {
			result = "dropped"
			break
		}
		_ = pause.For(e.stopping, wait)
	}
	e.spans.WithLabelValues(result).Add(float64(len(batch)))
	return nil
}

// note logs a message when sending begins to fail, and another one when sending works again.
func (e *exporter) note(err error) {
	switch failing := err != nil; {
	case failing == e.failing:
		return
	case failing:
		e.log.Warn("traces do not reach the collector", "endpoint", e.endpoint, "error", err)
	default:
		e.log.Info("traces reach the collector again", "endpoint", e.endpoint)
	}
	e.failing = err != nil
}

// A passing error is one after which the same spans can perhaps be sent later: the collector
// cannot be reached, or asks for another attempt (OpenTelemetry Protocol, "Retryable Response
// Codes"). A batch that cannot be encoded, for example, would fail again and again.
type passing struct{ error }

// Start implements otlptrace.Client.
func (e *exporter) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (e *exporter) Stop(context.Context) error { return nil }

// UploadTraces implements otlptrace.Client.
func (e *exporter) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// TracesData has the encoding of an ExportTraceServiceRequest, whose package needs
	// gRPC.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.endpoint+"/v1/traces", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	answer, err := e.client.Do(req)
	if err != nil {
		return passing{err}
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 200))
	if answer.StatusCode/100 == 2 {
		return nil
	}
	err = fmt.Errorf("the collector answers %d: %q", answer.StatusCode, text)
	switch answer.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return passing{err}
	}
	return err
}
