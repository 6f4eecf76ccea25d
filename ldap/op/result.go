package op

import "fmt"

// Code is a resultCode (RFC 4511, appendix A; 118 to 121: RFC 3909; 122: RFC 4528; 123: RFC
// 4370; 76: draft-ietf-ldapext-ldapv3-vlv).
type Code int

const (
	Success                      Code = 0
	OperationsError              Code = 1
	ProtocolError                Code = 2
	TimeLimitExceeded            Code = 3
	SizeLimitExceeded            Code = 4
	CompareFalse                 Code = 5
	CompareTrue                  Code = 6
	AuthMethodNotSupported       Code = 7
	StrongerAuthRequired         Code = 8
	Referral                     Code = 10
	AdminLimitExceeded           Code = 11
	UnavailableCriticalExtension Code = 12
	ConfidentialityRequired      Code = 13
	SASLBindInProgress           Code = 14
	NoSuchAttribute              Code = 16
	UndefinedAttributeType       Code = 17
	InappropriateMatching        Code = 18
	ConstraintViolation          Code = 19
	AttributeOrValueExists       Code = 20
	InvalidAttributeSyntax       Code = 21
	NoSuchObject                 Code = 32
	AliasProblem                 Code = 33
	InvalidDNSyntax              Code = 34
	AliasDereferencingProblem    Code = 36
	InappropriateAuthentication  Code = 48
	InvalidCredentials           Code = 49
	InsufficientAccessRights     Code = 50
	Busy                         Code = 51
	Unavailable                  Code = 52
	UnwillingToPerform           Code = 53
	LoopDetect                   Code = 54
	NamingViolation              Code = 64
	ObjectClassViolation         Code = 65
	NotAllowedOnNonLeaf          Code = 66
	NotAllowedOnRDN              Code = 67
	EntryAlreadyExists           Code = 68
	ObjectClassModsProhibited    Code = 69
	AffectsMultipleDSAs          Code = 71
	VirtualListViewError         Code = 76
	Other                        Code = 80
	Canceled                     Code = 118
	NoSuchOperation              Code = 119
	TooLate                      Code = 120
	CannotCancel                 Code = 121
	AssertionFailed              Code = 122
	AuthorizationDenied          Code = 123
	SyncRefreshRequired          Code = 4096   // RFC 4533
	NoOperation                  Code = 0x410e // draft-zeilenga-ldap-noop; OpenLDAP's number
)

// A Result is an LDAPResult. It is also an error, so that lower layers can return a
// *Result as their error.
type Result struct {
	Code       Code
	MatchedDN  string
	Diagnostic string
	Referrals  []string
}

func (r *Result) Error() string { return fmt.Sprintf("LDAP result %d: %s", r.Code, r.Diagnostic) }

// Errorf returns a Result with a diagnostic message.
func Errorf(c Code, format string, args ...any) *Result {
	return &Result{Code: c, Diagnostic: fmt.Sprintf(format, args...)}
}
