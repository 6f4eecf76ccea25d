package serving

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/status"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// TestSupervisor checks the reports that the service manager receives. The status must say
// whether the server is ready and, if not, why. Reports for the watchdog must arrive exactly
// while the server is live.
func TestSupervisor(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.SetReadDeadline(time.Now().Add(20 * time.Second))
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", "30000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	hears := func(want string) {
		t.Helper()
		for b := make([]byte, 1000); ; {
			n, err := l.Read(b)
			if err != nil {
				t.Fatalf("nothing like %q: %v", want, err)
			}
			if string(b[:n]) == want {
				return
			}
		}
	}
	var now atomic.Pointer[txn.Status]
	now.Store(&txn.Status{})
	h := status.NewHealth()
	h.Serve(func() txn.Status { return *now.Load() })
	s := &supervisor{health: h, log: slog.New(slog.DiscardHandler)}
	stop := inBackground(func(ctx context.Context) { s.ready(ctx, []string{"ldap://x"}) })
	hears("READY=1\nSTATUS=serving ldap://x")
	hears("WATCHDOG=1")
	now.Store(&txn.Status{Refusal: errors.New("the disk is full")})
	hears("STATUS=writes: the disk is full")
	hears("WATCHDOG=1")
	now.Store(&txn.Status{})
	hears("STATUS=serving ldap://x")
	now.Store(&txn.Status{Broken: errors.New("the log failed")})
	hears("STATUS=store: the log failed")
	l.SetReadDeadline(time.Now().Add(200 * time.Millisecond)) // long enough for about twenty reports
	b := make([]byte, 100)
	if n, _ := l.Read(b); n > 0 {
		t.Errorf("what is dead says %q", b[:n])
	}
	stop()
	s.stopping()
	l.SetReadDeadline(time.Now().Add(20 * time.Second))
	hears("STOPPING=1\nSTATUS=stopping")
}

// TestUnit checks that systemd accepts the unit file, which restricts what the server
// can damage.
func TestUnit(t *testing.T) {
	path, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is missing (Debian's systemd)")
	}
	unit := filepath.Join(t.TempDir(), "ldapd.service")
	b, err := os.ReadFile("../../../../deploy/systemd/ldapd.service")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(b), "/usr/bin/ldapd", program)
	if err := os.WriteFile(unit, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out, _ := exec.Command(path, "verify", "--man=no", unit).CombinedOutput() // other units cause errors too
	for _, line := range strings.Split(string(out), "\n") {
		if strings.Contains(line, "ldapd.service") {
			t.Errorf("verify: %s", line)
		}
	}
	out, err = exec.Command(path, "security", "--offline=true", unit).CombinedOutput()
	m := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`).FindSubmatch(out)
	if m == nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if level, _ := strconv.ParseFloat(string(m[1]), 64); level > 2.0 {
		t.Errorf("exposure level %v\n%s", level, out)
	}
}
