package directory

import "github.com/seed-4dac0d86/ldapd/schema"

// accountTypes are the attribute types that an account is judged by; nil ones
// are not in the schema.
type accountTypes struct {
	lockedTime, reset, start, end, lock, expiration, dsDisabled, dsEnd *schema.AttributeType
	all                                                                []*schema.AttributeType
}

func newAccountTypes(s *schema.Schema) (a accountTypes) {
	for name, t := range map[string]**schema.AttributeType{
		"pwdAccountLockedTime": &a.lockedTime, "pwdReset": &a.reset, "pwdStartTime": &a.start, "pwdEndTime": &a.end,
		"nsAccountLock": &a.lock, "passwordExpirationTime": &a.expiration,
		"ds-pwp-account-disabled": &a.dsDisabled, "ds-pwp-account-expiration-time": &a.dsEnd,
	} {
		if *t = s.Attribute(name); *t != nil {
			a.all = append(a.all, *t)
		}
	}
	return a
}
