package directory_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/write"
)

// nowhere is a sink that counts the entries that it receives.
type nowhere struct {
	entries int
	code    op.Code
}

func (n *nowhere) Entry(*op.SearchEntry) error                     { n.entries++; return nil }
func (n *nowhere) Reference([]string, []op.Control) error          { return nil }
func (n *nowhere) Intermediate(string, []byte, []op.Control) error { return nil }
func (n *nowhere) Done(r *op.Response) error                       { n.code = r.Code; return nil }

// people is small enough that all entries fit in the caches, so that the benchmarks
// measure the layers above the store.
const people = 1000

func crowd(b testing.TB) *directory.Session {
	p := newPartition(b)
	d := newDirectory(b, p, directory.Options{})
	ctx := context.Background()
	_, err := write.Update(ctx, p, partition.By{Name: "cn=admin"}, func(tx *partition.Tx) error {
		add := func(name string, ls ...line) error {
			parsed, err := dn.Parse(name)
			if err != nil {
				return err
			}
			_, err = tx.Add(ctx, parsed, attributes(ls), false)
			return err
		}
		if err := add("dc=example,dc=com", line{"objectClass", "domain"}, line{"dc", "example"}); err != nil {
			return err
		}
		if err := add("ou=people,dc=example,dc=com", line{"objectClass", "organizationalUnit"}, line{"ou", "people"}); err != nil {
			return err
		}
		for i := range people {
			id := fmt.Sprintf("u%04d", i)
			if err := add("uid="+id+",ou=people,dc=example,dc=com", line{"objectClass", "inetOrgPerson"}, line{"uid", id}, line{"cn", "Name " + id}, line{"sn", id}, line{"mail", id + "@example.com"}, line{"l", "Town"}, line{"departmentNumber", fmt.Sprint(i % 100)}, line{"telephoneNumber", "+1 555 0100"}, line{"employeeNumber", fmt.Sprint(i)}, line{"title", "Person"}, line{"description", "about " + id}, line{"userPassword", adminPassword}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return d.NewSession(nil)
}

func run(b *testing.B, s *directory.Session, code op.Code, entries int, requests []op.Request) {
	b.Helper()
	ctx := context.Background()
	var sink nowhere
	m := &op.Message{ID: 1}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		m.Request = requests[i%len(requests)]
		sink = nowhere{}
		s.Serve(ctx, m, &sink)
		if sink.code != code || sink.entries != entries {
			b.Fatalf("result %d, %d entries", sink.code, sink.entries)
		}
		i++
	}
}

// doing returns a function that serves a request, which must succeed.
func doing(b testing.TB, s *directory.Session) func(op.Request) {
	return func(r op.Request) {
		b.Helper()
		var sink nowhere
		s.Serve(context.Background(), &op.Message{ID: 1, Request: r}, &sink)
		if sink.code != op.Success {
			b.Fatalf("%T: result %d", r, sink.code)
		}
	}
}

func requests(make func(id string, i int) op.Request) (rs []op.Request) {
	for i := range people {
		rs = append(rs, make(fmt.Sprintf("u%04d", i), i))
	}
	return rs
}

func BenchmarkSearchBase(b *testing.B) {
	run(b, crowd(b), op.Success, 1, requests(func(id string, _ int) op.Request {
		return &op.Search{Base: "uid=" + id + ",ou=people,dc=example,dc=com", Filter: filter.MustParse("(objectClass=*)")}
	}))
}

func BenchmarkSearchEqual(b *testing.B) {
	run(b, crowd(b), op.Success, 1, requests(func(id string, _ int) op.Request {
		return &op.Search{Base: "dc=example,dc=com", Scope: op.WholeSubtree, Filter: filter.MustParse("(uid=" + id + ")")}
	}))
}

func BenchmarkSearchEqualSelected(b *testing.B) {
	run(b, crowd(b), op.Success, 1, requests(func(id string, _ int) op.Request {
		return &op.Search{Base: "dc=example,dc=com", Scope: op.WholeSubtree, Filter: filter.MustParse("(uid=" + id + ")"), Attributes: []string{"cn", "mail"}}
	}))
}

func BenchmarkBind(b *testing.B) {
	run(b, crowd(b), op.Success, 0, requests(func(id string, _ int) op.Request {
		return &op.Bind{Version: 3, Name: "uid=" + id + ",ou=people,dc=example,dc=com", Password: []byte("secret")}
	}))
}

// BenchmarkBindPolicy is BenchmarkBind under a policy with lockout, expiry and warnings.
func BenchmarkBindPolicy(b *testing.B) {
	s := crowd(b)
	do := doing(b, s)
	do(&op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
	do(&op.Add{Name: "cn=policy,dc=example,dc=com", Attributes: attributes([]line{{"objectClass", "subentry"}, {"objectClass", "pwdPolicy"},
		{"cn", "policy"}, {"subtreeSpecification", "{}"}, {"pwdAttribute", "userPassword"}, {"pwdLockout", "TRUE"}, {"pwdMaxFailure", "10"},
		{"pwdMaxAge", "1000000"}, {"pwdExpireWarning", "1000"}})})
	run(b, s, op.Success, 0, requests(func(id string, _ int) op.Request {
		return &op.Bind{Version: 3, Name: "uid=" + id + ",ou=people,dc=example,dc=com", Password: []byte("secret")}
	}))
}

func BenchmarkCompare(b *testing.B) {
	run(b, crowd(b), op.CompareTrue, 0, requests(func(id string, i int) op.Request {
		return &op.Compare{Name: "uid=" + id + ",ou=people,dc=example,dc=com", Description: "departmentNumber", Value: []byte(fmt.Sprint(i % 100))}
	}))
}

func BenchmarkModify(b *testing.B) {
	s := crowd(b)
	doing(b, s)(&op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
	run(b, s, op.Success, 0, requests(func(id string, i int) op.Request {
		return &op.Modify{Name: "uid=" + id + ",ou=people,dc=example,dc=com", Changes: []op.Modification{{Kind: op.ModReplace,
			PartialAttribute: op.PartialAttribute{Description: "description", Values: [][]byte{[]byte("new")}}}}}
	}))
}
