package watch

import (
	"context"
	"errors"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/directory/internal/assertion"
	"github.com/seed-4dac0d86/ldapd/directory/internal/delivery"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/changestream"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/revision"
)

// A synchronizer runs a sync operation (RFC 4533). It sends the difference between two
// contents: the content of the state in the client's cookie, and the content of the newest
// state. The store usually still has the first state, and the journal lists the entries that
// can differ. If the store or the journal does not go back far enough, the refresh stage has
// a present phase. The persist stage repeats the comparison. A slow client thus receives
// fewer and larger differences, and the server stores nothing for the client.
type synchronizer struct {
	watch
	request  *control.SyncRequest
	cookie   cookie            // the cookie that the client sent
	frontier revision.Frontier // the frontier of the state that the client has

	quota      delivery.Quota // the quota of the refresh stage
	persisting bool           // the persist stage has begun
	gone       []entry.ID
}

// These constants limit the memory of a sync operation.
const (
	maxDifference = 1 << 16 // touched entries in one comparison
	maxIDs        = 256     // ids in one message
)

var errRefresh = &op.Result{Code: op.SyncRefreshRequired, Diagnostic: "the changes since the state of the cookie are not known: begin without the cookie, or with reloadHint"}

// synchronize runs a search with a sync request control.
func synchronize(ctx context.Context, req *request.Request, r *op.Search, sink op.Sink) error {
	if r.Deref == op.DerefInSearching || r.Deref == op.DerefAlways {
		return op.Errorf(op.ProtocolError, "content synchronization cannot dereference aliases while searching (RFC 4533, 3.5.2)")
	}
	y := &synchronizer{watch: watch{req: req, r: r, sink: sink}, request: req.Controls.Sync, cookie: parseCookie(req.Controls.Sync.Cookie), quota: delivery.NewQuota(req, r)}
	limited, cancel := delivery.LimitTime(ctx, req, r)
	deletes, err := y.refresh(limited)
	cancel()
	if err != nil {
		return err
	}
	if !y.request.Persist {
		req.Respond(control.OIDSyncDone, control.SyncDone{Cookie: y.newCookie(), Deletes: deletes}.Encode())
		return nil
	}
	if err := persist(req, sink); err != nil {
		return err
	}
	if err := y.inform(control.SyncRefreshed{Cookie: y.newCookie(), Deletes: deletes}.Encode()); err != nil {
		return err
	}
	y.persisting = true
	return y.persist(ctx)
}

// persist makes an operation persistent: it may last as long as its connection.
func persist(req *request.Request, sink op.Sink) error {
	req.Seen.Lasts = true
	if s, ok := sink.(op.Persister); ok {
		return s.Persist()
	}
	return nil
}

func (y *synchronizer) newCookie() string { return y.cookie.text(y.frontier) }

func (y *synchronizer) inform(value []byte) error {
	return y.sink.Intermediate(control.OIDSyncInfo, value, nil)
}

// refresh runs the refresh stage, after which the client has the content of the newest
// state. If the result deletes is set, refresh has sent all deletions. Otherwise the client
// must delete each entry that refresh has neither sent nor reported as present.
func (y *synchronizer) refresh(ctx context.Context) (deletes bool, err error) {
	how, err := y.begin(ctx)
	if err != nil {
		return false, err
	}
	s := state.Newest(y.req.Server.Part)
	defer s.Close()
	frontier, err := changestream.Frontier(ctx, s)
	if err != nil {
		return false, err
	}
	if y.program, err = rules(ctx, y.req, s); err != nil {
		return false, err
	}
	if how, err = y.byRules(ctx, s, how); err != nil {
		return false, err
	}
	to, err := y.content(ctx, s, y.program)
	if err != nil {
		return false, err
	}
	to.Out.View.Stored = true
	y.base = to.Query.Base
	if err := assertion.Check(ctx, to.Req, y.base); err != nil {
		return false, err
	}
	if how == byDifference {
		err := y.advance(ctx, s)
		switch {
		case errors.Is(err, errChanged):
			return false, errRefresh
		case !errors.Is(err, errBase):
			y.frontier = frontier
			return true, err
		}
		how = byReload
	}
	since := y.frontier
	y.frontier = frontier
	switch {
	case how == byReload && !y.request.Reload:
		return false, errRefresh
	case how == byPresence:
		return false, y.present(ctx, to, since)
	}
	return false, y.whole(ctx, to)
}

// refreshing is a way to run the refresh stage.
type refreshing int

const (
	byContent    refreshing = iota // send the whole content
	byDifference                   // send the difference from the state in the cookie
	byPresence                     // send a present phase: the state in the cookie is too old
	byReload                       // the cookie is unknown: send the whole content only if the client allows it
)

// begin determines from the cookie how to run the refresh stage.
func (y *synchronizer) begin(ctx context.Context) (refreshing, error) {
	c := &y.cookie
	switch {
	case c.foreign:
		return byReload, nil
	case len(c.frontier) == 0:
		return byContent, nil
	}
	y.frontier = c.frontier
	err := changestream.Follows(ctx, y.req.Server.Part, c.frontier)
	if err == nil { // check that this server has the state: another server, which is ahead, may have sent the cookie
		var s *partition.Snapshot
		if s, err = changestream.AtFrontier(ctx, y.req.Server.Part, c.frontier); err == nil {
			s.Close()
		}
	}
	var below *partition.HorizonError
	switch {
	case errors.Is(err, partition.ErrForgotten), errors.As(err, &below):
		return byPresence, nil
	case errors.Is(err, partition.ErrForeign), errors.Is(err, partition.ErrRevision):
		return byReload, nil
	}
	return byDifference, err
}

// byRules returns how to run the refresh stage under the access rules. The argument how is
// the way that the cookie allows. A requester whom the rules restrict may receive a
// difference only under two conditions: the rules are the same for both contents, and the
// difference is sent in one step, so that it shows nothing of the states between. Otherwise
// the requester receives the whole content, and deletes every entry that is not in it (RFC
// 4533, 3.3.2).
func (y *synchronizer) byRules(ctx context.Context, s *partition.Snapshot, how refreshing) (refreshing, error) {
	if y.program == nil || how == byContent || how == byReload {
		return how, nil
	}
	if how == byPresence {
		if y.program.ReadsAll() {
			return how, nil
		}
		return byContent, nil
	}
	before, err := changestream.AtFrontier(ctx, y.req.Server.Part, y.cookie.frontier)
	if err != nil {
		return how, err
	}
	defer before.Close()
	p, err := y.req.ProgramAt(ctx, before)
	switch {
	case err != nil:
		return how, err
	case readsAll(p) && readsAll(y.program):
		return how, nil
	case !sameRules(p, y.program):
		return byContent, nil
	}
	g, err := gather(ctx, s, y.cookie.frontier)
	if err == nil && (g.more || g.all) {
		return byContent, nil
	}
	return how, err
}

// whole sends the whole content.
func (y *synchronizer) whole(ctx context.Context, to *content) error {
	for found, err := range to.all(ctx) {
		if err != nil {
			return err
		}
		if err := y.send(ctx, to, found, control.SyncAdd); err != nil {
			return err
		}
	}
	return nil
}

// present sends the content with a present phase (RFC 4533, 3.3.2). For an entry that is
// unchanged since a frontier, it sends only the entry's id.
func (y *synchronizer) present(ctx context.Context, to *content, since revision.Frontier) error {
	var there []entry.ID
	for found, err := range to.all(ctx) {
		if err != nil {
			return err
		}
		same, err := changestream.Unmoved(ctx, to.Req.Snapshot, found.ID, since)
		switch {
		case err != nil:
			return err
		case !same:
			if err := y.send(ctx, to, found, control.SyncAdd); err != nil {
				return err
			}
			continue
		}
		if there = append(there, found.ID); len(there) == maxIDs {
			if err := y.inform(control.SyncIDSet{IDs: there}.Encode()); err != nil {
				return err
			}
			there = there[:0]
		}
	}
	if len(there) == 0 {
		return nil
	}
	return y.inform(control.SyncIDSet{IDs: there}.Encode())
}

// send sends an entry of the content.
func (y *synchronizer) send(ctx context.Context, c *content, found *partition.Result, state int64) error {
	if !y.persisting {
		if err := y.quota.Check(); err != nil {
			return err
		}
		state = control.SyncAdd // the refresh stage sends no other sync state (RFC 4533, 3.3.2)
	}
	y.quota.Sent++
	return c.send(ctx, found, stateControl(state, found.ID))
}

// drop sends the deletion of an entry that has left the content. As long as no entry was
// sent, drop combines several deletions into one message. Afterwards it sends each deletion
// separately: a combined message does not make OpenLDAP's consumer delete an entry that it
// has received in the same refresh.
func (y *synchronizer) drop(c *content, found *partition.Result) error {
	if y.quota.Sent == 0 {
		if y.gone = append(y.gone, found.ID); len(y.gone) < maxIDs {
			return nil
		}
		return y.dropped()
	}
	gone := []op.Control{stateControl(control.SyncDelete, found.ID)}
	if c.isReferral(found.Entry) {
		return y.sink.Reference(nil, gone)
	}
	return y.sink.Entry(&op.SearchEntry{Name: found.Name.String(), Controls: gone})
}

// dropped sends the deletions that drop has collected for one message.
func (y *synchronizer) dropped() error {
	if len(y.gone) == 0 {
		return nil
	}
	defer func() { y.gone = y.gone[:0] }()
	return y.inform(control.SyncIDSet{Deletes: true, IDs: y.gone}.Encode())
}

// persist sends changes until the client or the server ends the operation.
func (y *synchronizer) persist(ctx context.Context) error {
	for {
		next := changestream.Next(y.req.Server.Part)
		s := state.Newest(y.req.Server.Part)
		err := y.follow(ctx, s)
		s.Close()
		if errors.Is(err, errChanged) {
			continue
		}
		if errors.Is(err, errBase) {
			return errRefresh
		}
		if err != nil {
			return err
		}
		select {
		case <-next:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// errChanged ends the sending of a difference if the access rules for the requester have
// changed meanwhile.
var errChanged = errors.New("the access rules for the requester have changed")

// follow sends all changes up to the newest state.
func (y *synchronizer) follow(ctx context.Context, s *partition.Snapshot) error {
	p, err := rules(ctx, y.req, s)
	switch {
	case err != nil:
		return err
	case sameRules(p, y.program):
		y.program = p
		return y.advance(ctx, s)
	case p != nil && y.program != nil && p.Schema() != y.program.Schema():
		return errRefresh
	}
	return y.jump(ctx, s, p)
}

// jump sends the difference between the content that the client has and the content of the
// newest state. The two contents are under different access rules.
func (y *synchronizer) jump(ctx context.Context, s *partition.Snapshot, p *acl.Program) error {
	frontier, err := changestream.Frontier(ctx, s)
	if err != nil {
		return err
	}
	err = y.between(ctx, s, y.program, p, func(from, to *content) error { return y.compare(ctx, from, to, y.frontier) })
	if err != nil {
		return err
	}
	y.frontier, y.program = frontier, p
	return y.inform(control.SyncCookie{Cookie: y.newCookie()}.Encode())
}

// advance sends all changes up to the state s, in one or more steps.
func (y *synchronizer) advance(ctx context.Context, s *partition.Snapshot) error {
	for {
		g, err := gather(ctx, s, y.frontier)
		if err != nil || !g.any {
			return err
		}
		if err := y.step(ctx, s, g); err != nil {
			return err
		}
		y.frontier = g.frontier
		if !y.persisting {
			continue
		}
		if err := y.inform(control.SyncCookie{Cookie: y.newCookie()}.Encode()); err != nil {
			return err
		}
	}
}

// step sends the changes of the commits in g. The state s is the state after these commits.
// If g.more is set, s may also be a later state, and step itself opens the state after the
// commits.
func (y *synchronizer) step(ctx context.Context, s *partition.Snapshot, g *commits) error {
	p, err := rulesNow(ctx, y.req)
	if err != nil {
		return err
	}
	if !sameRules(p, y.program) {
		return errChanged
	}
	if g.more {
		behind, err := changestream.AtFrontier(ctx, y.req.Server.Part, g.frontier)
		if err != nil {
			return err
		}
		defer behind.Close()
		s = behind
	}
	return y.between(ctx, s, p, p, func(from, to *content) error { return y.differ(ctx, from, to, g, y.frontier) })
}

// The method "between" passes two contents to the function send. The first is the content that
// the client has, under oldRules. The second is the content of the state s, under newRules.
func (y *synchronizer) between(ctx context.Context, s *partition.Snapshot, oldRules, newRules *acl.Program, send func(from, to *content) error) error {
	before, err := changestream.AtFrontier(ctx, y.req.Server.Part, y.frontier)
	if err != nil {
		return err
	}
	defer before.Close()
	from, err := y.later(ctx, before, oldRules)
	if err != nil {
		return err
	}
	to, err := y.later(ctx, s, newRules)
	if err != nil {
		return err
	}
	to.Out.View.Stored = true
	return send(from, to)
}
