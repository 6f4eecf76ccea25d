// Package settings defines the options of a directory, checked and ready to use, and the
// identities that limits apply to.
package settings

import (
	"crypto/sha256"
	"slices"

	"github.com/seed-4dac0d86/ldapd/directory/internal/accesslog"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// Settings are checked Options with the values derived from them. Settings never change:
// Reconfigure replaces them as a whole.
type Settings struct {
	Options
	rules     []limitRule
	anonymous *Limits
	AdminName dn.DN
	AdminKey  string // "": there is no administrator
	// BoundNames is the id below which the state remembers names with which entries were bound. It depends
	// on the administrator's name, which is no entry's in a bind.
	BoundNames entry.ID
	// Watchers are all observers: the Observers of the options, and the observers that
	// the options Metrics, Access and Slow require.
	Watchers []monitor.Observer
}

// New checks options and returns the Settings.
func New(o Options, s *schema.Schema) (*Settings, error) {
	set := &Settings{Options: o, Watchers: watchers(&o)}
	var err error
	if set.rules, err = limitRules(set, s); err != nil {
		return nil, err
	}
	set.anonymous = set.findLimits(nil, s)
	set.BoundNames = boundNames("")
	if o.Admin == "" || o.AdminPassword == "" {
		return set, nil
	}
	if set.AdminName, set.AdminKey, err = ParseName(o.Admin, s); err != nil {
		return nil, err
	}
	set.BoundNames = boundNames(set.AdminKey)
	o.Passwords.Expect([]byte(o.AdminPassword))
	return set, nil
}

func boundNames(admin string) entry.ID {
	sum := sha256.Sum256([]byte("bind " + admin))
	return entry.ID(sum[:len(entry.ID{})])
}

func watchers(o *Options) []monitor.Observer {
	all := slices.Clone(o.Observers)
	if o.Metrics != nil {
		all = append(all, o.Metrics.Observe)
	}
	if o.Access != nil {
		all = append(all, accesslog.Operations(o.Access))
	}
	if o.Slow > 0 {
		all = append(all, accesslog.SlowOperations(o.Log))
	}
	return all
}

// ParseName parses a DN and returns the key by which names are compared.
func ParseName(text string, s *schema.Schema) (dn.DN, string, error) {
	name, err := dn.Parse(text)
	if err != nil {
		return nil, "", op.Errorf(op.InvalidDNSyntax, "%v", err)
	}
	key, err := NameKey(name, s)
	return name, key, err
}

// NameKey returns the key by which names are compared.
func NameKey(name dn.DN, s *schema.Schema) (string, error) {
	norm, err := name.Normalize(s)
	if err != nil {
		return "", op.Errorf(op.InvalidDNSyntax, "%v", err)
	}
	return string(dn.Key(norm)), nil
}
