package known

import "github.com/seed-4dac0d86/ldapd/schema"

// AccountTypes are the attribute types that an account is judged by; nil ones
// are not in the schema.
type AccountTypes struct {
	LockedTime, Reset, Start, End, Lock, Expiration, DsDisabled, DsEnd *schema.AttributeType
	All                                                                []*schema.AttributeType
}

func newAccountTypes(s *schema.Schema) (a AccountTypes) {
	for name, t := range map[string]**schema.AttributeType{
		"pwdAccountLockedTime": &a.LockedTime, "pwdReset": &a.Reset, "pwdStartTime": &a.Start, "pwdEndTime": &a.End,
		"nsAccountLock": &a.Lock, "passwordExpirationTime": &a.Expiration,
		"ds-pwp-account-disabled": &a.DsDisabled, "ds-pwp-account-expiration-time": &a.DsEnd,
	} {
		if *t = s.Attribute(name); *t != nil {
			a.All = append(a.All, *t)
		}
	}
	return a
}
