package partition

import "github.com/seed-4dac0d86/ldapd/partition/internal/catalog"

// Error is a failure of an operation on the tree, which its caller, not the store, is to
// blame for. Its text says what to do, and no values.
type Error = catalog.Error

// Problem is a kind of failure.
type Problem = catalog.Problem

// The problems.
const (
	NoSuchEntry       = catalog.NoSuchEntry
	EntryExists       = catalog.EntryExists
	NotLeaf           = catalog.NotLeaf
	InvalidName       = catalog.InvalidName
	NamingViolation   = catalog.NamingViolation   // a name that the schema or the naming contexts forbid
	NotOnRDN          = catalog.NotOnRDN          // a value of the RDN cannot go
	ClassViolation    = catalog.ClassViolation    // MUST, MAY, no structural class
	ClassModification = catalog.ClassModification // the structural class cannot change
	UndefinedType     = catalog.UndefinedType
	InvalidSyntax     = catalog.InvalidSyntax
	NoMatching        = catalog.NoMatching // the type has no such matching rule
	Constraint        = catalog.Constraint // single value, no user modification
	NoSuchAttribute   = catalog.NoSuchAttribute
	ValueExists       = catalog.ValueExists
	BadOperand        = catalog.BadOperand // values that a kind of modification cannot go with
	TooLarge          = catalog.TooLarge
	TooMany           = catalog.TooMany    // entries to look at
	BelowAlias        = catalog.BelowAlias // aliases have nothing below them
	Unwilling         = catalog.Unwilling
	Busy              = catalog.Busy // other changes are under way: try again
)

var (
	// ErrNoDirectory says that a store holds no directory yet.
	ErrNoDirectory = catalog.ErrNoDirectory
	// ErrNormalizer says that the keys of a store were made by another version of the
	// normal forms.
	ErrNormalizer = catalog.ErrNormalizer
)
