package integration

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
)

const dirsrvPassword = "very secret"

// startOldDirsrv starts a 389 Directory Server with the sample directory, in a folder of
// its own. If synced is set, the server offers content synchronization.
func startOldDirsrv(t *testing.T, synced bool) *oldServer {
	t.Helper()
	lookSbin(t, "dscreate")
	daemon := lookSbin(t, "ns-slapd")
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	s := &oldServer{url: "ldap://" + addr, admin: "cn=Directory Manager", password: dirsrvPassword, leftOut: 3, oldNames: true, hangs: synced}
	conf := makeDirsrv(t, dir, addr, synced)
	var log safeBuffer
	var cmd *exec.Cmd
	run := func() {
		cmd = exec.Command(daemon, "-d", "0", "-D", conf, "-i", filepath.Join(dir, "run", "pid"))
		cmd.Stdout, cmd.Stderr = &log, &log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "389 serves", func() error {
			c, err := dial(s.url, s.admin, s.password)
			if err == nil {
				c.Close()
			}
			return err
		})
	}
	stop := func() { end(cmd) }
	run()
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("389: %s", log.String())
		}
	})
	s.restart = func() {
		stop()
		run()
	}
	fillDirsrv(t, s)
	return s
}

// makeDirsrv makes an instance, and returns the folder of its configuration. With its own
// defaults, dscreate needs systemd and keeps instances below /etc. So makeDirsrv edits a copy of
// the defaults, and sets the environment variable PREFIX, so that dscreate reads the copy.
func makeDirsrv(t *testing.T, dir, addr string, synced bool) string {
	t.Helper()
	conf := filepath.Join(dir, "etc", "dirsrv", "slapd-old")
	for _, d := range []string{"share/dirsrv/inf", "default", "run"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	defaults, err := os.ReadFile("/usr/share/dirsrv/inf/defaults.inf")
	if err != nil {
		t.Skip("no 389-ds-base: ", err)
	}
	edited := map[string]string{
		"with_systemd": "0", "config_dir": dir + "/etc/dirsrv/slapd-{instance_name}", "run_dir": dir + "/run",
		"pid_file": dir + "/run/pid", "ldapi": dir + "/run/ldapi", "initconfig_dir": dir + "/default",
	}
	var text strings.Builder
	for line := range strings.Lines(string(defaults)) {
		key, _, _ := strings.Cut(line, " =")
		if v, ok := edited[key]; ok {
			line = key + " = " + v + "\n"
		}
		text.WriteString(line)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(addr)
	inf := fmt.Sprintf(`[general]
config_version = 2
full_machine_name = localhost
strict_host_checking = False
selinux = False
systemd = False
start = False
[slapd]
instance_name = old
user = %[3]s
group = %[3]s
root_dn = cn=Directory Manager
root_password = %[4]s
port = %[2]s
secure_port = 0
self_sign_cert = False
config_dir = %[5]s
cert_dir = %[5]s
schema_dir = %[5]s/schema
db_dir = %[1]s/db
db_home_dir = %[1]s/db
db_lib = bdb
backup_dir = %[1]s/bak
ldif_dir = %[1]s/ldif
log_dir = %[1]s/logs
run_dir = %[1]s/run
lock_dir = %[1]s/lock
tmp_dir = %[1]s
inst_dir = %[1]s/inst
initconfig_dir = %[1]s/default
ldapi = %[1]s/run/ldapi
[backend-userroot]
suffix = %[6]s
`, dir, port, me.Username, dirsrvPassword, conf, suffix)
	file := filepath.Join(dir, "ds.inf")
	for name, text := range map[string]string{filepath.Join(dir, "share/dirsrv/inf/defaults.inf"): text.String(), file: inf} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	create := exec.Command(lookSbin(t, "dscreate"), "from-file", file)
	create.Env = append(os.Environ(), "PREFIX="+dir)
	if out, err := create.CombinedOutput(); err != nil {
		t.Fatalf("dscreate: %v\n%s", err, out)
	}
	configureDirsrv(t, filepath.Join(conf, "dse.ldif"), synced)
	return conf
}

// configureDirsrv edits the configuration of an instance that does not run.
func configureDirsrv(t *testing.T, file string, synced bool) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	entries := strings.Split(string(b), "\n\n")
	for i, e := range entries {
		switch name, _, _ := strings.Cut(e, "\n"); name {
		case "dn: cn=config":
			entries[i] = e + "\nnsslapd-listenhost: 127.0.0.1\nnsslapd-allow-hashed-passwords: on"
		case "dn: cn=Content Synchronization,cn=plugins,cn=config":
			if synced {
				entries[i] = strings.Replace(e, "pluginEnabled: off", "pluginEnabled: on", 1)
			}
		case "dn: cn=Retro Changelog Plugin,cn=plugins,cn=config":
			if synced {
				entries[i] = strings.Replace(e, "pluginEnabled: off", "pluginEnabled: on", 1) + "\nnsslapd-attribute: nsuniqueid:targetUniqueId"
			}
		}
	}
	if err := os.WriteFile(file, []byte(strings.Join(entries, "\n\n")), 0o600); err != nil {
		t.Fatal(err)
	}
}

// fillDirsrv adds the entries of the sample directory.
func fillDirsrv(t *testing.T, s *oldServer) {
	t.Helper()
	c, err := dial(s.url, s.admin, s.password)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f, err := os.Open(example)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for r := ldif.NewReader(f, ldif.Options{}); ; {
		rec, err := r.Read()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		add := ldap.NewAddRequest(rec.DN, nil)
		for _, a := range rec.Attributes {
			var values []string
			for _, v := range a.Values {
				values = append(values, string(v))
			}
			add.Attribute(a.Description, values)
		}
		if err := c.Add(add); err != nil && !ldap.IsErrorWithCode(err, ldap.LDAPResultEntryAlreadyExists) {
			t.Fatalf("%s: %v", rec.DN, err)
		}
	}
}
