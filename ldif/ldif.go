// Package ldif reads and writes the LDAP Data Interchange Format (RFC 2849):
// entries, and changes of entries.
//
// A [Reader] streams the [Record]s of a file. A malformed record is an *[Error]
// with its line, after which reading goes on with the next record. A [Writer]
// does the opposite. Neither knows a schema: names and attribute descriptions
// are text.
//
// The Reader is looser than RFC 2849 where files in the wild are: values may
// have UTF-8 in them without base64, the "-" after the last change of a modify
// may be missing, and content and changes may be mixed. It knows the increment
// of RFC 4525.
package ldif

import (
	"fmt"

	"github.com/seed-4dac0d86/ldapd/op"
)

// A Record is an entry or a change of one. It belongs to who has read it.
type Record struct {
	// Line is where the record's dn stands, from 1.
	Line int
	// DN is the name as it was written.
	DN string
	// Attributes are an entry's. Lines of one attribute description, in any
	// case, are together, where the first of them stood.
	Attributes []op.PartialAttribute
	// Change is *op.Add, *op.Delete, *op.Modify or *op.ModifyDN of a change
	// record; nil in one that just has an entry.
	Change op.Request
	// Controls of a change record.
	Controls []op.Control
}

// An Error says what is wrong with a record, where, and what to do.
type Error struct {
	File string // as in Options
	Line int    // from 1
	DN   string // "" if it is not known
	Text string
}

func (e *Error) Error() string {
	at := fmt.Sprintf("line %d", e.Line)
	if e.File != "" {
		at = fmt.Sprintf("%s:%d", e.File, e.Line)
	}
	if e.DN == "" {
		return at + ": " + e.Text
	}
	return fmt.Sprintf("%s: %q: %s", at, e.DN, e.Text)
}
