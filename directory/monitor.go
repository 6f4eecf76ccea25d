package directory

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/monitor"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/maintain"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// Below cn=monitor stands what the servers of the store publish of themselves, as
// `ldapd cluster` shows it: read anew for every search, in one row.
const (
	monitorName = "cn=monitor"
	clusterName = "cn=cluster," + monitorName
)

// searchMonitor runs a search of it.
func (o *operation) searchMonitor(ctx context.Context, name dn.DN, r *op.Search, sink op.Sink) error {
	now := func(context.Context, *page) (*partition.Snapshot, error) { return o.now(), nil }
	return o.list(ctx, r, sink, "the monitor", now, func(ctx context.Context, l *listing) error {
		c, err := maintain.Cluster(ctx, o.d.part, time.Now())
		if err != nil {
			return err
		}
		return l.offerBelow(name, o.monitored(c))
	})
}

// offerBelow offers those of some entries, which stand in the order of a tree, that
// are in the scope of a base.
func (l *listing) offerBelow(base dn.DN, entries []*virtual) error {
	wanted, err := base.Normalize(l.o.schema)
	if err != nil {
		return op.Errorf(op.InvalidDNSyntax, "base: %v", err)
	}
	there, matched := false, ""
	var inScope []int
	for i, v := range entries {
		name, err := v.norms(l.o.schema)
		if err != nil {
			return err
		}
		if n := shared(name, wanted); n == len(name) && n > 0 {
			there, matched = n == len(wanted), v.name // the deepest comes last
		}
		if shared(name, wanted) == len(wanted) && covers(l.r.Scope, len(name)-len(wanted)) {
			inScope = append(inScope, i)
		}
	}
	if !there {
		return &op.Result{Code: op.NoSuchObject, MatchedDN: matched, Diagnostic: "the server tells of no such entry"}
	}
	for _, i := range inScope {
		if l.goesOn() && i <= l.page.skip {
			continue
		}
		if err := l.offer(entries[i], nil, i); err != nil {
			return err
		}
	}
	return nil
}

func (v *virtual) norms(s *schema.Schema) ([]dn.Norm, error) {
	name, err := dn.Parse(v.name)
	if err != nil {
		return nil, err
	}
	return name.Normalize(s)
}

// shared is how many names two DNs have in common, from the root on.
func shared(a, b []dn.Norm) (n int) {
	for n < min(len(a), len(b)) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

// covers reports whether a scope has what is some levels below its base.
func covers(scope op.Scope, levels int) bool {
	switch scope {
	case op.BaseObject:
		return levels == 0
	case op.SingleLevel:
		return levels == 1
	case op.Subordinates:
		return levels > 0
	}
	return true
}

// monitored is what the servers tell, as entries.
func (o *operation) monitored(c *monitor.Cluster) []*virtual {
	cluster := o.virtualEntry(clusterName, "monitorCluster", "cn", "cluster",
		"clusterNewest", c.Newest, "clusterSettled", c.Low, "clusterFloor", generalized(c.Floor), "clusterConfig", c.Config)
	all := []*virtual{o.virtualEntry(monitorName, "applicationProcess", "cn", "monitor"), cluster}
	for _, s := range c.Slots {
		cn := fmt.Sprintf("slot %d", s.Number)
		v := o.virtualEntry("cn="+cn+","+clusterName, "monitorSlot", "cn", cn,
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

// virtualEntry makes an entry of a class from pairs of an attribute and its value;
// what is empty is left out.
func (o *operation) virtualEntry(name, class string, pairs ...string) *virtual {
	v := &virtual{name: name}
	v.add(o.schema, "objectClass", "top", class)
	for p := range slices.Chunk(pairs, 2) {
		if p[1] != "" {
			v.add(o.schema, p[0], p[1])
		}
	}
	v.add(o.schema, "structuralObjectClass", class)
	v.add(o.schema, "entryDN", name)
	v.add(o.schema, "subschemaSubentry", partition.SubschemaName)
	return v
}

func generalized(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("20060102150405.000Z")
}
