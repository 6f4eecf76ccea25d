// Package tracing records spans of operations and sends them to a collector, by OTLP over
// HTTP.
//
// A [Tracer] decides when an operation begins whether the operation is sampled. A sampled
// operation has a span in its context, below which package span and the client of HBase record
// the steps of the operation. An operation that was not sampled is sent nevertheless if it was
// slow, failed by the server's fault, or exceeded a limit on time or work. It is sent after its
// end, and without steps.
//
// Spans that the collector does not take are dropped. Operations never wait for the
// collector.
package tracing

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/store/span"
	_ "github.com/seed-4dac0d86/ldapd/store/span/otelspan"
)

// Options are the options of a Tracer.
type Options struct {
	Endpoint   string  // the collector's URL, without /v1/traces
	Ratio      float64 // share of operations to sample, from 0 to 1
	Version    string  // of the program
	Host       string  // name of this server
	Registerer prometheus.Registerer
	Log        *slog.Logger
}

// A Tracer records and sends the spans of operations.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	ratio    float64
	exporter *exporter
	asked    budget // limits the operations that are sampled because their clients ask for it
}

// New returns a Tracer. The caller must close it.
func New(o Options) *Tracer {
	limits := sdk.NewSpanLimits()
	limits.AttributeValueLengthLimit = mostText
	e := newExporter(o)
	p := sdk.NewTracerProvider(
		sdk.WithSampler(belowOperations{}),
		sdk.WithBatcher(e, sdk.WithBatchTimeout(gather), sdk.WithExportTimeout(0)),
		sdk.WithRawSpanLimits(limits),
		sdk.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "ldapd"),
			attribute.String("service.version", o.Version),
			attribute.String("host.name", o.Host),
		)))
	return &Tracer{provider: p, tracer: p.Tracer(span.Library), ratio: o.Ratio, exporter: e, asked: budget{most: mostAsked}}
}

// Provider returns the provider for libraries that record spans. It records nothing
// outside sampled operations.
func (t *Tracer) Provider() trace.TracerProvider { return t.provider }

// Close sends the waiting spans. It no longer waits for the collector when ctx ends.
func (t *Tracer) Close(ctx context.Context) error {
	t.exporter.stop()
	return t.provider.Shutdown(ctx)
}

const (
	mostText  = 1024 // largest number of octets of an attribute
	mostSpans = 256  // largest number of spans recorded in one operation
	mostAsked = 100  // largest number of operations sampled a second because clients ask for it
)

// Begin begins the span of an operation, if the operation is sampled. It is the option
// Trace of a directory.
func (t *Tracer) Begin(ctx context.Context, m *op.Message) (context.Context, any) {
	caller := parent(m)
	if !(caller.IsSampled() && t.asked.spend(time.Now())) && rand.Float64() >= t.ratio {
		return ctx, nil
	}
	return t.start(ctx, caller, monitor.OperationOf(m.Request))
}

func (t *Tracer) start(ctx context.Context, caller trace.SpanContext, k monitor.Operation, o ...trace.SpanStartOption) (context.Context, trace.Span) {
	ctx = context.WithValue(ctx, operationKey{}, new(atomic.Int32))
	if caller.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, caller)
	}
	return t.tracer.Start(ctx, k.String(), append(o, trace.WithSpanKind(trace.SpanKindServer))...)
}

// parent returns the client's span to which an operation belongs. The client sends a
// traceparent (W3C Trace Context), which is the identifier in a session tracking control
// of any format. If there are several such controls, the last one counts, because it
// comes from the nearest system.
func parent(m *op.Message) (p trace.SpanContext) {
	for i := range m.Controls {
		if m.Controls[i].OID != control.OIDSessionTracking {
			continue
		}
		s, err := control.ParseSessionTracking(m.Controls[i].Value)
		if err != nil {
			return p // the operation fails because of this malformed control
		}
		header := propagation.MapCarrier{"traceparent": s.Identifier}
		ctx := propagation.TraceContext{}.Extract(context.Background(), header)
		if c := trace.SpanContextFromContext(ctx); c.IsValid() {
			p = c
		}
	}
	return p
}

// operationKey is the key of a context value of type *atomic.Int32: the number of spans
// that the operation has begun.
type operationKey struct{}

// belowOperations is a sampler that samples the first spans of sampled operations, and
// nothing else.
type belowOperations struct{}

// ShouldSample implements sdk.Sampler.
func (belowOperations) ShouldSample(p sdk.SamplingParameters) sdk.SamplingResult {
	r := sdk.SamplingResult{Decision: sdk.Drop, Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState()}
	if n, ok := p.ParentContext.Value(operationKey{}).(*atomic.Int32); ok && n.Add(1) <= mostSpans {
		r.Decision = sdk.RecordAndSample
	}
	return r
}

// Description implements sdk.Sampler.
func (belowOperations) Description() string { return "belowOperations" }

// A budget allows a limited number of uses in each second.
type budget struct {
	most         int64 // uses allowed in a second
	second, used atomic.Int64
}

func (b *budget) spend(now time.Time) bool {
	if s := now.Unix(); b.second.Swap(s) != s {
		b.used.Store(0)
	}
	return b.used.Add(1) <= b.most
}
