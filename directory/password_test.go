package directory_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// TestForeignPasswordsAreKept checks that add and modify store a value of userPassword
// unchanged if no password can match it. A bind with the stored value as the password must
// fail.
func TestForeignPasswordsAreKept(t *testing.T) {
	d := newUsers(t, directory.Options{})
	s := d.NewSession(nil)
	for _, v := range []string{
		"{SASL}ann@EXAMPLE.COM", "{KERBEROS}ann@EXAMPLE.COM", "{foo}ann", "{FOO-1/x=}", "{AES-TUhNR0N=}ann",
		"!{SSHA}y+dX0kZIbVwVNdDNg5T1bjbFH+F/+wKO", "{SSHA}!y+dX0kZIbVwVNdDNg5T1bjbFH+F/+wKO", "{CRYPT}!", "{ARGON2}!$argon2id$x",
	} {
		serve(t, s, &op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
		serve(t, s, &op.Add{Name: "uid=carl,dc=example,dc=com", Attributes: person("carl", line{"userPassword", v})})
		serve(t, s, &op.Modify{Name: annDN, Changes: []op.Modification{{Kind: op.ModReplace,
			PartialAttribute: op.PartialAttribute{Description: "userPassword", Values: [][]byte{[]byte(v)}}}}})
		for _, name := range []string{annDN, "uid=carl,dc=example,dc=com"} {
			if got := valuesOf(t, s, name, "userPassword"); !slices.Equal(got, []string{v}) {
				t.Errorf("%s: %q became %q", name, v, got)
			}
			for _, password := range []string{v, "secret", "ann"} {
				if code := bindCode(t, d, name, password); code != op.InvalidCredentials {
					t.Errorf("%s with %q: bound by %q: %v", name, v, password, code)
				}
			}
		}
		serve(t, s, &op.Delete{Name: "uid=carl,dc=example,dc=com"})
	}
}

func bindCode(t *testing.T, d *directory.Directory, name, password string) op.Code {
	t.Helper()
	var out answers
	d.NewSession(nil).Serve(t.Context(), &op.Message{Request: &op.Bind{Version: 3, Name: name, Password: []byte(password)}}, &out)
	return out.done.Code
}

// rawValues collects the values of an attribute in the found entries.
type rawValues struct {
	discard
	description string
	values      []string
}

func (r *rawValues) Entry(e *op.SearchEntry) error {
	for _, a := range e.Attributes {
		if a.Type.Name() != r.description {
			continue
		}
		for _, v := range a.Values {
			r.values = append(r.values, string(v))
		}
	}
	return nil
}

func valuesOf(t *testing.T, s *directory.Session, name, attribute string) []string {
	t.Helper()
	r := devices("(objectClass=*)")
	r.Base, r.Scope, r.Attributes = name, op.BaseObject, []string{attribute}
	out := rawValues{description: attribute}
	s.Serve(t.Context(), &op.Message{Request: r}, &out)
	return out.values
}

// countingHasher counts the passwords that it hashes.
type countingHasher struct {
	auth.Hasher
	hashed atomic.Int64
}

func (h *countingHasher) Hash(ctx context.Context, scheme string, password []byte) ([]byte, error) {
	h.hashed.Add(1)
	return h.Hasher.Hash(ctx, scheme, password)
}

// TestPasswordsAreHashedForThoseWhoMay checks that a password is hashed once if the
// requester may set the password, and otherwise never.
func TestPasswordsAreHashedForThoseWhoMay(t *testing.T) {
	h := &countingHasher{Hasher: auth.Here}
	d := newUsers(t, directory.Options{Passwords: auth.New(0, h), Mechanisms: []string{}})
	hashed := func(s *directory.Session, r op.Request) (op.Code, int64) {
		before := h.hashed.Load()
		var out answers
		s.Serve(t.Context(), &op.Message{Request: r}, &out)
		return out.done.Code, h.hashed.Load() - before
	}
	bob := d.NewSession(nil)
	serve(t, bob, &op.Bind{Version: 3, Name: bobDN, Password: []byte("bob")})
	replace := func(name string) op.Request {
		return &op.Modify{Name: name, Changes: changes([]line{{"replace userPassword", "new"}})}
	}
	for _, c := range []struct {
		what   string
		r      op.Request
		code   op.Code
		hashes int64
	}{
		{"another's", replace(annDN), op.InsufficientAccessRights, 0},
		{"another's, by Password Modify", extended("passwd: " + annDN + " | - | x"), op.InsufficientAccessRights, 0},
		{"a new entry's", &op.Add{Name: "uid=x,dc=example,dc=com", Attributes: person("x", line{"userPassword", "x"})}, op.InsufficientAccessRights, 0},
		{"one's own", replace(bobDN), op.Success, 1},
	} {
		if code, n := hashed(bob, c.r); code != c.code || n != c.hashes {
			t.Errorf("%s: %v, hashed %d times", c.what, code, n)
		}
	}
}
