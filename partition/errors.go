package partition

import (
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// An Error reports that an operation was refused. A failure of the store is not an Error.
type Error = catalog.Error

// NotEverywhere is the error of a change that is committed but that perhaps not every server
// applies yet.
type NotEverywhere = catalog.NotEverywhere

// A Problem is the reason why an operation was refused.
type Problem = catalog.Problem

// The problems.
const (
	NoSuchEntry = catalog.NoSuchEntry
	EntryExists = catalog.EntryExists
	NotLeaf     = catalog.NotLeaf
	InvalidName = catalog.InvalidName
	// the schema or the naming contexts forbid the name
	NamingViolation   = catalog.NamingViolation
	NotOnRDN          = catalog.NotOnRDN          // a value of the RDN cannot be removed
	ClassViolation    = catalog.ClassViolation    // breaks MUST, MAY or class rules
	ClassModification = catalog.ClassModification // the structural class cannot change
	UndefinedType     = catalog.UndefinedType
	InvalidSyntax     = catalog.InvalidSyntax
	NoMatching        = catalog.NoMatching // the type does not have the matching rule
	Constraint        = catalog.Constraint // breaks a rule for values, such as SINGLE-VALUE or uniqueness
	NoSuchAttribute   = catalog.NoSuchAttribute
	ValueExists       = catalog.ValueExists
	BadOperand        = catalog.BadOperand // values that the modification does not allow
	TooLarge          = catalog.TooLarge
	TooMany           = catalog.TooMany    // too many entries to examine
	BelowAlias        = catalog.BelowAlias // an alias cannot have entries below it
	Unwilling         = catalog.Unwilling
	Busy              = catalog.Busy // other changes are in progress: try again
)

// ErrNoDirectory means that a store contains no directory yet.
var ErrNoDirectory = catalog.ErrNoDirectory

// ErrMoved means that a directory takes no updates, because it was copied to another store.
var ErrMoved = catalog.ErrMoved

// Errors of transactions and of states: see package txn.
var (
	ErrBranch     = txn.ErrBranch
	ErrBranches   = txn.ErrBranches
	ErrCheckpoint = txn.ErrCheckpoint
	ErrConflict   = txn.ErrConflict
	ErrForeign    = txn.ErrForeign
	ErrForgotten  = txn.ErrForgotten
	ErrFuture     = txn.ErrFuture
	ErrParked     = txn.ErrParked
	ErrReadOnly   = txn.ErrReadOnly
	ErrRevision   = txn.ErrRevision
	ErrUnknown    = txn.ErrUnknown
)

// A HorizonError means that a state is no longer readable.
type HorizonError = txn.HorizonError
