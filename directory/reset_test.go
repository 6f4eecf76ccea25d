package directory_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/store/gss/layer"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// from is a channel with an address.
type from string

func (from) TLS() *tls.ConnectionState      { return nil }
func (from) Certificate() *x509.Certificate { return nil }
func (from) Peer() (uid, gid int, ok bool)  { return 0, 0, false }
func (f from) Remote() string               { return string(f) }
func (from) Layer() *layer.Stream           { return nil }

// newReset returns a reset that must be given.
func newReset(t testing.TB, d *directory.Directory, c auth.Channel, asked string) *directory.Reset {
	t.Helper()
	r, err := d.NewReset(t.Context(), c, asked, time.Now().Add(time.Minute))
	if err != nil {
		t.Fatalf("%s: %v", asked, err)
	}
	return r
}

const (
	fresh   = "correct horse battery"
	another = "staple for horses"
)

// TestReset checks that a user name, a mail address and a DN lead to the same reset, that it works once, and what it
// leaves behind: a password that need not be changed, no lock, no failures, and an entry in the journal.
func TestReset(t *testing.T) {
	d, _, s := withPolicy(t, line{"pwdMustChange", "TRUE"}, line{"pwdLockout", "TRUE"}, line{"pwdMaxFailure", "2"}, line{"pwdSafeModify", "TRUE"},
		line{"pwdCheckQuality", "1"}, line{"pwdMinLength", "12"}, line{"pwdInHistory", "3"})
	c := from("192.0.2.7:4711")
	serve(t, s, &op.Modify{Name: annDN, Changes: changes([]line{{"replace mail", "ann@example.com"}, {"add mail", "a.lee@example.com"}, {"replace userPassword", "set by an administrator"}})})
	for range 2 {
		bindCode(t, d, annDN, "wrong")
	}
	for asked, mail := range map[string]string{"ann": "ann@example.com", "A.Lee@example.com": "a.lee@example.com", annDN: "ann@example.com"} {
		if r := newReset(t, d, c, asked); r.Mail != mail || r.Name != annDN || r.Person != "ann" {
			t.Errorf("%s: %+v", asked, r)
		}
	}
	bob := from("198.51.100.1:1") // has counts of his own
	serve(t, s, &op.Modify{Name: bobDN, Changes: changes([]line{{"replace mail", "bob@example.com"}, {"replace pwdReset", "TRUE"}})})
	for range 2 {
		bindCode(t, d, bobDN, "wrong")
	}
	r := newReset(t, d, bob, "bob")
	if owner, err := d.ResetOwner(t.Context(), c, r.Ticket); err != nil || owner != bobDN {
		t.Errorf("owner: %q %v", owner, err)
	}
	var refused *op.Result
	if err := d.ResetPassword(t.Context(), c, r.Ticket, []byte("short"), true); !errors.As(err, &refused) || !strings.Contains(refused.Diagnostic, "shorter than 12") {
		t.Errorf("a short one: %v", err)
	}
	if err := d.ResetPassword(t.Context(), c, r.Ticket, []byte(fresh), true); err != nil || bindCode(t, d, bobDN, fresh) == op.Success {
		t.Errorf("only looked at: %v", err)
	}
	for range 2 {
		bindCode(t, d, bobDN, "wrong")
	}
	if err := d.ResetPassword(t.Context(), c, r.Ticket, []byte(fresh), false); err != nil {
		t.Fatal(err)
	}
	if code := bindCode(t, d, bobDN, fresh); code != op.Success {
		t.Errorf("the new password: %v", code)
	}
	if got := valuesOf(t, s, bobDN, "pwdReset"); got != nil {
		t.Errorf("pwdReset: %q", got)
	}
	if err := d.ResetPassword(t.Context(), c, r.Ticket, []byte(another), false); !errors.Is(err, directory.ErrTicket) {
		t.Errorf("twice: %v", err)
	}
	all, _ := changesOf(t, s, "cn=changelog", op.SingleLevel, "(&(targetDN="+bobDN+")(changeSession=*))", "changeInitiatorsName changeAddress changeSession")
	if want := "changeInitiatorsName: " + bobDN; len(all) != 1 || !strings.Contains(fmt.Sprint(all), want) || !strings.Contains(fmt.Sprint(all), "192.0.2.7:4711") || !strings.Contains(fmt.Sprint(all), "reset by mail") {
		t.Errorf("journal: %q", all)
	}
}

// TestResetTicket checks what ends a ticket, and that a ticket is good for one use only.
func TestResetTicket(t *testing.T) {
	replace := func(name string, ls ...line) func(*testing.T, *directory.Session) {
		return func(t *testing.T, s *directory.Session) {
			serve(t, s, &op.Modify{Name: name, Changes: changes(ls)})
		}
	}
	for _, c := range []struct {
		name   string
		until  time.Duration
		change func(*testing.T, *directory.Session)
		alter  func(string) string
		good   bool
	}{
		{name: "nothing changed", until: time.Minute, good: true},
		{name: "another attribute", until: time.Minute, change: replace(annDN, line{"replace description", "x"}), good: true},
		{name: "renamed", until: time.Minute, change: func(t *testing.T, s *directory.Session) {
			serve(t, s, &op.ModifyDN{Name: annDN, NewRDN: "uid=anna", DeleteOldRDN: true})
		}, good: true},
		{name: "over", until: -time.Second},
		{name: "altered", until: time.Minute, alter: altered},
		{name: "no ticket", until: time.Minute, alter: func(string) string { return "a.b.c" }},
		{name: "empty", until: time.Minute, alter: func(string) string { return "" }},
		{name: "another password", until: time.Minute, change: replace(annDN, line{"replace userPassword", another})},
		{name: "the same password again", until: time.Minute, change: replace(annDN, line{"replace userPassword", "ann"})},
		{name: "no password", until: time.Minute, change: func(t *testing.T, s *directory.Session) {
			serve(t, s, &op.Modify{Name: annDN, Changes: []op.Modification{op.Change(op.ModReplace, "userPassword")}})
		}},
		{name: "disabled", until: time.Minute, change: replace(annDN, line{"replace pwdAccountLockedTime", "000001010000Z"})},
		{name: "ended", until: time.Minute, change: replace(annDN, line{"replace pwdEndTime", "20200101000000Z"})},
		{name: "deleted", until: time.Minute, change: func(t *testing.T, s *directory.Session) { serve(t, s, &op.Delete{Name: annDN}) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, _, s := withPolicy(t)
			serve(t, s, &op.Modify{Name: annDN, Changes: changes([]line{{"replace mail", "ann@example.com"}})})
			r, err := d.NewReset(t.Context(), from("192.0.2.7:4711"), "ann", time.Now().Add(c.until))
			if err != nil {
				t.Fatal(err)
			}
			if c.change != nil {
				c.change(t, s)
			}
			if c.alter != nil {
				r.Ticket = c.alter(r.Ticket)
			}
			_, err = d.ResetOwner(t.Context(), auth.NoChannel{}, r.Ticket)
			if c.good != (err == nil) || !c.good && !errors.Is(err, directory.ErrTicket) {
				t.Errorf("owner: %v", err)
			}
			err = d.ResetPassword(t.Context(), auth.NoChannel{}, r.Ticket, []byte(fresh), false)
			if c.good != (err == nil) || !c.good && !errors.Is(err, directory.ErrTicket) {
				t.Errorf("set: %v", err)
			}
			if bindCode(t, d, annDN, fresh) == op.Success && !c.good {
				t.Error("the password was set")
			}
		})
	}
	t.Run("another use, another store", func(t *testing.T) {
		d, x := newTicket(t, directory.Options{}, carl)
		s := bound(t, d, admin)
		serve(t, s, &op.Modify{Name: carl, Changes: changes([]line{{"replace mail", "carl@example.com"}})})
		if err := d.ResetPassword(t.Context(), auth.NoChannel{}, x, []byte(fresh), false); !errors.Is(err, directory.ErrTicket) {
			t.Errorf("a ticket of a log in: %v", err)
		}
		r := newReset(t, d, auth.NoChannel{}, "carl")
		if _, err := d.Resume(t.Context(), auth.NoChannel{}, r.Ticket); !errors.Is(err, directory.ErrTicket) {
			t.Errorf("a ticket of a reset: %v", err)
		}
		other, _ := newTicket(t, directory.Options{}, carl)
		if err := other.ResetPassword(t.Context(), auth.NoChannel{}, r.Ticket, []byte(fresh), false); !errors.Is(err, directory.ErrTicket) {
			t.Errorf("another store: %v", err)
		}
	})
}

// TestNoReset checks who gets no reset, and that the reason is for the log.
func TestNoReset(t *testing.T) {
	d, p, s := withPolicy(t, line{"pwdMinAge", "3600"}, line{"pwdMaxAge", "7200"})
	kept := op.Control{OID: control.OIDRelaxRules, Critical: true}
	add := func(name string, as []op.PartialAttribute) {
		r := withControls(t, s, &op.Add{Name: name, Attributes: append(as, op.Attribute("pwdChangedTime", "20200101000000Z"))}, kept)
		if r.Code != op.Success {
			t.Fatalf("%s: %v", name, &r.Result)
		}
	}
	user := func(uid string, more ...line) {
		add("uid="+uid+",dc=example,dc=com", person(uid, append(more, line{"mail", uid + "@example.com"})...))
	}
	password := line{"userPassword", "one that is long enough"}
	user("fine", password)
	user("locked", password)
	user("both", password, line{"objectClass", "simpleSecurityObject"})
	user("disabled", password, line{"pwdAccountLockedTime", "000001010000Z"})
	user("over", password, line{"pwdEndTime", "20200101000000Z"})
	user("none")
	user("marked", line{"userPassword", "!" + adminPassword})
	user("elsewhere", line{"userPassword", "{SASL}elsewhere@example.com"})
	user("young", password)
	user("twice", password, line{"mail", "fine@example.com"})
	user("barred", password)
	user("guarded", password)
	serve(t, s, &op.Modify{Name: "uid=young,dc=example,dc=com", Changes: changes([]line{{"replace userPassword", another}})})
	add("uid=mailer,dc=example,dc=com", attributes([]line{{"objectClass", "account"}, {"objectClass", "simpleSecurityObject"}, {"objectClass", "extensibleObject"},
		{"uid", "mailer"}, {"mail", "mailer@example.com"}, password}))
	add(admin, person("admin", line{"mail", "admin@example.com"}, password))
	setRules(t, p, "bind: allow everyone to bind in (!(uid=locked))\nown: allow self to write userPassword in (!(uid=barred))\nno: deny \"uid=guarded,dc=example,dc=com\" to bind if mechanism reset")
	for i, c := range []struct{ asked, why string }{
		{"fine", ""}, {"both", ""}, {"uid=fine,dc=example,dc=com", ""},
		{"disabled", "disabled"}, {"over", "disabled"}, {"none", "no password"}, {"marked", "is locked"}, {"elsewhere", "is locked"}, {"mailer", "service"}, {"young", "too recently"}, {"barred", "access rules"}, {"locked", "bind"}, {"guarded", "bind"},
		{"ann", "no mail"}, {"nobody", "no account"}, {"nobody@example.com", "no account"}, {"twin", "no account"}, {"fine@example.com", "no account"},
		{"cn=none", "no account"}, {"dc=example,dc=com", "no password"}, {"", "no account"}, {admin, "no account"}, {"admin", "administrator"}, {"admin@example.com", "administrator"},
		{"*", "no account"}, {"fine)(mail=*", "no account"}, {"fine@example.com\r\nRCPT TO:<x@example.com>", "no account"},
	} {
		r, err := d.NewReset(t.Context(), from(fmt.Sprintf("192.0.2.%d:1", i)), c.asked, time.Now().Add(time.Minute))
		if c.why == "" && err != nil || c.why != "" && (err == nil || !strings.Contains(err.Error(), c.why)) {
			t.Errorf("%q: %+v %v", c.asked, r, err)
		}
	}
	changePolicy(t, s, "pwdAllowUserChange", "FALSE")
	if _, err := d.NewReset(t.Context(), from("192.0.2.99:1"), "fine", time.Now().Add(time.Minute)); err == nil || !strings.Contains(err.Error(), "does not let users") {
		t.Errorf("users may not change passwords: %v", err)
	}
}

// newResetServers returns two servers that share the secret of their store.
func newResetServers(t *testing.T) [2]*client {
	cs := newServers(t)
	for _, c := range cs {
		c.d = newDirectory(t, c.p, directory.Options{Secret: []byte("the secret of the store")})
		t.Cleanup(c.d.Close)
	}
	return cs
}

// TestResetLimits checks that two servers of a store count together, by account and by address.
func TestResetLimits(t *testing.T) {
	cs := newResetServers(t)
	for i := range 9 {
		uid := fmt.Sprintf("u%d", i)
		cs[0].addPerson(uid)
		cs[0].must("modify", "dn: uid="+uid+",dc=example,dc=com", "replace mail: "+uid+"@example.com")
	}
	if err := cs[1].p.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask := func(i int, address, name string) error {
		_, err := cs[i%2].d.NewReset(t.Context(), from(address+":99"), name, time.Now().Add(time.Minute))
		return err
	}
	p, err := partition.Open(t.Context(), cs[0].p.Store, partition.Options{Txn: txn.Options{ReadOnly: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(t.Context())
	d := newDirectory(t, p, directory.Options{})
	defer d.Close()
	if _, err := d.NewReset(t.Context(), from("192.0.2.1:1"), "u0", time.Now().Add(time.Minute)); err == nil || !strings.Contains(err.Error(), "cannot be counted") {
		t.Errorf("a server that does not write: %v", err)
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	sent := 0
	for i := range 8 {
		all.Go(func() {
			if ask(i, fmt.Sprintf("192.0.2.%d", i), "u0") == nil {
				mu.Lock()
				defer mu.Unlock()
				sent++
			}
		})
	}
	all.Wait()
	if sent > 3 {
		t.Errorf("%d at once", sent)
	}
	for i := range 5 {
		if err := ask(i, fmt.Sprintf("198.51.100.%d", i), "u1"); (err == nil) != (i < 3) {
			t.Errorf("request %d for an account: %v", i, err)
		}
	}
	for i := range 22 {
		err := ask(i, fmt.Sprintf("[2001:db8::%d]", i), "nobody")
		if over := strings.Contains(err.Error(), "from this address: too many"); over != (i >= 20) {
			t.Errorf("request %d from a network: %v", i, err)
		}
	}
	if err := ask(0, "[2001:db8:0:1::1]", "u2"); err != nil {
		t.Errorf("another network: %v", err)
	}
	if err := ask(1, "[2001:db8::5]", "u2"); err == nil {
		t.Error("a good name beyond the limit")
	}
}

// TestResetRace checks that of two uses of a ticket at two servers one succeeds.
func TestResetRace(t *testing.T) {
	cs := newResetServers(t)
	for i := range 6 {
		uid := fmt.Sprintf("u%d", i)
		cs[0].addPerson(uid)
		cs[0].must("modify", "dn: uid="+uid+",dc=example,dc=com", "replace mail: "+uid+"@example.com")
		r := newReset(t, cs[0].d, from("192.0.2.1:1"), uid)
		if err := cs[1].p.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		var errs [2]error
		var all sync.WaitGroup
		for i, c := range cs {
			all.Go(func() {
				errs[i] = c.d.ResetPassword(t.Context(), auth.NoChannel{}, r.Ticket, fmt.Append(nil, "password of server ", i), false)
			})
		}
		all.Wait()
		if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs[:]...), directory.ErrTicket) {
			t.Errorf("%v, %v", errs[0], errs[1])
		}
	}
}
