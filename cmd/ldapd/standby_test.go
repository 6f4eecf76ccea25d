package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
)

var (
	persons  = flag.Int("people", 2000, "entries of TestStandbyFigures")
	rate     = flag.Int("rate", 300, "commits a second of TestStandbyFigures")
	loadTime = flag.Duration("load", 4*time.Second, "how long TestStandbyFigures reads, and then commits")
)

// The type served is a server in a process of its own.
type served struct {
	*testing.T
	url   string
	cmd   *exec.Cmd
	mu    sync.Mutex
	errs  bytes.Buffer
	ended chan struct{}
}

// program returns the program's path. The path is a link to the test binary, which acts as
// the program if it is run by this name.
func (h *home) program() string {
	h.Helper()
	path := h.path("ldapd")
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, path)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		h.Fatal(err)
	}
	return path
}

// run runs a command in a process of its own.
func (h *home) run(args ...string) {
	h.Helper()
	if out, err := exec.Command(h.program(), args...).CombinedOutput(); err != nil {
		h.Errorf("ldapd %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// Write implements io.Writer for the server's log.
func (s *served) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.errs.Write(b)
}

func (s *served) said(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.errs.String(), text)
}

// serve starts a server on a Unix socket.
func (h *home) serve(socket string, args ...string) *served {
	h.Helper()
	s := &served{T: h.T, url: "ldapi://" + h.path(socket), ended: make(chan struct{})}
	s.cmd = exec.Command(h.program(), append([]string{"serve", "--listen", s.url, "--admin-password-file", h.path("admin.pw")}, args...)...)
	s.cmd.Stdout, s.cmd.Stderr = s, s
	if err := s.cmd.Start(); err != nil {
		h.Fatal(err)
	}
	go func() {
		defer close(s.ended)
		if err := s.cmd.Wait(); err != nil {
			h.Errorf("the server ended: %v\n%s", err, s.errs.String())
		}
	}()
	h.Cleanup(s.stop)
	s.await("ready ldapi", time.Hour)
	return s
}

func (s *served) await(text string, patience time.Duration) {
	s.Helper()
	for end := time.Now().Add(patience); !s.said(text); time.Sleep(5 * time.Millisecond) {
		select {
		case <-s.ended:
			s.Fatal("the server has ended")
		default:
		}
		if time.Now().After(end) {
			s.Fatalf("the server never says %q", text)
		}
	}
}

func (s *served) stop() {
	select {
	case <-s.ended:
	default:
		s.cmd.Process.Signal(os.Interrupt)
		<-s.ended
	}
}

// dial returns a connection on which the administrator is bound.
func (s *served) dial() *ldap.Conn {
	s.Helper()
	c, err := ldap.DialURL(s.url)
	if err == nil {
		err = c.Bind("cn=admin", "secret")
	}
	if err != nil {
		s.Fatal(err)
	}
	return c
}

func person(n int) string { return fmt.Sprintf("uid=p%d,ou=people,dc=example,dc=com", n) }

// description returns the description of an entry.
func description(c *ldap.Conn, name string) (string, error) {
	r, err := c.Search(ldap.NewSearchRequest(name, ldap.ScopeBaseObject, ldap.NeverDerefAliases, 0, 0, false, "(objectClass=*)", []string{"description"}, nil))
	if err != nil {
		return "", err
	}
	return r.Entries[0].GetAttributeValue("description"), nil
}

func describe(c *ldap.Conn, name, text string) error {
	r := ldap.NewModifyRequest(name, nil)
	r.Replace("description", []string{text})
	return c.Modify(r)
}

// reads reads random entries until done returns true, and returns the 99th percentile of
// the latencies.
func (s *served) reads(done func() bool) (p99 time.Duration, n int) {
	s.Helper()
	c := s.dial()
	defer c.Close()
	var took []time.Duration
	for !done() {
		begun := time.Now()
		if _, err := description(c, person(rand.IntN(*persons))); err != nil {
			s.Fatal(err)
		}
		took = append(took, time.Since(begun))
		time.Sleep(time.Millisecond)
	}
	return percentile(took, 0.99), len(took)
}

func percentile(all []time.Duration, p float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(int(float64(len(all))*p), len(all)-1)]
}

func (h *home) writePeople() string {
	file, err := os.Create(h.path("people.ldif"))
	if err != nil {
		h.Fatal(err)
	}
	w := bufio.NewWriter(file)
	fmt.Fprint(w, "dn: dc=example,dc=com\nobjectClass: domain\ndc: example\n\ndn: ou=people,dc=example,dc=com\nobjectClass: organizationalUnit\nou: people\n\n")
	for n := range *persons {
		fmt.Fprintf(w, "dn: %s\nobjectClass: inetOrgPerson\nuid: p%d\ncn: Person %d\nsn: S%d\nmail: p%d@example.com\nemployeeNumber: %d\n\n", person(n), n, n, n%5000, n, n)
	}
	if err := w.Flush(); err != nil {
		h.Fatal(err)
	}
	if err := file.Close(); err != nil {
		h.Fatal(err)
	}
	return file.Name()
}

// size returns the total size of the files below a folder.
func (h *home) size(folder string) (n int64) {
	err := filepath.WalkDir(h.path(folder), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				n += info.Size()
			}
		}
		return err
	})
	if err != nil {
		h.Error(err)
	}
	return n
}

// A pace makes commits at a given rate. Writer 0 increments the number in the description
// of one entry, and notes the time at which each of its commits is acknowledged.
type pace struct {
	mu    sync.Mutex
	acked []time.Time // acked[i]: when description i was acknowledged
	all   atomic.Int64
}

func (p *pace) write(s *served, writers int, until func() bool) *sync.WaitGroup {
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			c := s.dial()
			defer c.Close()
			every := time.Second * time.Duration(writers) / time.Duration(*rate)
			for next := time.Now(); !until(); next = next.Add(every) {
				time.Sleep(time.Until(next))
				name, text := person(1+rand.IntN(*persons-1)), strconv.Itoa(rand.Int())
				if w == 0 {
					name, text = person(0), strconv.Itoa(len(p.acked))
				}
				if err := describe(c, name, text); err != nil {
					if !ldap.IsErrorWithCode(err, ldap.LDAPResultUnwillingToPerform) { // the server's standby is the primary now
						s.Error(err)
					}
					return
				}
				p.all.Add(1)
				if w == 0 {
					p.mu.Lock()
					p.acked = append(p.acked, time.Now())
					p.mu.Unlock()
				}
			}
		})
	}
	return &group
}

// lag returns the time since the acknowledgement of the oldest commit that a reader misses, or
// 0 if none is missing. The parameter seen is the description that the reader sees.
func (p *pace) lag(seen string) time.Duration {
	n, err := strconv.Atoi(seen)
	if err != nil {
		n = -1
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n+1 >= len(p.acked) {
		return 0
	}
	return time.Since(p.acked[n+1])
}

// lags measures the lag of a standby until done returns true, and the processor time that a
// commit costs the primary, the standby and the clients. The parameter "when" is the name of
// the stage of the test.
func (p *pace) lags(when string, primary, standby *served, done func() bool) {
	primary.Helper()
	reader := standby.dial()
	defer reader.Close()
	pids := [3]int{primary.cmd.Process.Pid, standby.cmd.Process.Pid, os.Getpid()}
	var used [3]time.Duration
	for i, pid := range pids {
		used[i] = -processorTime(pid)
	}
	begun, before := time.Now(), p.all.Load()
	var lags []time.Duration
	for len(lags) == 0 || !done() {
		seen, err := description(reader, person(0))
		if err != nil {
			primary.Fatal(err)
		}
		lags = append(lags, p.lag(seen))
		time.Sleep(10 * time.Millisecond)
	}
	took, n := time.Since(begun), max(p.all.Load()-before, 1)
	for i, pid := range pids {
		used[i] = (used[i] + processorTime(pid)) / time.Duration(n)
	}
	primary.Logf("lag %s, for %v at %.0f commits a second: p50 %v, p99 %v, most %v; processor time of a commit: primary %v, standby %v, clients %v",
		when, took.Round(time.Second), float64(n)/took.Seconds(), percentile(lags, 0.5).Round(time.Millisecond), percentile(lags, 0.99).Round(time.Millisecond),
		slices.Max(lags).Round(time.Millisecond), used[0].Round(time.Microsecond), used[1].Round(time.Microsecond), used[2].Round(time.Microsecond))
}

// processorTime returns the processor time that a process has used, or 0 if it is unknown.
func processorTime(pid int) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err1 != nil || err2 != nil {
		return 0
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

// TestStandbyFigures measures an archive and a standby beside a load, and checks that a
// promoted standby lacks no commit that was acknowledged 30 seconds or more before the
// promotion. CI runs the test with few entries, only to see that the test works.
func TestStandbyFigures(t *testing.T) {
	h := &home{t, t.TempDir()}
	if err := os.WriteFile(h.path("admin.pw"), []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	h.run("import", "--store", h.path("store"), "--suffix", "dc=example,dc=com", h.writePeople())
	t.Logf("import of %d entries: %v", *persons, time.Since(begun).Round(time.Millisecond))

	s := h.serve("a", "--store", h.path("store"), "--archive-to", h.path("archive"), "--archive-lag", "500ms")
	s.await("cache is warm", time.Hour)
	s.await("a base was archived", time.Hour)
	deadline := time.Now().Add(*loadTime)
	alone, n := s.reads(func() bool { return time.Now().After(deadline) })
	t.Logf("%d reads: p99 %v", n, alone)
	// Remove the files and the bases of the archive, so that the next base sends every file.
	if err := errors.Join(os.RemoveAll(h.path("archive/file")), os.RemoveAll(h.path("archive/base"))); err != nil {
		t.Fatal(err)
	}
	begun = time.Now()
	var took atomic.Int64
	based := make(chan struct{})
	go func() {
		defer close(based)
		h.run("backup", "--store", h.path("store"), "--base")
		took.Store(int64(time.Since(begun)))
	}()
	beside, n := s.reads(func() bool {
		select {
		case <-based:
			return time.Since(begun) > time.Second
		default:
			return false
		}
	})
	t.Logf("%d reads beside a base: p99 %v, %.2f times as much; the base took %v, %d MB", n, beside, float64(beside)/float64(alone), time.Duration(took.Load()).Round(time.Millisecond), h.size("archive")>>20)

	c := s.dial()
	for range *persons / 100 {
		if err := describe(c, person(rand.IntN(*persons)), "changed"); err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	before := h.size("archive/file")
	h.run("backup", "--store", h.path("store"), "--base")
	t.Logf("the base after changes of 1%% of the entries sent %.1f%% of the octets", 100*float64(h.size("archive/file")-before)/float64(before))

	begun = time.Now()
	h.run("backup", "restore", "--from", h.path("archive"), "--to", h.path("restored"))
	t.Logf("restore: %v", time.Since(begun).Round(time.Millisecond))

	begun = time.Now()
	standby := h.serve("b", "--store", h.path("two"), "--standby-from", h.path("archive"), "--archive-to", h.path("archive"), "--archive-lag", "500ms")
	t.Logf("a new standby: %v", time.Since(begun).Round(time.Millisecond))
	p := &pace{}
	var over atomic.Bool
	writers := p.write(s, max(16, *rate/25), over.Load)
	p.lags("while the standby fills its cache", s, standby, func() bool { return standby.said("cache is warm") })
	deadline = time.Now().Add(*loadTime)
	p.lags("after that", s, standby, func() bool { return time.Now().After(deadline) })

	begun = time.Now()
	h.run("promote", "--store", h.path("two"), "--standby-from", h.path("archive"))
	told := time.Since(begun)
	for {
		c, err := ldap.DialURL(standby.url)
		if err == nil {
			if err = c.Bind("cn=admin", "secret"); err == nil {
				err = describe(c, person(1), "promoted")
			}
			c.Close()
		}
		if err == nil {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatal("the promoted standby takes no changes: ", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Logf("promotion: %v, the first change after %v", told.Round(time.Millisecond), time.Since(begun).Round(time.Millisecond))
	over.Store(true)
	writers.Wait()
	s.await("were not taken over", time.Minute)
	c = standby.dial()
	defer c.Close()
	seen, err := description(c, person(0))
	if err != nil {
		t.Fatal(err)
	}
	last, err := strconv.Atoi(seen)
	if err != nil || last >= len(p.acked) {
		t.Fatalf("the promoted standby has %q, and %d commits were acknowledged", seen, len(p.acked))
	}
	lost := len(p.acked) - 1 - last
	if lost > 0 {
		t.Logf("%d of %d commits were not taken over, the oldest was acknowledged %v after the promotion began", lost, len(p.acked), p.acked[last+1].Sub(begun).Round(time.Millisecond))
		if begun.Sub(p.acked[last+1]) > 30*time.Second {
			t.Error("that is more than the tail")
		}
	}
}
