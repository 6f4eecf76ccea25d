// Package otelspan lets package span record spans with OpenTelemetry: below the span in the context, by the
// provider of that span. Import it for that.
package otelspan

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-4dac0d86/ldapd/store/span"
)

func init() { span.Record = record }

func record(ctx context.Context, name string) (context.Context, span.Span) {
	operation := trace.SpanFromContext(ctx)
	if !operation.IsRecording() {
		return ctx, nil
	}
	ctx, s := operation.TracerProvider().Tracer(span.Library).Start(ctx, name)
	return ctx, step{s}
}

// A step implements span.Span.
type step struct{ trace.Span }

func (s step) Mark(name string) { s.SetAttributes(attribute.Bool(name, true)) }
func (s step) End()             { s.Span.End() }
