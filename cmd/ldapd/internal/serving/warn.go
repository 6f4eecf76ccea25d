package serving

import (
	"io/fs"
	"log/slog"
	"net/url"
	"os"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/web"
)

// Warn logs warnings about what a configuration lacks or exposes.
func Warn(c *config.Config, log *slog.Logger) {
	if c.Admin.Password == "" {
		log.Warn("there is no administrator, so nobody can write: make a password hash with 'ldapd passwd' and configure it as admin.password-hash or put it into a file named by admin.password-file", "admin.dn", c.Admin.DN)
	}
	if c.Admin.File != "" {
		warnReadable(c.Admin.File, log)
	}
	warnClear(c, log)
}

// warnOpen logs a warning if there are no access rules.
func warnOpen(p *partition.Partition, log *slog.Logger) {
	s := state.Newest(p)
	defer s.Close()
	if s.Catalog.Access.Rules == nil {
		log.Warn("there are no access rules, so anyone reads everything except secrets: 'ldapd access profile staff' prints a set to begin with")
	}
}

// warnReadable logs a warning if other users can read a file with passwords or hashes.
func warnReadable(name string, log *slog.Logger) {
	if info, err := os.Stat(name); err == nil && ReadableByOthers(info) {
		log.Warn("others can read a file with a password: chmod 600", "file", name, "mode", info.Mode().Perm().String())
	}
}

// ReadableByOthers reports whether other users can read a file.
func ReadableByOthers(info fs.FileInfo) bool {
	return info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0
}

// warnClear logs a warning if passwords cross the network unencrypted, or if clients on
// other machines cannot bind with a password.
func warnClear(c *config.Config, log *slog.Logger) {
	for _, l := range c.Listen {
		u, err := url.Parse(l)
		if err != nil || u.Scheme != "ldap" || web.IsLoopback(u.Hostname()) {
			continue
		}
		switch {
		case c.Passwords.RequireTLS == "false":
			log.Warn("passwords cross the network in clear: set passwords.require-tls to true or remote", "listen", l)
		case c.TLS.Certificate == "":
			log.Warn("clients on other machines cannot bind with a password: there is no TLS, set tls.certificate and tls.key", "listen", l)
		}
	}
}
