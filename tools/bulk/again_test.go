package bulk_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/branch"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
	"github.com/seed-4dac0d86/ldapd/store/txn"
	"github.com/seed-4dac0d86/ldapd/tools/bulk"
)

// begun imports the entries with which a directory begins, as ldapd init does.
func begun(t *testing.T, p *partition.Partition) *partition.Partition {
	t.Helper()
	text := company(0) + "dn: ou=groups,dc=example,dc=com\nobjectClass: organizationalUnit\nentryUUID: 99999999-2222-3333-4444-555555555555\n" +
		strings.ReplaceAll(stamped, "Name: cn=a", "Name: "+write.Founder)
	_, err := bulk.Import(t.Context(), p, bulk.Options{Files: []string{"-"}, Stdin: strings.NewReader(text), By: partition.By{Name: write.Founder}})
	must(t, err)
	return p
}

// moved is a file of another server, in which the first entries differ from those of begun.
func moved(n int) string {
	records := strings.Split(strings.TrimSpace(company(n)), "\n\n")
	records[0] = "dn: dc=example,dc=com\nobjectClass: organization\nobjectClass: dcObject\no: Example"
	records[1] += "\ndescription: all of us"
	for i := range records {
		records[i] += fmt.Sprintf("\nentryUUID: 11111111-2222-3333-4444-%012d\n", i) + stamped
	}
	return strings.Join(records, "\n")
}

// ways are the ways of importing a file of entries.
var ways = map[string]bulk.Options{
	"load": {}, "continue": {Continue: true}, "beside": {Concurrent: true}, "batches": {Concurrent: true, Batches: true},
	"branch": {}, "branch, continue": {Continue: true}, "changes": {}, "changes, continue": {Continue: true},
}

var nameLines = regexp.MustCompile("(?m)^dn: .*$")

// importBy imports a text. If the way is a branch, it merges the branch.
func importBy(t *testing.T, p *partition.Partition, way, text string) imported {
	t.Helper()
	o := ways[way]
	if strings.HasPrefix(way, "changes") {
		text = nameLines.ReplaceAllString(text, "$0\nchangetype: add")
	}
	o.Files = []string{file(t, "moved.ldif", text)}
	if !strings.HasPrefix(way, "branch") {
		return runImport(t, p, o)
	}
	b, err := branch.Create(t.Context(), p, branch.Options{Name: "b"})
	must(t, err)
	o.Branch = b
	r := runImport(t, p, o)
	_, err = b.Merge(t.Context(), partition.By{})
	must(t, err)
	return r
}

// TestIntoANewDirectory imports a file whose first entries differ from those with which the
// directory began. The entries of the file must replace them, and the others must stay.
func TestIntoANewDirectory(t *testing.T) {
	text := moved(60)
	direct := openMem(t)
	mustImport(t, direct, bulk.Options{Files: []string{file(t, "moved.ldif", text)}})
	groups := "\ndn: ou=groups,dc=example,dc=com\n"
	for way := range ways {
		for kind, open := range map[string]func(testing.TB) *partition.Partition{
			"embedded": openLSM, "batches": openMem, "shared": func(t testing.TB) *partition.Partition { return open(t, tabletest.NewMem()) },
		} {
			t.Run(way+" "+kind, func(t *testing.T) {
				p := begun(t, open(t))
				if r := importBy(t, p, way, text); r.err != nil || r.Done != 62 || r.There != 0 {
					t.Fatalf("%+v\n%s", r, r.reports())
				}
				got := export(t, p, bulk.ExportOptions{})
				before, after, found := strings.Cut(got, groups)
				if _, rest, more := strings.Cut(after, "\n\n"); more {
					before += "\n" + rest
				}
				if want := export(t, direct, bulk.ExportOptions{}); !found || before != want {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
				if !strings.Contains(after, "entryUUID: 99999999-") {
					t.Errorf("ou=groups has another id: %s", after)
				}
				mustCheck(t, p)
				if r := importBy(t, p, way, text); r.err != nil || r.Done != 0 || r.There != 62 {
					t.Errorf("again: %+v", r)
				}
				if again := export(t, p, bulk.ExportOptions{}); again != got {
					t.Errorf("the second import made\n%s", again)
				}
			})
		}
	}
}

// TestEqualAndDifferent imports entries that the store has, some of which differ.
func TestEqualAndDifferent(t *testing.T) {
	const text = `dn: DC=Example,dc=COM
dc: EXAMPLE
objectclass: DOMAIN
createTimestamp: 20200101000000Z
entryUUID: 11111111-2222-3333-4444-555555555555

dn: uid=u0000000,ou=people,dc=example,dc=com
objectClass: inetOrgPerson
cn: another secret
sn: number000

dn: uid=zed,ou=people,dc=example,dc=com
objectClass: account

`
	for way, o := range ways {
		t.Run(way, func(t *testing.T) {
			p := openMem(t)
			mustImport(t, p, bulk.Options{Files: []string{file(t, "a.ldif", company(1))}})
			before := export(t, p, bulk.ExportOptions{})
			r := importBy(t, p, way, text)
			report := " uid=u0000000,ou=people,dc=example,dc=com: the store has an entry of this name already, which differs in cn, departmentNumber, description, employeeNumber, givenName, l, mail, telephoneNumber, title, userPassword: make the two equal, or leave the record out\n"
			if !strings.HasSuffix(r.reports(), report) || len(r.bad) != 1 {
				t.Errorf("got  %s\nwant ...%s", r.reports(), report)
			}
			all := o.Continue || strings.HasPrefix(way, "branch")
			if all && (r.Done != 1 || r.There != 1) || !all && r.Done != 0 {
				t.Errorf("%+v", r.Result)
			}
			got := export(t, p, bulk.ExportOptions{})
			if all != strings.Contains(got, "uid=zed") || !strings.HasPrefix(got, before) {
				t.Errorf("%s", got)
			}
		})
	}
}

// TestChangedSince checks that entries with which the directory began are kept once an entry was
// added below them.
func TestChangedSince(t *testing.T) {
	for way := range ways {
		t.Run(way, func(t *testing.T) {
			p := begun(t, openMem(t))
			addEntry(t, p, "uid=x,ou=people,dc=example,dc=com", "objectClass: account")
			r := importBy(t, p, way, moved(0))
			if want := "1 dc=example,dc=com: the store has an entry of this name already, which differs in o, objectClass: "; !strings.HasPrefix(r.reports(), want) {
				t.Errorf("%s", r.reports())
			}
			if len(r.bad) != 2 || r.Done != 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestReplacementRefused refuses the second of two entries that replace others.
func TestReplacementRefused(t *testing.T) {
	p := begun(t, openMem(t))
	r := runImport(t, p, bulk.Options{Continue: true, Files: []string{file(t, "a.ldif", strings.Replace(moved(1), "-000000000001", "-000000000000", 1))}})
	if len(r.bad) != 1 || !strings.Contains(r.reports(), "another entry has the entryUUID") || r.Done != 2 {
		t.Errorf("%+v %s", r, r.reports())
	}
	got := export(t, p, bulk.ExportOptions{})
	if strings.Contains(got, "all of us") || !strings.Contains(got, "o: Example") || !strings.Contains(got, "uid=u0000000,") {
		t.Errorf("%s", got)
	}
	mustCheck(t, p)
}

// TestReplacedTwice imports two records of one name.
func TestReplacedTwice(t *testing.T) {
	p := begun(t, openMem(t))
	r := runImport(t, p, bulk.Options{Files: []string{file(t, "a.ldif", moved(0)+"\ndn: ou=people,dc=example,dc=com\nobjectClass: organizationalUnit\n")}})
	if want := "23 ou=people,dc=example,dc=com: an earlier record has this name already: leave one of them out\n"; r.reports() != want {
		t.Errorf("%s", r.reports())
	}
}

// TestReplacedAfterItsChildren imports entries before the entries above them, which replace others.
func TestReplacedAfterItsChildren(t *testing.T) {
	p := begun(t, openMem(t))
	records := strings.Split(strings.TrimSpace(moved(1)), "\n\n")
	slices.Reverse(records)
	if r := mustImport(t, p, bulk.Options{Files: []string{file(t, "a.ldif", strings.Join(records, "\n\n"))}}); r.Done != 3 {
		t.Errorf("%+v", r)
	}
	got := export(t, p, bulk.ExportOptions{})
	if !strings.Contains(got, "all of us") || !strings.Contains(got, "o: Example") || !strings.Contains(got, "uid=u0000000,") {
		t.Errorf("%s", got)
	}
	mustCheck(t, p)
}

// TestNewDirectoryCrash lets a server die at every call that an import into a new directory makes
// to the store. The directory must be as before or as after the import.
func TestNewDirectoryCrash(t *testing.T) {
	ctx := context.Background()
	text := moved(3)
	met := map[bool]int{} // by whether the import took effect
	for n, done := 1, false; !done; n++ {
		s := tabletest.NewBatchMem()
		must(t, begun(t, openWith(t, s, partition.Options{Create: true})).Close(ctx))
		faulty, f := tabletest.WithFaults(s, uint64(n))
		o := partition.Options{Txn: txn.Options{Lease: time.Second, InFlight: time.Second}}
		dying := openWith(t, faulty, o)
		before := export(t, dying, bulk.ExportOptions{})
		f.CrashAt(n)
		_, err := bulk.Import(ctx, dying, bulk.Options{Files: []string{"-"}, Stdin: strings.NewReader(text), Workers: 1})
		done = err == nil
		f.CrashAt(1)
		limited, cancel := context.WithTimeout(ctx, time.Second)
		dying.Close(limited)
		cancel()
		s.Crash(rand.New(rand.NewPCG(uint64(n), 0)).IntN(3))
		p := openWith(t, s, o)
		got := export(t, p, bulk.ExportOptions{})
		took := strings.Contains(got, "o: Example") && strings.Contains(got, "all of us") && strings.Count(got, "\ndn: ") == 6
		if !took && (got != before || done) {
			t.Errorf("died at call %d, done=%v:\n%s", n, done, got)
		}
		met[took]++
		mustCheck(t, p)
	}
	if met[true] == 0 || met[false] < 3 {
		t.Errorf("%v", met)
	}
}
