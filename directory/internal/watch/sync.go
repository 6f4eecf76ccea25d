package watch

import (
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/internal/render"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/revision"
)

// A cookie identifies the content that a client has, in the syntax of OpenLDAP:
// rid=001,sid=001,csn=CSN;CSN. The rid is the consumer's number, which the server returns
// unchanged. The CSNs are a frontier.
type cookie struct {
	rid      string
	frontier revision.Frontier
	// foreign means that the cookie has another syntax, too many CSNs, or CSNs that are not
	// revisions.
	foreign bool
}

// maxCookieCSNs is the largest number of CSNs in a cookie.
const maxCookieCSNs = 256

func parseCookie(s string) (c cookie) {
	if s == "" {
		return c
	}
	for part := range strings.SplitSeq(s, ",") {
		name, value, ok := strings.Cut(part, "=")
		switch {
		case !ok:
			c.foreign = true
		case name == "rid" && len(value) <= 3:
			c.rid = value
		case name == "csn" && value != "":
			c.addCSNs(value)
		}
	}
	return c
}

func (c *cookie) addCSNs(list string) {
	for csn := range strings.SplitSeq(list, ";") {
		r, err := revision.ParseCSN(csn)
		if err != nil || len(c.frontier) == maxCookieCSNs {
			c.foreign = true
			return
		}
		c.frontier = c.frontier.With(r)
	}
}

// text returns a cookie with the same rid and with the frontier f, or "" if f is empty.
func (c *cookie) text(f revision.Frontier) string {
	if len(f) == 0 {
		return ""
	}
	var b strings.Builder
	if c.rid != "" {
		b.WriteString("rid=" + c.rid + ",")
	}
	b.WriteString("csn=")
	for i, csn := range render.CSNs(f) {
		if i > 0 {
			b.WriteByte(';')
		}
		b.Write(csn)
	}
	return b.String()
}

// stateControl returns the sync state control of an entry.
func stateControl(state int64, id entry.ID) op.Control {
	return op.Control{OID: control.OIDSyncState, Value: control.SyncState{State: state, ID: id}.Encode()}
}
