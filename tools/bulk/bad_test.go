package bulk_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/tools/bulk"
)

// TestBadInput imports files that have one error each. In most of them, a bad record follows
// two good records. The report must contain the position of the error and what is wrong, and
// nothing may be imported.
func TestBadInput(t *testing.T) {
	good := "dn: dc=example,dc=com\nobjectClass: domain\n\n" +
		"dn: ou=a,dc=example,dc=com\nobjectClass: organizationalUnit\n\n"
	const unit = "\nobjectClass: organizationalUnit\n\n"
	for name, c := range map[string]struct {
		text string
		line int
		dn   string
		want string
	}{
		"no dn":             {good + "objectClass: domain\n\n", 7, "", `begins with "dn:"`},
		"parent absent":     {good + "dn: ou=x,ou=nowhere,dc=example,dc=com" + unit, 7, "ou=x,ou=nowhere,dc=example,dc=com", "add that entry too"},
		"duplicate":         {good + "dn: OU=A,dc=example,dc=com" + unit, 7, "OU=A,dc=example,dc=com", "leave one of them out"},
		"no suffix":         {good + "dn: ou=x,dc=elsewhere" + unit, 7, "ou=x,dc=elsewhere", "in no naming context"},
		"base64":            {good + "dn: ou=x,dc=example,dc=com\nobjectClass: organizationalUnit\ndescription:: !!!\n\n", 9, "ou=x,dc=example,dc=com", "not base64"},
		"folding":           {good + " dn: ou=x,dc=example,dc=com" + unit, 7, "", "begins with a space"},
		"broken line":       {good + "dn: ou=x,dc=example,dc=com\nobjectClass: organizationalUnit\ndescription\n\n", 9, "ou=x,dc=example,dc=com", "attribute: value"},
		"unknown attribute": {good + "dn: ou=x,dc=example,dc=com\nobjectClass: organizationalUnit\ncolour: red\n\n", 7, "ou=x,dc=example,dc=com", `"colour" is not in the schema`},
		"unknown class":     {good + "dn: ou=x,dc=example,dc=com\nobjectClass: planet\n\n", 7, "ou=x,dc=example,dc=com", `"planet" is not in the schema`},
		"syntax":            {good + "dn: ou=x,dc=example,dc=com\nobjectClass: organizationalUnit\nseeAlso: here\n\n", 7, "ou=x,dc=example,dc=com", "value of seeAlso"},
		"not allowed":       {good + "dn: ou=x,dc=example,dc=com\nobjectClass: organizationalUnit\nsn: x\n\n", 7, "ou=x,dc=example,dc=com", "sn is not allowed"},
		"required":          {good + "dn: cn=x,dc=example,dc=com\nobjectClass: person\n\n", 7, "cn=x,dc=example,dc=com", "requires attribute sn"},
		"bad name":          {good + "dn: ou=x,,dc=example" + unit, 7, "ou=x,,dc=example", "not a DN"},
		"file URL":          {good + "dn: ou=x,dc=example,dc=com\nobjectClass: organizationalUnit\ndescription:< file:///etc/hostname\n\n", 9, "ou=x,dc=example,dc=com", "not allowed"},
		"change":            {good + "dn: ou=a,dc=example,dc=com\nchangetype: delete\n\n", 7, "ou=a,dc=example,dc=com", "a file of their own"},
		"version":           {"version: 2\n\n" + good, 1, "", "version"},
		"cut gzip":          {gzipped(good + strings.Repeat("# x\n", 100))[:60], 1, "", "cut short"},
	} {
		t.Run(name, func(t *testing.T) {
			p := openMem(t)
			path := file(t, "bad.ldif", c.text)
			r := runImport(t, p, bulk.Options{Files: []string{path}})
			if !errors.Is(r.err, bulk.ErrBad) || len(r.bad) != 1 {
				t.Fatalf("%v\n%s", r.err, r.reports())
			}
			e := r.bad[0]
			if e.File != path || e.Line != c.line || e.DN != c.dn || !strings.Contains(e.Text, c.want) {
				t.Errorf("reported: %v; want line %d, %q, %q", e, c.line, c.dn, c.want)
			}
			if got := export(t, p, bulk.ExportOptions{}); got != "version: 1\n" {
				t.Errorf("left behind: %s", got)
			}
			if got := p.Config().Suffixes; len(got) > 0 {
				t.Errorf("suffixes left behind: %q", got)
			}
		})
	}
}

func TestMissingFile(t *testing.T) {
	r := runImport(t, openMem(t), bulk.Options{Files: []string{"/nonexistent.ldif"}})
	if len(r.bad) != 1 || !strings.Contains(r.bad[0].Text, "no such file") {
		t.Errorf("%v: %s", r.err, r.reports())
	}
}

func TestAllowFiles(t *testing.T) {
	value := file(t, "value", "from a file")
	p := openMem(t)
	mustImport(t, p, bulk.Options{AllowFiles: true, Files: []string{
		file(t, "a.ldif", "dn: dc=example,dc=com\nobjectClass: domain\ndescription:< file://"+value+"\n\n")}})
	if got := names(export(t, p, bulk.ExportOptions{Filter: filter.MustParse("(description=from a file)")})); len(got) != 1 {
		t.Errorf("found: %q", got)
	}
}

// TestContinue checks that Continue imports the good records. Records below a bad entry
// are bad too.
func TestContinue(t *testing.T) {
	const bad = `dn: ou=bad,dc=example,dc=com
objectClass: organizationalUnit
colour: red

dn: ou=below,ou=bad,dc=example,dc=com
objectClass: organizationalUnit

dn: ou=broken,dc=example,dc=com
objectClass: organizationalUnit
description:: !!!

dn: ou=orphan,ou=nowhere,dc=example,dc=com
objectClass: organizationalUnit

dn: ou=child,ou=orphan,ou=nowhere,dc=example,dc=com
objectClass: organizationalUnit

`
	p := openMem(t)
	path := file(t, "a.ldif", "dn: dc=example,dc=com\nobjectClass: domain\n\n"+bad+"dn: ou=good,dc=example,dc=com\nobjectClass: organizationalUnit\n\n")
	r := runImport(t, p, bulk.Options{Files: []string{path}, Continue: true})
	if !errors.Is(r.err, bulk.ErrBad) || r.Done != 2 || r.Bad != 5 {
		t.Errorf("%v: %d done, %d bad\n%s", r.err, r.Done, r.Bad, r.reports())
	}
	if !strings.Contains(r.reports(), "the entry above it, ou=bad,dc=example,dc=com, was refused") ||
		!strings.Contains(r.reports(), "the entry above it, ou=orphan,ou=nowhere,dc=example,dc=com, was refused") {
		t.Errorf("reports:\n%s", r.reports())
	}
	left, err := os.ReadFile(path + ".rejects")
	must(t, err)
	for _, want := range []string{"# " + path + ":4: \"ou=bad,dc=example,dc=com\"", "colour: red", "description:: !!!", "dn: ou=orphan"} {
		if !strings.Contains(string(left), want) {
			t.Errorf("no %q in the rejects:\n%s", want, left)
		}
	}
	// The rejects can be imported after they have been corrected.
	mended := strings.NewReplacer("colour: red\n", "", "description:: !!!", "description: x").Replace(string(left)) +
		"\ndn: ou=nowhere,dc=example,dc=com\nobjectClass: organizationalUnit\n\n"
	if r := mustImport(t, p, bulk.Options{Files: []string{file(t, "b.ldif", mended)}}); r.Done != 6 {
		t.Errorf("%d mended entries", r.Done)
	}
}

// TestManyBad imports bad records in many batches. Each must be reported once, in file
// order.
func TestManyBad(t *testing.T) {
	text := strings.ReplaceAll(company(2000), "telephoneNumber: +1 555 007", "colour: 007")
	r := runImport(t, openMem(t), bulk.Options{Files: []string{file(t, "a.ldif", text)}, Workers: 3})
	if r.Bad != 20 || len(r.bad) != 20 || !strings.Contains(r.err.Error(), "nothing was imported") {
		t.Errorf("%d bad: %v", r.Bad, r.err)
	}
	for i := 1; i < len(r.bad); i++ {
		if r.bad[i].Line <= r.bad[i-1].Line {
			t.Errorf("line %d after line %d", r.bad[i].Line, r.bad[i-1].Line)
		}
	}
}

// TestRejectsArePrivate checks that others cannot read a file of bad records, which may have
// passwords.
func TestRejectsArePrivate(t *testing.T) {
	f, err := bulk.CreateRejects(filepath.Join(t.TempDir(), "in.ldif.rejects"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	i, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if i.Mode().Perm() != 0o600 {
		t.Errorf("the mode is %v", i.Mode())
	}
}
