package migrate

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// An event is a message in which a server reports changes of its entries. At most one of
// the fields entry, gone, ids and refreshed is set. If none is set, the event only has a
// cookie.
type event struct {
	entry *ldap.Entry // an entry in its current form
	gone  *ldap.Entry // an entry that was deleted; it may lack everything, even its name
	id    entry.ID    // the id of the entry in the synchronization
	// ids are entries that have not changed or, if deleted is set, entries that were
	// deleted.
	ids     []entry.ID
	deleted bool
	// refreshed is set at the end of a phase of the refresh.
	refreshed *refreshed
	cookie    []byte
}

// refreshed is the end of a phase of a refresh.
type refreshed struct {
	// present is set if the server has named all entries that exist.
	present bool
	done    bool // the refresh has no other phase
}

// errReload means that the server cannot go on from the cookie.
var errReload = errors.New("the server no longer knows what changed since the cookie")

// errNoSync means that the server refuses content synchronization.
var errNoSync = errors.New("the server refuses content synchronization")

// events calls each(e) for every event e of a subtree. It begins with a refresh. If persist is
// set and the server offers content synchronization, the events of further changes follow.
// Otherwise the last event is the end of the refresh.
func (s *Source) events(ctx context.Context, base string, cookie []byte, persist bool, each func(*event) error) error {
	if !s.synced {
		return s.list(ctx, base, each)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	mode := ldap.SyncRequestModeRefreshOnly
	if persist {
		mode = ldap.SyncRequestModeRefreshAndPersist
	}
	r := ldap.NewSearchRequest(base, ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, 0, 0, false, s.product.all(), wanted, s.controls())
	res := s.conn.Syncrepl(ctx, r, 256, mode, cookie, false)
	done, begun := false, false
	for res.Next() {
		s.references.add(res.Referral())
		for _, ev := range eventsOf(res) {
			begun = true
			done = done || ev.refreshed != nil && ev.refreshed.done
			if ev.refreshed != nil {
				// Without a cookie all entries are sent. 389 claims to have named all entries
				// even if its refresh sends deletions, so this claim is ignored.
				ev.refreshed.present = cookie == nil || ev.refreshed.present && s.product.id == ""
			}
			if err := each(ev); err != nil {
				return err
			}
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := res.Err(); err != nil {
		return failed(s.refused(err, begun))
	}
	switch {
	case !done && !s.conn.IsClosing():
		return failed(fmt.Errorf("%w: it ended one without a Sync Done control", errNoSync))
	case persist || !done:
		return errCut
	}
	return nil
}

// refused wraps an error of a synchronization so that the error shows its meaning:
// errReload, errNoSync or a limit. The flag begun is set if the server sent something
// before the error. ApacheDS offers the control even where it refuses the control, and
// then returns the result code other.
func (s *Source) refused(err error, begun bool) error {
	switch {
	case ldap.IsErrorWithCode(err, ldap.LDAPResultSyncRefreshRequired):
		return fmt.Errorf("%w: %w", errReload, err)
	case !begun && ldap.IsErrorAnyOf(err, ldap.LDAPResultUnavailableCriticalExtension, ldap.LDAPResultUnwillingToPerform, ldap.LDAPResultProtocolError,
		ldap.LDAPResultInsufficientAccessRights, ldap.LDAPResultOperationsError, ldap.LDAPResultOther):
		return fmt.Errorf("%w: %w", errNoSync, err)
	}
	return s.limited(err)
}

// list is like events, for a server without content synchronization. It passes all entries to
// each.
func (s *Source) list(ctx context.Context, base string, each func(*event) error) error {
	err := s.All(ctx, base, wanted, func(e *ldap.Entry) error { return each(&event{entry: e}) })
	if err != nil {
		return err
	}
	return each(&event{refreshed: &refreshed{present: true, done: true}})
}

// eventsOf returns the events of one response.
func eventsOf(r ldap.Response) (evs []*event) {
	for _, c := range r.Controls() {
		switch c := c.(type) {
		case *ldap.ControlSyncState:
			evs = append(evs, stateEvent(c, r.Entry()))
		case *ldap.ControlSyncDone:
			evs = append(evs, &event{cookie: c.Cookie, refreshed: &refreshed{present: !c.RefreshDeletes, done: true}})
		case *ldap.ControlSyncInfo:
			if ev := infoEvent(c); ev != nil {
				evs = append(evs, ev)
			}
		}
	}
	return evs
}

func stateEvent(c *ldap.ControlSyncState, e *ldap.Entry) *event {
	ev := &event{id: entry.ID(c.EntryUUID), cookie: c.Cookie}
	switch c.State {
	case ldap.SyncStatePresent:
		ev.ids = []entry.ID{ev.id}
	case ldap.SyncStateDelete:
		ev.gone = e
	default:
		ev.entry = e
	}
	return ev
}

func infoEvent(c *ldap.ControlSyncInfo) *event {
	switch {
	case c.NewCookie != nil:
		// go-ldap 3.4.15 leaves this cookie empty (findings/go-ldap-controls.sh), so the cursor keeps the one before.
		return &event{cookie: c.NewCookie.Cookie}
	case c.RefreshDelete != nil:
		return &event{cookie: c.RefreshDelete.Cookie, refreshed: &refreshed{done: c.RefreshDelete.RefreshDone}}
	case c.RefreshPresent != nil:
		return &event{cookie: c.RefreshPresent.Cookie, refreshed: &refreshed{present: true, done: c.RefreshPresent.RefreshDone}}
	case c.SyncIdSet != nil:
		ev := &event{cookie: c.SyncIdSet.Cookie, deleted: c.SyncIdSet.RefreshDeletes}
		for _, id := range c.SyncIdSet.SyncUUIDs {
			ev.ids = append(ev.ids, entry.ID(id))
		}
		return ev
	}
	return nil
}
