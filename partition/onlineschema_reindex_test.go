package partition_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/verify"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

func explain(t testing.TB, p *partition.Partition, s *partition.Snapshot, f string) string {
	t.Helper()
	text, err := search.Explain(context.Background(), s, partition.Query{Scope: op.WholeSubtree, Filter: filter.Resolve(filter.MustParse(f), p.Schema())}, true)
	must(t, err)
	return text
}

func plan(t testing.TB, p *partition.Partition, f string) string {
	s := state.Newest(p)
	defer s.Close()
	return explain(t, p, s, f)
}

func TestSetIndexes(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, p *partition.Partition, s table.Store) {
		ctx := context.Background()
		loadSample(t, p, 300)
		var many []string
		for i := range 5000 {
			many = append(many, fmt.Sprintf("description: number %d", i))
		}
		must(t, add(t, p, "ou=wide,"+domain, append(many, "objectClass: organizationalUnit")...))
		before := revisionOf(p)
		const byDescription, byMail = "(description=number 4711)", "(mail=u7@example.com)"
		if got := plan(t, p, byDescription); !strings.Contains(got, "scan of the subtree") {
			t.Errorf("without an index: %s", got)
		}

		set := func(ix ...catalog.Index) {
			t.Helper()
			must(t, onlineschema.SetIndexes(ctx, p, ix))
			if got := p.Config().Indexes; !slices.Equal(got, ix) {
				t.Errorf("indexes: %v", got)
			}
			for f, want := range map[string]string{byDescription: "ou=wide," + domain, byMail: "uid=u7,ou=people," + domain} {
				if got := searched(t, p, domain, op.WholeSubtree, f); len(got) != 1 || got[0] != want {
					t.Errorf("%v: %s: %q", ix, f, got)
				}
			}
			wantSound(t, p)
		}
		set(catalog.Index{Attribute: "description", Layout: catalog.ColumnLayout})
		if got := plan(t, p, byDescription); strings.Contains(got, "scan of the subtree") {
			t.Errorf("with an index: %s", got)
		}
		if got := plan(t, p, byMail); !strings.Contains(got, "column of mail in memory") {
			t.Errorf("with a dropped index: %s", got)
		}
		names, err := s.Names(ctx)
		must(t, err)
		if slices.Contains(names, "index_mail") {
			t.Error("the table of the dropped index is still there")
		}
		set(catalog.Index{Attribute: "description", Layout: catalog.RowLayout}, catalog.Index{Attribute: "mail", Layout: catalog.ColumnLayout})
		set(catalog.DefaultIndexes()...)

		// States before the index was added do not have the index.
		set(catalog.Index{Attribute: "description", Layout: catalog.RowLayout})
		old, err := state.At(ctx, p, before)
		must(t, err)
		defer old.Close()
		if got := explain(t, p, old, byDescription); !strings.Contains(got, "scan of the subtree") || !strings.Contains(got, "1 entries found") {
			t.Errorf("in the past: %s", got)
		}
		// Changes after the index was added are indexed.
		must(t, add(t, p, "ou=new,"+domain, "objectClass: organizationalUnit", "description: new"))
		if got := searched(t, p, domain, op.WholeSubtree, "(description=new)"); len(got) != 1 {
			t.Errorf("after: %q", got)
		}
		wantSound(t, p)
	})
}

func revisionOf(p *partition.Partition) table.Revision {
	s := state.Newest(p)
	defer s.Close()
	return s.Revision()
}

// TestSetIndexesWaits checks that a change of an index's layout waits for the searches that use
// the index, and fails if they do not end in time.
func TestSetIndexesWaits(t *testing.T) {
	defer func(before time.Duration) { onlineschema.DrainTime = before }(onlineschema.DrainTime)
	onlineschema.DrainTime = 50 * time.Millisecond
	p := sample(t)
	s := state.Newest(p)
	ctx := context.Background()
	rows := []catalog.Index{{Attribute: "uid", Layout: catalog.RowLayout}}
	if err := onlineschema.SetIndexes(ctx, p, rows); err == nil || !strings.Contains(err.Error(), "still running") {
		t.Errorf("with a search running: %v", err)
	}
	if got := explain(t, p, s, "(uid=u1)"); strings.Contains(got, "scan of the subtree") || !strings.Contains(got, "1 entries found") {
		t.Errorf("the running search: %s", got)
	}
	s.Close()
	if got := searched(t, p, domain, op.WholeSubtree, "(uid=u1)"); len(got) != 1 {
		t.Errorf("meanwhile: %q", got)
	}
	must(t, onlineschema.SetIndexes(ctx, p, rows))
	wantSound(t, p)
}

func TestSetIndexesRefuses(t *testing.T) {
	p := sample(t)
	for _, c := range []struct {
		problem partition.Problem
		text    string
		indexes []catalog.Index
	}{
		{partition.UndefinedType, "colour", []catalog.Index{{Attribute: "colour", Layout: catalog.RowLayout}}},
		{partition.Unwilling, "secret", []catalog.Index{{Attribute: "userPassword", Layout: catalog.RowLayout}}},
		{partition.NoMatching, "equality", []catalog.Index{{Attribute: "jpegPhoto", Layout: catalog.RowLayout}}},
		{partition.Unwilling, "layout", []catalog.Index{{Attribute: "cn", Layout: "b-tree"}}},
		{partition.Unwilling, "twice", []catalog.Index{{Attribute: "cn", Layout: "row"}, {Attribute: "commonName", Layout: "row"}}},
	} {
		wantProblem(t, onlineschema.SetIndexes(context.Background(), p, c.indexes), c.problem, c.text)
	}
	wantSound(t, p)
}

// TestReindexNeeded checks that the indexes of references and unique attributes can be filled
// again but not removed. As long as they are not whole, changes that need them are refused.
func TestReindexNeeded(t *testing.T) {
	ctx := context.Background()
	again := func(p *partition.Partition, ctx context.Context, o verify.ReindexOptions) error {
		o.Again = []string{"member", "mail"}
		return onlineschema.Reindex(ctx, p, p.Config().Indexes, o)
	}
	prepare := func(t *testing.T, p *partition.Partition) {
		loadSample(t, p, 20)
		must(t, addGroup(t, p, group, "uid=u1,ou=people,"+domain, "uid=u2,ou=people,"+domain))
		follow(t, p, false, "member")
		must(t, onlineschema.SetUnique(ctx, p, []catalog.Unique{catalog.Unique{Attribute: "mail"}}, true))
		wantProblem(t, onlineschema.SetIndexes(ctx, p, []catalog.Index{{Attribute: "mail", Layout: catalog.ColumnLayout}}), partition.Unwilling, "member")
		wantProblem(t, onlineschema.SetIndexes(ctx, p, []catalog.Index{{Attribute: "member", Layout: catalog.ColumnLayout}}), partition.Unwilling, "mail")
	}
	eachStore(t, func(t *testing.T, p *partition.Partition, _ table.Store) {
		prepare(t, p)
		addSame := func() error { return addPerson(t, p, "cn=same,"+domain, "mail: u3@example.com") }
		loadSame := func() error {
			l := begun(t, p)
			defer l.Abort(ctx)
			return loadAdd(l, "cn=same,"+domain, "objectClass: inetOrgPerson", "sn: Person", "cn: Person", "mail: u3@example.com")
		}
		stopped, stop := context.WithCancel(ctx)
		if err := again(p, stopped, verify.ReindexOptions{Progress: func(int) { stop() }}); err == nil {
			t.Fatal("the filling was not interrupted")
		}
		for what, err := range map[string]error{"delete": remove(t, p, "uid=u1,ou=people,"+domain), "add": addSame(), "load": loadSame()} {
			t.Log(what)
			wantProblem(t, err, partition.Unwilling, "is being made")
		}
		must(t, again(p, ctx, verify.ReindexOptions{}))
		must(t, remove(t, p, "uid=u1,ou=people,"+domain))
		wantValues(t, p, group, "member", "uid=u2,ou=people,"+domain)
		wantProblem(t, addSame(), partition.Constraint, "mail")
		wantSound(t, p)
	})
	t.Run("shared", func(t *testing.T) {
		p, err := partition.Open(ctx, tabletest.NewMem(), partition.Options{Format: *storeFormat, Create: true, Schema: tagged})
		must(t, err)
		t.Cleanup(func() { p.Close(ctx) })
		prepare(t, p)
		wantProblem(t, again(p, ctx, verify.ReindexOptions{}), partition.Unwilling, "or rebuild all indexes while no server runs")
	})
}

// TestRebuild damages an index, the tree and a normalised name, and rebuilds them. It checks
// that Verify finds the damage before the rebuild and nothing after it.
func TestRebuild(t *testing.T) {
	for name, openStore := range stores {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			s := openStore(t)
			p, err := partition.Open(ctx, s, partition.Options{Format: *storeFormat, Create: true, Schema: tagged})
			must(t, err)
			loadSample(t, p, 200)
			var members []string
			for i := range 150 {
				members = append(members, fmt.Sprintf("member: uid=u%d,ou=people,%s", i, domain))
			}
			must(t, add(t, p, "cn=many,"+domain, append(members, "objectClass: groupOfNames")...))
			must(t, s.Drop(ctx, "index_mail"))
			put(t, p, s, "tree", 0, table.Mutation{Row: append(make([]byte, 16), "2.5.4.3=stray"...), Cells: []table.Cell{{Family: 'n', Qualifier: []byte("2.5.4.3=stray"), Value: []byte("x")}}})
			u1 := idOf(t, p, "uid=u1,ou=people,"+domain)
			misplace(t, p, s, u1, func(n *master.Node) { n.NormRDN = "0.9.2342.19200300.100.1.1=other" })
			if len(faults(t, p)) < 3 {
				t.Error("the damage is not found")
			}
			must(t, p.Close(ctx))
			setNormalizer(t, s, "another")
			if _, err := partition.Open(ctx, s, partition.Options{}); err == nil || !strings.Contains(err.Error(), "run reindex") {
				t.Fatalf("open: %v", err)
			}

			n, err := verify.Rebuild(ctx, s, partition.Options{}, verify.ReindexOptions{})
			must(t, err)
			if n != 203 {
				t.Errorf("%d entries", n)
			}
			p, err = partition.Open(ctx, s, partition.Options{})
			must(t, err)
			defer p.Close(ctx)
			wantSound(t, p)
			if got := searched(t, p, domain, op.WholeSubtree, "(mail=u1@example.com)"); len(got) != 1 {
				t.Errorf("after: %q", got)
			}
		})
	}
}

// setNormalizer sets the version of the normal forms in the store's header, as if another
// version had made the keys.
func setNormalizer(t *testing.T, s table.Store, version string) {
	t.Helper()
	setHeader(t, s, map[string]any{"normalizer": version})
}

// TestRebuildCollides rebuilds a store in which two siblings have different stored names that
// become equal in the present normal form. The rebuild must report the two entries and change
// nothing.
func TestRebuildCollides(t *testing.T) {
	p, s := sampleStore(t)
	ctx := context.Background()
	u1, u2 := idOf(t, p, "uid=u1,ou=people,"+domain), idOf(t, p, "uid=u2,ou=people,"+domain)
	misplace(t, p, s, u1, func(n *master.Node) { n.UpRDN = "uid=U2" })
	must(t, p.Close(ctx))
	var found []string
	_, err := verify.Rebuild(ctx, s, partition.Options{}, verify.ReindexOptions{Found: func(f *verify.Finding) error { found = append(found, f.String()); return nil }})
	if err == nil || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("rebuild: %v", err)
	}
	all := strings.Join(found, "\n")
	if len(found) != 1 || !strings.Contains(all, "the same name") || !strings.Contains(all, u1.String()) || !strings.Contains(all, u2.String()) {
		t.Errorf("found: %s", all)
	}
	p, err = partition.Open(ctx, s, partition.Options{})
	must(t, err)
	defer p.Close(ctx)
	if got := searched(t, p, domain, op.WholeSubtree, "(mail=u2@example.com)"); len(got) != 1 {
		t.Errorf("after: %q", got)
	}
}

// TestChosenLayouts adds indexes without a layout. Each gets the layout that suits the values of the
// entries, and a survey of the index then says the same.
func TestChosenLayouts(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, p *partition.Partition, _ table.Store) {
		ctx := context.Background()
		loadSample(t, p, 300)
		want := []catalog.Index{{Attribute: "mail", Layout: catalog.ColumnLayout}, {Attribute: "objectClass", Layout: catalog.RowLayout}, {Attribute: "pager", Layout: catalog.RowLayout}}
		var given []catalog.Index
		for _, x := range want {
			given = append(given, catalog.Index{Attribute: x.Attribute})
		}
		must(t, onlineschema.SetIndexes(ctx, p, nil))
		for range 2 { // once from the entries, and once from the indexes
			must(t, onlineschema.SetIndexes(ctx, p, given))
			if got := p.Config().Indexes; !slices.Equal(got, want) {
				t.Fatalf("indexes: %v, want %v", got, want)
			}
		}
		s := state.Newest(p)
		defer s.Close()
		for _, x := range s.Catalog.Ordered {
			v, err := onlineschema.SurveyIndex(ctx, s, x)
			must(t, err)
			t.Logf("%s: %+v", x.Typ.Name(), v)
			if x.Typ.Name() == "mail" && (v.Values != 300 || v.Entries != 300 || v.Largest != 1) || x.Typ.Name() == "objectClass" && v.Largest < 300 {
				t.Errorf("%s: %+v", x.Typ.Name(), v)
			}
		}
	})
	for _, c := range []struct {
		onlineschema.Survey
		want catalog.Layout
	}{
		{onlineschema.Survey{}, catalog.RowLayout},
		{onlineschema.Survey{Values: 100_000, Entries: 100_000, Largest: 1}, catalog.ColumnLayout},
		{onlineschema.Survey{Values: 100_000, Entries: 1_100_000, Largest: 1_000_000}, catalog.RowLayout}, // one value is in most entries
		{onlineschema.Survey{Values: 10, Entries: 1000, Largest: 100}, catalog.RowLayout},
	} {
		if got := c.Layout(); got != c.want {
			t.Errorf("%+v: %s, want %s", c.Survey, got, c.want)
		}
	}
}
