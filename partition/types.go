package partition

import (
	"errors"

	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/internal/search"
	"github.com/seed-4dac0d86/ldapd/partition/internal/state"
	"github.com/seed-4dac0d86/ldapd/partition/internal/write"
)

type (
	// Config is what all servers of a directory share; it lives in the store.
	Config = catalog.Config

	// AccessRule is the text of an access rule, and where it stands.
	AccessRule = catalog.AccessRule
	// Access are the access rules of a state.
	Access = catalog.Access

	// By is who changes the directory, for creatorsName and the journal.
	By = write.By
	// Rules are what a change may do besides what users may.
	Rules = write.Rules

	// Located is where a name was found.
	Located = state.Located

	// Query is what to search for.
	Query = search.Query
	// Result is an entry that a search found.
	Result = search.Result
	// Cost is what a search took.
	Cost = search.Cost
	// SortKey is one key of an order.
	SortKey = search.SortKey
)

// Is reports whether an error is an [Error] of a problem.
func Is(err error, p Problem) bool {
	var e *Error
	return errors.As(err, &e) && e.Problem == p
}
