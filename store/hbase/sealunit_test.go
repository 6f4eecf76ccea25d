package hbase

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// keys returns a file of keys that are made of letters.
func keys(letters string) string {
	var b strings.Builder
	for _, l := range letters {
		if l == '-' {
			b.WriteString("plain\n")
			continue
		}
		b.WriteString(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{byte(l)}, keySize)) + "\n")
	}
	return b.String()
}

func all(string, table.Family, []byte) bool { return true }

func sealed(t *testing.T, letters string) *Table {
	t.Helper()
	s, err := ReadSeal(strings.NewReader("# keys\n\n"+keys(letters)), all)
	if err != nil {
		t.Fatal(err)
	}
	return &Table{store: &Store{seal: s}}
}

func TestReadSealRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "there is no key",
		"# a\n\n":                 "there is no key",
		"plain\n":                 "there is no key",
		"short":                   "line 1 is no key",
		"\n" + keys("a") + "c2hv": "line 3 is no key",
		keys("a-"):                "line 2 is no key",
	} {
		if _, err := ReadSeal(strings.NewReader(text), all); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestSealedValues checks that a value is opened only in its cell, and with its key.
func TestSealedValues(t *testing.T) {
	row, c := []byte("row"), table.Cell{Family: 's', Qualifier: []byte("q"), Value: []byte("secret")}
	tab := sealed(t, "a")
	stored := tab.storeIn(row, &c)
	if bytes.Contains(stored, c.Value) || bytes.Equal(stored, tab.storeIn(row, &c)) {
		t.Errorf("stored is %q", stored)
	}
	read := func(tab *Table, row string, v version) error {
		cells, err := allCells([]version{v}, tab.opener([]byte(row)))
		if err == nil && string(cells[0].Value) != "secret" {
			t.Errorf("read %q", cells[0].Value)
		}
		return err
	}
	v := version{family: 's', qualifier: storeQualifier(c.Qualifier), value: stored, revision: 7}
	for _, letters := range []string{"a", "ba", "-a", "-ba"} {
		if err := read(sealed(t, letters), "row", v); err != nil {
			t.Errorf("%s: %v", letters, err)
		}
	}
	if err := read(sealed(t, "b"), "row", v); !errors.Is(err, table.ErrKey) {
		t.Errorf("another key: %v", err)
	}
	if err := read(&Table{store: &Store{}}, "row", v); !errors.Is(err, table.ErrKey) {
		t.Errorf("no key: %v", err)
	}
	elsewhere, other := v, v
	elsewhere.qualifier, other.family = []byte("r"), 't'
	for _, err := range []error{read(tab, "row2", v), read(tab, "row", elsewhere), read(tab, "row", other)} {
		if !errors.Is(err, table.ErrCorrupt) {
			t.Errorf("a copied value: %v", err)
		}
	}
	for i := range stored {
		forged, cut := v, v
		forged.value = bytes.Clone(stored)
		forged.value[i] ^= 4
		cut.value = stored[:i]
		if read(tab, "row", forged) == nil || read(tab, "row", cut) == nil {
			t.Errorf("with octet %d changed or cut, a value is opened", i)
		}
	}
	plain := sealed(t, "-a")
	if got := plain.storeIn(row, &c); !bytes.Equal(got, storeValue(&c)) || !plain.store.seal.current(&version{value: got}) || plain.store.seal.current(&v) {
		t.Errorf("plain first: %q", got)
	}
	if next := sealed(t, "ba"); next.store.seal.current(&v) || !tab.store.seal.current(&v) || !next.store.seal.current(&version{value: next.storeIn(row, &c)}) {
		t.Error("the key in force")
	}
}
