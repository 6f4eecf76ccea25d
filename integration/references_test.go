package integration

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/ldap/control"
)

const (
	teamsDN     = "ou=teams," + suffix
	teamsPeople = 8
	teamsGroups = 4
)

// teams are units, people and groups whose names and members change. At every moment,
// members must name entries that exist.
type teams struct {
	*fleet
	tally
}

// teamEntries writes an LDIF file of the entries at the beginning.
func teamEntries(t *testing.T) string {
	var s strings.Builder
	for _, unit := range []string{teamsDN, "ou=a," + teamsDN, "ou=b," + teamsDN, "ou=sub,ou=a," + teamsDN} {
		fmt.Fprintf(&s, "dn: %s\nobjectClass: organizationalUnit\n\n", unit)
	}
	for n := range teamsGroups {
		fmt.Fprintf(&s, "dn: %s\nobjectClass: groupOfNames\nmember: %s\n\n", teamGroup(n), suffix)
	}
	return writeIn(t, t.TempDir(), "teams.ldif", s.String())
}

func teamGroup(n int) string { return fmt.Sprintf("cn=group%d,%s", n, teamsDN) }

// update makes one random update.
func (x *teams) update(c *ldap.Conn, r *rand.Rand) bool {
	return x.count(&x.tally, randomUpdate(c, r),
		ldap.LDAPResultNoSuchObject, ldap.LDAPResultEntryAlreadyExists, ldap.LDAPResultConstraintViolation,
		ldap.LDAPResultAttributeOrValueExists, ldap.LDAPResultNoSuchAttribute, ldap.LDAPResultNotAllowedOnNonLeaf)
}

func randomUpdate(c *ldap.Conn, r *rand.Rand) error {
	above := []string{"ou=a," + teamsDN, "ou=b," + teamsDN, "ou=sub,ou=a," + teamsDN, "ou=sub,ou=b," + teamsDN}
	place := func() string { return above[r.IntN(len(above))] }
	rdn := func() string { return fmt.Sprintf("cn=p%d", r.IntN(teamsPeople)) }
	person := func() string { return rdn() + "," + place() }
	members := func(change func(*ldap.ModifyRequest, string, []string)) error {
		m := ldap.NewModifyRequest(teamGroup(r.IntN(teamsGroups)), nil)
		change(m, "member", []string{person()})
		return c.Modify(m)
	}
	switch r.IntN(9) {
	case 0:
		return c.ModifyDN(ldap.NewModifyDNRequest(above[2], "ou=sub", true, above[1]))
	case 1:
		return c.ModifyDN(ldap.NewModifyDNRequest(above[3], "ou=sub", true, above[0]))
	case 2:
		return c.ModifyDN(ldap.NewModifyDNRequest(person(), rdn(), true, place()))
	case 3:
		return c.Del(ldap.NewDelRequest(person(), nil))
	case 4:
		return members((*ldap.ModifyRequest).Delete)
	case 5, 6:
		a := ldap.NewAddRequest(person(), nil)
		a.Attribute("objectClass", []string{"inetOrgPerson"})
		a.Attribute("sn", []string{"x"})
		a.Attribute("manager", []string{teamsDN})
		if r.IntN(2) == 0 {
			a.Attributes[2].Vals = []string{person()}
		}
		return c.Add(a)
	}
	return members((*ldap.ModifyRequest).Add)
}

// past reads all entries with their members and managers, at several moments since the
// given time. All names must be those of entries that existed at the same moment. A
// required attribute has the empty name as its value if no entry that it named exists
// any more.
func (x *teams) past(begin time.Time) {
	c := x.seats[0].process().admin()
	defer c.Close()
	const moments = 10
	named := 0
	for n := range moments {
		at := begin.Add(time.Since(begin) * time.Duration(n+1) / moments).UTC().Format("20060102150405.000000Z")
		var found *ldap.SearchResult
		eventually(x.t, "the past", func() (err error) {
			found, err = c.Search(ldap.NewSearchRequest(suffix, ldap.ScopeWholeSubtree, 0, 0, 0, false, "(objectClass=*)",
				[]string{"member", "manager"}, []ldap.Control{ldap.NewControlString(control.OIDAt, true, at)}))
			return err
		})
		is := map[string]bool{"": true}
		for _, e := range found.Entries {
			is[strings.ToLower(e.DN)] = true
		}
		for _, e := range found.Entries {
			for _, v := range append(e.GetAttributeValues("member"), e.GetAttributeValues("manager")...) {
				if named++; !is[strings.ToLower(v)] {
					x.t.Errorf("at %s: %s names %s, which does not exist", at, e.DN, v)
				}
			}
		}
	}
	x.t.Logf("%d values at %d moments name entries that exist", named, moments)
}
