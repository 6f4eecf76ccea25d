package partition_test

import (
	"context"
	"errors"
	"testing"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/load"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// byRules modifies an entry under the given rules.
func byRules(t testing.TB, p *partition.Partition, r partition.Rules, dn string, changes ...op.Modification) error {
	t.Helper()
	return update(t, p, func(tx *partition.Tx) error {
		tx.Rules = r
		return tx.Modify(context.Background(), name(dn), changes)
	})
}

// TestRulesLeaveItSound checks that the directory and its indexes of stamps are sound
// after relaxed and permissive changes.
func TestRulesLeaveItSound(t *testing.T) {
	ctx := context.Background()
	var indexes []catalog.Index
	for _, a := range []string{"createTimestamp", "modifyTimestamp", "modifiersName", "description"} {
		indexes = append(indexes, catalog.Index{Attribute: a, Layout: catalog.RowLayout})
	}
	p, err := partition.Open(ctx, tabletest.NewBatchMem(), partition.Options{Format: *storeFormat, Create: true, Schema: tagged, Indexes: indexes})
	must(t, err)
	defer p.Close(ctx)
	must(t, onlineschema.SetSuffixes(ctx, p, []string{domain}))
	must(t, add(t, p, domain, domainLines...))
	old := []byte("20050101000000Z")
	relaxed := partition.Rules{Relaxed: true}
	must(t, byRules(t, p, relaxed, domain, change(op.ModReplace, "createTimestamp", old),
		change(op.ModReplace, "modifyTimestamp", old), change(op.ModReplace, "modifiersName", []byte("cn=x"))))
	wantSound(t, p)
	for _, f := range []string{"(createTimestamp=20050101000000Z)", "(modifyTimestamp=20050101000000Z)", "(modifiersName=cn=x)"} {
		if got := searched(t, p, domain, op.WholeSubtree, f); len(got) != 1 {
			t.Errorf("%s finds %v", f, got)
		}
	}
	must(t, byRules(t, p, relaxed, domain, change(op.ModDelete, "modifyTimestamp"), change(op.ModDelete, "modifiersName")))
	wantSound(t, p)
	must(t, byRules(t, p, partition.Rules{Permissive: true}, domain, change(op.ModAdd, "description", []byte("a"), []byte("A")),
		change(op.ModDelete, "description", []byte("b")), change(op.ModDelete, "seeAlso")))
	wantSound(t, p)
}

// TestEmptyChangeBesideDelete checks that a change without effect still stamps the entry,
// so that the change conflicts with a concurrent deletion of the entry.
func TestEmptyChangeBesideDelete(t *testing.T) {
	ctx := context.Background()
	p := sample(t)
	at := name("uid=u1," + people)
	tries := 0
	_, err := write.Update(ctx, p, partition.By{Name: "cn=first"}, func(tx *partition.Tx) error {
		err := tx.Modify(ctx, at, []op.Modification{
			change(op.ModAdd, "description", []byte("x")), change(op.ModDelete, "description", []byte("x"))})
		if tries++; tries == 1 {
			must(t, update(t, p, func(tx *partition.Tx) error { return tx.Delete(ctx, at) }))
		}
		return err
	})
	var problem *partition.Error
	if !errors.As(err, &problem) || problem.Problem != partition.NoSuchEntry {
		t.Errorf("modify beside the delete: %v", err)
	}
	wantSound(t, p)
}

// TestLoadBelowAlias checks that a load refuses entries below aliases, whether the alias
// was loaded or existed before.
func TestLoadBelowAlias(t *testing.T) {
	ctx := context.Background()
	p := sample(t)
	alias := []string{"objectClass: alias", "objectClass: extensibleObject", "aliasedObjectName: " + domain}
	must(t, add(t, p, "cn=old,"+domain, alias...))
	l, err := load.Load(ctx, p, load.Options{})
	must(t, err)
	must(t, l.Add(ctx, name("cn=new,"+domain), attrs(alias...)))
	for _, above := range []string{"cn=old", "cn=new", "cn=old"} {
		err := l.Add(ctx, name("cn=x,"+above+","+domain), attrs("objectClass: device"))
		var problem *partition.Error
		if !errors.As(err, &problem) || problem.Problem != partition.BelowAlias {
			t.Errorf("below %s: %v", above, err)
		}
	}
	must(t, l.Add(ctx, name("cn=x,"+domain), attrs("objectClass: device")))
	_, err = l.Commit(ctx)
	must(t, err)
	wantSound(t, p)
}

// TestRenameToOtherSpelling renames an entry to another spelling of its name. If the old
// value is to be deleted, the rename must also change the spelling in the attribute.
func TestRenameToOtherSpelling(t *testing.T) {
	ctx := context.Background()
	p := sample(t)
	rename := func(from, to string, deleteOld bool) {
		t.Helper()
		must(t, update(t, p, func(tx *partition.Tx) error {
			return tx.Rename(ctx, name(from+","+people), name(to)[0], deleteOld, nil)
		}))
	}
	for _, c := range []struct {
		to        string
		deleteOld bool
		want      string
	}{
		{"uid=U1", true, "U1"},
		{"uid=u1", false, "U1"},
		{"uid=U1", true, "U1"},
		{"UID=u1", true, "u1"},
	} {
		rename("uid=u1", c.to, c.deleteOld)
		wantSound(t, p)
		s := state.Newest(p)
		at, err := s.Find(ctx, name(c.to+","+people))
		must(t, err)
		e, err := s.Entry(ctx, at.ID, false)
		must(t, err)
		if vs := e.Values(p.Schema().Attribute("uid")); len(vs) != 1 || string(vs[0]) != c.want {
			t.Errorf("after %s: %q", c.to, vs)
		}
		s.Close()
	}
}
