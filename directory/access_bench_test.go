package directory_test

import (
	"fmt"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/schema"
)

const (
	benchRules  = 1000
	benchGroups = 100 // the requester is in half of them
)

// governed returns the session of u0001 under access rules, in a directory with the groups
// that rulesOfGroups names.
func governed(b *testing.B, rules []string) *directory.Session {
	b.Helper()
	s := crowd(b)
	do := doing(b, s)
	do(&op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
	for i := range benchGroups {
		do(&op.Add{Name: ruleGroup(i), Attributes: attributes(lines(fmt.Sprintf("objectClass: groupOfNames\nmember: uid=u%04d,ou=people,dc=example,dc=com", 1+i%2)))})
	}
	values := make([][]byte, len(rules))
	for i, r := range rules {
		values[i] = []byte(r)
	}
	do(&op.Modify{Name: "cn=config", Changes: []op.Modification{{Kind: op.ModReplace, PartialAttribute: op.PartialAttribute{Description: "accessRule", Values: values}}}})
	do(&op.Bind{Version: 3, Name: "uid=u0001,ou=people,dc=example,dc=com", Password: []byte("secret")})
	return s
}

func ruleGroup(i int) string { return fmt.Sprintf("cn=g%d,dc=example,dc=com", i) }

// rulesOfGroups returns n rules that let groups read attributes. Each rule has one of three
// targets.
func rulesOfGroups(n int) (rules []string) {
	attributes := []string{"cn", "sn", "mail", "l", "title", "telephoneNumber", "departmentNumber", "employeeNumber", "uid", "objectClass"}
	for i := range n {
		target := []string{`"ou=people,dc=example,dc=com"`, `(objectClass=person)`, `"dc=example,dc=com"`}[i%3]
		rules = append(rules, fmt.Sprintf(`r%d: allow group "%s" to read %s in %s`, i, ruleGroup(i%benchGroups), attributes[i/benchGroups%len(attributes)], target))
	}
	return rules
}

// BenchmarkSearchRules measures a search of one entry under rules that let everybody read
// everything, under a few rules, and under the rules of the profile staff. It measures the last
// two cases also with a thousand additional rules for groups.
func BenchmarkSearchRules(b *testing.B) {
	few := []string{"login: allow everyone to bind", "all: allow users to read", "public: allow everyone to read objectClass, cn, mail in (objectClass=person)"}
	for _, c := range []struct {
		name  string
		rules []string
	}{
		{"Open", []string{"login: allow everyone to bind, to past", "all: allow everyone to read *, +"}},
		{"Few", few},
		{"Staff", staff(b)},
		{"StaffThousand", append(rulesOfGroups(benchRules), staff(b)...)},
		{"Thousand", append(rulesOfGroups(benchRules), few...)},
	} {
		b.Run(c.name, func(b *testing.B) {
			run(b, governed(b, c.rules), op.Success, 1, requests(func(id string, _ int) op.Request {
				return &op.Search{Base: "uid=" + id + ",ou=people,dc=example,dc=com", Filter: filter.MustParse("(mail=" + id + "@example.com)"), Attributes: []string{"cn", "mail", "title"}}
			}))
		})
	}
}

// staff returns the rules of the profile that new directories begin with.
func staff(b *testing.B) (rules []string) {
	b.Helper()
	all, err := acl.Profile("staff", schema.Core(), nil)
	if err != nil {
		b.Fatal(err)
	}
	for _, r := range all {
		rules = append(rules, r.String())
	}
	return rules
}
