// Package span begins the spans of the steps of an operation, below the operation's own
// span. Package otelspan records them with OpenTelemetry.
package span

import "context"

// Library is the name under which the spans of this program are recorded.
const Library = "ldapd"

// A Span is the span of a step.
type Span interface {
	// Mark sets an attribute of the span to true.
	Mark(attribute string)
	End()
}

// Record begins a span below the span in ctx. It returns ctx and nil if that span is not recorded. Package
// otelspan sets it; nil: no spans are recorded.
var Record func(ctx context.Context, name string) (context.Context, Span)

// Start begins the span of a step. The caller must end it. If the span in ctx is not recorded,
// Start allocates nothing. It then returns ctx and a span that records nothing.
func Start(ctx context.Context, name string) (context.Context, Span) {
	if Record != nil {
		if below, s := Record(ctx, name); s != nil {
			return below, s
		}
	}
	return ctx, nothing{}
}

// nothing is a span that records nothing.
type nothing struct{}

func (nothing) Mark(string) {}
func (nothing) End()        {}
