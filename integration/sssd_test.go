package integration

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	godiff "github.com/google/go-cmp/cmp"
)

// TestSSSD resolves the users and groups of the sample directory as Unix does: with
// getent, through sssd. The test needs root: sssd reads files at fixed paths, and the
// test mounts other files over them.
func TestSSSD(t *testing.T) {
	t.Parallel()
	wantMounts(t)
	wantPrograms(t, "/usr/sbin/sssd", "/usr/bin/getent", "/usr/lib/*/sssd/libsss_ldap.so", "/lib/*/libnss_sss.so.2")
	p := serveSecured(t)
	for _, w := range p.ways {
		t.Run(w.name, func(t *testing.T) { askGetent(t, "testdata/programs/sssd.sh", w.env...) })
	}
	p.stop()
}

// wantMounts skips the test if the process may not mount files over others.
func wantMounts(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt").CombinedOutput(); err != nil {
		t.Skipf("no mount namespace (is this root?): %v %s", err, out)
	}
}

// getent has questions to getent and the expected answers.
var getent = []struct{ question, answer string }{
	{"passwd jdoe", "jdoe:*:10000:10000:John Doe:/home/jdoe:/bin/zsh"},
	{"passwd 10002", "jmuller:*:10002:10000:Jorg Muller:/home/jmuller:/bin/bash"},
	{"passwd asantos", "passwd asantos: none"}, // no posixAccount
	{"passwd nobody*", "passwd nobody*: none"},
	{"group wheel", "wheel:*:10:jdoe"},
	{"group 10000", "staff:*:10000:"},
	{"initgroups sgarcia", "sgarcia               10001"},
}

// askGetent runs a script that calls getent, in a separate mount namespace.
func askGetent(t *testing.T, script string, env ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "unshare", "-m", "sh", script)
	var want []string
	for _, q := range getent {
		cmd.Args = append(cmd.Args, q.question)
		want = append(want, q.answer)
	}
	cmd.Env = append(os.Environ(), env...)
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.Output()
	if diff := godiff.Diff(want, strings.Split(strings.TrimSpace(string(out)), "\n")); diff != "" || err != nil {
		t.Errorf("%v (- want, + got):\n%s%s", err, diff, log.String())
	}
}
