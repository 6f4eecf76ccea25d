package partition_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/configure"
	"github.com/seed-4dac0d86/ldapd/partition/maintain"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// TestSuffixesReachServers adds naming contexts on three servers at the same time, and removes
// some on one of them. It checks that the other servers then have the same naming contexts.
func TestSuffixesReachServers(t *testing.T) {
	ctx := context.Background()
	ps := servers(t, tabletest.NewMem(), 3)
	var g errgroup.Group
	for i, suffix := range []string{"o=a", "o=b", "o=c"} {
		g.Go(func() error { return configure.AddSuffixes(ctx, ps[i], []string{suffix}) })
	}
	must(t, g.Wait())
	for i, p := range ps {
		must(t, p.CatchUp(ctx))
		if n := len(p.Config().Suffixes); n != 4 {
			t.Errorf("server %d has %d naming contexts, want 4", i, n)
		}
	}
	must(t, add(t, ps[1], "o=a", "objectClass: organization"))
	must(t, ps[2].CatchUp(ctx))
	wantProblem(t, configure.SetSuffixes(ctx, ps[2], []string{"dc=example,dc=com"}), partition.Unwilling, "o=a has entries")
	must(t, configure.SetSuffixes(ctx, ps[2], []string{"dc=example,dc=com", "o=a"}))
	must(t, ps[0].CatchUp(ctx))
	if err := add(t, ps[0], "o=b", "objectClass: organization"); err == nil {
		t.Error("what is no naming context any more was taken")
	}
	verifyClean(t, ps[1])
}

// TestReindexBeside adds an index, changes its layout and removes it while three servers write.
// All servers must use the new indexes, and the directory must be sound.
func TestReindexBeside(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	store := tabletest.NewMem()
	ps := servers(t, store, 3)
	var b builders
	b.start(ctx, ps)
	classes := configure.Index{Attribute: "objectClass", Layout: configure.RowLayout}
	goOn := func() {
		t.Helper()
		before := b.done.Load()
		eventually(t, "the servers go on", func() bool { return b.done.Load() > before+5 })
	}
	for i, layout := range []configure.Layout{configure.ColumnLayout, configure.RowLayout} {
		goOn()
		must(t, maintain.Reindex(ctx, ps[i], []configure.Index{classes, {Attribute: "floors", Layout: layout}}, maintain.ReindexOptions{}))
		for _, p := range ps {
			must(t, p.CatchUp(ctx))
			if ix := p.Config().Indexes; len(ix) != 2 || ix[1].Layout != layout {
				t.Errorf("a server has the indexes %v", ix)
			}
		}
		goOn()
		verifyClean(t, ps[2])
	}
	must(t, maintain.Reindex(ctx, ps[0], []configure.Index{classes}, maintain.ReindexOptions{}))
	goOn()
	cancel()
	must(t, b.tries.Wait())
	names, err := store.Names(context.Background())
	must(t, err)
	if slices.Contains(names, "index_floors") {
		t.Error("its table is still there")
	}
	verifyClean(t, ps[0])
}

// TestReindexCutShort ends a reindex between its steps. The index must not be used, and
// the next attempt must fill it again.
func TestReindexCutShort(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	ps := servers(t, tabletest.NewMem(), 2)
	must(t, add(t, ps[0], "cn=a,dc=example,dc=com", "objectClass: building", "floors: 1"))
	stopped, stop := context.WithCancel(ctx)
	indexes := append(ps[0].Config().Indexes, configure.Index{Attribute: "floors", Layout: configure.ColumnLayout})
	err := maintain.Reindex(stopped, ps[0], indexes, maintain.ReindexOptions{Progress: func(int) { stop() }})
	if err == nil {
		t.Fatal("it was not cut short")
	}
	must(t, ps[1].CatchUp(ctx))
	must(t, add(t, ps[1], "cn=b,dc=example,dc=com", "objectClass: building", "floors: 1"))
	find := func(p *partition.Partition, want int) {
		t.Helper()
		if got := search(t, p, "dc=example,dc=com", op.WholeSubtree, "(floors=1)"); len(got) != want {
			t.Errorf("found %v, want %d", got, want)
		}
	}
	find(ps[1], 2)
	must(t, maintain.Reindex(ctx, ps[1], indexes, maintain.ReindexOptions{}))
	must(t, ps[0].CatchUp(ctx))
	find(ps[0], 2)
	verifyClean(t, ps[0])
}

// TestUniqueBeside makes an attribute unique on one server and adds values of the attribute on
// another server. The first server must refuse the change while two entries have the same
// value. After the change, the other server must refuse such a value.
func TestUniqueBeside(t *testing.T) {
	ctx := context.Background()
	ps := servers(t, tabletest.NewMem(), 2)
	must(t, maintain.Reindex(ctx, ps[0], append(ps[0].Config().Indexes, configure.Index{Attribute: "floors", Layout: configure.ColumnLayout}), maintain.ReindexOptions{}))
	must(t, add(t, ps[0], "cn=a,dc=example,dc=com", "objectClass: building", "floors: 1"))
	must(t, ps[1].CatchUp(ctx))
	must(t, add(t, ps[1], "cn=b,dc=example,dc=com", "objectClass: building", "floors: 1"))
	wantProblem(t, configure.SetUnique(ctx, ps[0], configure.Unique{Attribute: "floors"}, true), partition.Constraint, "cn=a,dc=example,dc=com")
	must(t, update(t, ps[0], func(tx *partition.Tx) error { return tx.Delete(ctx, name("cn=b,dc=example,dc=com")) }))
	must(t, configure.SetUnique(ctx, ps[0], configure.Unique{Attribute: "floors"}, true))
	must(t, ps[1].CatchUp(ctx))
	wantProblem(t, add(t, ps[1], "cn=b,dc=example,dc=com", "objectClass: building", "floors: 1"), partition.Constraint, "must be unique")
}

// TestSuffixesThatAre checks that on a read-only server, AddSuffixes accepts naming contexts
// that exist and refuses new ones.
func TestSuffixesThatAre(t *testing.T) {
	ctx := context.Background()
	s := tabletest.NewMem()
	writer, err := partition.Open(ctx, s, partition.Options{Create: true})
	must(t, err)
	t.Cleanup(func() { writer.Close(ctx) })
	must(t, configure.AddSuffixes(ctx, writer, []string{domain}))
	reader, err := partition.Open(ctx, s, partition.Options{Txn: txn.Options{ReadOnly: true}})
	must(t, err)
	t.Cleanup(func() { reader.Close(ctx) })
	must(t, configure.AddSuffixes(ctx, reader, []string{domain}))
	if err := configure.AddSuffixes(ctx, reader, []string{domain, "o=other"}); !errors.Is(err, txn.ErrReadOnly) {
		t.Errorf("another one: %v", err)
	}
}
