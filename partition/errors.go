package partition

import "github.com/seed-4dac0d86/ldapd/partition/internal/catalog"

// An Error is a failure of an operation that its caller caused, not the store. Its text
// says what to do, and contains no values.
type Error = catalog.Error

// NotEverywhere is the error of a change that is committed, and that not every server goes
// by yet.
type NotEverywhere = catalog.NotEverywhere

// A Problem is a kind of failure.
type Problem = catalog.Problem

// The problems.
const (
	NoSuchEntry       = catalog.NoSuchEntry
	EntryExists       = catalog.EntryExists
	NotLeaf           = catalog.NotLeaf
	InvalidName       = catalog.InvalidName
	NamingViolation   = catalog.NamingViolation   // a name that schema or naming contexts forbid
	NotOnRDN          = catalog.NotOnRDN          // a value of the RDN cannot be removed
	ClassViolation    = catalog.ClassViolation    // of MUST or MAY, or no structural class
	ClassModification = catalog.ClassModification // the structural class cannot change
	UndefinedType     = catalog.UndefinedType
	InvalidSyntax     = catalog.InvalidSyntax
	NoMatching        = catalog.NoMatching // the type does not have the matching rule
	Constraint        = catalog.Constraint // several values, or no user modification
	NoSuchAttribute   = catalog.NoSuchAttribute
	ValueExists       = catalog.ValueExists
	BadOperand        = catalog.BadOperand // values that the kind of modification does not take
	TooLarge          = catalog.TooLarge
	TooMany           = catalog.TooMany    // too many entries to examine
	BelowAlias        = catalog.BelowAlias // an alias cannot have entries below it
	Unwilling         = catalog.Unwilling
	Busy              = catalog.Busy // other changes are under way: try again
)

var (
	// ErrNoDirectory: a store has no directory yet.
	ErrNoDirectory = catalog.ErrNoDirectory
	// ErrNormalizer: the keys of a store were made by another version of the normal
	// forms.
	ErrNormalizer = catalog.ErrNormalizer
)
