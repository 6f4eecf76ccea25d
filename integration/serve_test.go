package integration

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/wire/wiretest"
)

// photos writes an LDIF file of n people with pictures. The pictures are so large that
// no socket buffer can contain all of them.
func photos(t *testing.T, n int) (file string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("version: 1\n")
	picture := strings.Repeat("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz012345678901", 6<<10) // base64 of 288 KiB
	for i := range n {
		fmt.Fprintf(&b, "\ndn: uid=photo-%d,%s\nobjectClass: inetOrgPerson\ncn: Photo\nsn: Photo\njpegPhoto:: %s\n", i, peopleDN, picture)
	}
	file = filepath.Join(t.TempDir(), "photos.ldif")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A slowClient is a client that requests all photos. Its test decides when the client reads the
// answers after the first answer.
type slowClient struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func askForPhotos(t *testing.T, p *process) *slowClient {
	t.Helper()
	nc, err := net.Dial("tcp", strings.TrimPrefix(p.url(), "ldap://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(patience))
	c := &slowClient{t, nc, bufio.NewReader(nc)}
	request := &op.Search{Base: peopleDN, Scope: op.SingleLevel, Filter: filter.MustParse("(cn=photo)")}
	if _, err := nc.Write(wiretest.AppendRequest(nil, &op.Message{ID: 7, Request: request})); err != nil {
		t.Fatal(err)
	}
	if a := c.read(); a == nil || a.Tag != 0x64 { // an entry shows that the search runs
		t.Fatalf("the first answer: %+v", a)
	}
	return c
}

// read returns the next answer. At the end of the connection, it returns nil.
func (c *slowClient) read() *wiretest.Answer {
	c.t.Helper()
	a, err := wiretest.Read(c.r)
	if err == io.EOF {
		return nil
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return a
}

// TestShutdown ends a server in an orderly way. A running search must be finished, its
// client must be notified, idle clients must be disconnected, new connections must be
// refused, and the exit status must be 0.
func TestShutdown(t *testing.T) {
	const n = 40
	store := filepath.Join(t.TempDir(), "store")
	importInto(t, store, example, photos(t, n))
	p := serve(t, store, "--grace-period", patience.String(), "--status-listen", "http://127.0.0.1:0")
	wantHealth(t, p, "serving", 200, 200, 200)
	idle := p.admin()
	busy := askForPhotos(t, p)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		nc, err := net.Dial("tcp", strings.TrimPrefix(p.url(), "ldap://"))
		if err != nil {
			break
		}
		nc.Close()
		if time.Now().After(end) {
			t.Fatal("the server still listens")
		}
	}
	// The listener closes first, and the idle connections right after it.
	for end := time.Now().Add(patience); ; {
		if _, err := idle.WhoAmI(nil); err != nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("an idle connection is served on")
		}
	}
	wantHealth(t, p, "stopping", 200, 503, 503)
	entries := 1
	a := busy.read()
	for ; a != nil && a.Tag == 0x64; a = busy.read() {
		entries++
	}
	if entries != n || a == nil || a.ID != 7 || a.Tag != 0x65 || a.Response.Code != op.Success {
		t.Errorf("%d entries, then %+v", entries, a)
	}
	if a := busy.read(); a != nil {
		t.Errorf("after the last message: %+v", a)
	}
	if status := p.wait(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// TestShutdownStuck checks that a client that reads nothing cannot prevent a shutdown.
func TestShutdownStuck(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	importInto(t, store, example, photos(t, 40))
	p := serve(t, store, "--grace-period", "100ms")
	askForPhotos(t, p)
	p.stop()
	if !strings.Contains(p.stderr.String(), "grace period") {
		t.Errorf("nothing is told of the search that was ended:\n%s", p.stderr.String())
	}
}

// TestRestart checks that all entries exist after a restart. It then imports an export of
// the store into another store, and checks that all entries exist there too.
func TestRestart(t *testing.T) {
	t.Parallel()
	for _, kind := range storeKinds {
		t.Run(kind.name, func(t *testing.T) {
			store := kind.make(t)
			importInto(t, store, example)
			p := serve(t, store)
			c := ldapChanger{p.admin()}
			for i := range 20 {
				x := &person{uid: fmt.Sprintf("restart-%d", i)}
				for _, step := range life[:i%len(life)+1] {
					if err := step.do(c, x); err != nil {
						t.Fatalf("%s: %v", step.name, err)
					}
				}
			}
			p.stop()
			before := export(t, store)
			if n := strings.Count(before, "\ndn:") - 1; n != 91+16 { // without cn=config
				t.Errorf("%d entries exported", n)
			}
			p = serve(t, store)
			if names, err := searchDN(p.admin(), suffix, ldap.ScopeWholeSubtree, "(&(uid=restart-*)(title=*))"); err != nil || len(names) != 16 {
				t.Errorf("%d people: %v", len(names), err)
			}
			p.stop()
			if after := export(t, store); after != before {
				t.Errorf("serving changed the directory:\n%s\nbefore:\n%s", after, before)
			}
			other := filepath.Join(t.TempDir(), "other")
			file := filepath.Join(t.TempDir(), "all.ldif")
			if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
				t.Fatal(err)
			}
			importInto(t, other, file)
			if again := export(t, other); again != before {
				t.Errorf("import of an export:\n%s\nwant:\n%s", again, before)
			}
		})
	}
}

func export(t *testing.T, store string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "export.ldif")
	if out, status := ldapdRun(t, "export", "--store", store, "--output", file); status != 0 {
		t.Fatalf("export: exit status %d\n%s", status, out)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// eventually calls f until f returns nil.
func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}
