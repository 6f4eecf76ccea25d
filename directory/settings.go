package directory

import (
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// settings are Options ready to use. They are replaced as a whole.
type settings struct {
	Options
	rules     []limitRule
	anonymous *Limits
	adminName dn.DN
	adminKey  string // "": there is no administrator
}

// newSettings checks options.
func newSettings(o Options, s *schema.Schema) (*settings, error) {
	set := &settings{Options: o}
	var err error
	if set.rules, err = limitRules(set, s); err != nil {
		return nil, err
	}
	set.anonymous = set.findLimits(nil, s)
	if o.Admin == "" || o.AdminPassword == "" {
		return set, nil
	}
	if set.adminName, set.adminKey, err = parseName(o.Admin, s); err != nil {
		return nil, err
	}
	o.Passwords.Expect([]byte(o.AdminPassword))
	return set, nil
}

// parseName reads a DN and returns the key by which names are compared.
func parseName(text string, s *schema.Schema) (dn.DN, string, error) {
	name, err := dn.Parse(text)
	if err != nil {
		return nil, "", op.Errorf(op.InvalidDNSyntax, "%v", err)
	}
	key, err := nameKey(name, s)
	return name, key, err
}

// nameKey returns what names are compared by.
func nameKey(name dn.DN, s *schema.Schema) (string, error) {
	norm, err := name.Normalize(s)
	if err != nil {
		return "", op.Errorf(op.InvalidDNSyntax, "%v", err)
	}
	return string(dn.Key(norm)), nil
}
