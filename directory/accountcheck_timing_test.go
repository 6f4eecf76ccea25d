package directory_test

import (
	"context"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
)

var timing = flag.Int("timing", 0, "`BINDS` of each kind that TestTimeTellsNothing compares; 0: none, as its times mean something on a quiet machine only")

var timingRounds = flag.Int("timing-rounds", 4000, "`ROUNDS` of the hashes of TestTimeTellsNothing: 4000 take a millisecond, 100000 as long as the default scheme")

// A strikeout is a directory with accounts for all kinds of refused binds.
type strikeout struct {
	t     *testing.T
	p     *partition.Partition
	d     *directory.Directory
	slow  atomic.Int64 // how long a sync takes
	hash  atomic.Int64 // the number of slow hashes
	kinds []refusedBind
}

// A refusedBind is a kind of bind that is answered with invalidCredentials. A bind may
// change its account, because it records a failure. So the i-th bind of a kind uses a fresh
// account, account(i).
type refusedBind struct {
	name     string
	account  func(i int) string
	password string
	writes   int // number of commits that record the failure, or atAnyTime
}

// atAnyTime means that a commit after the answer records that the password was right.
const atAnyTime = -1

type countedHasher struct {
	auth.Hasher
	n *atomic.Int64
}

func (c countedHasher) Verify(ctx context.Context, scheme string, stored, password []byte) (bool, error) {
	c.n.Add(1)
	return c.Hasher.Verify(ctx, scheme, stored, password)
}

// newStrikeout returns a directory with n accounts of each kind. Every account that has a
// password has the password "right".
func newStrikeout(t *testing.T, n int) *strikeout {
	x := &strikeout{t: t}
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(o errorfs.Op) error {
		if o.Kind == errorfs.OpFileSync || o.Kind == errorfs.OpFileSyncData || o.Kind == errorfs.OpFileSyncTo {
			time.Sleep(time.Duration(x.slow.Load()))
		}
		return nil
	}))
	s, err := lsm.Open(lsm.Options{Path: "store", FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	if x.p, err = partition.Open(t.Context(), s, partition.Options{Create: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		x.p.Close(context.Background())
		s.Close()
	})
	if err := onlineschema.SetSuffixes(t.Context(), x.p, []string{"dc=example,dc=com"}); err != nil {
		t.Fatal(err)
	}
	passwords := auth.New(0, countedHasher{auth.Here, &x.hash})
	x.d = newDirectory(t, x.p, directory.Options{Passwords: passwords})
	t.Cleanup(x.d.Close)
	stored := cheap(t, "right")
	passwords.Expect([]byte(stored))
	x.fill(n, stored)
	return x
}

// cheap returns a hash of the password in a slow scheme, with the number of rounds that the
// flag timing-rounds sets.
func cheap(t *testing.T, password string) string {
	t.Helper()
	rounds := *timingRounds
	salt := []byte("sixteen octets!!")
	key, err := pbkdf2.Key(sha256.New, password, salt, rounds, sha256.Size)
	if err != nil {
		t.Fatal(err)
	}
	ab64 := func(b []byte) string {
		return strings.ReplaceAll(base64.RawStdEncoding.EncodeToString(b), "+", ".")
	}
	return fmt.Sprintf("{PBKDF2-SHA256}%d$%s$%s", rounds, ab64(salt), ab64(key))
}

func (x *strikeout) fill(n int, stored string) {
	admins := x.d.NewSession(nil)
	serve(x.t, admins, &op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
	serve(x.t, admins, &op.Add{Name: "dc=example,dc=com", Attributes: attributes([]line{{"objectClass", "domain"}, {"dc", "example"}})})
	serve(x.t, admins, &op.Add{Name: policyDN, Attributes: attributes([]line{{"objectClass", "subentry"}, {"objectClass", "pwdPolicy"}, {"cn", "policy"}, {"subtreeSpecification", "{}"},
		{"pwdAttribute", "userPassword"}, {"pwdLockout", "TRUE"}, {"pwdMaxFailure", "3"}, {"pwdMaxIdle", "1000000"}})})
	yesterday := time.Now().AddDate(0, 0, -1)
	for _, k := range []struct {
		unit   string
		values []line
	}{
		{"fresh", nil}, {"denied", nil}, {"barred", nil}, {"locked", nil}, {"shut", []line{{"pwdAccountLockedTime", "000001010000Z"}}},
		{"idle", []line{{"pwdLastSuccess", "20200101000000Z"}}}, {"over", []line{{"pwdEndTime", generalized(yesterday)}}}, {"silent", nil},
	} {
		serve(x.t, admins, &op.Add{Name: "ou=" + k.unit + ",dc=example,dc=com", Attributes: attributes([]line{{"objectClass", "organizationalUnit"}, {"ou", k.unit}})})
		for i := range n {
			values := append([]line{{"pwdReset", "FALSE"}}, k.values...)
			if k.unit != "silent" {
				values = append(values, line{"userPassword", stored})
			}
			if r := relaxed(x.t, admins, &op.Add{Name: refusedDN(k.unit)(i), Attributes: person(fmt.Sprint(i), values...)}); r.Code != op.Success {
				x.t.Fatal(&r.Result)
			}
		}
	}
	setRules(x.t, x.p, "use: allow everyone to use *\nbind: allow everyone to bind\nall: allow everyone to read\nno: deny everyone to bind in below \"ou=denied,dc=example,dc=com\", below \"ou=barred,dc=example,dc=com\"")
	x.kinds = []refusedBind{
		{"a wrong password", refusedDN("fresh"), "wrong", 1},
		{"a name without an entry", refusedDN("missing"), "wrong", 0},
		{"a locked account", refusedDN("locked"), "wrong", 0},
		{"a locked account, the right password", refusedDN("locked"), "right", 0},
		{"a disabled account", refusedDN("shut"), "wrong", 0},
		{"a disabled account, the right password", refusedDN("shut"), "right", 0},
		{"an account that has ended, the right password", refusedDN("over"), "right", 0},
		{"an account without a password", refusedDN("silent"), "wrong", 1},
		{"an account that was idle for too long, the right password", refusedDN("idle"), "right", 0},
		{"an account that may not bind", refusedDN("denied"), "wrong", 1},
		{"an account that may not bind, the right password", refusedDN("barred"), "right", atAnyTime},
	}
	for i := range n {
		for range 3 {
			x.refused(refusedDN("locked")(i), "wrong")
		}
	}
}

func refusedDN(unit string) func(int) string {
	return func(i int) string { return fmt.Sprintf("uid=%d,ou=%s,dc=example,dc=com", i, unit) }
}

// refused makes a bind that must be refused, and returns how long the answer took.
func (x *strikeout) refused(name, password string) time.Duration {
	x.t.Helper()
	s, r := x.d.NewSession(nil), &op.Bind{Version: 3, Name: name, Password: []byte(password)}
	var out answers
	begun := time.Now()
	s.Serve(x.t.Context(), &op.Message{Request: r}, &out)
	took := time.Since(begun)
	if out.done.Code != op.InvalidCredentials || out.done.Diagnostic != "" || len(out.done.Controls) > 0 {
		x.t.Fatalf("%s: %v, %d controls", name, &out.done.Result, len(out.done.Controls))
	}
	return took
}

// TestRefusedBindsDoTheSame checks the work of refused binds: each kind computes one slow
// hash, and either records the failure or waits as long as recording takes.
func TestRefusedBindsDoTheSame(t *testing.T) {
	x := newStrikeout(t, 80)
	const sync = 30 * time.Millisecond
	x.slow.Store(int64(sync))
	for i := range 64 { // the other kinds of binds wait as long as one of these binds takes
		x.refused(refusedDN("fresh")(i+1), "wrong")
	}
	for _, k := range x.kinds {
		before, hashes := revisionOf(x.p), x.hash.Load()
		took := x.refused(k.account(0), k.password)
		if n := x.hash.Load() - hashes; n != 1 {
			t.Errorf("%s: %d slow hashes", k.name, n)
		}
		if n := commitsAfter(t, x.p, before); k.writes != atAnyTime && n != k.writes {
			t.Errorf("%s: %d commits, want %d", k.name, n, k.writes)
		}
		if took < sync {
			t.Errorf("%s: answered after %s, which is less than a commit takes", k.name, took)
		}
	}
}

// TestRefusalsWait checks that each kind of bind that is refused without a commit waits as
// long as a commit takes. A Directory delays a refused bind until it has taken as long as
// earlier binds with the same mechanism, which could hide a missing wait. So the test opens a
// new Directory for each kind.
func TestRefusalsWait(t *testing.T) {
	x := newStrikeout(t, 20)
	const sync = 30 * time.Millisecond
	for i, k := range x.kinds {
		x.d = newDirectory(t, x.p, directory.Options{Passwords: expecting(cheap(t, "right"))})
		x.slow.Store(int64(sync))
		if r := send(t, x.d.NewSession(inTLS), "PLAIN", plain("", "dn:"+refusedDN("fresh")(i+1), "wrong")); r.Code != op.InvalidCredentials {
			t.Fatal(&r.Result)
		}
		if took := x.refused(k.account(0), k.password); took < sync {
			t.Errorf("%s: answered after %s, which is less than a commit takes", k.name, took)
		}
		x.slow.Store(0)
		x.d.Close()
	}
}

// TestTimeTellsNothing compares the times that binds of different kinds take to be refused.
// An attacker could try to distinguish two kinds by the time of the answer. The area under
// the curve (AUC) of such a classifier is the probability that a bind of one kind takes longer
// than a bind of the other kind. The AUC must be between 0.48 and 0.52.
func TestTimeTellsNothing(t *testing.T) {
	if *timing == 0 {
		t.Skip("give -timing BINDS, on a quiet machine")
	}
	x := newStrikeout(t, *timing)
	r := rand.New(rand.NewPCG(1, 2))
	took := make([][]float64, len(x.kinds))
	for i := range *timing {
		for _, k := range r.Perm(len(x.kinds)) {
			took[k] = append(took[k], float64(x.refused(x.kinds[k].account(i), x.kinds[k].password)))
		}
	}
	worst := 0.5
	for a := range took {
		slices.Sort(took[a])
		t.Logf("%-50s median %s", x.kinds[a].name, time.Duration(took[a][len(took[a])/2]))
		for b := range a {
			auc := areaUnder(took[a], took[b])
			if max(auc, 1-auc) > worst {
				worst = max(auc, 1-auc)
			}
			if auc < 0.48 || auc > 0.52 {
				t.Errorf("%s and %s: AUC %.3f", x.kinds[a].name, x.kinds[b].name, auc)
			}
		}
	}
	t.Logf("%d binds of each kind, worst AUC %.3f", *timing, worst)
}

// areaUnder returns the probability that a value of a is greater than a value of b. Equal
// values count half. Both slices must be sorted.
func areaUnder(a, b []float64) float64 {
	sum, less, same := 0.0, 0, 0
	for _, v := range a {
		for less < len(b) && b[less] < v {
			less++
		}
		for same = less; same < len(b) && b[same] == v; same++ {
		}
		sum += float64(less) + float64(same-less)/2
	}
	return sum / float64(len(a)) / float64(len(b))
}
