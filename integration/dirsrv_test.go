package integration

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/go-ldap/ldap/v3"
)

// TestDirsrv imports the schema files of 389 Directory Server, and then a dump in the
// form of db2ldif: people with that server's classes, roles and passwords.
func TestDirsrv(t *testing.T) {
	t.Parallel()
	const files = "/usr/share/dirsrv/schema"
	if _, err := os.Stat(files); err != nil {
		t.Skip("no 389-ds-base: ", err)
	}
	store := filepath.Join(t.TempDir(), "store")
	importInto(t, store, os.DevNull)
	for _, args := range [][]string{
		{"schema", "add", "--store", store, files},
		{"import", "--store", store, "testdata/db2ldif.ldif"},
		{"check", "--store", store},
	} {
		if out, status := ldapdRun(t, args...); status != 0 {
			t.Fatalf("%v: exit status %d\n%s", args, status, out)
		}
	}
	c := serve(t, store).connect(adminDN, adminPassword)
	for filter, want := range map[string][]string{
		"(objectClass=nsPerson)":                {"uid=demo_user,ou=people,dc=example,dc=com"},
		"(objectClass=nsManagedRoleDefinition)": {"cn=staff,ou=people,dc=example,dc=com"},
	} {
		if got, err := searchDN(c, suffix, ldap.ScopeWholeSubtree, filter); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", filter, got, err)
		}
	}
	r, err := c.Search(ldap.NewSearchRequest("cn=admins,ou=people,dc=example,dc=com", base, ldap.NeverDerefAliases, 0, 0, false,
		"(objectClass=nsFilteredRoleDefinition)", []string{"nsRoleFilter", "structuralObjectClass"}, nil))
	if err != nil || len(r.Entries) != 1 || r.Entries[0].GetAttributeValue("nsRoleFilter") != "(uid=demo*)" {
		t.Errorf("the filtered role: %+v, %v", r, err)
	}
}
