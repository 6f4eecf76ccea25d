package directory_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// TestCertificatesAreNotLockedOut checks that wrong passwords, and an expired password, do
// not keep a certificate out.
func TestCertificatesAreNotLockedOut(t *testing.T) {
	d, _, root := withPolicy(t, line{"pwdLockout", "TRUE"}, line{"pwdMaxFailure", "2"}, line{"pwdMaxAge", "3600"})
	certificate := withCertificate(t, "", ava("ann", 0, 9, 2342, 19200300, 100, 1, 1), ava("example", 0, 9, 2342, 19200300, 100, 1, 25), ava("com", 0, 9, 2342, 19200300, 100, 1, 25))
	external := func(what string) {
		t.Helper()
		if r := send(t, d.NewSession(certificate), "EXTERNAL", nil); r.Code != op.Success {
			t.Errorf("%s: %v", what, &r.Result)
		}
	}
	for range 3 {
		bindCode(t, d, annDN, "wrong")
	}
	if code := bindCode(t, d, annDN, "ann"); code != op.InvalidCredentials {
		t.Fatalf("not locked: %v", code)
	}
	external("locked")
	setChanged(t, root, 2*time.Hour)
	external("expired")
}

// TestLockedTellsNothing checks the answers to the right and to a wrong password of a
// locked account. Both must equal the answer to a wrong password, including the controls.
func TestLockedTellsNothing(t *testing.T) {
	d, _, _ := withPolicy(t, line{"pwdLockout", "TRUE"}, line{"pwdMaxFailure", "2"})
	answer := func(password string) string {
		r := withControls(t, d.NewSession(nil), &op.Bind{Version: 3, Name: annDN, Password: []byte(password)}, op.Control{OID: control.OIDPasswordPolicy})
		return fmt.Sprint(&r.Result, r.Controls)
	}
	wrong := answer("wrong")
	answer("wrong")
	for _, password := range []string{"wrong", "ann"} {
		if got := answer(password); got != wrong {
			t.Errorf("%s: %s, want %s", password, got, wrong)
		}
	}
}

// TestGraceAtTwoServers checks how many uses of an expired password two servers allow
// together. The uses must not exceed the policy's limit, although neither server looks for
// the other server's commits meanwhile.
func TestGraceAtTwoServers(t *testing.T) {
	store := tabletest.NewMem()
	c := newServer(t, store)
	c.must("add", "dn: dc=example,dc=com", "objectClass: domain", "dc: example")
	c.must("add", "dn: cn=policy,dc=example,dc=com", "objectClass: subentry", "objectClass: pwdPolicy", "cn: policy", "subtreeSpecification: {}",
		"pwdAttribute: userPassword", "pwdMaxAge: 1", "pwdGraceAuthNLimit: 1")
	const rounds = 10
	for i := range rounds {
		c.addPerson(fmt.Sprintf("p%d", i))
	}
	servers := []*client{newServerPolling(t, store, time.Minute), newServerPolling(t, store, time.Minute)}
	time.Sleep(1200 * time.Millisecond) // wait until the passwords have expired
	for i := range rounds {
		var all sync.WaitGroup
		var in atomic.Int32
		for _, c := range servers {
			s := c.d.NewSession(nil)
			all.Go(func() {
				if withControls(t, s, &op.Bind{Version: 3, Name: fmt.Sprintf("uid=p%d,dc=example,dc=com", i), Password: []byte("p")}).Code == op.Success {
					in.Add(1)
				}
			})
		}
		all.Wait()
		if in.Load() > 1 {
			t.Fatalf("p%d: %d grace logins, 1 is allowed", i, in.Load())
		}
	}
}

// TestUsageOfDeletedAccount checks that no failure is recorded for an account that is
// deleted at the same time.
func TestUsageOfDeletedAccount(t *testing.T) {
	_, p, s := withPolicy(t)
	name, err := dn.Parse(annDN)
	if err != nil {
		t.Fatal(err)
	}
	state := state.Newest(p)
	at, err := state.Find(t.Context(), name)
	state.Close()
	if err != nil {
		t.Fatal(err)
	}
	tries := 0
	_, err = write.UpdateHot(t.Context(), p, func(hot *write.Hot) error {
		if err := hot.Begin(t.Context(), at.ID); err != nil {
			return err
		}
		if tries++; tries == 1 {
			serve(t, s, &op.Delete{Name: annDN})
		}
		hot.Stamp(at.ID, hot.Schema().Attribute("pwdFailureTime"))
		return nil
	})
	if !partition.Is(err, partition.NoSuchEntry) {
		t.Errorf("%d tries: %v", tries, err)
	}
}

// TestOldPasswordsCostTheSame checks that every refused bind under a policy that ignores old
// passwords computes the same number of slow hashes, whatever the reason for the refusal.
func TestOldPasswordsCostTheSame(t *testing.T) {
	x := newStrikeout(t, 2)
	admins := x.d.NewSession(nil)
	serve(t, admins, &op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
	changePolicy(t, admins, "pwdIgnoreOld", "2", "pwdInHistory", "2")
	x.startTOTP(refusedDN("fresh")(0))
	kinds := append(x.kinds, refusedBind{"the right password without its code", refusedDN("fresh"), "right", 1})
	for _, k := range kinds {
		n := 1
		if strings.Contains(k.name, "code") {
			n = 0
		}
		before := x.hash.Load()
		x.refused(k.account(n), k.password+map[int]string{0: "000000", 1: ""}[n])
		if n := x.hash.Load() - before; n != 3 {
			t.Errorf("%s: %d slow hashes, want 3", k.name, n)
		}
	}
}

// startTOTP makes an account need a code.
func (x *strikeout) startTOTP(name string) {
	x.t.Helper()
	a, err := directory.NewAccounts(x.p, "cn=test")
	if err != nil {
		x.t.Fatal(err)
	}
	defer a.Close()
	if _, err := a.StartTOTP(x.t.Context(), mustName(x.t, name), "test"); err != nil {
		x.t.Fatal(err)
	}
}

// TestMayNotBindTellsNothing checks the answer to a user who sends the right password but
// may not bind over this connection. The answer must equal the answer to a wrong password.
// It must not reveal that the password has expired, or that the user has to change it. The
// server must not record the bind.
func TestMayNotBindTellsNothing(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy []line
	}{
		{"expired", []line{{"pwdMaxAge", "1000"}}},
		{"a grace use", []line{{"pwdMaxAge", "1000"}, {"pwdGraceAuthNLimit", "2"}}},
		{"expires soon", []line{{"pwdMaxAge", "3000"}, {"pwdExpireWarning", "2900"}}},
		{"reset", []line{{"pwdMustChange", "TRUE"}, {"pwdMaxResetUse", "3"}}},
	} {
		d, p, s := withPolicy(t, append(c.policy, line{"pwdNetscapeControls", "TRUE"})...)
		setChanged(t, s, 2000*time.Second)
		relaxed(t, s, &op.Modify{Name: annDN, Changes: changes([]line{{"replace pwdReset", "TRUE"}})})
		setRules(t, p, "use: allow everyone to use *\nbind: allow everyone to bind\ninside: deny everyone to bind if not secure")
		for _, password := range []string{"ann", "wrong"} {
			r := withControls(t, d.NewSession(nil), &op.Bind{Version: 3, Name: annDN, Password: []byte(password)}, op.Control{OID: control.OIDPasswordPolicy})
			if r.Code != op.InvalidCredentials || r.Diagnostic != "" || len(r.Controls) > 0 {
				t.Errorf("%s, %s: %v, %d controls", c.name, password, &r.Result, len(r.Controls))
			}
		}
		for _, use := range []string{"pwdGraceUseTime", "pwdResetUseTime"} {
			if got := valuesOf(t, s, annDN, use); got != nil {
				t.Errorf("%s: %s: %q", c.name, use, got)
			}
		}
	}
}

// TestMustChangeByNobodyElse checks a user who has to change the password first. The server
// must refuse the user's proxied authorization, and a bind with another authorization
// identity.
func TestMustChangeByNobodyElse(t *testing.T) {
	d, p, s := withPolicy(t, line{"pwdMustChange", "TRUE"})
	setRules(t, p, "use: allow everyone to use *\nbind: allow everyone to bind\nread: allow users to read *, +\nact: allow \""+annDN+"\" to proxy\nown: allow self to write userPassword, title")
	proxied := op.Control{OID: "2.16.840.1.113730.3.4.18", Critical: true, Value: []byte("dn:" + bobDN)}
	ann := d.NewSession(inTLS)
	try := func(want op.Code) {
		t.Helper()
		for _, r := range []op.Request{&op.Extended{OID: control.OIDWhoAmI}, devices("(objectClass=*)"), &op.Modify{Name: bobDN, Changes: changes([]line{{"replace title", "x"}})}} {
			if got := withControls(t, ann, r, proxied); got.Code != want {
				t.Errorf("proxied %T: %v, want %d", r, &got.Result, want)
			}
		}
	}
	serve(t, ann, &op.Bind{Version: 3, Name: annDN, Password: []byte("ann")})
	try(op.Success)
	serve(t, s, &op.Modify{Name: annDN, Changes: changes([]line{{"replace userPassword", "reset"}})})
	serve(t, ann, &op.Bind{Version: 3, Name: annDN, Password: []byte("reset")})
	try(op.InsufficientAccessRights)
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256"} {
		var code op.Code
		if mechanism == "PLAIN" {
			code = send(t, d.NewSession(inTLS), mechanism, plain("dn:"+bobDN, "dn:"+annDN, "reset")).Code
		} else {
			r, _ := scramBind(t, d.NewSession(inTLS), mechanism, "ann", "reset", "dn:"+bobDN)
			code = r.Code
		}
		if code != op.InvalidCredentials {
			t.Errorf("%s as another: %d", mechanism, code)
		}
	}
}

// TestSessionsEndWithTheAccount checks that a session ends at the account's end time,
// although no commit changes the account.
func TestSessionsEndWithTheAccount(t *testing.T) {
	d, _, s := withPolicy(t)
	own := d.NewSession(nil)
	serve(t, own, &op.Bind{Version: 3, Name: annDN, Password: []byte("ann")})
	end := time.Now().Add(100 * time.Millisecond)
	relaxed(t, s, &op.Modify{Name: annDN, Changes: changes([]line{{"replace pwdEndTime", end.UTC().Format("20060102150405.000Z")}})})
	for code := op.Success; code != op.StrongerAuthRequired; time.Sleep(time.Millisecond) {
		before := time.Now().Before(end)
		code = withControls(t, own, &op.Extended{OID: control.OIDWhoAmI}).Code
		if !before && code == op.Success && time.Since(end) > 10*time.Second {
			t.Fatal("the session goes on")
		}
		if code != op.Success && code != op.StrongerAuthRequired {
			t.Fatal(code)
		}
	}
}

// TestCompareExpired checks that a comparison is false if the password cannot be used for a
// bind any more (draft-behera-ldap-password-policy, 9.4). The comparison must not use up a
// grace use.
func TestCompareExpired(t *testing.T) {
	for name, c := range map[string]struct {
		policy []line
		told   int
	}{
		"expired":     {[]line{{"pwdMaxAge", "1000"}}, 0},
		"a grace use": {[]line{{"pwdMaxAge", "1000"}, {"pwdGraceAuthNLimit", "2"}}, 0},
		"reset":       {[]line{{"pwdMustChange", "TRUE"}}, 2},
	} {
		d, p, s := withPolicy(t, c.policy...)
		setChanged(t, s, 2000*time.Second)
		relaxed(t, s, &op.Modify{Name: annDN, Changes: changes([]line{{"replace pwdReset", "TRUE"}})})
		setRules(t, p, "all: allow everyone to use *\nbind: allow everyone to bind, read, compare userPassword")
		bob := d.NewSession(nil)
		serve(t, bob, &op.Bind{Version: 3, Name: bobDN, Password: []byte("bob")})
		for password, told := range map[string]string{"ann": failed(c.told), "wrong": ""} {
			r := withControls(t, bob, &op.Compare{Name: annDN, Description: "userPassword", Value: []byte(password)}, op.Control{OID: control.OIDPasswordPolicy})
			if r.Code != op.CompareFalse || policyControl(r) != told {
				t.Errorf("%s, %s: %v, %s", name, password, &r.Result, policyControl(r))
			}
		}
		if got := valuesOf(t, s, annDN, "pwdGraceUseTime"); got != nil {
			t.Errorf("%s: %q", name, got)
		}
	}
}
