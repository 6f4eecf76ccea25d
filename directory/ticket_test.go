package directory_test

import (
	"errors"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

const carl = "uid=carl,dc=example,dc=com"

// newTicket returns a directory, and the ticket of an identity with the password secret.
func newTicket(t *testing.T, o directory.Options, who string) (*directory.Directory, string) {
	t.Helper()
	d := newUsers(t, o)
	s := bound(t, d, admin)
	serve(t, s, &op.Add{Name: carl, Attributes: person("carl", line{"userPassword", adminPassword})})
	text, err := bound(t, d, who).Ticket(t.Context(), time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return d, text
}

func bound(t *testing.T, d *directory.Directory, who string) *directory.Session {
	t.Helper()
	s := d.NewSession(nil)
	serve(t, s, &op.Bind{Version: 3, Name: who, Password: []byte("secret")})
	return s
}

// TestTicket checks that a ticket binds another session, that a resumed session can renew its ticket,
// and that no ticket is good after what ends it.
func TestTicket(t *testing.T) {
	modify := func(d *directory.Directory, c op.Modification) {
		serve(t, bound(t, d, admin), &op.Modify{Name: carl, Changes: []op.Modification{c}})
	}
	password := func(value string) op.Modification {
		return op.Modification{Kind: op.ModReplace, PartialAttribute: op.PartialAttribute{Description: "userPassword", Values: [][]byte{[]byte(value)}}}
	}
	for _, c := range []struct {
		name, who string
		change    func(d *directory.Directory, ticket string) (*directory.Directory, string)
		good      bool
	}{
		{"nothing changed", carl, nil, true},
		{"the administrator's", admin, nil, true},
		{"another attribute", carl, func(d *directory.Directory, x string) (*directory.Directory, string) {
			modify(d, op.Modification{Kind: op.ModReplace, PartialAttribute: op.PartialAttribute{Description: "description", Values: [][]byte{[]byte("x")}}})
			return d, x
		}, true},
		{"renamed", carl, func(d *directory.Directory, x string) (*directory.Directory, string) {
			serve(t, bound(t, d, admin), &op.ModifyDN{Name: carl, NewRDN: "uid=charles"})
			return d, x
		}, true},
		{"another password", carl, func(d *directory.Directory, x string) (*directory.Directory, string) {
			modify(d, password("another one altogether"))
			return d, x
		}, false},
		{"deleted", carl, func(d *directory.Directory, x string) (*directory.Directory, string) {
			serve(t, bound(t, d, admin), &op.Delete{Name: carl})
			return d, x
		}, false},
		{"altered", carl, func(d *directory.Directory, x string) (*directory.Directory, string) {
			return d, altered(x)
		}, false},
		{"no ticket", carl, func(d *directory.Directory, x string) (*directory.Directory, string) { return d, "a.b.c" }, false},
		{"another store", carl, func(d *directory.Directory, x string) (*directory.Directory, string) {
			other, _ := newTicket(t, directory.Options{}, carl)
			return other, x
		}, false},
		{"over", carl, func(d *directory.Directory, x string) (*directory.Directory, string) {
			old, err := bound(t, d, carl).Ticket(t.Context(), time.Now().Add(-time.Second))
			if err != nil {
				t.Fatal(err)
			}
			return d, old
		}, false},
		{"another administrator's password", admin, func(d *directory.Directory, x string) (*directory.Directory, string) {
			if err := d.Reconfigure(directory.Options{Admin: admin, AdminPassword: adminPassword[:len(adminPassword)-1] + "P"}); err != nil {
				t.Fatal(err)
			}
			return d, x
		}, false},
		{"no administrator", admin, func(d *directory.Directory, x string) (*directory.Directory, string) {
			if err := d.Reconfigure(directory.Options{}); err != nil {
				t.Fatal(err)
			}
			return d, x
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, x := newTicket(t, directory.Options{}, c.who)
			if c.change != nil {
				d, x = c.change(d, x)
			}
			s, err := d.Resume(t.Context(), auth.NoChannel{}, x)
			if !c.good {
				if !errors.Is(err, directory.ErrTicket) {
					t.Errorf("resumed: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			since, until := s.Resumed()
			if s.Name() != c.who && c.name != "renamed" || since.IsZero() || time.Until(until) < 59*time.Minute {
				t.Errorf("%q, bound at %v until %v", s.Name(), since, until)
			}
			if again, err := s.Ticket(t.Context(), time.Now().Add(time.Hour)); err != nil {
				t.Error(err)
			} else if _, err := d.Resume(t.Context(), auth.NoChannel{}, again); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTicketOfPassword checks that a session that a ticket has bound gets no ticket for a password that was
// set after its bind, and that a ticket is good after the upgrade that its bind has begun.
func TestTicketOfPassword(t *testing.T) {
	d, x := newTicket(t, directory.Options{UpgradePasswords: true}, carl)
	s, err := d.Resume(t.Context(), auth.NoChannel{}, x)
	if err != nil {
		t.Fatal("after an upgrade:", err)
	}
	serve(t, bound(t, d, admin), &op.Modify{Name: carl, Changes: []op.Modification{{Kind: op.ModReplace,
		PartialAttribute: op.PartialAttribute{Description: "userPassword", Values: [][]byte{[]byte("another one altogether")}}}}})
	again, err := s.Ticket(t.Context(), time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Resume(t.Context(), auth.NoChannel{}, again); !errors.Is(err, directory.ErrTicket) {
		t.Errorf("renewed: %v", err)
	}
	if _, err := d.NewSession(nil).Ticket(t.Context(), time.Now().Add(time.Hour)); err == nil {
		t.Error("a ticket of nobody")
	}
}

// altered returns a ticket with another letter in its middle.
func altered(ticket string) string {
	i, other := len(ticket)/2, "A"
	if ticket[i] == 'A' {
		other = "B"
	}
	return ticket[:i] + other + ticket[i+1:]
}
