package op

import "strconv"

// Name returns the name of the code in the RFC or draft that defines it, without the prefix
// "e-" of RFC 4533. It returns the number of an unknown code.
func (c Code) Name() string {
	if n := codeNames[c]; n != "" {
		return n
	}
	return strconv.Itoa(int(c))
}

var codeNames = map[Code]string{
	Success:                      "success",
	OperationsError:              "operationsError",
	ProtocolError:                "protocolError",
	TimeLimitExceeded:            "timeLimitExceeded",
	SizeLimitExceeded:            "sizeLimitExceeded",
	CompareFalse:                 "compareFalse",
	CompareTrue:                  "compareTrue",
	AuthMethodNotSupported:       "authMethodNotSupported",
	StrongerAuthRequired:         "strongerAuthRequired",
	Referral:                     "referral",
	AdminLimitExceeded:           "adminLimitExceeded",
	UnavailableCriticalExtension: "unavailableCriticalExtension",
	ConfidentialityRequired:      "confidentialityRequired",
	SASLBindInProgress:           "saslBindInProgress",
	NoSuchAttribute:              "noSuchAttribute",
	UndefinedAttributeType:       "undefinedAttributeType",
	InappropriateMatching:        "inappropriateMatching",
	ConstraintViolation:          "constraintViolation",
	AttributeOrValueExists:       "attributeOrValueExists",
	InvalidAttributeSyntax:       "invalidAttributeSyntax",
	NoSuchObject:                 "noSuchObject",
	AliasProblem:                 "aliasProblem",
	InvalidDNSyntax:              "invalidDNSyntax",
	AliasDereferencingProblem:    "aliasDereferencingProblem",
	InappropriateAuthentication:  "inappropriateAuthentication",
	InvalidCredentials:           "invalidCredentials",
	InsufficientAccessRights:     "insufficientAccessRights",
	Busy:                         "busy",
	Unavailable:                  "unavailable",
	UnwillingToPerform:           "unwillingToPerform",
	LoopDetect:                   "loopDetect",
	NamingViolation:              "namingViolation",
	ObjectClassViolation:         "objectClassViolation",
	NotAllowedOnNonLeaf:          "notAllowedOnNonLeaf",
	NotAllowedOnRDN:              "notAllowedOnRDN",
	EntryAlreadyExists:           "entryAlreadyExists",
	ObjectClassModsProhibited:    "objectClassModsProhibited",
	AffectsMultipleDSAs:          "affectsMultipleDSAs",
	VirtualListViewError:         "virtualListViewError",
	Other:                        "other",
	Canceled:                     "canceled",
	NoSuchOperation:              "noSuchOperation",
	TooLate:                      "tooLate",
	CannotCancel:                 "cannotCancel",
	AssertionFailed:              "assertionFailed",
	AuthorizationDenied:          "authorizationDenied",
	SyncRefreshRequired:          "syncRefreshRequired",
	NoOperation:                  "noOperation",
}
