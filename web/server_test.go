package web_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/auth/authtest"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/server/certstest"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
	"github.com/seed-4dac0d86/ldapd/web"
)

const admin = "cn=admin"

// serve serves a directory with the pages / (who is there, and from where), POST /in (log in as the
// administrator), POST /out, and those of more.
func serve(t *testing.T, o web.Options, more map[string]http.HandlerFunc) (*web.Server, string) {
	t.Helper()
	ctx, quiet := context.Background(), slog.New(slog.DiscardHandler)
	p, err := partition.Open(ctx, tabletest.NewMem(), partition.Options{Create: true, Schema: schema.Core(), Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	d, err := directory.New(p, directory.Options{Admin: admin, AdminPassword: "secret", Passwords: auth.New(0, authtest.Cheap), Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	o.Log = quiet
	if o.Listen == nil {
		o.Listen = []string{"http://127.0.0.1:0"}
	}
	if o.Idle == 0 {
		o.Idle, o.Session = 30*time.Minute, 8*time.Hour
	}
	w, err := web.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	w.Handle("/", http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		s, over, err := w.Session(out, r)
		if err != nil {
			http.Error(out, err.Error(), http.StatusInternalServerError)
			return
		}
		defer s.Close()
		fmt.Fprintf(out, "%q over=%v from=%s tls=%v", s.Name(), over, r.RemoteAddr, w.Channel(r).TLS() != nil)
	}))
	w.Handle("POST /in", http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		s := w.NewSession(r)
		defer s.Close()
		_, err := web.Client{Session: s}.Do(r.Context(), &op.Bind{Version: 3, Name: admin, Password: []byte("secret")}, web.Answer{})
		if err == nil {
			err = w.LogIn(out, r, s)
		}
		if err != nil {
			http.Error(out, err.Error(), http.StatusForbidden)
		}
	}))
	w.Handle("POST /out", http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) { w.LogOut(out, r) }))
	for pattern, h := range more {
		w.Handle(pattern, h)
	}
	w.Serve(d)
	t.Cleanup(func() {
		w.Close(ctx)
		d.Close()
		p.Close(ctx)
	})
	return w, w.URLs()[0]
}

// send sends a request with headers, and returns the answer and its body.
func send(t *testing.T, c *http.Client, method, address string, body io.Reader, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		} else {
			r.Header.Add(headers[i], headers[i+1])
		}
	}
	answer, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, strings.TrimSpace(string(text))
}

// TestOtherSites checks that pages of other sites, and names that are made to lead here, get nothing done.
func TestOtherSites(t *testing.T) {
	_, at := serve(t, web.Options{Names: []string{"Directory.example"}}, nil)
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, path string
		headers      []string
		status       int
	}{
		{"POST", "/in", nil, 200},
		{"POST", "/in", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"POST", "/in", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"POST", "/in", []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"POST", "/in", []string{"Origin", "http://elsewhere.example"}, 403},
		{"POST", "/in", []string{"Origin", "null"}, 403},
		{"POST", "/in", []string{"Origin", at}, 200},
		{"GET", "/", []string{"Sec-Fetch-Site", "cross-site"}, 200}, // a link; the cookie is SameSite=Strict
		{"GET", "/", []string{"Host", "rebound.example"}, 421},
		{"GET", "/", []string{"Host", "rebound.example:" + u.Port()}, 421},
		{"GET", "/", []string{"Host", "127.0.0.1.rebound.example"}, 421},
		{"GET", "/", []string{"Host", "directory.EXAMPLE:8443"}, 200},
		{"GET", "/", []string{"Host", "localhost:1"}, 200},
		{"GET", "/", []string{"Host", "192.0.2.1"}, 421},
	} {
		answer, text := send(t, http.DefaultClient, c.method, at+c.path, nil, c.headers...)
		if answer.StatusCode != c.status {
			t.Errorf("%s %s %v: %d, want %d: %s", c.method, c.path, c.headers, answer.StatusCode, c.status, text)
		}
		for _, h := range []string{"Content-Security-Policy", "X-Content-Type-Options", "Referrer-Policy", "Cross-Origin-Opener-Policy", "Cross-Origin-Resource-Policy"} {
			if answer.Header.Get(h) == "" {
				t.Errorf("%s %s %v: no %s", c.method, c.path, c.headers, h)
			}
		}
	}
}

// TestCookie checks how a ticket is kept, that it is renewed with use, and that it ends.
func TestCookie(t *testing.T) {
	ca := certstest.New(t)
	certificate := ca.Server()
	leaf, err := x509.ParseCertificate(certificate.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	certificate.Leaf = leaf
	config := &tls.Config{Certificates: []tls.Certificate{certificate}}
	o := web.Options{Listen: []string{"http://127.0.0.1:0", "https://127.0.0.1:0"}, TLS: func() *tls.Config { return config }, Idle: time.Hour, Session: 8 * time.Hour}
	w, _ := serve(t, o, nil)
	secure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool()}, ForceAttemptHTTP2: true}}
	for i, c := range []struct {
		client *http.Client
		name   string
		tls    bool
	}{{http.DefaultClient, "ldapd", false}, {secure, "__Host-ldapd", true}} {
		at := w.URLs()[i]
		answer, _ := send(t, c.client, "POST", at+"/in", nil)
		cookies := answer.Cookies()
		if len(cookies) != 1 {
			t.Fatalf("%v: %s", cookies, answer.Status)
		}
		k := cookies[0]
		if k.Name != c.name || k.Secure != c.tls || !k.HttpOnly || k.SameSite != http.SameSiteStrictMode || k.Path != "/" || k.Domain != "" {
			t.Errorf("cookie %v", k)
		}
		if hsts := answer.Header.Get("Strict-Transport-Security") != ""; hsts != c.tls {
			t.Errorf("HSTS: %v", hsts)
		}
		answer, text := send(t, c.client, "GET", at+"/", nil, "Cookie", k.Name+"="+k.Value)
		if !strings.HasPrefix(text, `"cn=admin" over=false`) || len(answer.Cookies()) != 0 {
			t.Errorf("%s %v", text, answer.Cookies())
		}
		answer, text = send(t, c.client, "GET", at+"/", nil, "Cookie", k.Name+"="+k.Value[:len(k.Value)-4]+"AAAA")
		if !strings.HasPrefix(text, `"" over=true`) || len(answer.Cookies()) != 1 || answer.Cookies()[0].MaxAge >= 0 {
			t.Errorf("altered: %s %v", text, answer.Cookies())
		}
		if answer, _ = send(t, c.client, "POST", at+"/out", nil); len(answer.Cookies()) != 1 || answer.Cookies()[0].MaxAge >= 0 {
			t.Errorf("logged out: %v", answer.Cookies())
		}
	}
	// A ticket with less than the idle time left is renewed, but not beyond the longest time.
	_, short := serve(t, web.Options{Idle: time.Hour, Session: 50 * time.Minute}, nil)
	answer, _ := send(t, http.DefaultClient, "POST", short+"/in", nil)
	k := answer.Cookies()[0]
	answer, text := send(t, http.DefaultClient, "GET", short+"/", nil, "Cookie", k.Name+"="+k.Value)
	if !strings.HasPrefix(text, `"cn=admin"`) || len(answer.Cookies()) != 1 {
		t.Errorf("renewed: %s %v", text, answer.Cookies())
	}
	_, over := serve(t, web.Options{Idle: time.Hour, Session: time.Nanosecond}, nil)
	answer, _ = send(t, http.DefaultClient, "POST", over+"/in", nil)
	k = answer.Cookies()[0]
	if _, text = send(t, http.DefaultClient, "GET", over+"/", nil, "Cookie", k.Name+"="+k.Value); !strings.HasPrefix(text, `"" over=true`) {
		t.Errorf("over: %s", text)
	}
}

// TestProxies checks that only proxies connect over http if there are some, and that they name the client.
func TestProxies(t *testing.T) {
	here := netip.MustParsePrefix("127.0.0.0/8")
	_, at := serve(t, web.Options{Proxies: []netip.Prefix{here}}, nil)
	for _, c := range []struct {
		headers []string
		status  int
		says    string
	}{
		{[]string{"X-Forwarded-For", "192.0.2.9, 198.51.100.7", "X-Forwarded-Proto", "https"}, 200, "from=198.51.100.7:0 tls=true"},
		{[]string{"X-Forwarded-For", "198.51.100.7"}, 200, "from=198.51.100.7:0 tls=false"},
		{[]string{"X-Forwarded-For", "192.0.2.9", "X-Forwarded-For", "2001:db8::1"}, 200, "from=[2001:db8::1]:0"},
		{[]string{"X-Forwarded-For", "somebody"}, 403, "X-Forwarded-For"},
		{nil, 403, "X-Forwarded-For"},
	} {
		if answer, text := send(t, http.DefaultClient, "GET", at+"/", nil, c.headers...); answer.StatusCode != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%v: %d %s", c.headers, answer.StatusCode, text)
		}
	}
	_, other := serve(t, web.Options{Proxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}, nil)
	if answer, _ := send(t, http.DefaultClient, "GET", other+"/", nil, "X-Forwarded-For", "198.51.100.7"); answer.StatusCode != http.StatusForbidden {
		t.Errorf("a client that is no proxy: %d", answer.StatusCode)
	}
	_, without := serve(t, web.Options{}, nil)
	if _, text := send(t, http.DefaultClient, "GET", without+"/", nil, "X-Forwarded-For", "198.51.100.7", "X-Forwarded-Proto", "https"); strings.Contains(text, "198.51.100.7") || strings.Contains(text, "tls=true") {
		t.Errorf("without proxies: %s", text)
	}
}

// TestLimits checks that a large body and too many requests at once get an answer that says so.
func TestLimits(t *testing.T) {
	block, begun := make(chan struct{}), make(chan struct{}, 300)
	_, at := serve(t, web.Options{}, map[string]http.HandlerFunc{
		"POST /read": func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			}
		},
		"GET /wait": func(http.ResponseWriter, *http.Request) { begun <- struct{}{}; <-block },
	})
	if answer, _ := send(t, http.DefaultClient, "POST", at+"/read", io.LimitReader(zeros{}, 17<<20)); answer.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a body of 17 MiB: %d", answer.StatusCode)
	}
	if answer, _ := send(t, http.DefaultClient, "POST", at+"/read", io.LimitReader(zeros{}, 15<<20)); answer.StatusCode != http.StatusOK {
		t.Errorf("a body of 15 MiB: %d", answer.StatusCode)
	}
	var all sync.WaitGroup
	ask := func(cookie string) {
		all.Go(func() {
			r, err := http.NewRequestWithContext(context.Background(), "GET", at+"/wait", nil)
			if err != nil {
				return
			}
			r.Header.Set("Cookie", cookie)
			if answer, err := http.DefaultClient.Do(r); err == nil {
				answer.Body.Close()
			}
		})
		<-begun
	}
	for range 8 {
		ask("ldapd=one")
	}
	if answer, text := send(t, http.DefaultClient, "GET", at+"/", nil, "Cookie", "ldapd=one"); answer.StatusCode != http.StatusTooManyRequests || !strings.Contains(text, "8 requests") {
		t.Errorf("the ninth request of a ticket: %d %s", answer.StatusCode, text)
	}
	for i := range 248 {
		ask(fmt.Sprint("ldapd=", i))
	}
	if answer, text := send(t, http.DefaultClient, "GET", at+"/", nil); answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
		t.Errorf("the 257th request: %d %s", answer.StatusCode, text)
	}
	close(block)
	all.Wait()
	if answer, _ := send(t, http.DefaultClient, "GET", at+"/", nil, "Cookie", "ldapd=one"); answer.StatusCode != http.StatusOK {
		t.Errorf("afterwards: %d", answer.StatusCode)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// TestNoListener checks that a server that cannot listen says so, and holds no other listener.
func TestNoListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := web.Open(web.Options{Listen: []string{"http://127.0.0.1:0", "http://" + l.Addr().String()}}); err == nil {
		t.Error("two servers at one port")
	}
}
