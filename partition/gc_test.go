package partition_test

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// gcPeople and gcRounds are the number of people and the number of rounds of changes in
// tests of disk space. Larger numbers take longer.
var (
	gcPeople = flag.Int("people", 500, "entries that are overwritten until space comes back, in hundreds")
	gcRounds = flag.Int("rounds", 10, "times that they are")
)

// folder opens an embedded store in a folder. The store flushes often.
func folder(t testing.TB, dir string) (p *partition.Partition, done func()) {
	t.Helper()
	ctx := context.Background()
	s, err := lsm.Open(lsm.Options{Path: dir, NoSync: true, MemTable: 256 << 10})
	must(t, err)
	p, err = partition.Open(ctx, s, partition.Options{Format: *storeFormat, Create: true, Schema: tagged, Txn: txn.Options{SecretAge: time.Nanosecond}})
	must(t, err)
	must(t, onlineschema.SetSuffixes(ctx, p, []string{"dc=example,dc=com"}))
	return p, func() {
		must(t, p.Close(ctx))
		must(t, s.Close())
	}
}

// addPeople adds people with the values that they have after a number of rounds of
// changes.
func addPeople(t testing.TB, p *partition.Partition, round int) {
	t.Helper()
	ctx := context.Background()
	must(t, add(t, p, "dc=example,dc=com", "objectClass: domain"))
	for i := 0; i < *gcPeople; i += 100 {
		must(t, update(t, p, func(tx *partition.Tx) error {
			for k := i; k < i+100; k++ {
				if _, err := tx.Add(ctx, name(fmt.Sprintf("cn=p%d,dc=example,dc=com", k)), attrs("objectClass: person",
					fmt.Sprintf("sn: Name %d", round), "description: "+describe(k, round),
					fmt.Sprintf("userPassword: {SSHA}password%dof%d", round, k)), false); err != nil {
					return err
				}
			}
			return nil
		}))
	}
}

// describe returns a text that compresses badly.
func describe(k, round int) string {
	b := make([]byte, 300)
	n := uint32(k*7919 + round*104729 + 1)
	for i := range b {
		n = n*1664525 + 1013904223
		b[i] = 'a' + byte(n>>24)%26
	}
	return string(b)
}

func overwrite(t testing.TB, p *partition.Partition, round int) {
	t.Helper()
	ctx := context.Background()
	for i := 0; i < *gcPeople; i += 100 {
		must(t, update(t, p, func(tx *partition.Tx) error {
			for k := i; k < i+100; k++ {
				var ms []op.Modification
				for _, a := range attrs(fmt.Sprintf("sn: Name %d", round), "description: "+describe(k, round),
					fmt.Sprintf("userPassword: {SSHA}password%dof%d", round, k)) {
					ms = append(ms, op.Modification{Kind: op.ModReplace, PartialAttribute: a})
				}
				if err := tx.Modify(ctx, name(fmt.Sprintf("cn=p%d,dc=example,dc=com", k)), ms); err != nil {
					return err
				}
			}
			return nil
		}))
	}
}

// sizeOf returns the total size of the sorted tables in the folder of a closed store.
func sizeOf(t testing.TB, dir string) (n int64) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".sst") {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				n += info.Size()
			}
		}
		return err
	}))
	return n
}

// TestSpaceComesBack checks that entries that were overwritten many times occupy little
// more disk space than entries that were written once.
func TestSpaceComesBack(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it writes 5,000 entries")
	}
	ctx := context.Background()
	fresh, used := t.TempDir(), t.TempDir()
	p, done := folder(t, fresh)
	addPeople(t, p, *gcRounds)
	_, err := p.DB.Collect(ctx, txn.CollectOptions{})
	must(t, err)
	done()

	p, done = folder(t, used)
	addPeople(t, p, 0)
	for round := range *gcRounds {
		overwrite(t, p, round+1)
	}
	_, err = p.DB.Collect(ctx, txn.CollectOptions{})
	must(t, err)
	wantSound(t, p)
	done()
	was, is := sizeOf(t, fresh), sizeOf(t, used)
	t.Logf("written once: %d bytes, %d times: %d", was, *gcRounds+1, is)
	if is > was*3/2 {
		t.Errorf("written once it takes %d bytes, overwritten %d times %d", was, *gcRounds, is)
	}
}

// TestUniqueMarksGo checks that the marks of unique values are collected like other marks
// when no transaction can conflict with them any more.
func TestUniqueMarksGo(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := tabletest.NewMem()
	o := quick
	o.SecretAge = time.Nanosecond
	p, err := partition.Open(ctx, s, partition.Options{Format: *storeFormat, Create: true, Schema: tagged, Txn: o,
		Indexes: []catalog.Index{{Attribute: "mail", Layout: catalog.ColumnLayout}}})
	must(t, err)
	defer p.Close(ctx)
	must(t, onlineschema.SetSuffixes(ctx, p, []string{"dc=example,dc=com"}))
	must(t, onlineschema.SetUnique(ctx, p, []catalog.Unique{catalog.Unique{Attribute: "mail"}}, true))
	must(t, add(t, p, "dc=example,dc=com", "objectClass: domain"))
	for i := range 5 {
		must(t, add(t, p, fmt.Sprintf("uid=a%d,dc=example,dc=com", i), "objectClass: account", "objectClass: extensibleObject",
			fmt.Sprintf("mail: a%d@example.com", i)))
	}
	marks := func() (n int) {
		for p, err := range s.Table("unique").(table.Redactor).History(ctx, table.Range{}) {
			must(t, err)
			n += len(p.Cells)
		}
		return n
	}
	if marks() != 5 {
		t.Fatalf("%d marks were made", marks())
	}
	for end := time.Now().Add(20 * time.Second); marks() > 0; {
		if time.Now().After(end) {
			t.Fatalf("%d marks are left", marks())
		}
		_, err := p.DB.Collect(ctx, txn.CollectOptions{Retention: time.Hour})
		must(t, err)
	}
}
