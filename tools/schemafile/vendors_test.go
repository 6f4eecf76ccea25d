package schemafile

import (
	"archive/zip"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// debian returns the path of a file of a Debian package. If the package is not installed,
// debian unpacks it into the user's cache.
func debian(t *testing.T, pkg, path string) string {
	t.Helper()
	if _, err := os.Stat(path); err == nil {
		return path
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	dir := filepath.Join(cache, "ldapd-test", "debian", pkg)
	path = filepath.Join(dir, path)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if err := unpack(pkg, t.TempDir(), dir); err != nil {
		t.Skipf("SKIPPED: %s is not installed and cannot be had: %v", pkg, err)
	}
	return path
}

// packaged returns the names of the files with an extension that a package of Debian has in a
// folder. Other packages may install files of their own in the same folder.
func packaged(t *testing.T, pkg, folder, ext string) (dir string, names []string) {
	t.Helper()
	dir = debian(t, pkg, folder)
	paths, err := filepath.Glob(filepath.Join(dir, "*"+ext))
	if dir == folder {
		var out []byte
		out, err = exec.Command("dpkg-query", "-L", pkg).Output()
		paths = strings.Split(string(out), "\n")
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if filepath.Dir(path) == dir && filepath.Ext(path) == ext {
			names = append(names, filepath.Base(path))
		}
	}
	return dir, names
}

func unpack(pkg, tmp, dir string) error {
	download := exec.Command("apt-get", "download", "-qq", pkg)
	download.Dir = tmp
	if err := download.Run(); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if err != nil || len(debs) != 1 {
		return fs.ErrNotExist
	}
	out := filepath.Join(tmp, "out")
	if err := exec.Command("dpkg-deb", "-x", debs[0], out).Run(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	return exec.Command("cp", "-r", out, dir).Run()
}

// load merges files into the built-in schema and checks that the result contains
// everything that the files define.
func load(t *testing.T, fsys fs.FS, paths ...string) *schema.Schema {
	t.Helper()
	var f Files
	for _, p := range paths {
		if err := f.ReadPath(fsys, p); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.Definitions) == 0 {
		t.Fatalf("%s define nothing", paths)
	}
	m, err := schema.Core().Merge(f.Definitions)
	if err != nil {
		t.Fatalf("%s: %v", paths, err)
	}
	s, err := schema.Core().Change(m.Add, m.Remove)
	if err != nil {
		t.Fatalf("%s: %v", paths, err)
	}
	for _, d := range f.Definitions {
		if !has(s, d) {
			t.Errorf("%s: not in the schema: %s", d.Source, d.Text)
		}
	}
	return s
}

// has reports whether the schema contains a definition with the same OID or, as in Merge,
// with the same name. It returns true for every matching rule, because matching rules
// cannot be loaded.
func has(s *schema.Schema, d schema.Definition) bool {
	oid := strings.Fields(d.Text)[1]
	name := oid
	if _, rest, is := strings.Cut(d.Text, "NAME "); is {
		name, _, _ = strings.Cut(strings.TrimLeft(rest, "( '"), "'")
	}
	switch d.Attribute {
	case "attributeTypes":
		return s.Attribute(oid) != nil || s.Attribute(name) != nil
	case "objectClasses":
		return s.Class(oid) != nil || s.Class(name) != nil
	case "ldapSyntaxes":
		return s.SyntaxOf(oid) != nil
	}
	return d.Attribute == "matchingRules"
}

// openldapNeeds maps schemas of OpenLDAP to the schemas that they depend on. Schemas that
// are not in the map depend on no other schema.
var openldapNeeds = map[string][]string{
	"cosine":   {"core"},
	"openldap": {"core", "cosine", "inetorgperson"},
}

func TestOpenLDAP(t *testing.T) {
	for _, ext := range []string{".schema", ".ldif"} {
		dir, files := packaged(t, "slapd", "/etc/ldap/schema", ext)
		fsys := os.DirFS(dir)
		if len(files) < 10 {
			t.Fatalf("%d files in %s", len(files), dir)
		}
		for _, file := range files {
			t.Run(file, func(t *testing.T) {
				var with []string
				for _, need := range openldapNeeds[strings.TrimSuffix(file, ext)] {
					with = append(with, need+ext)
				}
				load(t, fsys, append(with, file)...)
			})
		}
		t.Run("all"+ext, func(t *testing.T) { load(t, fsys, files...) })
		t.Run("twice"+ext, func(t *testing.T) { load(t, fsys, append(files, files...)...) })
	}
}

// TestOpenLDAPFormsAgree checks that the *.schema file and the LDIF file of a schema
// contain the same definitions, apart from descriptions and the names of syntaxes.
func TestOpenLDAPFormsAgree(t *testing.T) {
	dir, files := packaged(t, "slapd", "/etc/ldap/schema", ".schema")
	fsys := os.DirFS(dir)
	for _, file := range files {
		conf, config := texts(t, fsys, file), texts(t, fsys, strings.TrimSuffix(file, ".schema")+".ldif")
		if d := cmp.Diff(conf, config); d != "" {
			t.Errorf("%s: %s", file, d)
		}
	}
}

func texts(t *testing.T, fsys fs.FS, file string) []string {
	t.Helper()
	var f Files
	if err := f.ReadPath(fsys, file); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, d := range f.Definitions {
		text := withoutDescription(d.Text)
		if oid, rest, is := strings.Cut(text, " NAME "); is && d.Attribute == "ldapSyntaxes" {
			_, rest, _ = strings.Cut(rest, "' ") // the NAME of a syntax is an extension of OpenLDAP
			text = oid + " " + rest
		}
		out = append(out, d.Attribute+" "+text)
	}
	slices.Sort(out)
	return out
}

func withoutDescription(text string) string {
	before, rest, is := strings.Cut(text, " DESC '")
	if !is {
		return text
	}
	_, after, _ := strings.Cut(rest, "'")
	return before + after
}

// dirsrvNeeds maps the files of 389-ds to the files that they depend on. A key is the
// beginning of the names of files. Files that are not in the map depend on no other file.
var dirsrvNeeds = map[string][]string{
	"02common":     {"00core.ldif", "01core389.ldif"},
	"20subscriber": {"00core.ldif"},
	"30ns-":        {"00core.ldif", "01core389.ldif", "02common.ldif", "50ns-admin.ldif"},
	"50ns-":        {"00core.ldif", "01core389.ldif", "02common.ldif", "30ns-common.ldif", "50ns-admin.ldif"},
}

// Test389Rules checks that values of every type of 389-ds can be found, although most of their
// definitions name no rules. The types that this server also has are as they are here.
func Test389Rules(t *testing.T) {
	var f Files
	if err := f.ReadPath(os.DirFS(debian(t, "389-ds-base", "/usr/share/dirsrv/schema")), "."); err != nil {
		t.Fatal(err)
	}
	m, err := schema.Core().Merge(f.Definitions)
	if err != nil {
		t.Fatal(err)
	}
	s, err := schema.Core().Change(m.Add, m.Remove)
	if err != nil {
		t.Fatal(err)
	}
	all, derived := 0, 0
	for _, a := range s.Attributes() {
		if schema.Core().Attribute(a.OID) != nil {
			continue
		}
		all++
		if slices.ContainsFunc(a.Extensions, func(x schema.Extension) bool { return x.Name == "X-DERIVED-RULES" }) {
			derived++
		}
		if a.Equality == nil {
			t.Errorf("%s has no equality rule", a.Name())
		}
	}
	t.Logf("%d types of 389-ds that are not built-in, %d with derived rules", all, derived)
	if derived < 400 {
		t.Errorf("only %d types have derived rules", derived)
	}
}

func Test389(t *testing.T) {
	dir, files := packaged(t, "389-ds-base", "/usr/share/dirsrv/schema", ".ldif")
	fsys := os.DirFS(dir)
	if len(files) < 30 {
		t.Fatalf("%d files in %s", len(files), dir)
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			paths := []string{file}
			for begins, needs := range dirsrvNeeds {
				if strings.HasPrefix(file, begins) {
					paths = append(slices.Clone(needs), file)
				}
			}
			load(t, fsys, paths...)
		})
	}
	t.Run("all", func(t *testing.T) {
		s := load(t, fsys, files...)
		if p := s.Attribute("passwordHistory"); p == nil || !p.Secret() || p == s.Attribute("pwdHistory") {
			t.Error("389-ds's passwordHistory, which it also calls pwdHistory, is not a secret type of its own")
		}
		if c := s.Class("posixGroup"); c.Kind != schema.Auxiliary {
			t.Error("posixGroup is not what the file says")
		}
		if len(s.Class("groupOfNames").Must) != 1 {
			t.Error("groupOfNames still requires a member")
		}
	})
}

func TestApacheDS(t *testing.T) {
	jar, err := zip.OpenReader(debian(t, "libapache-directory-api-java", "/usr/share/java/apache-directory-api-all.jar"))
	if err != nil {
		t.Fatal(err)
	}
	defer jar.Close()
	const root = "schema/ou=schema"
	schemas, err := fs.Glob(jar, root+"/cn=*.ldif")
	if err != nil || len(schemas) < 15 {
		t.Fatalf("%d schemas (%v)", len(schemas), err)
	}
	for _, one := range schemas {
		name := strings.TrimSuffix(filepath.Base(one), ".ldif")
		t.Run(name, func(t *testing.T) {
			var paths []string
			for _, need := range append(dependencies(t, jar, one), strings.TrimPrefix(name, "cn=")) {
				paths = append(paths, root+"/cn="+need)
			}
			load(t, jar, paths...)
		})
	}
	t.Run("all", func(t *testing.T) { load(t, jar, root) })
}

// dependencies returns the schemas that an ApacheDS schema states as its dependencies.
func dependencies(t *testing.T, fsys fs.FS, file string) []string {
	t.Helper()
	in, err := fsys.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	rec, err := ldif.NewReader(in, ldif.Options{File: file}).Read()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, a := range rec.Attributes {
		if a.Description == "m-dependencies" {
			for _, v := range a.Values {
				names = append(names, string(v))
			}
		}
	}
	return names
}
