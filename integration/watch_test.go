package integration

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/ldap/ber"
)

const (
	watchedDN       = "ou=watched," + suffix
	psearchOID      = "2.16.840.1.113730.3.4.3"
	changeNoticeOID = "2.16.840.1.113730.3.4.7"
	// The control has all change types, changesOnly and returnECs.
	psearchAllChanges = "\x30\x09\x02\x01\x0f\x01\x01\xff\x01\x01\xff"
)

// watchedServer starts a server with one entry below watchedDN.
func watchedServer(t *testing.T) *process {
	t.Helper()
	store := filepath.Join(t.TempDir(), "store")
	importInto(t, store, example)
	p := serve(t, store)
	addTo(t, p.admin(), watchedDN, "organizationalUnit")
	addTo(t, p.admin(), "cn=1,"+watchedDN, "device")
	return p
}

func addTo(t *testing.T, c *ldap.Conn, name, class string) {
	t.Helper()
	r := ldap.NewAddRequest(name, nil)
	r.Attribute("objectClass", []string{class})
	if err := c.Add(r); err != nil {
		t.Fatal(err)
	}
}

func watchRequest(controls ...ldap.Control) *ldap.SearchRequest {
	return ldap.NewSearchRequest(watchedDN, ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, 0, 0, false,
		"(objectClass=device)", []string{"cn"}, controls)
}

// A watcher reads the messages of a search one by one.
type watcher struct {
	t *testing.T
	ldap.Response
	cookie []byte // the last cookie received
}

// wants reads one message for each given message, and compares the two.
func (w *watcher) wants(messages ...string) {
	w.t.Helper()
	for _, want := range messages {
		if !w.Next() {
			w.t.Fatalf("%v; want %q", w.Err(), want)
		}
		if got := w.message(); got != want {
			w.t.Fatalf("%q, want %q", got, want)
		}
	}
}

func (w *watcher) message() string {
	var words []string
	if e := w.Entry(); e != nil && e.DN != "" {
		words = append(words, strings.TrimSuffix(e.DN, ","+watchedDN))
	}
	for _, c := range w.Controls() {
		words = append(words, w.control(c))
	}
	return strings.Join(words, " ")
}

// control returns a description of a control, and keeps the control's cookie.
func (w *watcher) control(c ldap.Control) string {
	switch c := c.(type) {
	case *ldap.ControlSyncState:
		return []string{"present", "add", "modify", "delete"}[c.State]
	case *ldap.ControlSyncDone:
		w.cookie = c.Cookie
		return fmt.Sprintf("done, deletes %v", c.RefreshDeletes)
	case *ldap.ControlSyncInfo:
		switch {
		case c.NewCookie != nil:
			w.cookie = c.NewCookie.Cookie
			return "new cookie"
		case c.RefreshPresent != nil:
			w.cookie = c.RefreshPresent.Cookie
			return "refreshed"
		case c.RefreshDelete != nil:
			w.cookie = c.RefreshDelete.Cookie
			return "refreshed, deletes"
		case c.SyncIdSet != nil:
			return fmt.Sprintf("%d ids, deletes %v", len(c.SyncIdSet.SyncUUIDs), c.SyncIdSet.RefreshDeletes)
		}
	case *ldap.ControlString:
		if c.ControlType == changeNoticeOID {
			return changeNotice(c.ControlValue)
		}
	}
	return fmt.Sprintf("%T", c)
}

func changeNotice(value string) string {
	r := ber.NewReader([]byte(value))
	r.Enter(ber.Sequence)
	text := fmt.Sprintf("change %d", r.Int(ber.Enumerated))
	if r.More() {
		text += " from " + strings.TrimSuffix(string(r.Bytes(ber.OctetString)), ","+watchedDN)
	}
	return text
}

// TestGoLDAPSyncrepl checks that go-ldap's consumer receives the changes since its cookie, and
// then the changes that are made while the consumer waits. The consumer must be notified when
// the server stops.
func TestGoLDAPSyncrepl(t *testing.T) {
	p := watchedServer(t)
	c := p.admin()
	sync := func(mode ldap.ControlSyncRequestMode, cookie []byte) (*watcher, context.CancelFunc) {
		ctx, cancel := context.WithCancel(t.Context())
		return &watcher{t: t, Response: p.admin().Syncrepl(ctx, watchRequest(), 1, mode, cookie, false)}, cancel
	}
	first, cancel := sync(ldap.SyncRequestModeRefreshOnly, nil)
	first.wants("cn=1 add", "done, deletes false")
	cancel()
	addTo(t, c, "cn=2,"+watchedDN, "device")
	if err := c.Del(ldap.NewDelRequest("cn=1,"+watchedDN, nil)); err != nil {
		t.Fatal(err)
	}
	second, cancel := sync(ldap.SyncRequestModeRefreshAndPersist, first.cookie)
	defer cancel()
	second.wants("1 ids, deletes true", "cn=2 add", "refreshed, deletes")
	r := ldap.NewModifyRequest("cn=2,"+watchedDN, nil)
	r.Replace("description", []string{"changed"})
	if err := c.Modify(r); err != nil {
		t.Fatal(err)
	}
	second.wants("cn=2 modify", "new cookie")
	if err := c.ModifyDN(ldap.NewModifyDNRequest("cn=2,"+watchedDN, "cn=3", true, "")); err != nil {
		t.Fatal(err)
	}
	second.wants("cn=3 modify", "new cookie")
	p.stop()
	if second.Next() || code(second.Err()) != ldap.LDAPResultUnavailable {
		t.Errorf("after the server's end: %v", second.Err())
	}
}

// TestGoLDAPPersistentSearch runs a persistent search. The test encodes the request control
// itself, because go-ldap does not implement this control.
func TestGoLDAPPersistentSearch(t *testing.T) {
	p := watchedServer(t)
	c := p.admin()
	control := ldap.NewControlString(psearchOID, true, psearchAllChanges)
	w := &watcher{t: t, Response: p.admin().SearchAsync(t.Context(), watchRequest(control), 1)}
	begun := make(chan bool)
	go func() { // only the first notification shows that the search has begun
		defer close(begun)
		w.Next()
	}()
	for n := 2; ; n++ {
		addTo(t, c, fmt.Sprintf("cn=%d,%s", n, watchedDN), "device")
		select {
		case <-begun:
		default:
			continue
		}
		break
	}
	last := ldap.NewAddRequest("cn=last,"+watchedDN, nil)
	last.Attribute("objectClass", []string{"device"})
	if err := c.Add(last); err != nil {
		t.Fatal(err)
	}
	for w.message() != "cn=last change 1" {
		if !w.Next() {
			t.Fatal(w.Err())
		}
	}
	if err := c.ModifyDN(ldap.NewModifyDNRequest("cn=last,"+watchedDN, "cn=moved", true, "")); err != nil {
		t.Fatal(err)
	}
	w.wants("cn=moved change 8 from cn=last")
	if err := c.Del(ldap.NewDelRequest("cn=moved,"+watchedDN, nil)); err != nil {
		t.Fatal(err)
	}
	w.wants("cn=moved change 2")
}
