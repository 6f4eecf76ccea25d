package bulk_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/branch"
	"github.com/seed-4dac0d86/ldapd/partition/history"
	"github.com/seed-4dac0d86/ldapd/tools/bulk"
)

// An importWorld is a directory of a company without people, and a file with people.
type importWorld struct {
	*testing.T
	p      *partition.Partition
	people string
	notes  []string
}

func newImportWorld(t *testing.T, p *partition.Partition, n int) *importWorld {
	mustImport(t, p, bulk.Options{Files: []string{"-"}, Stdin: strings.NewReader(company(0))})
	_, people, _ := strings.Cut(company(n), "\ndn: uid=")
	return &importWorld{T: t, p: p, people: file(t, "people.ldif", "dn: uid="+people)}
}

func (w *importWorld) options() bulk.Options {
	return bulk.Options{Files: []string{w.people}, Concurrent: true, Note: func(s string) { w.notes = append(w.notes, s) }}
}

// interrupted ends an import when some of its entries are in its branch. It returns the
// branch.
func (w *importWorld) interrupted() *branch.Branch {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			for _, b := range branch.All(w.p) {
				if i, err := b.Info(ctx); err == nil && i.Commits > 0 {
					cancel()
				}
			}
		}
	}()
	r, err := bulk.Import(ctx, w.p, w.options())
	all := branch.All(w.p)
	if err == nil || r.Done != 0 || len(all) != 1 || !strings.HasPrefix(all[0].Name(), "import-people.ldif-") ||
		!strings.Contains(err.Error(), "interrupted: ") || !strings.Contains(err.Error(), all[0].Name()) {
		w.Fatalf("%+v, %v, %d branches", r, err, len(all))
	}
	return all[0]
}

func (w *importWorld) wantPeople(want int) {
	w.Helper()
	if n := count(w.T, w.p, "dc=example,dc=com"); n != want+2 {
		w.Errorf("%d people, want %d", n-2, want)
	}
}

// TestImportGoesOn interrupts an import that fills a branch, and checks that no entry is
// visible. Then it runs the same import again, which must add the remaining entries to
// the branch and merge the branch.
func TestImportGoesOn(t *testing.T) {
	for name, open := range map[string]func(*testing.T) *partition.Partition{
		"shared": func(t *testing.T) *partition.Partition { return openMem(t) }, "embedded": func(t *testing.T) *partition.Partition { return openLSM(t) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newImportWorld(t, open(t), 5000)
			b := w.interrupted()
			w.wantPeople(0)
			before, err := b.Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			r, err := bulk.Import(t.Context(), w.p, w.options())
			if err != nil || r.Done != 5000 || len(w.notes) != 1 || !strings.Contains(w.notes[0], "continues in the branch "+b.Name()) {
				t.Errorf("%+v, %v, %q", r, err, w.notes)
			}
			if len(before.IDs) == 0 || len(branch.All(w.p)) > 0 {
				t.Errorf("%d ids were in the branch, %d branches are left", len(before.IDs), len(branch.All(w.p)))
			}
			w.wantPeople(5000)
			mustCheck(t, w.p)
		})
	}
}

// TestImportConflict lets somebody else add an entry of an import while the import fills
// its branch. The merge must fail, and the branch must stay, so that it can be rebased and
// merged.
func TestImportConflict(t *testing.T) {
	w := newImportWorld(t, openLSM(t), 2000)
	name := w.interrupted().Name()
	o := w.options()
	o.Note = func(string) {
		addEntry(t, w.p, "uid=u0001999,ou=people,dc=example,dc=com", "objectClass: account")
	}
	r, err := bulk.Import(t.Context(), w.p, o)
	var conflict *branch.ConflictError
	if !errors.As(err, &conflict) || r.Done != 0 || !strings.Contains(err.Error(), "All 2000 entries are in that branch") ||
		!strings.Contains(err.Error(), "uid=u0001999,ou=people") {
		t.Fatalf("%+v, %v", r, err)
	}
	w.wantPeople(1)
	if _, err := history.Rebase(t.Context(), w.p, name, history.RebaseOptions{Keep: history.Ours}); err == nil ||
		!strings.Contains(err.Error(), "uid=u0001999,ou=people,dc=example,dc=com: outside of the branch another entry has this name: rename or delete") {
		t.Errorf("rebase that keeps what is imported: %v", err)
	}
	if _, err := history.Rebase(t.Context(), w.p, name, history.RebaseOptions{Keep: history.Theirs}); err != nil {
		t.Fatal(err)
	}
	b, err := branch.Find(w.p, name)
	if err == nil {
		_, err = b.Merge(t.Context(), partition.By{})
	}
	if err != nil {
		t.Fatal(err)
	}
	w.wantPeople(2000)
	mustCheck(t, w.p)
}

// TestOthersChangeBefore lets somebody else add an entry of an import after the import has
// read it. Without Continue, nothing must be imported. With Continue, all other entries
// must be imported.
func TestOthersChangeBefore(t *testing.T) {
	for _, goOn := range []bool{false, true} {
		t.Run(fmt.Sprint("continue ", goOn), func(t *testing.T) {
			p := openMem(t)
			r, _ := importTooLate(t, p, bulk.Options{Continue: goOn, Rejects: file(t, "rejects", "")})
			if want := map[bool]int{true: 349}[goOn]; r.Done != want || count(t, p, "dc=example,dc=com") != 3+want {
				t.Errorf("%d imported, want %d", r.Done, want)
			}
			if n := len(branch.All(p)); n != 0 {
				t.Errorf("%d branches are left", n)
			}
			mustCheck(t, p)
		})
	}
}

// TestEntriesIntoBranch imports entries into a branch, in any order. It checks that the
// errors of bad entries contain the line and the entry.
func TestEntriesIntoBranch(t *testing.T) {
	p := openLSM(t)
	mustImport(t, p, bulk.Options{Files: []string{"-"}, Stdin: strings.NewReader(company(0))})
	b, err := branch.Create(t.Context(), p, branch.Options{Name: "b"})
	if err != nil {
		t.Fatal(err)
	}
	run := func(text string) (bulk.Result, []string, error) {
		var bad []string
		r, err := bulk.Import(t.Context(), p, bulk.Options{Files: []string{"-"}, Stdin: strings.NewReader(text), Branch: b,
			Report: func(e *ldif.Error) { bad = append(bad, e.Error()) }})
		return r, bad, err
	}
	child, parent := "dn: uid=x,ou=new,dc=example,dc=com\nobjectClass: account\n", "dn: ou=new,dc=example,dc=com\nobjectClass: organizationalUnit\n"
	for _, c := range []struct{ text, want, err string }{
		{"dn: cn=config\nobjectClass: directoryConfiguration\n\n" + parent, `"cn=config": the schema and the settings`, "1 record is bad"},
		{parent + "\ndn: cn=Subschema\nobjectClass: subschema\nattributeTypes: ( 1.2.3 NAME 'x' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )\n", `:4: "cn=Subschema": the schema and the settings`, "1 record is bad"},
		{"dn: uid=y,ou=nowhere,dc=example,dc=com\nobjectClass: account\n", `:1: "uid=y,ou=nowhere,dc=example,dc=com": no entry ou=nowhere`, "so nothing was imported into the branch b"},
	} {
		r, bad, err := run(c.text)
		if r.Done != 0 || len(bad) != 1 || !strings.Contains(bad[0], c.want) || !errors.Is(err, bulk.ErrBad) || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q:\n%+v, %q, %v", c.text, r, bad, err)
		}
	}
	if r, bad, err := run(child + "\n" + parent); r.Done != 2 || len(bad) > 0 || err != nil {
		t.Errorf("%+v, %q, %v", r, bad, err)
	}
	if _, err := b.Merge(t.Context(), partition.By{}); err != nil {
		t.Fatal(err)
	}
	if n := count(t, p, "ou=new,dc=example,dc=com"); n != 2 {
		t.Errorf("%d entries", n)
	}
	mustCheck(t, p)
}
