package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
)

// manPages returns the pages, by the names of their files.
func manPages(root *cobra.Command, date string) map[string]string {
	pages := map[string]string{"ldapd.conf.5": manOfKeys(date)}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		pages[manName(c)+".8"] = manOfCommand(c, date)
		for _, sub := range shown(c) {
			visit(sub)
		}
	}
	visit(root)
	return pages
}

func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// shown returns the subcommands that have pages.
func shown(c *cobra.Command) (subs []*cobra.Command) {
	for _, sub := range c.Commands() {
		if !sub.Hidden && sub.Name() != "help" && sub.Name() != "completion" {
			subs = append(subs, sub)
		}
	}
	return subs
}

func manOfCommand(c *cobra.Command, date string) string {
	var p manPage
	p.begin(manName(c), "8", date, c.Short)
	p.heading("SYNOPSIS")
	for usage := range strings.Lines(c.UseLine()) {
		p.command(strings.TrimSpace(usage))
	}
	p.heading("DESCRIPTION")
	if p.text(c.Long); c.Long == "" {
		p.text(c.Short + ".")
	}
	if subs := shown(c); len(subs) > 0 {
		p.heading("COMMANDS")
		for _, sub := range subs {
			p.item(roff(sub.Name()), roff(sub.Short))
		}
	}
	c.InheritedFlags() // adds the flags of the parent commands
	p.flags("OPTIONS", c.LocalFlags())
	p.flags("GLOBAL OPTIONS", c.InheritedFlags())
	if c.Example != "" {
		p.heading("EXAMPLES")
		p.example(c.Example)
	}
	p.heading("EXIT STATUS")
	p.text("0: done. 1: a finding or a failure. 2: wrong usage or configuration.")
	p.heading("SEE ALSO")
	also := []string{`\fBldapd\fR(8)`, `\fBldapd.conf\fR(5)`}
	for _, sub := range shown(c) {
		also = append(also, `\fB`+roff(manName(sub))+`\fR(8)`)
	}
	p.WriteString(strings.Join(also, ",\n") + "\n")
	return p.String()
}

// manOfKeys returns the page of the configuration.
func manOfKeys(date string) string {
	var p manPage
	p.begin("ldapd.conf", "5", date, "configuration of ldapd, in YAML")
	p.heading("DESCRIPTION")
	p.text(`A configuration is read from the file of --config, from the environment, and from flags;
later ones win. Below, limits.size is size below limits in the file, the variable
LDAPD_LIMITS_SIZE and the flag --limits-size. Items of a list in a variable are separated by
semicolons. An unknown key is an error.

ldapd config prints what is in force and where each value comes from, ldapd config check
reports every problem.`)
	p.heading("KEYS")
	for _, k := range config.Keys {
		if k.Test {
			continue
		}
		text := roff(strings.ReplaceAll(k.Help, "`", "")) + "."
		if k.List {
			text += " A list."
		}
		if k.Default != "" {
			text += " Default: " + roff(k.Default) + "."
		}
		if k.Reload {
			text += " Read again at SIGHUP."
		}
		p.item(roff(k.Name), text)
	}
	p.heading("FILES")
	p.item(roff(packaged), "The configuration of the service that a package installs.")
	p.heading("EXAMPLES")
	p.example(`store: /var/lib/ldapd/store
listen: [ "ldap://:389", "ldaps://:636" ]
admin:
  dn: cn=admin,dc=example,dc=com
  password-file: /etc/ldapd/admin.hash
tls:
  certificate: /etc/ldapd/server.pem
  key: /etc/ldapd/server.key`)
	p.heading("SEE ALSO")
	p.WriteString("\\fBldapd\\fR(8),\n\\fBldapd\\-init\\fR(8),\n\\fBldapd\\-config\\-check\\fR(8)\n")
	return p.String()
}

// A manPage is a page in the language of man(7).
type manPage struct{ strings.Builder }

func (p *manPage) begin(name, section, date, short string) {
	fmt.Fprintf(p, ".TH %s %s \"%s\" ldapd \"LDAP directory server\"\n.SH NAME\n%s \\- %s\n", strings.ToUpper(roff(name)), section, date, roff(name), roff(short))
}

func (p *manPage) heading(name string) { fmt.Fprintf(p, ".SH %s\n", name) }

func (p *manPage) command(usage string) { fmt.Fprintf(p, "\\fB%s\\fR\n", roff(usage)) }

func (p *manPage) item(name, text string) { fmt.Fprintf(p, ".TP\n\\fB%s\\fR\n%s\n", name, text) }

// text writes paragraphs. Lines of indented paragraphs are not filled.
func (p *manPage) text(s string) {
	for i, paragraph := range strings.Split(strings.Trim(s, "\n"), "\n\n") {
		switch {
		case strings.HasPrefix(paragraph, " "):
			if i > 0 {
				p.WriteString(".PP\n")
			}
			p.example(paragraph)
			continue
		case i > 0:
			p.WriteString(".PP\n")
		}
		for line := range strings.Lines(paragraph) {
			p.WriteString(roff(strings.TrimSpace(line)) + "\n")
		}
	}
}

// example writes lines indented and not filled.
func (p *manPage) example(s string) {
	p.WriteString(".RS 2\n.nf\n")
	for line := range strings.Lines(strings.Trim(s, "\n")) {
		p.WriteString(roff(strings.TrimPrefix(strings.TrimRight(line, "\n"), "  ")) + "\n")
	}
	p.WriteString(".fi\n.RE\n")
}

func (p *manPage) flags(heading string, flags *pflag.FlagSet) {
	begun := false
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		if !begun {
			p.heading(heading)
			begun = true
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if value != "" {
			name += " " + value
		}
		p.item(roff(name), roff(usage))
	})
}

// roff escapes a text that stands at the beginning of a line.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", "\\(ga", "^", `\(ha`, "~", `\(ti`).Replace(s)
	if strings.HasPrefix(s, ".") {
		s = `\&` + s
	}
	return s
}
