package request

import (
	"context"
	"errors"

	"github.com/seed-4dac0d86/ldapd/directory/access"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/history"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// State returns the state that the request reads: the newest state, the newest state of a
// branch, or the state of the past that a control names.
func (req *Request) State(ctx context.Context) (*partition.Snapshot, error) {
	if req.Branch != nil {
		s, err := req.Branch.Snapshot(ctx)
		if err != nil {
			return nil, err
		}
		return req.Read(s), nil
	}
	if req.Controls.At == nil {
		return req.Newest(ctx)
	}
	if err := req.Judge.MayReadPast(); err != nil {
		return nil, err
	}
	s, err := state.AtPoint(ctx, req.Server.Part, *req.Controls.At)
	if err != nil {
		return nil, noState(*req.Controls.At, err)
	}
	return req.Resume(ctx, s)
}

// Moment returns the state at a moment that a request names, at one revision even if it is now. The
// caller must close it.
func (req *Request) Moment(ctx context.Context, text string) (*partition.Snapshot, error) {
	m, err := state.ParsePointInTime(text)
	if err != nil {
		return nil, op.Errorf(op.ProtocolError, "%v", err)
	}
	s, err := history.State(ctx, req.Server.Part, m)
	if err != nil {
		return nil, noState(m, err)
	}
	return s, nil
}

// Resume sets the request to read the state s, and returns s. The state s is a past state,
// or the state that earlier requests of the same search have read. If Resume returns an
// error, it has closed s.
func (req *Request) Resume(ctx context.Context, s *partition.Snapshot) (*partition.Snapshot, error) {
	req.Read(s)
	if err := req.judgeResumed(ctx, s); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (req *Request) judgeResumed(ctx context.Context, s *partition.Snapshot) error {
	if req.Judge.Unrestricted() {
		return nil
	}
	if req.IsPast() {
		return req.judgePast(ctx, s)
	}
	now := state.Newest(req.Server.Part) // the state of the request's access rules may be older than s
	defer now.Close()
	return req.Judged(ctx, now)
}

// judgePast makes the Judge decide about a past state. The decisions depend on the access
// rules now in force.
func (req *Request) judgePast(ctx context.Context, then *partition.Snapshot) error {
	now := state.Newest(req.Server.Part)
	req.held = append(req.held, now)
	if err := req.Judged(ctx, now); err != nil {
		return err
	}
	if err := req.Judge.MayReadPast(); err != nil {
		return err
	}
	err := req.readPast(ctx, then, now)
	if errors.Is(err, access.ErrPast) {
		return op.Errorf(op.UnwillingToPerform, "at %s: %v", req.Controls.At, err)
	}
	return err
}

func (req *Request) readPast(ctx context.Context, then, now *partition.Snapshot) error {
	p, err := req.Server.rules.Past(ctx, then, now, req.Judge.Program(), req.connection(req.Who))
	if err == nil {
		req.Judge.ReadPast(p, now)
	}
	return err
}

// InPast returns a copy of the request that reads the past state then. The access rules of
// the newest state, the parameter now, decide what the copy may read. Before the call, the
// request's Judge must already decide by these rules.
func (req *Request) InPast(ctx context.Context, then, now *partition.Snapshot) (*Request, error) {
	x := req.On(then)
	if x.Judge.Unrestricted() {
		return x, nil
	}
	err := x.readPast(ctx, then, now)
	if errors.Is(err, access.ErrPast) {
		return nil, op.Errorf(op.UnwillingToPerform, "at %s: %v", then.Revision(), err)
	}
	return x, err
}

// noState returns the error for a point in time whose state cannot be read.
func noState(m state.PointInTime, err error) error {
	for _, known := range []error{partition.ErrRevision, partition.ErrFuture, partition.ErrCheckpoint} {
		if errors.Is(err, known) && !errors.Is(err, table.ErrUnavailable) {
			return op.Errorf(op.UnwillingToPerform, "at %s: %v", m, err)
		}
	}
	return err
}

// IsPast reports whether a control names the state that the request reads. Secrets cannot
// be read in such a state, because secrets have no history.
func (req *Request) IsPast() bool { return req.Controls.At != nil }
