package bulk_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/verify"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
	"github.com/seed-4dac0d86/ldapd/store/txn"
	"github.com/seed-4dac0d86/ldapd/tools/bulk"
)

const stamped = "createTimestamp: 20010203040506Z\nmodifyTimestamp: 20010203040506Z\ncreatorsName: cn=a\nmodifiersName: cn=a\nentryCSN: 20010203040506.000000Z#000000#001#000000\n"

// stampedCompany returns the LDIF of a company whose entries have ids and times. The
// entries are in reverse order.
func stampedCompany(n int) string {
	records := strings.Split(strings.TrimSpace(company(n)), "\n\n")
	for i := range records {
		records[i] += fmt.Sprintf("\nentryUUID: 11111111-2222-3333-4444-%012d\n", i) + stamped
	}
	slices.Reverse(records)
	return strings.Join(records, "\n")
}

// TestImportBeside checks that an import through a branch and a load make the same directory.
func TestImportBeside(t *testing.T) {
	text := stampedCompany(350)
	suffix := []string{"dc=example,dc=com"}
	loaded, added := openMem(t), openLSM(t)
	mustImport(t, loaded, bulk.Options{Files: []string{file(t, "a.ldif", text)}, Suffixes: suffix})
	if r := mustImport(t, added, bulk.Options{Files: []string{file(t, "a.ldif", text)}, Suffixes: suffix, Concurrent: true}); r.Done != 352 {
		t.Errorf("%d entries", r.Done)
	}
	if a, b := export(t, loaded, bulk.ExportOptions{}), export(t, added, bulk.ExportOptions{}); a != b {
		t.Errorf("the exports differ:\n%s\n\n%s", a, b)
	}
	mustCheck(t, added)
}

func mustCheck(t *testing.T, p *partition.Partition) {
	t.Helper()
	_, err := verify.Verify(t.Context(), p, verify.Options{Found: func(f *verify.Finding) error { t.Errorf("%+v", f); return nil }})
	if err != nil {
		t.Error(err)
	}
}

// TestUpdatesDuringImport checks that other updates commit between batches.
func TestUpdatesDuringImport(t *testing.T) {
	p := openLSM(t)
	mustImport(t, p, bulk.Options{Stdin: strings.NewReader("dn: dc=example,dc=org\nobjectClass: domain\n"), Files: []string{"-"}})
	var between atomic.Int32
	done := make(chan error, 1)
	stop := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if err := describe(t.Context(), p, "dc=example,dc=org", n); err != nil {
				done <- err
				return
			}
			if c := count(t, p, "dc=example,dc=com"); c > 0 && c < 2002 {
				between.Add(1)
			}
		}
	}()
	mustImport(t, p, bulk.Options{Files: []string{file(t, "a.ldif", company(2000))}, Suffixes: []string{"dc=example,dc=com"}, Concurrent: true, Batches: true})
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if between.Load() == 0 {
		t.Error("no update committed between two batches")
	}
	mustCheck(t, p)
}

func describe(ctx context.Context, p *partition.Partition, name string, n int) error {
	d, err := dn.Parse(name)
	if err != nil {
		return err
	}
	_, err = write.Update(ctx, p, partition.By{}, func(tx *partition.Tx) error {
		return tx.Modify(ctx, d, []op.Modification{{Kind: op.ModReplace, PartialAttribute: op.PartialAttribute{Description: "description", Values: [][]byte{fmt.Append(nil, n)}}}})
	})
	return err
}

// count returns the number of entries of a subtree.
func count(t *testing.T, p *partition.Partition, base string) (n int) {
	d, err := dn.Parse(base)
	if err != nil {
		t.Error(err)
		return 0
	}
	s := state.Newest(p)
	defer s.Close()
	at, err := s.Find(t.Context(), d)
	if err != nil {
		return 0 // the base does not exist yet
	}
	for _, err := range search.Search(t.Context(), s, partition.Query{Base: at.ID, Scope: op.WholeSubtree, Filter: filter.Const(filter.True)}) {
		if err != nil {
			t.Error(err)
			return 0
		}
		n++
	}
	return n
}

// atEnd is a reader that calls a function when its text has been read.
type atEnd struct {
	io.Reader
	do func()
}

func (r *atEnd) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if err == io.EOF && r.do != nil {
		r.do()
		r.do = nil
	}
	return n, err
}

// TestOthersChange checks an import with one entry that passes the check but is refused later,
// when it is added. The other entries must be imported.
func TestOthersChange(t *testing.T) {
	for _, goOn := range []bool{false, true} {
		t.Run(fmt.Sprint("continue ", goOn), func(t *testing.T) {
			p := openMem(t)
			rejects := file(t, "rejects", "")
			r, err := importTooLate(t, p, bulk.Options{Batches: true, Continue: goOn, Rejects: rejects})
			if r.Done != 349 {
				t.Errorf("%+v", r)
			}
			want := "1 record is bad because others changed the directory during the import; the other 349 are imported"
			if goOn {
				want = "1 record is bad, written to " + rejects + ": mend and import that file"
			}
			if err == nil || err.Error() != want {
				t.Error(err)
			}
			mustCheck(t, p)
		})
	}
}

// importTooLate imports 350 people. After the import has read all of them, somebody else
// adds one of them. importTooLate checks that only this person is reported as bad.
func importTooLate(t *testing.T, p *partition.Partition, o bulk.Options) (bulk.Result, error) {
	t.Helper()
	mustImport(t, p, bulk.Options{Files: []string{"-"}, Stdin: strings.NewReader(company(0))})
	_, people, _ := strings.Cut(company(350), "\ndn: uid=")
	var bad []*ldif.Error
	o.Files, o.Concurrent, o.Report = []string{"-"}, true, func(e *ldif.Error) { bad = append(bad, e) }
	o.Stdin = &atEnd{strings.NewReader("dn: uid=" + people), func() {
		addEntry(t, p, "uid=u0000123,ou=people,dc=example,dc=com", "objectClass: account")
	}}
	r, err := bulk.Import(t.Context(), p, o)
	if !errors.Is(err, bulk.ErrBad) || r.Bad != 1 || len(bad) != 1 || bad[0].Line == 0 || !strings.Contains(bad[0].DN, "u0000123") {
		t.Errorf("%+v, %v, %v", r, bad, err)
	}
	return r, err
}

func addEntry(t *testing.T, p *partition.Partition, name string, lines ...string) {
	t.Helper()
	d, err := dn.Parse(name)
	if err != nil {
		t.Error(err)
		return
	}
	var as []op.PartialAttribute
	for _, line := range lines {
		a, v, _ := strings.Cut(line, ": ")
		as = append(as, op.PartialAttribute{Description: a, Values: [][]byte{[]byte(v)}})
	}
	if _, err := write.Update(t.Context(), p, partition.By{}, func(tx *partition.Tx) error { _, err := tx.Add(t.Context(), d, as, false); return err }); err != nil {
		t.Error(err)
	}
}

// TestBadBeside checks that nothing is imported if a record is bad.
func TestBadBeside(t *testing.T) {
	p := openMem(t)
	mustImport(t, p, bulk.Options{Files: []string{"-"}, Stdin: strings.NewReader(company(0))})
	_, people, _ := strings.Cut(company(350), "\ndn: uid=")
	r, err := bulk.Import(t.Context(), p, bulk.Options{Files: []string{"-"}, Concurrent: true,
		Stdin: strings.NewReader("dn: uid=" + people + "\ndn: cn=x,ou=nowhere,dc=example,dc=com\nobjectClass: person\ncn: x\nsn: x\n")})
	if !errors.Is(err, bulk.ErrBad) || r.Done != 0 || r.Revision != 0 || count(t, p, "dc=example,dc=com") != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestReferencesBeside adds an entry whose value must name an entry that is added in a
// later batch.
func TestReferencesBeside(t *testing.T) {
	p := openMem(t)
	mustImport(t, p, bulk.Options{Files: []string{"-"}, Stdin: strings.NewReader(company(0))})
	if err := onlineschema.SetReferences(t.Context(), p, []catalog.Reference{catalog.Reference{Attribute: "member", MustExist: true}}, true); err != nil {
		t.Fatal(err)
	}
	_, people, _ := strings.Cut(company(350), "\ndn: uid=")
	text := "dn: cn=g,dc=example,dc=com\nobjectClass: groupOfNames\nmember: uid=u0000333,ou=people,dc=example,dc=com\n\ndn: uid=" + people
	r := mustImport(t, p, bulk.Options{Files: []string{"-"}, Stdin: strings.NewReader(text), Concurrent: true})
	if r.Done != 351 {
		t.Errorf("%d entries", r.Done)
	}
	mustCheck(t, p)
}

// TestInterruptedBeside interrupts an import after some batches. An import of the same file must
// then add the other entries.
func TestInterruptedBeside(t *testing.T) {
	p := openLSM(t)
	mustImport(t, p, bulk.Options{Files: []string{"-"}, Stdin: strings.NewReader(company(0))})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			if count(t, p, "dc=example,dc=com") > 2 {
				cancel()
			}
		}
	}()
	_, people, _ := strings.Cut(company(3000), "\ndn: uid=")
	r, err := bulk.Import(ctx, p, bulk.Options{Files: []string{"-"}, Stdin: strings.NewReader("dn: uid=" + people), Concurrent: true, Batches: true})
	if err == nil || r.Done == 0 || r.Done == 3000 ||
		err.Error() != fmt.Sprintf("interrupted: %d of 3000 entries are imported; import the file again for the others", r.Done) {
		t.Fatalf("%+v, %v", r, err)
	}
	rest, err := bulk.Import(t.Context(), p, bulk.Options{Files: []string{"-"}, Stdin: strings.NewReader("dn: uid=" + people), Concurrent: true, Batches: true})
	if rest.Done != 3000-r.Done || rest.There != r.Done || err != nil {
		t.Errorf("%+v, %v", rest, err)
	}
	mustCheck(t, p)
}

// TestOtherServers imports into a store that another server has open. With Together, the import
// must be refused. Otherwise the other server must show all imported entries.
func TestOtherServers(t *testing.T) {
	s := tabletest.NewMem()
	quick := txn.Options{Poll: 5 * time.Millisecond, InFlight: 50 * time.Millisecond}
	first := openWith(t, s, partition.Options{Create: true, Txn: quick})
	second := openWith(t, s, partition.Options{Txn: quick})
	for _, p := range []*partition.Partition{first, second} {
		if err := onlineschema.AddSuffixes(t.Context(), p, []string{"dc=example,dc=com"}); err != nil {
			t.Fatal(err)
		}
	}
	o := bulk.Options{Files: []string{file(t, "a.ldif", company(150))}}
	o.Together = true
	if _, err := bulk.Import(t.Context(), first, o); !partition.Is(err, partition.Busy) {
		t.Errorf("together: %v", err)
	}
	o.Together = false
	if r := mustImport(t, first, o); r.Done != 152 {
		t.Errorf("%d entries", r.Done)
	}
	if err := second.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := count(t, second, "dc=example,dc=com"); n != 152 {
		t.Errorf("the other server shows %d entries", n)
	}
	mustCheck(t, second)
}
