package known

import "github.com/seed-4dac0d86/ldapd/schema"

// AccountTypes are the attribute types that an account is judged by; nil ones
// are not in the schema.
type AccountTypes struct {
	LockedTime, Reset, Start, End, Lock, Expiration, DsDisabled, DsEnd *schema.AttributeType
	Changed, Policy                                                    *schema.AttributeType
	TOTPToken                                                          *schema.AttributeType
	// All are those of these that lie in the entry.
	All []*schema.AttributeType

	// History lies with the secrets.
	History *schema.AttributeType
	// These say how the account is used, and lie with the secrets too.
	Failure, GraceUse, ResetUse, Success, UsedStep *schema.AttributeType
	// Hot are those that a new password makes wrong.
	Hot []*schema.AttributeType
	// LockoutEnd is computed.
	LockoutEnd *schema.AttributeType
}

func newAccountTypes(s *schema.Schema) (a AccountTypes) {
	for name, t := range map[string]**schema.AttributeType{
		"pwdAccountLockedTime": &a.LockedTime, "pwdReset": &a.Reset, "pwdStartTime": &a.Start, "pwdEndTime": &a.End,
		"nsAccountLock": &a.Lock, "passwordExpirationTime": &a.Expiration,
		"ds-pwp-account-disabled": &a.DsDisabled, "ds-pwp-account-expiration-time": &a.DsEnd,
		"pwdChangedTime": &a.Changed, "pwdPolicySubentry": &a.Policy, "oathTOTPToken": &a.TOTPToken,
	} {
		if *t = s.Attribute(name); *t != nil {
			a.All = append(a.All, *t)
		}
	}
	for name, t := range map[string]**schema.AttributeType{
		"pwdFailureTime": &a.Failure, "pwdGraceUseTime": &a.GraceUse, "pwdResetUseTime": &a.ResetUse,
		"pwdLastSuccess": &a.Success, "oathTOTPUsedTimeStep": &a.UsedStep,
	} {
		// One that somebody else defined may lie elsewhere.
		if *t = s.Attribute(name); *t != nil && !(*t).Secret() {
			*t = nil
		}
	}
	for _, t := range []*schema.AttributeType{a.Failure, a.GraceUse, a.ResetUse} {
		if t != nil {
			a.Hot = append(a.Hot, t)
		}
	}
	a.History, a.LockoutEnd = s.Attribute("pwdHistory"), s.Attribute("pwdAccountTmpLockoutEnd")
	return a
}
