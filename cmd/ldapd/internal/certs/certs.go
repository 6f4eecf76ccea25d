// Package certs builds a server's TLS configuration from PEM files, and builds it again
// when the files change, so that a renewed certificate needs no restart.
package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Files names the PEM files of a server, and says which certificates the server requires
// of clients.
type Files struct {
	Certificate string // the server's certificate and the chain up to its CA
	Key         string // the private key of the first certificate in Certificate
	ClientCA    string // the CAs of clients' certificates, if Clients is not None
	ClientCRL   string // the revocation lists of these CAs; "": no certificate is revoked
	Clients     Clients
	MinVersion  uint16 // tls.VersionTLS12 or tls.VersionTLS13
}

// Clients says whether a client must present a certificate.
type Clients int

const (
	None    Clients = iota // clients are not asked for a certificate
	Request                // a client may present a certificate, which must be valid
	Require                // a client must present a valid certificate
)

// An Error describes a file that cannot be used.
type Error struct {
	Field string // the name of a field of Files
	File  string
	Err   error
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.File, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// A Store holds the configuration that was built from the files when they were last
// valid.
type Store struct {
	files  Files
	log    *slog.Logger
	mu     sync.Mutex // held by Reload, which Watch and a signal may call
	seen   contents   // the files' last contents, guarded by mu
	config atomic.Pointer[tls.Config]
}

// contents are the contents of the certificate, key, CA and revocation files, in this
// order.
type contents [4][]byte

func (c *contents) equal(d *contents) bool {
	return slices.EqualFunc(c[:], d[:], bytes.Equal)
}

// Open reads the files and returns a Store. An error of Open is an *Error.
func Open(f Files, log *slog.Logger) (*Store, error) {
	s := &Store{files: f, log: log}
	c, err := f.read()
	if err != nil {
		return nil, err
	}
	return s, s.use(c)
}

// Config returns the configuration for a new connection. The configuration has one
// certificate, whose Leaf is set.
func (s *Store) Config() *tls.Config { return s.config.Load() }

// Ends returns the time when the certificate in force expires. The only key of the map is
// the name of the certificate's file.
func (s *Store) Ends() map[string]time.Time {
	return map[string]time.Time{s.files.Certificate: s.Config().Certificates[0].Leaf.NotAfter}
}

// Watch checks from time to time whether the files have changed, until ctx ends. Watch
// compares the files' contents instead of using notifications, because a comparison
// also notices symbolic links that are switched and changes in folders of other
// machines.
func (s *Store) Watch(ctx context.Context, every time.Duration) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			s.Reload()
		case <-ctx.Done():
			return
		}
	}
}

// Reload reads the files again. If they are invalid, Reload logs this once and leaves the
// configuration unchanged. Valid files may follow soon, because a certificate and its key may
// be written one after the other.
func (s *Store) Reload() {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.files.read()
	if c.equal(&s.seen) {
		return
	}
	if err == nil {
		err = s.use(c)
	}
	if err != nil {
		s.seen = c
		s.log.Error("TLS files cannot be used, the ones before stay in force", "error", err)
	}
}

// read reads the files. It returns the error of the first file that cannot be read.
func (f *Files) read() (contents, error) {
	c, mistakes := f.readAll()
	if len(mistakes) > 0 {
		return c, mistakes[0]
	}
	return c, nil
}

// readAll reads the files. The contents of a file that has no name or cannot be read are
// empty.
func (f *Files) readAll() (c contents, mistakes []*Error) {
	for i, e := range []Error{{Field: "Certificate", File: f.Certificate}, {Field: "Key", File: f.Key}, {Field: "ClientCA", File: f.ClientCA}, {Field: "ClientCRL", File: f.ClientCRL}} {
		if e.File == "" {
			continue
		}
		b, err := os.ReadFile(e.File)
		if err != nil {
			e.Err = errors.Unwrap(err)
			mistakes = append(mistakes, &e)
		}
		c[i] = b
	}
	return c, mistakes
}

// Check returns the certificate of the files, and the mistakes that keep a Store from using the
// files. If files cannot be read, there is a mistake for each of these files. Otherwise there
// is at most one mistake, the first one found. The certificate is nil if it cannot be read.
func (f Files) Check() (*x509.Certificate, []*Error) {
	c, mistakes := f.readAll()
	if len(mistakes) == 0 {
		config, err := f.config(c)
		if err == nil {
			return config.Certificates[0].Leaf, nil
		}
		var mistake *Error
		if errors.As(err, &mistake) {
			mistakes = append(mistakes, mistake)
		}
	}
	block, _ := pem.Decode(c[0])
	if block == nil {
		return nil, mistakes
	}
	leaf, _ := x509.ParseCertificate(block.Bytes) // error ignored: it is among the mistakes
	return leaf, mistakes
}

// use builds the configuration from c and puts it into force.
func (s *Store) use(c contents) error {
	config, err := s.files.config(c)
	if err != nil {
		return err
	}
	s.config.Store(config)
	s.seen = c
	if revoked, err := parseRevocations(c[3]); err == nil {
		s.log.Info("revocation lists in force", "file", s.files.ClientCRL, "issuers", len(revoked), "until", revoked.ends())
	}
	leaf := config.Certificates[0].Leaf
	s.log.Info("TLS certificate in force", "subject", leaf.Subject.String(), "names", leaf.DNSNames, "until", leaf.NotAfter)
	if now := time.Now(); now.After(leaf.NotAfter) || now.Before(leaf.NotBefore) {
		s.log.Warn("the TLS certificate is not valid now", "file", s.files.Certificate, "from", leaf.NotBefore, "until", leaf.NotAfter)
	}
	return nil
}

func (f *Files) config(in contents) (*tls.Config, error) {
	if err := checkCertificate(in[0]); err != nil {
		return nil, &Error{"Certificate", f.Certificate, err}
	}
	pair, err := tls.X509KeyPair(in[0], in[1])
	if err != nil {
		return nil, &Error{"Key", f.Key, err}
	}
	c := &tls.Config{
		Certificates: []tls.Certificate{pair},
		MinVersion:   f.MinVersion,
		// Clients read whole answers, so small first records would not help them.
		DynamicRecordSizingDisabled: true,
	}
	if f.Clients == None {
		return c, nil
	}
	cas := x509.NewCertPool()
	if !cas.AppendCertsFromPEM(in[2]) {
		return nil, &Error{"ClientCA", f.ClientCA, errors.New("no certificate in PEM")}
	}
	c.ClientAuth = tls.RequestClientCert
	if f.Clients == Require {
		c.ClientAuth = tls.RequireAnyClientCert
	}
	var revoked revocations
	if f.ClientCRL != "" {
		var err error
		if revoked, err = parseRevocations(in[3]); err != nil {
			return nil, &Error{"ClientCRL", f.ClientCRL, err}
		}
	}
	c.VerifyConnection = func(s tls.ConnectionState) error { return verify(s.PeerCertificates, cas, revoked) }
	return c, nil
}

// verify checks a client's certificate, if there is one. crypto/tls could check the
// certificate (see tls.Config.ClientAuth), but the server's request for a certificate would
// then name the CAs. If a server names CAs over TLS 1.3, GnuTLS 3.7 sends no RSA
// certificate at all.
func verify(chain []*x509.Certificate, cas *x509.CertPool, revoked revocations) error {
	if len(chain) == 0 {
		return nil
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	o := x509.VerifyOptions{Roots: cas, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	chains, err := chain[0].Verify(o)
	if err != nil {
		return fmt.Errorf("the certificate of %q: %w", chain[0].Subject, err)
	}
	if revoked == nil {
		return nil
	}
	for _, verified := range chains {
		if err = revoked.check(verified, time.Now()); err == nil {
			return nil
		}
	}
	return err
}

// checkCertificate returns an error if b has no usable certificate. The error of
// tls.X509KeyPair does not say whether the certificate or the key is unusable.
func checkCertificate(b []byte) error {
	if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM(b) {
		return errors.New("no certificate in PEM")
	}
	return nil
}
