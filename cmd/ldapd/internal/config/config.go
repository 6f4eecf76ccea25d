// Package config reads the configuration of one server process from four layers: the
// defaults, a YAML file, the environment (LDAPD_LIMITS_SIZE for limits.size), and flags
// (--limits-size). A later layer overrides an earlier one.
//
// [Keys] lists all settings. [Load] returns a [Config], or an [Error] that names the line of
// the file, the variable or the flag that is wrong. Settings that all servers of a directory
// share (naming contexts, indexes, ...) are kept in the store instead.
package config

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/knadh/koanf/v2"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/store/archive"
	"github.com/seed-4dac0d86/ldapd/store/hbase"
)

// A Config is a configuration in force.
type Config struct {
	Store  string
	Listen []string
	Suffix []string
	// Profile names the access rules that a new store is made with.
	Profile string
	// Policy names the password policy that a new store is made with: "default" or "none".
	Policy string
	// Referral lists the servers that clients are referred to for names outside all
	// naming contexts.
	Referral []string
	// AttributeOptions are the options recognized in addition to the registered ones.
	AttributeOptions []string
	Admin            Admin
	TLS              TLS
	Proxies          []netip.Prefix
	Passwords        Passwords
	SASL             SASL
	Limits           Limits
	Cache            int64 // in bytes; 0 means the partition's default
	Lease            time.Duration
	Drift            time.Duration
	Retention        time.Duration // zero means forever
	BranchAge        time.Duration // zero means that no branch is parked
	Compaction       time.Duration // zero means only on demand
	Seal             string        // the file with keys that seal secrets in HBase; "": they are not sealed
	HBase            HBase
	Archive          Archive
	Standby          Standby
	LogLevel         string // debug, info, warn, error
	LogFormat        string // text, json
	Access           Access
	Slow             time.Duration // zero means that no operation is logged as slow
	GracePeriod      time.Duration
	Status           string // URL of the status listener, or "" for none
	Console          Console
	Trace            Trace
	People           People
	SCIM             []string // NAME=ATTRIBUTE: see scim.Options
	AcceptClock      bool     // set by a flag, for one run; not a key
	Test             Test

	settings []Setting
}

// Admin describes the administrator. If Password is empty, there is no administrator.
type Admin struct {
	DN        string
	Password  string   // the form in which the password is stored
	ScramKeys [][]byte // RFC 5803
	File      string   // the file with Password and ScramKeys, or "" for none
}

// Access describes where the access log is written. If File is empty, no log is
// written.
type Access struct {
	File string // "-" means standard error
	Size int64  // the size at which a file is full, in bytes
	Keep int    // number of older files to keep; 0 means all
}

// TLS has the settings of TLS. If Certificate is empty, TLS is not offered.
type TLS struct {
	Certificate, Key, ClientCA, ClientCRL string // files
	Clients                               string // none, request, require
	MinVersion                            string // 1.2, 1.3
	// SelfSigned says that serve makes the files Certificate and Key if they are missing.
	SelfSigned bool
}

// SelfSigned is the value of tls.certificate for a certificate that serve makes beside the store.
const SelfSigned = "self-signed"

// Trace describes where traces are sent. If Endpoint is empty, nothing is traced.
type Trace struct {
	Endpoint string  // without a slash at its end
	Ratio    float64 // share of operations that are traced, from 0 to 1
}

// Console describes the pages for administrators and people. If Listen is empty, there are none.
type Console struct {
	Listen        []string // http://HOST:PORT, https://HOST:PORT
	Names         []string // hosts that clients may name besides
	Idle, Session time.Duration
	Reset         Reset
}

// Reset describes how people get links to set passwords that they have forgotten. If Relay is empty, they do not.
type Reset struct {
	Relay                      string // HOST:PORT or smtps://HOST:PORT
	CA, PasswordFile, Template string // files
	User, From, URL            string
}

// Archive describes a second place for the data of an embedded store. If Place is nil,
// there is no archive.
type Archive struct {
	Place            archive.Place
	Seal             archive.Seal
	Every, Lag, Keep time.Duration
	Drill            time.Duration // the interval of restore drills; 0 means no drills
	Identity         string        // the file with the identity that opens the archive
}

// Standby describes the server of which this one is a standby. If From is nil, this server
// is no standby.
type Standby struct {
	From    archive.Place // archive of the primary
	Primary []string      // URLs of the primary
}

// Test has settings that only tests use.
type Test struct {
	InFlight time.Duration // 0 means the store's default
	Clock    time.Duration // offset added to the clock
}

// Limits are the limits for clients.
type Limits struct {
	PerUser     // for users to whom no rule applies, except the administrator
	Rules       []LimitRule
	MaxPDU      int
	MaxUnbound  int   // largest request before a bind
	Memory      int64 // 0 means no limit
	Connections int
	PerAddress  int // connections from one address; 0 means no limit
	Outstanding int
	Persistent  int           // persistent searches
	Idle        time.Duration // for this and the durations below, 0 means never
	Unbound     time.Duration
	Handshake   time.Duration
	KeepAlive   time.Duration
	Write       time.Duration

	Transactions Transactions
}

// A Setting is one key's value and its origin.
type Setting struct {
	Key    Key
	Values []string // as written in the layer; a list may have several, any other key has one
	Origin string   // "default", "FILE:LINE", "LDAPD_...", "--..."
}

// An Error is a mistake in the configuration.
type Error struct {
	Where string // the Origin of a Setting, the path of a file, or ""
	Text  string
}

func (e *Error) Error() string {
	if e.Where == "" {
		return e.Text
	}
	return e.Where + ": " + e.Text
}

// Sources are the places from which Load reads a configuration.
type Sources struct {
	File  string              // "" means no file
	Env   []string            // in the form of os.Environ
	Flags map[string][]string // the flags given, by key
}

// Load reads all layers and checks every value. Its error is the first mistake.
func Load(s Sources) (*Config, error) {
	c, mistakes := Check(s)
	if len(mistakes) > 0 {
		return c, mistakes[0]
	}
	return c, nil
}

// Check is like Load, but returns all mistakes. The Config contains the values that could
// be read.
func Check(s Sources) (*Config, []*Error) {
	r := &reader{ko: koanf.New("."), origins: map[string]string{}}
	r.add(defaults(), nil)
	if s.File != "" {
		r.add(readFile(s.File))
	}
	r.add(readEnv(s.Env))
	r.add(flags(s.Flags), nil)
	return r.config(), r.mistakes
}

// A reader holds the merged layers and the origin of each key's value. The reader's
// methods add the errors that they find to mistakes.
type reader struct {
	ko       *koanf.Koanf
	origins  map[string]string
	mistakes []*Error
}

func (r *reader) add(l layer, mistakes []*Error) {
	r.mistakes = append(r.mistakes, mistakes...)
	for _, v := range l {
		r.origins[v.key] = v.origin
	}
	if err := r.ko.Load(l, nil); err != nil {
		r.mistakes = append(r.mistakes, &Error{Text: err.Error()})
	}
}

func (r *reader) config() *Config {
	c := &Config{
		Store:            r.text("store"),
		Listen:           r.list("listen", checkURL),
		Suffix:           r.list("suffix", checkDN),
		Profile:          r.oneOf("access", acl.Profiles...),
		Policy:           r.oneOf("password-policy", "default", "none"),
		Referral:         r.list("referral", checkServer),
		AttributeOptions: r.list("attribute-options", checkOption),
		Admin:            r.admin(),
		TLS:              r.tls(),
		Proxies:          r.networks("proxies"),
		Passwords:        r.passwords(),
		SASL:             r.sasl(),
		Cache:            r.size("cache"),
		Lease:            r.duration("lease"),
		Drift:            r.duration("drift"),
		Retention:        r.duration("retention"),
		BranchAge:        r.duration("branches.age"),
		Compaction:       r.duration("compaction"),
		Seal:             r.seal(),
		HBase:            r.hbase(),
		Archive:          r.archive(),
		Standby:          r.standby(),
		LogLevel:         r.oneOf("log.level", "debug", "info", "warn", "error"),
		LogFormat:        r.oneOf("log.format", "text", "json"),
		Access: Access{
			File: r.text("log.access"),
			Size: r.size("log.access-size"),
			Keep: r.count("log.access-keep"),
		},
		Slow:        r.duration("log.slow"),
		Status:      r.statusURL("status.listen"),
		Console:     r.console(),
		Trace:       r.traces(),
		GracePeriod: r.duration("grace-period"),
		People:      r.people(),
		SCIM:        strings.Fields(r.text("scim.attributes")),
		Test:        Test{InFlight: r.duration("test.in-flight"), Clock: r.offset("test.clock")},
		Limits: Limits{
			PerUser:     r.perUser(),
			Rules:       r.limitRules("limits.rules"),
			MaxPDU:      int(r.size("limits.max-pdu")),
			MaxUnbound:  int(r.size("limits.max-pdu-unbound")),
			Memory:      r.size("limits.memory"),
			Connections: r.count("limits.connections"),
			Outstanding: r.count("limits.outstanding"),
			Persistent:  r.count("limits.persistent"),
			PerAddress:  r.count("limits.connections-per-address"),
			Transactions: Transactions{
				Open:       r.count("limits.transactions"),
				Operations: r.count("limits.transaction-operations"),
				Memory:     r.size("limits.transaction-memory"),
				Idle:       r.duration("limits.transaction-idle"),
			},
			Idle:      r.duration("limits.idle"),
			Unbound:   r.duration("limits.unbound"),
			Handshake: r.duration("limits.handshake"),
			KeepAlive: r.duration("limits.keep-alive"),
			Write:     r.duration("limits.write"),
		},
	}
	if l := &c.Limits; l.Memory > 0 && l.Memory < int64(l.MaxPDU) {
		r.fail("limits.memory", "%d is less than limits.max-pdu (%d): a request of that size could not be served", l.Memory, l.MaxPDU)
	}
	for _, k := range Keys {
		if k.Test {
			continue
		}
		c.settings = append(c.settings, Setting{k, r.values(k), r.origins[k.Name]})
	}
	return c
}

// admin reads the administrator's password from the hash or the file that is
// configured.
func (r *reader) admin() Admin {
	a := Admin{DN: r.text("admin.dn"), Password: r.text("admin.password-hash")}
	clear := r.text("admin.password")
	if err := checkDN(a.DN); err != nil {
		r.fail("admin.dn", "%v", err)
	}
	file := r.text("admin.password-file")
	switch {
	case clear != "" && (file != "" || a.Password != ""):
		r.fail("admin.password", "admin.password-file or admin.password-hash is given too: keep one of them")
	case clear != "":
		a.Password = clear
	case file != "" && a.Password != "":
		r.fail("admin.password-file", "admin.password-hash is given too: keep one of them")
	case file != "":
		r.passwordFile(&a, file)
	case a.Password != "" && !auth.Hashed([]byte(a.Password)):
		r.fail("admin.password-hash", "not a hashed password: put there what `ldapd passwd` prints")
	}
	return a
}

// passwordFile parses the output of `ldapd passwd`: a line with the password, then a
// line for each SCRAM key.
func (r *reader) passwordFile(a *Admin, file string) {
	b, err := os.ReadFile(file)
	if err != nil {
		r.fail("admin.password-file", "%v", err)
		return
	}
	a.File = file
	lines := strings.Split(strings.ReplaceAll(string(b), "\r\n", "\n"), "\n")
	if a.Password = lines[0]; a.Password == "" {
		r.fail("admin.password-file", "the first line of %s is empty: put there what `ldapd passwd` prints", file)
	}
	for i, line := range lines[1:] {
		switch {
		case line == "":
		case !auth.IsScramKey([]byte(line)):
			r.fail("admin.password-file", "line %d of %s is no key of SCRAM: put there what `ldapd passwd --scram` prints", i+2, file)
		default:
			a.ScramKeys = append(a.ScramKeys, []byte(line))
		}
	}
}

// tls reads the settings of TLS, but not the files that they name.
func (r *reader) tls() TLS {
	t := TLS{
		Certificate: r.text("tls.certificate"),
		Key:         r.text("tls.key"),
		ClientCA:    r.text("tls.client-ca"),
		ClientCRL:   r.text("tls.client-crl"),
		Clients:     r.oneOf("tls.client-certificates", "none", "request", "require"),
		MinVersion:  r.oneOf("tls.min-version", "1.2", "1.3"),
	}
	if t.Certificate == SelfSigned && t.Key == "" {
		store := strings.TrimRight(r.text("store"), "/")
		if store == "" || hbase.IsURL(store) {
			r.fail("tls.certificate", "a %s certificate is kept beside an embedded store: name a file", SelfSigned)
		}
		t.Certificate, t.Key, t.SelfSigned = store+".pem", store+".key", true
	}
	isSecure := func(url string) bool { return strings.HasPrefix(url, "ldaps:") }
	switch {
	case t.Certificate != "" && t.Key == "":
		r.fail("tls.certificate", "tls.key is missing")
	case t.Certificate == "" && t.Key != "":
		r.fail("tls.key", "tls.certificate is missing")
	case t.Certificate == "" && t.Clients != "none":
		r.fail("tls.client-certificates", "tls.certificate is missing")
	case t.Clients != "none" && t.ClientCA == "":
		r.fail("tls.client-certificates", "tls.client-ca is missing")
	case t.Clients == "none" && t.ClientCA != "":
		r.fail("tls.client-ca", "tls.client-certificates is none: no certificate is asked for")
	case t.Clients == "none" && t.ClientCRL != "":
		r.fail("tls.client-crl", "tls.client-certificates is none: no certificate is asked for")
	case t.Certificate == "" && slices.ContainsFunc(r.ko.Strings("listen"), isSecure):
		r.fail("listen", "ldaps needs tls.certificate and tls.key")
	}
	return t
}

func (r *reader) fail(key, format string, args ...any) {
	mistake := Error{r.origins[key], key + ": " + fmt.Sprintf(format, args...)}
	// The same value may be read several times, but its mistake is recorded once.
	if !slices.ContainsFunc(r.mistakes, func(e *Error) bool { return *e == mistake }) {
		r.mistakes = append(r.mistakes, &mistake)
	}
}

// Print writes the configuration in force as YAML, with the origin of every value.
func (c *Config) Print(w io.Writer) error {
	group := ""
	for _, s := range c.settings {
		name := s.Key.Name
		indent := ""
		if g, rest, ok := strings.Cut(name, "."); ok {
			if g != group {
				if _, err := fmt.Fprintf(w, "%s:\n", g); err != nil {
					return err
				}
			}
			group, name, indent = g, rest, "  "
		} else {
			group = ""
		}
		if _, err := fmt.Fprintf(w, "%-44s # %s\n", indent+name+": "+s.yaml(), s.Origin); err != nil {
			return err
		}
	}
	return nil
}

// yaml returns the value as YAML. For a password's hash it returns only the scheme, and for a password
// in clear nothing.
func (s Setting) yaml() string {
	items := make([]string, len(s.Values))
	for i, v := range s.Values {
		if s.Key.Secret && v != "" {
			scheme := "" // of a password in clear
			if auth.Hashed([]byte(v)) {
				scheme, _, _ = strings.Cut(v, "}")
				scheme += "}"
			}
			v = scheme + "..."
		}
		items[i] = quote(v)
	}
	if s.Key.List {
		return "[" + strings.Join(items, ", ") + "]"
	}
	return items[0]
}

func quote(s string) string {
	if s != "" && !strings.ContainsAny(s, ": {}[],&*#?|-<>=!%@`'\"\\") {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// Changed returns the names of the keys whose values differ. reload contains the keys
// that a running server reads again, and restart the keys that need a restart.
func Changed(from, to *Config) (reload, restart []string) {
	for i, s := range to.settings {
		switch {
		case slices.Equal(s.Values, from.settings[i].Values):
		case s.Key.Reload:
			reload = append(reload, s.Key.Name)
		default:
			restart = append(restart, s.Key.Name)
		}
	}
	return reload, restart
}

// Origin returns where a key's value came from.
func (c *Config) Origin(key string) string {
	for _, s := range c.settings {
		if s.Key.Name == key {
			return s.Origin
		}
	}
	return ""
}
