package directory

import (
	"log/slog"
	"sync/atomic"

	"github.com/seed-4dac0d86/ldapd/auth"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// A server is what all requests share.
type server struct {
	part      *partition.Partition
	passwords *auth.Passwords
	log       *slog.Logger
	beside    background

	current  atomic.Pointer[settings]
	known    atomic.Pointer[known] // of the schema last seen
	sessions atomic.Uint64         // so far
}

// newServer returns that of a partition. The error is an option that cannot be used.
func newServer(p *partition.Partition, o Options) (*server, error) {
	o.ensureDefaults()
	d := &server{part: p, passwords: o.Passwords, log: o.Log}
	d.known.Store(newKnown(p.Schema()))
	set, err := newSettings(o, p.Schema())
	if err != nil {
		return nil, err
	}
	d.current.Store(set)
	return d, nil
}

// settings returns the options in force.
func (d *server) settings() *settings { return d.current.Load() }

// reconfigure replaces the options. Secret, Passwords, Log, Access, Extensions and
// Version keep their values. The error is an option that cannot be used, and leaves
// everything as it was.
func (d *server) reconfigure(o Options) error {
	was := d.settings()
	o.Secret, o.Passwords, o.Log = was.Secret, was.Passwords, was.Log
	o.Access, o.Extensions, o.Version = was.Access, was.Extensions, was.Version
	o.ensureDefaults()
	set, err := newSettings(o, d.part.Schema())
	if err != nil {
		return err
	}
	d.current.Store(set)
	return nil
}

// close ends what goes on beside requests.
func (d *server) close() { d.beside.close() }

// knownOf returns what is known of a schema. That of the schema in force is kept.
func (d *server) knownOf(s *schema.Schema) *known {
	if k := d.known.Load(); k.schema == s {
		return k
	}
	k := newKnown(s)
	if s == d.part.Schema() {
		d.known.Store(k)
	}
	return k
}

// key returns what names are compared by.
func (d *server) key(name dn.DN) (string, error) { return nameKey(name, d.part.Schema()) }

// isAdmin reports whether a name is the administrator's.
func (d *server) isAdmin(name dn.DN) bool {
	set := d.settings()
	if set.adminKey == "" || len(name) != len(set.adminName) {
		return false // without the cost of a normalised name
	}
	key, err := d.key(name)
	return err == nil && key == set.adminKey
}

// limitsOf returns the limits of an identity: of the first rule that fits.
func (d *server) limitsOf(i *identity) *Limits { return d.settings().limitsOf(i, d.part.Schema()) }
