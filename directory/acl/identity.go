package acl

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// An Identity is a requester with the connection of the requester.
type Identity struct {
	// Name is the name of the bound identity. It is empty if the identity is anonymous.
	Name dn.DN
	// Entry is the entry of the identity, or nil if the identity has no entry.
	Entry *entry.Entry
	// Groups are the names of the groups that the identity is in, directly or through
	// other groups.
	Groups []dn.DN
	Connection
}

// A Connection contains the properties of an identity's connection that rules can test,
// and the time.
type Connection struct {
	Secure    bool // the connection uses TLS or a socket on this machine
	Local     bool // the connection uses a socket on this machine
	SSF       int
	Address   netip.Addr
	Mechanism string // mechanism of the bind, in lower case, such as "simple"
	Proxied   bool
	Time      time.Time
}

// holds reports whether the connection meets the condition.
func (c *Connection) holds(cond *Condition) bool {
	met := false
	switch cond.Kind {
	case Secure:
		met = c.Secure || c.Local
	case Local:
		met = c.Local
	case Proxied:
		met = c.Proxied
	case SSF:
		met = c.SSF >= cond.SSF
	case Address:
		met = c.Address.IsValid() && cond.Network.Contains(c.Address.Unmap())
	case Mechanism:
		met = strings.EqualFold(c.Mechanism, cond.Mechanism)
	case TimeOfDay:
		at := c.Time.In(cond.Zone)
		met = within(at.Hour()*60+at.Minute(), cond.From, cond.To)
	case Weekday:
		met = within(int(c.Time.Weekday()), cond.From, (cond.To+1)%7) || cond.From == (cond.To+1)%7
	}
	return met != cond.Not
}

// within reports whether v is in the interval [from, to), which wraps around if to <
// from.
func within(v, from, to int) bool {
	if from <= to {
		return from <= v && v < to
	}
	return v >= from || v < to
}

// asker is an identity with the normalised names of its entry and its groups.
type asker struct {
	*Identity
	name   []dn.Norm
	groups [][]dn.Norm
	source *filter.EntrySource // the identity's entry; nil: the identity has none
}

func newAsker(sch *schema.Schema, id *Identity) (a *asker, err error) {
	a = &asker{Identity: id}
	if a.name, err = id.Name.Normalize(sch); err != nil {
		return nil, err
	}
	for _, g := range id.Groups {
		n, err := g.Normalize(sch)
		if err != nil {
			return nil, err
		}
		a.groups = append(a.groups, n)
	}
	if id.Entry != nil {
		a.source = &filter.EntrySource{Schema: sch, Entry: id.Entry, Name: id.Name}
	}
	return a, nil
}

func (a *asker) isAnonymous() bool { return len(a.name) == 0 }

// inGroup reports whether the identity is in the group whose name has the given key.
func (a *asker) inGroup(key string) bool {
	return slices.ContainsFunc(a.groups, func(g []dn.Norm) bool { return string(dn.Key(g)) == key })
}
