package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/certs"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
)

// TestQuestions checks the questions that are asked at a terminal. A question must be
// repeated after a wrong answer, and must not be asked if a flag has answered it.
func TestQuestions(t *testing.T) {
	dir := t.TempDir()
	var asked bytes.Buffer
	typed := "nonsense\no=Example\n\n\n\nldap://127.0.0.1:1389\n\n"
	passwords := []string{"", "", "one", "two", "secret", "secret"}
	q := &questions{
		in: bufio.NewReader(strings.NewReader(typed)), out: &asked,
		hide: func(prompt string) (string, error) {
			asked.WriteString(prompt + "\n")
			p := passwords[0]
			passwords = passwords[1:]
			return p, nil
		},
		given: func(flag string) bool { return flag == "access" },
	}
	s := &setup{file: filepath.Join(dir, "ldapd.yaml"), access: "private", folders: "people,groups", status: noStatus}
	if err := q.answer(s); err != nil {
		t.Fatalf("%v\n%s", err, &asked)
	}
	want := &setup{file: s.file, status: noStatus, suffix: "o=Example", admin: "cn=admin,o=Example", store: filepath.Join(dir, "data"), password: "secret",
		certificate: selfSigned, listen: "ldap://127.0.0.1:1389", folders: "people,groups", access: "private"}
	if d := cmp.Diff(want, s, cmp.AllowUnexported(setup{})); d != "" {
		t.Errorf("%s\n%s", d, &asked)
	}
	for _, text := range []string{"Name of the topmost entry (such as dc=example,dc=com)", `the name "nonsense" is malformed`,
		"Name of the administrator (who needs no entry) [cn=admin,o=Example]: ", "these were two different passwords", "the password is empty",
		"Certificate (a file in PEM, self-signed or none) [self-signed]: ", "Units below o=Example"} {
		if !strings.Contains(asked.String(), text) {
			t.Errorf("%q was not said:\n%s", text, &asked)
		}
	}
	if strings.Contains(asked.String(), "Access rules") {
		t.Errorf("asked what a flag said:\n%s", &asked)
	}
}

// TestSelfSigned checks that a client that trusts a self-signed certificate accepts the
// certificate for the hosts in it, and for no other host.
func TestSelfSigned(t *testing.T) {
	certificate, key, err := certs.SelfSigned([]string{"ldap.example.com", "127.0.0.1"}, time.Now(), time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"ldap.example.com": true, "127.0.0.1": true, "other.example.com": false} {
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: name}); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUndo checks that no file is left if a directory cannot be set up.
func TestUndo(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	m := &cli.Main{Stdin: &bytes.Buffer{}, Stdout: &out, Stderr: &out}
	pw := filepath.Join(dir, "pw")
	if err := os.WriteFile(pw, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	made := filepath.Join(dir, "made")
	if err := os.Mkdir(made, 0o700); err != nil {
		t.Fatal(err)
	}
	s := &setup{file: filepath.Join(made, "ldapd.yaml"), suffix: "dc=x", admin: "cn=admin", store: filepath.Join(made, "data"),
		password: "secret", certificate: selfSigned, listen: "ldap://127.0.0.1:0", folders: "people", access: "none such"}
	if err := (initCommands{m}).setUp(context.Background(), s); err == nil || !strings.Contains(err.Error(), "none such") {
		t.Error(err)
	}
	left, err := os.ReadDir(made)
	if err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// TestHandedOver checks what root makes in a folder of another user: the store and the secrets
// belong to that user, the ports are those that this user may listen on, and the command to try
// runs the server as this user.
func TestHandedOver(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	const user = 12345
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Chown(dir, user, user))
	var out bytes.Buffer
	m := &cli.Main{Stdin: &bytes.Buffer{}, Stdout: &out, Stderr: &out}
	s := &setup{file: filepath.Join(dir, "ldapd.yaml"), suffix: "dc=x", admin: "cn=admin", store: filepath.Join(dir, "new", "data"),
		password: "secret", certificate: selfSigned, folders: "people", access: "open", policy: "none", status: noStatus}
	s.listen = s.addresses()
	must((initCommands{m}).setUp(t.Context(), s))
	for _, name := range []string{"admin.hash", "server.key", "new/data", "new/data/LOCK"} {
		info, err := os.Stat(filepath.Join(dir, name))
		must(err)
		if owner, _, _ := ownerOf(info); owner != user {
			t.Errorf("%s belongs to %d", name, owner)
		}
	}
	if s.listen != "ldap://127.0.0.1:3890 ldaps://127.0.0.1:6360" || !strings.Contains(out.String(), "\n  sudo -u '#12345' ldapd serve ") {
		t.Errorf("listen on %s; it prints\n%s", s.listen, &out)
	}
}
