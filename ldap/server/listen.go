package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"
)

// A Listener is a listener opened by Listen.
type Listener struct {
	net.Listener
	scheme string // scheme of the URL
	branch string // the branch in which sessions begin, or "" for the trunk
}

// URL returns the URL of the address in use, including a port that the system has chosen.
func (l *Listener) URL() string {
	text := l.scheme + "://" + strings.ReplaceAll(l.Addr().String(), "/", "%2F")
	if l.branch != "" {
		text += "?branch=" + url.QueryEscape(l.branch)
	}
	return text
}

// branchOf returns the branch in which sessions of l begin. It returns "" if there is
// none, or if l was not opened by Listen.
func branchOf(l net.Listener) string {
	if ours, ok := l.(*Listener); ok {
		return ours.branch
	}
	return ""
}

// Secure reports whether connections begin with TLS.
func (l *Listener) Secure() bool { return l.scheme == "ldaps" }

// urlOf returns the URL of l, or only the address if l was not opened by Listen.
func urlOf(l net.Listener) string {
	if ours, ok := l.(*Listener); ok {
		return ours.URL()
	}
	return l.Addr().String()
}

// isSecure reports whether l was opened by Listen and its connections begin with TLS.
func isSecure(l net.Listener) bool {
	s, ok := l.(*Listener)
	return ok && s.Secure()
}

// Listen listens on the address in a URL of one of these forms:
//
//	ldap://HOST:PORT   TCP; without a HOST, all addresses; without a PORT, port 389
//	ldaps://HOST:PORT  the same with TLS from the first octet; without a PORT, port 636
//	ldapi://PATH       a Unix socket; slashes in PATH may be written as %2F
//
// The URL may end in ?branch=NAME: sessions of such a listener begin in the branch.
// Errors contain the URL, and advice on common problems.
func Listen(rawURL string) (*Listener, error) {
	address, query, _ := strings.Cut(rawURL, "?")
	branch, err := branchIn(query)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", rawURL, err)
	}
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return nil, fmt.Errorf("listen on %q: not a URL such as ldap://127.0.0.1:389 or ldapi:///run/ldapi", rawURL)
	}
	scheme = strings.ToLower(scheme)
	var l net.Listener
	switch scheme {
	case "ldap":
		l, err = listenTCP(address, "389")
	case "ldaps":
		l, err = listenTCP(address, "636")
	case "ldapi":
		l, err = listenUnix(rest)
	default:
		err = fmt.Errorf("scheme %q is not served, use ldap, ldaps or ldapi", scheme)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", rawURL, err)
	}
	return &Listener{l, scheme, branch}, nil
}

// branchIn returns the branch that the query of a URL names.
func branchIn(query string) (string, error) {
	v, err := url.ParseQuery(query)
	if err != nil {
		return "", err
	}
	for name := range v {
		if name != "branch" {
			return "", fmt.Errorf("%q after the question mark is not known, only branch=NAME is", name)
		}
	}
	return v.Get("branch"), nil
}

func listenTCP(rawURL, defaultPort string) (net.Listener, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	if strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
		return nil, errors.New("only a host and a port may be given")
	}
	port := u.Port()
	if port == "" {
		port = defaultPort
	}
	// the server configures keep-alive for each connection
	config := net.ListenConfig{KeepAlive: -1}
	l, err := config.Listen(context.Background(), "tcp", net.JoinHostPort(u.Hostname(), port))
	return l, hint(err)
}

func listenUnix(rest string) (net.Listener, error) {
	path, err := url.PathUnescape(rest)
	if err != nil {
		return nil, err
	}
	if len(path) > 1 {
		path = strings.TrimSuffix(path, "/")
	}
	if path == "" || path == "/" {
		return nil, errors.New("the path of the socket is missing, as in ldapi:///run/ldapi")
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, hint(err)
	}
	// The folder of the socket controls the access to the socket. A connection to the
	// socket has no more rights than a TCP connection.
	if err := os.Chmod(path, 0o666); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// removeStale removes a socket that nobody listens on, such as the socket of a killed
// server. It removes nothing else.
func removeStale(path string) error {
	st, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if st.Mode().Type() != fs.ModeSocket {
		return errors.New("the file is there and is not a socket, choose another path")
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		c.Close()
		return hint(syscall.EADDRINUSE)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

// hint adds advice to common errors.
func hint(err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w: another server listens there: stop it, or listen on another address", syscall.EADDRINUSE)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%w (ports below 1024 need the right to bind them, sockets a folder that can be written)", err)
	}
	return err
}
