// Package delivery sends the results of any kind of search, in pages if the client wants
// pages, and up to the size limit. It interprets the controls that concern the results as a
// whole.
package delivery

import (
	"context"
	"errors"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/internal/render"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/settings"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// An Output sends the results of a search. It ends at the end of the page or at the size
// limit.
type Output struct {
	View  render.Presenter
	sink  op.Sink
	Page  *Page // nil: all at once
	quota Quota
}

// Open begins the output of a search.
func (out *Output) Open(req *request.Request, r *op.Search, p *Page, sink op.Sink) {
	out.View.Open(req, r.Attributes, r.TypesOnly)
	out.sink, out.Page = sink, p
	out.quota = NewQuota(req, r)
	if p != nil {
		out.quota.Sent = p.sent
	}
}

// Release drops all references, but keeps the buffers.
func (out *Output) Release() {
	out.View.Release()
	out.sink, out.Page, out.quota = nil, nil, Quota{}
}

// Admit counts an entry or a reference before it is sent. It sets skip if an earlier page
// contained the result, and returns errPageFull if the result belongs to the next page.
func (out *Output) Admit(isEntry bool) (skip bool, err error) {
	if isEntry {
		if err := out.quota.Check(); err != nil {
			return false, err
		}
	}
	if out.Page == nil {
		return false, nil
	}
	return out.Page.countResult()
}

// Entry sends an entry as the view shows it.
func (out *Output) Entry(ctx context.Context, found *partition.Result, controls ...op.Control) error {
	e, err := out.View.Entry(ctx, found, controls)
	if err != nil {
		return err
	}
	return out.send(e)
}

// Unstored sends an entry that is not stored.
func (out *Output) Unstored(name *dn.Name, e *entry.Entry) error {
	return out.send(out.View.Unstored(name, e))
}

func (out *Output) send(e *op.SearchEntry) error {
	out.quota.Sent++
	out.View.Req.Seen.Entries++
	return out.sink.Entry(e)
}

// Reference sends a search result reference.
func (out *Output) Reference(urls []string, controls ...op.Control) error {
	out.View.Req.Seen.References++
	return out.sink.Reference(urls, controls)
}

// Finish ends the page, if the search has pages. The parameter err is the error with
// which the search ended. Finish returns the error for the client, or nil.
func (out *Output) Finish(err error) error {
	if out.Page == nil {
		return err
	}
	full := errors.Is(err, errPageFull)
	req := out.View.Req
	PagedResponse(req, out.Page.close(req.Snapshot.Revision(), out.quota.Sent, full))
	if full {
		return nil
	}
	return err
}

// A Quota enforces the size limit of a search.
type Quota struct {
	limit int // entries; 0: no limit
	Sent  int
}

// NewQuota returns the Quota of a search, with the smaller of the client's and the
// server's limit.
func NewQuota(req *request.Request, r *op.Search) Quota {
	return Quota{limit: settings.Smaller(r.SizeLimit, req.Limits.Size)}
}

// Check returns an error if the limit allows no further entry.
func (q *Quota) Check() error {
	if q.limit > 0 && q.Sent >= q.limit {
		return op.Errorf(op.SizeLimitExceeded, "more than %d entries", q.limit)
	}
	return nil
}

// LimitTime bounds a search by the smaller of the client's and the server's limits. A base
// search that dereferences nothing is one read and needs no timer. When the time is over, the returned context ends.
// Its cause is the error that the search returns then.
func LimitTime(ctx context.Context, req *request.Request, r *op.Search) (context.Context, context.CancelFunc) {
	limit := settings.Smaller(time.Duration(r.TimeLimit)*time.Second, req.Limits.Time)
	if limit == 0 || r.Scope == op.BaseObject && req.Controls.Dereference == nil {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, limit, errTimeLimit)
}

var errTimeLimit = op.Errorf(op.TimeLimitExceeded, "the search takes longer than its time limit")
