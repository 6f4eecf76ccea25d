package partition_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// storeFormat is the format of the stores that the tests make: `go test ./partition -format 1` tests stores without codes.
var storeFormat = flag.Int("format", 0, "the format of the stores of the tests; 0: the newest")

func open(t testing.TB) *partition.Partition {
	t.Helper()
	ctx := context.Background()
	p, err := partition.Open(ctx, tabletest.NewBatchMem(), partition.Options{Format: *storeFormat, Create: true, Schema: tagged})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(ctx) })
	if err := onlineschema.SetSuffixes(ctx, p, []string{"dc=example,dc=com"}); err != nil {
		t.Fatal(err)
	}
	return p
}

func name(s string) dn.DN {
	d, err := dn.Parse(s)
	if err != nil {
		panic(err)
	}
	return d
}

// attrs parses lines of the form "a: v".
func attrs(lines ...string) (as []op.PartialAttribute) {
	for _, l := range lines {
		d, v, _ := strings.Cut(l, ": ")
		i := slices.IndexFunc(as, func(a op.PartialAttribute) bool { return a.Description == d })
		if i < 0 {
			as = append(as, op.PartialAttribute{Description: d})
			i = len(as) - 1
		}
		as[i].Values = append(as[i].Values, []byte(v))
	}
	return as
}

func update(t testing.TB, p *partition.Partition, f func(tx *partition.Tx) error) error {
	t.Helper()
	_, err := write.Update(context.Background(), p, partition.By{Name: "cn=admin"}, f)
	return err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func add(t testing.TB, p *partition.Partition, dn string, lines ...string) error {
	t.Helper()
	return update(t, p, func(tx *partition.Tx) error {
		_, err := tx.Add(context.Background(), name(dn), attrs(lines...), false)
		return err
	})
}

func searched(t testing.TB, p *partition.Partition, base string, scope op.Scope, f string) []string {
	t.Helper()
	ctx := context.Background()
	s := state.Newest(p)
	defer s.Close()
	at, err := s.Find(ctx, name(base))
	must(t, err)
	var names []string
	for r, err := range search.Search(ctx, s, partition.Query{Base: at.ID, Scope: scope, Filter: filter.Resolve(filter.MustParse(f), p.Schema())}) {
		must(t, err)
		names = append(names, r.Name.String())
	}
	slices.Sort(names)
	return names
}

func sample(t testing.TB) *partition.Partition {
	p := open(t)
	must(t, add(t, p, "dc=example,dc=com", "objectClass: organization", "objectClass: dcObject", "o: Example"))
	must(t, add(t, p, "ou=people,dc=example,dc=com", "objectClass: organizationalUnit"))
	for i := range 5 {
		must(t, add(t, p, fmt.Sprintf("uid=u%d,ou=people,dc=example,dc=com", i),
			"objectClass: inetOrgPerson", fmt.Sprintf("cn: Person %d", i), "sn: Person", "userPassword: secret",
			fmt.Sprintf("description: number %d", i)))
	}
	return p
}

func TestSearch(t *testing.T) {
	p := sample(t)
	for _, c := range []struct {
		base  string
		scope op.Scope
		f     string
		want  string
	}{
		{"dc=example,dc=com", op.WholeSubtree, "(uid=U1)", "uid=u1,ou=people,dc=example,dc=com"},
		{"dc=example,dc=com", op.WholeSubtree, "(&(sn=person)(cn=person 2))", "uid=u2,ou=people,dc=example,dc=com"},
		{"dc=example,dc=com", op.WholeSubtree, "(description=*ber 3)", "uid=u3,ou=people,dc=example,dc=com"},
		{"ou=people,dc=example,dc=com", op.SingleLevel, "(description=*ber 3)", "uid=u3,ou=people,dc=example,dc=com"},
		{"ou=people,dc=example,dc=com", op.WholeSubtree, "(description=*ber 3)", "uid=u3,ou=people,dc=example,dc=com"},
		{"dc=example,dc=com", op.SingleLevel, "(objectClass=*)", "ou=people,dc=example,dc=com"},
		{"ou=people,dc=example,dc=com", op.BaseObject, "(objectClass=*)", "ou=people,dc=example,dc=com"},
		{"dc=example,dc=com", op.WholeSubtree, "(userPassword=secret)", ""},
		{"", op.WholeSubtree, "(uid=u4)", "uid=u4,ou=people,dc=example,dc=com"},
	} {
		if got := strings.Join(searched(t, p, c.base, c.scope, c.f), " "); got != c.want {
			t.Errorf("%s %d %s: got %q, want %q", c.base, c.scope, c.f, got, c.want)
		}
	}
	if got := searched(t, p, "dc=example,dc=com", op.WholeSubtree, "(objectClass=*)"); len(got) != 7 {
		t.Errorf("whole subtree: %q", got)
	}
	if got := searched(t, p, "ou=people,dc=example,dc=com", op.Subordinates, "(sn=*)"); len(got) != 5 {
		t.Errorf("subordinates: %q", got)
	}
}

func TestModifyRenameDelete(t *testing.T) {
	p := sample(t)
	ctx := context.Background()
	u1 := name("uid=u1,ou=people,dc=example,dc=com")
	must(t, update(t, p, func(tx *partition.Tx) error {
		return tx.Modify(ctx, u1, []op.Modification{
			{Kind: op.ModReplace, PartialAttribute: attrs("description: other")[0]},
			{Kind: op.ModAdd, PartialAttribute: attrs("mail: a@example.com", "mail: b@example.com")[0]},
			{Kind: op.ModDelete, PartialAttribute: attrs("mail: A@example.com")[0]},
		})
	}))
	if got := searched(t, p, "dc=example,dc=com", op.WholeSubtree, "(mail=b@example.com)"); len(got) != 1 {
		t.Errorf("mail: %q", got)
	}
	if got := searched(t, p, "dc=example,dc=com", op.WholeSubtree, "(mail=a@example.com)"); len(got) != 0 {
		t.Errorf("deleted mail: %q", got)
	}
	must(t, update(t, p, func(tx *partition.Tx) error {
		return tx.Rename(ctx, name("ou=people,dc=example,dc=com"), dn.RDN{{Type: "ou", Value: []byte("Staff")}}, true, nil)
	}))
	if got := searched(t, p, "dc=example,dc=com", op.WholeSubtree, "(mail=b@example.com)"); len(got) != 1 || got[0] != "uid=u1,ou=Staff,dc=example,dc=com" {
		t.Errorf("after rename: %q", got)
	}
	must(t, update(t, p, func(tx *partition.Tx) error {
		return tx.Delete(ctx, name("uid=u1,ou=staff,dc=example,dc=com"))
	}))
	if got := searched(t, p, "dc=example,dc=com", op.WholeSubtree, "(|(mail=b@example.com)(uid=u1))"); len(got) != 0 {
		t.Errorf("after delete: %q", got)
	}
	var e *partition.Error
	err := update(t, p, func(tx *partition.Tx) error { return tx.Delete(ctx, name("ou=staff,dc=example,dc=com")) })
	if !errors.As(err, &e) || e.Problem != partition.NotLeaf {
		t.Errorf("delete of a non-leaf: %v", err)
	}
	err = add(t, p, "uid=x,ou=nowhere,dc=example,dc=com", "objectClass: account")
	if !errors.As(err, &e) || e.Problem != partition.NoSuchEntry || e.Matched != "dc=example,dc=com" {
		t.Errorf("add without parent: %v", err)
	}
}

func TestWarm(t *testing.T) {
	p := sample(t)
	n, err := search.Warm(context.Background(), p)
	if err != nil || n != 7 {
		t.Fatalf("%d entries warmed, %v; want 7", n, err)
	}
	if got := searched(t, p, "dc=example,dc=com", op.WholeSubtree, "(uid=u1)"); len(got) != 1 {
		t.Errorf("after warming: %q", got)
	}
}

// TestRecall checks that a remembered name is recalled, and that it is not recalled after its
// parent was renamed or its entry deleted.
func TestRecall(t *testing.T) {
	p := sample(t)
	ctx := context.Background()
	const u1 = "uid=u1,ou=people,dc=example,dc=com"
	recall := func() bool {
		s := state.Newest(p)
		defer s.Close()
		at, ok := s.Recall(context.Background(), u1)
		if ok && at.Name.String() != u1 {
			t.Errorf("recalled %q", at.Name)
		}
		return ok
	}
	remember := func() {
		s := state.Newest(p)
		defer s.Close()
		at, err := s.Find(ctx, name(u1))
		must(t, err)
		s.Remember(u1, at)
	}
	if recall() {
		t.Error("recalled before it was remembered")
	}
	remember()
	if !recall() {
		t.Error("not recalled")
	}
	must(t, update(t, p, func(tx *partition.Tx) error {
		return tx.Rename(ctx, name("ou=people,dc=example,dc=com"), dn.RDN{{Type: "ou", Value: []byte("Staff")}}, true, nil)
	}))
	if recall() {
		t.Error("recalled after its parent was renamed")
	}
	must(t, update(t, p, func(tx *partition.Tx) error {
		return tx.Rename(ctx, name("ou=staff,dc=example,dc=com"), dn.RDN{{Type: "ou", Value: []byte("people")}}, true, nil)
	}))
	remember()
	if !recall() {
		t.Error("not recalled after it was found again")
	}
	must(t, update(t, p, func(tx *partition.Tx) error { return tx.Delete(ctx, name(u1)) }))
	if recall() {
		t.Error("recalled after it was deleted")
	}
}

// tagged is the built-in schema with the attribute options that tests use.
var tagged = schema.Core().WithOptions("x-")

// updating returns a function that runs transactions in p, as the method Update of a branch runs
// them in the branch.
func updating(p *partition.Partition) func(context.Context, partition.By, func(*partition.Tx) error) (table.Revision, error) {
	return func(ctx context.Context, by partition.By, fn func(*partition.Tx) error) (table.Revision, error) {
		return write.Update(ctx, p, by, fn)
	}
}
