package server

import (
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// cancelOperation begins a Cancel (RFC 3909). When the operation to be canceled ends, the
// server answers the operation and the Cancel.
func (c *conn) cancelOperation(m *op.Message) error {
	notBegun, refusal, err := c.ops.cancel(m)
	switch {
	case err != nil:
		return err
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
