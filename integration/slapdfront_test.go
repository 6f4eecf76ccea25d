package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-ldap/ldap/v3"
)

// TestSlapdInFront runs the recipe "slapd in front" of docs/recipes.md: a slapd with back-ldap,
// with the flag of the recipe and without it. A user who binds at slapd is that user in ldapd.
func TestSlapdInFront(t *testing.T) {
	t.Parallel()
	lookSbin(t, "slapd")
	wantPrograms(t, "/usr/lib/ldap/back_ldap.so")
	page, err := os.ReadFile(recipesPage)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## slapd in front (run by a test)\n")
	if !found {
		t.Fatal("no recipe")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var conf, rules []string
	for line := range strings.Lines(section) {
		if text, ok := strings.CutPrefix(line, "    "); !ok {
			continue
		} else if strings.Contains(text, ": allow ") {
			rules = append(rules, strings.TrimSpace(text))
		} else {
			conf = append(conf, text)
		}
	}
	if len(rules) != 2 {
		t.Fatalf("the recipe has the rules %q", rules)
	}

	store := filepath.Join(t.TempDir(), "store")
	importInto(t, store, example)
	p := serve(t, store)
	c := p.admin()
	defer c.Close()
	const proxy = "cn=proxy,ou=services," + suffix
	add := func(name string, attributes ...string) {
		r := ldap.NewAddRequest(name, nil)
		for i := 0; i < len(attributes); i += 2 {
			r.Attribute(attributes[i], []string{attributes[i+1]})
		}
		if err := c.Add(r); err != nil && !ldap.IsErrorWithCode(err, ldap.LDAPResultEntryAlreadyExists) {
			t.Fatal(err)
		}
	}
	add("ou=services,"+suffix, "objectClass", "organizationalUnit")
	add(proxy, "objectClass", "inetOrgPerson", "cn", "proxy", "sn", "proxy", "userPassword", "secret of the proxy")
	change := ldap.NewModifyRequest("cn=config", nil)
	change.Add("accessRule", rules)
	if err := c.Modify(change); err != nil {
		t.Fatal(err)
	}

	for name, text := range map[string]string{
		"critical":     strings.Join(conf, ""),
		"not critical": strings.Replace(strings.Join(conf, ""), " flags=proxy-authz-critical", "", 1),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			text := slapdSchemas(t) + strings.ReplaceAll(text, "ldap://ldap.example.com", p.url())
			var log safeBuffer
			url, cmd := runSlapd(t, writeIn(t, dir, "slapd.conf", text), &log)
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
