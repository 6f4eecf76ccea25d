package ldif

import (
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"image/jpeg"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// TestSampleFiles shows what the Reader returns for malformed and unusual files.
func TestSampleFiles(t *testing.T) {
	datadriven.RunTest(t, "testdata/files", func(t *testing.T, d *datadriven.TestData) string {
		paths, err := filepath.Glob(filepath.Join("..", "..", "testdata", "ldif", d.CmdArgs[0].Key))
		if err != nil || len(paths) == 0 {
			t.Fatal(d.CmdArgs, err)
		}
		var b strings.Builder
		for _, path := range paths {
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			name := filepath.Base(path)
			fmt.Fprintf(&b, "%s:", name)
			for rec, err := range NewReader(f, Options{File: name}).Records() {
				if err != nil {
					fmt.Fprintf(&b, "\n  %v", err)
				} else {
					fmt.Fprintf(&b, "\n  %d %s", rec.Line, rec.DN)
				}
			}
			f.Close()
			b.WriteByte('\n')
		}
		return b.String()
	})
}

// sampleEntry is an entry of the sample.
type sampleEntry struct {
	*Record
	values map[*schema.AttributeType][][]byte // the values of each type, whatever options they have
}

func readSample(t *testing.T, s *schema.Schema) map[string]*sampleEntry {
	f, err := os.Open(sample)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := map[string]*sampleEntry{}
	for _, rec := range readAll(t, NewReader(f, Options{File: sample})) {
		name, err := dn.Parse(rec.DN)
		if err != nil {
			t.Fatal(err)
		}
		norms, err := name.Normalize(s)
		if err != nil {
			t.Fatal(rec.DN, err)
		}
		e := &sampleEntry{rec, map[*schema.AttributeType][][]byte{}}
		for _, a := range rec.Attributes {
			e.add(t, s, a)
		}
		if all[string(dn.Key(norms[1:]))] == nil && len(all) > 0 {
			t.Errorf("%s comes before its parent", rec.DN)
		}
		key := string(dn.Key(norms))
		if all[key] != nil {
			t.Errorf("%s is there twice", rec.DN)
		}
		for _, a := range name[0] {
			if !e.has(s.Attribute(a.Type), a.Value) {
				t.Errorf("%s lacks the value of its RDN", rec.DN)
			}
		}
		all[key] = e
	}
	return all
}

func (e *sampleEntry) add(t *testing.T, s *schema.Schema, a op.PartialAttribute) {
	name, _, _ := strings.Cut(a.Description, ";")
	typ := s.Attribute(name)
	if typ == nil {
		t.Fatalf("%s: unknown attribute type %s", e.DN, name)
	}
	for _, v := range a.Values {
		if err := typ.Syntax.Validate(v); err != nil {
			t.Errorf("%s: %s %q: %v", e.DN, a.Description, v, err)
		}
	}
	e.values[typ] = append(e.values[typ], a.Values...)
	if typ.SingleValue && len(a.Values) > 1 {
		t.Errorf("%s: %s is single-valued", e.DN, a.Description)
	}
}

func (e *sampleEntry) has(typ *schema.AttributeType, value []byte) bool {
	for _, v := range e.values[typ] {
		if bytes.Equal(v, value) {
			return true
		}
	}
	return false
}

// TestSampleIsValid checks that the sample conforms to the schema, because it is an
// example of a successful import.
func TestSampleIsValid(t *testing.T) {
	s := schema.Core()
	all := readSample(t, s)
	if len(all) < 90 {
		t.Errorf("only %d entries", len(all))
	}
	objectClass := s.Attribute("objectClass")
	for _, e := range all {
		must, may := map[*schema.AttributeType]bool{}, map[*schema.AttributeType]bool{objectClass: true}
		extensible := false
		for _, v := range e.values[objectClass] {
			c := s.Class(string(v))
			if c == nil {
				t.Fatalf("%s: unknown class %s", e.DN, v)
			}
			collect(c, must, may)
			extensible = extensible || c.Name() == "extensibleObject"
		}
		for typ := range must {
			if e.values[typ] == nil {
				t.Errorf("%s lacks %s", e.DN, typ.Name())
			}
		}
		for typ := range e.values {
			if !must[typ] && !may[typ] && !extensible {
				t.Errorf("%s may not have %s", e.DN, typ.Name())
			}
		}
	}
}

func collect(c *schema.ObjectClass, must, may map[*schema.AttributeType]bool) {
	for _, t := range c.Must {
		must[t] = true
	}
	for _, t := range c.May {
		may[t] = true
	}
	for _, sup := range c.Sup {
		collect(sup, must, may)
	}
}

func findEntry(t *testing.T, all map[string]*sampleEntry, name string) *sampleEntry {
	t.Helper()
	for _, e := range all {
		if e.DN == name {
			return e
		}
	}
	t.Fatalf("%s is not in the sample", name)
	return nil
}

func TestSampleLogins(t *testing.T) {
	s := schema.Core()
	all := readSample(t, s)
	for name, password := range map[string]string{
		"uid=jdoe,ou=people,dc=example,dc=com":    "opensesame",
		"uid=asantos,ou=people,dc=example,dc=com": "Pão de queijo",
		"cn=mailer,ou=services,dc=example,dc=com": "mailer-secret",
	} {
		stored := findEntry(t, all, name).values[s.Attribute("userPassword")]
		encoded, ok := strings.CutPrefix(string(stored[0]), "{SSHA}")
		b, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || err != nil || len(b) <= sha1.Size {
			t.Errorf("%s: password %q", name, stored)
			continue
		}
		if sum := sha1.Sum(append([]byte(password), b[sha1.Size:]...)); !bytes.Equal(sum[:], b[:sha1.Size]) {
			t.Errorf("%s: the password is not %q", name, password)
		}
	}
}

func TestSamplePhoto(t *testing.T) {
	s := schema.Core()
	e := findEntry(t, readSample(t, s), "uid=jdoe,ou=people,dc=example,dc=com")
	photo, err := jpeg.Decode(bytes.NewReader(e.values[s.Attribute("jpegPhoto")][0]))
	if err != nil || photo.Bounds().Dx() != 16 {
		t.Error(photo, err)
	}
}
