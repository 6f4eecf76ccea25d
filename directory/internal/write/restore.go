package write

import (
	"bufio"
	"context"
	"errors"

	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/history"
	"github.com/seed-4dac0d86/ldapd/store/revision"
)

// Restore runs the extended operation restore, as `ldapd restore` does. Whoever manages the whole
// directory may make a dry run. Only the administrator may restore, because passwords come back.
func Restore(ctx context.Context, req *request.Request, value []byte, sink op.Sink) error {
	x, err := control.ParseRestore(value)
	if err != nil {
		return op.Errorf(op.ProtocolError, "restore: %v", err)
	}
	if !x.DryRun && !req.Who.IsAdmin() {
		return op.Errorf(op.InsufficientAccessRights, "restore: only the administrator may restore; who manages the whole directory may ask for a dry run")
	}
	if err := mayCompare(req, "restore"); err != nil {
		return err
	}
	o := history.RestoreOptions{Subtree: x.Subtree, DryRun: x.DryRun, By: by(req)}
	run := restore
	if x.Undo {
		run = undo
	}
	done, err := run(ctx, req, &x, o)
	if err != nil {
		return err
	}
	result := control.Restored{Changes: len(done.Records), Kept: done.Kept, Erased: done.Erased, Lost: done.Lost, Unnamed: done.Unnamed}
	if done.Revision != 0 {
		result.Revision = done.Revision.String()
		req.Seen.Committed = done.Revision
	}
	req.Response.Value = result.Encode()
	w := ldifOutput(control.OIDRestore, sink)
	return errors.Join(history.WriteLDIF(w, done.Records), w.Flush())
}

func restore(ctx context.Context, req *request.Request, x *control.Restore, o history.RestoreOptions) (done *history.Restored, err error) {
	if o.Name, err = dn.Parse(x.Name); err != nil {
		return nil, op.Errorf(op.InvalidDNSyntax, "restore: %v", err)
	}
	then, err := req.Moment(ctx, x.Moment)
	if err != nil {
		return nil, err
	}
	defer then.Close()
	done, err = history.Restore(ctx, req.Server.Part, then, o)
	return done, restoreError(err)
}

func undo(ctx context.Context, req *request.Request, x *control.Restore, o history.RestoreOptions) (*history.Restored, error) {
	commit, err := revision.Parse(x.Moment)
	if err != nil || x.Name != "" || x.Subtree {
		return nil, op.Errorf(op.ProtocolError, "restore: to undo a commit, give its revision as the moment, no name and no subtree")
	}
	done, err := history.Undo(ctx, req.Server.Part, commit, o)
	return done, restoreError(err)
}

// restoreError returns the result for an error of history.Restore or history.Undo.
func restoreError(err error) error {
	for _, known := range []struct {
		err  error
		code op.Code
	}{
		{history.ErrNone, op.NoSuchObject},
		{history.ErrParent, op.NoSuchObject},
		{history.ErrTaken, op.EntryAlreadyExists},
		{history.ErrMany, op.AdminLimitExceeded},
		{history.ErrNoCommit, op.UnwillingToPerform},
		{history.ErrChanged, op.AssertionFailed},
	} {
		if errors.Is(err, known.err) {
			return op.Errorf(known.code, "restore: %v", err)
		}
	}
	return err
}

// Diff runs the extended operation diff, as `ldapd diff` does.
func Diff(ctx context.Context, req *request.Request, value []byte, sink op.Sink) error {
	x, err := control.ParseDiff(value)
	if err != nil {
		return op.Errorf(op.ProtocolError, "diff: %v", err)
	}
	if err := mayCompare(req, "diff"); err != nil {
		return err
	}
	base, err := dn.Parse(x.Base)
	if err != nil {
		return op.Errorf(op.InvalidDNSyntax, "diff: %v", err)
	}
	from, err := req.Moment(ctx, x.From)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := req.Moment(ctx, x.To)
	if err != nil {
		return err
	}
	defer to.Close()
	w := ldifOutput(control.OIDDiff, sink)
	n, err := history.Diff(ctx, from, to, base, w)
	if err != nil {
		return err
	}
	req.Response.Value = control.Differences{Changes: n}.Encode()
	return w.Flush()
}

// mayCompare returns an error if the requester may not see the differences of all entries between
// two states, or if the session works in a branch.
func mayCompare(req *request.Request, operation string) error {
	if !req.Judge.Everywhere().Manages() {
		return op.Errorf(op.InsufficientAccessRights, "%s: only who manages the whole directory may see all changes; cn=changelog has those that you may see", operation)
	}
	if req.Session.Branch.Load() != nil {
		return op.Errorf(op.UnwillingToPerform, "%s: it compares states of the directory itself, and this session works in a branch: use another session", operation)
	}
	return nil
}

// An intermediate sends what is written to it as values of intermediate responses.
type intermediate struct {
	oid  string
	sink op.Sink
}

func (i intermediate) Write(p []byte) (int, error) {
	return len(p), i.sink.Intermediate(i.oid, p, nil)
}

// ldifSize is the size of the value of an intermediate response, in octets, if more follow.
const ldifSize = 32 << 10

func ldifOutput(oid string, sink op.Sink) *bufio.Writer {
	return bufio.NewWriterSize(intermediate{oid, sink}, ldifSize)
}
