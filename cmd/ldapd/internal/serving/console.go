package serving

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"strings"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/web"
	"github.com/seed-4dac0d86/ldapd/web/console"
	"github.com/seed-4dac0d86/ldapd/web/scim"
)

// openConsole opens the listeners of the pages, if any are configured.
func (f *listeners) openConsole(c *config.Config, log *slog.Logger) (err error) {
	if len(c.Console.Listen) == 0 {
		return nil
	}
	o := web.Options{Listen: c.Console.Listen, Names: c.Console.Names, Proxies: c.Proxies, Idle: c.Console.Idle, Session: c.Console.Session, Log: log}
	if f.files != nil {
		o.TLS = f.files.Config
	}
	if f.console, err = web.Open(o); err != nil {
		return &config.Error{Where: c.Origin("console.listen"), Text: "console.listen: " + err.Error()}
	}
	return nil
}

// consoleURLs returns the URLs of the pages.
func (f *listeners) consoleURLs() []string {
	if f.console == nil {
		return nil
	}
	return f.console.URLs()
}

// showConsole serves the pages and SCIM until it is stopped.
func (s *serving) showConsole(context.Context) (stop func() error, err error) {
	if s.front.console == nil {
		return each(), nil
	}
	users, err := SCIM(s.directory, s.config, s.front.console.Channel)
	if err != nil {
		return nil, err
	}
	s.front.console.Handle(scim.Prefix+"/", users)
	pages, stopMails := console.New(s.front.console, s.directory), func() {}
	pages.Register()
	if m, err := ResetMail(s.config); err != nil {
		return nil, err
	} else if m != nil {
		stopMails = pages.OfferReset(m, s.log)
	}
	s.front.console.Serve(s.directory)
	return each(func() {
		defer stopMails()
		grace, cancel := context.WithTimeout(context.Background(), min(s.config.GracePeriod, shortGrace))
		defer cancel()
		s.front.console.Close(grace)
	}), nil
}

// ResetMail returns what sends links to set passwords, or nil if nobody gets any.
func ResetMail(c *config.Config) (*console.Mail, error) {
	x := &c.Console.Reset
	if x.Relay == "" {
		return nil, nil
	}
	o := console.MailOptions{Relay: x.Relay, User: x.User, From: x.From, URL: x.URL}
	read := func(key, file string) (text []byte, err error) {
		if file != "" {
			text, err = os.ReadFile(file)
		}
		if err != nil {
			err = resetError(c, key, err.Error())
		}
		return text, err
	}
	ca, err := read("relay-ca", x.CA)
	if err != nil {
		return nil, err
	}
	if x.CA != "" {
		if o.CAs = x509.NewCertPool(); !o.CAs.AppendCertsFromPEM(ca) {
			return nil, resetError(c, "relay-ca", x.CA+" has no certificate in PEM")
		}
	}
	password, err := read("password-file", x.PasswordFile)
	if err != nil {
		return nil, err
	}
	line, _, _ := strings.Cut(string(password), "\n")
	o.Password = strings.TrimSuffix(line, "\r")
	text, err := read("template", x.Template)
	if err != nil {
		return nil, err
	}
	o.Template = string(text)
	m, err := console.NewMail(o)
	var mistake *console.MailError
	if errors.As(err, &mistake) {
		return nil, resetError(c, strings.ToLower(mistake.Option), mistake.Text)
	}
	return m, err
}

// resetError returns a mistake in the value of a key console.reset.NAME.
func resetError(c *config.Config, name, text string) error {
	key := "console.reset." + name
	return &config.Error{Where: c.Origin(key), Text: key + ": " + text}
}
