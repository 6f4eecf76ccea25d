package directory

import (
	"context"
	"errors"
	"time"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// An output sends what a search finds: as much as the page takes, up to the size limit.
type output struct {
	view  view
	sink  op.Sink
	page  *page // nil: all at once
	quota quota
}

// open begins the output of a search.
func (out *output) open(o *operation, r *op.Search, p *page, sink op.Sink) {
	out.view.open(o, r.Attributes, r.TypesOnly)
	out.sink, out.page = sink, p
	out.quota = newQuota(o, r)
	if p != nil {
		out.quota.sent = p.sent
	}
}

// release lets go of all but the buffers.
func (out *output) release() {
	out.view.release()
	*out = output{view: out.view}
}

// admit counts a result, an entry or a reference, before it is sent. Skip says that an
// earlier page had it; errPageFull that it is for the next one.
func (out *output) admit(isEntry bool) (skip bool, err error) {
	if isEntry {
		if err := out.quota.check(); err != nil {
			return false, err
		}
	}
	if out.page == nil {
		return false, nil
	}
	return out.page.turn()
}

// entry sends an entry as the view shows it.
func (out *output) entry(ctx context.Context, found *partition.Result, controls ...op.Control) error {
	e, err := out.view.entry(ctx, found, controls)
	if err != nil {
		return err
	}
	return out.send(e)
}

// unstored sends an entry that no store has.
func (out *output) unstored(name string, e *entry.Entry) error {
	return out.send(out.view.unstored(name, e))
}

func (out *output) send(e *op.SearchEntry) error {
	out.quota.sent++
	out.view.o.trace.entries++
	return out.sink.Entry(e)
}

// reference sends a search result reference.
func (out *output) reference(urls []string, controls ...op.Control) error {
	out.view.o.trace.references++
	return out.sink.Reference(urls, controls)
}

// finish ends the page, if there is one, of a search that ended with an error. It
// returns the error, if it is one for the client.
func (out *output) finish(err error) error {
	if out.page == nil {
		return err
	}
	full := errors.Is(err, errPageFull)
	o := out.view.o
	pagedResponse(o, out.page.close(o.s.Revision(), out.quota.sent, full))
	if full {
		return nil
	}
	return err
}

// A quota ends a search at its size limit. Nothing else does.
type quota struct {
	limit int // entries; 0: none
	sent  int
}

// newQuota returns that of a search: the smaller of the client's and the server's limit.
func newQuota(o *operation, r *op.Search) quota {
	return quota{limit: smaller(r.SizeLimit, o.limits.Size)}
}

// check refuses one more than the limit.
func (q *quota) check() error {
	if q.limit > 0 && q.sent >= q.limit {
		return op.Errorf(op.SizeLimitExceeded, "more than %d entries", q.limit)
	}
	return nil
}

// limitTime bounds a search by the smaller of the client's and the server's
// limits. A base search is one read and needs no timer.
func limitTime(ctx context.Context, o *operation, r *op.Search) (context.Context, context.CancelFunc) {
	limit := smaller(time.Duration(r.TimeLimit)*time.Second, o.limits.Time)
	if limit == 0 || r.Scope == op.BaseObject {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, limit)
}
