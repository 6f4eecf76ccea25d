// Package span begins the spans of the steps of an operation, below the operation's own
// span.
package span

import (
	"context"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Library is the name under which the spans of this program are recorded.
const Library = "ldapd"

// Start begins the span of a step. The caller must end it. If the span in ctx is not recorded,
// Start allocates nothing. It then returns ctx and a span that records nothing.
func Start(ctx context.Context, name string) (context.Context, trace.Span) {
	operation := trace.SpanFromContext(ctx)
	if !operation.IsRecording() {
		return ctx, noop.Span{}
	}
	return operation.TracerProvider().Tracer(Library).Start(ctx, name)
}
