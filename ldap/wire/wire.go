// Package wire decodes LDAPMessages (RFC 4511, 4.1.1) into [op.Message]s and encodes
// answers as LDAPMessages. It defines the encoding of every operation. It does not
// interpret controls and extended operations: for package wire, they are OIDs with
// values.
//
// A message can have two kinds of errors. An [Error] reports a broken structure: the
// session cannot continue, because the start of the next message is uncertain (RFC 4511,
// 4.1.1). A [Refusal] reports a sound structure with contents that the protocol does not
// allow. A Refusal contains the answer to the request.
//
// Answers are appended to a buffer, so that one write sends many answers.
package wire

import (
	"fmt"

	"github.com/seed-4dac0d86/ldapd/ldap/ber"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// NoticeOfDisconnection is the OID of the unsolicited notification that ends a
// session (RFC 4511, 4.4.1).
const NoticeOfDisconnection = "1.3.6.1.4.1.1466.20036"

// maxInt is the largest INTEGER of the protocol (RFC 4511, 4.1.1).
const maxInt = 1<<31 - 1

// These are the tags of the operations. The names of response tags end in R.
const (
	tagBind         = 0x60
	tagBindR        = 0x61
	tagUnbind       = 0x42
	tagSearch       = 0x63
	tagEntryR       = 0x64
	tagSearchDoneR  = 0x65
	tagModify       = 0x66
	tagModifyR      = 0x67
	tagAdd          = 0x68
	tagAddR         = 0x69
	tagDelete       = 0x4a
	tagDeleteR      = 0x6b
	tagModifyDN     = 0x6c
	tagModifyDNR    = 0x6d
	tagCompare      = 0x6e
	tagCompareR     = 0x6f
	tagAbandon      = 0x50
	tagReferenceR   = 0x73
	tagExtended     = 0x77
	tagExtendedR    = 0x78
	tagIntermediate = 0x79
)

// These are the context-specific tags in messages.
const (
	tagControls        = 0xa0
	tagSimple          = 0x80
	tagSASL            = 0xa3
	tagReferral        = 0xa3
	tagSASLCredentials = 0x87
	tagNewSuperior     = 0x80
	tagRequestName     = 0x80
	tagRequestValue    = 0x81
	tagResponseName    = 0x8a
	tagResponseValue   = 0x8b
	tagPartialName     = 0x80 // responseName of an IntermediateResponse
	tagPartialValue    = 0x81
)

// An Error is a message after which the session cannot continue: a message with a broken
// structure, or a bind with invalid contents. The session must end with a Notice of
// Disconnection whose code is protocolError (RFC 4511, 4.1.1).
type Error struct{ Err error }

func (e *Error) Error() string { return "malformed LDAP message: " + e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// A Refusal is a message with a sound structure but invalid contents. The server answers
// the request with Result, and the session continues.
type Refusal struct {
	Message *op.Message
	Result  *op.Result
}

func (e *Refusal) Error() string {
	return fmt.Sprintf("message %d: %s", e.Message.ID, e.Result.Diagnostic)
}

// Size returns the length of the LDAPMessage at the start of b. It returns 0 if b ends
// before the end of the length octets. The error is an *[Error].
func Size(b []byte) (int, error) {
	if len(b) > 0 && ber.Tag(b[0]) != ber.Sequence {
		return 0, &Error{&ber.SyntaxError{Want: "an LDAPMessage, " + ber.Sequence.String(), Got: ber.Tag(b[0]).String()}}
	}
	_, head, size, err := ber.Header(b)
	if err != nil {
		return 0, &Error{err}
	}
	if head == 0 {
		return 0, nil
	}
	return head + size, nil
}
