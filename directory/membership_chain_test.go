package directory_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// chained makes a directory with a chain of groups: group n has the member n-1, and so on
// down to group 0, which has itself as a member. It returns an administrator's session and
// an anonymous session.
func chained(t *testing.T, n int, o directory.Options) (root, anyone *directory.Session) {
	t.Helper()
	d := newDirectory(t, newPartition(t), o)
	root = d.NewSession(nil)
	serve(t, root, &op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
	serve(t, root, &op.Add{Name: "dc=example,dc=com", Attributes: attributes(lines("objectClass: domain\ndc: example"))})
	for i := range n + 1 {
		serve(t, root, &op.Add{Name: group(i), Attributes: attributes(lines("objectClass: groupOfNames\nmember: " + group(max(0, i-1))))})
	}
	return root, d.NewSession(nil)
}

func group(n int) string { return fmt.Sprintf("cn=%d,dc=example,dc=com", n) }

// searchChain searches for the groups on the chain that leads to group 0.
func searchChain(t *testing.T, s *directory.Session) *answers {
	t.Helper()
	var out answers
	s.Serve(t.Context(), &op.Message{ID: 1, Request: &op.Search{Base: "dc=example,dc=com", Scope: op.WholeSubtree,
		Attributes: []string{"1.1"}, Filter: filter.MustParse("(member:1.2.840.113556.1.4.1941:=" + group(0) + ")")}}, &out)
	return &out
}

// TestChainLength checks that the length of a chain is limited even for the administrator.
func TestChainLength(t *testing.T) {
	root, _ := chained(t, 8, directory.Options{})
	directory.SetMaxChain(t, 9)
	if out := searchChain(t, root); out.done.Code != op.Success || len(out.entries) != 9 {
		t.Errorf("as long as allowed: %v, %d entries", &out.done.Result, len(out.entries))
	}
	directory.SetMaxChain(t, 8)
	out := searchChain(t, root)
	if out.done.Code != op.AdminLimitExceeded || !strings.Contains(out.done.Diagnostic, "the chain of member goes through more than 8 entries") || len(out.entries) > 0 {
		t.Errorf("longer: %v, %d entries", &out.done.Result, len(out.entries))
	}
}

// TestChainCandidates checks the limit on candidates. The entries that a search reads to
// follow a chain count as candidates.
func TestChainCandidates(t *testing.T) {
	for _, c := range []struct {
		limit int
		code  op.Code
	}{{20, op.Success}, {5, op.AdminLimitExceeded}} {
		root, anyone := chained(t, 8, directory.Options{Limits: directory.Limits{Candidates: c.limit}})
		if out := searchChain(t, root); out.done.Code != op.Success {
			t.Errorf("the administrator, who has no limits: %v", &out.done.Result)
		}
		out := searchChain(t, anyone)
		if out.done.Code != c.code || c.code != op.Success && !strings.Contains(out.done.Diagnostic, "limit on candidates, 5") {
			t.Errorf("%d candidates: %v", c.limit, &out.done.Result)
		}
	}
}
