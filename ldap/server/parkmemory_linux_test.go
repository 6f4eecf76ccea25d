//go:build !race

package server_test

import (
	"net/netip"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
	"github.com/seed-4dac0d86/ldapd/ldap/wire/wiretest"
)

// TestParkedMemory bounds the heap and the stack of a parked connection that has bound and has made a request. The
// clients are bare sockets, so that they take no memory.
func TestParkedMemory(t *testing.T) {
	const n, most = 500, 3584
	r := start(t, succeed, server.Options{WriteTimeout: soon.WriteTimeout})
	at := netip.MustParseAddrPort(r.addr)
	request := wiretest.AppendRequest(nil, &op.Message{ID: 1, Request: bind})
	request = wiretest.AppendRequest(request, &op.Message{ID: 2, Request: compare})
	open := make([]int, 0, n+1)
	t.Cleanup(func() {
		for _, fd := range open {
			unix.Close(fd)
		}
	})
	connect := func() {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, fd)
		if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.Write(fd, request); err != nil {
			t.Fatal(err)
		}
		for answers := make([]byte, 28); len(answers) > 0; {
			got, err := unix.Read(fd, answers)
			if err != nil || got == 0 {
				t.Fatal(got, err)
			}
			answers = answers[got:]
		}
	}
	inUse := func() uint64 {
		runtime.GC() // twice, because pools keep what they have for one
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	connect() // what the first connection makes for all
	parked(t, 1)
	before := inUse()
	for range n {
		connect()
	}
	parked(t, n+1)
	each := (inUse() - before) / n
	t.Logf("%d octets each", each)
	if each > most {
		t.Errorf("a parked connection takes %d octets, want at most %d", each, most)
	}
}
