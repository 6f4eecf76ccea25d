// Package accesslog writes the access log, and the log lines about slow operations and
// failed binds.
package accesslog

import (
	"context"
	"fmt"
	"log/slog"
	"net"

	"github.com/seed-4dac0d86/ldapd/dn/short"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// Operations returns an observer that writes a line of the access log for every operation
// that it receives. A line contains no attribute values, except those in names and
// diagnostics. For a filter, the line contains only the filter's shape.
func Operations(log *slog.Logger) monitor.Observer {
	return func(o *monitor.Observation) {
		log.LogAttrs(context.Background(), slog.LevelInfo, o.Operation().String(), describe(o)...)
	}
}

// SlowOperations returns an observer that writes a warning for every slow operation.
func SlowOperations(log *slog.Logger) monitor.Observer {
	return func(o *monitor.Observation) {
		if !o.Slow {
			return
		}
		attrs := append(describe(o), slog.String("op", o.Operation().String()))
		if o.Plan != "" {
			attrs = append(attrs, text("plan", o.Plan))
		}
		log.LogAttrs(context.Background(), slog.LevelWarn, "slow operation", attrs...)
	}
}

// text returns an attribute whose value a client may have made long.
func text(key, value string) slog.Attr { return slog.String(key, short.Text(value)) }

// mostTexts is the largest number of texts of one attribute.
const mostTexts = 64

func texts(key string, values []string) slog.Attr {
	cut := make([]string, min(len(values), mostTexts), mostTexts+1)
	for i := range cut {
		cut[i] = short.Text(values[i])
	}
	if n := len(values) - len(cut); n > 0 {
		cut = append(cut, fmt.Sprintf("... (%d more)", n))
	}
	return slog.Any(key, cut)
}

func describe(o *monitor.Observation) []slog.Attr {
	attrs := append(make([]slog.Attr, 0, 16), slog.Uint64("conn", o.Conn), slog.Int("id", int(o.Message.ID)), text("who", o.Who))
	if o.As != nil {
		attrs = append(attrs, text("as", *o.As))
	}
	if len(o.Sessions) > 0 {
		attrs = append(attrs, slog.Any("sessions", o.Sessions))
	}
	attrs = appendRequest(attrs, o.Message.Request)
	attrs = appendControls(attrs, o.Message.Controls)
	attrs = appendTransaction(attrs, o)
	if o.Branch != "" {
		attrs = append(attrs, slog.String("branch", o.Branch))
	}
	attrs = appendResult(attrs, o.Result)
	if o.Denied != "" {
		attrs = append(attrs, slog.String("denied", o.Denied), slog.String("rules", o.Rules.String()))
	}
	if o.Answered {
		return attrs
	}
	return appendWork(attrs, o)
}

// appendTransaction appends the attributes of the LDAP transaction that an operation
// belongs to.
func appendTransaction(attrs []slog.Attr, o *monitor.Observation) []slog.Attr {
	if o.Transaction != "" {
		attrs = append(attrs, slog.String("transaction", o.Transaction))
	}
	if o.Operations > 0 {
		attrs = append(attrs, slog.Int("operations", o.Operations))
	}
	if len(o.Changed) > 0 {
		attrs = append(attrs, slog.Any("changed", o.Changed))
	}
	return attrs
}

// appendWork appends the cost of an operation and how long the operation took.
func appendWork(attrs []slog.Attr, o *monitor.Observation) []slog.Attr {
	if o.Operation() == monitor.Search {
		attrs = appendSearch(attrs, o)
	}
	if n := o.Attempts - 1; n > 0 {
		attrs = append(attrs, slog.Int("retries", n))
	}
	return append(attrs, slog.Int64("us", o.Took.Microseconds()))
}

// Connect logs the beginning of a connection, if there is an access log.
func Connect(log *slog.Logger, conn uint64, from string) {
	if log != nil {
		log.Info("connect", "conn", conn, "from", from)
	}
}

// Disconnect logs the end of a connection, if there is an access log.
func Disconnect(log *slog.Logger, conn uint64, who string) {
	if log != nil {
		log.Info("disconnect", "conn", conn, "who", who)
	}
}

// BindFailed logs a bind with wrong credentials. It writes the client's address before any
// text that the client sent, so that a program that parses the line cannot mistake such text
// for the address.
func BindFailed(log *slog.Logger, conn uint64, from string, r *op.Bind) {
	if host, _, err := net.SplitHostPort(from); err == nil {
		from = host
	}
	log.Warn("bind failed", "from", from, "conn", conn, "dn", short.Text(r.Name), "mechanism", short.Text(r.Mechanism))
}

func appendResult(attrs []slog.Attr, r *op.Result) []slog.Attr {
	attrs = append(attrs, slog.Int("result", int(r.Code)))
	if r.Diagnostic != "" {
		attrs = append(attrs, text("diagnostic", r.Diagnostic))
	}
	return attrs
}

// appendSearch appends what a search found and what it cost.
func appendSearch(attrs []slog.Attr, o *monitor.Observation) []slog.Attr {
	attrs = append(attrs, slog.Int("entries", o.Entries))
	if o.References > 0 {
		attrs = append(attrs, slog.Int("references", o.References))
	}
	attrs = append(attrs, slog.Int("candidates", o.Candidates))
	if o.Rows > 0 {
		attrs = append(attrs, slog.Int("rows", o.Rows))
	}
	if index := o.Index(); index != "" {
		attrs = append(attrs, slog.String("index", index))
	}
	return attrs
}

func appendRequest(attrs []slog.Attr, r op.Request) []slog.Attr {
	switch r := r.(type) {
	case *op.Bind:
		attrs = append(attrs, text("dn", r.Name))
		if r.SASL {
			attrs = append(attrs, text("mechanism", r.Mechanism))
		}
	case *op.Search:
		attrs = append(attrs, text("dn", r.Base),
			slog.String("scope", r.Scope.String()),
			text("filter", filter.Shape(r.Filter)))
		if len(r.Attributes) > 0 {
			attrs = append(attrs, texts("attributes", r.Attributes))
		}
		if r.Deref != op.NeverDerefAliases {
			attrs = append(attrs, slog.String("deref", r.Deref.String()))
		}
	case *op.Compare:
		attrs = append(attrs, text("dn", r.Name), text("attribute", r.Description))
	case *op.Add:
		attrs = append(attrs, text("dn", r.Name))
	case *op.Modify:
		attrs = append(attrs, text("dn", r.Name), texts("attributes", changed(r)))
	case *op.Delete:
		attrs = append(attrs, text("dn", r.Name))
	case *op.ModifyDN:
		attrs = append(attrs, text("dn", r.Name), text("newrdn", r.NewRDN))
		if r.NewSuperior != nil {
			attrs = append(attrs, text("newSuperior", *r.NewSuperior))
		}
	case *op.Extended:
		attrs = append(attrs, text("oid", r.OID))
	}
	return attrs
}

// changed returns the attributes that a modify changes, each with a sign for the kind of
// change: "+member", "-mail", "=sn", "#uidNumber".
func changed(r *op.Modify) []string {
	names := make([]string, len(r.Changes))
	for i := range r.Changes {
		sign := "?"
		if k := int(r.Changes[i].Kind); k < len(modSigns) {
			sign = modSigns[k]
		}
		names[i] = sign + r.Changes[i].Description
	}
	return names
}

var modSigns = [...]string{op.ModAdd: "+", op.ModDelete: "-", op.ModReplace: "=", op.ModIncrement: "#"}

func appendControls(attrs []slog.Attr, cs []op.Control) []slog.Attr {
	if len(cs) == 0 {
		return attrs
	}
	oids := make([]string, len(cs))
	for i := range cs {
		oids[i] = cs[i].OID
	}
	return append(attrs, texts("controls", oids))
}
