package control

import (
	"errors"
	"math"

	"github.com/seed-4dac0d86/ldapd/ldap/ber"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/wire"
)

// These are the OIDs of transactions (RFC 5805).
const (
	// OIDStartTransaction is the OID of Start Transaction. The request has no value. The
	// response value is the identifier of the new transaction.
	OIDStartTransaction = "1.3.6.1.1.21.1"
	// OIDTransaction is the OID of the control of an update that belongs to a
	// transaction.
	OIDTransaction = "1.3.6.1.1.21.2"
	// OIDEndTransaction is the OID of End Transaction, which commits or aborts a
	// transaction.
	OIDEndTransaction = "1.3.6.1.1.21.3"
	// OIDAbortedTransaction is the OID of the notification that the server has aborted a
	// transaction. The value of the notification is the identifier of the transaction.
	OIDAbortedTransaction = "1.3.6.1.1.21.4"
)

// Transaction is the value of the transaction specification control, which is the
// identifier of a transaction.
//
// See RFC 5805, section 2.2.
type Transaction struct{ ID string }

// ParseTransaction parses the value of a request. If value is nil, the control has no
// value, which is an error.
func ParseTransaction(value []byte) (t Transaction, err error) {
	if value == nil {
		return t, errors.New("it has no value")
	}
	return Transaction{string(value)}, nil
}

// EndTransaction is the request value of End Transaction.
//
// See RFC 5805, section 2.3:
//
//	txnEndReq ::= SEQUENCE {
//		commit         BOOLEAN DEFAULT TRUE,
//		identifier     OCTET STRING }
type EndTransaction struct {
	Commit bool
	ID     string
}

// ParseEndTransaction parses the value of a request.
func ParseEndTransaction(value []byte) (e EndTransaction, err error) {
	e.Commit = true
	err = parse(value, func(r *ber.Reader) {
		if r.At(ber.Boolean) {
			e.Commit = r.Bool(ber.Boolean)
		}
		tag := ber.OctetString
		if r.At(responseValue) {
			tag = responseValue
		}
		e.ID = string(r.Bytes(tag))
	})
	return e, err
}

// responseValue is the tag of the value in an ExtendedResponse. UnboundID's LDAP SDK for Java
// (7.0.5) keeps this tag of the identifier that Start Transaction returned.
const responseValue = ber.Tag(0x8b)

// EndTransactionResult is the response value of End Transaction.
//
// See RFC 5805, section 2.3:
//
//	txnEndRes ::= SEQUENCE {
//		messageID MessageID OPTIONAL,
//			-- msgid associated with non-success resultCode
//		updatesControls SEQUENCE OF updateControls SEQUENCE {
//			messageID MessageID,
//				-- msgid associated with controls
//			controls  Controls
//		} OPTIONAL
//	}
type EndTransactionResult struct {
	Failed  int32 // the message ID of the update that failed; 0: absent
	Updates []UpdateControls
}

// UpdateControls are the response controls of one update of a transaction.
type UpdateControls struct {
	Message  int32
	Controls []op.Control
}

// Encode returns the value of a response. It returns nil if all components are absent.
func (e EndTransactionResult) Encode() []byte {
	if e.Failed == 0 && len(e.Updates) == 0 {
		return nil
	}
	b := ber.Open(nil, ber.Sequence)
	if e.Failed != 0 {
		b = ber.AppendInt(b, ber.Integer, int64(e.Failed))
	}
	if len(e.Updates) > 0 {
		start := len(b)
		b = ber.Open(b, ber.Sequence)
		for _, u := range e.Updates {
			one := len(b)
			b = ber.Open(b, ber.Sequence)
			b = ber.AppendInt(b, ber.Integer, int64(u.Message))
			b = ber.Close(wire.AppendControls(b, ber.Sequence, u.Controls), one)
		}
		b = ber.Close(b, start)
	}
	return ber.Close(b, 0)
}

// ParseEndTransactionResult parses the value of a response. If value is nil, all
// components are absent. Clients need this function.
func ParseEndTransactionResult(value []byte) (e EndTransactionResult, err error) {
	if value == nil {
		return e, nil
	}
	err = parse(value, func(r *ber.Reader) {
		if r.At(ber.Integer) {
			e.Failed = int32(r.IntIn(ber.Integer, 0, math.MaxInt32))
		}
		if !r.More() {
			return
		}
		list := r.Enter(ber.Sequence)
		for r.More() {
			one := r.Enter(ber.Sequence)
			u := UpdateControls{Message: int32(r.IntIn(ber.Integer, 0, math.MaxInt32))}
			controls := r.Enter(ber.Sequence)
			u.Controls = parseControls(r)
			r.Leave(controls)
			r.Leave(one)
			e.Updates = append(e.Updates, u)
		}
		r.Leave(list)
	})
	return e, err
}

// parseControls reads controls up to the end of the element last entered.
func parseControls(r *ber.Reader) (cs []op.Control) {
	for r.More() {
		one := r.Enter(ber.Sequence)
		c := op.Control{OID: string(r.Bytes(ber.OctetString))}
		if r.At(ber.Boolean) {
			c.Critical = r.Bool(ber.Boolean)
		}
		if r.At(ber.OctetString) {
			c.Value = r.Bytes(ber.OctetString)
		}
		r.Leave(one)
		cs = append(cs, c)
	}
	return cs
}
