// Package remote gives a connection to commands that are clients of LDAP: to a running server, which --url
// names, or to a directory in the process that has the store of --store open.
package remote

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/go-ldap/ldap/v3"
	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/serving"
	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/tools/bulk"
)

// A Server is the running server that a command line names, if it names one.
type Server struct {
	*cli.Main
	to                      bulk.Remote
	passwordFile, authority string
}

// AddFlags adds the flags that name a server.
func (s *Server) AddFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.to.URL, "url", "", "`URL` of a running server: ldap://, ldaps:// or ldapi://")
	f.StringVar(&s.to.BindDN, "bind", "", "`DN` to bind as at the server of --url")
	f.StringVar(&s.passwordFile, "password-file", "", "`FILE` whose first line is the password for --bind (default: ask)")
	f.BoolVar(&s.to.StartTLS, "starttls", false, "use StartTLS before binding")
	f.StringVar(&s.authority, "ca", "", "`FILE` with the CA certificates that the server's certificate must lead to (default those of the system)")
}

// Check checks where the operations go, and reads the password to bind with.
func (s *Server) Check(c *config.Config) error {
	r := &s.to
	switch {
	case r.URL != "" && c.Origin("store") == "--store":
		return &config.Error{Where: "--url", Text: "give either --store or --url"}
	case r.URL == "" && c.Store == "":
		return &config.Error{Text: "say where: --url URL and --bind DN for a running server, or --store STORE"}
	case r.URL == "":
		return nil
	}
	if scheme, rest, _ := strings.Cut(r.URL, "://"); rest == "" || !slices.Contains([]string{"ldap", "ldaps", "ldapi"}, scheme) {
		return &config.Error{Where: "--url", Text: fmt.Sprintf("%q is not ldap://HOST:PORT, ldaps://HOST:PORT or ldapi:///PATH", r.URL)}
	}
	if s.authority != "" {
		var err error
		if r.Authorities, err = os.ReadFile(s.authority); err != nil {
			return &config.Error{Where: "--ca", Text: err.Error()}
		}
	}
	switch {
	case s.passwordFile != "":
		b, err := os.ReadFile(s.passwordFile)
		if err != nil {
			return &config.Error{Where: "--password-file", Text: err.Error()}
		}
		line, _, _ := strings.Cut(string(b), "\n")
		r.Password = strings.TrimRight(line, "\r")
	case r.BindDN != "" && s.Interactive():
		var err error
		r.Password, err = s.AskHidden("Password of " + r.BindDN + ": ")
		return err
	case r.BindDN != "":
		return &config.Error{Where: "--password-file", Text: "there is no terminal to ask for the password of " + r.BindDN + " at"}
	}
	return nil
}

// Named reports whether the command line names a server. Otherwise the command works on a store.
func (s *Server) Named() bool { return s.to.URL != "" }

// Dial connects to the server and binds.
func (s *Server) Dial() (*ldap.Conn, error) {
	conn, err := s.to.Dial()
	if err != nil {
		if e, ok := err.(*ldap.Error); ok {
			err = e.Err // it has no result of the server
		}
		return nil, fmt.Errorf("no connection to %s: %w", s.to.URL, err)
	}
	return conn, nil
}

// Do does something over a connection to the server. The end of ctx ends a request that waits for its answer.
func (s *Server) Do(ctx context.Context, do func(*ldap.Conn) error) error {
	conn, err := s.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	return do(conn)
}

// OnStore is Do for the partition of a job, by Connect.
func OnStore(ctx context.Context, w *cli.Work, change func(*directory.Options), do func(*ldap.Conn) error) error {
	conn, stop, err := Connect(ctx, w.Partition, w.Signer, change)
	if err != nil {
		return err
	}
	defer stop()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	return do(conn)
}

// Contexts reads the naming contexts of a server.
func Contexts(conn *ldap.Conn) (contexts []string, err error) {
	root, err := conn.Search(ldap.NewSearchRequest("", ldap.ScopeBaseObject, ldap.NeverDerefAliases, 0, 0, false, "(objectClass=*)", []string{"namingContexts"}, nil))
	if err != nil {
		return nil, err
	}
	for _, e := range root.Entries {
		contexts = append(contexts, e.GetAttributeValues("namingContexts")...)
	}
	return contexts, nil
}

// PlainContexts is Contexts without those of the server's own entries, such as cn=views.
func PlainContexts(conn *ldap.Conn) ([]string, error) {
	contexts, err := Contexts(conn)
	return slices.DeleteFunc(contexts, func(name string) bool { return strings.HasPrefix(strings.ToLower(name), "cn=") }), err
}

// Connect returns a connection in memory to a server of a partition, bound as the administrator, and a
// function that ends both. The function change, if there is one, changes the directory's options.
func Connect(ctx context.Context, p *partition.Partition, admin string, change func(*directory.Options)) (*ldap.Conn, func(), error) {
	password := rand.Text()
	o := directory.Options{Admin: admin, AdminPassword: password}
	if change != nil {
		change(&o)
	}
	d, err := directory.New(p, o)
	if err != nil {
		return nil, nil, err
	}
	s := server.New(serving.Handler{Directory: d}, server.Options{Logger: slog.New(slog.DiscardHandler)})
	near, far := net.Pipe()
	go s.ServeConn(far)
	conn := ldap.NewConn(near, false)
	conn.Start()
	stop := func() {
		conn.Close()
		_ = s.Shutdown(context.WithoutCancel(ctx))
		d.Close()
	}
	if err := conn.Bind(admin, password); err != nil {
		stop()
		return nil, nil, err
	}
	return conn, stop, nil
}
