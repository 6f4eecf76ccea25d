package alltime

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/hbase/internal/krb"
)

// A Dialer connects to servers of HBase. The zero Dialer connects without TLS.
type Dialer struct {
	// TLS returns the configuration of a connection, in which the server's name may be missing. If it is nil, connections
	// have no TLS.
	TLS func() (*tls.Config, error)
	// Kerberos authenticates connections. If it is nil, they have simple authentication.
	Kerberos *krb.Login
}

// handshake bounds the time from the first octet to a connection that calls can be written to.
const handshake = 10 * time.Second

// Dial is a dialer for gohbase.RegionDialer. Before it returns, it makes what comes before gohbase's preamble. The
// connection calls closed when it is closed.
func (d *Dialer) Dial(ctx context.Context, network, addr string, closed func(net.Conn)) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, handshake)
	defer cancel()
	var plain net.Dialer
	c, err := plain.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		c.Close()
		return nil, fmt.Errorf("%s is no address of TCP", addr)
	}
	if d.TLS == nil && d.Kerberos == nil {
		return &Conn{tcp, closed}, nil
	}
	s, err := d.secure(ctx, tcp, addr, closed)
	if err != nil {
		tcp.Close()
		return nil, err
	}
	return s, nil
}

func (d *Dialer) secure(ctx context.Context, c net.Conn, addr string, closed func(net.Conn)) (*Secured, error) {
	host, _, err := net.SplitHostPort(addr)
	if err == nil && d.TLS != nil {
		c, err = Handshake(ctx, c, d.TLS, host)
	}
	if err == nil && d.Kerberos != nil {
		c, err = d.Kerberos.Client(ctx, c, host)
	}
	if err != nil {
		return nil, err
	}
	return join(c, d.Kerberos != nil, closed)
}

// Handshake begins TLS on a connection to a host. Unless the configuration has the name that the server's certificate
// must contain, it is the host.
func Handshake(ctx context.Context, c net.Conn, config func() (*tls.Config, error), host string) (net.Conn, error) {
	conf, err := config()
	if err != nil {
		return nil, err
	}
	if conf.ServerName == "" && !conf.InsecureSkipVerify {
		conf = conf.Clone()
		conf.ServerName = host
	}
	t := tls.Client(c, conf)
	if err := t.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("TLS with %s: %w", host, err)
	}
	return t, nil
}

// A Secured is a connection with TLS or Kerberos.
//
// gohbase writes calls from several goroutines without a lock, and relies on package net to write each of them whole.
// That works only on sockets: on another connection, net.Buffers writes each buffer by itself. So gohbase writes into one
// end of two connected sockets, and one goroutine copies from the other end into the connection. gohbase reads from the
// connection itself.
type Secured struct {
	*net.UnixConn // what gohbase writes into
	line          net.Conn
	closed        func(net.Conn)
}

func join(line net.Conn, greeted bool, closed func(net.Conn)) (*Secured, error) {
	near, far, err := socketPair()
	if err != nil {
		return nil, err
	}
	go func() {
		if !greeted || skipPreamble(far) {
			copyAll(line, far)
		}
		far.Close()
		line.Close()
	}()
	return &Secured{near, line, closed}, nil
}

// skipPreamble reads gohbase's preamble, which asks for simple authentication. With Kerberos, another one has been sent.
func skipPreamble(far net.Conn) bool {
	b := make([]byte, len(krb.Preamble))
	_, err := io.ReadFull(far, b)
	return err == nil && string(b) == krb.Preamble
}

// copyAll copies to line what was written, in pieces of any size.
func copyAll(line, far net.Conn) {
	b := make([]byte, 64<<10)
	for {
		n, err := far.Read(b)
		if err != nil {
			return
		}
		if _, err := line.Write(b[:n]); err != nil {
			return
		}
	}
}

func socketPair() (near, far *net.UnixConn, err error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, err
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "")
		c, ferr := net.FileConn(f)
		f.Close()
		if err = ferr; err == nil {
			ends[i], _ = c.(*net.UnixConn)
		}
	}
	return ends[0], ends[1], err
}

// Write writes b as Conn.Write does.
func (s *Secured) Write(b []byte) (int, error) { return write(s.UnixConn, b) }

// Read reads what the server sent.
func (s *Secured) Read(b []byte) (int, error) { return s.line.Read(b) }

// SetReadDeadline implements net.Conn.
func (s *Secured) SetReadDeadline(t time.Time) error { return s.line.SetReadDeadline(t) }

// RemoteAddr returns the address of the server.
func (s *Secured) RemoteAddr() net.Addr { return s.line.RemoteAddr() }

// Close closes the connection.
func (s *Secured) Close() error {
	err := s.UnixConn.Close()
	s.line.Close()
	s.closed(s)
	return err
}
