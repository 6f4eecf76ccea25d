package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math"
	"time"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/certs"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
	"github.com/seed-4dac0d86/ldapd/web"
)

// The type listeners has the sockets to which clients connect. It is opened before the
// directory.
type listeners struct {
	listeners []*server.Listener
	options   server.Options
	console   *web.Server  // nil: no pages are served
	files     *certs.Store // TLS certificates; nil without TLS
	stop      func()       // ends background work
}

// lookAtFiles is the interval at which the certificate files are checked for changes.
const lookAtFiles = 5 * time.Second

// openFront reads the TLS files and opens the listeners. An error of openFront is an
// error of the configuration.
func openFront(c *config.Config, log *slog.Logger) (*listeners, error) {
	f := &listeners{options: serverOptions(c, log), stop: func() {}}
	if c.TLS.Certificate != "" {
		store, err := openCertificates(c, log)
		if err != nil {
			return nil, err
		}
		f.files, f.options.TLS = store, store.Config
		f.stop = inBackground(func(ctx context.Context) { store.Watch(ctx, lookAtFiles) })
	}
	err := f.listen(c)
	if err == nil {
		err = f.openConsole(c, log)
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *listeners) close() {
	for _, l := range f.listeners {
		l.Close() // after normal serving, l is closed already
	}
	if f.console != nil {
		f.console.Close(context.Background())
	}
	f.stop()
}

func (f *listeners) listen(c *config.Config) error {
	if len(c.Listen) == 0 {
		return &config.Error{Where: c.Origin("listen"), Text: "listen: nothing to listen on"}
	}
	for _, url := range c.Listen {
		l, err := server.Listen(url)
		if err != nil {
			return &config.Error{Where: c.Origin("listen"), Text: err.Error()}
		}
		f.listeners = append(f.listeners, l)
	}
	return nil
}

// urls returns the URLs of the listeners, with the ports that the system has chosen.
func (f *listeners) urls() []string {
	var urls []string
	for _, l := range f.listeners {
		urls = append(urls, l.URL())
	}
	return urls
}

// CertificateFiles returns the files and settings of TLS.
func CertificateFiles(c *config.Config) certs.Files {
	return certs.Files{
		Certificate: c.TLS.Certificate,
		Key:         c.TLS.Key,
		ClientCA:    c.TLS.ClientCA,
		ClientCRL:   c.TLS.ClientCRL,
		Clients:     map[string]certs.Clients{"none": certs.None, "request": certs.Request, "require": certs.Require}[c.TLS.Clients],
		MinVersion:  map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}[c.TLS.MinVersion],
	}
}

func openCertificates(c *config.Config, log *slog.Logger) (*certs.Store, error) {
	if c.TLS.SelfSigned {
		made, err := certs.Ensure(c.TLS.Certificate, c.TLS.Key)
		if err != nil {
			return nil, &config.Error{Where: c.Origin("tls.certificate"), Text: "tls.certificate: " + err.Error()}
		}
		if made {
			log.Info("made a certificate: clients must trust it", "file", c.TLS.Certificate)
		}
	}
	store, err := certs.Open(CertificateFiles(c), log)
	var wrong *certs.Error
	if errors.As(err, &wrong) {
		return nil, CertificateError(c, wrong)
	}
	return store, err
}

// CertificateError adds to err the configuration key of the file that err is about.
func CertificateError(c *config.Config, err *certs.Error) *config.Error {
	key := map[string]string{"Certificate": "tls.certificate", "Key": "tls.key", "ClientCA": "tls.client-ca", "ClientCRL": "tls.client-crl"}[err.Field]
	return &config.Error{Where: c.Origin(key), Text: key + ": " + err.Error()}
}

func serverOptions(c *config.Config, log *slog.Logger) server.Options {
	return server.Options{
		MaxMessage:       c.Limits.MaxPDU,
		MaxUnbound:       c.Limits.MaxUnbound,
		Memory:           orNever(c.Limits.Memory, -1),
		Proxies:          c.Proxies,
		MaxConnections:   c.Limits.Connections,
		MaxPerAddress:    c.Limits.PerAddress,
		MaxOutstanding:   c.Limits.Outstanding,
		MaxPersistent:    orNever(c.Limits.Persistent, -1),
		IdleTimeout:      orNever(c.Limits.Idle, math.MaxInt64),
		BindTimeout:      c.Limits.Unbound,
		HandshakeTimeout: orNever(c.Limits.Handshake, math.MaxInt64),
		KeepAlive:        orNever(c.Limits.KeepAlive, -1),
		WriteTimeout:     orNever(c.Limits.Write, math.MaxInt64),
		Logger:           log,
	}
}

// orNever returns v, or never if v is zero. In the configuration, zero means never, but
// for package server it means the default.
func orNever[T int | int64 | time.Duration](v, never T) T {
	if v == 0 {
		return never
	}
	return v
}

// inBackground runs fn. The returned function cancels fn's context
// and waits until fn has returned.
func inBackground(fn func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn(ctx)
	}()
	return func() { cancel(); <-done }
}
