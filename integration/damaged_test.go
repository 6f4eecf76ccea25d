package integration

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// damagedPeople is the number of people in the store that is damaged. With so many
// people, the files of the store have many blocks.
const damagedPeople = 500

// suffixLDIF is the entry above the people.
const suffixLDIF = "dn: " + suffix + "\nobjectClass: domain\ndc: example\n\n"

// peopleLDIF writes an LDIF file of a directory with n people, and returns its path.
func peopleLDIF(t *testing.T, n int) string {
	t.Helper()
	var b bytes.Buffer
	b.WriteString(suffixLDIF)
	for i := range n {
		fmt.Fprintf(&b, "dn: uid=u%06d,%s\nobjectClass: inetOrgPerson\nuid: u%06d\ncn: Person %d\nsn: Person\nmail: u%d@example.com\n\n", i, suffix, i, i*7, i)
	}
	name := filepath.Join(t.TempDir(), "people.ldif")
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// flip flips one bit of a file, at a third of its length.
func flip(t *testing.T, name string) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/3] ^= 1
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedStore flips a bit in each sorted table file in turn, and follows
// docs/disaster.md. ldapd check must name the command that repairs the damage, or report that
// the store is corrupt. reindex must repair indexes. export --continue must save the entries
// that can be read, and an import of these entries must make a new store.
func TestDamagedStore(t *testing.T) {
	t.Parallel()
	whole := filepath.Join(t.TempDir(), "store")
	importInto(t, whole, peopleLDIF(t, damagedPeople))
	reindexed, salvaged := 0, 0
	for _, file := range files(t, whole, "*.sst") {
		store := filepath.Join(t.TempDir(), "store")
		if err := os.CopyFS(store, os.DirFS(whole)); err != nil {
			t.Fatal(err)
		}
		flip(t, filepath.Join(store, filepath.Base(file)))
		out, status := ldapdRun(t, "check", "--store", store)
		switch {
		case status == 1 && strings.Contains(out, "'ldapd reindex'"):
			reindexed++
			mendByReindex(t, store)
		case status == 1 && strings.Contains(out, "export --continue"):
			lost := !strings.Contains(out, "no entry is damaged")
			if lost {
				salvaged++
			}
			mendBySalvage(t, store, lost)
		case status == 1 && strings.Contains(out, "corrupt"):
			t.Logf("%s: no directory can be opened: %s", filepath.Base(file), firstLine(out))
		default:
			t.Errorf("check of %s: status %d\n%.2000s", filepath.Base(file), status, out)
		}
	}
	if reindexed == 0 || salvaged == 0 {
		t.Errorf("%d stores were mended by reindex and %d by an export: the test sees one kind only", reindexed, salvaged)
	}
}

func firstLine(s string) string { first, _, _ := strings.Cut(s, "\n"); return first }

func mendByReindex(t *testing.T, store string) {
	t.Helper()
	if out, status := ldapdRun(t, "reindex", "--store", store); status != 0 {
		t.Errorf("reindex: status %d\n%.2000s", status, out)
	}
	if out, status := ldapdRun(t, "check", "--store", store); status != 0 || !strings.Contains(out, fmt.Sprint(damagedPeople+1)) {
		t.Errorf("check after reindex: status %d\n%.2000s", status, out)
	}
}

func mendBySalvage(t *testing.T, store string, lost bool) {
	t.Helper()
	saved := filepath.Join(t.TempDir(), "saved.ldif")
	out, status := ldapdRun(t, "export", "--store", store, "--continue", "--output", saved)
	if named := strings.Contains(out, "lost: "); named != (status == 1) || lost && !named {
		t.Errorf("export --continue: status %d\n%.2000s", status, out)
	}
	text, err := os.ReadFile(saved)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte("\ndc: ")) { // the entry above all people is lost
		if text = bytes.Replace(text, []byte("\n\n"), []byte("\n\n"+suffixLDIF), 1); os.WriteFile(saved, text, 0o600) != nil {
			t.Fatal("the entry above cannot be written")
		}
	}
	n := strings.Count(string(text), "\nuid: ")
	if n < damagedPeople*9/10 || lost != (n < damagedPeople) {
		t.Errorf("%d of %d people were saved\n%.2000s", n, damagedPeople, out)
	}
	fresh := filepath.Join(t.TempDir(), "fresh")
	if out, _ := ldapdRun(t, "import", "--store", fresh, "--suffix", suffix, "--continue", saved); !strings.Contains(out, "imported") {
		t.Errorf("import of what was saved:\n%.2000s", out)
	}
	if out, status := ldapdRun(t, "check", "--store", fresh); status != 0 {
		t.Errorf("check of the new store: status %d\n%.2000s", status, out)
	}
}
