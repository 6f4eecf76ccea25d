package directory_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// TestAllocations bounds the allocations of requests whose entries are in memory. A change that
// needs more says why.
func TestAllocations(t *testing.T) {
	s := crowd(t)
	name := func(id string) string { return "uid=" + id + ",ou=people,dc=example,dc=com" }
	for _, c := range []struct {
		what string
		most float64
		make func(id string, i int) op.Request
	}{
		{"search of a base", 5, func(id string, _ int) op.Request {
			return &op.Search{Base: name(id), Filter: filter.MustParse("(objectClass=*)")}
		}},
		{"search by an index", 10, func(id string, _ int) op.Request {
			return &op.Search{Base: "dc=example,dc=com", Scope: op.WholeSubtree, Filter: filter.MustParse("(uid=" + id + ")")}
		}},
		{"compare", 5, func(id string, i int) op.Request {
			return &op.Compare{Name: name(id), Description: "departmentNumber", Value: []byte(fmt.Sprint(i % 100))}
		}},
		{"bind", 8, func(id string, _ int) op.Request {
			return &op.Bind{Version: 3, Name: name(id), Password: []byte("secret")}
		}},
	} {
		rs, i, m := requests(c.make), 0, &op.Message{ID: 1}
		next := func() {
			m.Request = rs[i%len(rs)]
			var sink nowhere
			s.Serve(context.Background(), m, &sink)
			i++
		}
		for range rs { // fills the caches
			next()
		}
		if n := testing.AllocsPerRun(1000, next); n > c.most {
			t.Errorf("%s: %v allocations, more than %v", c.what, n, c.most)
		}
	}
}
