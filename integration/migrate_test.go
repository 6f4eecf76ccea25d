package integration

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
	"golang.org/x/sync/errgroup"

	"github.com/seed-4dac0d86/ldapd/store/hbase/hbasetest"
)

// An oldServer is a running server whose directory a test moves to ldapd.
type oldServer struct {
	url, admin string
	password   string // "" means adminPassword
	leftOut    int    // number of entries that ldapd refuses
	restart    func() // stops the server and starts it again, at the same URL
	// oldNames is set if a rename does not change the names of all entries below the renamed
	// entry: the server shows some of them by their old names until it is started again.
	oldNames bool
	leaves   bool // writers rename only entries without entries below them
	// hangs is set if the server now and then answers nobody any more: 389 2.3.1 with content synchronization did, once in
	// some hundred runs.
	hangs bool
}

var movedPeople = flag.Int("movedpeople", 0, "people whom TestMigrate adds to the sample directory before it moves the directory")

// oldServers are the kinds of old servers. start starts a server with the sample
// directory.
var oldServers = []struct {
	name  string
	start func(t *testing.T) *oldServer
}{
	{"slapd", func(t *testing.T) *oldServer { return startOldSlapd(t, "moduleload syncprov\n", "overlay syncprov\n") }},
	{"slapd without syncprov", func(t *testing.T) *oldServer { return startOldSlapd(t, "", "") }},
	{"389", func(t *testing.T) *oldServer { return startOldDirsrv(t, true) }},
	{"389 without its plug-in", func(t *testing.T) *oldServer { return startOldDirsrv(t, false) }},
	{"ldapd", startOldLdapd},
}

func startOldLdapd(t *testing.T) *oldServer {
	store := filepath.Join(t.TempDir(), "old")
	importInto(t, store, example)
	p := serve(t, store, "--admin-dn", slapdAdmin)
	s := &oldServer{url: p.url(), admin: slapdAdmin}
	s.restart = func() {
		p.stop()
		p = serve(t, store, "--admin-dn", slapdAdmin, "--listen", s.url)
	}
	return s
}

// TestMigrate moves a directory from an old server to ldapd while a client writes at the old
// server. The command ldapd migrate follows the old server. Meanwhile the test kills this
// command and starts it again. Later the test restarts the old server.
func TestMigrate(t *testing.T) {
	t.Parallel()
	for _, o := range oldServers {
		t.Run(o.name, func(t *testing.T) {
			old := o.start(t)
			old.addPeople(t, *movedPeople)
			moveInto(t, old, filepath.Join(t.TempDir(), "store"), time.Millisecond)
		})
	}
}

// addPeople adds people to an old server, over several connections.
func (s *oldServer) addPeople(t *testing.T, n int) {
	t.Helper()
	var g errgroup.Group
	const connections = 8
	for k := range connections {
		g.Go(func() error {
			c, err := dial(s.url, s.admin, cmp.Or(s.password, adminPassword))
			if err != nil {
				return err
			}
			defer c.Close()
			for i := k; i < n; i += connections {
				add := ldap.NewAddRequest(fmt.Sprintf("uid=moved%d,%s", i, suffix), nil)
				add.Attribute("objectClass", []string{"inetOrgPerson"})
				add.Attribute("cn", []string{fmt.Sprint("Person ", i)})
				add.Attribute("sn", []string{fmt.Sprint(i % 1000)})
				if err := c.Add(add); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

// TestMigrateToHBase is like TestMigrate, but moves a directory from an ldapd with an
// embedded store to an ldapd with a store in HBase.
func TestMigrateToHBase(t *testing.T) {
	t.Parallel()
	moveInto(t, startOldLdapd(t), "hbase://"+hbasetest.Start(t)+"/"+hbasetest.Prefix(t), 100*time.Millisecond) // a busy HBase must keep up with it
}

// moveInto moves a directory into a store while a client writes at the old server. The client
// pauses before each change.
func moveInto(t *testing.T, old *oldServer, store string, pause time.Duration) {
	p := serve(t, store, "--admin-dn", slapdAdmin)
	w := writeAt(t, old, pause)
	auth := []string{"--store", store, "--password-file", old.passwordFile(t)}
	from := append([]string{"--from", old.url, "--bind", old.admin}, auth...)
	begin := append([]string{"migrate", "--follow"}, from...)
	follow := runMigrate(t, begin...)
	follow.wait(t, "caught up")
	refusesUpdates(t, p)
	follow.kill()
	w.more(t, 50)
	follow = runMigrate(t, begin...)
	follow.wait(t, "caught up")
	w.stop()
	old.restart()
	old.leaves = old.oldNames // in the end, old names would remain as differences
	w = writeAt(t, old, pause)
	w.more(t, 50)
	if old.leftOut > 0 {
		finish := runMigrate(t, append([]string{"migrate", "--finish", "--read-only"}, auth...)...)
		finish.wait(t, "the two differ, so the store still follows")
		finish.ends(t, 1)
	}
	finish := runMigrate(t, append([]string{"migrate", "--finish", "--accept-differences"}, auth...)...)
	finish.wait(t, "press Enter")
	w.more(t, 20)
	w.stop()
	if _, err := io.WriteString(finish.stdin, "\n"); err != nil {
		t.Fatal(err)
	}
	finish.wait(t, "open for updates")
	finish.ends(t, 0)
	t.Log(regexp.MustCompile("open for updates .*").FindString(finish.out.String()))
	follow.ends(t, 0)
	equal(t, old, append([]string{"compare"}, from...)...)
	c := p.connect(slapdAdmin, adminPassword)
	r := ldap.NewModifyRequest(suffix, nil)
	r.Replace("description", []string{"moved"})
	if err := c.Modify(r); err != nil {
		t.Errorf("an update after the end: %v", err)
	}
	if out, status := ldapdRun(t, append([]string{"compare"}, from...)...); status != 1 || !strings.Contains(out, "different: "+suffix+": description, ") {
		t.Errorf("compare after an update: exit status %d\n%s", status, out)
	}
	if out, status := ldapdRun(t, "check", "--store", store); status != 0 {
		t.Errorf("check: exit status %d\n%s", status, out)
	}
}

// TestSchemaToOthers sends the definitions and the entry of an LDIF file to slapd and to 389
// Directory Server, twice. The second time, only the entry must be refused.
func TestSchemaToOthers(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "own.ldif")
	if err := os.WriteFile(file, []byte(`dn: cn=Subschema
objectClass: subschema
attributeTypes: ( 2.25.4711.1 NAME 'floorsOfHouse' EQUALITY integerMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 SINGLE-VALUE )
attributeTypes: ( 2.5.4.3 NAME ( 'cn' 'commonName' ) SUP name )
objectClasses: ( 2.25.4711.2 NAME 'house' SUP top STRUCTURAL MUST cn MAY floorsOfHouse )
nameForms: ( 2.25.4711.3 NAME 'houseForm' OC house MUST cn )

dn: cn=house,`+suffix+`
objectClass: house
cn: house
floorsOfHouse: 3
`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, o := range []struct {
		name  string
		start func(t *testing.T) *oldServer
	}{
		{"slapd", func(t *testing.T) *oldServer {
			return startOldSlapd(t, "database config\nrootdn \""+slapdAdmin+"\"\n", "")
		}},
		{"389", func(t *testing.T) *oldServer { return startOldDirsrv(t, false) }}, // is skipped where there is none
	} {
		t.Run(o.name, func(t *testing.T) {
			old := o.start(t)
			args := []string{"import", "--url", old.url, "--bind", old.admin, "--password-file", old.passwordFile(t), file}
			out := mustRun(t, args...)
			if !strings.Contains(out, "nameForms of 2.25.4711.3 is not sent") {
				t.Error(out)
			}
			if out, status := ldapdRun(t, args...); status != 1 || !strings.Contains(out, "own.ldif:8: ") {
				t.Errorf("sent again: exit status %d\n%s", status, out)
			}
			c, err := dial(old.url, old.admin, cmp.Or(old.password, adminPassword))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if found, err := searchDN(c, "cn=house,"+suffix, ldap.ScopeBaseObject, "(floorsOfHouse=3)"); err != nil || len(found) != 1 {
				t.Errorf("%v, %v", found, err)
			}
		})
	}
}

// equal checks that a comparison finds no differences except the entries that ldapd
// refuses.
func equal(t *testing.T, old *oldServer, compare ...string) {
	t.Helper()
	out, status := ldapdRun(t, compare...)
	want := fmt.Sprintf(`(?m)^[1-9]\d+ entries on both, 0 here only, %d there only, 0 different$`, old.leftOut)
	if status != min(1, old.leftOut) || !regexp.MustCompile(want).MatchString(out) {
		t.Errorf("compare: exit status %d\n%s", status, out)
	}
}

func (s *oldServer) passwordFile(t *testing.T) string {
	if s.password == "" {
		return passwordFile(t)
	}
	name := filepath.Join(t.TempDir(), "old")
	if err := os.WriteFile(name, []byte(s.password), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// refusesUpdates checks that an update gets a referral, and waits until a search finds the
// copied entries.
func refusesUpdates(t *testing.T, p *process) {
	t.Helper()
	c := p.connect(slapdAdmin, adminPassword)
	r := ldap.NewModifyRequest(suffix, nil)
	r.Replace("description", []string{"too early"})
	err := c.Modify(r)
	var e *ldap.Error
	if !errors.As(err, &e) || e.ResultCode != ldap.LDAPResultReferral {
		t.Fatalf("an update while the store follows: %v", err)
	}
	// The server shows the copied entries once it has read the store's heads.
	eventually(t, "a search while the store follows", func() error {
		_, err := c.Search(ldap.NewSearchRequest(suffix, ldap.ScopeBaseObject, 0, 0, 0, false, "(objectClass=*)", nil, nil))
		return err
	})
}

// startOldSlapd starts a slapd with the sample directory.
func startOldSlapd(t *testing.T, modules, overlays string) *oldServer {
	t.Helper()
	slapadd := lookSbin(t, "slapadd")
	dir := t.TempDir()
	conf := filepath.Join(dir, "slapd.conf")
	text := slapdSchemas(t) + modules + fmt.Sprintf("sizelimit unlimited\ndatabase mdb\nmaxsize 4294967296\ndbnosync\nsuffix %q\nrootdn %q\nrootpw %s\ndirectory %s\nindex entryUUID,entryCSN eq\n%s",
		suffix, slapdAdmin, adminPassword, dir, overlays)
	entries, err := os.ReadFile(example)
	if err == nil {
		err = os.WriteFile(conf, []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	add := exec.Command(slapadd, "-q", "-f", conf)
	// slapadd treats the version line as an entry if an empty line follows it.
	add.Stdin = strings.NewReader(strings.Replace(string(entries), "\nversion: 1\n", "\n", 1))
	if out, err := add.CombinedOutput(); err != nil {
		t.Fatalf("slapadd: %v\n%s", err, out)
	}
	var log safeBuffer
	s := &oldServer{admin: slapdAdmin}
	var cmd *exec.Cmd
	stop := func() { end(cmd) }
	s.url, cmd = runSlapd(t, conf, &log)
	s.restart = func() {
		stop()
		cmd = runSlapdAt(t, conf, &log, s.url)
	}
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("slapd: %s", log.String())
		}
	})
	return s
}

// answers reports whether the server answers a new client within some seconds.
func (s *oldServer) answers() bool {
	c, err := ldap.DialURL(s.url)
	if err != nil {
		return false
	}
	defer c.Close()
	c.SetTimeout(20 * time.Second)
	return c.Bind(s.admin, cmp.Or(s.password, adminPassword)) == nil
}

// A writer makes random changes at a server until it is stopped.
type writer struct {
	at   *oldServer
	mu   sync.Mutex
	n    int
	done chan struct{}
	wg   sync.WaitGroup
}

func writeAt(t *testing.T, s *oldServer, pause time.Duration) *writer {
	t.Helper()
	w := &writer{at: s, done: make(chan struct{})}
	c, err := dial(s.url, s.admin, cmp.Or(s.password, adminPassword))
	if err != nil {
		t.Fatal(err)
	}
	l := &randomLoad{t: t, rng: rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano()))), units: []string{suffix}, conn: c, leaves: s.leaves}
	w.wg.Go(func() {
		defer c.Close()
		for {
			select {
			case <-w.done:
				return
			case <-time.After(pause):
			}
			_ = l.step() // some operations fail because of earlier ones
			w.mu.Lock()
			w.n++
			w.mu.Unlock()
		}
	})
	t.Cleanup(w.stop)
	return w
}

// The method "more" waits until the writer has tried n more changes.
func (w *writer) more(t *testing.T, n int) {
	t.Helper()
	count := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.n
	}
	want := count() + n
	for end := time.Now().Add(patience); count() < want; time.Sleep(50 * time.Millisecond) {
		switch {
		case time.Now().Before(end):
		case w.at.hangs && !w.at.answers():
			t.Skip("the other server answers nobody any more")
		default:
			t.Fatal("a client at the other server makes no more changes")
		}
	}
}

func (w *writer) stop() {
	select {
	case <-w.done:
	default:
		close(w.done)
	}
	w.wg.Wait()
}

// A migration is a running ldapd migrate.
type migration struct {
	cmd    *exec.Cmd
	stdin  io.Writer
	out    safeBuffer
	exited chan struct{}
}

func runMigrate(t *testing.T, args ...string) *migration {
	t.Helper()
	m := &migration{cmd: exec.Command(ldapd(t), args...), exited: make(chan struct{})}
	m.cmd.Stdout, m.cmd.Stderr = &m.out, &m.out
	stdin, err := m.cmd.StdinPipe()
	if err == nil {
		err = m.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	m.stdin = stdin
	go func() {
		defer close(m.exited)
		_ = m.cmd.Wait()
	}()
	t.Cleanup(func() {
		m.kill()
		if t.Failed() {
			t.Logf("ldapd %s:\n%s", strings.Join(args, " "), m.out.String())
		}
	})
	return m
}

// wait waits until the command has printed a text.
func (m *migration) wait(t *testing.T, text string) {
	t.Helper()
	eventually(t, "the command prints "+text, func() error {
		if strings.Contains(m.out.String(), text) {
			return nil
		}
		select {
		case <-m.exited:
			t.Fatalf("%v: it ended without printing %q:\n%s", m.cmd.Args, text, m.out.String())
		default:
		}
		return errors.New("not yet")
	})
}

func (m *migration) kill() {
	_ = m.cmd.Process.Kill()
	<-m.exited
}

func (m *migration) ends(t *testing.T, status int) {
	t.Helper()
	select {
	case <-m.exited:
	case <-time.After(patience):
		t.Fatalf("%v does not end:\n%s", m.cmd.Args, m.out.String())
	}
	if got := m.cmd.ProcessState.ExitCode(); got != status {
		t.Errorf("%v: exit status %d:\n%s", m.cmd.Args, got, m.out.String())
	}
}
