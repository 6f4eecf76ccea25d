package partition

import (
	"errors"

	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/internal/search"
	"github.com/seed-4dac0d86/ldapd/partition/internal/state"
	"github.com/seed-4dac0d86/ldapd/partition/internal/write"
)

type (
	// Config is what all servers of a directory share. It is kept in the store.
	Config = catalog.Config

	// An AccessRule is the text of an access rule, and the entry at which it applies.
	AccessRule = catalog.AccessRule
	// Access are the access rules of a state.
	Access = catalog.Access

	// By identifies who changes the directory, for creatorsName and the journal.
	By = write.By
	// Rules are what a change may do beyond the rights of users.
	Rules = write.Rules

	// Located is an entry found by its name.
	Located = state.Located

	// A Query is a search.
	Query = search.Query
	// A Result is an entry that a search found.
	Result = search.Result
	// Cost is the work that a search took.
	Cost = search.Cost
	// A SortKey is one key of an order.
	SortKey = search.SortKey
)

// Is reports whether an error is an [Error] with problem p.
func Is(err error, p Problem) bool {
	var e *Error
	return errors.As(err, &e) && e.Problem == p
}
