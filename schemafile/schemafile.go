// Package schemafile reads schema files of other servers:
//
//   - OpenLDAP's *.schema: directives of slapd.conf;
//   - OpenLDAP's *.ldif: entries below cn=schema,cn=config, whose values begin
//     with "{0}";
//   - 389-ds's *.ldif, and the output of ldapsearch for a subschema subentry: values
//     of attributeTypes, objectClasses and so on; also changes that add such
//     values, as for ldapmodify;
//   - ApacheDS's LDIF: an entry for each element, with m-oid, m-name and so on,
//     in one file or in a tree of them.
//
// The result is definitions of RFC 4512 with macros replaced, each with its file and
// line. Package schema checks whether they are consistent with each other and with those
// of a directory.
package schemafile

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/seed-4dac0d86/ldapd/schema"
)

// Files collects the definitions in files. Macros of one file are valid in the next ones.
type Files struct {
	Definitions []schema.Definition
	// Continue has Read keep the definitions before a mistake in a file, and add the
	// mistake to Mistakes instead of returning it.
	Continue bool
	Mistakes []error

	macros schema.Macros
}

// maxFile bounds the bytes read from one file.
const maxFile = 64 << 20

// Read adds the definitions in one file, plain or compressed by gzip. The name is for
// errors.
func (f *Files) Read(name string, in io.Reader) error {
	err := f.read(name, in)
	if err != nil && f.Continue {
		f.Mistakes, err = append(f.Mistakes, err), nil
	}
	return err
}

func (f *Files) read(name string, in io.Reader) error {
	plain, err := decompressed(in)
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	text, err := io.ReadAll(io.LimitReader(plain, maxFile+1))
	switch {
	case err != nil:
		return fmt.Errorf("reading %s: %w", name, err)
	case len(text) > maxFile:
		return fmt.Errorf("reading %s: it is larger than %d MiB", name, maxFile>>20)
	}
	if f.macros == nil {
		f.macros = schema.Macros{}
	}
	if isLDIF(text) {
		return f.readLDIF(name, text)
	}
	ds, err := schema.ParseFile(name, string(text), f.macros)
	f.Definitions = append(f.Definitions, ds...)
	return err
}

// decompressed decompresses the input if its first octets are those of gzip.
func decompressed(in io.Reader) (io.Reader, error) {
	b := bufio.NewReader(in)
	if head, _ := b.Peek(2); !bytes.Equal(head, []byte{0x1f, 0x8b}) { // an error comes again from Read
		return b, nil
	}
	return gzip.NewReader(b)
}

// ReadPath adds the definitions in a file, or in all *.schema and *.ldif files, with or
// without .gz, in a folder and below it. The file system is os.DirFS or a zip archive,
// such as a jar.
func (f *Files) ReadPath(fsys fs.FS, root string) error {
	return fs.WalkDir(fsys, root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path != root && !hasDefinitions(path) {
			return err
		}
		in, err := fsys.Open(path)
		if err != nil {
			return err
		}
		defer in.Close()
		return f.Read(path, in)
	})
}

func hasDefinitions(path string) bool {
	path = strings.TrimSuffix(strings.ToLower(path), ".gz")
	switch filepath.Ext(path) {
	case ".schema", ".ldif":
		return true
	}
	return false
}

// isLDIF reports whether the first line that is neither blank nor a comment is that of
// LDIF.
func isLDIF(text []byte) bool {
	for line := range bytes.Lines(text) {
		line = bytes.ToLower(bytes.TrimSpace(line))
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		return bytes.HasPrefix(line, []byte("dn:")) || bytes.HasPrefix(line, []byte("version:"))
	}
	return false
}
