package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
)

const standbyPeople = `dn: dc=example,dc=com
objectClass: domain
dc: example

dn: cn=policy,dc=example,dc=com
objectClass: subentry
objectClass: pwdPolicy
cn: policy
subtreeSpecification: {}
pwdAttribute: userPassword
pwdMaxAge: 1000
pwdGraceAuthNLimit: 2
pwdLockout: TRUE
pwdMaxFailure: 3

dn: ou=people,dc=example,dc=com
objectClass: organizationalUnit
ou: people

dn: uid=p0,ou=people,dc=example,dc=com
objectClass: inetOrgPerson
uid: p0
cn: P
sn: P
userPassword: opensesame

dn: uid=p1,ou=people,dc=example,dc=com
objectClass: inetOrgPerson
uid: p1
cn: P
sn: P
userPassword: opensesame
pwdChangedTime: 20200101000000Z

`

// The type syncing is a client that receives changes.
type syncing struct {
	*testing.T
	ldap.Response
	cookie []byte
}

// The method "next" returns the name and the state of the next entry. At the end of the search,
// it returns "" and keeps the cookie.
func (f *syncing) next() string {
	f.Helper()
	for f.Next() {
		state := ""
		for _, c := range f.Controls() {
			switch c := c.(type) {
			case *ldap.ControlSyncState:
				state = fmt.Sprint(c.State)
			case *ldap.ControlSyncDone:
				f.cookie = c.Cookie
			case *ldap.ControlString:
				state = "notice"
			}
		}
		if e := f.Entry(); e != nil && e.DN != "" {
			name, _, _ := strings.Cut(e.DN, ",")
			return name + " " + state
		}
	}
	if err := f.Err(); err != nil {
		f.Fatal(err)
	}
	return ""
}

func wholePeople(controls ...ldap.Control) *ldap.SearchRequest {
	return ldap.NewSearchRequest("ou=people,dc=example,dc=com", ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, 0, 0, false, "(objectClass=*)", nil, controls)
}

func (s *served) synchronize(ctx context.Context, mode ldap.ControlSyncRequestMode, cookie []byte) *syncing {
	c := s.dial()
	s.Cleanup(func() { c.Close() })
	return &syncing{T: s.T, Response: c.Syncrepl(ctx, wholePeople(), 10, mode, cookie, false)}
}

// The method "all" returns everything that a client receives until the end.
func (f *syncing) all() (all []string) {
	for x := f.next(); x != ""; x = f.next() {
		all = append(all, x)
	}
	return all
}

func (f *syncing) want(text string) {
	f.Helper()
	if got := f.next(); got != text {
		f.Errorf("received %q, want %q", got, text)
	}
}

// TestStandbyClients checks what clients of a standby can do: they continue with the cookies
// of the primary, are told of changes, read the past, and are referred to the primary for
// changes. A bind that changes the state of an account must be refused, because a standby
// cannot record the change.
func TestStandbyClients(t *testing.T) {
	h := &home{t, t.TempDir()}
	for name, text := range map[string]string{"admin.pw": "secret\n", "people.ldif": standbyPeople} {
		if err := os.WriteFile(h.path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h.ldapd("import", "--store", h.path("store"), "--suffix", "dc=example,dc=com", h.path("people.ldif"))
	primary := h.serve("a", "--store", h.path("store"), "--archive-to", h.path("archive"), "--archive-lag", "20ms")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	first := primary.synchronize(ctx, ldap.SyncRequestModeRefreshOnly, nil)
	if got := first.all(); len(got) != 3 || first.cookie == nil {
		t.Fatal(got)
	}
	p := primary.dial()
	defer p.Close()
	if err := describe(p, person(0), "1"); err != nil {
		t.Fatal(err)
	}
	standby := h.serve("b", "--store", h.path("two"), "--standby-from", h.path("archive"), "--standby-primary", "ldap://primary.example.com")
	c := standby.dial()
	defer c.Close()
	awaitDescription := func(text string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			got, err := description(c, person(0))
			if err != nil || time.Now().After(end) {
				t.Fatalf("it has %q, want %q: %v", got, text, err)
			}
			if got == text {
				return
			}
		}
	}
	awaitDescription("1")

	again := standby.synchronize(ctx, ldap.SyncRequestModeRefreshOnly, first.cookie)
	if got := again.all(); !slices.Equal(got, []string{"uid=p0 " + fmt.Sprint(ldap.SyncStateModify)}) && !slices.Equal(got, []string{"uid=p0 " + fmt.Sprint(ldap.SyncStateAdd)}) {
		t.Errorf("after the primary's cookie the standby sends %q", got)
	}
	persistent := standby.synchronize(ctx, ldap.SyncRequestModeRefreshAndPersist, again.cookie)
	watching := standby.dial()
	defer watching.Close()
	// This control asks for changes of every kind, from now on only, and for notices that say
	// what changed (draft-ietf-ldapext-psearch).
	psearch := ldap.NewControlString("2.16.840.1.113730.3.4.3", true, "\x30\x09\x02\x01\x0f\x01\x01\xff\x01\x01\xff")
	watcher := &syncing{T: t, Response: watching.SearchAsync(ctx, wholePeople(psearch), 10)}
	time.Sleep(200 * time.Millisecond) // until the persistent search has begun
	if err := describe(p, person(0), "2"); err != nil {
		t.Fatal(err)
	}
	persistent.want("uid=p0 " + fmt.Sprint(ldap.SyncStateModify))
	watcher.want("uid=p0 notice")
	awaitDescription("2")

	all := commits(h.ldapd("log", "--store", h.path("store")))
	for _, at := range all[:2] {
		if got, want := h.ldapd("export", "--store", h.path("two"), "--at", at), h.ldapd("export", "--store", h.path("store"), "--at", at); got != want {
			t.Errorf("at %s the standby has\n%s\nthe primary\n%s", at, got, want)
		}
	}

	user, err := ldap.DialURL(standby.url)
	if err != nil {
		t.Fatal(err)
	}
	defer user.Close()
	if err := user.Bind(person(0), "opensesame"); err != nil {
		t.Error("a bind:", err)
	}
	if _, err := user.PasswordModify(ldap.NewPasswordModifyRequest("", "opensesame", "new secret 17")); !ldap.IsErrorWithCode(err, ldap.LDAPResultReferral) {
		t.Error("a new password:", err)
	}
	if err := describe(user, person(1), "x"); ldap.IsErrorWithCode(err, ldap.LDAPResultReferral) || err == nil {
		t.Error("a change that the user may not make:", err)
	}
	if err := describe(c, person(1), "x"); !ldap.IsErrorWithCode(err, ldap.LDAPResultReferral) {
		t.Error("a change:", err)
	}
	// A grace use of an expired password has to be recorded.
	if err := user.Bind(person(1), "opensesame"); !ldap.IsErrorWithCode(err, ldap.LDAPResultUnwillingToPerform) || !strings.Contains(err.Error(), "bind at the primary server") {
		t.Error("a grace bind:", err)
	}
	for range 3 {
		if err := user.Bind(person(0), "wrong"); !ldap.IsErrorWithCode(err, ldap.LDAPResultInvalidCredentials) {
			t.Error(err)
		}
	}
	if err := user.Bind(person(0), "opensesame"); !ldap.IsErrorWithCode(err, ldap.LDAPResultInvalidCredentials) {
		t.Error("three failures do not lock the account on the standby:", err)
	}
	if standby.said("could not be written down") || standby.said("the state of an account stays") {
		t.Error("the standby warns of what it never records")
	}
}
