package integration

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/directory/access"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/hbase/hbasetest"
)

// These are the name and password of the administrator.
const (
	adminDN       = "cn=admin"
	adminPassword = "secret"
)

// example is the path of the sample directory.
const example = "../testdata/ldif/example.ldif"

// patience bounds most waits. It is long because the machine may be busy with other
// work.
const patience = 2 * time.Minute

// program is the server's binary, built once for all tests.
var program = struct {
	once      sync.Once
	dir, path string
	err       error
}{}

// TestMain makes commands create stores with the profile "open", because most tests read
// anonymously. The stores have no password policy, because the tests' passwords are short.
func TestMain(m *testing.M) {
	// The tests wait for servers and for HBase much of the time.
	if err := flag.Set("test.parallel", strconv.Itoa(runtime.GOMAXPROCS(0)+2)); err != nil {
		panic(err)
	}
	os.Unsetenv("GOGC") // `make test` sets it for tests; servers choose their own value
	os.Setenv("LDAPD_ACCESS", "open")
	os.Setenv("LDAPD_PASSWORD_POLICY", "none")
	status := m.Run()
	if program.dir != "" {
		os.RemoveAll(program.dir)
	}
	os.Exit(status)
}

// ldapd returns the path of the server's binary, which it builds at the first call, as releases are built: without
// what debuggers read, which takes half of the time of linking.
func ldapd(t testing.TB) string {
	t.Helper()
	program.once.Do(func() {
		if program.dir, program.err = os.MkdirTemp("", "ldapd-test"); program.err != nil {
			return
		}
		program.path = filepath.Join(program.dir, "ldapd")
		if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", program.path, "../cmd/ldapd").CombinedOutput(); err != nil {
			program.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if program.err != nil {
		t.Fatal(program.err)
	}
	return program.path
}

// storeKinds are the kinds of stores that a process can use.
var storeKinds = []struct {
	name string
	make func(t testing.TB) string // the value of --store
}{
	{"lsm", func(t testing.TB) string { return filepath.Join(t.TempDir(), "store") }},
	{"hbase", func(t testing.TB) string {
		quorum, prefix := hbasetest.Start(t), hbasetest.Prefix(t)
		makeOnHBase(t, quorum, prefix)
		return "hbase://" + quorum + "/" + prefix
	}},
}

// makeOnHBase makes the store that TestMain's settings make, with fewer indexes: each is a table, which takes HBase 0.2 s of CPU
// time, and a write of each commit. Stores with all indexes are made by the program itself in TestMigrateToHBase, TestTraces and
// TestSealedSecrets.
func makeOnHBase(t testing.TB, quorum, prefix string) {
	t.Helper()
	ctx := context.Background()
	s := openPrefix(t, quorum, prefix)
	open, err := access.Profile("open", schema.Core(), []string{suffix})
	if err != nil {
		t.Fatal(err)
	}
	few := slices.DeleteFunc(catalog.DefaultIndexes(), func(x catalog.Index) bool {
		return strings.Contains(" givenName ou l departmentNumber gidNumber memberUid employeeNumber ", " "+x.Attribute+" ")
	})
	p, err := partition.Open(ctx, s, partition.Options{Create: true, Indexes: few, References: catalog.DefaultReferences(), Access: open})
	if err == nil {
		err = p.Close(ctx)
	}
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
}

// passwordFile returns the value of --admin-password-file.
func passwordFile(t testing.TB) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(name, []byte(adminPassword+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// A process is a running command of the program.
type process struct {
	t      testing.TB
	cmd    *exec.Cmd
	store  string
	urls   []string // the URLs at which the process listens
	stderr safeBuffer
	done   chan struct{} // closed when the process has ended
}

// serve starts a server for the naming context of the sample directory, on a free port. It
// returns when clients can connect. If the server ends because it cannot reach its store,
// serve starts the server again, as a supervisor does. On a busy machine, HBase may need
// seconds to answer.
func serve(t testing.TB, store string, args ...string) *process {
	t.Helper()
	p, err := tryServe(t, store, args...)
	for range 5 {
		if err == nil || !strings.Contains(err.Error(), "store unavailable") {
			break
		}
		p, err = tryServe(t, store, args...)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// tryServe is like serve, but returns an error if the server does not start. args come
// last on the command line, so that they take precedence.
func tryServe(t testing.TB, store string, args ...string) (*process, error) {
	t.Helper()
	usual := []string{"serve", "--store", store, "--create", "--suffix", suffix, "--admin-password-file", passwordFile(t), "--cache", "32MiB"}
	if !strings.Contains(strings.Join(args, " "), "--listen") {
		usual = append(usual, "--listen", "ldap://127.0.0.1:0")
	}
	p, stdout := start(t, nil, append(usual, args...)...)
	p.store = store
	ready := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(stdout).ReadString('\n')
		ready <- line
		_, _ = io.Copy(io.Discard, stdout)
	}()
	select {
	case line := <-ready:
		urls := strings.Fields(line)
		if len(urls) < 2 || urls[0] != "ready" {
			<-p.done
			return nil, fmt.Errorf("ldapd serve: %v\n%s", p.cmd.ProcessState, p.stderr.String())
		}
		p.urls = urls[1:]
		return p, nil
	case <-time.After(patience):
		return nil, fmt.Errorf("ldapd serve does not get ready\n%s", p.stderr.String())
	}
}

// start starts a command as a user; nil means the current user. It kills the command when
// the test ends.
func start(t testing.TB, as *syscall.Credential, args ...string) (*process, io.Reader) {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(ldapd(t), args...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), "LDAPD_CONFIG=") // not what the machine has
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = w, &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: as}
	started := make(chan error, 1)
	go p.run(started)
	err = <-started
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		r.Close()
		if t.Failed() {
			t.Logf("ldapd %s:\n%s", strings.Join(args, " "), p.stderr.String())
		}
	})
	return p, r
}

// run starts the process and waits for its end. The kernel kills the process when the
// thread that forked it ends, so run keeps its goroutine on that thread until the process has
// ended.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)
	err := p.cmd.Start()
	started <- err
	if err == nil {
		_ = p.cmd.Wait()
	}
}

// url returns the first URL at which the process listens.
func (p *process) url() string { return p.urls[0] }

// kill kills the process, as a crash would.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// stop ends the process in an orderly way, and checks that its exit status is 0.
func (p *process) stop() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	if status := p.wait(); status != 0 {
		p.t.Errorf("exit status %d after SIGTERM\n%s", status, p.stderr.String())
	}
}

// wait waits until the process has ended, and returns its exit status.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		p.t.Fatalf("ldapd does not end\n%s", p.stderr.String())
		return -1
	}
}

// connect returns a client that is bound as user, or not bound if user is "".
func (p *process) connect(user, password string) *ldap.Conn {
	p.t.Helper()
	c, err := dial(p.url(), user, password)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	return c
}

func (p *process) admin() *ldap.Conn {
	p.t.Helper()
	return p.connect(adminDN, adminPassword)
}

func dial(url, user, password string) (*ldap.Conn, error) {
	c, err := ldap.DialURL(url)
	if err != nil {
		return nil, err
	}
	c.SetTimeout(patience)
	if user == "" {
		return c, nil
	}
	if err := c.Bind(user, password); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// ldapdRun runs a command and returns its output and exit status.
func ldapdRun(t testing.TB, args ...string) (output string, status int) {
	t.Helper()
	return ldapdRunAs(t, nil, args...)
}

func ldapdRunAs(t testing.TB, as *syscall.Credential, args ...string) (output string, status int) {
	t.Helper()
	p, stdout := start(t, as, args...)
	b, err := io.ReadAll(stdout)
	if err != nil {
		t.Fatal(err)
	}
	status = p.wait()
	return string(b) + p.stderr.String(), status
}

// importInto imports files into a store that is not served. Nobody waits for the end of its lease,
// so the lease is one that a busy machine keeps.
func importInto(t testing.TB, store string, files ...string) {
	t.Helper()
	patient := filepath.Join(t.TempDir(), "ldapd.yaml")
	if err := os.WriteFile(patient, []byte("lease: 1m\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"import", "--config", patient, "--store", store, "--suffix", suffix}, files...)
	if out, status := ldapdRun(t, args...); status != 0 {
		t.Fatalf("import: exit status %d\n%s", status, out)
	}
}

// searchDN returns the names of the entries that a search finds.
func searchDN(c *ldap.Conn, base string, scope int, filter string) ([]string, error) {
	r, err := c.Search(ldap.NewSearchRequest(base, scope, ldap.NeverDerefAliases, 0, 0, false, filter, []string{"1.1"}, nil))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range r.Entries {
		names = append(names, e.DN)
	}
	return names, nil
}

// code returns the result code of an operation, or a negative number if it had no
// result.
func code(err error) int {
	var e *ldap.Error
	switch {
	case err == nil:
		return ldap.LDAPResultSuccess
	case errors.As(err, &e) && e.ResultCode != ldap.ErrorNetwork:
		return int(e.ResultCode)
	}
	return -1
}

// wantCode reports a test error if the result code of an operation is not want.
func wantCode(t testing.TB, what string, err error, want uint16) {
	t.Helper()
	if code(err) != int(want) {
		t.Errorf("%s: %v; want result %d (%s)", what, err, want, ldap.LDAPResultCodeMap[want])
	}
}

// safeBuffer is a buffer to which several goroutines may write.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
