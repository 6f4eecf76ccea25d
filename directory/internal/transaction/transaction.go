// Package transaction keeps the updates of LDAP transactions (RFC 5805) until the
// transactions end. Package write then makes the updates.
package transaction

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// Limits are the limits of the transactions of a connection.
type Limits struct {
	Open       int           // open transactions at once
	Operations int           // operations of one transaction
	Octets     int64         // memory of the operations of one transaction
	Idle       time.Duration // a transaction that gets no operation for so long is aborted
}

// Defaults of Limits.
const (
	DefaultOpen       = 4
	DefaultOperations = 10000
	DefaultOctets     = 64 << 20
	DefaultIdle       = 10 * time.Minute
)

// EnsureDefaults sets the limits that are zero.
func (l *Limits) EnsureDefaults() {
	if l.Open == 0 {
		l.Open = DefaultOpen
	}
	if l.Operations == 0 {
		l.Operations = DefaultOperations
	}
	if l.Octets == 0 {
		l.Octets = DefaultOctets
	}
	if l.Idle == 0 {
		l.Idle = DefaultIdle
	}
}

// mostKept limits the memory of all transactions of a server. Together they may take
// mostKept times as many octets as one transaction may take.
const mostKept = 4

// Memory counts the octets of all transactions of a server.
type Memory struct{ octets atomic.Int64 }

// An Operation is an update that a transaction keeps.
type Operation struct {
	Message   *op.Message
	Generated []byte // the new password of a Password Modify that requests one
}

// A Transaction contains the updates that a client has sent so far.
type Transaction struct {
	ID         string
	As         *string // the authorization identity that the client requested
	Operations []Operation

	limits   Limits
	memory   *Memory
	octets   int64
	messages map[int32]struct{}
	idle     *time.Timer
	client   op.Notifier // nil: the client cannot be notified
}

// A Table contains the transactions of a connection. The zero Table is empty.
type Table struct {
	mu   sync.Mutex
	open map[string]*Transaction
	last int // number of the last transaction
}

// errNone is the answer if no open transaction of the connection has the identifier in a
// request. RFC 4511, A.2 uses operationsError for a request that is not properly sequenced.
var errNone = op.Errorf(op.OperationsError, "no transaction with this identifier is open on this connection")

// Start begins a transaction on the connection with the given number. The client is notified
// if the transaction is aborted because it exceeds a limit.
func (t *Table) Start(conn uint64, l Limits, m *Memory, as *string, client op.Notifier) (*Transaction, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case l.Open < 0:
		return nil, op.Errorf(op.UnwillingToPerform, "transactions are disabled in the configuration of this server")
	case len(t.open) >= l.Open:
		return nil, op.Errorf(op.AdminLimitExceeded, "%d transactions are open on this connection, which is the limit", len(t.open))
	}
	t.last++
	x := &Transaction{ID: fmt.Sprintf("%d.%d", conn, t.last), As: as, limits: l, memory: m, messages: map[int32]struct{}{}, client: client}
	if t.open == nil {
		t.open = map[string]*Transaction{}
	}
	t.open[x.ID] = x
	if l.Idle > 0 {
		x.idle = time.AfterFunc(l.Idle, func() { t.expire(x) })
	}
	return x, nil
}

// Keep adds an update to a transaction. If the update exceeds a limit, Keep aborts the
// transaction and returns the transaction as the result aborted. The caller must then notify
// the client.
func (t *Table) Keep(id string, o Operation) (aborted *Transaction, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.open[id]
	if x == nil {
		return nil, errNone
	}
	if _, again := x.messages[o.Message.ID]; again {
		return nil, op.Errorf(op.ProtocolError, "the transaction has an update with message ID %d already", o.Message.ID)
	}
	if err := x.take(size(o.Message)); err != nil {
		t.remove(x)
		x.Release()
		return x, err
	}
	x.messages[o.Message.ID] = struct{}{}
	x.Operations = append(x.Operations, o)
	if x.idle != nil {
		x.idle.Reset(x.limits.Idle)
	}
	return nil, nil
}

// take counts an update towards the limits. It returns an error if the update exceeds a
// limit.
func (x *Transaction) take(octets int64) error {
	switch {
	case len(x.Operations) >= x.limits.Operations:
		return op.Errorf(op.AdminLimitExceeded, "the transaction has %d operations, which is the limit: it is aborted", len(x.Operations))
	case x.octets+octets > x.limits.Octets:
		return op.Errorf(op.AdminLimitExceeded, "the transaction takes more than %d octets, which is the limit: it is aborted", x.limits.Octets)
	}
	x.octets += octets
	if x.memory.octets.Add(octets) > mostKept*x.limits.Octets {
		return op.Errorf(op.Busy, "the transactions of all clients take too much memory now: this one is aborted")
	}
	return nil
}

// Take removes a transaction from the Table and returns the transaction. The caller must
// then commit or abort the transaction, and must call Release.
func (t *Table) Take(id string) (*Transaction, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.open[id]
	if x == nil {
		return nil, errNone
	}
	t.remove(x)
	return x, nil
}

// Abort ends all transactions without notice, and returns their number.
func (t *Table) Abort() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.open)
	for _, x := range t.open {
		t.remove(x)
		x.Release()
	}
	return n
}

// remove removes a transaction from the Table. The caller must hold t.mu.
func (t *Table) remove(x *Transaction) {
	delete(t.open, x.ID)
	if x.idle != nil {
		x.idle.Stop()
	}
}

// Release drops the updates of a transaction that has ended.
func (x *Transaction) Release() {
	x.memory.octets.Add(-x.octets)
	x.Operations, x.messages, x.octets = nil, nil, 0
}

// expire aborts a transaction that has been idle for too long.
func (t *Table) expire(x *Transaction) {
	t.mu.Lock()
	open := t.open[x.ID] == x
	if open {
		t.remove(x)
	}
	t.mu.Unlock()
	if open {
		x.Release()
		x.Notify(op.Errorf(op.AdminLimitExceeded, "the transaction was idle for %v, which is the limit", x.limits.Idle))
	}
}

// Notify sends the Aborted Transaction Notice (RFC 5805, 2.4) with the reason.
func (x *Transaction) Notify(r *op.Result) {
	if x.client != nil {
		// An error means that the client is gone.
		_ = x.client.Notify(&op.Response{Result: *r, OID: control.OIDAbortedTransaction, Value: []byte(x.ID)})
	}
}
