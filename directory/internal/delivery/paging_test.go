package delivery

import "testing"

// FuzzCookie checks that a cookie that this server did not make is refused, whatever it
// contains.
func FuzzCookie(f *testing.F) {
	p := &Page{key: testKey}
	good := p.write(1<<40, 7, 0, []byte("position"))
	f.Add(good)
	f.Add(good[:20])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, cookie []byte) {
		if (&Page{key: testKey}).read(cookie) && string(cookie) != string(good) {
			t.Errorf("accepted %x", cookie)
		}
	})
}

func TestCookieRoundTrip(t *testing.T) {
	p := &Page{key: testKey}
	cookie := p.write(1<<40|5, 7, 9, []byte("position"))
	q := &Page{key: testKey}
	if !q.read(cookie) || q.Revision != 1<<40|5 || q.sent != 7 || q.Skip != 9 || string(q.After) != "position" {
		t.Errorf("%+v", q)
	}
}

// testKey seals cookies.
var testKey = make([]byte, 32)
