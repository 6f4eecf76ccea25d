package virtual

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/internal/delivery"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/materialized"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// The entries at and below cn=cluster,cn=monitor show what the servers of the store publish
// about themselves, as `ldapd cluster` does. Every search of cn=monitor reads
// this data again.
const (
	monitorName = "cn=monitor"
	clusterName = "cn=cluster," + monitorName
)

// theMonitor serves cn=monitor and the entries below it.
type theMonitor struct{}

func (theMonitor) holds(name dn.DN) bool { return endsIn(name, "monitor") }

func (theMonitor) serves(base dn.DN, _ op.Scope) bool { return endsIn(base, "monitor") }

func (theMonitor) find(context.Context, *request.Request, dn.DN) (*Entry, error) { return nil, nil }

func (theMonitor) refusal() string {
	return monitorName + " shows what servers publish about themselves and cannot be changed"
}

func (theMonitor) Search(ctx context.Context, req *request.Request, name dn.DN, r *op.Search, sink op.Sink) error {
	now := func(context.Context, *delivery.Page) (*partition.Snapshot, error) { return req.Newest(ctx) }
	return list(ctx, req, r, sink, monitorTop, "the monitor", "", now, func(ctx context.Context, l *listing) error {
		c, err := req.Server.Part.DB.ReadCluster(ctx, time.Now())
		if err != nil {
			return err
		}
		kept, err := keptViews(ctx, req)
		if err != nil {
			return err
		}
		checkpoints, err := req.Server.Part.DB.Checkpoints(ctx)
		if err != nil {
			return err
		}
		return l.offerBelow(ctx, name, append(monitored(req, c, checkpoints), kept...))
	})
}

// monitorTop returns the entry cn=monitor without its counters.
func monitorTop(req *request.Request) *Entry {
	return newEntry(req, monitorName, "monitorServer", "cn", "monitor")
}

// monitored returns the entries that show this server's counters, and the entries that show the
// published data.
func monitored(req *request.Request, c *txn.Cluster, checkpoints []txn.Checkpoint) []*Entry {
	cluster := newEntry(req, clusterName, "monitorCluster", "cn", "cluster",
		"clusterNewest", c.Newest, "clusterSettled", c.Low, "clusterFloor", generalized(c.Horizon), "clusterConfig", c.Config)
	var kept []string
	for _, x := range checkpoints {
		kept = append(kept, x.Revision.String()+" "+x.Name)
	}
	cluster.add(req.Schema, "clusterCheckpoint", kept...)
	refused := ""
	if err := req.Server.Part.DB.Refusal(); err != nil {
		refused = err.Error()
	}
	top := monitorTop(req)
	if refused != "" {
		top.add(req.Schema, "writesRefused", refused)
	}
	all := []*Entry{top}
	if m := req.Server.Settings().Metrics; m != nil {
		r := m.Report()
		addTotals(req, top, r)
		all = append(all, counted(req, r)...)
		figures := newEntry(req, "cn=Metrics,"+monitorName, "monitoredObject", "cn", "Metrics")
		var lines []string
		for _, f := range m.Figures() {
			lines = append(lines, f.String())
		}
		figures.add(req.Schema, "monitoredInfo", lines...)
		all = append(all, figures)
	}
	all = append(all, cluster)
	for _, s := range c.Slots {
		cn := fmt.Sprintf("slot %d", s.Number)
		v := newEntry(req, "cn="+cn+","+clusterName, "monitorSlot", "cn", cn,
			"slotNumber", strconv.Itoa(s.Number), "slotState", s.State,
			"slotIncarnation", strconv.FormatUint(s.Incarnation, 10), "slotOwner", s.Owner,
			"slotHead", s.Head, "slotHeadAge", strconv.FormatInt(s.Age.Milliseconds(), 10),
			"slotLeases", strconv.FormatUint(s.Leases, 10), "slotUndecided", strconv.Itoa(s.Undecided),
			"slotVoid", strconv.Itoa(s.Void), "slotLate", strconv.Itoa(s.Late),
			"slotOldest", s.Oldest, "slotConfig", s.Config, "slotNote", s.Note)
		all = append(all, v)
	}
	return all
}

// keptViews returns the entries that show how the views are kept: cn=views and an entry
// below it for each view, if there are views.
func keptViews(ctx context.Context, req *request.Request) ([]*Entry, error) {
	s := req.Snapshot
	defs, _, err := materialized.Definitions(ctx, s)
	if err != nil {
		return nil, err
	}
	switch d, err := materialized.Builtin(ctx, s); {
	case err != nil:
		return nil, err
	case d != nil:
		defs = append(defs, d)
	case len(defs) == 0:
		return nil, nil
	}
	const above = "cn=views," + monitorName
	p := materialized.ProgressOf(req.Server.Part)
	all := []*Entry{newEntry(req, above, "monitorContainer", "cn", "views")}
	all[0].addClass(req, "extensibleObject")
	all[0].add(req.Schema, "monitoredInfo", fmt.Sprintf("lag %d entries", p.Entries), fmt.Sprintf("lag %d ms", p.Age.Milliseconds()),
		fmt.Sprintf("steps %d", p.Steps), fmt.Sprintf("errors %d", p.Errors))
	for _, d := range defs {
		st, err := materialized.StatusOf(ctx, s, d)
		if err != nil {
			return nil, err
		}
		of, err := d.Name.DN()
		if err != nil {
			return nil, err
		}
		cn := string(of[0][0].Value)
		name := dn.RDN{{Type: "cn", Value: []byte(cn)}}.String() + "," + above
		e := newEntry(req, name, "monitoredObject", "cn", cn, "monitoredInfo", "state "+st.State)
		if st.Reason != "" {
			e.add(req.Schema, "monitoredInfo", "reason "+st.Reason)
		}
		if st.UpTo != 0 {
			e.add(req.Schema, "monitorTimestamp", generalized(st.UpTo.Time()))
		}
		all = append(all, e)
	}
	return all, nil
}

func generalized(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("20060102150405.000Z")
}
