package config

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLaterLayersWin(t *testing.T) {
	file := write(t, "ldapd.yaml", `# a server
store: /srv/ldap
listen:
  - ldap://127.0.0.1:1389
  - ldapi:///run/ldapi
suffix: dc=example,dc=com
admin:
  dn: cn=root
proxies: [ 10.1.2.3/8, "::1" ]
limits:
  size: 500
  time: 30s
  max-pdu: 1MiB
`)
	c, err := Load(Sources{
		File:  file,
		Env:   []string{"LDAPD_LIMITS_SIZE=100", "LDAPD_LIMITS_TIME=1m", "HOME=/", "LDAPD_SUFFIX=dc=a,dc=b;dc=c"},
		Flags: map[string][]string{"limits.time": {"2m"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.Store != "/srv/ldap" || c.Limits.Size != 100 || c.Limits.Time != 2*time.Minute || c.Limits.MaxPDU != 1<<20 ||
		c.Limits.Connections != 10000 || c.Limits.Persistent != 16 || c.Admin.DN != "cn=root" || c.Lease != 10*time.Second {
		t.Errorf("%+v", c)
	}
	if d := cmp.Diff(c.Listen, []string{"ldap://127.0.0.1:1389", "ldapi:///run/ldapi"}); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(c.Suffix, []string{"dc=a,dc=b", "dc=c"}); d != "" {
		t.Error(d)
	}
	if got := fmt.Sprint(c.Proxies); got != "[10.0.0.0/8 ::1/128]" {
		t.Error(got)
	}
	origins := map[string]string{}
	for _, s := range c.settings {
		origins[s.Key.Name] = strings.TrimPrefix(s.Origin, filepath.Dir(file)+"/")
	}
	want := map[string]string{"store": "ldapd.yaml:2", "listen": "ldapd.yaml:3", "limits.max-pdu": "ldapd.yaml:13",
		"limits.size": "LDAPD_LIMITS_SIZE", "limits.time": "--limits-time", "cache": "default"}
	for k, v := range want {
		if origins[k] != v {
			t.Errorf("%s comes from %s, want %s", k, origins[k], v)
		}
	}
}

// TestConsole checks where pages may be served without TLS.
func TestConsole(t *testing.T) {
	for _, yaml := range []string{
		"console:\n  listen: [ 'http://127.0.0.1:1', 'http://[::1]:2', 'http://localhost:3' ]\n",
		"proxies: 10.0.0.0/8\nconsole:\n  listen: http://0.0.0.0:80\n",
		"tls:\n  certificate: c\n  key: k\nconsole:\n  listen: https://0.0.0.0:8443\n",
	} {
		c, err := Load(Sources{File: write(t, "c.yaml", yaml)})
		if err != nil || len(c.Console.Listen) == 0 || c.Console.Idle != 30*time.Minute || c.Console.Session != 8*time.Hour {
			t.Errorf("%s: %+v, %v", yaml, c.Console, err)
		}
	}
}

// TestReset checks that keys with two dots are read from groups within groups, and from what Print writes.
func TestReset(t *testing.T) {
	c, err := Load(Sources{File: write(t, "c.yaml", "console:\n  listen: http://localhost:8080\n  reset:\n    relay: localhost:25\n    from: a@example.com\n    url: http://localhost\n"),
		Env: []string{"LDAPD_CONSOLE_RESET_URL=https://x.example.com"}})
	want := Reset{Relay: "localhost:25", From: "a@example.com", URL: "https://x.example.com"}
	if err != nil || c.Console.Reset != want {
		t.Fatalf("%+v, %v", c.Console.Reset, err)
	}
	var b bytes.Buffer
	if err := c.Print(&b); err != nil {
		t.Fatal(err)
	}
	if c, err := Load(Sources{File: write(t, "again.yaml", b.String())}); err != nil || c.Console.Reset != want {
		t.Errorf("%+v, %v", c.Console.Reset, err)
	}
}

// TestPrintIsAFile checks that the output of Print is a configuration file with the
// same values.
func TestPrintIsAFile(t *testing.T) {
	c, err := Load(Sources{Flags: map[string][]string{"store": {"a b"}, "suffix": {"dc=x", `cn=a\,b,dc=y`}}})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := c.Print(&b); err != nil {
		t.Fatal(err)
	}
	again, err := Load(Sources{File: write(t, "c.yaml", b.String())})
	if err != nil {
		t.Fatalf("%v in\n%s", err, &b)
	}
	c.settings, again.settings = nil, nil
	if d := cmp.Diff(c.Store, again.Store) + cmp.Diff(c.Limits, again.Limits) + cmp.Diff(c.Listen, again.Listen) + cmp.Diff(c.Suffix, again.Suffix); d != "" {
		t.Error(d)
	}
}

func TestPasswords(t *testing.T) {
	const hash = "{SSHA}y+dX0kZIbVwVNdDNg5T1bjbFH+F/+wKO"
	const key = "SCRAM-SHA-1$4096:QSXCR+Q6sek8bf92$6dlGYMOdZcOPutkcNY8U2g7vK9Y=:D+CSWLOshSulAsxiupA+qs2/fTE="
	file := write(t, "pw", hash+"\r\n\n"+key+"\n")
	c, err := Load(Sources{Env: []string{"LDAPD_ADMIN_PASSWORD_FILE=" + file}})
	if err != nil || c.Admin.Password != hash || len(c.Admin.ScramKeys) != 1 || string(c.Admin.ScramKeys[0]) != key {
		t.Errorf("%v, %v", c, err)
	}
	file = write(t, "pw", hash+"\nmore")
	if _, err = Load(Sources{Env: []string{"LDAPD_ADMIN_PASSWORD_FILE=" + file}}); err == nil || !strings.Contains(err.Error(), "line 2 of") {
		t.Errorf("a line that is no key: %v", err)
	}
	c, err = Load(Sources{Env: []string{"LDAPD_ADMIN_PASSWORD_HASH=" + hash}})
	if err != nil || c.Admin.Password != hash {
		t.Fatalf("%v, %v", c, err)
	}
	var b bytes.Buffer
	c.Print(&b)
	if strings.Contains(b.String(), "y+dX0") || !strings.Contains(b.String(), "{SSHA}...") {
		t.Error(b.String())
	}
}

// TestMistakes checks that the error of every mistake names the place of the mistake.
func TestMistakes(t *testing.T) {
	pw := write(t, "empty", "\n")
	for _, c := range []struct {
		yaml, env, flag, want string
	}{
		{yaml: "stoer: x", want: `c.yaml:1: unknown key "stoer"`},
		{yaml: "store: x\nlimits:\n  size: 1\n  sise: 2\n", want: `c.yaml:4: unknown key "limits.sise"`},
		{yaml: "store: x\nlimits: 5\n", want: `c.yaml:2: expected keys`},
		{yaml: "- a\n", want: `c.yaml:1: expected keys`},
		{yaml: "store: [a, b]\n", want: `c.yaml:1: store: expected one value`},
		{yaml: "store: {a: b}\n", want: `c.yaml:1: store: expected a plain value`},
		{yaml: "listen: [{a: b}]\n", want: `c.yaml:1: listen: expected a plain value`},
		{yaml: "store: x\nstore: 'y\n", want: `c.yaml:`},
		{yaml: "\nstore: \"x\n", want: `c.yaml:`},
		{yaml: "a: b: c\n", want: `c.yaml:1`},
		{yaml: "store: x\nlimits:\n  size: many\n", want: `c.yaml:3: limits.size: "many" is not a count`},
		{yaml: "listen: http://x\n", want: `c.yaml:1: listen: "http://x" is not a URL`},
		{yaml: "referral: ldap://a/dc=x\n", want: `c.yaml:1: referral: "ldap://a/dc=x" is not the URL of a server`},
		{yaml: "referral: ldapi://a\n", want: `c.yaml:1: referral: "ldapi://a" is not`},
		{yaml: "referral: [ 'ldaps://[::1]:636', 'ldap://:389' ]\n", want: `c.yaml:1: referral: "ldap://:389" is not`},
		{yaml: "hbase:\n  tls-zookeeper: true\n", want: `c.yaml:2: hbase.tls-zookeeper: hbase.tls-ca is missing`},
		{yaml: "hbase: {tls-ca: a, tls-certificate: b}\n", want: `c.yaml:1: hbase.tls-certificate: hbase.tls-key is missing`},
		{yaml: "hbase: {tls-ca: a, tls-key: b}\n", want: `c.yaml:1: hbase.tls-key: hbase.tls-certificate is missing`},
		{yaml: "hbase: {kerberos-principal: ldapd@R}\n", want: `c.yaml:1: hbase.kerberos-principal: hbase.kerberos-keytab is missing`},
		{yaml: "hbase: {kerberos-zookeeper-principal: zookeeper/_HOST}\n", want: `c.yaml:1: hbase.kerberos-zookeeper-principal: hbase.kerberos-principal is missing`},
		{yaml: "hbase: {kerberos-keytab: k}\n", want: `c.yaml:1: hbase.kerberos-keytab: hbase.kerberos-principal is missing`},
		{yaml: "hbase: {kerberos-principal: ldapd@R, kerberos-keytab: k, kerberos-zookeeper-principal: zookeeper}\n", want: `c.yaml:1: hbase.kerberos-zookeeper-principal: principal of servers "zookeeper" does not look like`},
		{yaml: "hbase: {kerberos-principal: ldapd, kerberos-keytab: k}\n", want: `hbase.kerberos-principal: principal "ldapd" does not look like`},
		{yaml: "hbase: {kerberos-principal: ldapd@R, kerberos-keytab: k, kerberos-protection: none}\n", want: `c.yaml:1: hbase.kerberos-protection: "none"`},
		{yaml: "suffix: nodn\n", want: `c.yaml:1: suffix: "nodn" is not a DN`},
		{yaml: "admin:\n  dn: ''\n", want: `c.yaml:2: admin.dn: an empty DN`},
		{env: "LDAPD_STOER=x", want: `LDAPD_STOER: unknown`},
		{env: "LDAPD_CACHE=lots", want: `LDAPD_CACHE: cache: "lots" is not a size`},
		{env: "LDAPD_CACHE=-1", want: `LDAPD_CACHE: cache`},
		{env: "LDAPD_CACHE=99999999999999999999GiB", want: `LDAPD_CACHE: cache`},
		{env: "LDAPD_ADMIN_PASSWORD_HASH=secret", want: `LDAPD_ADMIN_PASSWORD_HASH: admin.password-hash: not a hashed`},
		{env: "LDAPD_ADMIN_PASSWORD_FILE=/no/such", want: `LDAPD_ADMIN_PASSWORD_FILE: admin.password-file: open /no/such`},
		{env: "LDAPD_ADMIN_PASSWORD_FILE=" + pw, want: `the first line of ` + pw + ` is empty`},
		{yaml: "limits:\n  rules:\n    - size=5 for ever\n", want: `c.yaml:2: limits.rules: "size=5 for ever" does not end with for anonymous`},
		{yaml: "limits:\n  memory: 1MiB\n", want: `c.yaml:2: limits.memory: 1048576 is less than limits.max-pdu (16777216)`},
		{env: "LDAPD_LIMITS_MAX_PDU=1GiB", want: `limits.memory: 268435456 is less than limits.max-pdu (1073741824)`},
		{env: "LDAPD_LIMITS_RULES=size=5", want: `LDAPD_LIMITS_RULES: limits.rules: "size=5" does not end with for`},
		{env: "LDAPD_LIMITS_RULES=size=5 for dn:x", want: `LDAPD_LIMITS_RULES: limits.rules: "size=5 for dn:x" does not end with for`},
		{env: "LDAPD_LIMITS_RULES=seize=5 for users", want: `LDAPD_LIMITS_RULES: limits.rules: "seize=5" is none of size=, time=`},
		{env: "LDAPD_LIMITS_RULES=time=x for users", want: `LDAPD_LIMITS_RULES: limits.rules: "x" is not a time`},
		{env: "LDAPD_LIMITS_TIME=5", want: `LDAPD_LIMITS_TIME: limits.time: "5" is not a time`},
		{yaml: "tls:\n  certificate: c\n", want: `c.yaml:2: tls.certificate: tls.key is missing`},
		{yaml: "tls:\n  key: k\n", want: `c.yaml:2: tls.key: tls.certificate is missing`},
		{yaml: "tls:\n  certificate: c\n  key: k\n  client-certificates: require\n", want: `c.yaml:4: tls.client-certificates: tls.client-ca is missing`},
		{yaml: "tls:\n  client-certificates: request\n", want: `tls.client-certificates: tls.certificate is missing`},
		{yaml: "attribute-options: [ x-a, x_b ]\n", want: `"x_b" is not an attribute option`},
		{yaml: "tls:\n  client-ca: ca\n", want: `tls.client-ca: tls.client-certificates is none`},
		{yaml: "proxies: [10.0.0.0/8, 10.0.0.0/33]\n", want: `c.yaml:1: proxies: "10.0.0.0/33" is not a network`},
		{env: "LDAPD_PROXIES=all", want: `LDAPD_PROXIES: proxies: "all" is not a network`},
		{env: "LDAPD_TLS_MIN_VERSION=1.1", want: `LDAPD_TLS_MIN_VERSION: tls.min-version: "1.1" is none of`},
		{env: "LDAPD_LISTEN=ldaps://:636", want: `LDAPD_LISTEN: listen: ldaps needs tls.certificate`},
		{env: "LDAPD_CONSOLE_LISTEN=http://127.0.0.1", want: `LDAPD_CONSOLE_LISTEN: console.listen: "http://127.0.0.1" is not http://HOST:PORT`},
		{env: "LDAPD_CONSOLE_LISTEN=http://127.0.0.1:1/x", want: `console.listen: "http://127.0.0.1:1/x" is not`},
		{env: "LDAPD_CONSOLE_LISTEN=http://0.0.0.0:8080", want: `"http://0.0.0.0:8080" would send passwords in clear`},
		{env: "LDAPD_CONSOLE_LISTEN=https://0.0.0.0:8443", want: `console.listen: https needs tls.certificate`},
		{yaml: "console:\n  reset:\n    from: a@example.com\n", want: `c.yaml:3: console.reset.from: console.reset.relay is missing`},
		{yaml: "console:\n  reset:\n    relay: localhost:25\n", want: `c.yaml:3: console.reset.relay: console.listen is missing`},
		{yaml: "console:\n  listen: http://localhost:8080\n  reset:\n    relay: localhost:25\n", want: `c.yaml:4: console.reset.relay: console.reset.from is missing`},
		{yaml: "console:\n  listen: http://localhost:8080\n  reset:\n    relay: localhost:25\n    from: a@example.com\n", want: `c.yaml:4: console.reset.relay: console.reset.url is missing`},
		{yaml: "console:\n  listen: http://localhost:8080\n  reset:\n    relay: localhost:25\n    from: a@example.com\n    url: http://localhost\n    user: u\n", want: `c.yaml:7: console.reset.user: console.reset.password-file is missing`},
		{yaml: "store: ./data\nsecrets:\n  seal: keys\n", want: `c.yaml:3: secrets.seal: it is for a store on HBase, and ./data is a folder`},
		{yaml: "console:\n  reset:\n    nothing: x\n", want: `c.yaml:3: unknown key "console.reset.nothing"`},
		{yaml: "console:\n  listen: http://localhost:8080\n  idle: 5s\n", want: `c.yaml:3: console.idle: "5s" is less than a minute`},
		{flag: "loud", want: `--log-level: log.level: "loud" is none of`},
	} {
		s := Sources{}
		if c.yaml != "" {
			s.File = write(t, "c.yaml", c.yaml)
		}
		if c.env != "" {
			s.Env = []string{c.env}
		}
		if c.flag != "" {
			s.Flags = map[string][]string{"log.level": {c.flag}}
		}
		_, err := Load(s)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q%s%s: %v, want %s", c.yaml, c.env, c.flag, err, c.want)
		}
	}
	if _, err := Load(Sources{File: "/no/such/file"}); err == nil || !strings.Contains(err.Error(), "--config: open /no/such/file") {
		t.Error(err)
	}
}

// TestAllMistakes checks that Check returns every mistake once.
func TestAllMistakes(t *testing.T) {
	file := write(t, "c.yaml", `stoer: x
limits:
  size: many
  sise: 5
  rules: [ time=1h for users, seize=5 for users ]
listen: [ http://x, ldaps://127.0.0.1 ]
`)
	_, mistakes := Check(Sources{File: file, Env: []string{"LDAPD_STOER=x", "LDAPD_CACHE=lots"}, Flags: map[string][]string{"log.level": {"loud"}}})
	var got []string
	for _, m := range mistakes {
		place, text, _ := strings.Cut(strings.TrimPrefix(m.Error(), filepath.Dir(file)+"/"), ": ")
		subject, _, _ := strings.Cut(text, ": ")
		got = append(got, place+" "+subject)
	}
	slices.Sort(got)
	want := []string{"--log-level log.level", "LDAPD_CACHE cache", "LDAPD_STOER unknown configuration variable", `c.yaml:1 unknown key "stoer"`,
		"c.yaml:3 limits.size", `c.yaml:4 unknown key "limits.sise"`, "c.yaml:5 limits.rules", "c.yaml:6 listen", "c.yaml:6 listen"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func FuzzReadYAML(f *testing.F) {
	f.Add([]byte("store: x\nlimits:\n  size: 1\n"))
	f.Add([]byte("listen: [a, b]\n? x\n: y\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, _ := readYAML("f", b)
		if _, err := l.Read(); err != nil {
			t.Error(err)
		}
	})
}

// TestLimitRules checks that a limit that a rule does not set has the general value.
func TestLimitRules(t *testing.T) {
	c, err := Load(Sources{Env: []string{"LDAPD_LIMITS_SIZE=9",
		"LDAPD_LIMITS_RULES=time=2m outstanding=2 for anonymous; size=0 sort-memory=1KiB for subtree:ou=a for b,dc=x"}})
	if err != nil {
		t.Fatal(err)
	}
	everyone := PerUser{Size: 9, Time: time.Minute, SortMemory: 64 << 20}
	first, second := everyone, everyone
	first.Time, first.Outstanding = 2*time.Minute, 2
	second.Size, second.SortMemory = 0, 1<<10
	want := []LimitRule{{"anonymous", first}, {"subtree:ou=a for b,dc=x", second}}
	if c.Limits.PerUser != everyone || !slices.Equal(c.Limits.Rules, want) {
		t.Errorf("%+v, %+v", c.Limits.PerUser, c.Limits.Rules)
	}
}

// TestForTestsOnly checks that test keys can be set by flags only, and are not printed.
func TestForTestsOnly(t *testing.T) {
	c, err := Load(Sources{Flags: map[string][]string{"test.clock": {"-40s"}, "test.in-flight": {"3s"}}})
	if err != nil || c.Test != (Test{InFlight: 3 * time.Second, Clock: -40 * time.Second}) {
		t.Fatalf("%+v, %v", c.Test, err)
	}
	var b bytes.Buffer
	if err := c.Print(&b); err != nil || strings.Contains(b.String(), "clock") {
		t.Errorf("%v: it shows\n%s", err, b.String())
	}
	for _, s := range []Sources{
		{Env: []string{"LDAPD_TEST_CLOCK=1s"}},
		{File: write(t, "ldapd.yaml", "test:\n  clock: 1s\n")},
		{Flags: map[string][]string{"test.clock": {"soon"}}},
	} {
		if c, err := Load(s); err == nil {
			t.Errorf("%+v is taken: %+v", s, c.Test)
		}
	}
}
