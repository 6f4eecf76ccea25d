package notify_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/notify"
	"github.com/seed-4dac0d86/ldapd/ldaptest"
)

// A receiver keeps the changes that it takes. It refuses requests as long as down says.
type receiver struct {
	mu      sync.Mutex
	down    int // number of requests to refuse
	numbers []int64
	names   []string
	wrong   []string
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down > 0 {
		r.down--
		http.Error(w, "not now", http.StatusInternalServerError)
		return
	}
	body, err := io.ReadAll(q.Body)
	if err != nil {
		r.wrong = append(r.wrong, err.Error())
	}
	mac := hmac.New(sha256.New, []byte("signed"))
	mac.Write(body)
	if want := "sha256=" + hex.EncodeToString(mac.Sum(nil)); q.Header.Get("Ldapd-Signature") != want {
		r.wrong = append(r.wrong, "signature "+q.Header.Get("Ldapd-Signature"))
	}
	for lines := bufio.NewScanner(bytes.NewReader(body)); lines.Scan(); {
		var change struct {
			ChangeNumber int64
			TargetDN     string
		}
		if err := json.Unmarshal(lines.Bytes(), &change); err != nil {
			r.wrong = append(r.wrong, err.Error())
		}
		r.numbers, r.names = append(r.numbers, change.ChangeNumber), append(r.names, change.TargetDN)
	}
}

// TestNotify checks that a receiver gets all changes in order, although it refuses some requests and the
// command ends in between, and that what cannot be sent any more is said.
func TestNotify(t *testing.T) {
	srv := ldaptest.Start(t)
	conn, err := ldap.DialURL(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Bind(srv.BindDN, srv.Password); err != nil {
		t.Fatal(err)
	}
	added := 0
	add := func(n int) {
		t.Helper()
		for range n {
			r := ldap.NewAddRequest(fmt.Sprintf("cn=%d,%s", added, srv.BaseDN), nil)
			r.Attribute("objectClass", []string{"device"})
			if err := conn.Add(r); err != nil {
				t.Fatal(err)
			}
			added++
		}
	}
	to := &receiver{}
	web := httptest.NewServer(to)
	defer web.Close()
	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	password, secret, cursor := file("password", srv.Password), file("secret", "signed\n"), filepath.Join(dir, "cursor")
	run := func(url string, more ...string) (status int, said string) {
		var out bytes.Buffer
		m := &cli.Main{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out}
		args := append([]string{"--url", srv.URL, "--bind", srv.BindDN, "--password-file", password, "--to", url, "--cursor", cursor, "--secret-file", secret}, more...)
		return m.Run(context.Background(), notify.Command(m), args), out.String()
	}
	once := func() {
		t.Helper()
		if status, said := run(web.URL, "--once"); status != 0 {
			t.Errorf("status %d: %s", status, said)
		}
	}

	add(1)
	once() // begins with the next change
	add(250)
	once()
	to.down = 1
	add(3)
	if status, said := run(web.URL, "--once"); status != 1 || !strings.Contains(said, "500") {
		t.Errorf("a receiver that refuses: status %d, %s", status, said)
	}
	once()
	to.mu.Lock()
	if len(to.names) != added-1 {
		t.Errorf("%d changes were received, want %d", len(to.names), added-1)
	}
	for i, name := range to.names {
		if want := fmt.Sprintf("cn=%d,%s", i+1, srv.BaseDN); name != want || i > 0 && to.numbers[i] != to.numbers[i-1]+1 {
			t.Errorf("change %d: %s with the number %d, want %s", i, name, to.numbers[i], want)
		}
	}
	if len(to.wrong) > 0 {
		t.Errorf("%q", to.wrong)
	}
	to.mu.Unlock()

	for _, c := range []struct{ cursor, url, want string }{
		{"x", web.URL, "no change number"},
		{"-3", web.URL, "no change number"},
		{"1", "ftp://x", "is not http"},
		{"1", "http://127.0.0.1:1/", "refused"},
	} {
		file("cursor", c.cursor)
		if status, said := run(c.url, "--once"); status == 0 || !strings.Contains(said, c.want) {
			t.Errorf("cursor %q, to %s: status %d, %s", c.cursor, c.url, status, said)
		}
	}
	if text, _ := os.ReadFile(cursor); string(text) != "1" {
		t.Errorf("a failure changed the cursor to %q", text)
	}
}
