package locate

import (
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// scopeName returns a search's scope as an LDAP URL spells it (RFC 4516, 2).
func scopeName(s op.Scope) string {
	switch s {
	case op.BaseObject:
		return "base"
	case op.SingleLevel:
		return "one"
	case op.Subordinates:
		return "subord"
	}
	return "sub"
}

// ReferralURLs turns the values of ref into the URLs of a referral (RFC 3296, 5). The
// argument rest contains the RDNs of the requested name below the referral. ReferralURLs
// puts rest in front of the name in each URL, and adds the scope if the scope is not empty.
// It returns URLs that are not LDAP URLs unchanged.
func ReferralURLs(refs [][]byte, own string, rest dn.DN, scope string) []string {
	urls := make([]string, 0, len(refs))
	for _, ref := range refs {
		url, _, _ := strings.Cut(string(ref), " ") // a label may follow the URL
		urls = append(urls, referralURL(url, own, rest, scope))
	}
	return urls
}

func referralURL(url, own string, rest dn.DN, scope string) string {
	scheme, after, ok := strings.Cut(url, "://")
	if !ok || !strings.HasPrefix(strings.ToLower(scheme), "ldap") {
		return url
	}
	host, path, _ := strings.Cut(after, "/")
	name, _, _ := strings.Cut(path, "?")
	if name == "" {
		name = escapeURL(own)
	}
	if len(rest) > 0 {
		name = escapeURL(rest.String()) + "," + name
	}
	url = scheme + "://" + host + "/" + name
	if scope != "" {
		url += "??" + scope
	}
	return url
}

// escapeURL percent-encodes a DN for an LDAP URL (RFC 4516, 2.1).
func escapeURL(s string) string {
	const plain = "-._~!$&'()*+,;=:@/"
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for _, c := range []byte(s) {
		if c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || strings.IndexByte(plain, c) >= 0 {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return b.String()
}
