package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// Observe ends the span of an operation. If an operation that was not sampled was slow or
// failed, Observe records a span for it now. It records none if the connection itself answered
// the operation. Observe is a monitor.Observer.
func (t *Tracer) Observe(o *monitor.Observation) {
	s, sampled := o.Span.(trace.Span)
	if !sampled {
		if o.Answered || !o.Slow && !failed(o.Result.Code) {
			return
		}
		_, s = t.start(context.Background(), parent(o.Message), o.Operation(), trace.WithTimestamp(o.Begun))
		s.SetAttributes(attribute.Bool("ldap.afterwards", true))
	}
	s.SetAttributes(describe(o)...)
	if failed(o.Result.Code) {
		s.SetStatus(codes.Error, o.Result.Code.Name())
	}
	s.End(trace.WithTimestamp(o.Begun.Add(o.Took)))
}

// failed reports whether an operation with this result failed by the server's fault or
// exceeded a limit on time or work.
func failed(c op.Code) bool {
	switch c {
	case op.OperationsError, op.TimeLimitExceeded, op.AdminLimitExceeded, op.Busy, op.Unavailable, op.Other:
		return true
	}
	return false
}

// describe returns the attributes of an operation's span. They contain no names and no
// values of entries. They contain the numbers of the connection and the message, by which
// the operation can be found in the access log.
func describe(o *monitor.Observation) []attribute.KeyValue {
	as := append(make([]attribute.KeyValue, 0, 12),
		attribute.String("ldap.result", o.Result.Code.Name()),
		attribute.Int64("ldap.connection", int64(o.Conn)),
		attribute.Int("ldap.message_id", int(o.Message.ID)))
	if r, ok := o.Message.Request.(*op.Search); ok {
		as = append(as,
			attribute.String("ldap.scope", r.Scope.String()),
			attribute.String("ldap.filter", filter.Shape(r.Filter)),
			attribute.Int("ldap.entries", o.Entries),
			attribute.Int("ldap.candidates", o.Candidates),
			attribute.Int("ldap.rows", o.Rows))
		if index := o.Index(); index != "" {
			as = append(as, attribute.String("ldap.index", index))
		}
	}
	if o.Attempts > 0 {
		as = append(as, attribute.Int("ldap.attempts", o.Attempts))
	}
	if o.Committed != 0 {
		as = append(as, attribute.String("ldap.revision", o.Committed.String()))
	}
	if o.Transaction != "" {
		as = append(as, attribute.String("ldap.transaction", o.Transaction))
	}
	return as
}
