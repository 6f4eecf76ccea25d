package auth

import (
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"
	"testing"
)

// samples returns stored values in every scheme, except cleartext, and in all forms of
// crypt(3). Each is a value of the password "secret" or "password".
func samples(t *testing.T) (values []string) {
	t.Helper()
	const password = "secret"
	for i := range schemes {
		s := &schemes[i]
		switch {
		case s.clear || s.name == "CRYPT":
		case !s.slow:
			salt := []byte("saltsalt")
			if !s.salted {
				salt = nil
			}
			raw := append(digest(s.sum, []byte(password), salt), salt...)
			values = append(values, "{"+s.name+"}"+base64.StdEncoding.EncodeToString(raw))
		case strings.HasPrefix(s.name, "PBKDF2") && s.name != "PBKDF2_SHA256":
			key, _ := pbkdf2.Key(s.sum.New, password, []byte("saltsalt"), 10, s.sum.Size())
			values = append(values, "{"+s.name+"}10$"+toAB64([]byte("saltsalt"))+"$"+toAB64(key))
		}
	}
	salt := []byte(strings.Repeat("s", 64))
	key389, _ := pbkdf2.Key(sha256.New, password, salt, 10, 256)
	raw := append(append(binary.BigEndian.AppendUint32(nil, 10), salt...), key389...)
	keyDS, _ := pbkdf2.Key(sha1.New, password, salt[:16], 10_000, 32)
	values = append(values,
		"{PBKDF2_SHA256}"+base64.StdEncoding.EncodeToString(raw),
		"{PKCS5S2}"+base64.StdEncoding.EncodeToString(append(slices.Clone(salt[:16]), keyDS...)))
	for _, c := range stored {
		if c.err == nil && (strings.HasPrefix(c.value, "{CRYPT}") || strings.HasPrefix(c.value, "{BCRYPT}") || strings.HasPrefix(c.value, "{ARGON2}")) {
			values = append(values, c.value)
		}
	}
	for i := range schemes {
		if has := func(v string) bool { return strings.HasPrefix(v, "{"+schemes[i].name+"}") }; !schemes[i].clear && !slices.ContainsFunc(values, has) {
			t.Errorf("no sample of {%s}", schemes[i].name)
		}
	}
	return values
}

// TestValuesAreReadWhole checks that a stored value matches no password if text precedes or
// follows the form of its scheme, or if a part of the form is missing. Such a value is locked
// or damaged.
func TestValuesAreReadWhole(t *testing.T) {
	p := New(2, nil)
	accepts := func(v string) bool {
		return slices.ContainsFunc([]string{"secret", "password"}, func(password string) bool {
			ok, _ := p.Verify(t.Context(), NoChannel{}, []byte(v), []byte(password))
			return ok
		})
	}
	for _, v := range samples(t) {
		if !accepts(v) {
			t.Errorf("%s is not accepted", v)
		}
		if name, ok := Usable([]byte(v)); !ok || !strings.HasPrefix(v, name) {
			t.Errorf("%s is not usable, or is in %s", v, name)
		}
		for _, w := range broken(v) {
			if accepts(w) {
				t.Errorf("%q is accepted", w)
			}
			if ok, _ := p.Verify(t.Context(), NoChannel{}, []byte(w), []byte(w)); ok {
				t.Errorf("%q is its own password", w)
			}
			if !Hashed([]byte(w)) {
				t.Errorf("%q is taken for a password in clear", w)
			}
		}
	}
}

// TestUsable checks that Usable reports a value as usable exactly if Verify returns no
// error for the value.
func TestUsable(t *testing.T) {
	p := New(2, nil)
	for _, v := range samples(t) {
		for _, w := range append(broken(v), v) {
			_, err := p.Verify(t.Context(), NoChannel{}, []byte(w), []byte("x"))
			if _, usable := Usable([]byte(w)); usable != (err == nil) {
				t.Errorf("%q: usable %v, verified with %v", w, usable, err)
			}
		}
	}
	for v, want := range map[string]string{"{SASL}u@R": "{SASL}", "!{ssha}x": "{SSHA}", "{crypt}!": "{CRYPT}", "": ""} {
		if name, usable := Usable([]byte(v)); usable || name != want {
			t.Errorf("%q: %s, %v", v, name, usable)
		}
	}
}

// broken returns variants of a stored value: with prefixes and suffixes, without parts,
// and truncated.
func broken(v string) (out []string) {
	name, rest, _ := strings.Cut(v[1:], "}")
	scheme := "{" + name + "}"
	for _, x := range []string{"!", "!!", "*", "*LK*", " ", "\n", "x", "$", "$x$", "+", "-", "="} {
		out = append(out, scheme+x+rest)
		if x != "=" { // "=" may be valid padding
			out = append(out, v+x)
		}
	}
	out = append(out, "!"+v, "*"+v, "!!"+v, scheme, v+"====", v+"\r\n", v+"\x00", v[:len(v)-6],
		scheme+rest[:len(rest)/2]+"\n"+rest[len(rest)/2:])
	parts := strings.Split(rest, "$")
	for i := range parts {
		if len(parts) == 1 || parts[i] == "" {
			continue
		}
		for _, with := range []string{"", "!" + parts[i], parts[i] + "!"} {
			changed := slices.Clone(parts)
			changed[i] = with
			out = append(out, scheme+strings.Join(changed, "$"))
		}
	}
	return out
}

// TestEmptyCleartext checks that a cleartext scheme without a password matches no
// password.
func TestEmptyCleartext(t *testing.T) {
	p := New(1, nil)
	for _, v := range []string{"", "{CLEARTEXT}", "{CLEAR}"} {
		if ok, _ := p.Verify(t.Context(), NoChannel{}, []byte(v), nil); ok {
			t.Errorf("%q is accepted", v)
		}
	}
	if ok, err := p.Verify(t.Context(), NoChannel{}, []byte("{clear}secret"), []byte("secret")); !ok {
		t.Error("{clear}:", err)
	}
}
