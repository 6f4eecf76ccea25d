package directory_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/op"
)

var benchMembers = flag.Int("members", 20_000, "`N` members of the group of BenchmarkMemberOf")

// nestedGroups is the number of groups between the person and the last group.
const nestedGroups = 1000

// members returns a directory with a person in a large group. The person is also in the
// first group of a chain of groups.
func members(b *testing.B) *directory.Session {
	s := newDirectory(b, newPartition(b), directory.Options{}).NewSession(nil)
	do := doing(b, s)
	do(&op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
	do(&op.Add{Name: "dc=example,dc=com", Attributes: attributes(lines("objectClass: domain\ndc: example"))})
	do(&op.Add{Name: "uid=ann,dc=example,dc=com", Attributes: attributes(lines("objectClass: account\nuid: ann"))})
	do(&op.Add{Name: "cn=all,dc=example,dc=com", Attributes: attributes(lines("objectClass: groupOfNames\nmember: uid=ann,dc=example,dc=com"))})
	for from := 0; from < *benchMembers; from += 1000 {
		values := make([][]byte, 1000)
		for i := range values {
			values[i] = fmt.Appendf(nil, "uid=u%d,dc=example,dc=com", from+i)
		}
		do(&op.Modify{Name: "cn=all,dc=example,dc=com", Changes: []op.Modification{{Kind: op.ModAdd, PartialAttribute: op.PartialAttribute{Description: "member", Values: values}}}})
	}
	below := "uid=ann,dc=example,dc=com"
	for i := range nestedGroups {
		do(&op.Add{Name: group(i), Attributes: attributes(lines("objectClass: groupOfNames\nmember: " + below))})
		below = group(i)
	}
	return s
}

// BenchmarkMemberOf measures searches that test or return memberships. The cost of a
// membership grows with the number of groups that an entry is in, and not with the sizes
// of the groups.
func BenchmarkMemberOf(b *testing.B) {
	s := members(b)
	for _, c := range []struct {
		name, filter string
		attributes   []string
	}{
		{"InLarge", "(&(uid=ann)(memberOf=cn=all,dc=example,dc=com))", nil},
		{"InNested", "(&(uid=ann)(isMemberOf=" + group(nestedGroups-1) + "))", nil},
		{"Shown", "(uid=ann)", []string{"memberOf"}},
		{"ShownNested", "(uid=ann)", []string{"isMemberOf"}},
		{"Neither", "(uid=ann)", []string{"uid"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			run(b, s, op.Success, 1, []op.Request{&op.Search{Base: "dc=example,dc=com", Scope: op.WholeSubtree,
				Filter: filter.MustParse(c.filter), Attributes: c.attributes}})
		})
	}
}
