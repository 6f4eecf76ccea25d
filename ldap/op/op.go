// Package op represents the operations of LDAP as Go values: requests (RFC 4511, sections 4.2
// to 4.14), controls, results, and the [Sink] that receives answers. Package wire encodes and
// decodes these values, and package directory defines their meaning. In requests, names of
// entries and attribute descriptions are strings, as the client sent them.
package op

import (
	"strconv"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A Request is one of *Bind, *Unbind, *Search, *Modify, *Add, *Delete,
// *ModifyDN, *Compare, *Abandon, *Extended.
type Request interface{ isRequest() }

// A Message is a request as received.
type Message struct {
	ID       int32
	Request  Request
	Controls []Control
	// A session sets Received when the message arrives, if the effect of the message depends
	// on the order of arrival: see Receiver in package server. Otherwise Received is nil.
	Received any
}

// A Control is a control of a request or a response (RFC 4511, 4.1.11).
type Control struct {
	OID      string
	Critical bool
	Value    []byte // nil: absent
}

// Bind is a BindRequest (RFC 4511, 4.2). If the authentication choice is neither simple nor
// SASL, the field SASL is set and Mechanism is empty. The directory then refuses the bind, as
// for any unsupported mechanism.
type Bind struct {
	Version   int
	Name      string
	SASL      bool
	Password  []byte // the password of a simple bind
	Mechanism string // the mechanism of a SASL bind
	// Credentials are the SASL credentials; nil if absent.
	Credentials []byte
}

// Unbind ends the session (RFC 4511, 4.3).
type Unbind struct{}

// Scope is the scope of a search (RFC 4511, 4.5.1.2).
type Scope uint8

const (
	BaseObject Scope = iota
	SingleLevel
	WholeSubtree
	Subordinates // draft-sermersheim-ldap-subordinate-scope: the subtree without its base
)

var scopes = [...]string{"base", "one", "sub", "subordinates"}

func (s Scope) String() string { return nameIn(scopes[:], s) }

// Deref specifies in which parts of a search aliases are followed (RFC 4511, 4.5.1.3).
type Deref uint8

const (
	NeverDerefAliases Deref = iota
	DerefInSearching
	DerefFindingBase
	DerefAlways
)

var derefs = [...]string{"never", "searching", "finding", "always"}

func (d Deref) String() string { return nameIn(derefs[:], d) }

// nameIn returns the name of a value, or its number if it has no name.
func nameIn[T Scope | Deref](names []string, i T) string {
	if int(i) < len(names) {
		return names[i]
	}
	return strconv.Itoa(int(i))
}

// Search is a SearchRequest (RFC 4511, 4.5.1).
type Search struct {
	Base       string
	Scope      Scope
	Deref      Deref
	SizeLimit  int // entries; 0: no limit
	TimeLimit  int // seconds; 0: no limit
	TypesOnly  bool
	Filter     filter.Filter // nil if the filter is the reason why the request was refused
	Attributes []string
}

// ModKind is the kind of a modification (RFC 4511, 4.6; RFC 4525).
type ModKind uint8

const (
	ModAdd ModKind = iota
	ModDelete
	ModReplace
	ModIncrement
)

// A PartialAttribute is an attribute in a request.
type PartialAttribute struct {
	Description string
	Values      [][]byte
}

// Attribute returns an attribute with values that are text.
func Attribute(description string, values ...string) PartialAttribute {
	a := PartialAttribute{Description: description}
	for _, v := range values {
		a.Values = append(a.Values, []byte(v))
	}
	return a
}

// A Modification is one change of a Modify.
type Modification struct {
	Kind ModKind
	PartialAttribute
}

// Change returns a modification with values that are text.
func Change(kind ModKind, description string, values ...string) Modification {
	return Modification{kind, Attribute(description, values...)}
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
	NewSuperior  *string // nil: keep the parent
}

// Compare is a CompareRequest (RFC 4511, 4.10).
type Compare struct {
	Name        string
	Description string
	Value       []byte
}

// Abandon requests that an operation end without an answer (RFC 4511, 4.11).
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

// A SearchEntry is a SearchResultEntry. It has only the selected attributes. A Sink must not
// change the attributes, because other operations use the same memory.
type SearchEntry struct {
	Name       string
	Attributes []entry.Attribute
	TypesOnly  bool
	Controls   []Control
}

// A Response ends an operation. It is an LDAPResult with the additions of binds and
// extended operations.
type Response struct {
	Result
	Controls []Control
	// SASLCredentials are the serverSaslCreds of a BindResponse; nil: absent.
	SASLCredentials []byte
	// OID and Value are the name and the value of an ExtendedResponse. If OID is "", the
	// name is absent. If Value is nil, the value is absent.
	OID   string
	Value []byte
}

// Control returns a control of the response, or nil.
func (r *Response) Control(oid string) *Control {
	for i := range r.Controls {
		if r.Controls[i].OID == oid {
			return &r.Controls[i]
		}
	}
	return nil
}

// A Sink receives the answers of one operation, in order. Done is the last call, and occurs
// once. For an Abandon or Unbind, Done is not called. If a method returns an error, the client
// is gone, or has abandoned or canceled the operation, and the caller should stop. Each method
// encodes its arguments before it returns, so the caller can reuse the memory of the arguments.
type Sink interface {
	Entry(e *SearchEntry) error
	Reference(urls []string, controls []Control) error
	Intermediate(oid string, value []byte, controls []Control) error
	Done(r *Response) error
}

// An Ender is a Sink whose connection can be ended. Once the running operations have
// ended, the client receives a Notice of Disconnection (RFC 4511, 4.4.1).
type Ender interface {
	End(notice *Result)
}

// A Notifier is a Sink that can send unsolicited notifications to its client (RFC 4511,
// 4.4), as long as the connection lasts.
type Notifier interface{ Notify(r *Response) error }

// A Persister is a Sink for operations that may last until the client ends them, such as
// persistent searches. An operation of this kind calls Persist once, before it waits for
// events that may never occur. Persist returns a *Result if the connection has too many
// operations of this kind. If the server ends the operation, the cause of the operation's
// context is also a *Result.
type Persister interface{ Persist() error }

// A Drawer is a Sink that counts the memory of its operation, in octets. Draw is called before
// memory is used that a client can make large. It returns a *Result if the connection or the server
// has no more. The memory is given back when the operation ends, or by Draw(-n).
type Drawer interface{ Draw(n int64) error }
