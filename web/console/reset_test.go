package console_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/mail"
	"net/textproto"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/web"
	"github.com/seed-4dac0d86/ldapd/web/console"
)

// A relay is a mail server that takes mails, and refuses what it is told to refuse.
type relay struct {
	net.Listener
	tls     *tls.Config // nil: no STARTTLS
	smtps   bool
	offers  []string          // extensions
	answers map[string]string // to commands, by their beginnings
	hangs   string            // the command after which it says nothing
	mails   chan letter
	hung    chan struct{} // gets a value for each connection that hangs
}

type letter struct{ from, to, auth, text string }

func newRelay(t testing.TB, change func(*relay)) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: l, mails: make(chan letter, 100), hung: make(chan struct{}, 100)}
	if change != nil {
		change(r)
	}
	var all sync.WaitGroup
	done, stop := context.WithCancel(context.Background())
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				defer context.AfterFunc(done, func() { conn.Close() })()
				r.serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		stop()
		all.Wait()
	})
	return r
}

func (r *relay) serve(conn net.Conn) {
	if r.smtps {
		conn = tls.Server(conn, r.tls)
	}
	c, m := textproto.NewConn(conn), letter{}
	say := func(format string, args ...any) { c.PrintfLine(format, args...) }
	say("220 relay")
	for {
		line, err := c.ReadLine()
		if err != nil {
			return
		}
		verb, rest, _ := strings.Cut(line, " ")
		if r.hangs != "" && strings.HasPrefix(line, r.hangs) {
			r.hung <- struct{}{}
			io.Copy(io.Discard, conn)
			return
		}
		refused := false
		for begin, answer := range r.answers {
			if strings.HasPrefix(line, begin) {
				say("%s", answer)
				refused = true
			}
		}
		if refused {
			continue
		}
		switch verb {
		case "EHLO":
			all := append([]string{"relay"}, r.offers...)
			if _, has := conn.(*tls.Conn); r.tls != nil && !has {
				all = append(all, "STARTTLS")
			}
			for _, x := range all[:len(all)-1] {
				say("250-%s", x)
			}
			say("250 %s", all[len(all)-1])
		case "STARTTLS":
			say("220 go on")
			conn = tls.Server(conn, r.tls)
			c = textproto.NewConn(conn)
		case "AUTH":
			m.auth = rest
			say("235 fine")
		case "MAIL":
			m.from = rest
			say("250 fine")
		case "RCPT":
			m.to += rest
			say("250 fine")
		case "DATA":
			say("354 go on")
			b, err := c.ReadDotBytes()
			if err != nil {
				return
			}
			m.text = string(b)
			say("250 taken")
			r.mails <- m
			m = letter{}
		case "QUIT":
			say("221 bye")
			return
		default:
			say("500 what")
		}
	}
}

// link returns the link in a mail, without the URL of the console.
func (m letter) link(t testing.TB) string {
	t.Helper()
	parsed, err := mail.ReadMessage(strings.NewReader(m.text))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(parsed.Body))
	if err != nil {
		t.Fatal(err)
	}
	for s := bufio.NewScanner(bytes.NewReader(body)); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "https://console.example.com"); ok {
			return rest
		}
	}
	t.Fatalf("no link in %s", m.text)
	return ""
}

// lines is a log that can be waited for.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

// offering returns the site on a listener of its own, with pages that reset passwords, and the log of these.
func (s *site) offering(t testing.TB, o console.MailOptions) (*site, lines) {
	t.Helper()
	w, err := web.Open(web.Options{Listen: []string{"http://127.0.0.1:0"}, Idle: 30 * time.Minute, Session: 8 * time.Hour, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	c, log := console.New(w, s.dir), make(lines, 1000)
	c.Register()
	stop := c.OfferReset(newMail(t, o), slog.New(slog.NewTextHandler(log, nil)))
	w.Serve(s.dir)
	t.Cleanup(func() {
		w.Close(context.Background())
		stop()
	})
	offering := *s
	offering.t, offering.url = t, w.URLs()[0]
	return &offering, log
}

func newMail(t testing.TB, o console.MailOptions) *console.Mail {
	t.Helper()
	if o.From == "" {
		o.From = "Directory <directory@example.com>"
	}
	o.URL = "https://console.example.com"
	m, err := console.NewMail(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// ask asks for a link, and returns the text of the answer.
func (v *visitor) ask(name string) string {
	v.t.Helper()
	v.get("/reset")
	v.submit("Send a link", "name", name)
	return fmt.Sprint(v.status, v.at.RequestURI(), v.text)
}

// postName asks for a link, and looks at nothing.
func (v *visitor) postName(name string) {
	v.t.Helper()
	answer, err := v.http.PostForm(v.url+"/reset", url.Values{"name": {name}})
	if err != nil {
		v.t.Fatal(err)
	}
	answer.Body.Close()
}

// policy makes a password policy.
func (s *site) policy(values ...string) {
	s.t.Helper()
	m := &op.Modify{Name: "cn=config", Changes: []op.Modification{op.Change(op.ModAdd, "objectClass", "pwdPolicy"), op.Change(op.ModAdd, "pwdAttribute", "userPassword")}}
	for i := 0; i < len(values); i += 2 {
		m.Changes = append(m.Changes, op.Change(op.ModAdd, values[i], values[i+1]))
	}
	s.ldap(s.admin, m)
}

const fresh = "correct horse battery"

// TestResetByMail follows a link from the page to log in to a new password.
func TestResetByMail(t *testing.T) {
	r := newRelay(t, nil)
	plain := newSite(t)
	v := plain.visitor()
	if v.get("/login"); strings.Contains(v.text, "/reset") {
		t.Error("a link to a page that is not offered")
	}
	if v.get("/reset"); v.status != http.StatusNotFound {
		t.Errorf("not offered: %d", v.status)
	}
	plain.policy("pwdCheckQuality", "1", "pwdMinLength", "12")
	s, log := plain.offering(t, console.MailOptions{Relay: r.Addr().String()})
	v = s.visitor()
	v.get("/login")
	v.follow("Forgotten password?")
	v.submit("Send a link", "name", "jdoe")
	if !strings.Contains(v.page(), "a link is on its way there") {
		t.Errorf("asked: %d %s", v.status, v.page())
	}
	m := <-r.mails
	if m.from != "FROM:<directory@example.com>" || m.to != "TO:<jdoe@example.com>" {
		t.Errorf("%+v", m)
	}
	for _, want := range []string{"From: \"Directory\" <directory@example.com>\n", "To: jdoe@example.com\n", "Subject: Set a new password\n", "Auto-Submitted: auto-generated\n", "Message-ID: <", "\nHello John Doe,\n", "within 30 minutes", "127.0.0.1"} {
		if !strings.Contains(m.text, want) {
			t.Errorf("no %q in the mail:\n%s", want, m.text)
		}
	}
	if line := <-log; !strings.Contains(line, `msg="a link to set a password was sent"`) || !strings.Contains(line, "to=jdoe@example.com") || strings.Contains(line, "/reset/link") {
		t.Errorf("log: %s", line)
	}
	address := m.link(t)
	for range 3 { // programs that look at mails
		s.visitor().get(address)
	}
	v = s.visitor()
	if v.get(address); !strings.Contains(v.page(), "For jdoe") {
		t.Errorf("the page of a link: %d %s", v.status, v.page())
	}
	v.submit("Set the password", "new", fresh, "again", fresh+"x")
	if !strings.Contains(v.page(), "not the same") {
		t.Errorf("different: %d %s", v.status, v.page())
	}
	v.submit("Set the password", "new", "short", "again", "short")
	if v.status != http.StatusUnprocessableEntity || !strings.Contains(v.page(), "The password is shorter than 12 characters.") {
		t.Errorf("short: %d %s", v.status, v.page())
	}
	v.check(address, "short", "The password is shorter than 12 characters.")
	v.check(address, fresh, "This password can be used.")
	v.submit("Set the password", "new", fresh, "again", fresh)
	if v.status != http.StatusOK || !strings.Contains(v.page(), "The password has been changed.") {
		t.Errorf("set: %d %s", v.status, v.page())
	}
	s.logged(jdoe, fresh)
	v.check(address, fresh, "")
	if v.get(address); v.status != http.StatusGone || !strings.Contains(v.page(), "This link is over") {
		t.Errorf("twice: %d %s", v.status, v.page())
	}
	v.submit("Send a link", "name", "jdoe@example.com")
	v.get((<-r.mails).link(t))
	s.ldap(s.admin, &op.Modify{Name: jdoe, Changes: []op.Modification{op.Change(op.ModReplace, "userPassword", "another one meanwhile")}})
	if v.submit("Set the password", "new", fresh+"2", "again", fresh+"2"); v.status != http.StatusGone {
		t.Errorf("after another change: %d %s", v.status, v.page())
	}
	for _, x := range []string{"", "x", "a.b.c.d.e", strings.Repeat("x", 5000)} {
		if v.get("/reset/link?t=" + x); v.status != http.StatusGone {
			t.Errorf("no ticket: %d", v.status)
		}
	}
	history := s.logged(admin, "secret")
	if history.get(dnLink(jdoe) + "/history"); !strings.Contains(history.page(), "reset by mail") {
		t.Errorf("history: %s", history.page())
	}
}

// check asks what the policy has against a password.
func (v *visitor) check(address, password, want string) {
	v.t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		v.t.Fatal(err)
	}
	answer, err := v.http.PostForm(v.url+"/reset/check", url.Values{"t": u.Query()["t"], "new": {password}})
	if err != nil {
		v.t.Fatal(err)
	}
	defer answer.Body.Close()
	if b, err := io.ReadAll(answer.Body); err != nil || string(b) != want {
		v.t.Errorf("%q: %q, not %q (%v)", password, b, want, err)
	}
}

// TestResetAnswers checks that the answer is the same for all names, whoever they belong to, and that the log tells.
func TestResetAnswers(t *testing.T) {
	r := newRelay(t, func(r *relay) { r.answers = map[string]string{"RCPT TO:<asantos@": "550 no such user here"} })
	s, log := newSite(t).offering(t, console.MailOptions{Relay: r.Addr().String()})
	s.ldap(s.admin, &op.Modify{Name: "uid=jsmith," + people, Changes: []op.Modification{op.Change(op.ModReplace, "userPassword", "x"), op.Change(op.ModReplace, "pwdAccountLockedTime", "000001010000Z")}})
	for name, mail := range map[string][]byte{"two": []byte("one@example.com, two@example.com"), "named": []byte("Ann <ann@example.com>"), "crlf": []byte("ann@example.com\r\nBcc: eve@example.com")} {
		s.ldap(s.admin, &op.Add{Name: "uid=" + name + "," + people, Attributes: []op.PartialAttribute{op.Attribute("objectClass", "inetOrgPerson"), op.Attribute("uid", name), op.Attribute("cn", name),
			op.Attribute("sn", name), op.Attribute("userPassword", "x"), {Description: "mail", Values: [][]byte{mail}}}})
	}
	v := s.visitor()
	want := v.ask("jdoe")
	<-log
	for _, c := range []struct{ name, why string }{
		{"jdoe", "sent"}, {"nobody", "no account"}, {"jsmith", "disabled"}, {"asantos", "no such user here"}, {"two", "not one mail address"},
		{"named", "not one mail address"}, {"crlf", "not one mail address"}, {"jdoe\r\nBcc: eve@example.com", "no account"}, {admin, "no account"},
		{"jdoe@example.com", "sent"}, {jdoe, "too many"}, {strings.Repeat("x", 512), "no account"},
	} {
		if got := v.ask(c.name); got != want {
			t.Errorf("%s: %s", c.name, got)
		}
		if line := <-log; !strings.Contains(line, c.why) {
			t.Errorf("%s: %s", c.name, line)
		}
	}
	for range 3 {
		if m := <-r.mails; m.to != "TO:<jdoe@example.com>" {
			t.Errorf("mail to %s", m.to)
		}
	}
	for i := range 10 {
		if got := v.ask("nobody"); got != want {
			t.Errorf("request %d: %s", i, got)
		}
		if line := <-log; strings.Contains(line, "from this address: too many") != (i >= 7) {
			t.Errorf("request %d: %s", i, line)
		}
	}
	if v.ask(strings.Repeat("x", 513)); v.status != http.StatusUnprocessableEntity {
		t.Errorf("a long name: %d", v.status)
	}
}

// TestResetClock checks that a link works for half an hour.
func TestResetClock(t *testing.T) {
	r, s := newRelay(t, nil), newSite(t)
	for ago, status := range map[time.Duration]int{29 * time.Minute: http.StatusOK, 30 * time.Minute: http.StatusGone} {
		s, _ := s.offering(t, console.MailOptions{Relay: r.Addr().String(), Now: func() time.Time { return time.Now().Add(-ago) }})
		v := s.visitor()
		v.ask("jdoe")
		if v.get((<-r.mails).link(t)); v.status != status {
			t.Errorf("after %v: %d %s", ago, v.status, v.page())
		}
	}
}

// TestResetHangs checks that a relay that says nothing holds up no page, and not the end of the server. Requests that would wait
// too long are dropped.
func TestResetHangs(t *testing.T) {
	r := newRelay(t, func(r *relay) { r.hangs = "EHLO" })
	s := newSite(t)
	s.ldap(s.admin, &op.Modify{Name: "uid=asantos," + people, Changes: []op.Modification{op.Change(op.ModReplace, "userPassword", "x")}})
	hanging, log := s.offering(t, console.MailOptions{Relay: r.Addr().String()})
	v := hanging.visitor()
	want := v.ask("nobody")
	<-log
	for _, name := range []string{"jdoe", "jdoe", "jdoe", "asantos"} { // mails that are sent at once
		if got := v.ask(name); got != want {
			t.Error(got)
		}
		<-r.hung
	}
	for range 64 {
		v.postName("jdoe")
	}
	if len(log) > 0 {
		t.Errorf("dropped too early: %s", <-log)
	}
	if got := v.ask("jdoe"); got != want {
		t.Error(got)
	}
	if line := <-log; !strings.Contains(line, "too many requests wait") {
		t.Error(line)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-r.hung; cancel() }()
	err := console.Deliver(newMail(t, console.MailOptions{Relay: r.Addr().String()}), ctx, &directory.Reset{Mail: "ann@example.com"}, "192.0.2.1:1")
	if err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("beyond its time: %v", err)
	}
}

// certificate returns a certificate for a host, and the CA that has signed it: itself.
func certificate(t testing.TB, host string) (*tls.Config, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{host}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, pool
}

// TestRelays sends mails to relays of all kinds.
func TestRelays(t *testing.T) {
	secure, cas := certificate(t, "relay.example.com")
	_, others := certificate(t, "relay.example.com")
	wrongName, wrongCA := certificate(t, "other.example.com")
	const remote = "relay.example.com:587"
	for _, c := range []struct {
		name    string
		relay   func(*relay)
		options console.MailOptions // a Relay that is not set is the relay's loopback address
		to      string
		want    string // of the error
		auth    string
	}{
		{name: "on this machine, in clear"},
		{name: "a relay that takes letters beyond ASCII", relay: func(r *relay) { r.offers = []string{"SMTPUTF8", "8BITMIME"} }},
		{name: "STARTTLS", relay: func(r *relay) { r.tls = secure }, options: console.MailOptions{Relay: remote, CAs: cas}},
		{name: "no STARTTLS", options: console.MailOptions{Relay: remote, CAs: cas}, want: "no STARTTLS"},
		{name: "another CA", relay: func(r *relay) { r.tls = secure }, options: console.MailOptions{Relay: remote, CAs: others}, want: "certificate"},
		{name: "another host", relay: func(r *relay) { r.tls = wrongName }, options: console.MailOptions{Relay: remote, CAs: wrongCA}, want: "valid for other.example.com"},
		{name: "smtps", relay: func(r *relay) { r.tls, r.smtps = secure, true }, options: console.MailOptions{Relay: "smtps://relay.example.com:465", CAs: cas}},
		{name: "smtps without TLS", options: console.MailOptions{Relay: "smtps://relay.example.com:465", CAs: cas}, want: "handshake"},
		{name: "a user", relay: func(r *relay) { r.tls, r.offers = secure, []string{"AUTH PLAIN"} }, options: console.MailOptions{Relay: remote, CAs: cas, User: "u", Password: "p"}, auth: "PLAIN AHUAcA=="},
		{name: "a user who is refused", relay: func(r *relay) {
			r.tls, r.offers, r.answers = secure, []string{"AUTH PLAIN"}, map[string]string{"AUTH": "535 5.7.8 no"}
		}, options: console.MailOptions{Relay: remote, CAs: cas, User: "u", Password: "p"}, want: "5.7.8 no"},
		{name: "a user where there are none", options: console.MailOptions{User: "u", Password: "p"}, want: "no AUTH PLAIN"},
		{name: "a sender who is refused", relay: func(r *relay) { r.answers = map[string]string{"MAIL": "553 not yours"} }, want: "not yours"},
		{name: "a text that is refused", relay: func(r *relay) { r.answers = map[string]string{"DATA": "554 no"} }, want: "554"},
		{name: "busy", relay: func(r *relay) { r.answers = map[string]string{"EHLO": "421 later", "HELO": "421 later"} }, want: "later"},
		{name: "letters beyond ASCII", to: "jörg@example.com", want: "no SMTPUTF8"},
		{name: "letters beyond ASCII, taken", to: "jörg@example.com", relay: func(r *relay) { r.offers = []string{"SMTPUTF8", "8BITMIME"} }},
		{name: "two addresses", to: "a@example.com,b@example.com", want: "not one mail address"},
		{name: "a line in the address", to: "a@example.com>\r\nRCPT TO:<b@example.com", want: "not one mail address"},
		{name: "a comment", to: "a@example.com (b@example.com)", want: "not one mail address"},
		{name: "nothing", to: " ", want: "not one mail address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRelay(t, c.relay)
			o := c.options
			if o.Relay == "" {
				o.Relay = r.Addr().String()
			}
			o.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, r.Addr().String())
			}
			to := c.to
			if to == "" {
				to = "ann@example.com"
			}
			reset := &directory.Reset{Ticket: strings.Repeat("t", 300), Mail: to, Name: "cn=ann\r\nBcc: eve@example.com", Person: "Ann\r\n.\r\nRCPT TO:<eve@example.com>\u2028Ä"}
			err := console.Deliver(newMail(t, o), t.Context(), reset, "192.0.2.1:1")
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v", err)
				}
				if len(r.mails) > 0 {
					t.Error("a mail was sent")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			m := <-r.mails
			if strings.Contains(m.from, "SMTPUTF8") != strings.Contains(to, "ö") {
				t.Errorf("MAIL %s", m.from)
			}
			if m.auth != c.auth || !strings.HasPrefix(m.to, "TO:<"+to+">") || strings.Contains(m.text, "\nBcc:") || strings.Contains(m.text, "\nRCPT") || !strings.HasSuffix(m.link(t), "t="+reset.Ticket) {
				t.Errorf("%+v", m)
			}
		})
	}
}

// TestMailOptions checks what is wrong with options, and a template of one's own.
func TestMailOptions(t *testing.T) {
	good := console.MailOptions{Relay: "mail.example.com:587", From: "directory@example.com", URL: "https://console.example.com:8443"}
	for _, c := range []struct {
		change func(*console.MailOptions)
		option string
	}{
		{func(*console.MailOptions) {}, ""},
		{func(o *console.MailOptions) { o.Relay = "smtps://mail.example.com:465" }, ""},
		{func(o *console.MailOptions) { o.Relay = "mail.example.com" }, "Relay"},
		{func(o *console.MailOptions) { o.Relay = "smtp://mail.example.com:25" }, "Relay"},
		{func(o *console.MailOptions) { o.Relay = ":25" }, "Relay"},
		{func(o *console.MailOptions) { o.From = "directory" }, "From"},
		{func(o *console.MailOptions) { o.From = "a@example.com, b@example.com" }, "From"},
		{func(o *console.MailOptions) { o.From = `"a> <b"@example.com` }, "From"},
		{func(o *console.MailOptions) { o.URL = "http://console.example.com" }, "URL"},
		{func(o *console.MailOptions) { o.URL = "http://127.0.0.1:3891" }, ""},
		{func(o *console.MailOptions) { o.URL = "https://console.example.com/" }, "URL"},
		{func(o *console.MailOptions) { o.URL = "https://u:p@console.example.com" }, "URL"},
		{func(o *console.MailOptions) { o.Template = "Subject: x\r\n\r\n{{.Link}}" }, ""},
		{func(o *console.MailOptions) { o.Template = "{{.Link}}" }, "Template"},
		{func(o *console.MailOptions) { o.Template = "Subject: x\nBcc: y@example.com\n\n{{.Link}}" }, "Template"},
		{func(o *console.MailOptions) { o.Template = "Subject: x\n\nno link" }, "Template"},
		{func(o *console.MailOptions) { o.Template = "Subject: x\n\n{{.Link}} {{.Password}}" }, "Template"},
		{func(o *console.MailOptions) { o.Template = "Subject: x\n\n{{.Link" }, "Template"},
	} {
		o := good
		c.change(&o)
		_, err := console.NewMail(o)
		mistake, _ := err.(*console.MailError)
		if (err == nil) != (c.option == "") || err != nil && (mistake == nil || mistake.Option != c.option) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	r := newRelay(t, nil)
	m := newMail(t, console.MailOptions{Relay: r.Addr().String(), Template: "Subject: Passwort für {{.Person}}\n\nGrüße\n{{.Link}}\n"})
	if err := console.Deliver(m, t.Context(), &directory.Reset{Mail: "ann@example.com", Person: "Ann\nBcc: x@example.com"}, "192.0.2.1:1"); err != nil {
		t.Fatal(err)
	}
	if got := (<-r.mails).text; !strings.Contains(got, "\nSubject: =?utf-8?q?Passwort_f=C3=BCr_Ann_Bcc:_x@example.com?=\n") || !strings.Contains(got, "\nGr=C3=BC=C3=9Fe\n") {
		t.Error(got)
	}
}

// TestResetPages looks at the pages in a browser, as TestPages does at the others.
func TestResetPages(t *testing.T) {
	r := newRelay(t, nil)
	s, _ := newSite(t).offering(t, console.MailOptions{Relay: r.Addr().String()})
	axe, err := os.ReadFile("testdata/axe-4.14.1.min.js")
	if err != nil {
		t.Fatal(err)
	}
	b := s.tab()
	b.must(call(b.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: string(axe)}))
	s.visitor().ask("jdoe")
	address := (<-r.mails).link(t)
	for i, a := range []string{"/login", "/reset", "/reset/sent", address, "/reset/link?t=over"} {
		b.look(a, fmt.Sprintf("reset-%d", i), "", "")
	}
}
