package hbasetest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Realm is the realm of a KDC.
const Realm = "EXAMPLE.COM"

// A KDC is MIT's KDC with a database of its own.
type KDC struct {
	Config string // krb5.conf
	Addr   string // its host and port
	tb     testing.TB
	dir    string
	cmd    *exec.Cmd
	done   chan struct{}
}

// StartKDC runs a KDC until the test ends. It skips the test if Debian's krb5-kdc or krb5-admin-server is missing.
func StartKDC(tb testing.TB) *KDC {
	tb.Helper()
	for _, name := range []string{"krb5kdc", "kdb5_util", "kadmin.local"} {
		if _, err := exec.LookPath(sbin(name)); err != nil {
			tb.Skipf("no KDC: %s is missing (Debian's krb5-kdc and krb5-admin-server)", name)
		}
	}
	port, err := freePort()
	if err != nil {
		tb.Fatal(err)
	}
	k := &KDC{tb: tb, dir: tb.TempDir(), Addr: fmt.Sprintf("127.0.0.1:%d", port)}
	k.Config = k.file("krb5.conf", fmt.Sprintf(`[libdefaults]
 default_realm = %[1]s
 dns_lookup_kdc = false
 dns_lookup_realm = false
 rdns = false
 udp_preference_limit = 1
[realms]
 %[1]s = {
  kdc = 127.0.0.1:%[2]d
 }
[domain_realm]
 localhost = %[1]s
`, Realm, port))
	k.file("kdc.conf", fmt.Sprintf(`[realms]
 %[1]s = {
  database_name = %[2]s/principal
  key_stash_file = %[2]s/stash
  acl_file = %[2]s/acl
  kdc_listen = 127.0.0.1:%[3]d
  kdc_tcp_listen = 127.0.0.1:%[3]d
  max_life = 10h
  max_renewable_life = 7d
  default_principal_flags = +preauth
 }
[logging]
 kdc = FILE:%[2]s/kdc.log
 admin_server = FILE:%[2]s/kadmin.log
`, Realm, k.dir, port))
	k.run("kdb5_util", "create", "-s", "-r", Realm, "-P", "master")
	k.Start()
	tb.Cleanup(k.Stop)
	return k
}

// sbin returns the path of a command that may be in no folder of PATH.
func sbin(name string) string {
	if p, err := exec.LookPath(name); err == nil {
		return p
	}
	return "/usr/sbin/" + name
}

func (k *KDC) file(name, text string) string {
	path := filepath.Join(k.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		k.tb.Fatal(err)
	}
	return path
}

func (k *KDC) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(sbin(name), args...)
	cmd.Env = append(os.Environ(), "KRB5_CONFIG="+k.Config, "KRB5_KDC_PROFILE="+k.dir+"/kdc.conf")
	return cmd
}

func (k *KDC) run(name string, args ...string) {
	k.tb.Helper()
	if out, err := k.command(name, args...).CombinedOutput(); err != nil {
		k.tb.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// Admin runs commands of kadmin.local.
func (k *KDC) Admin(commands ...string) {
	k.tb.Helper()
	cmd := k.command("kadmin.local", "-r", Realm)
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		k.tb.Fatalf("kadmin.local %q: %v\n%s", commands, err, out)
	}
}

// Keytab gives principals new keys, and returns the keytab with them. Principals that are not there are added.
func (k *KDC) Keytab(principals ...string) string {
	k.tb.Helper()
	path := filepath.Join(k.dir, strings.NewReplacer("/", "-").Replace(principals[0])+".keytab")
	var commands []string
	for _, p := range principals {
		commands = append(commands, "addprinc -randkey "+p, "ktadd -k "+path+" "+p)
	}
	k.Admin(commands...)
	return path
}

// Start starts the KDC, again after Stop.
func (k *KDC) Start() {
	k.tb.Helper()
	k.cmd = k.command("krb5kdc", "-n", "-r", Realm)
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	k.done = make(chan struct{})
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the kernel ends the KDC with the thread that started it
		defer runtime.UnlockOSThread()
		defer close(k.done)
		err := k.cmd.Start()
		started <- err
		if err == nil {
			_ = k.cmd.Wait()
		}
	}()
	err := <-started
	for end := time.Now().Add(20 * time.Second); err == nil; time.Sleep(20 * time.Millisecond) {
		c, derr := net.Dial("tcp", k.Addr)
		if derr == nil {
			c.Close()
			return
		}
		if time.Now().After(end) {
			err = errors.Join(errors.New("the KDC does not answer"), derr)
		}
	}
	k.tb.Fatal(err)
}

// Stop ends the KDC.
func (k *KDC) Stop() {
	_ = k.cmd.Process.Kill()
	<-k.done
}
