package integration

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const recipesPage = "../docs/recipes.md"

// blocksOf returns the blocks of configuration below a heading of docs/recipes.md. It
// replaces the server and the CA in these blocks by the server and the CA of the test.
func blocksOf(t *testing.T, heading string, p *secured) (blocks []string) {
	t.Helper()
	page, err := os.ReadFile(recipesPage)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## "+heading+" (run by a test)\n")
	if !found {
		t.Fatalf("no recipe for %s that is said to be run by a test", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	real := strings.NewReplacer("ldap://ldap.example.com", p.ways[0].env[0][len("URL="):],
		"/etc/ssl/certs/ca-certificates.crt", p.ca)
	code := false
	for line := range strings.Lines(real.Replace(section)) {
		text, indented := strings.CutPrefix(line, "    ")
		switch {
		case indented && code:
			blocks[len(blocks)-1] += text
		case indented:
			blocks = append(blocks, text)
		}
		code = indented
	}
	return blocks
}

// wantPrograms skips the test if one of the files does not exist.
func wantPrograms(t *testing.T, files ...string) {
	t.Helper()
	for _, f := range files {
		if found, _ := filepath.Glob(f); found == nil {
			t.Skipf("not as Debian has it: no %s", f)
		}
	}
}

// writeIn creates a folder, writes a file in that folder, and returns the file's path.
func writeIn(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// background runs a daemon, which must not detach itself, until the test ends.
func background(t *testing.T, command ...string) {
	t.Helper()
	var log safeBuffer
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Apache kills its whole process group
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
}

// show makes files of a test, and their folders, readable by every user.
func show(t *testing.T, files ...string) {
	t.Helper()
	for _, f := range files {
		dir := filepath.Dir(f)
		if err := errors.Join(os.Chmod(f, 0o644), os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
}

// freePort returns the number of a port on which nothing listens.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// TestRecipes runs programs with the configurations in docs/recipes.md.
func TestRecipes(t *testing.T) {
	t.Parallel()
	p := serveSecured(t)
	t.Run("Postfix", func(t *testing.T) { runPostfix(t, p) })
	t.Run("Apache", func(t *testing.T) { runApache(t, p) })
	t.Run("FreeRADIUS", func(t *testing.T) { runRadius(t, p) })
	t.Run("Dovecot", func(t *testing.T) { runDovecot(t, p) })
	t.Run("nslcd", func(t *testing.T) { runNslcd(t, p) })
	p.stop()
}

func runPostfix(t *testing.T, p *secured) {
	wantPrograms(t, "/usr/sbin/postmap", "/usr/lib/postfix/postfix-ldap.so")
	dir := t.TempDir()
	writeIn(t, dir, "main.cf", "compatibility_level = 3.6\n")
	users := writeIn(t, dir, "users.cf", blocksOf(t, "Postfix", p)[0])
	for key, want := range map[string]string{"jdoe@example.com": "jdoe\n", "nobody@example.com": ""} {
		out, err := exec.Command("/usr/sbin/postmap", "-c", dir, "-q", key, "ldap:"+users).CombinedOutput()
		if string(out) != want || (err == nil) != (want != "") {
			t.Errorf("%s: %v %q, want %q", key, err, out, want)
		}
	}
}

func runApache(t *testing.T, p *secured) {
	wantPrograms(t, "/usr/sbin/apache2", "/usr/lib/apache2/modules/mod_authnz_ldap.so")
	if os.Getuid() != 0 {
		t.Skip("the configuration is one for root")
	}
	dir, port := t.TempDir(), freePort(t)
	writeIn(t, dir, "www/private/index.html", "welcome")
	conf := fmt.Sprintf("ServerRoot %s\nServerName localhost\nListen 127.0.0.1:%d\nPidFile %[1]s/pid\nErrorLog /dev/stderr\n"+
		"DefaultRuntimeDir %[1]s\nMutex posixsem\nUser www-data\nGroup www-data\nDocumentRoot %[1]s/www\n", dir, port)
	for _, m := range []string{"mpm_prefork", "authn_core", "authz_core", "authz_user", "auth_basic", "ldap", "authnz_ldap", "dir"} {
		conf += fmt.Sprintf("LoadModule %s_module /usr/lib/apache2/modules/mod_%[1]s.so\n", m)
	}
	conf = writeIn(t, dir, "apache.conf", conf+blocksOf(t, "Apache", p)[0])
	show(t, conf, p.ca)
	background(t, "/usr/sbin/apache2", "-DFOREGROUND", "-f", conf)
	url := fmt.Sprintf("http://127.0.0.1:%d/private/index.html", port)
	get := func(password string) (int, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			return 0, err
		}
		r.SetBasicAuth("jdoe", password)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err
		}
		return answer.StatusCode, answer.Body.Close()
	}
	eventually(t, "apache2 serves", func() error { _, err := get(""); return err })
	for password, want := range map[string]int{"opensesame": http.StatusOK, "wrong": http.StatusUnauthorized} {
		if got, err := get(password); got != want || err != nil {
			t.Errorf("by the password %s: %d %v, want %d", password, got, err, want)
		}
	}
}

func runRadius(t *testing.T, p *secured) {
	wantPrograms(t, "/usr/sbin/freeradius", "/usr/lib/freeradius/rlm_ldap.so", "/usr/bin/radtest")
	dir, port := t.TempDir(), freePort(t)
	blocks := blocksOf(t, "FreeRADIUS", p)
	conf := fmt.Sprintf("libdir = /usr/lib/freeradius\nlogdir = %s\nraddbdir = %[1]s\nrun_dir = %[1]s\nmodules {\n%s}\n"+
		"client localhost {\nipaddr = 127.0.0.1\nsecret = testing123\n}\n"+
		"server default {\nlisten {\ntype = auth\nipaddr = 127.0.0.1\nport = %d\n}\n%s}\n", dir, blocks[0], port, blocks[1])
	writeIn(t, dir, "radiusd.conf", conf)
	background(t, "/usr/sbin/freeradius", "-d", dir, "-D", "/usr/share/freeradius", "-X")
	ask := func(password string) string {
		out, _ := exec.Command("/usr/bin/radtest", "-x", "jdoe", password, fmt.Sprintf("127.0.0.1:%d", port), "0", "testing123").CombinedOutput()
		return string(out)
	}
	eventually(t, "freeradius answers", func() error {
		if out := ask("opensesame"); !strings.Contains(out, "Access-Accept") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	if out := ask("wrong"); !strings.Contains(out, "Access-Reject") {
		t.Errorf("a wrong password: %s", out)
	}
}

func runDovecot(t *testing.T, p *secured) {
	wantPrograms(t, "/usr/sbin/dovecot", "/usr/bin/doveadm", "/usr/lib/dovecot/modules/auth/libauthdb_ldap.so")
	if os.Getuid() != 0 {
		t.Skip("the configuration is one for root")
	}
	dir, err := os.MkdirTemp("", "dovecot") // the length of a socket's path is limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	ldap := writeIn(t, dir, "dovecot-ldap.conf.ext", blocksOf(t, "Dovecot", p)[0])
	conf := writeIn(t, dir, "dovecot.conf", fmt.Sprintf("base_dir = %s/run\nstate_dir = %[1]s/state\nlog_path = /dev/stderr\n"+
		"ssl = no\nprotocols =\n"+
		"passdb {\ndriver = ldap\nargs = %[2]s\n}\nuserdb {\ndriver = ldap\nargs = %[2]s\n}\n", dir, ldap))
	show(t, conf, p.ca)
	background(t, "/usr/sbin/dovecot", "-F", "-c", conf)
	ask := func(arguments ...string) (string, error) {
		out, err := exec.Command("/usr/bin/doveadm", append([]string{"-c", conf}, arguments...)...).CombinedOutput()
		return string(out), err
	}
	eventually(t, "dovecot answers", func() error {
		out, err := ask("auth", "test", "jdoe", "opensesame")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	if out, err := ask("auth", "test", "jdoe", "wrong"); err == nil {
		t.Errorf("a wrong password: %s", out)
	}
	out, err := ask("user", "jdoe")
	fields := strings.Join(strings.Fields(out), " ")
	if want := "uid 10000 gid 10000 home /home/jdoe"; err != nil || !strings.Contains(fields, want) {
		t.Errorf("%v: %s, want %s", err, fields, want)
	}
	if out, err := ask("user", "nobody"); err == nil {
		t.Errorf("nobody: %s", out)
	}
}

func wantNslcd(t *testing.T) {
	t.Helper()
	wantMounts(t)
	wantPrograms(t, "/usr/sbin/nslcd", "/usr/bin/getent", "/lib/*/libnss_ldap.so.2")
}

func runNslcd(t *testing.T, p *secured) {
	wantNslcd(t)
	conf := writeIn(t, t.TempDir(), "nslcd.conf", blocksOf(t, "nslcd", p)[0])
	show(t, conf, p.ca)
	askScript(t, "nslcd.sh", conf, getent)
}
