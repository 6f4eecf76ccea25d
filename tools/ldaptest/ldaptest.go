// Package ldaptest runs an LDAP server in the process of a test, with its entries in memory:
//
//	func TestLogin(t *testing.T) {
//		srv := ldaptest.Start(t, ldaptest.LDIF("testdata/people.ldif"))
//		conn, err := ldap.DialURL(srv.URL) // github.com/go-ldap/ldap/v3
//		...
//		err = conn.Bind(srv.BindDN, srv.Password)
//	}
//
// The server listens on a free port of the loopback interface and ends with the test. Servers share
// nothing, so parallel tests may each have their own. It is the server of ldapd, with schema,
// indexes, controls, transactions and history, but without access rules (whoever may connect may
// read, and the administrator may write) and without a password policy.
package ldaptest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
	"github.com/seed-4dac0d86/ldapd/ldap/server/certstest"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// A Server is a running server.
type Server struct {
	URL      string // ldap://127.0.0.1:PORT, or ldaps:// with the option TLS
	BindDN   string // name of the administrator, who may do everything
	Password string // of the administrator
	Suffix   string // the naming context: the name of the first entry
	// CA contains the authority of the server's certificate, or is nil without the option TLS.
	CA *x509.CertPool

	t         testing.TB
	records   []record
	partition *partition.Partition
	front     *server.Server
}

// A record is an entry of a file.
type record struct {
	file string
	*ldif.Record
}

// An Option changes the server that Start starts.
type Option func(*options)

type options struct {
	files   []string
	text    string
	tls     bool
	setting directory.Options
}

// LDIF makes the server begin with the entries of files, in this order. The name of the first entry
// becomes the naming context. Without entries, the server begins with the entry dc=example,dc=com.
func LDIF(files ...string) Option {
	return func(o *options) { o.files = append(o.files, files...) }
}

// Entries is like LDIF, but with the content of a file. Entries of files come first.
func Entries(text string) Option { return func(o *options) { o.text += text + "\n\n" } }

// TLS makes the server speak TLS from the start (ldaps), with a certificate for 127.0.0.1 and localhost
// of an authority of its own.
func TLS() Option { return func(o *options) { o.tls = true } }

// Configure sets options of the server, such as limits. Admin and AdminPassword are set afterwards.
func Configure(d directory.Options) Option { return func(o *options) { o.setting = d } }

const defaultEntry = `dn: dc=example,dc=com
objectClass: dcObject
objectClass: organization
dc: example
o: Example
`

// Start starts a server that ends with the test. If something is wrong, such as a bad entry, the
// test fails with the file and the line.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	var o options
	for _, set := range opts {
		set(&o)
	}
	s := &Server{t: t, BindDN: "cn=admin", Password: "secret"}
	for _, name := range o.files {
		f, err := os.Open(name)
		s.must(err)
		s.read(name, f)
		s.must(f.Close())
	}
	if len(o.files) == 0 && o.text == "" {
		o.text = defaultEntry
	}
	s.read("Entries", strings.NewReader(o.text))
	ctx := context.Background()
	store := tabletest.NewBatchMem()
	var err error
	s.partition, err = partition.Open(ctx, store, partition.Options{Create: true, Cache: 16 << 20})
	s.must(err)
	t.Cleanup(func() {
		if err := s.partition.Close(ctx); err != nil {
			t.Errorf("ldaptest: %v", err)
		}
	})
	s.Suffix = s.records[0].DN
	s.must(onlineschema.SetSuffixes(ctx, s.partition, []string{s.Suffix}))
	s.Reset()
	o.setting.Admin, o.setting.AdminPassword = s.BindDN, s.Password
	d, err := directory.New(s.partition, o.setting)
	s.must(err)
	t.Cleanup(d.Close)
	s.listen(d, o.tls)
	return s
}

// read reads entries.
func (s *Server) read(name string, r io.Reader) {
	s.t.Helper()
	for rec, err := range ldif.NewReader(r, ldif.Options{File: name}).Records() {
		s.must(err)
		if rec.Change != nil {
			s.t.Fatalf("ldaptest: %s:%d: a change, not an entry", name, rec.Line)
		}
		s.records = append(s.records, record{name, rec})
	}
}

// Reset brings the entries back that the server began with, and removes all others, in one
// transaction. It keeps connections, and what was added to the schema.
func (s *Server) Reset() {
	s.t.Helper()
	ctx := context.Background()
	suffix, err := dn.Parse(s.Suffix)
	s.must(err)
	_, err = write.Update(ctx, s.partition, partition.By{}, func(tx *partition.Tx) error {
		var e *catalog.Error
		if _, _, err := tx.DeleteTree(ctx, suffix, math.MaxInt); err != nil && (!errors.As(err, &e) || e.Problem != catalog.NoSuchEntry) {
			return err
		}
		for _, r := range s.records {
			name, err := dn.Parse(r.DN)
			if err == nil {
				_, err = tx.Add(ctx, name, r.Attributes, true)
			}
			if err != nil {
				return fmt.Errorf("%s:%d: %q: %w", r.file, r.Line, r.DN, err)
			}
		}
		return nil
	})
	s.must(err)
}

// listen serves clients until the test ends.
func (s *Server) listen(d *directory.Directory, secure bool) {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	s.must(err)
	s.URL = "ldap://" + l.Addr().String()
	if secure {
		s.URL = "ldaps://" + l.Addr().String()
		authority := certstest.New(s.t)
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{authority.Server()}})
		s.CA = authority.Pool()
	}
	s.front = server.New(handler{d}, server.Options{})
	served := make(chan error, 1)
	go func() { served <- s.front.Serve(l) }()
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.front.Shutdown(ctx) // connections that are left open are closed
		<-served
	})
}

func (s *Server) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("ldaptest: %v", err)
	}
}

// A handler makes a session of the directory for each connection.
type handler struct{ d *directory.Directory }

func (h handler) NewSession(c *server.ConnInfo) server.Session { return h.d.NewSessionIn(c.Branch, c) }
