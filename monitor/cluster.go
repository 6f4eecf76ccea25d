// Package monitor says how a directory and its servers are. [Read] reads what
// the servers of a store publish of themselves, in one row, so it is one moment of
// all of them.
package monitor

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/seed-4dac0d86/ldapd/journal"
	"github.com/seed-4dac0d86/ldapd/revision"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// A Cluster is the servers of one store. Revisions are as package revision prints
// them, "" where there is none.
type Cluster struct {
	Newest  string    `json:"newest"` // that is shown
	Low     string    `json:"low"`    // up to it nothing changes any more
	Settled time.Time `json:"-"`      // when that was
	Floor   time.Time `json:"floor"`  // the oldest state that can still be read; zero: any
	Config  string    `json:"config"` // the newest configuration in force anywhere
	Slots   []Slot    `json:"slots"`
}

// A Slot is what its holder publishes, or what became of it.
type Slot struct {
	Number      int           `json:"slot"`
	State       string        `json:"state"`
	Incarnation uint64        `json:"incarnation"` // counts the holders
	Owner       string        `json:"owner"`
	Head        string        `json:"head"`
	Age         time.Duration `json:"-"` // of the head, by this machine's clock
	AgeSeconds  float64       `json:"ageSeconds"`
	Leases      uint64        `json:"leases"`    // renewals
	Undecided   int           `json:"undecided"` // commits under way that the head has passed
	Void        int           `json:"void"`      // commits given up whose cells may remain
	Late        int           `json:"late"`      // commits of a closed incarnation beyond its head
	Oldest      string        `json:"oldest"`    // low-water mark of the oldest snapshot in use
	Config      string        `json:"config"`    // in force
	Note        string        `json:"note"`      // what is to be seen to
}

// Read reads the heads of a store. A holder whose head is older than two leases is
// said to be silent.
func Read(ctx context.Context, db *txn.DB, now time.Time) (*Cluster, error) {
	h, err := journal.New(db.Store()).Heads(ctx)
	if err != nil {
		return nil, err
	}
	if !db.Shared() {
		ownHead(db, h)
	}
	return describe(h, now, db.Lease()), nil
}

// ownHead puts into the heads of a store of one process what it shows: it does not
// write that down for others at every commit.
func ownHead(db *txn.DB, h *journal.Heads) {
	s := db.Snapshot()
	defer s.Close()
	cells := map[revision.Slot]revision.Cell{}
	for _, number := range h.Slots() {
		c := h.Cell(number)
		c.Head = max(c.Head, s.Max())
		cells[number] = c
	}
	h.Vector = revision.NewVector(cells, nil)
	h.Horizon = max(h.Horizon, db.Horizon())
}

func describe(h *journal.Heads, now time.Time, lease time.Duration) *Cluster {
	c := &Cluster{Newest: text(h.Max()), Low: text(h.Low())}
	if h.Low() != 0 {
		c.Settled = h.Low().Time().UTC()
	}
	if h.Horizon != 0 {
		c.Floor = h.Horizon.Time().UTC()
	}
	var config table.Revision
	for _, number := range h.Slots() {
		if x := h.Cell(number); x.State == revision.Open {
			config = max(config, x.Config)
		}
	}
	c.Config = text(config)
	for _, number := range h.Slots() {
		x := h.Cell(number)
		age := time.Duration(0)
		if x.Head != 0 {
			age = max(now.Sub(x.Head.Time()), 0)
		}
		c.Slots = append(c.Slots, Slot{
			Number: int(number), State: x.State.String(), Incarnation: x.Incarnation, Owner: x.Owner,
			Head: text(x.Head), Age: age, AgeSeconds: age.Seconds(), Leases: x.Lease,
			Undecided: len(x.Undecided), Void: len(x.Void), Late: len(x.Late),
			Oldest: text(x.Oldest), Config: text(x.Config),
			Note: note(&x, age, config, lease),
		})
	}
	return c
}

// note says what an operator should know of a slot.
func note(x *revision.Cell, age time.Duration, config table.Revision, lease time.Duration) string {
	switch {
	case x.State == revision.Recovering:
		return "silent: another server decides what it left"
	case x.State == revision.Closed:
		return "over: another server cleans up what it left"
	case x.State == revision.Open && x.Limit != 0 && age > 2*lease:
		return "silent: to be recovered"
	case x.State == revision.Open && x.Config < config:
		return "has not taken up the newest configuration"
	}
	return ""
}

func text(r table.Revision) string {
	if r == 0 {
		return ""
	}
	return r.String()
}

// Print writes the cluster as a table for people.
func (c *Cluster) Print(w io.Writer) error {
	floor := "the past is all kept"
	if !c.Floor.IsZero() {
		floor = "the past can be read from " + c.Floor.Format(time.RFC3339) + " on"
	}
	fmt.Fprintf(w, "newest %s, settled up to %s; %s\n", dash(c.Newest), dash(c.Low), floor)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SLOT\tSTATE\tINCARNATION\tOWNER\tHEAD\tAGE\tLEASES\tUNDECIDED\tVOID\tLATE\tOLDEST READ\tCONFIG\tNOTE")
	for _, s := range c.Slots {
		fmt.Fprintf(t, "%d\t%s\t%d\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n",
			s.Number, s.State, s.Incarnation, dash(s.Owner), dash(s.Head), s.age(), s.Leases,
			s.Undecided, s.Void, s.Late, dash(s.Oldest), dash(s.Config), dash(s.Note))
	}
	return t.Flush()
}

func (s *Slot) age() string {
	if s.Head == "" {
		return "-"
	}
	return s.Age.Round(time.Millisecond).String()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
