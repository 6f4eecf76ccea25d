package integration

import (
	"bufio"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/wire/wiretest"
)

// atMost is the factor by which latencies may rise beside clients that behave badly. A test is
// tried several times, because the machine may be busy. The constants wellBehaved and
// badlyBehaved are numbers of clients.
const (
	atMost       = 3
	tries        = 5
	wellBehaved  = 16
	badlyBehaved = 32
)

// TestRobustness measures the latency of clients that read an entry repeatedly,
// alternately with and without other clients that behave badly. Because the measurements
// alternate, changes in the machine's load affect both kinds.
func TestRobustness(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	store := filepath.Join(t.TempDir(), "store")
	importInto(t, store, example)
	importInto(t, store, photos(t, 64))
	p := serve(t, store, "--admin-password-hash", slowHash(t), "--admin-password-file", "")
	for name, misbehave := range map[string]func(*testing.T, net.Conn, <-chan bool){
		"never reads":          neverReads,
		"one octet at a time":  oneOctetAtATime,
		"storm of wrong binds": wrongBinds,
	} {
		t.Run(name, func(t *testing.T) {
			for range tries {
				without, with := compareLatency(t, p, misbehave)
				t.Logf("p99 %v without, %v with them: %.1f times; the server has %d MiB", without, with, float64(with)/float64(without), resident(t, p))
				if with <= atMost*without {
					return
				}
			}
			t.Errorf("others take more than %d times as long", atMost)
		})
	}
}

// TestBindBesideStorm measures the binds of a client with the right password, while
// clients of another address guess passwords.
func TestBindBesideStorm(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	importInto(t, store, example)
	p := serve(t, store, "--admin-password-hash", slowHash(t), "--admin-password-file", "")
	good := openFrom(t, p, "127.0.0.2")
	defer good.Close()
	for range tries {
		without := median(binds(t, good))
		end := misbehaving(t, p, wrongBinds)
		with := median(binds(t, good))
		end()
		t.Logf("a bind takes %v without, %v with the storm", without, with)
		if with <= atMost*without {
			return
		}
	}
	t.Errorf("a bind takes more than %d times as long", atMost)
}

// binds binds several times with the right password, and returns the latencies.
func binds(t *testing.T, c net.Conn) (took []time.Duration) {
	r := bufio.NewReader(c)
	request := wiretest.AppendRequest(nil, &op.Message{ID: 1, Request: &op.Bind{Version: 3, Name: adminDN, Password: []byte(adminPassword)}})
	for range 20 {
		began := time.Now()
		if _, err := c.Write(request); err != nil {
			t.Fatal(err)
		}
		if a, err := wiretest.Read(r); err != nil || a.Response.Code != op.Success {
			t.Fatalf("%+v, %v", a, err)
		}
		took = append(took, time.Since(began))
	}
	return took
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// slowHash returns a hash of the administrator's password in a scheme that is slow to
// verify.
func slowHash(t *testing.T) string {
	cmd := exec.Command(ldapd(t), "passwd", "--scheme", "ARGON2")
	cmd.Stdin = strings.NewReader(adminPassword + "\n")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// compareLatency returns two 99th percentiles of the latency of well-behaved clients: without
// other clients, and beside clients that run misbehave. It measures them alternately.
func compareLatency(t *testing.T, p *process, misbehave func(*testing.T, net.Conn, <-chan bool)) (without, with time.Duration) {
	var good []net.Conn
	for range wellBehaved {
		c := open(t, p)
		defer c.Close()
		good = append(good, c)
	}
	var alone, beside []time.Duration
	for range 4 {
		alone = append(alone, latencies(t, good, 300*time.Millisecond)...)
		end := misbehaving(t, p, misbehave)
		latencies(t, good, 200*time.Millisecond) // meanwhile the other clients start to misbehave
		beside = append(beside, latencies(t, good, 300*time.Millisecond)...)
		end()
	}
	return percentile99(alone), percentile99(beside)
}

// latencies reads an entry repeatedly on each of the connections, and returns all
// latencies.
func latencies(t *testing.T, conns []net.Conn, during time.Duration) (took []time.Duration) {
	t.Helper()
	each := make([][]time.Duration, len(conns))
	var all sync.WaitGroup
	for i, c := range conns {
		all.Go(func() { each[i] = askFor(t, c, during) })
	}
	all.Wait()
	return slices.Concat(each...)
}

func open(t *testing.T, p *process) net.Conn {
	t.Helper()
	return openFrom(t, p, "127.0.0.1")
}

func openFrom(t *testing.T, p *process, address string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	c, err := d.Dial("tcp", strings.TrimPrefix(p.url(), "ldap://"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// misbehaving starts connections that misbehave until the returned function is called.
func misbehaving(t *testing.T, p *process, misbehave func(*testing.T, net.Conn, <-chan bool)) (end func()) {
	over := make(chan bool)
	var all sync.WaitGroup
	for range badlyBehaved {
		c := open(t, p)
		all.Go(func() {
			defer c.Close()
			misbehave(t, c, over)
		})
	}
	return func() {
		close(over)
		all.Wait()
	}
}

// askFor reads an entry repeatedly for the given time, and returns the latencies.
func askFor(t *testing.T, c net.Conn, during time.Duration) (took []time.Duration) {
	r := bufio.NewReader(c)
	request := wiretest.AppendRequest(nil, &op.Message{ID: 1, Request: &op.Search{Base: suffix, Filter: &filter.Present{Attribute: "objectClass"}}})
	for end := time.Now().Add(during); time.Now().Before(end); {
		began := time.Now()
		if _, err := c.Write(request); err != nil {
			t.Error(err)
			return took
		}
		for tag := byte(0x64); tag == 0x64; {
			a, err := wiretest.Read(r)
			if err != nil {
				t.Error(err)
				return took
			}
			tag = byte(a.Tag)
		}
		took = append(took, time.Since(began))
	}
	return took
}

func percentile99(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)*99/100]
}

// neverReads requests megabytes and reads none of the answers.
func neverReads(t *testing.T, c net.Conn, over <-chan bool) {
	request := &op.Search{Base: peopleDN, Scope: op.SingleLevel, Filter: filter.MustParse("(cn=photo)")}
	var b []byte
	for id := range int32(8) {
		b = wiretest.AppendRequest(b, &op.Message{ID: id + 1, Request: request})
	}
	if _, err := c.Write(b); err != nil {
		t.Error(err)
	}
	<-over
}

// oneOctetAtATime sends a request slowly, one octet every 100 ms.
func oneOctetAtATime(t *testing.T, c net.Conn, over <-chan bool) {
	request := wiretest.AppendRequest(nil, &op.Message{ID: 1, Request: &op.Compare{Name: suffix, Description: "dc", Value: make([]byte, 10000)}})
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		if _, err := c.Write(request[i : i+1]); err != nil {
			t.Error(err)
		}
		select {
		case <-tick.C:
		case <-over:
			return
		}
	}
}

// wrongBinds binds repeatedly as the administrator with a wrong password.
func wrongBinds(t *testing.T, c net.Conn, over <-chan bool) {
	r := bufio.NewReader(c)
	guess := wiretest.AppendRequest(nil, &op.Message{ID: 1, Request: &op.Bind{Version: 3, Name: adminDN, Password: []byte("guess")}})
	for {
		select {
		case <-over:
			return
		default:
		}
		if _, err := c.Write(guess); err != nil {
			t.Error(err)
			return
		}
		if a, err := wiretest.Read(r); err != nil || a.Response.Code != op.InvalidCredentials {
			t.Errorf("%+v, %v", a, err)
			return
		}
	}
}
