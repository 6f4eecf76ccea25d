package directory_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// These flags set the size of the directory of BenchmarkGroups. docs/performance.md has
// figures for 100,000 people in 10,000 groups.
var (
	treePeople = flag.Int("groupedpeople", 1000, "`N` people of BenchmarkGroups")
	treeGroups = flag.Int("groups", 300, "`N` groups of BenchmarkGroups")
)

var benchMembers = flag.Int("members", 20_000, "`N` members of the group of BenchmarkMemberOf")

// nestedGroups is the number of groups in the chain of members.
const nestedGroups = 1000

// members returns an administrator's session in a directory with a person in a large group.
// The person is also in the first group of a chain, in which each group is a member of the
// next group.
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

// BenchmarkDynamicGroups measures reading the memberships of an entry in a directory with
// many dynamic groups. The entry is in at most one of these groups.
func BenchmarkDynamicGroups(b *testing.B) {
	for _, groups := range []int{0, 10, 1000} {
		b.Run(fmt.Sprint(groups), func(b *testing.B) {
			s := newDirectory(b, newPartition(b), directory.Options{}).NewSession(nil)
			do := doing(b, s)
			do(&op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
			do(&op.Modify{Name: "cn=Subschema", Changes: []op.Modification{
				{Kind: op.ModAdd, PartialAttribute: op.PartialAttribute{Description: "attributeTypes", Values: [][]byte{[]byte("( 2.16.840.1.113730.3.1.198 NAME 'memberURL' EQUALITY caseExactMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )")}}},
				{Kind: op.ModAdd, PartialAttribute: op.PartialAttribute{Description: "objectClasses", Values: [][]byte{[]byte("( 2.16.840.1.113730.3.2.33 NAME 'groupOfURLs' SUP top STRUCTURAL MUST cn MAY memberURL )")}}},
			}})
			do(&op.Add{Name: "dc=example,dc=com", Attributes: attributes(lines("objectClass: domain\ndc: example"))})
			do(&op.Add{Name: "uid=ann,dc=example,dc=com", Attributes: attributes(lines("objectClass: account\nuid: ann\nhost: h0"))})
			for i := range groups {
				do(&op.Add{Name: group(i), Attributes: attributes(lines(fmt.Sprintf("objectClass: groupOfURLs\nmemberURL: ldap:///dc=example,dc=com??sub?(&(objectClass=account)(host=h%d))", i)))})
			}
			run(b, s, op.Success, 1, []op.Request{&op.Search{Base: "dc=example,dc=com", Scope: op.WholeSubtree,
				Filter: filter.MustParse("(uid=ann)"), Attributes: []string{"memberOf"}}})
		})
	}
}

// BenchmarkGroups measures memberships in a tree of groups, each with up to ten groups as
// members. Every person is in 30 random groups.
func BenchmarkGroups(b *testing.B) {
	const each = 30
	s := newDirectory(b, newPartition(b), directory.Options{}).NewSession(nil)
	do := doing(b, s)
	do(&op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
	do(&op.Add{Name: "dc=example,dc=com", Attributes: attributes(lines("objectClass: domain\ndc: example"))})
	for i := range *treePeople {
		do(&op.Add{Name: fmt.Sprintf("uid=u%d,dc=example,dc=com", i), Attributes: attributes(lines(fmt.Sprintf("objectClass: account\nuid: u%d", i)))})
	}
	members := make([][][]byte, *treeGroups)
	for i := 1; i < *treeGroups; i++ {
		members[(i-1)/10] = append(members[(i-1)/10], []byte(group(i)))
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range *treePeople {
		for _, g := range random.Perm(*treeGroups)[:each] {
			members[g] = append(members[g], fmt.Appendf(nil, "uid=u%d,dc=example,dc=com", i))
		}
	}
	for i, values := range members {
		do(&op.Add{Name: group(i), Attributes: append(attributes(lines("objectClass: groupOfNames")), op.PartialAttribute{Description: "member", Values: values})})
	}
	search := func(f string, attributes ...string) []op.Request {
		return []op.Request{&op.Search{Base: "dc=example,dc=com", Scope: op.WholeSubtree, Filter: filter.MustParse(f), Attributes: attributes}}
	}
	count := func(rs []op.Request) int {
		var sink nowhere
		s.Serve(context.Background(), &op.Message{ID: 1, Request: rs[0]}, &sink)
		return sink.entries
	}
	for _, c := range []struct{ name, filter, attribute string }{
		{"Equality", "(uid=u7)", "uid"},
		{"Shown", "(uid=u7)", "memberOf"},
		{"ShownNested", "(uid=u7)", "isMemberOf"},
		{"Beside", "(&(uid=u7)(memberOf=" + group(0) + "))", "uid"},
		{"BesideNested", "(&(uid=u7)(isMemberOf=" + group(0) + "))", "uid"},
		{"Members", "(memberOf=" + group(*treeGroups-1) + ")", "1.1"},
		{"MembersNested", "(isMemberOf=" + group(*treeGroups/20) + ")", "1.1"},
	} {
		rs := search(c.filter, c.attribute)
		n := count(rs)
		b.Run(c.name, func(b *testing.B) {
			run(b, s, op.Success, n, rs)
			b.ReportMetric(float64(n), "entries")
		})
	}
	for _, attribute := range []string{"uid", "memberOf", "isMemberOf"} {
		rs := search("(objectClass=account)", attribute)
		b.Run("All/"+attribute, func(b *testing.B) { run(b, s, op.Success, *treePeople, rs) })
	}
	var many []op.Request // each request is for another person; most groups of a person are cached by earlier requests
	for i := range min(*treePeople, 1000) {
		many = append(many, search(fmt.Sprintf("(uid=u%d)", i), "isMemberOf")...)
	}
	b.Run("ShownNestedOfMany", func(b *testing.B) { run(b, s, op.Success, 1, many) })
	var besideMany []op.Request // each request is for another member of the same group
	in := group(1) + "))"
	for i := range members[1] {
		if name := string(members[1][i]); strings.HasPrefix(name, "uid=u") {
			uid, _, _ := strings.Cut(name, ",")
			besideMany = append(besideMany, search("(&("+uid+")(memberOf="+in, "uid")...)
		}
	}
	b.Run("BesideOfMany", func(b *testing.B) { run(b, s, op.Success, 1, besideMany) })
}
