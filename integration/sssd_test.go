package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	godiff "github.com/google/go-cmp/cmp"
)

// TestSSSD resolves the users and groups of the sample directory as Unix does:
// with getent, by sssd. That needs root, as sssd has its places in the file
// system; it sees others there, of its own.
func TestSSSD(t *testing.T) {
	if out, err := exec.Command("unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt").CombinedOutput(); err != nil {
		t.Skipf("no mount namespace (is this root?): %v %s", err, out)
	}
	for _, f := range []string{"/usr/sbin/sssd", "/usr/bin/getent", "/usr/lib/*/sssd/libsss_ldap.so", "/lib/*/libnss_sss.so.2"} {
		if found, _ := filepath.Glob(f); found == nil {
			t.Skipf("no sssd as Debian has it: no %s", f)
		}
	}
	p := serveSecured(t)
	for _, w := range p.ways {
		t.Run(w.name, func(t *testing.T) { askSSSD(t, w) })
	}
	p.stop()
}

// getent has what is asked of it and what it is to answer.
var getent = []struct{ question, answer string }{
	{"passwd jdoe", "jdoe:*:10000:10000:John Doe:/home/jdoe:/bin/zsh"},
	{"passwd 10002", "jmuller:*:10002:10000:Jorg Muller:/home/jmuller:/bin/bash"},
	{"passwd asantos", "passwd asantos: none"}, // no posixAccount
	{"passwd nobody*", "passwd nobody*: none"},
	{"group wheel", "wheel:*:10:jdoe"},
	{"group 10000", "staff:*:10000:"},
	{"initgroups sgarcia", "sgarcia               10001"},
}

func askSSSD(t *testing.T, w way) {
	cmd := exec.CommandContext(t.Context(), "unshare", "-m", "sh", "testdata/programs/sssd.sh")
	var want []string
	for _, q := range getent {
		cmd.Args = append(cmd.Args, q.question)
		want = append(want, q.answer)
	}
	cmd.Env = append(os.Environ(), w.env...)
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.Output()
	if diff := godiff.Diff(want, strings.Split(strings.TrimSpace(string(out)), "\n")); diff != "" || err != nil {
		t.Errorf("%v (- want, + got):\n%s%s", err, diff, log.String())
	}
}
