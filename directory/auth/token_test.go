package auth

import (
	"bytes"
	"errors"
	"testing"
)

func TestParseBearer(t *testing.T) {
	for _, c := range []struct{ message, authzID, token string }{
		{"n,a=user@example.com,\x01host=h\x01port=389\x01auth=Bearer abc\x01\x01", "user@example.com", "abc"},
		{"n,,\x01auth=bearer abc\x01\x01", "", "abc"},
		{"y,a=dn:cn=3Da=2Co=3Db,\x01auth=Bearer abc\x01\x01", "dn:cn=a,o=b", "abc"},
		{"n,,\x01auth=\x01\x01", "", ""},
	} {
		authzID, token, err := ParseBearer([]byte(c.message))
		if authzID != c.authzID || token != c.token || err != nil {
			t.Errorf("%q: %q, %q, %v", c.message, authzID, token, err)
		}
	}
	for _, bad := range []string{"", "\x01", "n,,", "n,,\x01\x01", "n,,\x01auth=Bearer x", "n,,\x01auth=Bearer x\x01", "n,,\x01host=x\x01\x01",
		"p=tls-unique,,\x01auth=Bearer x\x01\x01", "n,\x01auth=Bearer x\x01\x01", "n,x,\x01auth=Bearer x\x01\x01", "n,a=x=,\x01auth=Bearer x\x01\x01",
		"n,,x\x01auth=Bearer x\x01\x01", "n,,\x01auth=Basic x\x01\x01"} {
		if _, token, err := ParseBearer([]byte(bad)); !errors.Is(err, ErrMessage) {
			t.Errorf("%q: %q, %v", bad, token, err)
		}
	}
}

func FuzzParseBearer(f *testing.F) {
	f.Add([]byte("n,a=u,\x01auth=Bearer abc\x01\x01"))
	f.Add([]byte("n,,\x01auth=\x01\x01"))
	f.Fuzz(func(t *testing.T, message []byte) {
		_, token, err := ParseBearer(message)
		if err == nil && !bytes.Contains(message, []byte(token)) {
			t.Errorf("%q: %q", message, token)
		}
	})
}
