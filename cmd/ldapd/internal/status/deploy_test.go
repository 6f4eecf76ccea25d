package status_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/status"
	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
	"github.com/seed-4dac0d86/ldapd/ldap/monitor/scrape"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
)

const deploy = "../../../../deploy"

// names returns the names of all metrics that a server with an embedded store can have. Some of
// them have no series on some servers.
func names() map[string]bool {
	all := map[string]bool{"up": true}
	r := scrape.Registry(monitor.New("test"))
	r.MustRegister(status.Collector(&status.Sources{Store: &lsm.Store{}}))
	ch := make(chan *prometheus.Desc)
	go func() {
		r.Describe(ch)
		close(ch)
	}()
	named := regexp.MustCompile(`fqName: "([a-z_]+)"`)
	for d := range ch {
		name := named.FindStringSubmatch(d.String())[1]
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			all[name+suffix] = true
		}
	}
	return all
}

// TestDeployedNamesExist checks that every metric that the alert rules or the dashboard
// use exists.
func TestDeployedNamesExist(t *testing.T) {
	known := names()
	used := regexp.MustCompile(`\b(ldapd|go|process)_[a-z_]+`)
	for _, file := range []string{"prometheus/ldapd.rules.yml", "prometheus/ldapd.rules.test.yml", "grafana/ldapd.json"} {
		b, err := os.ReadFile(filepath.Join(deploy, file))
		if err != nil {
			t.Fatal(err)
		}
		found := used.FindAllString(string(b), -1)
		if len(found) < 20 {
			t.Errorf("%s names %d metrics", file, len(found))
		}
		for _, name := range found {
			if !known[name] {
				t.Errorf("%s: there is no metric %s", file, name)
			}
		}
	}
}

// TestDashboardQueries checks that Prometheus can parse every query of the dashboard.
func TestDashboardQueries(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(deploy, "grafana/ldapd.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	var rules strings.Builder
	rules.WriteString("groups:\n- name: dashboard\n  rules:\n")
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			expr := strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*").Replace(target.Expr)
			rules.WriteString("  - record: dashboard:query\n    labels: { panel: \"" + p.Title + "\" }\n    expr: |\n      " + expr + "\n")
		}
	}
	file := filepath.Join(t.TempDir(), "dashboard.yml")
	if err := os.WriteFile(file, []byte(rules.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	promtool(t, nil, "check", "rules", "--lint=none", file)
}

// TestAlerts checks that each alert fires on its fault, and on nothing else.
func TestAlerts(t *testing.T) {
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("promtool is missing (Debian's prometheus)")
	}
	promtool(t, nil, "check", "rules", deploy+"/prometheus/ldapd.rules.yml")
	promtool(t, nil, "test", "rules", deploy+"/prometheus/ldapd.rules.test.yml")
	rules, _ := os.ReadFile(deploy + "/prometheus/ldapd.rules.yml")
	tests, _ := os.ReadFile(deploy + "/prometheus/ldapd.rules.test.yml")
	for _, m := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(rules), -1) {
		if strings.Count(string(tests), "alertname: "+m[1]+"\n") != 2 {
			t.Errorf("%s has no two tests", m[1])
		}
	}
}
