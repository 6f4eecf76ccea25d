package history

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/changestream"
	"github.com/seed-4dac0d86/ldapd/partition/erase"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// LogOptions select the changes that a log contains.
type LogOptions struct {
	// Name selects two kinds of changes. It selects all changes of the entry that has
	// this name in Until, under all names that the entry has had. It also selects the
	// changes that were made to other entries while they had this name. An empty Name
	// selects all changes.
	Name dn.DN
	// By selects the changes that were made by the identity with this name. An empty By
	// selects all changes.
	By dn.DN
	// Since selects the changes after a revision. Until selects the changes that a snapshot
	// shows, and must not be nil.
	Since table.Revision
	Until *partition.Snapshot
	// JSON writes each change as an object, with everything that changed.
	JSON bool
}

// Log writes who changed what and when, each change on one line. It returns the number
// of changes.
func Log(ctx context.Context, p *partition.Partition, w io.Writer, o LogOptions) (n int, err error) {
	l := logging{p: p, o: o}
	if err := l.prepare(ctx); err != nil {
		return 0, err
	}
	for c, err := range Changes(ctx, p, changestream.ShownAfter(ctx, o.Until, o.Since)) {
		if err != nil {
			return n, err
		}
		if about, err := l.about(ctx, c); err != nil || !about {
			if err != nil {
				return n, err
			}
			continue
		}
		if err := l.write(w, c); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// logging is the state of one call of Log.
type logging struct {
	p    *partition.Partition
	o    LogOptions
	id   entry.ID // the entry that has LogOptions.Name in Until, or entry.Root
	name string   // LogOptions.Name as normalized by Key
	by   string   // LogOptions.By as normalized by Key
}

func (l *logging) prepare(ctx context.Context) error {
	s := l.o.Until
	l.by = Key(l.o.By.String(), s.Schema())
	if len(l.o.Name) == 0 {
		return nil
	}
	l.name = Key(l.o.Name.String(), s.Schema())
	at, err := s.Find(ctx, l.o.Name)
	if isMissing(err) {
		return nil
	}
	l.id = at.ID
	return err
}

// about reports whether the log contains a change.
func (l *logging) about(ctx context.Context, c *Change) (bool, error) {
	s := l.o.Until.Schema()
	switch {
	case len(l.o.By) > 0 && Key(c.By.Name, s) != l.by:
		return false, nil
	case len(l.o.Name) == 0:
		return true, nil
	case c.Kind == erase.Erasure:
		return c.ID != entry.Root && (c.ID == l.id || Key(c.Name, s) == l.name || named(l.o.Name, c.ID)), nil
	case c.Request == nil:
		return l.imported(ctx, c)
	case c.ID == l.id || Key(c.Name, s) == l.name:
		return true, nil
	}
	became := c.NewName()
	return became != "" && Key(became, s) == l.name, nil
}

// named reports whether a name consists of the entryUUID of an entry. A log contains such a
// name for an entry whose real name was erased.
func named(name dn.DN, id entry.ID) bool {
	return len(name[0]) == 1 && strings.EqualFold(name[0][0].Type, "entryUUID") && strings.EqualFold(string(name[0][0].Value), id.String())
}

// imported reports whether the commit of c wrote the entry that had LogOptions.Name after the
// commit. That commit changed too many entries to list.
func (l *logging) imported(ctx context.Context, c *Change) (bool, error) {
	s, err := state.At(ctx, l.p, c.Revision)
	if err != nil {
		return false, err
	}
	defer s.Close()
	at, err := s.Find(ctx, l.o.Name)
	if isMissing(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	last, err := changestream.Written(ctx, s, at.ID)
	return last == c.Revision, err
}

// A line is the JSON form of a change.
type line struct {
	Time      time.Time `json:"time"`
	Revision  string    `json:"revision"`
	Op        string    `json:"op"`
	DN        string    `json:"dn,omitempty"`
	NewDN     string    `json:"newDN,omitempty"`
	EntryUUID string    `json:"entryUUID,omitempty"`
	By        string    `json:"by"`
	Bound     string    `json:"bound,omitempty"`
	From      string    `json:"from,omitempty"`
	Request   string    `json:"request,omitempty"`
	Session   string    `json:"session,omitempty"`
	Changes   string    `json:"changes,omitempty"` // as LDIF
	Secrets   []string  `json:"secrets,omitempty"`
}

func (l *logging) write(w io.Writer, c *Change) error {
	if !l.o.JSON {
		_, err := io.WriteString(w, c.line())
		return err
	}
	text, err := c.Text()
	if err != nil {
		return err
	}
	x := line{
		Time: c.Time(), Revision: c.Revision.String(), Op: c.Kind, DN: c.Name, NewDN: c.NewName(),
		By: c.By.Name, Bound: c.By.Bound, From: c.By.From, Request: c.By.Request, Session: c.By.Session,
		Changes: string(text), Secrets: c.Secrets,
	}
	if c.ID != entry.Root {
		x.EntryUUID = c.ID.String()
	}
	return json.NewEncoder(w).Encode(x)
}

// line returns a description of the change in one line.
func (c *Change) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s", c.Time().Format("2006-01-02T15:04:05.000Z"), c.Revision, c.Kind)
	if c.Name != "" {
		fmt.Fprintf(&b, " %q", c.Name)
	}
	if became := c.NewName(); became != "" {
		fmt.Fprintf(&b, " to %q", became)
	}
	for _, d := range c.attributes() {
		b.WriteString(" " + d)
	}
	fmt.Fprintf(&b, " by %q", c.By.Name)
	if c.By.From != "" {
		fmt.Fprintf(&b, " from %s", c.By.From)
	}
	if c.By.Request != "" {
		fmt.Fprintf(&b, " request %s", c.By.Request)
	}
	b.WriteByte('\n')
	return b.String()
}

// attributes returns the attributes that a modify changed, in the form of the access
// log.
func (c *Change) attributes() (names []string) {
	if r, ok := c.Request.(*op.Modify); ok {
		for _, m := range r.Changes {
			names = append(names, map[op.ModKind]string{op.ModAdd: "+", op.ModDelete: "-", op.ModReplace: "="}[m.Kind]+m.Description)
		}
		for _, s := range c.Secrets {
			names = append(names, "="+s)
		}
	}
	return names
}
