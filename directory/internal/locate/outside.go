package locate

import (
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/virtual"
	"github.com/seed-4dac0d86/ldapd/directory/settings"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// checkOutside returns the configured referral, if any, for a name outside all naming
// contexts (RFC 4511, 4.1.10). It returns nil for the names that package virtual serves, such
// as cn=monitor. ManageDsaIT makes no difference, because that control applies to entries of
// this server. The parameter scope is the scope that the URLs contain for a search, and
// otherwise "".
func checkOutside(req *request.Request, name dn.DN, scope string) error {
	urls := req.Server.Settings().Referral
	if len(urls) == 0 || virtual.Holds(name) || inContext(req.Server, name) {
		return nil
	}
	r := &op.Result{Code: op.Referral, Diagnostic: "the name is in none of the naming contexts"}
	for _, url := range urls {
		r.Referrals = append(r.Referrals, referralURL(url, name.String(), nil, scope))
	}
	return r
}

// inContext reports whether a name is in a naming context.
func inContext(d *request.Server, name dn.DN) bool {
	for _, text := range d.Part.Config().Suffixes {
		suffix, key, err := settings.ParseName(text, d.Part.Schema())
		if err != nil || len(suffix) > len(name) {
			continue
		}
		// Compare only the end: other RDNs of the name may have types that only
		// other servers define.
		if end, err := d.Key(name[len(name)-len(suffix):]); err == nil && end == key {
			return true
		}
	}
	return false
}
