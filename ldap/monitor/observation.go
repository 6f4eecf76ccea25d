package monitor

import (
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// An Observation describes an operation that has been answered. When the observer has
// returned, it must not use the Observation any more, because the memory is used again.
type Observation struct {
	Conn     uint64 // number of the connection
	Who      string // DN of the bound identity; "" is anonymous
	Message  *op.Message
	Result   *op.Result
	As       *string // the authorization identity that a control requests
	Sessions []control.SessionTracking

	Begun time.Time
	Took  time.Duration
	Slow  bool // the operation lasted at least the limit for slow operations
	Lasts bool // the operation waits for events, so its time has no meaning
	// Answered means that the connection itself answered the operation. Then only Conn,
	// Who, Message and Result are set.
	Answered bool

	Span any // the operation's span, as the option Trace returned it; nil: the operation was not sampled

	// Denied is set if the result is insufficientAccessRights. It lists the access rules
	// that denied something that the operation needs. If no rule denied it, Denied says
	// what no rule allows. Rules is the revision of the commit that wrote the access
	// rules.
	Denied string
	Rules  table.Revision

	Entries    int
	References int
	Candidates int    // entries that the operation examined
	Rows       int    // rows of the tree that it excluded without their entries
	Scans      int    // searches without an index
	Indexes    []Use  // indexes that it used
	Plan       string // set only for a slow search
	Attempts   int    // set only for an update
	Committed  table.Revision
	Branch     string // the branch that the operation was in

	// Transaction is the identifier of the LDAP transaction (RFC 5805) that the operation
	// begins, ends, or belongs to.
	Transaction string
	// Operations is set if the operation ends a transaction. It is the number of updates
	// in the transaction.
	Operations int
	// Changed is set if the operation commits a transaction. It lists the first updates of
	// the transaction, with their DNs.
	Changed []string
}

// An Observer receives the observation of every operation except Unbind and Abandon.
// Observers are called concurrently.
type Observer func(*Observation)

// A Use records which index a search read, and how: value, range, scan, presence or references.
type Use struct{ Attribute, Kind string }

// Operation returns the kind of the operation.
func (o *Observation) Operation() Operation { return OperationOf(o.Message.Request) }

// Index returns the indexes that a search used, "none" if it scanned without an index, and
// "" if it needed neither.
func (o *Observation) Index() string {
	if len(o.Indexes) == 0 {
		if o.Scans > 0 {
			return "none"
		}
		return ""
	}
	names := make([]string, len(o.Indexes))
	for i, u := range o.Indexes {
		names[i] = u.Attribute + " " + u.Kind
	}
	return strings.Join(names, ", ")
}

// An Operation is a kind of LDAP operation (RFC 4511, 4.2 to 4.12).
type Operation int

// The kinds of operation.
const (
	Bind Operation = iota
	Unbind
	Search
	Compare
	Add
	Modify
	Delete
	ModifyDN
	Abandon
	Extended
	operations int = iota
)

var operationNames = [operations]string{"bind", "unbind", "search", "compare", "add", "modify", "delete", "modifyDN", "abandon", "extended"}

func (o Operation) String() string { return operationNames[o] }

// OperationOf returns the kind of a request.
func OperationOf(r op.Request) Operation {
	switch r.(type) {
	case *op.Bind:
		return Bind
	case *op.Unbind:
		return Unbind
	case *op.Search:
		return Search
	case *op.Compare:
		return Compare
	case *op.Add:
		return Add
	case *op.Modify:
		return Modify
	case *op.Delete:
		return Delete
	case *op.ModifyDN:
		return ModifyDN
	case *op.Abandon:
		return Abandon
	}
	return Extended
}
