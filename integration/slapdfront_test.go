package integration

import (
	"strings"
	"testing"

	"github.com/go-ldap/ldap/v3"
)

// TestSlapdInFront runs docs/apps/slapd-proxy.md: a slapd with back-ldap,
// with the flag of the page and without it. A user who binds at slapd is that user in ldapd.
func TestSlapdInFront(t *testing.T) {
	t.Parallel()
	lookSbin(t, "slapd")
	wantPrograms(t, "/usr/lib/ldap/back_ldap.so")
	p := serveSecured(t, serviceEntry(t, "slapd-proxy"))
	conf := configurationOf(t, p, "slapd-proxy", "etc/ldap/slapd.conf")
	rules := strings.Split(strings.TrimSpace(configurationOf(t, p, "slapd-proxy", "rules")), "\n")
	c := p.admin()
	defer c.Close()
	change := ldap.NewModifyRequest("cn=config", nil)
	change.Add("accessRule", rules)
	if err := c.Modify(change); err != nil {
		t.Fatal(err)
	}

	for name, text := range map[string]string{
		"critical":     conf,
		"not critical": strings.Replace(conf, " flags=proxy-authz-critical", "", 1),
	} {
		t.Run(name, func(t *testing.T) {
			var log safeBuffer
			url, cmd := runSlapd(t, writeIn(t, t.TempDir(), "slapd.conf", slapdSchemas(t)+text), &log)
			defer func() {
				cmd.Process.Kill()
				cmd.Wait()
			}()
			for who, password := range map[string]string{"": "", "uid=jdoe,ou=people," + suffix: "opensesame"} {
				front, err := dial(url, who, password)
				if err != nil {
					t.Fatalf("%v\n%s", err, log.String())
				}
				defer front.Close()
				direct, err := dial(p.url(), who, password)
				if err != nil {
					t.Fatal(err)
				}
				defer direct.Close()
				q := ldap.NewSearchRequest(suffix, ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, 0, 0, false, "(objectClass=*)", []string{"cn", "mail"}, nil)
				a, errA := front.Search(q)
				b, errB := direct.Search(q)
				if errA != nil || errB != nil || len(a.Entries) != len(b.Entries) || len(a.Entries) == 0 {
					t.Fatalf("%q: at slapd %v, %v; at ldapd %v, %v\n%s", who, entryCount(a), errA, entryCount(b), errB, log.String())
				}
			}
		})
	}
}

func entryCount(r *ldap.SearchResult) int {
	if r == nil {
		return -1
	}
	return len(r.Entries)
}
