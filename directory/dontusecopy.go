package directory

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/op"
)

func takeDontUseCopy(o *operation, _ *op.Message, c *op.Control) error {
	o.controls.original = true
	return noValue("don't use copy", c)
}

// original waits, if the request wants no copy, until this server shows all that
// any server of the store had committed when the request came: the store is the
// original, what a server remembers of it is a copy for up to one poll.
func (o *operation) original(ctx context.Context) error {
	if !o.controls.original {
		return nil
	}
	return o.d.part.CatchUp(ctx)
}
