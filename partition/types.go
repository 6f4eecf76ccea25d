package partition

import (
	"errors"

	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
)

type (
	// A Partition is an open directory tree.
	Partition = catalog.Partition
	// A Snapshot reads one state of the directory.
	Snapshot = state.Snapshot
	// A Tx changes the directory.
	Tx = write.Tx

	// Config is the configuration that all servers of a directory share. It is stored in
	// the directory's store.
	Config = catalog.Config

	// An AccessRule is the text of an access rule and the entry to which it applies.
	AccessRule = catalog.AccessRule
	// Access is the list of access rules of a state.
	Access = catalog.Access

	// By identifies the author of a change: for creatorsName and modifiersName, and for the
	// journal.
	By = write.By
	// Rules specify what a change may do that RFC 4511 and RFC 4512 do not allow.
	Rules = write.Rules

	// Located identifies an entry that was found.
	Located = state.Located

	// A Query is a search.
	Query = search.Query
	// A Result is an entry that a search found.
	Result = search.Result
	// Cost is the work that a search has done.
	Cost = search.Cost
	// A SortKey is one key of an order.
	SortKey = search.SortKey
)

// Is reports whether an error is an [Error] with problem p.
func Is(err error, p Problem) bool {
	var e *Error
	return errors.As(err, &e) && e.Problem == p
}
