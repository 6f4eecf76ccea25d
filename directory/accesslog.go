package directory

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// trace is what the access log tells of an operation beside its request and its
// result.
type trace struct {
	on         bool // there is an access log
	begun      time.Time
	entries    int
	references int
	cost       partition.Cost
	plan       string // of a slow search
	attempts   int    // of an update
}

// slow reports whether the operation has taken too long by now.
func (o *operation) slow() bool {
	limit := o.d.settings().Slow
	return limit > 0 && !o.lasts && time.Since(o.trace.begun) >= limit
}

// log writes an operation's line of the access log, and one in the server's log
// if it was slow. Values are in neither: a filter is told by its shape.
func (o *operation) log(ctx context.Context, m *op.Message) {
	slow := o.slow()
	if !slow && !o.trace.on {
		return
	}
	attrs := make([]slog.Attr, 0, 16)
	attrs = o.session.appendTo(attrs, m)
	if o.controls.proxied != nil {
		attrs = append(attrs, slog.String("as", *o.controls.proxied))
	}
	if len(o.controls.sessions) > 0 {
		attrs = append(attrs, slog.Any("sessions", o.controls.sessions))
	}
	attrs = appendRequest(attrs, m.Request)
	attrs = appendControls(attrs, m.Controls)
	attrs = appendResult(attrs, &o.response.Result)
	if _, ok := m.Request.(*op.Search); ok {
		attrs = o.trace.appendSearch(attrs)
	}
	if n := o.trace.attempts - 1; n > 0 {
		attrs = append(attrs, slog.Int("retries", n))
	}
	attrs = append(attrs, slog.Int64("us", time.Since(o.trace.begun).Microseconds()))
	name := operationName(m.Request)
	if o.trace.on {
		o.d.settings().Access.LogAttrs(ctx, slog.LevelInfo, name, attrs...)
	}
	if slow {
		attrs = append(attrs, slog.String("op", name))
		if o.trace.plan != "" {
			attrs = append(attrs, slog.String("plan", o.trace.plan))
		}
		o.d.log.LogAttrs(ctx, slog.LevelWarn, "slow operation", attrs...)
	}
}

// Answered writes the line of a request that the connection itself has answered:
// Cancel, StartTLS, what is refused.
func (s *Session) Answered(m *op.Message, r *op.Response) {
	log := s.d.settings().Access
	if log == nil {
		return
	}
	attrs := appendRequest(s.appendTo(make([]slog.Attr, 0, 8), m), m.Request)
	attrs = appendControls(attrs, m.Controls)
	log.LogAttrs(context.Background(), slog.LevelInfo, operationName(m.Request), appendResult(attrs, &r.Result)...)
}

// appendTo tells whose request it is.
func (s *Session) appendTo(attrs []slog.Attr, m *op.Message) []slog.Attr {
	return append(attrs, slog.Uint64("conn", s.number), slog.Int("id", int(m.ID)), slog.String("who", s.Name()))
}

func appendResult(attrs []slog.Attr, r *op.Result) []slog.Attr {
	attrs = append(attrs, slog.Int("result", int(r.Code)))
	if r.Diagnostic != "" {
		attrs = append(attrs, slog.String("diagnostic", r.Diagnostic))
	}
	return attrs
}

// appendSearch returns what a search found and what that took.
func (t *trace) appendSearch(attrs []slog.Attr) []slog.Attr {
	attrs = append(attrs, slog.Int("entries", t.entries))
	if t.references > 0 {
		attrs = append(attrs, slog.Int("references", t.references))
	}
	attrs = append(attrs, slog.Int("candidates", t.cost.Candidates))
	if t.cost.Rows > 0 {
		attrs = append(attrs, slog.Int("rows", t.cost.Rows))
	}
	switch {
	case len(t.cost.Indexes) > 0:
		attrs = append(attrs, slog.String("index", strings.Join(t.cost.Indexes, ", ")))
	case t.cost.Scans > 0:
		attrs = append(attrs, slog.String("index", "none"))
	}
	return attrs
}

// explain keeps the plan of a search that was slow.
func (st *stream) explain(ctx context.Context) {
	if !st.o.slow() {
		return
	}
	if plan, err := st.s.Explain(context.WithoutCancel(ctx), st.query, false); err == nil {
		st.o.trace.plan = strings.TrimSpace(plan)
	}
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
