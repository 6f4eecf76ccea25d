package schemafile

import (
	"bytes"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/klauspost/compress/gzip"
)

func gzipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestCompressed checks that compressed files can be read, as single files and in
// folders, and that reading a truncated file returns an error.
func TestCompressed(t *testing.T) {
	const directives = "attributetype ( 2.25.1.1 NAME 'a' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )\n"
	const ldif = "dn: cn=schema\nattributeTypes: ( 2.25.1.2 NAME 'b' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )\n"
	fsys := fstest.MapFS{
		"a.schema.gz": {Data: gzipped(t, directives)},
		"b.LDIF.gz":   {Data: gzipped(t, ldif)},
		"README.gz":   {Data: gzipped(t, "no schema")},
	}
	var f Files
	if err := f.ReadPath(fsys, "."); err != nil || len(f.Definitions) != 2 {
		t.Errorf("%v, %+v", err, f.Definitions)
	}
	for _, whole := range [][]byte{gzipped(t, directives), gzipped(t, ldif)} {
		if err := f.Read("cut", bytes.NewReader(whole[:len(whole)-9])); err == nil || !strings.Contains(err.Error(), "cut") {
			t.Errorf("cut short: %v", err)
		}
	}
}

// TestEntryWithoutAttributes checks that an entry without attributes can be read. The
// file 99user.ldif of 389-ds is such an entry until somebody adds attributes.
func TestEntryWithoutAttributes(t *testing.T) {
	var f Files
	for _, text := range []string{"dn: cn=schema\n", "#\n# User-defined schema\n#\ndn: cn=schema\n\n"} {
		if err := f.Read("99user.ldif", strings.NewReader(text)); err != nil || len(f.Definitions) != 0 {
			t.Errorf("%q: %v, %+v", text, err, f.Definitions)
		}
	}
}
