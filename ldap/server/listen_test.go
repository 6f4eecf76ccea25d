package server_test

import (
	"context"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
)

func TestListenErrors(t *testing.T) {
	taken := listen(t)
	defer taken.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ url, want string }{
		{"ldap://" + taken.Addr().String(), "address already in use: another server listens there"},
		{"127.0.0.1:389", "not a URL such as"},
		{"http://127.0.0.1", `scheme "http" is not served`},
		{"ldap://127.0.0.1:notaport", "invalid port"},
		{"ldap://127.0.0.1:0/dc=x", "only a host and a port"},
		{"ldap://host.invalid:0", "host.invalid"},
		{"ldap://127.0.0.1:0?base=x", `"base" after the question mark is not known`},
		{"ldap://127.0.0.1:0?branch=%zz", "invalid URL escape"},
		{"ldapi://", "the path of the socket is missing"},
		{"ldapi:///", "the path of the socket is missing"},
		{"ldapi://%zz", "invalid URL escape"},
		{"ldapi://" + file, "is not a socket"},
		{"ldapi://" + dir + "/none/s", "no such file or directory"},
	}
	for _, test := range tests {
		l, err := server.Listen(test.url)
		if err == nil {
			l.Close()
			t.Errorf("%s: no error", test.url)
		} else if !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), test.url) {
			t.Errorf("%s: %v\nwant %s", test.url, err, test.want)
		}
	}
}

func TestUnixSocket(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ldapi socket")
	for _, u := range []string{"ldapi://" + url.QueryEscape(path), "ldapi://" + path, "LDAPI://" + url.PathEscape(path) + "/"} {
		u = strings.ReplaceAll(u, "+", "%20")
		l, err := server.Listen(u)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := server.Listen(u); err == nil || !strings.Contains(err.Error(), "another server listens") {
			t.Errorf("second listener: %v", err)
		}
		nc, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		nc.Close()
		l.Listener.(*net.UnixListener).SetUnlinkOnClose(false) // as after kill -9: the next listener replaces the socket
		l.Close()
	}
}

// TestPeer checks that the server gets the user and group of the client's process on
// ldapi.
func TestPeer(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells")
	}
	r := start(t, succeed, server.Options{})
	infos := r.infos()
	l, err := server.Listen("ldapi://" + filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- r.Serve(l) }()
	nc, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, nc)
	info := receive(t, infos, "the session")
	if uid, gid, ok := info.Peer(); !ok || uid != os.Getuid() || gid != os.Getgid() {
		t.Errorf("peer is %v, %v, %v", uid, gid, ok)
	}
	c.send(1, compare)
	c.expect(1, op.Success)
	r.dial()
	if info := receive(t, infos, "the session"); info.Addr.Network() != "tcp" {
		t.Errorf("TCP: %+v", info)
	}
}

// TestListenBranch checks that the ConnInfo of a connection contains the branch in the
// listener's URL.
func TestListenBranch(t *testing.T) {
	l, err := server.Listen("ldap://127.0.0.1:0?branch=a%2C+b")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(l.URL(), "?branch=a%2C+b") {
		t.Errorf("the listener is %s", l.URL())
	}
	branch := make(chan string, 1)
	s := server.New(branchHandler{branch}, server.Options{})
	go s.Serve(l)
	defer s.Shutdown(context.Background())
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := <-branch; got != "a, b" {
		t.Errorf("the session begins in %q", got)
	}
}

// branchHandler sends the branch of each connection to the channel branch.
type branchHandler struct{ branch chan string }

func (h branchHandler) NewSession(c *server.ConnInfo) server.Session {
	h.branch <- c.Branch
	return nopSession{}
}

type nopSession struct{ server.Session }

func (nopSession) Name() string { return "" }

func (nopSession) Close() {}
