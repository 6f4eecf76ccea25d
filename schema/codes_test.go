package schema

import (
	"errors"
	flagpkg "flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/dn"
)

var updateCodes = flagpkg.Bool("update", false, "append new codes to testdata/codes")

// TestCodesStay checks that no code has changed: stores contain them. With -update, it appends new codes to the file, and
// still refuses changes of others.
func TestCodesStay(t *testing.T) {
	file := filepath.Join("testdata", "codes")
	kept, err := os.ReadFile(file)
	if err != nil && !(*updateCodes && errors.Is(err, fs.ErrNotExist)) {
		t.Fatal(err)
	}
	var now strings.Builder
	for i, oid := range oids() {
		fmt.Fprintf(&now, "%x %s\n", codeOf(i), oid)
	}
	if !strings.HasPrefix(now.String(), string(kept)) {
		t.Fatal("codes.txt has lost codes or gives them to other OIDs: lines are only ever added at its end")
	}
	switch {
	case now.String() == string(kept):
	case *updateCodes:
		if err := os.WriteFile(file, []byte(now.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Error("codes.txt has new lines: go test ./schema -run TestCodesStay -update")
	}
}

// TestEverythingHasACode checks that built-in types and classes have codes, each its own.
func TestEverythingHasACode(t *testing.T) {
	codes := allCodes()
	for _, a := range Core().Attributes() {
		if codes[a.OID] == "" {
			t.Errorf("add to the end of codes.txt: %s %s", a.OID, a.Name())
		}
	}
	for _, c := range Core().Classes() {
		if codes[c.OID] == "" {
			t.Errorf("add to the end of codes.txt: %s %s", c.OID, c.Name())
		}
	}
	of := map[string]string{}
	for oid, code := range codes {
		if of[code] != "" {
			t.Errorf("%x is %s and %s", code, of[code], oid)
		}
		if of[code] = oid; dn.CodeLength(code+";x") != len(code) {
			t.Errorf("the length of %x is %d", code, dn.CodeLength(code+";x"))
		}
	}
	if len(codes) != len(oids()) {
		t.Errorf("%d codes, and %d OIDs", len(codes), len(oids()))
	}
}

// TestWithCodes checks what schemas for stores with few codes, and without codes, write.
func TestWithCodes(t *testing.T) {
	with, err := Core().Extend("attributeTypes: ( 1.2.3.4.5 NAME 'tint' EQUALITY caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		s                 *Schema
		typ, values, keys string
		class, key        string
	}{
		{with, "cn", "\x81", "\x81", "inetOrgPerson", "\xb7"},
		{with.WithCodes(2), "cn", "\x81", "\x81", "inetOrgPerson", "2.16.840.1.113730.3.2.2"},
		{with.WithCodes(1), "cn", "cn", "2.5.4.3", "2.5.6.0", "2.5.6.0"},
		{with.WithCodes(0), "CN", "cn", "2.5.4.3", "inetOrgPerson", "2.16.840.1.113730.3.2.2"},
		{with.WithCodes(0).WithCodes(Codes()), "cn", "\x81", "\x81", "2.5.6.0", "\xb4"},
		{with, "tint", "tint", "1.2.3.4.5", "bogus-oid", "bogus-oid"},
		{with.WithCodes(0).WithOptions("x-a"), "tint", "tint", "1.2.3.4.5", "TINT", "1.2.3.4.5"},
	} {
		a := c.s.Attribute(c.typ)
		if a.InValues() != c.values || a.InKeys() != c.keys || c.s.StoredAs(c.values) != a || c.s.StoredAs(c.keys) != a {
			t.Errorf("%d codes: %s is %q and %q", c.s.Codes(), c.typ, a.InValues(), a.InKeys())
		}
		key, err := c.s.Attribute("objectClass").Equality.Key([]byte(c.class))
		if err != nil || string(key) != c.key {
			t.Errorf("%d codes: the key of %s is %q, %v", c.s.Codes(), c.class, key, err)
		}
		changed, err := c.s.Change([]Definition{{Attribute: "attributeTypes", Text: "( 1.2.3.4.6 NAME 'shade' SUP name )"}}, nil)
		if err != nil || changed.Codes() != c.s.Codes() || changed.Attribute(c.typ).InKeys() != c.keys {
			t.Errorf("%d codes: a change has %v, %v", c.s.Codes(), changed, err)
		}
	}
	once, twice := Core().WithCodes(0), Core().WithCodes(0)
	if Core().WithCodes(Codes()) != Core() || once != twice {
		t.Error("the built-in schema was made again")
	}
	if s := Core().WithCodes(1); s.Attribute("\x80") != nil || s.StoredAs("\x81") != nil || s.StoredAs("\x80") != s.Attribute("objectClass") {
		t.Error("a code is a name, or one that the store does not use is known")
	}
}

// TestAssertionOfCode checks that an assertion about a class that has a code is decided, and that one about an unknown
// name is not.
func TestAssertionOfCode(t *testing.T) {
	r := Core().Attribute("objectClass").Equality
	if k, err := r.Assertion([]byte("PERSON")); err != nil || string(k) != "\xb5" {
		t.Errorf("%q, %v", k, err)
	}
	if k, err := r.Assertion([]byte("nobody")); err == nil {
		t.Errorf("%q", k)
	}
}
