package directory_test

import (
	"slices"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/op"
)

// A value of userPassword that no password matches is kept as it is, by add and
// by modify, and is no password itself.
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

// rawValues collects the values of an attribute that are found.
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
