package known

import "github.com/seed-4dac0d86/ldapd/schema"

// AccountTypes are the attribute types that describe an account. A type that the schema
// lacks is nil.
type AccountTypes struct {
	LockedTime, Reset, Start, End, Lock, Expiration, DsDisabled, DsEnd *schema.AttributeType
	Changed, Policy                                                    *schema.AttributeType
	TOTPToken                                                          *schema.AttributeType
	// All are the types of the fields above that the schema has. Their values are stored
	// in the entry.
	All []*schema.AttributeType

	// History is stored with the secrets.
	History *schema.AttributeType
	// Failure, GraceUse, ResetUse, Success and UsedStep record how the account is used.
	// They are stored with the secrets, as History is.
	Failure, GraceUse, ResetUse, Success, UsedStep *schema.AttributeType
	// Hot are the types whose values a new password deletes.
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
		// A type that is not a secret has a definition other than the server's. The server
		// does not use it, because its values would not be stored with the secrets.
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
