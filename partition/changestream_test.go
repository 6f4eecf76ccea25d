package partition_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/changestream"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/revision"
)

var kinds = map[changestream.EffectKind]string{changestream.Added: "add", changestream.Deleted: "delete", changestream.Modified: "modify", changestream.Moved: "move"}

// The function "told" returns one line for each commit after a frontier. The line describes the
// effects of the commit.
func told(t *testing.T, p *partition.Partition, after revision.Frontier) (lines []string) {
	t.Helper()
	ctx := context.Background()
	s := state.Newest(p)
	defer s.Close()
	for c, err := range changestream.Shown(ctx, s, after) {
		must(t, err)
		line := ""
		for _, e := range effects(t, p, after, c) {
			line += " " + e
		}
		after = after.With(c.Revision)
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

func effects(t *testing.T, p *partition.Partition, before revision.Frontier, c *changestream.Change) (out []string) {
	t.Helper()
	ctx := context.Background()
	from, err := changestream.AtFrontier(ctx, p, before)
	must(t, err)
	defer from.Close()
	to, err := changestream.AtFrontier(ctx, p, before.With(c.Revision))
	must(t, err)
	defer to.Close()
	for e, err := range changestream.Effects(ctx, from, to, c.IDs) {
		must(t, err)
		s := to
		if e.Kind == changestream.Deleted {
			s = from
		}
		name, err := s.Name(ctx, e.ID)
		must(t, err)
		out = append(out, kinds[e.Kind]+" "+name.String())
	}
	return out
}

func TestChanges(t *testing.T) {
	p := open(t)
	ctx := context.Background()
	must(t, add(t, p, "dc=example,dc=com", "objectClass: domain", "dc: example"))
	s := state.Newest(p)
	begin, err := changestream.Frontier(ctx, s)
	must(t, err)
	s.Close()
	must(t, add(t, p, "ou=a,dc=example,dc=com", "objectClass: organizationalUnit", "ou: a"))
	must(t, add(t, p, "cn=x,ou=a,dc=example,dc=com", "objectClass: device", "cn: x"))
	must(t, update(t, p, func(tx *partition.Tx) error {
		return tx.Modify(ctx, name("cn=x,ou=a,dc=example,dc=com"), []op.Modification{{Kind: op.ModReplace, PartialAttribute: attrs("description: y")[0]}})
	}))
	must(t, update(t, p, func(tx *partition.Tx) error {
		return tx.Rename(ctx, name("ou=a,dc=example,dc=com"), name("ou=b")[0], true, nil)
	}))
	must(t, update(t, p, func(tx *partition.Tx) error {
		if err := tx.Delete(ctx, name("cn=x,ou=b,dc=example,dc=com")); err != nil {
			return err
		}
		return tx.Delete(ctx, name("ou=b,dc=example,dc=com"))
	}))
	want := []string{
		"add ou=a,dc=example,dc=com",
		"add cn=x,ou=a,dc=example,dc=com",
		"modify cn=x,ou=a,dc=example,dc=com",
		"move ou=b,dc=example,dc=com",
		"delete cn=x,ou=b,dc=example,dc=com delete ou=b,dc=example,dc=com",
	}
	if d := cmp.Diff(want, told(t, p, begin)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(want, told(t, p, nil)[2:]); d != "" {
		t.Error(d)
	}
}

// TestChangesGoOn checks that the stream waits for commits and ends when its context
// ends.
func TestChangesGoOn(t *testing.T) {
	p := open(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := state.Newest(p)
	begin, err := changestream.Frontier(ctx, s)
	must(t, err)
	s.Close()
	got := make(chan *changestream.Change)
	ended := make(chan error)
	go func() {
		for c, err := range changestream.Stream(ctx, p, begin) {
			if err != nil {
				ended <- err
				return
			}
			got <- c
		}
	}()
	must(t, add(t, p, "dc=example,dc=com", "objectClass: domain", "dc: example"))
	for i := range 3 {
		if c := <-got; len(c.IDs) == 0 || !strings.Contains(string(c.Message), "dc=example,dc=com") {
			t.Errorf("change %d: %+v", i, c)
		}
		must(t, add(t, p, fmt.Sprintf("cn=%d,dc=example,dc=com", i), "objectClass: device", fmt.Sprintf("cn: %d", i)))
	}
	<-got
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestEntryCSN checks that an entry's entryCSN is the revision of the last commit that
// changed the entry. The entryCSNs must be in the order of the commits, even if the
// transactions did not see each other.
func TestEntryCSN(t *testing.T) {
	p := open(t)
	ctx := context.Background()
	must(t, add(t, p, "dc=example,dc=com", "objectClass: domain", "dc: example"))
	must(t, add(t, p, "cn=g,dc=example,dc=com", "objectClass: groupOfNames", "cn: g", "member: cn=0"))
	csn := func() string {
		s := state.Newest(p)
		defer s.Close()
		at, err := s.Find(ctx, name("cn=g,dc=example,dc=com"))
		must(t, err)
		e, err := s.Entry(ctx, at.ID, false)
		must(t, err)
		frontier, err := changestream.Frontier(ctx, s)
		must(t, err)
		got := string(e.Values(p.Schema().Attribute("entryCSN"))[0])
		if want := string(revision.AppendCSN(nil, frontier.Max())); got != want {
			t.Errorf("entryCSN %s, commit %s", got, want)
		}
		last, err := changestream.Written(ctx, s, at.ID)
		must(t, err)
		if last != frontier.Max() {
			t.Errorf("written at %s, commit %s", last, frontier.Max())
		}
		q := partition.Query{Scope: op.WholeSubtree, Base: entry.Root,
			Filter: filter.Resolve(&filter.Equal{Attribute: "entryCSN", Value: []byte(got)}, p.Schema())}
		if _, ok, err := search.Lookup(ctx, s, q, at.ID); !ok || err != nil {
			t.Errorf("(entryCSN=%s) does not find it: %v", got, err)
		}
		found := 0
		for _, err := range search.Search(ctx, s, q) {
			must(t, err)
			found++
		}
		if found != 1 {
			t.Errorf("(entryCSN=%s) finds %d entries", got, found)
		}
		return got
	}
	before := csn()
	member := func(tx *partition.Tx, v string) error {
		return tx.Modify(ctx, name("cn=g,dc=example,dc=com"), []op.Modification{{Kind: op.ModAdd, PartialAttribute: attrs("member: " + v)[0]}})
	}
	// The inner transaction begins later and commits first.
	must(t, update(t, p, func(tx *partition.Tx) error {
		if err := member(tx, "cn=1"); err != nil {
			return err
		}
		return update(t, p, func(tx *partition.Tx) error { return member(tx, "cn=2") })
	}))
	if after := csn(); after <= before {
		t.Errorf("%s after %s", after, before)
	}
}

func TestLookup(t *testing.T) {
	p := sample(t)
	ctx := context.Background()
	s := state.Newest(p)
	defer s.Close()
	for _, base := range []string{"", "dc=example,dc=com", "ou=people,dc=example,dc=com"} {
		at, err := s.Find(ctx, name(base))
		must(t, err)
		for scope := op.BaseObject; scope <= op.Subordinates; scope++ {
			for _, f := range []string{"(objectClass=*)", "(sn=*)", "(objectClass=organizationalUnit)"} {
				parsed, err := filter.Parse(f)
				must(t, err)
				q := partition.Query{Base: at.ID, Scope: scope, Filter: filter.Resolve(parsed, p.Schema())}
				found := map[entry.ID]bool{}
				for r, err := range search.Search(ctx, s, q) {
					must(t, err)
					found[r.ID] = true
				}
				all := partition.Query{Base: entry.Root, Scope: op.WholeSubtree, Filter: filter.Const(filter.True)}
				for r, err := range search.Search(ctx, s, all) {
					must(t, err)
					id, where := r.ID, r.Name
					got, ok, err := search.Lookup(ctx, s, q, id)
					must(t, err)
					if ok != found[id] || ok && (got.Name != where || got.ID != id) {
						t.Errorf("base %q, scope %d, %s: %s: %v, %q", base, scope, f, where, ok, got.Name)
					}
				}
			}
		}
	}
}
