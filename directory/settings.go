package directory

import (
	"github.com/seed-4dac0d86/ldapd/dn"
)

// settings are Options ready to use. They are replaced as a whole, see
// [Directory.Reconfigure].
type settings struct {
	Options
	rules      []limitRule
	anonymous  *Limits
	admin      dn.DN
	adminKey   string // "": there is no administrator
	mechanisms []mechanism
}

func (d *Directory) settings() *settings { return d.current.Load() }

// Admin returns the administrator's DN, as it is configured now.
func (d *Directory) Admin() string { return d.settings().Options.Admin }

// Reconfigure replaces the options of a directory that is serving. Operations that
// begin afterwards follow the new ones; sessions stay bound. Secret, Passwords, Log,
// Access, Extensions and Version keep their values. The errors are those of [New], and
// leave everything as it was.
func (d *Directory) Reconfigure(o Options) error {
	was := d.settings()
	o.Secret, o.Passwords, o.Log = was.Secret, was.Passwords, was.Log
	o.Access, o.Extensions, o.Version = was.Access, was.Extensions, was.Version
	o.ensureDefaults()
	set, err := d.prepare(o)
	if err != nil {
		return err
	}
	d.current.Store(set)
	return nil
}

// prepare checks options.
func (d *Directory) prepare(o Options) (*settings, error) {
	set := &settings{Options: o, mechanisms: newMechanisms(o.Mechanisms, o.Tokens)}
	var err error
	if set.rules, err = d.limitRules(set); err != nil {
		return nil, err
	}
	set.anonymous = d.findLimits(set, nil)
	if o.Admin == "" || o.AdminPassword == "" {
		return set, nil
	}
	if set.admin, set.adminKey, err = d.parse(o.Admin); err != nil {
		return nil, err
	}
	d.passwords.Expect([]byte(o.AdminPassword))
	return set, nil
}
