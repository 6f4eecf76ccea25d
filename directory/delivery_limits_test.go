package directory_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// TestLimitRules checks that the first matching rule sets the limits. If none matches,
// the administrator has no limits, and everyone else has the limits of the options.
func TestLimitRules(t *testing.T) {
	d, s := newPeople(t, 5)
	serve(t, s, &op.Add{Name: "cn=app,cn=d00,dc=example,dc=com", Attributes: attributes([]line{
		{"objectClass", "person"}, {"cn", "app"}, {"sn", "app"}, {"userPassword", adminPassword}})})
	serve(t, s, &op.Modify{Name: "cn=d01,dc=example,dc=com", Changes: changes([]line{
		{"add objectClass", "simpleSecurityObject"}, {"add userPassword", adminPassword}})})
	limits := func(n int) directory.Limits { return directory.Limits{Size: n} }
	d = newDirectory(t, directory.PartitionOf(d), directory.Options{Limits: limits(4), LimitRules: []directory.LimitRule{
		{Who: "anonymous", Limits: limits(1)},
		{Who: "dn:CN=App, cn=d00,dc=example,dc=com", Limits: directory.Limits{Size: 2, Outstanding: 7}},
		{Who: "subtree:cn=d00,dc=example,dc=com", Limits: limits(3)},
	}})
	for name, want := range map[string]int{"": 1, "cn=app,cn=d00,dc=example,dc=com": 2, "cn=d01,dc=example,dc=com": 4, "cn=admin,dc=example,dc=com": 5} {
		s := d.NewSession(nil)
		if name != "" {
			serve(t, s, &op.Bind{Version: 3, Name: name, Password: []byte("secret")})
		}
		var out answers
		s.Serve(t.Context(), &op.Message{Request: devices("(objectClass=device)")}, &out)
		if len(out.entries) != want {
			t.Errorf("%q: %d entries, want %d: %v", name, len(out.entries), want, &out.done.Result)
		}
		if n := s.Outstanding(); n != 0 != strings.HasPrefix(name, "cn=app") {
			t.Errorf("%q: %d outstanding", name, n)
		}
	}
	for _, who := range []string{"", "someone", "dn:", "dn:x", "group:cn=x"} {
		_, err := directory.New(directory.PartitionOf(d), directory.Options{LimitRules: []directory.LimitRule{{Who: who}}})
		if err == nil || !strings.Contains(err.Error(), "subtree:NAME") {
			t.Errorf("rule for %q: %v", who, err)
		}
	}
}

// TestAdminLimits checks that the limit on candidates and the limit on the page size end a
// search with a diagnostic that names the limit.
func TestAdminLimits(t *testing.T) {
	d, _ := newPeople(t, 9)
	for _, c := range []struct {
		limits directory.Limits
		filter string
		code   op.Code
		names  string
	}{
		{directory.Limits{Candidates: 10}, "(cn=*)", op.Success, ""},
		{directory.Limits{Candidates: 4}, "(cn=*)", op.AdminLimitExceeded, "limit on candidates"},
		{directory.Limits{Candidates: 4}, "(serialNumber=x)", op.AdminLimitExceeded, "limit on candidates"},
		{directory.Limits{Candidates: 4}, "(cn=d01)", op.Success, ""},
		{directory.Limits{Page: 2}, "(cn=*)", op.AdminLimitExceeded, "limit on page size"},
		{directory.Limits{Page: 3}, "(cn=*)", op.Success, ""},
		{directory.Limits{Time: time.Hour}, "(cn=*)", op.Success, ""},
	} {
		s := newDirectory(t, directory.PartitionOf(d), directory.Options{Limits: c.limits}).NewSession(nil)
		_, _, result := page(t, s, devices(c.filter), 3, nil)
		if c.limits.Candidates > 0 { // the limit on candidates applies to the whole search, not to a page
			var out answers
			s.Serve(t.Context(), &op.Message{Request: devices(c.filter)}, &out)
			result = out.done.Result
		}
		if result.Code != c.code || !strings.Contains(result.Diagnostic, c.names) {
			t.Errorf("%+v, %s: %v", c.limits, c.filter, &result)
		}
	}
}

// drawing receives answers, and has a limit of memory for them.
type drawing struct {
	answers
	limit, drawn int64
}

func (d *drawing) Draw(n int64) error {
	if d.drawn+n > d.limit {
		return op.Errorf(op.Busy, "the memory is used")
	}
	d.drawn += n
	return nil
}

// TestDereferenceLimits checks the limits of the dereference control: the attributes that it
// follows, the names of one entry, the names of all entries, and the memory of one entry.
func TestDereferenceLimits(t *testing.T) {
	c, _ := newNarrow(t)
	for _, n := range []int{2, 3, 1000, 1001} {
		group := []string{fmt.Sprintf("dn: cn=%d,dc=example,dc=com", n), "objectClass: groupOfNames"}
		for i := range n {
			group = append(group, fmt.Sprintf("member: cn=%04d,dc=example,dc=com", i))
		}
		c.must("add", group...)
	}
	const each = 2 * int64(32+len("cn=0000,dc=example,dc=com")) // see control.DerefRes.Size
	var many []string
	for i := range 257 {
		many = append(many, fmt.Sprintf("a%d:cn", i))
	}
	for _, x := range []struct {
		filter, control string
		candidates      int
		memory          int64
		code            op.Code
		says            string
		shown           int // entries with a dereference control
	}{
		{filter: "(|(cn=1000)(cn=1001))", memory: 1 << 20, shown: 1},
		{filter: "(cn=2)", control: "deref " + strings.Join(many[:255], " ") + " member:cn", memory: 1 << 20, shown: 1},
		{filter: "(cn=2)", control: "deref " + strings.Join(many, " ") + " critical", code: op.AdminLimitExceeded, says: "257 attributes to follow, and at most 256"},
		{filter: "(|(cn=2)(cn=3))", candidates: 5, memory: 1 << 20, shown: 2},
		{filter: "(|(cn=2)(cn=3))", candidates: 4, memory: 1 << 20, code: op.AdminLimitExceeded, says: "more than 4 names", shown: 1},
		{filter: "(|(cn=2)(cn=3))", memory: 3 * each, shown: 2}, // the memory of an entry is given back
		{filter: "(|(cn=2)(cn=3))", memory: 3*each - 1, code: op.Busy, says: "memory", shown: 1},
	} {
		d := newDirectory(t, c.p, directory.Options{Limits: directory.Limits{Candidates: x.candidates}})
		out := drawing{limit: x.memory}
		control := namedControl(cmp.Or(x.control, "deref member:cn"))
		d.NewSession(nil).Serve(t.Context(), &op.Message{Request: &op.Search{Base: "dc=example,dc=com", Scope: op.WholeSubtree,
			Filter: filter.MustParse(x.filter)}, Controls: []op.Control{control}}, &out)
		shown := strings.Count(strings.Join(out.entries, ""), "member -> cn=0000,")
		if r := &out.done.Result; r.Code != x.code || !strings.Contains(r.Diagnostic, x.says) || shown != x.shown {
			t.Errorf("%s, %.40s, %d candidates, %d octets: %v, %d controls; want code %d with %q, %d controls",
				x.filter, x.control, x.candidates, x.memory, r, shown, x.code, x.says, x.shown)
		}
	}
}
