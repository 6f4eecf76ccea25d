package directory

import "github.com/seed-4dac0d86/ldapd/op"

// Controls that change the rules that an update is judged by.
const (
	permissiveModify = "1.2.840.113556.1.4.1413"   // Active Directory's
	relaxRules       = "1.3.6.1.4.1.4203.666.5.12" // draft-zeilenga-ldap-relax
)

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
