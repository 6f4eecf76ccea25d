package wellknown

import (
	"slices"

	"github.com/seed-4dac0d86/ldapd/schema"
)

// AccountTypes are the attribute types that describe an account. A type that the schema
// lacks is nil.
type AccountTypes struct {
	LockedTime, Reset, Start, End, Lock, Expiration, DsDisabled, DsEnd *schema.AttributeType
	Changed, Policy                                                    *schema.AttributeType
	TOTPToken                                                          *schema.AttributeType
	// All contains the types of the fields above, except those that the schema lacks.
	// The values of these types are stored in the entry.
	All []*schema.AttributeType

	// History is stored with the secrets.
	History *schema.AttributeType
	// Failure, GraceUse, ResetUse, Success and UsedStep record how the account is used.
	// Their values are stored with the secrets, as the values of History are.
	Failure, GraceUse, ResetUse, Success, UsedStep *schema.AttributeType
	// Hot contains the types whose values are deleted when the password is changed, if the
	// directory has a password policy.
	Hot []*schema.AttributeType
	// LockoutEnd is computed.
	LockoutEnd *schema.AttributeType
	// Uses contains Failure, GraceUse, ResetUse, Success and UsedStep. Shown contains these types, and
	// the types whose values may be computed: LockedTime, LockoutEnd and Policy.
	Uses, Shown []*schema.AttributeType
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
		// The server's own definitions make these types secrets. A type that is not
		// a secret has another definition. The server does not use such a type,
		// because the values would not be stored with the secrets.
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
	for _, t := range []*schema.AttributeType{a.Failure, a.GraceUse, a.ResetUse, a.Success, a.UsedStep} {
		if t != nil {
			a.Uses = append(a.Uses, t)
		}
	}
	a.Shown = slices.Clip(a.Uses)
	for _, t := range []*schema.AttributeType{a.LockedTime, a.LockoutEnd, a.Policy} {
		if t != nil {
			a.Shown = append(a.Shown, t)
		}
	}
	return a
}
