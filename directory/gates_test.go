package directory_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/control"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/usage"
	"github.com/seed-4dac0d86/ldapd/table/tabletest"
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

// TestLockedTellsNothing checks that the right and a wrong password of a locked account are
// answered like a wrong password, controls included.
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

// TestGraceAtTwoServers checks that two servers together allow no more uses of an expired
// password than the policy, although neither follows the other meanwhile.
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
	time.Sleep(1200 * time.Millisecond) // until the passwords have expired
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

// TestUsageOfDeletedAccount checks that a failure is not recorded of an account that is
// deleted at the same time.
func TestUsageOfDeletedAccount(t *testing.T) {
	_, p, s := withPolicy(t)
	name, err := dn.Parse(annDN)
	if err != nil {
		t.Fatal(err)
	}
	state := p.Snapshot()
	at, err := state.Find(t.Context(), name)
	state.Close()
	if err != nil {
		t.Fatal(err)
	}
	tries := 0
	_, err = usage.Update(t.Context(), p, func(tx *usage.Tx) error {
		if err := tx.Begin(t.Context(), at.ID); err != nil {
			return err
		}
		if tries++; tries == 1 {
			serve(t, s, &op.Delete{Name: annDN})
		}
		tx.Stamp(at.ID, tx.Schema().Attribute("pwdFailureTime"))
		return nil
	})
	if !partition.Is(err, partition.NoSuchEntry) {
		t.Errorf("%d tries: %v", tries, err)
	}
}

// TestOldPasswordsCostTheSame checks that where a policy ignores old passwords, every bind
// computes as many slow hashes if its password is wrong or is not verified.
func TestOldPasswordsCostTheSame(t *testing.T) {
	x := newStrikeout(t, 2)
	admins := x.d.NewSession(nil)
	serve(t, admins, &op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
	changePolicy(t, admins, "pwdIgnoreOld", "2", "pwdInHistory", "2")
	for _, k := range x.kinds {
		if k.writes == atAnyTime || strings.Contains(k.name, "idle") { // the password is verified, and right
			continue
		}
		before := x.hash.Load()
		x.refused(k.account(1), k.password)
		if n := x.hash.Load() - before; n != 3 {
			t.Errorf("%s: %d slow hashes, want 3", k.name, n)
		}
	}
}
