package integration

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// statusURL returns the URL of the pages of a server that was started with
// --status-listen.
func statusURL(t *testing.T, p *process) (url string) {
	t.Helper()
	eventually(t, "the server logs the URL of its status", func() error {
		m := regexp.MustCompile(`status=(http\S+)`).FindStringSubmatch(p.stderr.String())
		if m == nil {
			return errors.New("not yet")
		}
		url = m[1]
		return nil
	})
	return url
}

// wantHealth checks that the pages of a server have these status codes within two seconds:
// /live, /ready and /ready?for=writes.
func wantHealth(t *testing.T, p *process, when string, live, reads, writes int) {
	t.Helper()
	want := [3]int{live, reads, writes}
	var got [3]int
	var texts string
	for end := time.Now().Add(2 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		texts = ""
		for i, page := range []string{"/live", "/ready", "/ready?for=writes"} {
			r, err := http.Get(statusURL(t, p) + page)
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(r.Body)
			r.Body.Close()
			got[i] = r.StatusCode
			texts += fmt.Sprintf("\n%s: %s", page, b)
		}
		if got == want {
			return
		}
		if time.Now().After(end) {
			t.Errorf("%s: live, ready and ready for writes are %v, want %v%s", when, got, want, texts)
			return
		}
	}
}

// wantReason checks that a page names a reason within two seconds.
func wantReason(t *testing.T, p *process, page, text string) {
	t.Helper()
	var err error
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = reason(t, p, page, text); err == nil {
			return
		}
	}
	t.Error(err)
}

// reason returns an error if a page does not name a reason.
func reason(t *testing.T, p *process, page, text string) error {
	t.Helper()
	r, err := http.Get(statusURL(t, p) + page)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err == nil && !strings.Contains(string(b), text) {
		err = fmt.Errorf("%s does not mention %q: %s", page, text, b)
	}
	return err
}
