package partition_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/verify"
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
		g.Go(func() error { return onlineschema.AddSuffixes(ctx, ps[i], []string{suffix}) })
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
	wantProblem(t, onlineschema.SetSuffixes(ctx, ps[2], []string{"dc=example,dc=com"}), partition.Unwilling, "o=a has entries")
	must(t, onlineschema.SetSuffixes(ctx, ps[2], []string{"dc=example,dc=com", "o=a"}))
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
	classes := catalog.Index{Attribute: "objectClass", Layout: catalog.RowLayout}
	goOn := func() {
		t.Helper()
		before := b.done.Load()
		eventually(t, "the servers go on", func() bool { return b.done.Load() > before+5 })
	}
	for i, layout := range []catalog.Layout{catalog.ColumnLayout, catalog.RowLayout} {
		goOn()
		must(t, onlineschema.Reindex(ctx, ps[i], []catalog.Index{classes, {Attribute: "floors", Layout: layout}}, verify.ReindexOptions{}))
		for _, p := range ps {
			must(t, p.CatchUp(ctx))
			if ix := p.Config().Indexes; len(ix) != 2 || ix[1].Layout != layout {
				t.Errorf("a server has the indexes %v", ix)
			}
		}
		goOn()
		verifyClean(t, ps[2])
	}
	must(t, onlineschema.Reindex(ctx, ps[0], []catalog.Index{classes}, verify.ReindexOptions{}))
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
	indexes := append(ps[0].Config().Indexes, catalog.Index{Attribute: "floors", Layout: catalog.ColumnLayout})
	err := onlineschema.Reindex(stopped, ps[0], indexes, verify.ReindexOptions{Progress: func(int) { stop() }})
	if err == nil {
		t.Fatal("it was not cut short")
	}
	must(t, ps[1].CatchUp(ctx))
	must(t, add(t, ps[1], "cn=b,dc=example,dc=com", "objectClass: building", "floors: 1"))
	find := func(p *partition.Partition, want int) {
		t.Helper()
		if got := searched(t, p, "dc=example,dc=com", op.WholeSubtree, "(floors=1)"); len(got) != want {
			t.Errorf("found %v, want %d", got, want)
		}
	}
	find(ps[1], 2)
	must(t, onlineschema.Reindex(ctx, ps[1], indexes, verify.ReindexOptions{}))
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
	must(t, onlineschema.Reindex(ctx, ps[0], append(ps[0].Config().Indexes, catalog.Index{Attribute: "floors", Layout: catalog.ColumnLayout}), verify.ReindexOptions{}))
	must(t, add(t, ps[0], "cn=a,dc=example,dc=com", "objectClass: building", "floors: 1"))
	must(t, ps[1].CatchUp(ctx))
	must(t, add(t, ps[1], "cn=b,dc=example,dc=com", "objectClass: building", "floors: 1"))
	wantProblem(t, onlineschema.SetUnique(ctx, ps[0], []catalog.Unique{catalog.Unique{Attribute: "floors"}}, true), partition.Constraint, "cn=a,dc=example,dc=com")
	must(t, update(t, ps[0], func(tx *partition.Tx) error { return tx.Delete(ctx, name("cn=b,dc=example,dc=com")) }))
	must(t, onlineschema.SetUnique(ctx, ps[0], []catalog.Unique{catalog.Unique{Attribute: "floors"}}, true))
	must(t, ps[1].CatchUp(ctx))
	wantProblem(t, add(t, ps[1], "cn=b,dc=example,dc=com", "objectClass: building", "floors: 1"), partition.Constraint, "must be unique")
}

// TestSuffixesThatAre checks that on a read-only server, AddSuffixes accepts naming contexts
// that exist and refuses new ones.
func TestSuffixesThatAre(t *testing.T) {
	ctx := context.Background()
	s := tabletest.NewMem()
	writer, err := partition.Open(ctx, s, partition.Options{Format: *storeFormat, Create: true})
	must(t, err)
	t.Cleanup(func() { writer.Close(ctx) })
	must(t, onlineschema.AddSuffixes(ctx, writer, []string{domain}))
	reader, err := partition.Open(ctx, s, partition.Options{Txn: txn.Options{ReadOnly: true}})
	must(t, err)
	t.Cleanup(func() { reader.Close(ctx) })
	must(t, onlineschema.AddSuffixes(ctx, reader, []string{domain}))
	if err := onlineschema.AddSuffixes(ctx, reader, []string{domain, "o=other"}); !errors.Is(err, txn.ErrReadOnly) {
		t.Errorf("another one: %v", err)
	}
}
