package directory_test

import (
	"bytes"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// TestFailedBindsAreLogged checks that a failed bind has a line in the log. The fail2ban
// filter of docs/security.md must find the client's address in this line, and never an
// address that the client sends.
func TestFailedBindsAreLogged(t *testing.T) {
	manual, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	filter := regexp.MustCompile(`(?m)^ *failregex = (.*)$`).FindSubmatch(manual)
	if filter == nil {
		t.Fatal("docs/security.md has no failregex")
	}
	failed := regexp.MustCompile(strings.ReplaceAll(string(filter[1]), "<HOST>", `([0-9a-f.:]+)`))
	var log bytes.Buffer
	d := newDirectory(t, newPartition(t), directory.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	simple := func(dn, password string) *op.Bind {
		return &op.Bind{Version: 3, Name: dn, Password: []byte(password)}
	}
	for _, c := range []struct {
		remote string
		bind   *op.Bind
		want   string // the address in the log; "": no line
	}{
		{"192.0.2.7:4711", simple(admin, "wrong"), "192.0.2.7"},
		{"192.0.2.7:4711", simple("cn=nobody", "wrong"), "192.0.2.7"},
		{"[2001:db8::1]:4711", simple(admin, "wrong"), "2001:db8::1"},
		{"192.0.2.7:4711", simple("cn=x from=198.51.100.9 conn=1", "wrong"), "192.0.2.7"},
		{"192.0.2.7:4711", &op.Bind{Version: 3, SASL: true, Mechanism: "PLAIN", Credentials: []byte("\x00nobody\x00x")}, "192.0.2.7"},
		{"192.0.2.7:4711", simple(admin, "secret"), ""},
		// A name that is not a DN is refused with invalidDNSyntax, which is not logged.
		{"192.0.2.7:4711", simple("no name", "wrong"), ""},
		{"192.0.2.7:4711", simple("", ""), ""},
	} {
		log.Reset()
		channel := inTLS
		channel.remote = c.remote
		d.NewSession(channel).Serve(t.Context(), &op.Message{ID: 1, Request: c.bind}, discard{})
		var got []string
		for line := range strings.Lines(log.String()) {
			if m := failed.FindStringSubmatch(line); m != nil {
				got = append(got, m[1])
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v: addresses %q, want %q:\n%s", c.bind, got, c.want, log.String())
		}
	}
}
