package monitor

import (
	"time"

	"github.com/seed-4dac0d86/ldapd/control"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/table"
)

// An Observation is what is known of an operation when it has been answered. An observer
// may use it until it returns.
type Observation struct {
	Conn     uint64 // number of the connection
	Who      string // DN of the bound identity; "" is anonymous
	Message  *op.Message
	Result   *op.Result
	As       *string // the authorization identity that a control requests
	Sessions []control.SessionTracking

	Begun time.Time
	Took  time.Duration
	Slow  bool // it took at least the limit for slow operations
	Lasts bool // it waits for events, so its time has no meaning
	// Answered means that the connection answered it itself, and that the fields below
	// are unused.
	Answered bool

	// Denied names the access rules that refused the operation, or says that none allows
	// it. Rules is the revision of the rules.
	Denied string
	Rules  table.Revision

	Entries    int
	References int
	Cost       partition.Cost
	Plan       string // of a slow search
	Attempts   int    // of an update
	Committed  table.Revision

	// Of the start, the updates and the end of an LDAP transaction (RFC 5805):
	Transaction string   // its identifier
	Operations  int      // at its end, how many it had
	Changed     []string // at its end, what they were
}

// An Observer receives the observation of every operation. It is called concurrently.
type Observer func(*Observation)

// Reset clears the observation for another operation, and keeps its memory.
func (o *Observation) Reset() {
	indexes := o.Cost.Indexes
	clear(indexes)
	*o = Observation{}
	o.Cost.Indexes = indexes[:0]
}

// Operation returns the kind of the operation.
func (o *Observation) Operation() Operation { return OperationOf(o.Message.Request) }

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
