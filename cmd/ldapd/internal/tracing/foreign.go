package tracing

import (
	"slices"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/seed-4dac0d86/ldapd/store/span"
)

// known are the only attributes that spans of libraries keep. For example, HBase's client
// also records row keys, which contain names and values of entries.
var known = []attribute.Key{"table"}

// withoutNames removes from a span of a library everything that may contain names and
// values of entries. It returns a span of this program unchanged.
func withoutNames(x sdk.ReadOnlySpan) sdk.ReadOnlySpan {
	if x.InstrumentationScope().Name == span.Library {
		return x
	}
	return foreign{x}
}

// A foreign is a span of a library.
type foreign struct{ sdk.ReadOnlySpan }

// Attributes implements sdk.ReadOnlySpan.
func (f foreign) Attributes() []attribute.KeyValue { return onlyKnown(f.ReadOnlySpan.Attributes()) }

// Status implements sdk.ReadOnlySpan. The text of an error may repeat the row key.
func (f foreign) Status() sdk.Status { return sdk.Status{Code: f.ReadOnlySpan.Status().Code} }

// Events implements sdk.ReadOnlySpan.
func (f foreign) Events() []sdk.Event {
	es := slices.Clone(f.ReadOnlySpan.Events())
	for i := range es {
		es[i].Attributes = onlyKnown(es[i].Attributes)
	}
	return es
}

// Links implements sdk.ReadOnlySpan.
func (f foreign) Links() []sdk.Link {
	ls := slices.Clone(f.ReadOnlySpan.Links())
	for i := range ls {
		ls[i].Attributes = onlyKnown(ls[i].Attributes)
	}
	return ls
}

func onlyKnown(as []attribute.KeyValue) (kept []attribute.KeyValue) {
	for _, a := range as {
		if slices.Contains(known, a.Key) {
			kept = append(kept, a)
		}
	}
	return kept
}
