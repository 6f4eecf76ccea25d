// Package ldaptest starts LDAP servers for tests, in the process of the test and in memory:
//
//	srv := ldaptest.Start(t, ldaptest.LDIF("testdata/people.ldif"))
//	conn, err := ldap.DialURL(srv.URL)
//	err = conn.Bind(srv.BindDN, srv.Password)
//
// The server is the one of the program ldapd, on a store in memory. It has no password policy and no
// access rules: everyone reads everything except passwords, and users change their own. Hashes of new
// passwords are cheap. Any number of servers run beside each other.
//
// Entries may be password policies. If one has "pwdQuality: strength", import package
// directory/account/strength, which is left out for its size.
package ldaptest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/auth/authtest"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
	"github.com/seed-4dac0d86/ldapd/ldap/server/certstest"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// A Server is a running server. It ends with its test.
type Server struct {
	URL       string // ldap://127.0.0.1:PORT
	SecureURL string // ldaps://127.0.0.1:PORT with the option TLS, else ""
	CA        string // with the option TLS, the file with the CA of the server's certificate, in PEM
	BaseDN    string // the first naming context
	BindDN    string // the administrator, who needs no entry and may do everything
	Password  string // the administrator's

	t         testing.TB
	options   options
	records   []record
	contexts  []string // the naming contexts: names of records that are below no other
	partition *partition.Partition
	directory *directory.Directory
	server    *server.Server
	listeners []*server.Listener
}

type options struct {
	text        []source
	certificate *tls.Certificate
	secure      bool
}

// A source is a text in LDIF, with the name of its file.
type source struct {
	name string
	in   func() (io.ReadCloser, error)
}

// An Option is an option of Start.
type Option func(*options)

// LDIF adds the entries in the files, in their order. Entries that are below no entry before them
// are naming contexts.
func LDIF(files ...string) Option {
	return func(o *options) {
		for _, name := range files {
			o.text = append(o.text, source{name, func() (io.ReadCloser, error) { return os.Open(name) }})
		}
	}
}

// Text is like LDIF, for the entries in a string.
func Text(text string) Option {
	return func(o *options) {
		o.text = append(o.text, source{"text", func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }})
	}
}

// TLS adds a certificate for localhost and 127.0.0.1. The server then serves SecureURL, and
// StartTLS at URL.
func TLS() Option { return func(o *options) { o.secure = true } }

// Start starts a server at a free port of the loopback address. Without LDIF or Text, the directory
// has one entry, dc=example,dc=com. If something is wrong, Start ends the test.
func Start(t testing.TB, with ...Option) *Server {
	t.Helper()
	s := &Server{t: t, BindDN: "cn=admin", Password: "secret", URL: "ldap://127.0.0.1:0"}
	for _, option := range with {
		option(&s.options)
	}
	if len(s.options.text) == 0 {
		Text("dn: dc=example,dc=com\nobjectClass: domain\n")(&s.options)
	}
	if s.options.secure {
		ca := certstest.New(t)
		certificate := ca.Server()
		s.options.certificate, s.CA, s.SecureURL = &certificate, ca.WriteCA(t.TempDir()), "ldaps://127.0.0.1:0"
	}
	t.Cleanup(s.stop)
	if err := s.start(); err != nil {
		t.Fatalf("ldaptest: %v", err)
	}
	return s
}

// Reset makes the entries what they were after Start, in one transaction. Connections stay, and so does
// what was added to the schema.
func (s *Server) Reset() {
	s.t.Helper()
	if err := s.fill(context.Background()); err != nil {
		s.t.Fatalf("ldaptest: %v", err)
	}
}

func (s *Server) start() (err error) {
	ctx, quiet := context.Background(), slog.New(slog.DiscardHandler)
	if s.partition, err = partition.Open(ctx, tabletest.NewMem(), partition.Options{Create: true, Schema: schema.Core(), Log: quiet}); err != nil {
		return err
	}
	for _, text := range s.options.text {
		if err := s.read(text); err != nil {
			return err
		}
	}
	if len(s.contexts) == 0 {
		return errors.New("the files have no entries")
	}
	if err := onlineschema.AddSuffixes(ctx, s.partition, s.contexts); err != nil {
		return err
	}
	s.BaseDN = s.contexts[0]
	if err := s.fill(ctx); err != nil {
		return err
	}
	if s.directory, err = directory.New(s.partition, directory.Options{
		Admin: s.BindDN, AdminPassword: s.Password, Passwords: auth.New(0, authtest.Cheap), Log: quiet}); err != nil {
		return err
	}
	o := server.Options{Logger: quiet}
	if s.options.certificate != nil {
		config := &tls.Config{Certificates: []tls.Certificate{*s.options.certificate}}
		o.TLS = func() *tls.Config { return config }
	}
	srv := server.New(handler{s.directory}, o)
	s.server = srv
	for _, url := range []*string{&s.URL, &s.SecureURL} {
		if *url == "" {
			continue
		}
		l, err := server.Listen(*url)
		if err != nil {
			return err
		}
		scheme, _, _ := strings.Cut(*url, "://")
		*url = scheme + "://" + l.Addr().String()
		s.listeners = append(s.listeners, l)
		go func() { _ = srv.Serve(l) }()
	}
	return nil
}

// stop ends all connections, and what open has opened.
func (s *Server) stop() {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	if s.server != nil {
		_ = s.server.Shutdown(now)
	}
	for _, l := range s.listeners { // one that is not served yet is still open
		l.Close()
	}
	if s.directory != nil {
		s.directory.Close()
	}
	if s.partition != nil {
		_ = s.partition.Close(context.Background())
	}
}

// A record is an entry of a source.
type record struct {
	from string
	*ldif.Record
}

// read reads the entries of a source.
func (s *Server) read(from source) error {
	in, err := from.in()
	if err != nil {
		return err
	}
	defer in.Close()
	for r, err := range ldif.NewReader(in, ldif.Options{}).Records() {
		if err != nil {
			return fmt.Errorf("%s: %w", from.name, err)
		}
		if a, ok := r.Change.(*op.Add); ok {
			r.Attributes, r.Change = a.Attributes, nil
		}
		if r.Change != nil {
			return fmt.Errorf("%s:%d: only entries and changetype: add can be loaded", from.name, r.Line)
		}
		s.records = append(s.records, record{from.name, r})
		below := func(context string) bool {
			return strings.HasSuffix(strings.ToLower(","+r.DN), strings.ToLower(","+context))
		}
		if !slices.ContainsFunc(s.contexts, below) {
			s.contexts = append(s.contexts, r.DN)
		}
	}
	return nil
}

// fill replaces all entries by those that were read.
func (s *Server) fill(ctx context.Context) error {
	_, err := write.Update(ctx, s.partition, partition.By{Name: s.BindDN}, func(tx *partition.Tx) error {
		for _, context := range s.contexts {
			name, err := dn.Parse(context)
			if err != nil {
				return err
			}
			var e *catalog.Error
			if _, _, err := tx.DeleteTree(ctx, name, math.MaxInt); err != nil && (!errors.As(err, &e) || e.Problem != catalog.NoSuchEntry) {
				return err
			}
		}
		for _, r := range s.records {
			name, err := dn.Parse(r.DN)
			if err == nil {
				_, err = tx.Add(ctx, name, r.Attributes, true)
			}
			if err != nil {
				return fmt.Errorf("%s:%d: %s: %w", r.from, r.Line, r.DN, err)
			}
		}
		return nil
	})
	return err
}

// A handler adapts a Directory to package server.
type handler struct{ *directory.Directory }

func (h handler) NewSession(c *server.ConnInfo) server.Session { return h.Directory.NewSession(c) }
