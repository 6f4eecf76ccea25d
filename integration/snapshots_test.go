package integration

import (
	"crypto/sha1"
	"encoding/base64"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
)

var snapshotRounds = flag.Int("snapshots", 1, "how many backups by HBase snapshots are taken and compared while clients write")

// TestSnapshots takes HBase snapshots of a store while clients write at three servers and
// servers are killed. A clone must be equal to the state that the store itself shows at
// the checkpoint, and must have no fault.
func TestSnapshots(t *testing.T) {
	t.Parallel()
	store := storeKinds[1].make(t)
	mustRun(t, "import", "--store", store, "--suffix", suffix, "--suffix", "cn=views", example, shiftEntries(t))
	// A backup waits until no write of a killed server can arrive.
	w := &writers{fleet: newFleet(t, store, "--test-in-flight", settleTime.String())}
	var g sync.WaitGroup
	for n := range 2 * servers {
		g.Go(w.client(n, w.write))
	}
	importBeside(t, store)
	stage(t, store)
	for round := range *snapshotRounds {
		w.replace(round % servers)
		before := w.done.Load()
		name, begin := fmt.Sprintf("backup-%d", round), time.Now()
		mustRun(t, "backup", "snapshot", "--store", store, name)
		if round == 0 {
			mustRun(t, "branch", "merge", "--store", store, "staged") // the backup must still have the branch open
		}
		if w.done.Load() == before {
			t.Error("nobody wrote during the backup")
		}
		w.resting.Lock() // pause the writers, which would slow down the comparison
		compareClone(t, store, fmt.Sprintf("%s-copy%d", store, round), name, begin)
		w.resting.Unlock()
		if list := mustRun(t, "branch", "list", "--store", fmt.Sprintf("%s-copy%d", store, round)); strings.Contains(list, "staged: open, 1 entries") != (round == 0) {
			t.Errorf("branches of the clone of %s: %q", name, list)
		}
	}
	mustRun(t, "branch", "merge", "--store", store+"-copy0", "staged")
	if out := exported(t, store+"-copy0"); !strings.Contains(out, "dn: ou=staged,") {
		t.Error("a branch that was merged in the clone is not seen there")
	}
	checkStore(t, store+"-copy0")
	w.stopped.Store(true)
	g.Wait()
	t.Logf("%d updates", w.done.Load())
	if out := mustRun(t, "backup", "snapshot", "--store", store, "--list"); strings.Count(out, " tables\n") != *snapshotRounds {
		t.Errorf("the list of backups:\n%s", out)
	}
	mustRun(t, "backup", "snapshot", "--store", store, "--delete", "backup-0")
	if out := mustRun(t, "backup", "snapshot", "--store", store); strings.Contains(out, "backup-0") {
		t.Errorf("the list of backups:\n%s", out)
	}
	w.end()
}

func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	out, status := ldapdRun(t, args...)
	if status != 0 {
		t.Fatalf("ldapd %s: exit status %d\n%s", strings.Join(args, " "), status, out)
	}
	return out
}

// stage makes a branch with an entry.
func stage(t *testing.T, store string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "staged.ldif")
	if err := os.WriteFile(file, fmt.Appendf(nil, "dn: ou=staged,%s\nobjectClass: organizationalUnit\n", suffix), 0o600); err != nil {
		t.Fatal(err)
	}
	mustRun(t, "branch", "create", "--store", store, "staged")
	mustRun(t, "import", "--store", store, "--branch", "staged", file)
}

// importBeside imports entries into a store while servers write to it.
func importBeside(t *testing.T, store string) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "dn: ou=imported,%s\nobjectClass: organizationalUnit\n\n", suffix)
	for n := range 100 {
		fmt.Fprintf(&b, "dn: uid=%d,ou=imported,%s\nobjectClass: account\n\n", n, suffix)
	}
	file := filepath.Join(t.TempDir(), "imported.ldif")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := mustRun(t, "import", "--store", store, file); !strings.Contains(out, "imported 101 entries") {
		t.Error(out)
	}
}

// withoutForgotten returns an export of a clone without passwords that the store itself has forgotten meanwhile. A password that the
// store still has stays, so one that differs is a difference.
func withoutForgotten(clone, store string) string {
	var kept []string
	wanted := strings.SplitAfter(store, "\n")
	for _, line := range strings.SplitAfter(clone, "\n") {
		if n := len(kept); strings.HasPrefix(line, "userPassword: ") && (n >= len(wanted) || wanted[n] != line) {
			continue
		}
		kept = append(kept, line)
	}
	return strings.Join(kept, "")
}

// TestWithoutForgotten checks that only passwords that the store has no more are left out.
func TestWithoutForgotten(t *testing.T) {
	for _, c := range []struct{ clone, store, want string }{
		{"uid: a\nuserPassword: x\nuid: b\n", "uid: a\nuserPassword: x\nuid: b\n", "uid: a\nuserPassword: x\nuid: b\n"},
		{"uid: a\nuserPassword: x\nuid: b\n", "uid: a\nuid: b\n", "uid: a\nuid: b\n"},
		{"uid: a\nuserPassword: x\nuid: b\n", "uid: a\nuserPassword: y\nuid: b\n", "uid: a\nuid: b\n"},
		{"uid: a\nuid: b\n", "uid: a\nuserPassword: x\nuid: b\n", "uid: a\nuid: b\n"},
	} {
		if got := withoutForgotten(c.clone, c.store); got != c.want {
			t.Errorf("%q beside %q is %q, want %q", c.clone, c.store, got, c.want)
		}
	}
}

// compareClone clones a backup, checks the clone, compares the clone with the store's
// own past, and writes to the clone. The backup was taken after begin.
func compareClone(t *testing.T, store, clone, name string, begin time.Time) {
	t.Helper()
	mustRun(t, "backup", "clone", "--store", store, "--to", clone, name)
	checkStore(t, clone)
	want := exported(t, store, "--at", name)
	got := exported(t, clone)
	if time.Since(begin) > time.Minute { // the store forgets replaced passwords after two minutes (txn.Options.SecretAge)
		got = withoutForgotten(got, want)
	}
	if got != want {
		t.Errorf("the clone differs from the store at %s: %s", name, difference(got, want))
	}
	if got, want := mustRun(t, "view", "show", "--store", clone, "by-shift"), mustRun(t, "view", "show", "--store", store, "by-shift"); got != want {
		t.Errorf("records of the clone:\n%swant\n%s", got, want)
	}
	if out, status := ldapdRun(t, "backup", "clone", "--store", store, "--to", clone, name); status == 0 || !strings.Contains(out, "there are tables of this prefix already") {
		t.Errorf("a second clone: exit status %d\n%s", status, out)
	}
	p := serve(t, clone)
	awaitWriter(t, p)
	c := p.admin()
	m := ldap.NewModifyRequest(suffix, nil)
	m.Replace("description", []string{"written to a clone"})
	wantCode(t, "a write to the clone", persist(func() error { return c.Modify(m) }), ldap.LDAPResultSuccess)
	c.Close()
	p.stop()
}

// exported returns an export of a store.
func exported(t *testing.T, store string, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "export.ldif")
	mustRun(t, append([]string{"export", "--store", store, "--output", file}, args...)...)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// difference describes the first difference of two texts.
func difference(a, b string) string {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(as), len(bs)) {
		if as[i] != bs[i] {
			return fmt.Sprintf("line %d: %q, want %q", i, as[i], bs[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(as), len(bs))
}

// writers are clients that add, change, rename and delete entries at three servers.
type writers struct {
	*fleet
	done    atomic.Int64
	resting sync.RWMutex // locked while the clients must not write
}

// write makes one update after a pause, because clients that never pause would only slow down
// everything else that the test does.
func (w *writers) write(c *ldap.Conn, r *rand.Rand) bool {
	time.Sleep(150 * time.Millisecond)
	w.resting.RLock()
	defer w.resting.RUnlock()
	result := code(update(c, r))
	if result == ldap.LDAPResultSuccess {
		w.done.Add(1)
	}
	return result != -1 && result != ldap.LDAPResultOther
}

// hashed returns a password in a form that the server need not hash.
func hashed(r *rand.Rand) string {
	b := make([]byte, sha1.Size+4)
	b[0] = byte(r.IntN(256))
	return "{SSHA}" + base64.StdEncoding.EncodeToString(b)
}

// update makes a random update of one of a few entries. The update may fail.
func update(c *ldap.Conn, r *rand.Rand) error {
	dn := func() string { return fmt.Sprintf("uid=w%d,%s", r.IntN(30), suffix) }
	switch r.IntN(6) {
	case 0:
		add := ldap.NewAddRequest(dn(), nil)
		add.Attribute("objectClass", []string{"inetOrgPerson"})
		add.Attribute("cn", []string{"writer"})
		add.Attribute("sn", []string{fmt.Sprint(r.IntN(5))})
		add.Attribute("userPassword", []string{hashed(r)})
		return c.Add(add)
	case 1:
		return c.Del(ldap.NewDelRequest(dn(), nil))
	case 2:
		return c.ModifyDN(ldap.NewModifyDNRequest(dn(), fmt.Sprintf("uid=w%d", r.IntN(30)), true, ""))
	case 3:
		m := ldap.NewModifyRequest(dn(), nil)
		m.Replace("userPassword", []string{hashed(r)})
		return c.Modify(m)
	case 4:
		m := ldap.NewModifyRequest(dn(), nil)
		m.Replace("mail", []string{fmt.Sprint(r.IntN(1000), "@example.com")})
		m.Replace("sn", []string{fmt.Sprint(r.IntN(5))})
		return c.Modify(m)
	default:
		m := ldap.NewModifyRequest(suffix, nil)
		m.Replace("description", []string{fmt.Sprint(r.IntN(1000))})
		return c.Modify(m)
	}
}
