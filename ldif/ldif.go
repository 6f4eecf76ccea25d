// Package ldif reads and writes the LDAP Data Interchange Format (RFC 2849): entries, and
// changes of entries.
//
// A [Reader] streams the [Record]s of a file. It reports a malformed record as an
// *[Error] with its line, and continues with the next record. A [Writer] writes records.
// Neither knows a schema: names and attribute descriptions are text.
//
// The Reader accepts more than RFC 2849, as real files require: values may contain UTF-8
// without base64, the "-" after the last change of a modify may be missing, and content
// and changes may be mixed. It also supports the increment of RFC 4525.
package ldif

import (
	"fmt"

	"github.com/seed-4dac0d86/ldapd/op"
)

// A Record is an entry or a change of one. It belongs to the caller of Read.
type Record struct {
	// Line is the line of the record's dn, from 1.
	Line int
	// DN is the name as written.
	DN string
	// Attributes are those of an entry. Lines with the same attribute description, in any
	// case, are combined at the place of the first.
	Attributes []op.PartialAttribute
	// Change is *op.Add, *op.Delete, *op.Modify or *op.ModifyDN in a change record; nil
	// in a content record.
	Change op.Request
	// Controls are those of a change record.
	Controls []op.Control
}

// An Error describes what is wrong with a record, where, and what to do.
type Error struct {
	File string // as in Options
	Line int    // from 1
	DN   string // "" if unknown
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
