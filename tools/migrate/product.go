package migrate

import (
	"strings"

	"github.com/go-ldap/ldap/v3"
)

// A product is what has to be known about a kind of server. The attributes that an import
// leaves out are listed in bulk.Foreign.
type product struct {
	name string
	// contexts are the naming contexts with the server's own data.
	contexts []string
	// schema are the prefixes of the OIDs of definitions that are about the server's own
	// configuration.
	schema []string
	// hidden is an object class whose entries are found only by a filter that names the
	// class.
	hidden string
	// id is the attribute with the ids that the product uses besides entryUUID, or "" if there
	// is none.
	id string
	// lost is a text about what the server keeps outside the copied entries.
	lost string
	// limits is a text about where the limits of searches are set.
	limits string
}

var (
	openLDAP = product{
		name: "OpenLDAP", contexts: []string{"cn=config", "cn=monitor", "cn=accesslog"},
		schema: []string{"1.3.6.1.4.1.4203.1.12.2.", "1.3.6.1.4.1.4203.666.", "1.3.6.1.4.1.4203.1.4."},
		lost:   "access rules (olcAccess), overlays and their settings, limits, the default password policy (olcPPolicyDefault)",
		limits: `olcLimits: dn.exact="..." size=unlimited time=unlimited`,
	}
	dirsrv = product{
		name: "389 Directory Server", contexts: []string{"cn=config", "cn=changelog", "o=netscaperoot"},
		hidden: "ldapSubEntry", id: "nsUniqueId",
		lost:   "access rules (aci), password policies and account policies, roles and classes of service as such, plug-ins and their settings",
		limits: "nsSizeLimit, nsTimeLimit and nsLookThroughLimit of that entry, -1 is no limit",
	}
	apacheDS = product{
		name: "ApacheDS", contexts: []string{"ou=system", "ou=schema", "ou=config", "dc=config"},
		lost:   "access rules (entryACI, prescriptiveACI), password policies, triggers",
		limits: "ads-maxSizeLimit",
	}
	openDJ = product{
		name: "OpenDJ", contexts: []string{"cn=config", "cn=schema", "cn=monitor", "cn=changelog", "cn=admin data", "cn=tasks", "cn=backups"},
		lost:   "access rules (aci), password policies, collective and virtual attributes as such",
		limits: "ds-rlim-size-limit and ds-rlim-time-limit of that entry, 0 is no limit",
	}
	ldapd = product{
		name: "ldapd", contexts: []string{"cn=config", "cn=changelog", "cn=monitor", "cn=views"},
		lost:   "access rules, indexes, unique attributes and references (ldapd export has them)",
		limits: "limits.search, or bind as the administrator",
	}
	unknown = product{name: "a server of a kind that is not known", contexts: []string{"cn=config", "cn=changelog", "cn=monitor"},
		lost: "access rules and policies", limits: "see its manual"}
)

func productOf(root *ldap.Entry) product {
	vendor := strings.ToLower(root.GetEqualFoldAttributeValue("vendorName"))
	for _, class := range root.GetEqualFoldAttributeValues("objectClass") {
		if strings.EqualFold(class, "OpenLDAProotDSE") {
			return openLDAP
		}
	}
	switch {
	case strings.Contains(vendor, "389 project"), strings.Contains(vendor, "red hat"):
		return dirsrv
	case strings.Contains(vendor, "apache"):
		return apacheDS
	case strings.Contains(vendor, "forgerock"), strings.Contains(vendor, "open identity"), strings.Contains(vendor, "wren"):
		return openDJ
	case vendor == "ldapd":
		return ldapd
	}
	return unknown
}

// The method "own" reports whether a naming context contains the server's own data.
func (p *product) own(context string) bool {
	for _, c := range p.contexts {
		if strings.EqualFold(c, context) {
			return true
		}
	}
	return false
}

// The method "all" returns the filter that every entry matches.
func (p *product) all() string {
	if p.hidden == "" {
		return "(objectClass=*)"
	}
	return "(|(objectClass=*)(objectClass=" + p.hidden + "))"
}

// byID returns the filter for the entry with an id.
func (p *product) byID(id string) string {
	f := "(entryUUID=" + id + ")"
	if p.id == "" {
		return f
	}
	x := strings.ReplaceAll(id, "-", "")
	return "(|" + f + "(" + p.id + "=" + x[:8] + "-" + x[8:16] + "-" + x[16:24] + "-" + x[24:] + "))"
}

// dashed converts a UUID from 389's spelling to the usual spelling.
func dashed(id string) string {
	x := strings.ReplaceAll(id, "-", "")
	if len(x) != 32 {
		return ""
	}
	return x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:]
}
