package server

import (
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// cancelOperation begins a Cancel (RFC 3909). When the operation to be canceled ends, the
// server answers the operation and the Cancel.
func (c *conn) cancelOperation(m *op.Message) error {
	id, refusal := cancelID(m)
	c.mu.Lock()
	if err := c.unused(m.ID); err != nil {
		c.mu.Unlock()
		return err
	}
	var notBegun *operation
	if refusal == nil {
		notBegun, refusal = c.giveUp(id, m)
	}
	c.mu.Unlock()
	switch {
	case refusal != nil:
		c.answer(m, &op.Response{Result: *refusal})
	case notBegun != nil:
		c.answer(notBegun.message, &op.Response{Result: op.Result{Code: op.Canceled}})
		c.answer(m, &op.Response{})
	}
	return nil
}

// cancelID returns the message ID in a Cancel request.
func cancelID(m *op.Message) (int32, *op.Result) {
	for _, have := range m.Controls {
		if have.Critical {
			return 0, op.Errorf(op.UnavailableCriticalExtension, "control %s cannot be used with Cancel", have.OID)
		}
	}
	request, err := control.ParseCancel(m.Request.(*op.Extended).Value)
	if err != nil {
		return 0, op.Errorf(op.ProtocolError, "Cancel: %v", err)
	}
	return request.ID, nil
}

// giveUp begins the Cancel m of the operation with the given message ID. If the
// operation cannot be canceled, giveUp returns the refusal. If the operation still waits
// in the queue, giveUp removes and returns the operation. Otherwise it ends the
// operation's context and makes m the operation's canceler. The caller must hold c.mu.
func (c *conn) giveUp(id int32, m *op.Message) (notBegun *operation, refusal *op.Result) {
	o := c.find(id)
	switch {
	case id == m.ID || o != nil && o.isCancel():
		return nil, op.Errorf(op.CannotCancel, "a Cancel cannot be canceled")
	case o == nil || o.state.Load() == abandoned:
		return nil, op.Errorf(op.NoSuchOperation, "no operation with message ID %d is outstanding", id)
	case o.canceler != nil:
		return nil, op.Errorf(op.CannotCancel, "operation %d is being canceled already", id)
	case c.leaveQueue(o):
		c.remove(o)
		return o, nil
	}
	o.canceler = &operation{conn: c, message: m}
	c.ops = append(c.ops, o.canceler)
	o.stop(canceled)
	return nil, nil
}

// isCancel reports whether the operation is a Cancel.
func (o *operation) isCancel() bool {
	r, ok := o.message.Request.(*op.Extended)
	return ok && r.OID == control.OIDCancel
}

// answerCanceler answers the Cancel of an operation that has ended. If the operation was
// answered with canceled, the Cancel succeeds. If the operation was answered with any
// other result, the Cancel came too late.
func (c *conn) answerCanceler(o *operation) {
	response := &op.Response{}
	switch {
	case o.state.Load() == abandoned: // the client abandoned the operation after the Cancel
		response.Result = *op.Errorf(op.NoSuchOperation, "operation %d was abandoned", o.message.ID)
	case !o.gaveUp:
		response.Result = *op.Errorf(op.TooLate, "operation %d has ended already", o.message.ID)
	}
	c.answer(o.canceler.message, response)
}
