package auth

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// stored are values of userPassword from other sources: OpenLDAP's slappasswd, crypt(3), and
// the test vectors of RFC 6070 and their SHA-256 counterparts. The values with an error are
// malformed, too expensive, or of an unknown scheme.
var stored = []struct {
	value, password string
	err             error
}{
	{value: "secret", password: "secret"},
	{value: "{CLEARTEXT}secret", password: "secret"},
	{value: "{SSHA}y+dX0kZIbVwVNdDNg5T1bjbFH+F/+wKO", password: "secret"},
	{value: "{ssha}y+dX0kZIbVwVNdDNg5T1bjbFH+F/+wKO", password: "secret"},
	{value: "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", password: "secret"},
	{value: "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ", password: "secret"},
	{value: "{MD5}Xr4ilOzQ4PCOq3aQ0qbuaQ==", password: "secret"},
	{value: "{SMD5}E6W+/OKEoFIcrAHxQaT1tbUVPss=", password: "secret"},
	{value: "{SSHA256}ZvE7oldVrMQihxyR3KZWQVuyUS+Kq8NSYzcs3Y/+F4I2KawRCJhzhg==", password: "secret"},
	{value: "{SSHA512}DJnBfiNO6k2D53ahxzX8+1ogf1cUZVF6CkWKXqEJHL8gkD+1a9PxKN4HXxjzzh6finObuEZ4iklU4TcBJAdm+r6E5El0gJ01", password: "secret"},
	{value: "{ARGON2}$argon2i$v=19$m=4096,t=3,p=1$wfr2jEmRj5ad1a9icTRTyw$ofpH/ol/apZKgafxekbUmhYFKYO1yDr59m+HyHzmxR0", password: "secret"},
	{value: "{CRYPT}$6$UlStZppq$uN26Z3xD8cQnt2FeKivq0TrZMOxG07eMTa3eZhk/P/h2pPJL5EfXdra81gVKti9jMVthuvZhBpPnJCmIVCFbb1", password: "secret"},
	{value: "{CRYPT}$5$iZwZLNT3$A0DBmuXt0yOcn.ZfbdUt/ZlCXFlXJ.GQkRImjd5gcsA", password: "secret"},
	{value: "{CRYPT}$1$4Y/WYM0P$SBAunfBOvlUDA0gQPP9Ks/", password: "secret"},
	{value: "{CRYPT}$y$j9T$0vnqnhJaQXwFiO5.$VLX1g/OAjrshNKyuBPv64Sp6p3UBRZ.Q19tjOasMAv0", password: "secret"},
	{value: "{CRYPT}$2b$08$f8.UPDAcBwTQhvkvdPE4sOe99y3v5xR3j0fFicmQL/sBhGL1Q5eJi", password: "secret"},
	{value: "{BCRYPT}$2b$08$f8.UPDAcBwTQhvkvdPE4sOe99y3v5xR3j0fFicmQL/sBhGL1Q5eJi", password: "secret"},
	{value: "{PBKDF2}4096$c2FsdA$SwB5AbdlSJq.rUnZJvch0GWkKcE", password: "password"},
	{value: "{PBKDF2-SHA1}4096$c2FsdA$SwB5AbdlSJq.rUnZJvch0GWkKcE", password: "password"},
	{value: "{PBKDF2-SHA256}4096$c2FsdA$xeR41ZKIyEGqUw22hFxMjZYok6ABzk4RpJY4c6qYE0o", password: "password"},
	// By pwdhash of 389-ds 2.3.1, which has the alphabet of RFC 4648 with padding, and salts of 24 octets.
	{value: "{PBKDF2-SHA256}10000$pDfwurTqDkF2+6jOHNr3le2UobP4ElN1$ac7BRcv+dMNZqEb7EbLunxz6887l3JLlvpLJKyvPX5M=", password: "secret pass"},
	{value: "{PBKDF2-SHA1}10000$+D8cRBDqE7I3KR+msc4wv/ahkAvor8Cq$XxoTXOeBz7/kyl9SfCQou499IhA=", password: "secret pass"},

	{value: "{CRYPT}$sha1$19703$iVdJqfSE$v4qYKl1zqYThwpjJAoKX6UvlHq/a", password: "password"},

	{value: "{NOSUCH}secret", password: "secret", err: ErrScheme},
	{value: "{SSHA}***", password: "secret", err: ErrScheme},
	{value: "{SSHA}AAAA", password: "secret", err: ErrScheme},
	{value: "{SSHA512}AAAA", password: "secret", err: ErrScheme},
	{value: "{CRYPT}$6$rounds=999999999$UlStZppq$x", password: "secret", err: ErrScheme},
	{value: "{CRYPT}x", password: "secret", err: ErrScheme},
	{value: "{BCRYPT}$2b$31$f8.UPDAcBwTQhvkvdPE4sOe99y3v5xR3j0fFicmQL/sBhGL1Q5eJi", password: "secret", err: ErrScheme},
	{value: "{ARGON2}$argon2id$v=19$m=99999999,t=3,p=1$wfr2jEmRj5ad1a9icTRTyw$ofpH/ol/apZKgafxekbUmg", password: "secret", err: ErrScheme},
	{value: "{ARGON2}$argon2id$v=19$m=8,t=0,p=1$wfr2jEmRj5ad1a9icTRTyw$ofpH/ol/apZKgafxekbUmg", password: "secret", err: ErrScheme},
	{value: "{PBKDF2}999999999$c2FsdA$SwB5AbdlSJq.rUnZJvch0GWkKcE", password: "password", err: ErrScheme},
	{value: "{PBKDF2}4096$c2FsdA", password: "password", err: ErrScheme},
	{value: "{PBKDF2_SHA256}AAAA", password: "password", err: ErrScheme},
	{value: "{PKCS5S2}AAAA", password: "password", err: ErrScheme},
}

func TestVerify(t *testing.T) {
	p := New(2, nil)
	for _, c := range stored {
		ok, err := p.Verify(t.Context(), NoChannel{}, []byte(c.value), []byte(c.password))
		if !errors.Is(err, c.err) || ok != (c.err == nil) {
			t.Errorf("%s: %v, %v", c.value, ok, err)
		}
		for _, wrong := range []string{"", c.password + "x", "Secret", strings.Repeat("x", 300)} {
			if ok, _ := p.Verify(t.Context(), NoChannel{}, []byte(c.value), []byte(wrong)); ok {
				t.Errorf("%s accepts %q", c.value, wrong)
			}
		}
	}
}

func TestHashAndVerify(t *testing.T) {
	p := New(2, nil)
	for _, name := range NewSchemes() {
		a, err := p.Hash(t.Context(), NoChannel{}, name, []byte("pä$$"))
		if err != nil {
			t.Fatal(name, err)
		}
		b, _ := p.Hash(t.Context(), NoChannel{}, name, []byte("pä$$"))
		if string(a) == string(b) {
			t.Errorf("%s: no salt: %s", name, a)
		}
		if !Hashed(a) {
			t.Errorf("Hashed(%s) = false", a)
		}
		if ok, err := p.Verify(t.Context(), NoChannel{}, a, []byte("pä$$")); !ok {
			t.Errorf("%s: %v", a, err)
		}
		if ok, _ := p.Verify(t.Context(), NoChannel{}, a, []byte("pa$$")); ok {
			t.Errorf("%s accepts another password", a)
		}
	}
	if a, _ := p.Hash(t.Context(), NoChannel{}, "", []byte("x")); !strings.HasPrefix(string(a), "{ARGON2}$argon2id$") {
		t.Errorf("default: %s", a)
	}
	if _, err := p.Hash(t.Context(), NoChannel{}, "MD5", []byte("x")); err == nil {
		t.Error("makes MD5 hashes")
	}
}

func TestHashed(t *testing.T) {
	for v, want := range map[string]bool{
		"": false, "secret": false, "{": false, "{}x": false, "{CLEARTEXT}x": false, "{clear}x": false,
		"{a b}x": false, "{a{b}x": false, "!x": false, "!{NOSUCH}x": false, "!{CLEARTEXT}x": false,
		"{SSHA}x": true, "{crypt}x": true, "{NOSUCH}x": true, "{SASL}u@REALM": true, "{AES-TUhNR0N/=}x": true,
		"!{SSHA}x": true, "**{crypt}x": true,
	} {
		if Hashed([]byte(v)) != want {
			t.Errorf("Hashed(%q) = %v", v, !want)
		}
	}
	if !slices.Contains(Schemes(), "PKCS5S2") || slices.Contains(NewSchemes(), "SMD5") {
		t.Error(Schemes(), NewSchemes())
	}
}

// TestSlotsAreBounded checks that slow hashes wait for a slot, and that they stop waiting
// when their context ends.
func TestSlotsAreBounded(t *testing.T) {
	p := New(1, nil)
	p.slots.acquire(t.Context(), "another")
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := p.Verify(ctx, NoChannel{}, []byte(slowStored), []byte("x"))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	// A fast hash needs no slot.
	if ok, err := p.Verify(ctx, NoChannel{}, []byte(stored[2].value), []byte("secret")); !ok {
		t.Error(err)
	}
}

const slowStored = "{BCRYPT}$2b$08$f8.UPDAcBwTQhvkvdPE4sOe99y3v5xR3j0fFicmQL/sBhGL1Q5eJi"

// TestFailuresLookAlike checks that every failed attempt costs one slow hash if a slow
// scheme is in use, whatever the stored passwords are, and otherwise costs no slow hash.
// The test counts the hashes instead of measuring time.
func TestFailuresLookAlike(t *testing.T) {
	for _, inUse := range []bool{false, true} {
		for _, values := range [][]string{nil, {"clear"}, {stored[2].value}, {"{NOSUCH}x"}, {stored[2].value, "clear"}, {slowStored}} {
			if !inUse && slices.Contains(values, slowStored) {
				continue
			}
			p := New(1, nil)
			if inUse {
				p.Verify(t.Context(), NoChannel{}, []byte(slowStored), []byte("x"))
			}
			ran := countSlow(t)
			a := p.Attempt(NoChannel{}, []byte("wrong"))
			for _, v := range values {
				if ok, _ := a.Try(t.Context(), []byte(v)); ok {
					t.Fatalf("%s accepted", v)
				}
			}
			if err := a.Fail(t.Context()); err != nil {
				t.Error(err)
			}
			want := 0
			if inUse {
				want = 1
			}
			if *ran != want {
				t.Errorf("stored %q, slow in use %v: %d slow hashes, want %d", values, inUse, *ran, want)
			}
		}
	}
}

// TestFailuresLookAlikeFromTheStart checks that, even before any bind, a failed attempt costs
// a slow hash if a password was hashed in a slow scheme, or if a value in a slow scheme was
// passed to Expect.
func TestFailuresLookAlikeFromTheStart(t *testing.T) {
	for name, meet := range map[string]func(*Passwords){
		"expected": func(p *Passwords) { p.Expect([]byte(slowStored)) },
		"made": func(p *Passwords) {
			if _, err := p.Hash(t.Context(), NoChannel{}, "BCRYPT", []byte("x")); err != nil {
				t.Fatal(err)
			}
		},
		"expected, and no hash": func(p *Passwords) {
			p.Expect([]byte(slowStored))
			p.Expect([]byte("clear"))
			p.Expect([]byte("{SSHA}x"))
		},
	} {
		p := New(1, nil)
		meet(p)
		ran := countSlow(t)
		a := p.Attempt(NoChannel{}, []byte("wrong"))
		if err := a.Fail(t.Context()); err != nil || *ran != 1 {
			t.Errorf("%s: %d slow hashes, %v", name, *ran, err)
		}
	}
}

// countSlow returns a counter of the calls of slow schemes from now on.
func countSlow(t *testing.T) *int {
	n := 0
	for i := range schemes {
		s := &schemes[i]
		if !s.slow {
			continue
		}
		verify := s.verify
		s.verify = func(s *scheme, stored, password []byte) (bool, error) { n++; return verify(s, stored, password) }
		t.Cleanup(func() { s.verify = verify })
	}
	return &n
}

func TestVerifySSHAAllocatesNothing(t *testing.T) {
	p := New(1, nil)
	ctx, v, pw := t.Context(), []byte(stored[2].value), []byte("secret")
	if n := testing.AllocsPerRun(100, func() { p.Verify(ctx, NoChannel{}, v, pw) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzVerify(f *testing.F) {
	for _, c := range stored {
		if !strings.Contains(c.value, "CRYPT") && !strings.Contains(c.value, "ARGON") && !strings.Contains(c.value, "PBKDF") {
			f.Add([]byte(c.value), []byte(c.password))
		}
	}
	p := New(1, nil)
	f.Fuzz(func(t *testing.T, value, password []byte) {
		if Slow(value) {
			t.Skip("valid parameters may ask for seconds")
		}
		ok, err := p.Verify(t.Context(), NoChannel{}, value, password)
		if ok && err != nil {
			t.Errorf("accepted with %v", err)
		}
	})
}

func BenchmarkVerifySSHA(b *testing.B) {
	p := New(1, nil)
	ctx := b.Context()
	v, pw := []byte(stored[2].value), []byte("secret")
	b.ReportAllocs()
	for b.Loop() {
		if ok, _ := p.Verify(ctx, NoChannel{}, v, pw); !ok {
			b.Fatal("rejected")
		}
	}
}

func BenchmarkArgon2id(b *testing.B) {
	p := New(1, nil)
	for b.Loop() {
		if _, err := p.Hash(b.Context(), NoChannel{}, "", []byte("secret")); err != nil {
			b.Fatal(err)
		}
	}
}
