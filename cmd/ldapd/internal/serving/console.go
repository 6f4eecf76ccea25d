package serving

import (
	"context"
	"log/slog"

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
	console.New(s.front.console, s.directory).Register()
	s.front.console.Serve(s.directory)
	return each(func() {
		grace, cancel := context.WithTimeout(context.Background(), min(s.config.GracePeriod, shortGrace))
		defer cancel()
		s.front.console.Close(grace)
	}), nil
}
