package integration

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/ldap/ber"
)

const (
	viewRequest  = "2.16.840.1.113730.3.4.9"
	viewResponse = "2.16.840.1.113730.3.4.10"
)

// TestOrderedLists reads the people in sorted order as users of go-ldap do: in pages (RFC
// 2891 with RFC 2696) and with a virtual list view. The limits on the size of results and
// pages apply to users, and not to the administrator.
func TestOrderedLists(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	importInto(t, store, example)
	p := serve(t, store, "--limits-rules", "size=5 page=3 for users")
	admin := p.admin()
	people := orderedPeople(t, admin)
	if len(people) < 20 {
		t.Fatalf("%d people", len(people))
	}
	t.Run("pages", func(t *testing.T) {
		for _, reverse := range []bool{false, true} {
			if got := sortedPages(t, admin, reverse); !slices.Equal(got, people) {
				t.Errorf("got %q, want %q", got, people)
			}
			slices.Reverse(people)
		}
	})
	t.Run("view", func(t *testing.T) {
		r := askOrdered(t, admin, false, listView(1, 2, 5))
		if got := r.uids; !slices.Equal(got, people[3:7]) {
			t.Errorf("got %q, want %q", got, people[3:7])
		}
		position, count, code := r.view(t)
		if position != 5 || count != len(people) || code != 0 {
			t.Errorf("position %d, %d entries, code %d", position, count, code)
		}
	})
	t.Run("limits", func(t *testing.T) {
		user := p.connect(jdoe, "opensesame")
		r := askOrdered(t, user, false)
		wantCode(t, "all", r.err, ldap.LDAPResultSizeLimitExceeded)
		if !slices.Equal(r.uids, people[:5]) {
			t.Errorf("got %q, want %q", r.uids, people[:5])
		}
		wantCode(t, "a page of 4", askOrdered(t, user, false, ldap.NewControlPaging(4)).err, ldap.LDAPResultAdminLimitExceeded)
		wantCode(t, "a page of 3", askOrdered(t, user, false, ldap.NewControlPaging(3)).err, ldap.LDAPResultSuccess)
		wantCode(t, "a view of 4", askOrdered(t, user, false, listView(1, 2, 5)).err, ldap.LDAPResultVirtualListViewErrorOrControlError)
		wantCode(t, "a view of 3", askOrdered(t, user, false, listView(1, 1, 5)).err, ldap.LDAPResultSuccess)
	})
}

// orderedPeople returns the uids, sorted by the test. All of them are in lower case.
func orderedPeople(t *testing.T, c *ldap.Conn) []string {
	t.Helper()
	r, err := c.Search(peopleByUID())
	if err != nil {
		t.Fatal(err)
	}
	uids := uidsOf(r)
	slices.Sort(uids)
	return uids
}

func peopleByUID(controls ...ldap.Control) *ldap.SearchRequest {
	return ldap.NewSearchRequest(peopleDN, ldap.ScopeSingleLevel, ldap.NeverDerefAliases, 0, 0, false,
		"(&(objectClass=inetOrgPerson)(uid=*))", []string{"uid"}, controls)
}

func uidsOf(r *ldap.SearchResult) (uids []string) {
	for _, e := range r.Entries {
		uids = append(uids, e.GetAttributeValue("uid"))
	}
	return uids
}

// ordered is the answer to a sorted search.
type ordered struct {
	uids     []string
	controls []ldap.Control
	err      error
}

func askOrdered(t *testing.T, c *ldap.Conn, reverse bool, more ...ldap.Control) ordered {
	t.Helper()
	sort := ldap.NewControlServerSideSortingWithSortKeys([]*ldap.SortKey{{AttributeType: "uid", Reverse: reverse}})
	r, err := c.Search(peopleByUID(append(more, sort)...))
	if r == nil {
		t.Fatal(err)
	}
	return ordered{uidsOf(r), r.Controls, err}
}

// sortedPages reads all people in pages.
func sortedPages(t *testing.T, c *ldap.Conn, reverse bool) (uids []string) {
	t.Helper()
	paging := ldap.NewControlPaging(7)
	for {
		r := askOrdered(t, c, reverse, paging)
		if r.err != nil {
			t.Fatal(r.err)
		}
		// go-ldap reads every result as success (findings/go-ldap-controls.sh). Tests of directory read it (inOrder).
		if ldap.FindControl(r.controls, ldap.ControlTypeServerSideSortingResult) == nil {
			t.Error("no sort response")
		}
		uids = append(uids, r.uids...)
		next, ok := ldap.FindControl(r.controls, ldap.ControlTypePaging).(*ldap.ControlPaging)
		if !ok || len(next.Cookie) == 0 || len(uids) > 1000 {
			return uids
		}
		paging.SetCookie(next.Cookie)
	}
}

// listView returns the control that requests the entries around an offset of the list.
func listView(before, after, offset int64) ldap.Control {
	b := ber.Open(nil, ber.Sequence)
	b = ber.AppendInt(b, ber.Integer, before)
	b = ber.AppendInt(b, ber.Integer, after)
	start := len(b)
	b = ber.Open(b, ber.Context(0)|ber.Constructed)
	b = ber.AppendInt(b, ber.Integer, offset)
	b = ber.AppendInt(b, ber.Integer, 0)
	b = ber.Close(b, start)
	return ldap.NewControlString(viewRequest, true, string(ber.Close(b, 0)))
}

// view parses the response control of a virtual list view.
func (o *ordered) view(t *testing.T) (position, count, code int) {
	t.Helper()
	c, ok := ldap.FindControl(o.controls, viewResponse).(*ldap.ControlString)
	if !ok {
		t.Fatalf("no response control for the view: %v", o.controls)
	}
	r := ber.NewReader([]byte(c.ControlValue))
	r.Enter(ber.Sequence)
	position, count, code = int(r.Int(ber.Integer)), int(r.Int(ber.Integer)), int(r.Int(ber.Enumerated))
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	return position, count, code
}
