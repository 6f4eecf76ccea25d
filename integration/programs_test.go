package integration

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// foreignClients are programs of testdata/programs: clients in other languages,
// with the libraries people use. Each binds, reads the schema, adds, searches,
// pages, sorts, modifies, compares, renames, deletes, meets referrals and errors
// in a subtree of its own, and prints what is not as it should be.
var foreignClients = []struct {
	name    string
	command func() ([]string, error) // the error: why it cannot run here
}{
	{"ldap3", func() ([]string, error) {
		for _, python := range []string{"python3", "/usr/bin/python3"} {
			if exec.Command(python, "-c", "import ldap3, pyasn1").Run() == nil {
				return []string{python, "testdata/programs/ldap3_client.py"}, nil
			}
		}
		return nil, errors.New("no python3 with ldap3")
	}},
	{"Net-LDAP", func() ([]string, error) {
		if err := exec.Command("perl", "-MNet::LDAP", "-MIO::Socket::SSL", "-e", "1").Run(); err != nil {
			return nil, fmt.Errorf("no perl with Net::LDAP: %w", err)
		}
		return []string{"perl", "testdata/programs/net_ldap.pl"}, nil
	}},
	{"JNDI", func() ([]string, error) {
		if _, err := exec.LookPath("javac"); err != nil {
			return nil, fmt.Errorf("no JDK: %w", err)
		}
		return []string{"java", "-Dfile.encoding=UTF-8", "testdata/programs/Jndi.java"}, nil
	}},
}

// TestForeignClients runs the foreign clients, all at the same time.
func TestForeignClients(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	load(t, store, example)
	p := serve(t, store)
	t.Run("all", func(t *testing.T) { // ends when they have
		for _, client := range foreignClients {
			t.Run(client.name, func(t *testing.T) {
				t.Parallel()
				command, err := client.command()
				if err != nil {
					t.Skip(err)
				}
				runForeign(t, p, command, "ou="+strings.ToLower(client.name)+","+suffix)
			})
		}
	})
	p.stop()
}

// runForeign runs a client to its end, which is to come in time.
func runForeign(t *testing.T, p *process, command []string, subtree string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8",
		"URL="+p.url(), "PLAIN="+p.url(), "ADMIN="+adminDN, "PASSWORD="+adminPassword, "BASE="+subtree)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
