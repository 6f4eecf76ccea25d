package integration

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/store/hbase"
	"github.com/seed-4dac0d86/ldapd/store/hbase/hbasetest"
)

// TestStartFails checks that a server that cannot start reports the reason and ends with
// the right exit status, without a panic.
func TestStartFails(t *testing.T) {
	t.Parallel()
	served := filepath.Join(t.TempDir(), "store")
	importInto(t, served, example)
	running := serve(t, served)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	cases := []struct {
		name, store string
		args        []string
		damage      func(t *testing.T, store string)
		status      int
		want        string
	}{
		{name: "a folder in use", store: served, status: 1, want: fmt.Sprintf("in use by process %d", running.cmd.Process.Pid)},
		{name: "a file", store: file, status: 1, want: file},
		{name: "a folder in a file", store: file + "/store", status: 1, want: file},
		{name: "a port in use", args: []string{"--listen", "ldap://" + taken.Addr().String()}, status: 2, want: "address already in use"},
		{name: "a bad suffix", args: []string{"--suffix", "nonsense"}, status: 2, want: "--suffix"},
		{name: "a bad HBase URL", store: "hbase://", status: 2, want: "it must look like hbase://"},
		{name: "a newer store", status: 1, want: "use a newer program", damage: func(t *testing.T, store string) {
			replace(t, filepath.Join(store, "ldapd.store"), "format 1", "format 2")
		}},
		{name: "a lost header", status: 1, want: "ldapd.store", damage: func(t *testing.T, store string) {
			if err := os.Remove(filepath.Join(store, "ldapd.store")); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "a manifest of garbage", status: 1, want: "corrupt", damage: func(t *testing.T, store string) {
			for _, name := range files(t, store, "MANIFEST-*") {
				if err := os.WriteFile(name, []byte(strings.Repeat("garbage", 1000)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}},
		{name: "a lost log", status: 1, want: "remove the file ldapd.closed", damage: func(t *testing.T, store string) {
			logs := files(t, store, "*.log")
			if err := os.Remove(slices.Max(logs)); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "a lost table file", status: 1, want: "does not exist", damage: func(t *testing.T, store string) {
			for _, name := range files(t, store, "*.sst") {
				if err := os.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			store := c.store
			if store == "" {
				store = filepath.Join(t.TempDir(), "store")
				importInto(t, store, example)
			}
			if c.damage != nil {
				c.damage(t, store)
			}
			out, status := ldapdRun(t, append([]string{"serve", "--store", store, "--listen", "ldap://127.0.0.1:0"}, c.args...)...)
			wantFailure(t, out, status, c.status, c.want)
		})
	}
	if names, err := searchDN(running.admin(), suffix, ldap.ScopeBaseObject, "(dc=example)"); err != nil || len(names) != 1 {
		t.Errorf("the running server was disturbed: %v, %v", names, err)
	}
}

// TestNoHBase checks that a server that cannot reach HBase reports the address. The test
// lasts as long as the server waits for HBase.
func TestNoHBase(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	out, status := ldapdRun(t, "serve", "--store", "hbase://"+addr+"/x", "--listen", "ldap://127.0.0.1:0")
	wantFailure(t, out, status, 1, addr)
}

// wantFailure checks the exit status of a command, and that its output is an error message
// that contains want, without a panic.
func wantFailure(t *testing.T, out string, status, wantStatus int, want string) {
	t.Helper()
	if status != wantStatus || !strings.Contains(out, want) || !strings.Contains(out, "ldapd: ") {
		t.Errorf("exit status %d, want %d and a report with %q:\n%s", status, wantStatus, want, out)
	}
	if strings.Contains(out, "panic") || strings.Contains(out, "goroutine ") {
		t.Errorf("a panic:\n%s", out)
	}
}

func files(t *testing.T, store, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(store, pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	return names
}

func replace(t *testing.T, file, old, text string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), old) {
		t.Fatalf("%s is %q", file, b)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(b), old, text, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestUnwritableFolder runs the server as a user who may not write to the folder. The error
// must name the folder and the cause.
func TestUnwritableFolder(t *testing.T) {
	dir, err := os.MkdirTemp("", "ldapd-unwritable")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		os.Chmod(dir, 0o700)
		os.RemoveAll(dir)
	})
	var nobody *syscall.Credential
	if os.Getuid() == 0 {
		// Root may write everywhere, so another user runs the program. This user must be able
		// to read the program's file.
		nobody = &syscall.Credential{Uid: 65534, Gid: 65534}
		ldapd(t)
		if err := os.Chmod(program.dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	for _, store := range []string{dir, filepath.Join(dir, "store")} {
		out, status := ldapdRunAs(t, nobody, "serve", "--create", "--store", store, "--listen", "ldap://127.0.0.1:0")
		wantFailure(t, out, status, 1, store)
		wantFailure(t, out, status, 1, "permission denied")
	}
}

// TestDamagedTable damages the sorted tables of a store before it is served. A read of
// damaged data must return an error, never a wrong answer, and the server must
// continue.
func TestDamagedTable(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	importInto(t, store, example)
	for _, name := range files(t, store, "*.sst") {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		// The end of a file contains its index. If the end is damaged, the file cannot be
		// opened.
		for i := range b[:len(b)*3/4] {
			b[i] ^= 0x5a
		}
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := tryServe(t, store)
	if err != nil { // the header or the heads could not be read
		wantFailure(t, err.Error(), 1, 1, "corrupt")
		return
	}
	names, err := searchDN(p.admin(), suffix, ldap.ScopeWholeSubtree, "(objectClass=*)")
	if err == nil && len(names) != 90 {
		t.Errorf("%d entries of a damaged store, and no error", len(names))
	}
	if err != nil {
		wantCode(t, "search", err, ldap.LDAPResultOther)
	}
	if _, err := p.admin().WhoAmI(nil); err != nil {
		t.Errorf("the server is gone: %v", err)
	}
}

// TestFullDisk fills the disk of a server. Writes must be refused with the result
// unavailable (52), reads must continue, and writes must be accepted again, without help,
// once there is space. Nothing acknowledged may be lost, even if the server is killed.
func TestFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=24m"); err != nil {
		t.Skipf("cannot mount a small disk: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(disk, syscall.MNT_DETACH) })
	store := filepath.Join(disk, "store")
	importInto(t, store, example)
	p := serve(t, store)
	c := ldapChanger{p.admin()}
	var acked []*person
	next := 0
	write := func() error {
		next++
		x := &person{uid: fmt.Sprintf("r0-c0-%d", next)}
		err := life[0].do(c, x)
		if err == nil {
			x.acked = 1
		}
		x.tried = 1
		acked = append(acked, x)
		return err
	}
	for range 10 {
		if err := write(); err != nil {
			t.Fatal(err)
		}
	}
	ballast := fill(t, disk)
	refused := 0
	for i := 0; i < 20000 && refused < 20; i++ {
		if err := write(); err != nil {
			refused++
			wantCode(t, "add on a full disk", err, ldap.LDAPResultUnavailable)
			if names, err := searchDN(c.Conn, suffix, ldap.ScopeWholeSubtree, "(uid=r0-c0-1)"); err != nil || len(names) != 1 {
				t.Fatalf("search on a full disk: %v, %v", names, err)
			}
		}
		if t.Failed() {
			return
		}
	}
	if refused == 0 {
		t.Fatal("the disk did not get full")
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(p.stderr.String(), "the disk is full") {
		t.Errorf("the log says nothing of it:\n%s", p.stderr.String())
	}
	eventually(t, "writes go on", write)
	(&crowd{people: acked}).check(t, p) // writes that were refused or had an unknown outcome are complete or absent
	p.kill()
	p = serve(t, store)
	crowd := &crowd{people: acked}
	crowd.recovered(t, p)
	p.stop()
	checkStore(t, store)
	t.Logf("%d adds, %d refused, %d of those stand", next, refused, crowd.landed)
}

// fill fills the disk with one file, and returns its path.
func fill(t *testing.T, disk string) (file string) {
	t.Helper()
	file = filepath.Join(disk, "ballast")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	return file
}

// TestHBaseGone kills HBase while a server runs and clients write, and starts HBase
// again. In between, operations must end with the result unavailable (52), or with the result
// other (80) if their outcome is unknown. Afterwards the server must accept operations without
// help. Nothing acknowledged may be lost. HBase is found without ZooKeeper.
func TestHBaseGone(t *testing.T) {
	t.Parallel()
	i := hbasetest.Own(t)
	store := hbase.RPCScheme + i.Servers() + "/" + hbasetest.Prefix(t)
	importInto(t, store, example)
	p := serve(t, store, "--lease", "5s", "--status-listen", "http://127.0.0.1:0")
	awaitWriter(t, p)
	c := p.admin()
	wantHealth(t, p, "with HBase", 200, 200, 200)
	w := &steadyWriters{t: t}
	w.start(p, 4)
	eventually(t, "clients write", w.acked(20))
	i.Kill()
	begin := time.Now()
	_, err := searchDN(c, suffix, ldap.ScopeWholeSubtree, "(uid=*)")
	wantCode(t, "search without HBase", err, ldap.LDAPResultUnavailable)
	wantCode(t, "compare without HBase", compare(c, staffDN, "cn", "admins"), ldap.LDAPResultUnavailable)
	t.Logf("two operations ended after %v", time.Since(begin).Round(time.Second))
	eventually(t, "writes are refused", w.refused(4))
	wantHealth(t, p, "without HBase", 200, 503, 503)
	eventually(t, "the lease is lost", func() error { return reason(t, p, "/ready?for=writes", "no slot among the writers") })
	wantHealth(t, p, "without HBase and a lease", 200, 503, 503)
	if _, err := c.WhoAmI(nil); err != nil {
		t.Errorf("an operation that needs no store: %v", err)
	}
	if err := i.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	begin = time.Now()
	eventually(t, "reads go on", func() error { return compare(c, staffDN, "cn", "admins") })
	t.Logf("reads went on after %v", time.Since(begin).Round(time.Second))
	eventually(t, "writes go on", w.acked(20))
	t.Logf("writes went on after %v", time.Since(begin).Round(time.Second))
	wantHealth(t, p, "with HBase again", 200, 200, 200)
	crowd := &crowd{people: w.end()}
	crowd.recovered(t, p)
	p.stop()
	checkStore(t, store)
	t.Logf("%d people; %d operations were not acknowledged and stand", len(crowd.people), crowd.landed)
}

// steadyWriters are clients that continue to write after operations that were refused or
// whose outcome is unknown.
type steadyWriters struct {
	t             *testing.T
	wg            sync.WaitGroup
	stopped       atomic.Bool
	acks, refusal atomic.Int64

	mu     sync.Mutex
	people []*person
}

func (w *steadyWriters) start(p *process, n int) {
	for client := range n {
		c := ldapChanger{p.admin()}
		w.wg.Go(func() {
			for i := 0; !w.stopped.Load(); i++ {
				x := &person{uid: fmt.Sprintf("r0-c%d-%d", client, i)}
				w.mu.Lock()
				w.people = append(w.people, x)
				w.mu.Unlock()
				if !w.live(c, x) {
					return
				}
			}
		})
	}
}

// live does as many steps of one person's life as the server accepts. It returns false after
// an error that must not happen.
func (w *steadyWriters) live(c changer, x *person) bool {
	for step := 1; step <= len(life) && !w.stopped.Load(); step++ {
		x.tried = step
		switch err := life[step-1].do(c, x); code(err) {
		case ldap.LDAPResultSuccess:
			x.acked = step
			w.acks.Add(1)
		case ldap.LDAPResultUnavailable, ldap.LDAPResultOther:
			w.refusal.Add(1)
			time.Sleep(100 * time.Millisecond)
			return true
		default:
			w.t.Errorf("%s of %s: %v", life[step-1].name, x.uid, err)
			return false
		}
	}
	return true
}

// acked returns a function that returns nil after n more operations were acknowledged.
func (w *steadyWriters) acked(n int64) func() error { return atLeast(&w.acks, w.acks.Load()+n) }

func (w *steadyWriters) refused(n int64) func() error { return atLeast(&w.refusal, w.refusal.Load()+n) }

func atLeast(count *atomic.Int64, n int64) func() error {
	return func() error {
		if got := count.Load(); got < n {
			return fmt.Errorf("%d by now, want %d", got, n)
		}
		return nil
	}
}

// end waits until the writers have finished and returns their people.
func (w *steadyWriters) end() []*person {
	w.stopped.Store(true)
	w.wg.Wait()
	return w.people
}

func compare(c *ldap.Conn, name, attribute, value string) error {
	is, err := c.Compare(name, attribute, value)
	if err == nil && !is {
		err = fs.ErrNotExist
	}
	return err
}
