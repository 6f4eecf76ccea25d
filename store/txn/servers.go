package txn

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A roster has what the servers of a store tell about themselves.
type roster struct{ db *DB }

// A Server is what a server of a store publishes about itself when it starts.
type Server struct {
	Version string    `json:"version"`
	Status  string    `json:"status"` // URL of the server's status listener; "": none
	Since   time.Time `json:"since"`
}

// forgotten is the age from which the information about a server without a slot is
// removed. The age is the time since that server started.
const forgotten = 24 * time.Hour

// Announce publishes the information about this server. It also removes the information
// about each server that holds no slot and started more than a day before this server.
func (x *roster) Announce(ctx context.Context, s Server) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	log := journal.New(x.db.Store())
	all, alive, err := publishedBy(ctx, log)
	if err != nil {
		return err
	}
	for owner, other := range all {
		if !alive[owner] && s.Since.Sub(other.Since) > forgotten {
			if err := log.SetServer(ctx, owner, nil); err != nil {
				return err
			}
		}
	}
	return log.SetServer(ctx, x.db.Owner(), text)
}

// Withdraw removes the information about this server.
func (x *roster) Withdraw(ctx context.Context) error {
	return journal.New(x.db.Store()).SetServer(ctx, x.db.Owner(), nil)
}

// Servers returns what the servers that hold a slot of the store have published. The key
// is the server's name, which its slot contains as the owner.
func (x *roster) Servers(ctx context.Context) (map[string]Server, error) {
	all, alive, err := publishedBy(ctx, journal.New(x.db.Store()))
	for owner := range all {
		if !alive[owner] {
			delete(all, owner)
		}
	}
	return all, err
}

// publishedBy returns what all servers have published, by server name, and the names of the
// servers that hold a slot.
func publishedBy(ctx context.Context, log *journal.Log) (all map[string]Server, alive map[string]bool, err error) {
	texts, err := log.Servers(ctx)
	if err != nil {
		return nil, nil, err
	}
	h, err := log.Heads(ctx)
	if err != nil {
		return nil, nil, err
	}
	alive = map[string]bool{}
	for _, number := range h.Slots() {
		alive[h.Cell(number).Owner] = true
	}
	all = map[string]Server{}
	for owner, text := range texts {
		var s Server
		_ = json.Unmarshal(text, &s) // fields that only a newer version has are ignored
		all[owner] = s
	}
	return all, alive, nil
}

// A Cluster describes the servers of one store. A revision is in the text form of
// package revision, or "" if there is none.
type Cluster struct {
	Newest  string        `json:"newest"` // the newest revision that any server shows
	Low     string        `json:"low"`    // low-water mark: all commits up to it are decided
	Settled time.Time     `json:"-"`      // time of Low
	Horizon time.Time     `json:"floor"`  // time of the oldest readable state; zero: all states are readable
	Config  string        `json:"config"` // the newest configuration in force on any server
	Slots   []ClusterSlot `json:"slots"`
}

// A ClusterSlot describes what the slot's holder publishes, or the state of a slot without a
// holder.
type ClusterSlot struct {
	Number      int           `json:"slot"`
	State       string        `json:"state"`
	Incarnation uint64        `json:"incarnation"` // number of holders until now
	Owner       string        `json:"owner"`
	Head        string        `json:"head"`
	Age         time.Duration `json:"-"` // age of the head, by this machine's clock
	AgeSeconds  float64       `json:"ageSeconds"`
	Leases      uint64        `json:"leases"`    // number of renewals of the lease
	Undecided   int           `json:"undecided"` // pending commits below the head
	Void        int           `json:"void"`      // aborted commits whose cells may remain
	Late        int           `json:"late"`      // visible commits that the head does not cover
	Oldest      string        `json:"oldest"`    // low-water mark of the oldest snapshot in use
	Config      string        `json:"config"`    // the configuration in force
	Note        string        `json:"note"`      // what needs attention
}

// ReadCluster describes the servers of a store by the heads that they publish.
func (x *roster) ReadCluster(ctx context.Context, now time.Time) (*Cluster, error) {
	h, err := journal.New(x.db.Store()).Heads(ctx)
	if err != nil {
		return nil, err
	}
	if !x.db.Shared() {
		x.ownHead(h)
	}
	return describeHeads(h, now, x.db.Lease()), nil
}

// ownHead sets the head of an embedded store's only server to the newest revision that
// the server shows. The server does not write its head at every commit.
func (x *roster) ownHead(h *journal.Heads) {
	s := x.db.Snapshot()
	defer s.Close()
	cells := map[revision.Slot]revision.Cell{}
	for _, number := range h.Slots() {
		c := h.Cell(number)
		if !number.IsBranch() {
			c.Head = max(c.Head, s.Max())
		}
		cells[number] = c
	}
	h.Vector = revision.NewVector(cells, nil)
	h.Horizon = max(h.Horizon, x.db.Horizon())
}

func describeHeads(h *journal.Heads, now time.Time, lease time.Duration) *Cluster {
	c := &Cluster{Newest: revisionText(h.Max()), Low: revisionText(h.Low())}
	if h.Low() != 0 {
		c.Settled = h.Low().Time().UTC()
	}
	if h.Horizon != 0 {
		c.Horizon = h.Horizon.Time().UTC()
	}
	var config table.Revision
	for _, number := range h.Slots() {
		if x := h.Cell(number); x.State == revision.Open {
			config = max(config, x.Config)
		}
	}
	c.Config = revisionText(config)
	for _, number := range h.Slots() {
		x := h.Cell(number)
		age := time.Duration(0)
		if x.Head != 0 {
			age = max(now.Sub(x.Head.Time()), 0)
		}
		c.Slots = append(c.Slots, ClusterSlot{
			Number: int(number), State: x.State.String(), Incarnation: x.Incarnation, Owner: x.Owner,
			Head: revisionText(x.Head), Age: age, AgeSeconds: age.Seconds(), Leases: x.Lease,
			Undecided: len(x.Undecided), Void: len(x.Void), Late: len(x.Late),
			Oldest: revisionText(x.Oldest), Config: revisionText(x.Config),
			Note: attention(&x, age, config, lease),
		})
	}
	return c
}

// attention returns what an operator should know about a slot, or "" if there is nothing to
// know.
func attention(x *revision.Cell, age time.Duration, config table.Revision, lease time.Duration) string {
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

func revisionText(r table.Revision) string {
	if r == 0 {
		return ""
	}
	return r.String()
}

// Print writes the cluster to w as a table.
func (c *Cluster) Print(w io.Writer) error {
	floor := "the past is all kept"
	if !c.Horizon.IsZero() {
		floor = "the past can be read from " + c.Horizon.Format(time.RFC3339) + " on"
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

func (s *ClusterSlot) age() string {
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
