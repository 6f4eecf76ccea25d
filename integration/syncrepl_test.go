package integration

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-ldap/ldap/v3"
	godiff "github.com/google/go-cmp/cmp"

	"github.com/seed-4dac0d86/ldapd/dn"
)

// TestSyncreplConsumer runs a slapd that replicates from ldapd under a random load and
// across restarts of both servers. The test compares the two directories entry by
// entry.
func TestSyncreplConsumer(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"refreshAndPersist", "refreshOnly"} {
		t.Run(mode, func(t *testing.T) {
			store := filepath.Join(t.TempDir(), "store")
			importInto(t, store, example)
			flags := []string{"--admin-dn", slapdAdmin, "--sasl-mechanisms", "SCRAM-SHA-256"}
			p := serve(t, store, flags...)
			c := newConsumer(t, mode, p.url())
			c.start()
			c.equals(p.url())
			c.copiesPasswords(p.url())
			w := newLoad(t, p.url(), mode)
			w.run(300)
			c.equals(p.url())
			c.stop() // c misses the changes that follow
			w.run(200)
			c.start()
			c.equals(p.url())
			w.run(50)
			p.stop()
			p = serve(t, store, append(flags, "--listen", p.url())...)
			w.connect(p.url())
			w.run(100)
			c.equals(p.url())
			p.kill()
			p = serve(t, store, append(flags, "--listen", p.url())...)
			w.connect(p.url())
			w.run(100)
			c.equals(p.url())
		})
	}
}

// A consumer is a slapd that replicates a directory of ldapd.
type consumer struct {
	t         *testing.T
	dir, conf string
	url       string
	cmd       *exec.Cmd
	log       safeBuffer
}

func newConsumer(t *testing.T, mode, provider string) *consumer {
	t.Helper()
	lookSbin(t, "slapd")
	c := &consumer{t: t, dir: t.TempDir()}
	slapdSchemas(t) // skips the test if Debian's slapd is missing
	text := recipe(t)
	for from, to := range map[string]string{
		"ldap://ldapd.example.com": provider, "/var/lib/ldap": c.dir, "1073741824": "67108864",
		"type=refreshAndPersist retry=\"5 +\"":                     "type=" + mode + " interval=00:00:00:01 retry=\"1 +\"",
		"rootdn \"" + slapdAdmin + "\"":                            "rootdn \"" + slapdAdmin + "\"\nrootpw " + adminPassword,
		"binddn=\"cn=admin,dc=example,dc=com\" credentials=secret": fmt.Sprintf("binddn=%q credentials=%s", slapdAdmin, adminPassword),
	} {
		if !strings.Contains(text, from) {
			t.Fatalf("docs/operating.md: no %q in the recipe:\n%s", from, text)
		}
		text = strings.ReplaceAll(text, from, to)
	}
	c.conf = filepath.Join(c.dir, "slapd.conf")
	if err := os.WriteFile(c.conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.stop()
		if t.Failed() {
			t.Logf("slapd: %s", c.log.String())
		}
	})
	return c
}

// recipe returns the configuration of slapd in docs/operating.md.
func recipe(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## A slapd that follows\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var conf strings.Builder
	for line := range strings.Lines(section) {
		if code, ok := strings.CutPrefix(line, "    "); ok {
			conf.WriteString(code)
		}
	}
	return conf.String()
}

// copiesPasswords adds a person with a password and pwdReset at the provider, which derives
// SCRAM keys from the password. Then copiesPasswords binds as that person at the consumer. The
// consumer must not receive the keys.
func (c *consumer) copiesPasswords(provider string) {
	c.t.Helper()
	const name, password = "cn=secretive," + suffix, "hidden"
	at, err := dial(provider, slapdAdmin, adminPassword)
	if err != nil {
		c.t.Fatal(err)
	}
	defer at.Close()
	r := ldap.NewAddRequest(name, nil)
	for a, v := range map[string]string{"objectClass": "person", "cn": "secretive", "sn": "x", "userPassword": password, "pwdReset": "TRUE"} {
		r.Attribute(a, []string{v})
	}
	if err := at.Add(r); err != nil {
		c.t.Fatal(err)
	}
	keys, err := at.Search(ldap.NewSearchRequest(name, ldap.ScopeBaseObject, 0, 0, 0, false, "(objectClass=*)", []string{"scramKey"}, nil))
	if err != nil || len(keys.Entries) != 1 || len(keys.Entries[0].Attributes) != 1 {
		c.t.Fatalf("the provider has no scramKey: %v, %v", keys, err)
	}
	c.equals(provider)
	bound, err := dial(c.url, name, password)
	if err != nil {
		c.t.Fatalf("at the consumer: %v", err)
	}
	bound.Close()
}

func (c *consumer) start() {
	c.t.Helper()
	c.url, c.cmd = runSlapd(c.t, c.conf, &c.log)
}

func (c *consumer) stop() {
	if c.cmd == nil {
		return
	}
	end(c.cmd)
	c.cmd = nil
}

// equals waits until the directories of consumer and provider are equal.
func (c *consumer) equals(provider string) {
	c.t.Helper()
	eventually(c.t, "the consumer is equal", func() error {
		want, err := everything(provider)
		if err != nil {
			return err
		}
		got, err := everything(c.url)
		if err != nil {
			return err
		}
		if d := godiff.Diff(want, got); d != "" {
			return errors.New("- ldapd, + slapd:\n" + d)
		}
		return nil
	})
}

// The function "everything" returns the entries of a directory as text, one string for each
// entry.
func everything(url string) ([]string, error) {
	c, err := dial(url, slapdAdmin, adminPassword)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	attributes := append([]string{"*"}, operational...)
	r, err := c.Search(ldap.NewSearchRequest(suffix, ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, 0, 0, false,
		"(objectClass=*)", attributes, []ldap.Control{ldap.NewControlManageDsaIT(true)}))
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, e := range r.Entries {
		var values []string
		for _, a := range e.Attributes {
			for _, v := range a.Values {
				values = append(values, fmt.Sprintf("%s: %q", strings.ToLower(a.Name), printed(v)))
			}
		}
		slices.Sort(values)
		lines = append(lines, printed(e.DN)+"\n"+strings.Join(values, "\n"))
	}
	slices.Sort(lines)
	return lines, nil
}

// printed returns a value. If the value is a name, printed returns it in one canonical
// spelling, because servers escape names differently.
func printed(value string) string {
	if name, err := dn.Parse(value); err == nil {
		return name.String()
	}
	return value
}

// A randomLoad makes random changes of a directory. Some of its operations fail because
// of earlier operations, which is intended.
type randomLoad struct {
	t      *testing.T
	rng    *rand.Rand
	conn   *ldap.Conn
	count  int
	units  []string // names of organizational units
	names  []string // names of all entries that the load has added, even if they were deleted since
	leaves bool     // only entries without entries below them are renamed
}

func newLoad(t *testing.T, url, name string) *randomLoad {
	w := &randomLoad{t: t, rng: rand.New(rand.NewPCG(1, uint64(len(name)))), units: []string{suffix}}
	w.connect(url)
	return w
}

func (w *randomLoad) connect(url string) {
	w.t.Helper()
	eventually(w.t, "the server is back", func() (err error) {
		w.conn, err = dial(url, slapdAdmin, adminPassword)
		return err
	})
	w.t.Cleanup(func() { w.conn.Close() })
}

func (w *randomLoad) run(n int) {
	w.t.Helper()
	for range n {
		err := w.step()
		if err == nil || ldap.IsErrorAnyOf(err, ldap.LDAPResultNoSuchObject, ldap.LDAPResultNotAllowedOnNonLeaf,
			ldap.LDAPResultEntryAlreadyExists, ldap.LDAPResultUnwillingToPerform, ldap.LDAPResultAttributeOrValueExists) {
			continue
		}
		w.t.Fatal(err)
	}
}

// step makes one random change.
func (w *randomLoad) step() error {
	w.count++
	n := w.rng.IntN(100)
	switch {
	case n < 12 || len(w.names) == 0:
		return w.add("ou", "organizationalUnit", "")
	case n < 45:
		return w.add("cn", "person", "x")
	case n < 65:
		r := ldap.NewModifyRequest(pick(w.rng, w.names), nil)
		r.Replace("description", []string{fmt.Sprintf("change %d", w.count)})
		return w.conn.Modify(r)
	case n < 80:
		return w.rename()
	}
	i := w.rng.IntN(len(w.names))
	return w.conn.Del(ldap.NewDelRequest(w.names[i], nil))
}

func (w *randomLoad) add(rdn, class, sn string) error {
	value := fmt.Sprint(w.rng.IntN(40)) // few values, so that names recur
	name := fmt.Sprintf("%s=%s,%s", rdn, value, pick(w.rng, w.units))
	r := ldap.NewAddRequest(name, nil)
	r.Attribute("objectClass", []string{class})
	r.Attribute(rdn, []string{value})
	if sn != "" {
		r.Attribute("sn", []string{sn})
	}
	err := w.conn.Add(r)
	if err == nil {
		w.names = append(w.names, name)
		if rdn == "ou" {
			w.units = append(w.units, name)
		}
	}
	return err
}

// rename renames an entry with its subtree, and sometimes moves it to another parent.
func (w *randomLoad) rename() error {
	old := pick(w.rng, w.names)
	if w.leaves && !strings.HasPrefix(old, "cn=") {
		return nil
	}
	rdn, parent, _ := strings.Cut(old, ",")
	attribute, _, _ := strings.Cut(rdn, "=")
	to := ""
	if w.rng.IntN(2) == 0 {
		to = pick(w.rng, w.units)
		parent = to
	}
	rdn = fmt.Sprintf("%s=%d", attribute, w.rng.IntN(40))
	err := w.conn.ModifyDN(ldap.NewModifyDNRequest(old, rdn, true, to))
	if err != nil {
		return err
	}
	for _, list := range [][]string{w.names, w.units} {
		for i, name := range list {
			if name == old || strings.HasSuffix(name, ","+old) {
				list[i] = strings.TrimSuffix(name, old) + rdn + "," + parent
			}
		}
	}
	return nil
}
