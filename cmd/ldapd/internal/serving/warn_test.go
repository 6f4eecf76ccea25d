package serving

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
)

func TestWarn(t *testing.T) {
	private := filepath.Join(t.TempDir(), "private")
	public := filepath.Join(t.TempDir(), "public")
	for file, mode := range map[string]os.FileMode{private: 0o600, public: 0o644} {
		if err := os.WriteFile(file, []byte("{SSHA}x\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	admin := config.Admin{DN: "cn=admin", Password: "x", File: private}
	const remote, local, nothing = "ldap://0.0.0.0:389", "ldap://127.0.0.1:389", ""
	for _, c := range []struct {
		name string
		c    config.Config
		want string
	}{
		{"no administrator", config.Config{}, "there is no administrator"},
		{"readable", config.Config{Admin: config.Admin{DN: "cn=admin", Password: "x", File: public}}, "others can read a file"},
		{"in clear", config.Config{Admin: admin, Listen: []string{remote}, Passwords: config.Passwords{RequireTLS: "false"}}, "passwords cross the network in clear"},
		{"without TLS", config.Config{Admin: admin, Listen: []string{remote}, Passwords: config.Passwords{RequireTLS: "remote"}}, "cannot bind with a password"},
		{"all addresses", config.Config{Admin: admin, Listen: []string{"ldap://:389"}, Passwords: config.Passwords{RequireTLS: "true"}}, "cannot bind with a password"},
		{"with TLS", config.Config{Admin: admin, Listen: []string{remote, "ldaps://:636"}, Passwords: config.Passwords{RequireTLS: "remote"}, TLS: config.TLS{Certificate: "x"}}, nothing},
		{"loopback", config.Config{Admin: admin, Listen: []string{local, "ldap://[::1]:389", "ldapi:///tmp/s"}, Passwords: config.Passwords{RequireTLS: "false"}}, nothing},
	} {
		var b bytes.Buffer
		Warn(&c.c, slog.New(slog.NewTextHandler(&b, nil)))
		if got := b.String(); strings.Count(got, "\n") > 1 || !strings.Contains(got, c.want) || c.want == nothing && got != "" {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
