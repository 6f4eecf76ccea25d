package integration

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/wire/wiretest"
)

// multitude is the number of idle connections by scheme. With TLS there are fewer, because each
// handshake takes milliseconds. A server may use multitudeMiB of memory, and multitudeKiB for
// each connection.
var (
	multitude    = map[string]int{"ldap": 6_000, "ldaps": 1_000}
	multitudeKiB = map[string]int{"ldap": 8, "ldaps": 25}
)

const multitudeMiB = 72

// TestMultitude opens very many connections. Each binds, searches once and then does
// nothing. The test checks the server's memory when the server has become idle, and sends
// a request on one of the connections. While these connections are open, the server must
// serve other clients about as fast as a server without idle connections does.
func TestMultitude(t *testing.T) {
	if testing.Short() {
		t.Skip("opens thousands of connections")
	}
	for scheme, multitude := range multitude {
		most := multitudeMiB + multitude*multitudeKiB[scheme]>>10
		t.Run(scheme, func(t *testing.T) {
			needFiles(t, multitude)
			store := filepath.Join(t.TempDir(), "store")
			importInto(t, store, example)
			f := newTLS(t)
			p := serve(t, store, append(f.flags(), "--listen", scheme+"://127.0.0.1:0", "--listen", "ldap://127.0.0.1:0", "--limits-connections", "11000")...)
			before := resident(t, p)
			conns := gather(t, p.urls[0], multitude, f.trusting())
			first := resident(t, p)
			after := first
			for end := time.Now().Add(patience); after > most && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				after = resident(t, p)
			}
			t.Logf("%d MiB without, %d MiB with %d connections, %d at rest, %d KiB each", before, first, multitude, after, (after-before)<<10/multitude)
			if after > most {
				t.Errorf("%d MiB, want at most %d", after, most)
			}
			if err := ask(conns[multitude/2]); err != nil {
				t.Error(err)
			}
			besideMultitude(t, p)
		})
	}
}

// besideMultitude compares the latency of clients at server p, which has the idle
// connections, with the latency at a server that has none. It measures the two servers
// alternately.
func besideMultitude(t *testing.T, p *process) {
	store := filepath.Join(t.TempDir(), "store")
	importInto(t, store, example)
	alone := serve(t, store)
	there, here := wellBehavedAt(t, alone.urls[0]), wellBehavedAt(t, p.urls[len(p.urls)-1])
	for range tries {
		var without, with []time.Duration
		for range 4 {
			without = append(without, latencies(t, there, 300*time.Millisecond)...)
			with = append(with, latencies(t, here, 300*time.Millisecond)...)
		}
		a, b := percentile99(without), percentile99(with)
		t.Logf("p99 %v without, %v with them", a, b)
		if b <= atMost*a {
			return
		}
	}
	t.Errorf("others take more than %d times as long", atMost)
}

func wellBehavedAt(t *testing.T, url string) (conns []net.Conn) {
	for range wellBehaved {
		c, err := net.Dial("tcp", strings.TrimPrefix(url, "ldap://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		conns = append(conns, c)
	}
	return conns
}

// needFiles skips the test if a process may not open n connections.
func needFiles(t *testing.T, n int) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < uint64(n+100) {
		t.Skipf("%d files may be open here (%v), and %d connections are needed: ulimit -n", limit.Cur, err, n)
	}
}

// gather opens n connections and calls ask with each, up to 16 at the same time.
func gather(t *testing.T, url string, n int, config *tls.Config) []net.Conn {
	scheme, address, _ := strings.Cut(url, "://")
	conns := make([]net.Conn, n)
	errs := make(chan error, n)
	var workers sync.WaitGroup
	for w := range 16 {
		workers.Go(func() {
			for i := w; i < n; i += 16 {
				c, err := net.Dial("tcp", address)
				if err == nil && scheme == "ldaps" {
					c = tls.Client(c, config)
				}
				if err == nil {
					conns[i] = c
					err = ask(c)
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	t.Cleanup(func() {
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
	})
	workers.Wait()
	select {
	case err := <-errs:
		t.Fatal(err)
	default:
	}
	return conns
}

// rootDSE is a search for the root DSE, which every server answers.
var rootDSE = &op.Search{Filter: &filter.Present{Attribute: "objectClass"}, Attributes: []string{"1.1"}}

// ask binds anonymously and reads the root DSE.
func ask(c net.Conn) error {
	c.SetDeadline(time.Now().Add(patience))
	r := bufio.NewReaderSize(c, 512)
	for id, request := range []op.Request{&op.Bind{Version: 3, Password: []byte{}}, rootDSE} {
		if _, err := c.Write(wiretest.AppendRequest(nil, &op.Message{ID: int32(id + 1), Request: request})); err != nil {
			return err
		}
		for {
			a, err := wiretest.Read(r)
			if err != nil {
				return err
			}
			if a.Tag == 0x64 {
				continue
			}
			if a.Response.Code != op.Success {
				return fmt.Errorf("answered %+v", a.Response)
			}
			break
		}
	}
	return nil
}

// resident returns the server's resident memory in MiB.
func resident(t *testing.T, p *process) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Skip(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib >> 10
}
