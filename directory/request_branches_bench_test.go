package directory_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

var branchConflicts = flag.Int("conflicts", 200, "conflicts of BenchmarkBranchConflicts")

// BenchmarkBranchConflicts lists the conflicts of a branch below cn=conflicts.
func BenchmarkBranchConflicts(b *testing.B) {
	s := newDirectory(b, newPartition(b), directory.Options{}).NewSession(nil)
	do := doing(b, s)
	do(&op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
	do(&op.Add{Name: "dc=example,dc=com", Attributes: values("objectClass", "domain")})
	name := func(i int) string { return fmt.Sprintf("uid=u%d,dc=example,dc=com", i) }
	for i := range *branchConflicts {
		do(&op.Add{Name: name(i), Attributes: values("objectClass", "account")})
	}
	do(&op.Add{Name: "cn=reorg,cn=branches", Attributes: values("objectClass", "branch")})
	replace := func(name, value string) {
		do(&op.Modify{Name: name, Changes: []op.Modification{{Kind: op.ModReplace, PartialAttribute: values("description", value)[0]}}})
	}
	for i := range *branchConflicts {
		replace(name(i)+",cn=reorg,cn=branches", "in the branch")
		replace(name(i), "outside")
	}
	run(b, s, op.Success, *branchConflicts, []op.Request{
		&op.Search{Base: "cn=conflicts,cn=reorg,cn=branches", Scope: op.SingleLevel, Filter: filter.MustParse("(objectClass=*)")}})
}
