package directory

import (
	"errors"

	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// The extended operations of jobs are the administrator's. The entries below cn=Jobs,cn=monitor show
// the jobs.

func startJob(req *request.Request, value []byte) error {
	x, err := control.ParseStartJob(value)
	if err != nil {
		return op.Errorf(op.ProtocolError, "start job: %v", err)
	}
	set, err := mayJob(req, "start job")
	if err != nil {
		return err
	}
	n, err := set.StartJob(req.Who.DN(), x.Name, x.Arguments)
	if err != nil {
		return op.Errorf(op.UnwillingToPerform, "start job: %v", err)
	}
	req.Response.Value = control.JobNumber{Number: n}.Encode()
	return nil
}

func cancelJob(req *request.Request, value []byte) error {
	x, err := control.ParseJobNumber(value)
	if err != nil {
		return op.Errorf(op.ProtocolError, "cancel job: %v", err)
	}
	set, err := mayJob(req, "cancel job")
	if err != nil {
		return err
	}
	err = set.Metrics.Jobs.Cancel(x.Number)
	switch {
	case errors.Is(err, monitor.ErrNoJob):
		return op.Errorf(op.NoSuchOperation, "cancel job: there is no job %d on this server: see cn=Jobs,cn=monitor", x.Number)
	case err != nil:
		return op.Errorf(op.TooLate, "cancel job: job %d has ended", x.Number)
	}
	return nil
}

// mayJob returns the options if the requester may start and cancel jobs and the server does jobs.
func mayJob(req *request.Request, operation string) (*Options, error) {
	set := &req.Server.Settings().Options
	switch {
	case !req.Who.IsAdmin():
		return nil, op.Errorf(op.InsufficientAccessRights, "%s: only the administrator may", operation)
	case set.StartJob == nil || set.Metrics == nil:
		return nil, op.Errorf(op.UnwillingToPerform, "%s: this server does no jobs", operation)
	}
	return set, nil
}
