// Package schemafile reads schema files of other servers:
//
//   - OpenLDAP's *.schema: directives of slapd.conf;
//   - OpenLDAP's *.ldif: entries below cn=schema,cn=config, whose values begin
//     with "{0}";
//   - 389-ds's *.ldif, and the output of ldapsearch for a subschema subentry: values
//     of attributeTypes, objectClasses and so on; also changes that add such
//     values, as for ldapmodify;
//   - ApacheDS's LDIF: an entry for each element, with m-oid, m-name and so on,
//     in one file or in a tree of files.
//
// The result is a list of definitions in the form of RFC 4512, with macros replaced. Each
// definition has the file and line in which it was found. Package schema checks whether
// the definitions are consistent with each other and with the schema of a directory.
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

	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// Files collects the definitions in several files. A macro that one file defines is valid
// in all files that are read later.
type Files struct {
	Definitions []schema.Definition
	// Continue means that Read and Record add a mistake in a file to Mistakes instead of
	// returning it, and read on.
	Continue bool
	Mistakes []error
	// Object says where the first entry with a definition in the form of Active Directory is. Such
	// definitions are not read.
	Object error
	// Derive says whether the definitions get their field Derive set. If it is nil, the name of
	// the entry that contains the definitions decides.
	Derive *bool

	macros schema.Macros
}

// maxFile is the maximum number of bytes that are read from one file.
const maxFile = 64 << 20

// Read adds the definitions in one file, which may be compressed with gzip. Errors
// contain the name of the file.
func (f *Files) Read(name string, in io.Reader) error {
	return f.mistake(f.read(name, in))
}

// mistake returns err, or, if Continue is set, adds err to Mistakes and returns nil.
func (f *Files) mistake(err error) error {
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
	text, err := io.ReadAll(io.LimitReader(ldif.UTF8(plain), maxFile+1))
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
	for i := range ds {
		ds[i].Derive = f.Derive != nil && *f.Derive
	}
	f.Definitions = append(f.Definitions, ds...)
	return err
}

// decompressed returns a reader that decompresses the input if the first octets of the
// input are those of gzip.
func decompressed(in io.Reader) (io.Reader, error) {
	b := bufio.NewReader(in)
	// if Peek fails, the next Read returns the same error
	if head, _ := b.Peek(2); !bytes.Equal(head, []byte{0x1f, 0x8b}) {
		return b, nil
	}
	return gzip.NewReader(b)
}

// ReadPath adds the definitions in a file. If root is a folder, ReadPath adds the
// definitions in all files in and below the folder whose names end in .schema, .ldif,
// .schema.gz or .ldif.gz. The file system is os.DirFS or a zip archive, such as a jar.
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

// isLDIF reports whether the text is LDIF. It examines the first line that is neither
// blank nor a comment.
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
