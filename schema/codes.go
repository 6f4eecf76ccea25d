package schema

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"github.com/seed-4dac0d86/ldapd/dn"
)

// Stores write codes in place of the OIDs and names of many attribute types and object classes. A code has one
// octet, 0x80 to 0xbf, or two: 0xc0 to 0xff, and 0x80 to 0xff. OIDs and names begin with other octets, and types
// that have no code are written by OID and name. The codes are those of a list that is a part of the program, like
// the static tables of HPACK (RFC 7541) and QPACK (RFC 9204). Servers that share a store need not agree on any
// further code.

//go:embed codes.txt
var codesFile string

const (
	firstCode  = 0x80
	shortCodes = 0x40 // codes of one octet
	codesEach  = 0x80 // codes with the same first octet of two
)

// oids returns the OIDs in the order of their codes.
var oids = sync.OnceValue(func() (list []string) {
	for line := range strings.Lines(codesFile) {
		if oid, _, ok := strings.Cut(line, " "); ok && oid != "#" {
			list = append(list, oid)
		}
	}
	return list
})

// Codes returns how many codes this version of the program knows.
func Codes() int { return len(oids()) }

// codeOf returns the nth code.
func codeOf(n int) string {
	if n < shortCodes {
		return string([]byte{firstCode + byte(n)})
	}
	n -= shortCodes
	return string([]byte{firstCode + shortCodes + byte(n/codesEach), firstCode + byte(n%codesEach)})
}

// codesOf returns the first n codes by OID.
func codesOf(n int) map[string]string {
	m := make(map[string]string, n)
	for i, oid := range oids()[:n] {
		m[oid] = codeOf(i)
	}
	return m
}

// allCodes returns all codes by OID.
var allCodes = sync.OnceValue(func() map[string]string { return codesOf(Codes()) })

// Codes returns how many codes stand for types and classes in the store for which the schema was made. It is 0 for
// stores that have none.
func (s *Schema) Codes() int { return s.codes }

// WithCodes returns a schema with the same definitions for a store that uses the first n codes. Its types and
// classes have other pointers, unless n is the number of codes that s has. n must not be greater than [Codes].
func (s *Schema) WithCodes(n int) *Schema {
	switch {
	case n == s.codes:
		return s
	case n == 0 && slices.Equal(s.definitions, core().definitions):
		return uncoded().WithOptions(s.options...)
	}
	next, err := build(s.definitions, n)
	if err != nil {
		panic(err) // the definitions are those of a schema
	}
	return next.WithOptions(s.options...)
}

// uncoded returns the built-in schema for stores without codes.
var uncoded = sync.OnceValue(func() *Schema {
	s, err := build(core().definitions, 0)
	if err != nil {
		panic(err)
	}
	return s
})

// keyless are types whose keys are not stored in stores with codes. Each entry has values of them, but hardly a filter tests
// them without another condition: the entry itself is tested.
var keyless = map[string]bool{
	"2.5.18.1":                 true, // createTimestamp
	"2.5.18.3":                 true, // creatorsName
	"2.5.18.4":                 true, // modifiersName
	"2.5.21.9":                 true, // structuralObjectClass
	"1.3.6.1.4.1.4203.666.1.7": true, // entryCSN
}

// Keyless reports whether the store contains no keys of values of the type, except in an index.
func (t *AttributeType) Keyless() bool { return t.keyless }

// Keyed reports whether the store contains a key of each value of the type.
func (t *AttributeType) Keyed() bool { return t.Equality != nil && !t.secret && !t.keyless }

// InValues returns the text with which the columns of a type's values begin in stores: the code of the type or its
// short name.
func (t *AttributeType) InValues() string { return t.inValues }

// InKeys returns the text with which columns of keys and AVAs of normalised names begin: the code of the type or
// its OID.
func (t *AttributeType) InKeys() string { return t.inKeys }

// StoredAs returns the type that a text in a store stands for, a code, an OID or a name. It returns nil if there is none.
func (s *Schema) StoredAs(text string) *AttributeType {
	if dn.CodeLength(text) > 0 {
		return s.byCode[text]
	}
	return s.Attribute(text)
}

// StoredClass returns the object class that a text in a store stands for: a code, an OID or a name. It returns nil if
// there is none.
func (s *Schema) StoredClass(text string) *ObjectClass {
	if dn.CodeLength(text) > 0 {
		return s.classByCode[text]
	}
	return s.Class(text)
}

// NameOf returns a text for diagnostics: the OID that a code in a store stands for, or the text itself.
func NameOf(text string) string {
	for oid, code := range allCodes() {
		if code == text {
			return oid
		}
	}
	return text
}
