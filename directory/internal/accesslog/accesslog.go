// Package accesslog writes the lines of the access log, and those about slow operations
// and failed binds.
package accesslog

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/op"
)

// Request writes an operation's line of the access log, and one in the server's log
// if it was slow. Values are in neither: a filter is told by its shape.
func Request(ctx context.Context, req *request.Request, m *op.Message) {
	slow := req.Trace.Slow(req.Server.Settings().Slow)
	if !slow && !req.Trace.On {
		return
	}
	attrs := make([]slog.Attr, 0, 16)
	attrs = appendSession(attrs, req.Session, m)
	if req.Controls.Proxied != nil {
		attrs = append(attrs, slog.String("as", *req.Controls.Proxied))
	}
	if len(req.Controls.Sessions) > 0 {
		attrs = append(attrs, slog.Any("sessions", req.Controls.Sessions))
	}
	attrs = appendRequest(attrs, m.Request)
	attrs = appendControls(attrs, m.Controls)
	attrs = appendResult(attrs, &req.Response.Result)
	if _, ok := m.Request.(*op.Search); ok {
		attrs = appendSearch(attrs, req.Trace)
	}
	if n := req.Trace.Attempts - 1; n > 0 {
		attrs = append(attrs, slog.Int("retries", n))
	}
	attrs = append(attrs, slog.Int64("us", time.Since(req.Trace.Begun).Microseconds()))
	name := operationName(m.Request)
	if req.Trace.On {
		req.Server.Settings().Access.LogAttrs(ctx, slog.LevelInfo, name, attrs...)
	}
	if slow {
		attrs = append(attrs, slog.String("op", name))
		if req.Trace.Plan != "" {
			attrs = append(attrs, slog.String("plan", req.Trace.Plan))
		}
		req.Server.Log.LogAttrs(ctx, slog.LevelWarn, "slow operation", attrs...)
	}
}

// Connect writes the line of a connection's beginning.
func Connect(d *request.Server, s *request.Session) {
	if log := d.Settings().Access; log != nil {
		log.Info("connect", "conn", s.Number, "from", s.Channel.Remote())
	}
}

// Disconnect writes the line of a connection's end.
func Disconnect(d *request.Server, s *request.Session) {
	if log := d.Settings().Access; log != nil {
		log.Info("disconnect", "conn", s.Number, "who", s.Name())
	}
}

// Answered writes the line of a request that the connection itself has answered.
func Answered(d *request.Server, s *request.Session, m *op.Message, r *op.Response) {
	log := d.Settings().Access
	if log == nil {
		return
	}
	attrs := appendRequest(appendSession(make([]slog.Attr, 0, 8), s, m), m.Request)
	attrs = appendControls(attrs, m.Controls)
	log.LogAttrs(context.Background(), slog.LevelInfo, operationName(m.Request), appendResult(attrs, &r.Result)...)
}

// appendSession tells whose request it is.
func appendSession(attrs []slog.Attr, s *request.Session, m *op.Message) []slog.Attr {
	return append(attrs, slog.Uint64("conn", s.Number), slog.Int("id", int(m.ID)), slog.String("who", s.Name()))
}

// BindFailed writes the line of a bind with wrong credentials. The address comes
// first, so that a program that looks for it takes nothing for it that the client
// has sent.
func BindFailed(req *request.Request, m *op.Message) {
	r, ok := m.Request.(*op.Bind)
	if !ok || req.Response.Code != op.InvalidCredentials {
		return
	}
	address := req.Session.Channel.Remote()
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host
	}
	req.Server.Log.Warn("bind failed", "from", address, "conn", req.Session.Number, "dn", r.Name, "mechanism", r.Mechanism)
}

func appendResult(attrs []slog.Attr, r *op.Result) []slog.Attr {
	attrs = append(attrs, slog.Int("result", int(r.Code)))
	if r.Diagnostic != "" {
		attrs = append(attrs, slog.String("diagnostic", r.Diagnostic))
	}
	return attrs
}

// appendSearch returns what a search found and what that took.
func appendSearch(attrs []slog.Attr, t *request.Trace) []slog.Attr {
	attrs = append(attrs, slog.Int("entries", t.Entries))
	if t.References > 0 {
		attrs = append(attrs, slog.Int("references", t.References))
	}
	attrs = append(attrs, slog.Int("candidates", t.Cost.Candidates))
	if t.Cost.Rows > 0 {
		attrs = append(attrs, slog.Int("rows", t.Cost.Rows))
	}
	switch {
	case len(t.Cost.Indexes) > 0:
		attrs = append(attrs, slog.String("index", strings.Join(t.Cost.Indexes, ", ")))
	case t.Cost.Scans > 0:
		attrs = append(attrs, slog.String("index", "none"))
	}
	return attrs
}

var (
	scopeNames = [...]string{"base", "one", "sub", "subordinates"}
	derefNames = [...]string{"never", "searching", "finding", "always"}
)

func nameIn[T op.Scope | op.Deref](names []string, i T) string {
	if int(i) < len(names) {
		return names[i]
	}
	return strconv.Itoa(int(i))
}

func operationName(r op.Request) string {
	switch r.(type) {
	case *op.Bind:
		return "bind"
	case *op.Search:
		return "search"
	case *op.Compare:
		return "compare"
	case *op.Add:
		return "add"
	case *op.Modify:
		return "modify"
	case *op.Delete:
		return "delete"
	case *op.ModifyDN:
		return "modifyDN"
	case *op.Extended:
		return "extended"
	}
	return "unknown"
}

func appendRequest(attrs []slog.Attr, r op.Request) []slog.Attr {
	switch r := r.(type) {
	case *op.Bind:
		attrs = append(attrs, slog.String("dn", r.Name))
		if r.SASL {
			attrs = append(attrs, slog.String("mechanism", r.Mechanism))
		}
	case *op.Search:
		attrs = append(attrs, slog.String("dn", r.Base),
			slog.String("scope", nameIn(scopeNames[:], r.Scope)),
			slog.String("filter", filter.Shape(r.Filter)))
		if len(r.Attributes) > 0 {
			attrs = append(attrs, slog.Any("attributes", r.Attributes))
		}
		if r.Deref != op.NeverDerefAliases {
			attrs = append(attrs, slog.String("deref", nameIn(derefNames[:], r.Deref)))
		}
	case *op.Compare:
		attrs = append(attrs, slog.String("dn", r.Name), slog.String("attribute", r.Description))
	case *op.Add:
		attrs = append(attrs, slog.String("dn", r.Name))
	case *op.Modify:
		attrs = append(attrs, slog.String("dn", r.Name), slog.Any("attributes", changed(r)))
	case *op.Delete:
		attrs = append(attrs, slog.String("dn", r.Name))
	case *op.ModifyDN:
		attrs = append(attrs, slog.String("dn", r.Name), slog.String("newrdn", r.NewRDN))
		if r.NewSuperior != nil {
			attrs = append(attrs, slog.String("newSuperior", *r.NewSuperior))
		}
	case *op.Extended:
		attrs = append(attrs, slog.String("oid", r.OID))
	}
	return attrs
}

// changed names what a modify touches: "+member", "-mail", "=sn", "#uidNumber".
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
	return append(attrs, slog.Any("controls", oids))
}
