// Package entry defines the entries of the directory as values in memory: an [ID], and
// [Attribute]s in the order in which the client sent them. An [Entry] does not contain
// the name of the entry, so a move changes the names of entries without changing any
// Entry.
//
// Readers share the entries that a partition returns: callers must not change these
// entries, their attributes or their values.
package entry

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/seed-4dac0d86/ldapd/schema"
)

// An ID is the UUID of an entry: the key of its row in the master table, and the value of
// its entryUUID.
type ID [16]byte

// Root is the ID of the virtual root above all naming contexts.
var Root ID

// NewID returns a random ID.
func NewID() ID { return ID(uuid.New()) }

// ParseID parses a UUID of the form 8-4-4-4-12 with digits in either case (RFC 4530,
// 2.1).
func ParseID(s string) (ID, error) {
	if len(s) != 36 { // package uuid accepts other forms too
		return ID{}, fmt.Errorf("%q is no UUID of the form 8-4-4-4-12", s)
	}
	u, err := uuid.Parse(s)
	return ID(u), err
}

func (id ID) String() string { return uuid.UUID(id).String() }

// Compare compares ids in the order of the rows of the master table.
func (id ID) Compare(other ID) int { return bytes.Compare(id[:], other[:]) }

// An Attribute is an attribute description and its values (RFC 4512, 2.5).
type Attribute struct {
	Type *schema.AttributeType
	// Options are the tagging options, in lower case, sorted, each with a leading
	// semicolon: ";lang-de;x-a". Most attributes have none.
	Options string
	Values  [][]byte
}

// Description returns the attribute description: the name of the type as it is sent, which
// may include the option binary, and the other options.
func (a *Attribute) Description() string {
	if a.Options == "" {
		return a.Type.SentName()
	}
	return a.Type.SentName() + a.Options
}

// An Entry is an entry of the directory without its name.
type Entry struct {
	ID         ID
	Attributes []Attribute
}

// Find returns the attribute with exactly the type t and the given options, or nil.
func (e *Entry) Find(t *schema.AttributeType, options string) *Attribute {
	for i := range e.Attributes {
		if a := &e.Attributes[i]; a.Type == t && a.Options == options {
			return a
		}
	}
	return nil
}

// Values returns the values of the attribute that has the type t and no options.
func (e *Entry) Values(t *schema.AttributeType) [][]byte {
	if a := e.Find(t, ""); a != nil {
		return a.Values
	}
	return nil
}

// SortOptions converts tagging options ("Lang-DE;x") to the form of Attribute.Options.
// It drops the option binary, which names a transfer encoding, not a subtype (RFC
// 4522).
func SortOptions(options string) string {
	if options == "" {
		return ""
	}
	parts := strings.Split(strings.ToLower(strings.Trim(options, ";")), ";")
	kept := parts[:0]
	for _, p := range parts {
		if p != "" && p != "binary" {
			kept = append(kept, p)
		}
	}
	if len(kept) == 0 {
		return ""
	}
	slices.Sort(kept)
	return ";" + strings.Join(slices.Compact(kept), ";")
}

// HasOptions reports whether options contains all options of required. Both arguments
// have the form of Attribute.Options. A language range in required ("lang-en-", or
// "lang-" for any language) matches every language tag that begins with the range, and the
// tag that lacks only the last hyphen of the range (RFC 3866, 2.2).
func HasOptions(options, required string) bool {
	for required != "" {
		var option string
		option, required = firstOption(required)
		if !hasOption(options, option) {
			return false
		}
	}
	return true
}

func hasOption(have, want string) bool {
	for have != "" {
		var option string
		option, have = firstOption(have)
		switch {
		case option == want:
			return true
		case isRange(want) && (strings.HasPrefix(option, want) || option == want[:len(want)-1]):
			return true
		}
	}
	return false
}

// isRange reports whether an option (";lang-de-") is a language range.
func isRange(option string) bool {
	return strings.HasPrefix(option, ";lang-") && option[len(option)-1] == '-'
}

// HasRange reports whether options, which have the form of Attribute.Options, contain a
// language range.
func HasRange(options string) bool {
	for options != "" {
		var option string
		if option, options = firstOption(options); isRange(option) {
			return true
		}
	}
	return false
}

// firstOption splits ";a;b;c" into ";a" and ";b;c".
func firstOption(s string) (first, rest string) {
	if end := strings.IndexByte(s[1:], ';') + 1; end > 0 {
		return s[:end], s[end:]
	}
	return s, ""
}
