// Package ldif reads and writes the LDAP Data Interchange Format (RFC 2849): entries, and
// changes of entries.
//
// A [Reader] streams the [Record]s of a file. If a record is malformed, the Reader
// returns an *[Error] with its line, and continues with the next record. A [Writer]
// writes records. Reader and Writer use no schema: they treat names and attribute
// descriptions as text.
//
// The Reader accepts more than RFC 2849, because real files require it. Values may
// contain UTF-8 without base64. The "-" after the last change of a modify may be
// missing. Content records and change records may be mixed. The Reader also supports
// the increment of RFC 4525.
package ldif

import (
	"fmt"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// A Record is an entry or a change of an entry. A Record that Read returned belongs to
// the caller.
type Record struct {
	// Line is the number of the line with the record's dn, from 1.
	Line int
	// DN is the name as the file spells it.
	DN string
	// Attributes are the attributes of an entry. If several lines have the same attribute
	// description (ignoring case), their values are combined in one attribute, at the
	// position of the first of these lines.
	Attributes []op.PartialAttribute
	// Change is *op.Add, *op.Delete, *op.Modify or *op.ModifyDN in a change record, and
	// nil in a content record.
	Change op.Request
	// Controls are the controls of a change record.
	Controls []op.Control
}

// An Error says what is wrong with a record, and where.
type Error struct {
	File string // Options.File
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
