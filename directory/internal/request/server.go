package request

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/seed-4dac0d86/ldapd/directory/access"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/internal/accountlog"
	"github.com/seed-4dac0d86/ldapd/directory/internal/policies"
	"github.com/seed-4dac0d86/ldapd/directory/internal/transaction"
	"github.com/seed-4dac0d86/ldapd/directory/internal/wellknown"
	"github.com/seed-4dac0d86/ldapd/directory/settings"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// A Server contains what all requests share.
type Server struct {
	Part       *partition.Partition
	Passwords  *auth.Passwords
	Log        *slog.Logger
	Background Background
	Policies   *policies.Cache
	Ledgers    *accountlog.Book
	Kept       transaction.Memory // memory of the transactions of all sessions

	warning     sync.Mutex
	unmatchable map[string]bool // of which WarnUnmatchable has warned

	rules    *access.Rules
	current  atomic.Pointer[settings.Settings]
	known    atomic.Pointer[wellknown.Elements] // cached elements of the schema in force
	Sessions atomic.Uint64                      // the number of sessions begun so far
}

// NewServer returns the Server of a partition. It fails if an option cannot be used.
func NewServer(p *partition.Partition, o settings.Options) (*Server, error) {
	o.EnsureDefaults()
	d := &Server{Part: p, Passwords: o.Passwords, Log: o.Log, rules: access.NewRules(), unmatchable: map[string]bool{},
		Policies: policies.NewCache(o.Log), Ledgers: accountlog.NewBook(p, o.Log)}
	d.known.Store(wellknown.New(p.Schema()))
	set, err := settings.New(o, p.Schema())
	if err != nil {
		return nil, err
	}
	d.current.Store(set)
	return d, nil
}

// WarnUnmatchable logs, once for a type and a rule, that a filter tests the type although its definition
// lacks the matching rule for that test.
func (d *Server) WarnUnmatchable(t *schema.AttributeType, rule string) {
	d.warning.Lock()
	known := d.unmatchable[rule+" "+t.OID]
	d.unmatchable[rule+" "+t.OID] = true
	d.warning.Unlock()
	if !known {
		d.Log.Warn("a filter can match nothing: the definition of the attribute type names no such matching rule", "attribute", t.Name(), "rule", rule)
	}
}

// Settings returns the options in force.
func (d *Server) Settings() *settings.Settings { return d.current.Load() }

// Reconfigure replaces the options. Secret, Passwords, Log, Access, Metrics, StartJob,
// Jobs, Health, Observers, Trace, Extensions and Version keep their values. If an option cannot be used,
// Reconfigure fails and changes nothing.
func (d *Server) Reconfigure(o settings.Options) error {
	was := d.Settings()
	o.Secret, o.Passwords, o.Log = was.Secret, was.Passwords, was.Log
	o.Access, o.Extensions, o.Version = was.Access, was.Extensions, was.Version
	o.StartJob, o.Jobs = was.StartJob, was.Jobs
	o.Metrics, o.Health, o.Observers, o.Trace = was.Metrics, was.Health, was.Observers, was.Trace
	o.EnsureDefaults()
	set, err := settings.New(o, d.Part.Schema())
	if err != nil {
		return err
	}
	d.current.Store(set)
	return nil
}

// Close ends background work.
func (d *Server) Close() {
	d.Background.Close()
	d.Ledgers.Close()
}

// knownOf returns the elements of a schema. The elements of the schema in force are
// cached.
func (d *Server) knownOf(s *schema.Schema) *wellknown.Elements {
	if k := d.known.Load(); k.Schema == s {
		return k
	}
	k := wellknown.New(s)
	if s == d.Part.Schema() {
		d.known.Store(k)
	}
	return k
}

// Key returns the key by which names are compared.
func (d *Server) Key(name dn.DN) (string, error) { return settings.NameKey(name, d.Part.Schema()) }

// IsAdmin reports whether a name is the administrator's.
func (d *Server) IsAdmin(name dn.DN) bool {
	set := d.Settings()
	if set.AdminKey == "" || len(name) != len(set.AdminName) {
		return false // a quick test that avoids normalising the name
	}
	key, err := d.Key(name)
	return err == nil && key == set.AdminKey
}

// LimitsOf returns the limits of an identity, which the first matching rule sets.
func (d *Server) LimitsOf(i *settings.Identity) *settings.Limits {
	return d.Settings().LimitsOf(i, d.Part.Schema())
}
