package directory_test

import (
	"flag"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/directory/account"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

var totpCodes = flag.Int("codes", 40, "`CODES` that TestCodesAreUsedOnce offers to two servers at once")

// TestCodesAreUsedOnce offers each code to two servers of a store at once. Exactly one of
// them must accept the code, whether it is the code of the current time step, of the step
// before or of the step after.
func TestCodesAreUsedOnce(t *testing.T) {
	cs := newServers(t)
	stored := cheap(t, "p") // a cheap hash, so that the test can offer many codes
	for i, c := range cs {
		cs[i].d = newDirectory(t, c.p, directory.Options{Passwords: expecting(stored)})
		t.Cleanup(cs[i].d.Close)
	}
	accounts := make([]string, (*totpCodes+2)/3)
	for i := range accounts {
		accounts[i] = fmt.Sprint("u", i)
		cs[0].addPersonWith(accounts[i], stored)
	}
	a, err := directory.NewAccounts(cs[0].p, "cn=test")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	offered, accepted := 0, 0
	for _, uid := range accounts {
		name := "uid=" + uid + ",dc=example,dc=com"
		parsed, err := dn.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := a.StartTOTP(t.Context(), parsed, "test")
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		secret, err := account.DecodeSecret(u.Query().Get("secret"))
		if err != nil {
			t.Fatal(err)
		}
		if err := cs[1].p.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		g := account.Generator{Secret: secret, Digits: 6, Period: 30 * time.Second, Algorithm: "SHA1"}
		step := time.Now().Unix() / 30
		for _, s := range []int64{step - 1, step, step + 1} {
			if offered == *totpCodes {
				break
			}
			code, err := g.Code(s)
			if err != nil {
				t.Fatal(err)
			}
			n := bindAtBoth(cs, name, "p"+code)
			offered, accepted = offered+1, accepted+n
			now := time.Now().Unix() / 30
			if fits := s >= now-1 && s <= now+1; n > 1 || n == 0 && fits && now == step {
				t.Fatalf("%s: the code of step %d at %d was accepted %d times", uid, s, now, n)
			}
		}
	}
	t.Logf("%d codes, accepted %d times", offered, accepted)
}

// bindAtBoth binds at two servers at once, and returns how many of them accept the bind.
func bindAtBoth(cs [2]*client, name, password string) (accepted int) {
	var all sync.WaitGroup
	var codes [2]op.Code
	for i, c := range cs {
		all.Go(func() {
			var out answers
			c.d.NewSession(nil).Serve(c.t.Context(), &op.Message{Request: &op.Bind{Version: 3, Name: name, Password: []byte(password)}}, &out)
			codes[i] = out.done.Code
		})
	}
	all.Wait()
	for _, code := range codes {
		if code == op.Success {
			accepted++
		}
	}
	return accepted
}

// expecting returns an auth.Passwords at which a failed attempt costs as much as verifying
// the stored password.
func expecting(stored string) *auth.Passwords {
	p := auth.New(0, auth.Here)
	p.Expect([]byte(stored))
	return p
}
