package server

import "github.com/seed-4dac0d86/ldapd/ldap/op"

var _ op.Persister = (*sink)(nil)

var _ op.Ender = (*sink)(nil)

// End implements op.Ender.
func (s *sink) End(notice *op.Result) {
	(*operation)(s).conn.stop(&ending{notice: notice, grace: finishAll})
}

// Persist implements op.Persister. If the reader runs the operation, a new goroutine
// becomes the reader at once. The operation no longer counts towards MaxOutstanding.
// Otherwise persistent operations could use up that limit, and no other operation could
// run. Shutdown stops the operation.
func (s *sink) Persist() error {
	o := (*operation)(s)
	o.context() // makes the context through which Shutdown ends the operation
	reader, refusal := o.conn.ops.persist(o)
	if refusal != nil {
		return refusal
	}
	if reader {
		go o.conn.read()
	}
	return nil
}

// end ends the context of an operation that would not end soon by itself. The operation is
// answered with the notice. The caller must hold conn.ops.mu.
func (o *operation) end(notice *op.Result) {
	if o.state.Load() != wanted {
		return
	}
	o.notice = notice
	if o.state.CompareAndSwap(wanted, stopped) {
		o.release()
	}
}
