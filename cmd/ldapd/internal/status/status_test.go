package status_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/status"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
	"github.com/seed-4dac0d86/ldapd/ldap/monitor/scrape"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// exposed starts a status server for a partition on s.
func exposed(t *testing.T, s table.Store) (url string, m *monitor.Metrics) {
	ctx := context.Background()
	m = monitor.New("test")
	r := scrape.Registry(m)
	p, err := partition.Open(ctx, s, partition.Options{Create: true, Txn: txn.Options{Owner: "here", Observe: func(a txn.Attempt) { m.Commit(monitor.Attempt(a)) }}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(ctx) })
	passwords := auth.New(1, nil)
	passwords.Watch(m.Hash)
	r.MustRegister(status.Collector(&status.Sources{Partition: p, Store: s, Passwords: passwords,
		Certificates: func() map[string]time.Time { return map[string]time.Time{"server.pem": time.Now()} }}))
	m.SetLoad(func() *monitor.Load { return &monitor.Load{Listeners: []monitor.ListenerLoad{{URL: "ldap://x"}}} })
	passwords.Hash(ctx, auth.NoChannel{}, "ARGON2", []byte("secret"))
	l, err := status.Listen("http://127.0.0.1:0", status.Options{Health: status.NewHealth(), Metrics: r, Log: slog.New(slog.DiscardHandler),
		Targets: func(context.Context) ([]string, error) { return []string{"127.0.0.1:1"}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l.URL(), m
}

func get(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v", url, r.Status, err)
	}
	return string(b)
}

func stores(t *testing.T) map[string]table.Store {
	embedded, err := lsm.Open(lsm.Options{Path: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { embedded.Close() })
	return map[string]table.Store{"embedded": embedded, "shared": tabletest.NewMem()}
}

// TestMetrics checks that promtool finds no fault in a scrape, and that the number of
// series is within bounds.
func TestMetrics(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			url, _ := exposed(t, s)
			text := get(t, url+"/metrics")
			if n := len(regexp.MustCompile(`(?m)^[^#]`).FindAllString(text, -1)); n > 3000 || n < 100 {
				t.Errorf("%d series", n)
			}
			for _, want := range []string{`ldapd_commits_total{result="committed"} `, `ldapd_password_hashes_total{scheme="ARGON2"} 1`, `ldapd_slots{state="open"} 1`,
				`ldapd_build_info{version="test"} 1`, `ldapd_ready{for="writes"} 1`, `ldapd_cache_bytes{cache="entries"}`, "process_open_fds", "go_goroutines",
				"ldapd_password_wait_seconds_count 1", `ldapd_certificate_expiry_timestamp_seconds{file="server.pem"} `} {
				if !strings.Contains(text, "\n"+want) {
					t.Errorf("no %s", want)
				}
			}
			if strings.Contains(text, "ldapd_store_bytes") != (name == "embedded") {
				t.Error("octets of the store")
			}
			promtool(t, strings.NewReader(text), "check", "metrics")
		})
	}
}

// promtool runs Prometheus's promtool. It skips the test if promtool is not installed.
func promtool(t *testing.T, in io.Reader, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is missing (Debian's prometheus)")
	}
	c := exec.Command(path, args...)
	c.Stdin = in
	if out, err := c.CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 && args[0] == "check" && args[1] == "metrics" {
		t.Errorf("promtool %s: %v\n%s", args, err, out)
	}
}

// TestTargets checks that the servers of a store are listed in the format of
// Prometheus's service discovery.
func TestTargets(t *testing.T) {
	url, _ := exposed(t, tabletest.NewMem())
	if text := strings.TrimSpace(get(t, url+"/servers")); text != `[{"targets":["127.0.0.1:1"],"labels":{"job":"ldapd"}}]` {
		t.Error(text)
	}
}

// TestListenRefuses checks that Listen returns an error for URLs that it cannot use.
func TestListenRefuses(t *testing.T) {
	for _, url := range []string{"https://127.0.0.1:1", "http://127.0.0.1", "http://127.0.0.1:0/path", "127.0.0.1:1"} {
		if _, err := status.Listen(url, status.Options{}); err == nil {
			t.Errorf("%s is taken", url)
		}
	}
}
