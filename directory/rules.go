package directory

import "github.com/seed-4dac0d86/ldapd/op"

// takePermissive reads a permissive modify control. See [MS-ADTS], section
// 3.1.1.3.4.1.8.
func takePermissive(o *operation, _ *op.Message, c *op.Control) error {
	o.controls.rules.Permissive = true
	return noValue("permissive modify", c)
}

// takeRelax reads a relax rules control; update refuses it to all but the
// administrator.
func takeRelax(o *operation, _ *op.Message, c *op.Control) error {
	o.controls.rules.Relaxed = true
	return noValue("relax rules", c)
}
