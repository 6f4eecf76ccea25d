// Package op has the operations of LDAP as Go values: requests (RFC 4511,
// sections 4.2 to 4.14), controls, results, and the [Sink] that answers go to.
// It knows nothing of their encoding (package wire) nor of what they mean
// (package directory). Names of entries are the client's text; attribute
// descriptions too.
package op

import (
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/filter"
)

// A Request is one of *Bind, *Unbind, *Search, *Modify, *Add, *Delete,
// *ModifyDN, *Compare, *Abandon, *Extended.
type Request interface{ isRequest() }

// A Message is a request as it arrived.
type Message struct {
	ID       int32
	Request  Request
	Controls []Control
}

// A Control of a request or a response (RFC 4511, 4.1.11).
type Control struct {
	OID      string
	Critical bool
	Value    []byte // nil: absent
}

// Bind is a BindRequest (RFC 4511, 4.2). An authentication choice that is neither
// simple nor SASL comes as SASL without a mechanism, which nobody supports.
type Bind struct {
	Version   int
	Name      string
	SASL      bool
	Password  []byte // simple
	Mechanism string // SASL
	// Credentials of SASL; nil when absent.
	Credentials []byte
}

// Unbind ends the session (RFC 4511, 4.3).
type Unbind struct{}

// Scope of a search (RFC 4511, 4.5.1.2).
type Scope uint8

const (
	BaseObject Scope = iota
	SingleLevel
	WholeSubtree
	Subordinates // draft-sermersheim-ldap-subordinate-scope: the subtree without its base
)

// Deref says when a search follows aliases (RFC 4511, 4.5.1.3).
type Deref uint8

const (
	NeverDerefAliases Deref = iota
	DerefInSearching
	DerefFindingBase
	DerefAlways
)

// Search is a SearchRequest (RFC 4511, 4.5.1).
type Search struct {
	Base       string
	Scope      Scope
	Deref      Deref
	SizeLimit  int // entries; 0: none
	TimeLimit  int // seconds; 0: none
	TypesOnly  bool
	Filter     filter.Filter // nil in a request that was refused for it
	Attributes []string
}

// Kind of a modification (RFC 4511, 4.6; RFC 4525).
type ModKind uint8

const (
	ModAdd ModKind = iota
	ModDelete
	ModReplace
	ModIncrement
)

// A PartialAttribute is an attribute as clients send it.
type PartialAttribute struct {
	Description string
	Values      [][]byte
}

// A Modification is one change of a Modify.
type Modification struct {
	Kind ModKind
	PartialAttribute
}

// Modify is a ModifyRequest (RFC 4511, 4.6).
type Modify struct {
	Name    string
	Changes []Modification
}

// Add is an AddRequest (RFC 4511, 4.7).
type Add struct {
	Name       string
	Attributes []PartialAttribute
}

// Delete is a DelRequest (RFC 4511, 4.8).
type Delete struct{ Name string }

// ModifyDN is a ModifyDNRequest (RFC 4511, 4.9).
type ModifyDN struct {
	Name         string
	NewRDN       string
	DeleteOldRDN bool
	NewSuperior  *string // nil: the parent stays
}

// Compare is a CompareRequest (RFC 4511, 4.10).
type Compare struct {
	Name        string
	Description string
	Value       []byte
}

// Abandon asks to forget an operation (RFC 4511, 4.11).
type Abandon struct{ MessageID int32 }

// Extended is an ExtendedRequest (RFC 4511, 4.12).
type Extended struct {
	OID   string
	Value []byte // nil: absent
}

func (*Bind) isRequest()     {}
func (*Unbind) isRequest()   {}
func (*Search) isRequest()   {}
func (*Modify) isRequest()   {}
func (*Add) isRequest()      {}
func (*Delete) isRequest()   {}
func (*ModifyDN) isRequest() {}
func (*Compare) isRequest()  {}
func (*Abandon) isRequest()  {}
func (*Extended) isRequest() {}

// A SearchEntry is one SearchResultEntry. Its attributes are those to send,
// selected already; they are shared and must not be changed.
type SearchEntry struct {
	Name       string
	Attributes []entry.Attribute
	TypesOnly  bool
	Controls   []Control
}

// A Response ends an operation: an LDAPResult and what a bind or an extended
// operation adds to it.
type Response struct {
	Result
	Controls []Control
	// SASLCredentials of a bind; nil: absent.
	SASLCredentials []byte
	// OID ("": absent) and Value (nil: absent) of an extended response.
	OID   string
	Value []byte
}

// A Sink takes the answers of one operation, in order; Done comes last, once,
// and never for Abandon and Unbind. An error means that the client is gone or
// has abandoned the operation: stop working. Values handed over are encoded
// before the call returns and may be reused.
type Sink interface {
	Entry(e *SearchEntry) error
	Reference(urls []string, controls []Control) error
	Intermediate(oid string, value []byte, controls []Control) error
	Done(r *Response) error
}

// An Ender is a Sink whose connection can be ended: once the operations that run are done,
// the client gets a Notice of Disconnection (RFC 4511, 4.4.1).
type Ender interface {
	End(notice *Result)
}

// A Persister is a Sink for operations that may last until the client ends them, as
// persistent searches do. One that is about to wait for what may never come calls
// Stay, once. An error says that the connection has enough of them; it is a
// *Result, as the context's cause is if the server ends the operation.
type Persister interface{ Persist() error }
