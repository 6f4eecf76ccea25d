package catalog

import "fmt"

// Problem is a kind of failure that its caller, not the store, is to blame for.
type Problem uint8

const (
	NoSuchEntry Problem = iota + 1
	EntryExists
	NotLeaf
	InvalidName
	NamingViolation   // a name that the schema or the naming contexts forbid
	NotOnRDN          // a value of the RDN cannot go
	ClassViolation    // MUST, MAY, no structural class
	ClassModification // the structural class cannot change
	UndefinedType
	InvalidSyntax
	NoMatching // the type has no such matching rule
	Constraint // single value, no user modification
	NoSuchAttribute
	ValueExists
	BadOperand // values that a kind of modification cannot go with
	TooLarge
	TooMany    // entries to look at
	BelowAlias // aliases have nothing below them
	Unwilling
	Busy // other changes are under way: try again
)

// Error is a failure of an operation on the tree. The text says what to do and
// tells no values.
type Error struct {
	Problem Problem
	Matched string // NoSuchEntry: the deepest existing ancestor's name
	Text    string
}

func (e *Error) Error() string { return e.Text }

func Errorf(p Problem, format string, args ...any) *Error {
	return &Error{Problem: p, Text: fmt.Sprintf(format, args...)}
}
