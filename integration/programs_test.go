package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// foreignClients are clients in testdata/programs that are written in other languages, with
// libraries that are in common use. Each client works in a separate subtree. It
// binds, reads the schema, adds, searches, pages, sorts, modifies, compares, renames,
// deletes, and tests referrals and errors. It prints every difference from what it
// expects.
var foreignClients = []struct {
	name    string
	command func(t *testing.T) []string // skips the test if the client cannot run
}{
	{"ldap3", func(t *testing.T) []string {
		for _, python := range []string{"python3", "/usr/bin/python3"} {
			if exec.Command(python, "-c", "import ldap3, pyasn1").Run() == nil {
				return []string{python, "testdata/programs/ldap3_client.py"}
			}
		}
		t.Skip("no python3 with ldap3")
		return nil
	}},
	{"Net-LDAP", func(t *testing.T) []string {
		if err := exec.Command("perl", "-MNet::LDAP", "-MIO::Socket::SSL", "-e", "1").Run(); err != nil {
			t.Skip("no perl with Net::LDAP and IO::Socket::SSL: ", err)
		}
		return []string{"perl", "testdata/programs/net_ldap.pl"}
	}},
	{"JNDI", func(t *testing.T) []string {
		if _, err := exec.LookPath("javac"); err != nil {
			t.Skip("no JDK: ", err)
		}
		dir := t.TempDir()
		if out, err := exec.Command("javac", "-encoding", "UTF-8", "-d", dir, "testdata/programs/Jndi.java").CombinedOutput(); err != nil {
			t.Fatalf("javac: %v\n%s", err, out)
		}
		return []string{"java", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8", "-cp", dir, "Jndi"}
	}},
}

// secured is a server with a certificate, and the ways to connect to that server:
// without TLS, with StartTLS, and with ldaps.
type secured struct {
	*process
	*tlsFiles
	ways []way
}

type way struct {
	name string
	env  []string // URL, STARTTLS and CA
}

// serveSecured serves the sample directory and the entries in files.
func serveSecured(t *testing.T, files ...string) *secured {
	t.Helper()
	f := newTLS(t)
	store := filepath.Join(t.TempDir(), "store")
	importInto(t, store, append([]string{example}, files...)...)
	p := serve(t, store, append(f.flags(), "--listen", "ldap://127.0.0.1:0", "--listen", "ldaps://127.0.0.1:0")...)
	return &secured{p, f, []way{
		{"clear", []string{"URL=" + p.urls[0]}},
		{"StartTLS", []string{"URL=" + p.urls[0], "STARTTLS=1", "CA=" + f.ca}},
		{"ldaps", []string{"URL=" + p.urls[1], "CA=" + f.ca}},
	}}
}

// TestForeignClients runs all foreign clients concurrently on one server.
func TestForeignClients(t *testing.T) {
	t.Parallel()
	p := serveSecured(t, unixEntries(t))
	t.Run("clients", func(t *testing.T) { // ends when the last client ends
		for _, client := range foreignClients {
			t.Run(client.name, func(t *testing.T) {
				t.Parallel()
				command := client.command(t)
				for _, w := range p.ways {
					t.Run(w.name, func(t *testing.T) { runForeign(t, p, w, command) })
				}
			})
		}
	})
	p.stop()
}

// runForeign runs a client and checks that it succeeds. The client's subtree has the
// test's name.
func runForeign(t *testing.T, p *secured, w way, command []string) {
	t.Helper()
	subtree := "ou=" + strings.ReplaceAll(t.Name(), "/", " ") + "," + suffix
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8",
		"PLAIN="+p.url(), "ADMIN="+adminDN, "PASSWORD="+adminPassword, "BASE="+subtree)
	cmd.Env = append(cmd.Env, w.env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
