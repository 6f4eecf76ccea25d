package request

import (
	"context"
	"errors"

	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/branch"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

var problemCodes = map[partition.Problem]op.Code{
	partition.NoSuchEntry:       op.NoSuchObject,
	partition.EntryExists:       op.EntryAlreadyExists,
	partition.NotLeaf:           op.NotAllowedOnNonLeaf,
	partition.InvalidName:       op.InvalidDNSyntax,
	partition.NamingViolation:   op.NamingViolation,
	partition.NotOnRDN:          op.NotAllowedOnRDN,
	partition.ClassViolation:    op.ObjectClassViolation,
	partition.ClassModification: op.ObjectClassModsProhibited,
	partition.UndefinedType:     op.UndefinedAttributeType,
	partition.InvalidSyntax:     op.InvalidAttributeSyntax,
	partition.NoMatching:        op.InappropriateMatching,
	partition.Constraint:        op.ConstraintViolation,
	partition.NoSuchAttribute:   op.NoSuchAttribute,
	partition.ValueExists:       op.AttributeOrValueExists,
	partition.BadOperand:        op.ProtocolError,
	partition.TooLarge:          op.AdminLimitExceeded,
	partition.TooMany:           op.AdminLimitExceeded,
	partition.Unwilling:         op.UnwillingToPerform,
	partition.BelowAlias:        op.AliasProblem,
	partition.Busy:              op.Busy,
}

// sentinels maps errors of the layers below to results. If several elements match an error,
// the first of them determines the result.
var sentinels = []struct {
	err  error
	code op.Code
	text string
}{
	{table.ErrPending, op.Unavailable, "the disk is full: the change is made when there is space, or not at all: read to learn whether it stands"},
	{partition.ErrUnknown, op.Other, "the store failed while committing: read to learn whether the change stands"},
	{partition.ErrConflict, op.Busy, "other writers were faster too often: try again"},
	{partition.ErrMoved, op.Unavailable, "the directory is moving to another store: try again"},
	{partition.ErrReadOnly, op.UnwillingToPerform, "this server takes no changes"},
	{partition.ErrBranch, op.NoSuchObject, "the branch was merged or discarded"},
	{partition.ErrParked, op.UnwillingToPerform, "the branch is parked: rebase or discard it"},
	{partition.ErrBranches, op.UnwillingToPerform, "this must wait until all branches are merged or discarded"},
	{partition.ErrRevision, op.UnwillingToPerform, "the state that was asked for is no longer kept, or not known here yet"},
	{table.ErrTooLarge, op.AdminLimitExceeded, "a value is larger than the store takes"},
	{table.ErrBusy, op.Busy, "the store has too much to do now: try again later"},
	{table.ErrUnavailable, op.Unavailable, "the store is not available now"},
	{table.ErrClosed, op.Unavailable, "the server is stopping"},
	{auth.ErrLong, op.ConstraintViolation, "a password has at most 4096 octets"},
	{auth.ErrBusy, op.Busy, "too many passwords that came from here wait to be verified: try again"},
}

// ToResult maps any error of an operation to the result for the client. The parameter ctx is
// the context of the operation, which the client may cancel. If ctx has not ended, an error
// such as context.Canceled comes from another context, and means a fault of the server.
func (d *Server) ToResult(ctx context.Context, err error) op.Result {
	var result *op.Result
	if errors.As(err, &result) {
		return *result
	}
	var behind *partition.NotEverywhere
	if errors.As(err, &behind) {
		return op.Result{Code: op.Other, Diagnostic: behind.Error()}
	}
	var problem *partition.Error
	if errors.As(err, &problem) {
		if code, ok := problemCodes[problem.Problem]; ok {
			return op.Result{Code: code, MatchedDN: problem.Matched, Diagnostic: problem.Text}
		}
	}
	var conflict *branch.ConflictError
	if errors.As(err, &conflict) {
		return op.Result{Code: op.AssertionFailed, Diagnostic: conflict.Error()}
	}
	if errors.Is(err, partition.ErrReadOnly) {
		if urls := d.Settings().Primary; len(urls) > 0 {
			return op.Result{Code: op.Referral, Diagnostic: "this server takes no changes", Referrals: urls}
		}
	}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			return op.Result{Code: s.code, Diagnostic: s.text}
		}
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return op.Result{Code: op.Canceled, Diagnostic: "the operation was canceled"}
	}
	d.Log.Error("operation failed", "error", err)
	return op.Result{Code: op.Other, Diagnostic: "internal error: see the server's log"}
}

// Result is ToResult with a pointer as its result.
func (d *Server) Result(ctx context.Context, err error) *op.Result {
	r := d.ToResult(ctx, err)
	return &r
}

// IsMissing reports whether err means that a name leads to no entry.
func IsMissing(err error) bool { return partition.Is(err, partition.NoSuchEntry) }
