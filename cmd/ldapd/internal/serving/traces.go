package serving

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/tracing"
	"github.com/seed-4dac0d86/ldapd/directory"
)

// traces is a process's tracer. The tracer is nil if no collector is configured.
type traces struct{ *tracing.Tracer }

// openTraces returns the tracer that the configuration describes, and makes the client of
// HBase record its spans with the same tracer.
func openTraces(c *config.Config, r prometheus.Registerer, log *slog.Logger) traces {
	if c.Trace.Endpoint == "" {
		return traces{}
	}
	host, _ := os.Hostname() // after an error, the spans name no host
	t := tracing.New(tracing.Options{Endpoint: c.Trace.Endpoint, Ratio: c.Trace.Ratio, Version: cli.Version(), Host: host, Registerer: r, Log: log})
	otel.SetTracerProvider(t.Provider())
	return traces{t}
}

// addTo makes a directory trace its operations.
func (t traces) addTo(o *directory.Options) {
	if t.Tracer != nil {
		o.Trace, o.Observers = t.Begin, append(o.Observers, t.Observe)
	}
}

// traceFlush is the longest time for which a server that stops waits for the collector.
const traceFlush = 5 * time.Second

func (t traces) close() {
	if t.Tracer == nil {
		return
	}
	otel.SetTracerProvider(noop.NewTracerProvider())
	ctx, cancel := context.WithTimeout(context.Background(), traceFlush)
	defer cancel()
	_ = t.Close(ctx) // an error means that spans were not sent in time
}
