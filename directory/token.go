package directory

import (
	"context"
	"errors"
	"time"

	"github.com/seed-4dac0d86/ldapd/control"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/revision"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// takeToken reads a token control. An update asks for the token of its commit. A
// read has one, and is of a state that shows that commit, and so all that the
// commit could know of.
func takeToken(o *operation, m *op.Message, c *op.Control) (err error) {
	if operationsOf(m.Request)&(withSearch|withCompare) == 0 {
		o.controls.token = true
		return noValue("token", c)
	}
	if o.controls.atLeast, err = revision.Parse(string(c.Value)); err != nil {
		return malformed("token", err)
	}
	return nil
}

// tokenPatience bounds how long a read waits for what its token names.
const tokenPatience = 5 * time.Second

// awaitToken waits until this server shows the commit that the request's token names.
func (o *operation) awaitToken(ctx context.Context) error {
	if o.controls.atLeast == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, tokenPatience)
	defer cancel()
	err := o.d.part.AtLeast(ctx, o.controls.atLeast)
	if errors.Is(err, txn.ErrRevision) && !errors.Is(err, table.ErrUnavailable) {
		return op.Errorf(op.UnwillingToPerform, "token: %v", err)
	}
	return err
}

// tellToken responds with the token of the commit that an update made.
func (o *operation) tellToken() {
	if o.controls.token && o.committed != 0 {
		o.respond(control.OIDToken, []byte(revision.String(o.committed)))
	}
}
