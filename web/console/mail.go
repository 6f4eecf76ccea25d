package console

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
	"net/url"
	"slices"
	"strings"
	"text/template"
	"time"
	"unicode"

	"github.com/seed-4dac0d86/ldapd/web"
)

// MailOptions say how links to set passwords are sent.
type MailOptions struct {
	// Relay is HOST:PORT of a mail server, with STARTTLS unless the host is a loopback address, or smtps://HOST:PORT.
	Relay    string
	CAs      *x509.CertPool // that sign the relay's certificate; nil: those of the machine
	User     string         // for the relay (AUTH PLAIN); "": none
	Password string
	From     string // the address that mails are from
	URL      string // of the console, for the links
	Template string // of the mail, as text/template; "": DefaultMail

	Dial func(ctx context.Context, network, address string) (net.Conn, error) // nil: by the machine; for tests
	Now  func() time.Time                                                     // nil: time.Now; for tests
}

// DefaultMail is the template of mails that lead to /reset.
const DefaultMail = `Subject: Set a new password

Hello {{.Person}},

somebody, probably you, has asked for a new password of {{.Name}}.
On this page you can set it, once, within {{.Minutes}} minutes:

{{.Link}}

If it was not you, do nothing: your password stays as it is.
The request came from the address {{.Address}}.
`

// A letter is what a template of mails can use.
type letter struct {
	Link    string
	Person  string // what the entry calls the person
	Name    string // DN
	Minutes int    // for which the link works
	Address string // from which somebody has asked
}

// A Mail sends links to set passwords.
type Mail struct {
	o            MailOptions
	host         string // of the relay
	address      string
	smtps, local bool
	from         *mail.Address
	hello        string // by which the relay knows this server
	template     *template.Template
}

// A MailError is a mistake in an option.
type MailError struct {
	Option string // the name of the field
	Text   string
}

func (e *MailError) Error() string { return e.Text }

// NewMail returns what sends mails. Its error is a *MailError.
func NewMail(o MailOptions) (*Mail, error) {
	m := &Mail{o: o}
	if m.o.Now == nil {
		m.o.Now = time.Now
	}
	if m.o.Dial == nil {
		m.o.Dial = (&net.Dialer{}).DialContext
	}
	m.address, m.smtps = strings.CutPrefix(o.Relay, "smtps://")
	var port string
	var err error
	if m.host, port, err = net.SplitHostPort(m.address); err != nil || m.host == "" || port == "" {
		return nil, &MailError{"Relay", fmt.Sprintf("%q is not HOST:PORT or smtps://HOST:PORT", o.Relay)}
	}
	m.local = web.IsLoopback(m.host)
	if m.from, err = mail.ParseAddress(o.From); err != nil || mailbox(m.from.Address) != nil {
		return nil, &MailError{"From", fmt.Sprintf("%q is not a mail address", o.From)}
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "https" && (u.Scheme != "http" || !web.IsLoopback(u.Hostname())) || o.URL != u.Scheme+"://"+u.Host || u.Hostname() == "" {
		return nil, &MailError{"URL", fmt.Sprintf("%q is not https://HOST or https://HOST:PORT; http is for loopback addresses only", o.URL)}
	}
	if m.hello = u.Hostname(); net.ParseIP(m.hello) != nil {
		m.hello = "[" + m.hello + "]"
	}
	text := o.Template
	if text == "" {
		text = DefaultMail
	}
	if m.template, err = template.New("mail").Parse(text); err == nil {
		err = m.try()
	}
	if err != nil {
		return nil, &MailError{"Template", err.Error()}
	}
	return m, nil
}

// try makes a mail, as a test of the template.
func (m *Mail) try() error {
	l := letter{Link: "https://localhost/link", Person: "Ann", Name: "cn=ann", Address: "192.0.2.1"}
	_, body, err := m.fill(l)
	if err == nil && !strings.Contains(body, l.Link) {
		err = errors.New("the template has no {{.Link}}")
	}
	return err
}

// fill returns the subject and the text of a mail.
func (m *Mail) fill(l letter) (subject, body string, err error) {
	l.Person, l.Name = oneLine(l.Person), oneLine(l.Name)
	var b strings.Builder
	if err := m.template.Execute(&b, l); err != nil {
		return "", "", err
	}
	head, body, _ := strings.Cut(strings.ReplaceAll(b.String(), "\r\n", "\n"), "\n\n")
	subject, ok := strings.CutPrefix(head, "Subject: ")
	if !ok || strings.ContainsFunc(subject, unicode.IsControl) {
		return "", "", errors.New("the template must begin with a line 'Subject: TEXT' and an empty line")
	}
	return subject, body, nil
}

// oneLine returns a text without what could begin a new line.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}

// mailbox returns an error unless a value is one mail address and nothing else.
func mailbox(value string) error {
	a, err := mail.ParseAddress(value)
	if err != nil || a.Address != value || len(value) > 254 || strings.ContainsFunc(value, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }) {
		return fmt.Errorf("the value %q of mail is not one mail address", value)
	}
	return nil
}

// message returns a mail to an address that mailbox accepts.
func (m *Mail) message(to string, l letter) ([]byte, error) {
	subject, body, err := m.fill(l)
	if err != nil {
		return nil, err
	}
	_, domain, _ := strings.Cut(m.from.Address, "@")
	var b bytes.Buffer
	for _, h := range [][2]string{
		{"From", m.from.String()}, {"To", to}, {"Subject", mime.QEncoding.Encode("utf-8", subject)},
		{"Date", m.o.Now().Format(time.RFC1123Z)}, {"Message-ID", "<" + rand.Text() + "@" + domain + ">"},
		{"Auto-Submitted", "auto-generated"}, {"MIME-Version", "1.0"},
		{"Content-Type", "text/plain; charset=utf-8"}, {"Content-Transfer-Encoding", "quoted-printable"},
	} {
		fmt.Fprintf(&b, "%s: %s\r\n", h[0], h[1])
	}
	b.WriteString("\r\n")
	w := quotedprintable.NewWriter(&b)
	_, err = w.Write([]byte(strings.ReplaceAll(body, "\n", "\r\n")))
	return b.Bytes(), errors.Join(err, w.Close())
}

// send sends a mail. It ends at the latest when ctx ends.
func (m *Mail) send(ctx context.Context, to string, message []byte) (err error) {
	conn, err := m.o.Dial(ctx, "tcp", m.address)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if m.smtps {
		conn = tls.Client(conn, m.secure())
	}
	c, err := smtp.NewClient(conn, m.host)
	if err == nil {
		err = m.talk(c, to, message)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("the relay took too long: %w", ctx.Err())
	}
	if c != nil {
		c.Quit() // what was refused or taken stays so, whatever the relay says now
	}
	return err
}

func (m *Mail) secure() *tls.Config { return &tls.Config{ServerName: m.host, RootCAs: m.o.CAs} }

// talk sends a mail on a connection that has just begun.
func (m *Mail) talk(c *smtp.Client, to string, message []byte) error {
	if err := c.Hello(m.hello); err != nil {
		return err
	}
	if err := m.protect(c); err != nil {
		return err
	}
	// Client.Mail would ask for SMTPUTF8 whenever the relay offers it, and then servers behind
	// the relay that do not know it might refuse the mail.
	extension := ""
	if strings.IndexFunc(to, func(r rune) bool { return r > unicode.MaxASCII }) >= 0 {
		if has, _ := c.Extension("SMTPUTF8"); !has {
			return errors.New("the address has letters beyond ASCII, which the relay does not take: it offers no SMTPUTF8")
		}
		extension = " SMTPUTF8"
	}
	if err := command(c, "MAIL FROM:<%s>%s", m.from.Address, extension); err != nil {
		return fmt.Errorf("the sender %s: %w", m.from.Address, err)
	}
	if err := c.Rcpt(to); err != nil {
		return err
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(message); err != nil {
		return err
	}
	return w.Close() // the relay's answer to the mail
}

// command sends a command, which must not contain more than one line, and reads its answer.
func command(c *smtp.Client, format string, args ...any) error {
	id, err := c.Text.Cmd(format, args...)
	if err != nil {
		return err
	}
	c.Text.StartResponse(id)
	defer c.Text.EndResponse(id)
	_, _, err = c.Text.ReadResponse(250)
	return err
}

// protect begins TLS, and logs in.
func (m *Mail) protect(c *smtp.Client) error {
	if !m.smtps && !m.local {
		if has, _ := c.Extension("STARTTLS"); !has {
			return errors.New("the relay offers no STARTTLS, and links are not sent in clear: let it offer STARTTLS, or use smtps://")
		}
		if err := c.StartTLS(m.secure()); err != nil {
			return fmt.Errorf("STARTTLS: %w", err)
		}
	}
	if m.o.User == "" {
		return nil
	}
	if _, how := c.Extension("AUTH"); !slices.Contains(strings.Fields(how), "PLAIN") {
		return fmt.Errorf("the relay offers no AUTH PLAIN for its user %s", m.o.User)
	}
	if err := c.Auth(smtp.PlainAuth("", m.o.User, m.o.Password, m.host)); err != nil {
		return fmt.Errorf("the relay's user %s: %w", m.o.User, err)
	}
	return nil
}
