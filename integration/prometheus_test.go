package integration

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/store/hbase/hbasetest"
)

// withoutData lists, for each engine, the queries of the dashboard that find no data:
// queries about a standby, and on HBase also queries about Pebble. A query is named by
// the title of its panel and its letter.
var withoutData = map[string][]string{
	"embedded": {"Standby lag A"},
	"hbase": {"Commit, p99 B", "Compaction A", "Compaction B", "Compaction C", "Octets of the store A",
		"Octets of the store B", "Standby lag A"},
}

// TestDashboard runs a real Prometheus and a server under load. Prometheus finds the server
// through the server's page /servers, and scrapes the server. Then every query of the dashboard
// must find data, except the queries in withoutData.
func TestDashboard(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("prometheus"); err != nil {
		t.Skip("prometheus is missing (Debian's prometheus)")
	}
	for engine, place := range map[string]func(*testing.T) string{
		"embedded": func(t *testing.T) string { return filepath.Join(t.TempDir(), "store") },
		"hbase":    func(t *testing.T) string { return "hbase://" + hbasetest.Start(t) + "/" + hbasetest.Prefix(t) },
	} {
		t.Run(engine, func(t *testing.T) {
			store := place(t)
			importInto(t, store, example)
			f := newTLS(t)
			p := serve(t, store, append(f.flags(), "--listen", "ldap://127.0.0.1:0", "--listen", "ldaps://127.0.0.1:0",
				"--status-listen", "http://127.0.0.1:0", "--limits-connections-per-address", "8", "--log-slow", "1us", "--retention", "1m")...)
			awaitWriter(t, p)
			prometheus := scrape(t, statusURL(t, p))
			work := &varied{t: t, p: p, tls: f}
			queries := dashboard(t)
			missing := func() (none []string) {
				for name, expr := range queries {
					if n := query(t, prometheus, expr); n == 0 {
						none = append(none, name)
					}
				}
				slices.Sort(none)
				return none
			}
			eventually(t, "every query finds data", func() error {
				work.round()
				time.Sleep(time.Second) // Prometheus scrapes every second
				if none := missing(); !slices.Equal(none, withoutData[engine]) {
					return fmt.Errorf("without data: %q; want %q", none, withoutData[engine])
				}
				return nil
			})
			if n := query(t, prometheus, "gohbase_operation_duration_seconds_count"); (n > 0) != (engine == "hbase") {
				t.Errorf("%d series of HBase's client", n)
			}
		})
	}
}

// scrape starts a Prometheus that asks a server for the list of servers, and scrapes all
// of them every second. It returns the URL of Prometheus.
func scrape(t *testing.T, status string) string {
	t.Helper()
	dir := t.TempDir()
	config := fmt.Sprintf("global: { scrape_interval: 1s }\nscrape_configs:\n- job_name: ldapd\n  http_sd_configs: [ { url: %q, refresh_interval: 1s } ]\n", status+"/servers")
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(t)))
	c := exec.Command("prometheus", "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	eventually(t, "Prometheus is ready", func() error {
		r, err := http.Get("http://" + address + "/-/ready")
		if err != nil {
			return err
		}
		r.Body.Close()
		if r.StatusCode != http.StatusOK {
			return fmt.Errorf("%s", r.Status)
		}
		return nil
	})
	return "http://" + address
}

// dashboard returns the queries of the dashboard by the title of their panel and their letter.
func dashboard(t *testing.T) map[string]string {
	t.Helper()
	b, err := os.ReadFile("../deploy/grafana/ldapd.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, RefID string }
		}
	}
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	queries := map[string]string{}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			queries[p.Title+" "+target.RefID] = strings.NewReplacer("$__rate_interval", "30s", "$instance", ".*").Replace(target.Expr)
		}
	}
	return queries
}

// query returns the number of series that a query finds. Series whose value is NaN do not
// count.
func query(t *testing.T, prometheus, expr string) (n int) {
	t.Helper()
	r, err := http.Get(prometheus + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var answer struct {
		Error string
		Data  struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil || answer.Error != "" {
		t.Fatalf("%s: %v %s", expr, err, answer.Error)
	}
	for _, x := range answer.Data.Result {
		if x.Value[1] != "NaN" {
			n++
		}
	}
	return n
}

// varied makes operations and connections of several kinds, so that the server has something
// to count for every panel.
type varied struct {
	t   *testing.T
	p   *process
	tls *tlsFiles
	n   int
}

func (v *varied) round() {
	v.n++
	c := v.p.admin()
	defer c.Close()
	name := fmt.Sprintf("cn=%d,%s", v.n, suffix)
	addTo(v.t, c, name, "device")
	password := ldap.NewPasswordModifyRequest("uid=jdoe,ou=people,"+suffix, "", fmt.Sprintf("Zuckerwatte-%d", v.n))
	if _, err := c.PasswordModify(password); err != nil {
		v.t.Fatal(err)
	}
	for _, filter := range []string{"(cn=*)", "(uid=jdoe)", "(description=none)", "(sn=S*)"} {
		if _, err := searchDN(c, suffix, ldap.ScopeWholeSubtree, filter); err != nil {
			v.t.Fatal(err)
		}
	}
	wantCode(v.t, "an entry that is there", c.Add(addRequest(name)), ldap.LDAPResultEntryAlreadyExists)
	secure := dialTLS(v.t, v.p.urls[1], v.tls.trusting())
	secure.Close()
	v.crowd()
	v.garbage()
}

func addRequest(name string) *ldap.AddRequest {
	r := ldap.NewAddRequest(name, nil)
	r.Attribute("objectClass", []string{"device"})
	return r
}

// crowd opens more connections than one address may have.
func (v *varied) crowd() {
	for range 10 {
		c, err := net.Dial("tcp", strings.TrimPrefix(v.p.url(), "ldap://"))
		if err != nil {
			v.t.Fatal(err)
		}
		defer c.Close()
	}
	time.Sleep(50 * time.Millisecond)
}

// garbage sends octets that are not LDAP.
func (v *varied) garbage() {
	c, err := net.Dial("tcp", strings.TrimPrefix(v.p.url(), "ldap://"))
	if err != nil {
		v.t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET / HTTP/1.1\r\n\r\n")
	_ = c.SetReadDeadline(time.Now().Add(time.Second))
	_, _ = c.Read(make([]byte, 100))
}
