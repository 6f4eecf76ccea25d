package write

import (
	"github.com/seed-4dac0d86/ldapd/directory/internal/locate"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
)

// checkFollowing returns a referral if the directory follows another server (package
// catalog.Following), because updates must then be sent to that server. It returns nil for
// updates of the schema and the settings, which a following directory does not take from the
// other server.
func checkFollowing(req *request.Request, name dn.DN) error {
	f := req.Snapshot.Catalog.Header.Following
	if f == nil || catalog.IsSubschema(name) || catalog.IsConfig(name) {
		return nil
	}
	return &op.Result{
		Code:       op.Referral,
		Diagnostic: "this directory follows another server until it replaces that server: send updates to that server",
		Referrals:  locate.ReferralURLs([][]byte{[]byte(f.URL)}, name.String(), nil, ""),
	}
}
