package main

import (
	"bufio"
	"bytes"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-ldap/ldap/v3"
)

const (
	suffix   = "dc=example,dc=com"
	password = "secret-secret" // of each person, stored as {SSHA}
	hashed   = "{SSHA}5UF3CWBNdjCIKM1tz0kJ4SEFYwMwMTIzNDU2Nw=="
	members  = 100 // of each group
)

func personDN(i int) string { return fmt.Sprintf("uid=u%d,ou=people,%s", i, suffix) }

// person returns the entry of a person.
func person(i int) string {
	return fmt.Sprintf("dn: %s\nobjectClass: top\nobjectClass: person\nobjectClass: organizationalPerson\nobjectClass: inetOrgPerson\n"+
		"uid: u%d\ncn: User %d\nsn: Name%d\nmail: u%d@example.com\ndepartmentNumber: D%d\nroomNumber: %d\ntelephoneNumber: +1 555 %d\nuserPassword: %s\n\n",
		personDN(i), i, i, i%1000, i, i%50, i%700, i, hashed)
}

// writeLDIF writes the directory with which all servers begin.
func writeLDIF(file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	fmt.Fprintf(w, "dn: %s\nobjectClass: top\nobjectClass: dcObject\nobjectClass: organization\ndc: example\no: Example\n\n", suffix)
	for _, ou := range []string{"people", "groups"} {
		fmt.Fprintf(w, "dn: ou=%s,%s\nobjectClass: top\nobjectClass: organizationalUnit\nou: %s\n\n", ou, suffix, ou)
	}
	for i := range *people {
		w.WriteString(person(i))
	}
	for g := range *people / members {
		fmt.Fprintf(w, "dn: cn=g%d,ou=groups,%s\nobjectClass: top\nobjectClass: groupOfNames\ncn: g%d\n", g, suffix, g)
		for m := range members {
			fmt.Fprintf(w, "member: %s\n", personDN(g*members+m))
		}
		w.WriteString("\n")
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}

// A client is one connection of a workload.
type client struct {
	*ldap.Conn
	random *rand.Rand
	number int // of the client among all of its workload
	made   int // entries that the workload add has made
}

// find searches and returns an error unless it finds n entries.
func (c *client) find(n int, base string, scope int, filter string) error {
	r, err := c.Search(ldap.NewSearchRequest(base, scope, ldap.NeverDerefAliases, 0, 0, false, filter, nil, nil))
	if err == nil && len(r.Entries) != n {
		err = fmt.Errorf("%s: %d entries, not %d", filter, len(r.Entries), n)
	}
	return err
}

func (c *client) any() int { return c.random.IntN(*people) }

// own returns the name of the i-th entry that this client adds.
func (c *client) own(i int) (name string, number int) {
	number = *people + c.number*1_000_000 + i
	return personDN(number), number
}

// A workload is what clients do again and again.
type workload struct {
	name string
	do   func(c *client) error
}

var workloads = []workload{
	{"base", func(c *client) error { return c.find(1, personDN(c.any()), ldap.ScopeBaseObject, "(objectClass=*)") }},
	{"eq: `(uid=U)`", func(c *client) error {
		return c.find(1, suffix, ldap.ScopeWholeSubtree, fmt.Sprintf("(uid=u%d)", c.any()))
	}},
	{"and: `(&(mail=M)(objectClass=person))`", func(c *client) error {
		return c.find(1, suffix, ldap.ScopeWholeSubtree, fmt.Sprintf("(&(mail=u%d@example.com)(objectClass=person))", c.any()))
	}},
	{"substr: `(mail=u123*)`", func(c *client) error {
		i := 100 + c.random.IntN(min(900, *people-100))
		return c.find(below(i), suffix, ldap.ScopeWholeSubtree, fmt.Sprintf("(mail=u%d*)", i))
	}},
	{"member: `(member=DN)`", func(c *client) error {
		return c.find(1, suffix, ldap.ScopeWholeSubtree, fmt.Sprintf("(member=%s)", personDN(c.any()/members*members)))
	}},
	{"unindexed: `(telephoneNumber=N)`", func(c *client) error {
		return c.find(1, suffix, ldap.ScopeWholeSubtree, fmt.Sprintf("(telephoneNumber=+1 555 %d)", c.any()))
	}},
	{"bind", func(c *client) error { return c.Bind(personDN(c.any()), password) }},
	{"compare", func(c *client) error {
		i := c.any()
		same, err := c.Compare(personDN(i), "uid", fmt.Sprintf("u%d", i))
		if err == nil && !same {
			err = fmt.Errorf("compare of %s is false", personDN(i))
		}
		return err
	}},
	{"modify", func(c *client) error {
		r := ldap.NewModifyRequest(personDN(c.any()), nil)
		r.Replace("description", []string{strconv.Itoa(c.random.Int())})
		return c.Modify(r)
	}},
	{"add and delete", func(c *client) error {
		name, n := c.own(c.made)
		c.made++
		r := ldap.NewAddRequest(name, nil)
		for line := range strings.SplitSeq(strings.TrimSpace(person(n)), "\n") {
			if k, v, _ := strings.Cut(line, ": "); k != "dn" {
				r.Attribute(k, []string{v})
			}
		}
		r.Attributes = merge(r.Attributes)
		if err := c.Add(r); err != nil {
			return err
		}
		return c.Del(ldap.NewDelRequest(name, nil))
	}},
}

// below returns how many people have numbers that begin with the digits of i, in decimal.
func below(i int) (n int) {
	for from, to := i, i+1; from < *people; from, to = from*10, to*10 {
		n += min(to, *people) - from
	}
	return n
}

// merge puts the values of one attribute together.
func merge(as []ldap.Attribute) (merged []ldap.Attribute) {
	for _, a := range as {
		if i := slices.IndexFunc(merged, func(m ldap.Attribute) bool { return m.Type == a.Type }); i >= 0 {
			merged[i].Vals = append(merged[i].Vals, a.Vals...)
		} else {
			merged = append(merged, a)
		}
	}
	return merged
}

// A figure is what one workload measured at one server.
type figure struct {
	rate float64       // operations a second
	cpu  time.Duration // of the server, an operation
	p99  time.Duration
}

func (f figure) String() string {
	return fmt.Sprintf("%.0f, %s us, %s ms", f.rate, short(float64(f.cpu)/1e3), short(float64(f.p99)/1e6))
}

// A peer is a script with the contract in bench/peer-lib.
type peer struct{ name, script string }

// of returns a peer of the source tree at root.
func of(root, script string) peer {
	return peer{strings.TrimPrefix(script, "peer-"), filepath.Join(root, "bench", script)}
}

// A server is a peer that runs.
type server struct {
	peer
	dir, url string
	pid      string
}

// run runs a peer's script.
func (s *server) run(args ...string) (string, error) {
	out, err := exec.Command(s.script, args...).Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", s.name, args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

// startServers starts peers on the same entries in the folder dir. The caller must call stop in any case.
func startServers(peers []peer, dir string) (servers []*server, stop func(), err error) {
	stop = func() {
		for _, s := range servers {
			_, _ = s.run("stop", s.dir)
		}
	}
	ldif := filepath.Join(dir, "people.ldif")
	if err := writeLDIF(ldif); err != nil {
		return nil, stop, err
	}
	for _, p := range peers {
		log.Print("loading ", p.name)
		s := &server{peer: p, dir: filepath.Join(dir, p.name)}
		servers = append(servers, s)
		if err := s.start(ldif); err != nil {
			return servers, stop, err
		}
	}
	return servers, stop, nil
}

func (s *server) start(ldif string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	s.url = "ldap://127.0.0.1:" + port
	cmd := exec.Command(s.script, "start", s.dir, ldif, port)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s start: %w", s.name, err)
	}
	s.pid, err = s.run("pid", s.dir)
	return err
}

// cpu returns the processor time that the server has used.
func (s *server) cpu() time.Duration {
	b, err := os.ReadFile("/proc/" + s.pid + "/stat")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	var ticks time.Duration
	for _, field := range f[11:13] { // utime, stime, of 100 ticks a second
		n, _ := strconv.Atoi(field)
		ticks += time.Duration(n)
	}
	return ticks * 10 * time.Millisecond
}

// measure runs a workload at a server.
func (s *server) measure(w workload) (figure, error) {
	clients := make([]*client, *conns)
	for i := range clients {
		c, err := ldap.DialURL(s.url)
		if err != nil {
			return figure{}, err
		}
		defer c.Close()
		if err := c.Bind("cn=admin,"+suffix, "secret-secret"); err != nil {
			return figure{}, err
		}
		clients[i] = &client{Conn: c, random: rand.New(rand.NewPCG(1, uint64(i))), number: i}
	}
	times := make([][]time.Duration, len(clients))
	errs := make([]error, len(clients))
	before, begun := s.cpu(), time.Now()
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() {
			for errs[i] == nil && time.Since(begun) < *duration {
				at := time.Now()
				errs[i] = w.do(c)
				times[i] = append(times[i], time.Since(at))
			}
		})
	}
	all.Wait()
	took := time.Since(begun)
	for _, err := range errs {
		if err != nil {
			return figure{}, fmt.Errorf("%s, %s: %w", s.name, w.name, err)
		}
	}
	sorted := slices.Sorted(slices.Values(slices.Concat(times...)))
	n := len(sorted)
	return figure{float64(n) / took.Seconds(), (s.cpu() - before) / time.Duration(n), sorted[n*99/100]}, nil
}

// sideBySide measures all workloads at all peers, by turns, and writes the tables.
func sideBySide(b *strings.Builder, peers []peer) error {
	dir, err := os.MkdirTemp("", "figures")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	servers, stop, err := startServers(peers, dir)
	defer stop()
	if err != nil {
		return err
	}
	if err := loads(b, servers); err != nil {
		return err
	}
	header(b, "workload", servers)
	for _, w := range workloads {
		log.Print(w.name)
		b.WriteString("| " + w.name)
		for _, s := range servers {
			f, err := s.measure(w)
			if err != nil {
				return err
			}
			b.WriteString(" | " + f.String())
		}
		b.WriteString(" |\n")
	}
	b.WriteString("\n")
	return nil
}

func header(b *strings.Builder, first string, servers []*server) {
	b.WriteString("| " + first)
	for _, s := range servers {
		b.WriteString(" | " + s.name)
	}
	b.WriteString(" |\n|---" + strings.Repeat("|---", len(servers)) + "|\n")
}

// loads writes the table of what loading took.
func loads(b *strings.Builder, servers []*server) error {
	b.WriteString("### Beside slapd\n\nEach cell: operations a second, CPU of the server an operation, p99.\n\n")
	header(b, "", servers)
	b.WriteString("| load: seconds, MB on disk")
	for _, s := range servers {
		took, err := os.ReadFile(filepath.Join(s.dir, "load.s"))
		if err != nil {
			return err
		}
		size, err := s.run("size", s.dir)
		if err != nil {
			return err
		}
		octets, _ := strconv.ParseFloat(size, 64)
		fmt.Fprintf(b, " | %s, %.1f", strings.TrimSpace(string(took)), octets/1e6)
	}
	b.WriteString(" |\n\n")
	return nil
}
