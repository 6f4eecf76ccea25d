package bulk_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
	"github.com/seed-4dac0d86/ldapd/tools/bulk"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, s table.Store) *partition.Partition {
	t.Helper()
	return openWith(t, s, partition.Options{Create: true, Cache: 8 << 20})
}

func openWith(t testing.TB, s table.Store, o partition.Options) *partition.Partition {
	t.Helper()
	ctx := context.Background()
	p, err := partition.Open(ctx, s, o)
	must(t, err)
	t.Cleanup(func() { p.Close(ctx) })
	return p
}

func openMem(t testing.TB) *partition.Partition { return open(t, tabletest.NewBatchMem()) }

func openLSM(t testing.TB) *partition.Partition {
	t.Helper()
	s, err := lsm.Open(lsm.Options{Path: t.TempDir()})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return open(t, s)
}

// file writes text to a temporary file and returns its path.
func file(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// imported is the result of an import.
type imported struct {
	bulk.Result
	err   error
	bad   []*ldif.Error
	notes []string
}

func (r *imported) reports() string {
	var b strings.Builder
	for _, e := range r.bad {
		fmt.Fprintf(&b, "%d %s: %s\n", e.Line, e.DN, e.Text)
	}
	return b.String()
}

func runImport(t testing.TB, p *partition.Partition, o bulk.Options) (r imported) {
	t.Helper()
	o.Report = func(e *ldif.Error) { r.bad = append(r.bad, e) }
	o.Note = func(s string) { r.notes = append(r.notes, s) }
	o.By.Name = "cn=admin"
	r.Result, r.err = bulk.Import(context.Background(), p, o)
	return r
}

func mustImport(t testing.TB, p *partition.Partition, o bulk.Options) imported {
	t.Helper()
	r := runImport(t, p, o)
	if r.err != nil {
		t.Fatalf("%v\n%s", r.err, r.reports())
	}
	return r
}

// export returns an export of the entries and definitions of a directory.
func export(t testing.TB, p *partition.Partition, o bulk.ExportOptions) string {
	t.Helper()
	o.NoConfig = true
	return exportAll(t, p, o)
}

func exportAll(t testing.TB, p *partition.Partition, o bulk.ExportOptions) string {
	t.Helper()
	s := state.Newest(p)
	defer s.Close()
	var b bytes.Buffer
	_, err := bulk.Export(context.Background(), p, s, &b, o)
	must(t, err)
	return b.String()
}

// names returns the names of the records in an LDIF text.
func names(text string) (ns []string) {
	for line := range strings.Lines(text) {
		if n, ok := strings.CutPrefix(line, "dn: "); ok {
			ns = append(ns, strings.TrimSpace(n))
		}
	}
	return ns
}

// company returns the LDIF of a directory with n people.
func company(n int) string {
	var b strings.Builder
	b.WriteString("dn: dc=example,dc=com\nobjectClass: domain\ndc: example\n\n" +
		"dn: ou=people,dc=example,dc=com\nobjectClass: organizationalUnit\nou: people\n\n")
	for i := range n {
		fmt.Fprintf(&b, `dn: uid=u%07[1]d,ou=people,dc=example,dc=com
objectClass: top
objectClass: person
objectClass: organizationalPerson
objectClass: inetOrgPerson
uid: u%07[1]d
cn: Person Number%03[2]d %07[1]d
sn: Number%03[2]d
givenName: Person
mail: u%07[1]d@example.com
telephoneNumber: +1 555 %03[2]d %04[1]d
employeeNumber: %[1]d
departmentNumber: D%03[2]d
l: Oslo North
title: Senior Engineer
description: Builds engines on project-c%03[2]d in Lisbon
userPassword: {SSHA}%040[1]d

`, i, i%100)
	}
	return b.String()
}

func BenchmarkImport(b *testing.B) {
	const n = 20_000
	path := file(b, "people.ldif", benchmarkText(b, n))
	done := 0
	for b.Loop() {
		b.StopTimer()
		p := openLSM(b)
		b.StartTimer()
		r := mustImport(b, p, bulk.Options{Files: []string{path}})
		done += r.Done
	}
	b.ReportMetric(float64(done)/b.Elapsed().Seconds(), "entries/s")
}

// benchmarkText returns the LDIF of a directory with n people, or the contents of the
// file that LDAPD_BENCH_LDIF names.
func benchmarkText(b *testing.B, n int) string {
	if name := os.Getenv("LDAPD_BENCH_LDIF"); name != "" {
		text, err := os.ReadFile(name)
		must(b, err)
		return string(text)
	}
	return company(n)
}
