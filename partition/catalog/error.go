package catalog

import "fmt"

// A Problem is the reason why an operation was refused.
type Problem uint8

const (
	NoSuchEntry Problem = iota + 1
	EntryExists
	NotLeaf
	InvalidName
	NamingViolation   // the schema or the naming contexts forbid the name
	NotOnRDN          // a value of the RDN cannot be removed
	ClassViolation    // breaks MUST, MAY or class rules
	ClassModification // the structural class cannot change
	UndefinedType
	InvalidSyntax
	NoMatching // the type does not have the matching rule
	Constraint // breaks a rule for values, such as SINGLE-VALUE or uniqueness
	NoSuchAttribute
	ValueExists
	BadOperand // values that the modification does not allow
	TooLarge
	TooMany    // too many entries to examine
	BelowAlias // an alias cannot have entries below it
	Unwilling
	Busy // other changes are in progress: try again
)

// An Error reports that an operation was refused. A failure of the store is not an Error.
type Error struct {
	Problem Problem
	Matched string // for NoSuchEntry: the name of the deepest existing ancestor
	Text    string
}

func (e *Error) Error() string { return e.Text }

func Errorf(p Problem, format string, args ...any) *Error {
	return &Error{Problem: p, Text: fmt.Sprintf(format, args...)}
}

// NotEverywhere is the error of a change that is committed but that perhaps not every server
// applies yet.
type NotEverywhere struct{ Err error }

func (e *NotEverywhere) Error() string {
	return "the change is committed, but not every server is known to go by it: " + e.Err.Error()
}

func (e *NotEverywhere) Unwrap() error { return e.Err }
