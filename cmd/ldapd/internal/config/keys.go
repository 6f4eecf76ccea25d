package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/auth/bearer"
	"github.com/seed-4dac0d86/ldapd/dn"
)

// A Key is one configuration setting.
type Key struct {
	Name    string
	Default string // the items of a list are separated by semicolons
	Help    string
	List    bool
	Secret  bool // a password's hash: only its scheme may be printed
	Reload  bool // the value is read again at SIGHUP; other keys need a restart
	// Test marks a key that only its flag can set. No help shows the flag, so that
	// nobody uses it by accident.
	Test bool
}

// Flag returns the name of the key's flag, without leading dashes.
func (k Key) Flag() string { return strings.ReplaceAll(k.Name, ".", "-") }

// Env returns the name of the key's environment variable.
func (k Key) Env() string {
	return "LDAPD_" + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(k.Name))
}

// Keys lists all configuration settings.
var Keys = []Key{
	{Name: "store", Help: "`STORE`: a folder, hbase://ZK1,ZK2:2181/PREFIX, or hbase+rpc://HOST1,HOST2:16020/PREFIX"},
	{Name: "listen", List: true, Default: "ldap://127.0.0.1:3890", Help: "`URL` to serve: ldap://HOST:PORT, ldaps://HOST:PORT or ldapi:///PATH"},
	{Name: "suffix", Reload: true, List: true, Help: "`DN` of a naming context, added to the store if it is not there"},
	{Name: "access", Default: "staff", Help: "`PROFILE` of the access rules of a new store: staff, private, public, services or open (see ldapd access profile)"},
	{Name: "password-policy", Default: "default", Help: "`POLICY` for passwords in a new store: default (the entry cn=config is the policy, see docs/accounts.md) or none"},
	{Name: "referral", Reload: true, List: true, Help: "`URL`, ldap://HOST or ldaps://HOST:PORT, of a server that clients are referred to for names outside all naming contexts"},
	{Name: "admin.dn", Reload: true, Default: "cn=admin", Help: "`DN` of the administrator, who needs no entry"},
	{Name: "admin.password", Reload: true, Secret: true, Help: "the administrator's `PASSWORD` or its hash, for containers that get it in LDAPD_ADMIN_PASSWORD; elsewhere use a file"},
	{Name: "admin.password-hash", Reload: true, Secret: true, Help: "the administrator's password as `HASH` (see ldapd passwd)"},
	{Name: "admin.password-file", Reload: true, Help: "`FILE` whose first line is the administrator's password or its hash; further lines are SCRAM keys"},
	{Name: "tls.certificate", Help: "`FILE` with the server's certificate, followed by the intermediate certificates, in PEM; makes StartTLS and ldaps available. self-signed makes one beside an embedded store (STORE.pem, STORE.key), which clients must trust"},
	{Name: "tls.key", Help: "`FILE` with the certificate's key, in PEM"},
	{Name: "tls.min-version", Default: "1.2", Help: "oldest `VERSION` of TLS to accept: 1.2 or 1.3"},
	{Name: "tls.client-certificates", Default: "none", Help: "`WHAT` is asked of clients: none, request (a valid certificate or none) or require"},
	{Name: "tls.client-ca", Help: "`FILE` with the CAs that sign clients' certificates, in PEM"},
	{Name: "tls.client-crl", Help: "`FILE` with the revocation lists of these CAs, in PEM; a certificate is refused if there is no current list of its CA; read again when it changes"},
	{Name: "proxies", List: true, Help: "`NETWORK`, such as 10.0.0.0/8, whose LDAP connections begin with a PROXY header, and which alone may connect to the console over http, with X-Forwarded-For"},
	{Name: "passwords.require-tls", Reload: true, Default: "remote", Help: "`WHO` must use TLS or ldapi to send passwords in clear: remote (clients on other machines), true (everyone) or false (nobody)"},
	{Name: "passwords.known", Reload: true, Help: "`FILE` with the known passwords that the demand unlisted of password policies forbids (see ldapd known-passwords); read again when it changes"},
	{Name: "passwords.upgrade", Reload: true, Default: "false", Help: "`BOOL`: after a bind, store the password again if it is stored in clear, in a fast scheme or without SCRAM keys"},
	{Name: "passwords.parallel", Default: "0", Help: "slow `HASHES` that run at once, 0 for the number of CPUs minus one"},
	{Name: "sasl.mechanisms", Reload: true, List: true, Default: strings.Join(auth.DefaultMechanisms, ";"), Help: "SASL `MECHANISM` to offer where it works; a SCRAM mechanism also offers its -PLUS variant, and stores its keys with each new password"},
	{Name: "sasl.plain-in-clear", Reload: true, Default: "false", Help: "`BOOL`: offer PLAIN without TLS too"},
	{Name: "sasl.identity", Reload: true, List: true, Default: auth.DefaultRule, Help: "`RULE` that maps names to entries: PATTERN -> DN, PATTERN -> dn:DN (no entry needed) or PATTERN -> ldap:///BASE??SCOPE?FILTER; the first rule that matches is used"},
	{Name: "sasl.certificate-in-entry", Reload: true, Default: "false", Help: "`BOOL`: a client's certificate must be among the values of userCertificate of the entry that it names"},
	{Name: "sasl.keytab", Reload: true, Help: "`FILE` with keys of the principal ldap/HOST: Kerberos's mechanisms GSSAPI and GSS-SPNEGO are offered; read again when it changes"},
	{Name: "sasl.issuer", Reload: true, Help: "`URL` of the issuer of OAUTHBEARER tokens, which is their claim iss"},
	{Name: "sasl.issuer-audience", Reload: true, Help: "`NAME` that a token's claim aud must contain"},
	{Name: "sasl.issuer-keys", Reload: true, Help: "`FILE` with the issuer's public keys, a JSON Web Key Set; read again when it changes"},
	{Name: "sasl.issuer-claim", Reload: true, Default: "sub", Help: "`CLAIM` of a token that contains the user's name"},
	{Name: "sasl.issuer-algorithms", Reload: true, List: true, Default: strings.Join(bearer.DefaultAlgorithms, ";"), Help: "`ALGORITHM` that tokens may be signed with"},
	{Name: "limits.size", Reload: true, Default: "0", Help: "`ENTRIES` that a search may return, 0 for no limit"},
	{Name: "limits.time", Reload: true, Default: "1m", Help: "`TIME` that a search may take, 0 for no limit"},
	{Name: "limits.candidates", Reload: true, Default: "0", Help: "`ENTRIES` that a search may look at, 0 for no limit"},
	{Name: "limits.page", Reload: true, Default: "0", Help: "`ENTRIES` of a page of results or of a virtual list view, 0 for no limit"},
	{Name: "limits.sort-memory", Reload: true, Default: "64MiB", Help: "`BYTES` in which a search may be sorted, 0 for no limit"},
	{Name: "limits.rules", Reload: true, List: true, Default: "size=1000 candidates=100000 for anonymous", Help: "`RULE` with limits for some users, such as 'size=500 time=30s for anonymous'; the first rule that matches is used"},
	{Name: "limits.max-pdu", Reload: true, Default: "16MiB", Help: "largest request in `BYTES`"},
	{Name: "limits.max-pdu-unbound", Reload: true, Default: "256KiB", Help: "largest request in `BYTES` of a connection without a bound identity"},
	{Name: "limits.memory", Reload: true, Default: "256MiB", Help: "`BYTES` that the requests and answers of all clients may take together, a quarter of it for one connection, 0 for no limit"},
	{Name: "limits.connections", Reload: true, Default: "10000", Help: "`CONNECTIONS` served at once"},
	{Name: "limits.connections-per-address", Reload: true, Default: "0", Help: "`CONNECTIONS` served at once from one address, 0 for no limit"},
	{Name: "limits.outstanding", Reload: true, Default: "64", Help: "`OPERATIONS` that run at once on one connection"},
	{Name: "limits.persistent", Reload: true, Default: "16", Help: "persistent `SEARCHES` at once on one connection, in addition to the other operations, 0 for none"},
	{Name: "limits.transactions", Reload: true, Default: "4", Help: "LDAP `TRANSACTIONS` open at once on one connection, 0 for none"},
	{Name: "limits.transaction-operations", Reload: true, Default: "10000", Help: "`OPERATIONS` of one LDAP transaction"},
	{Name: "limits.transaction-memory", Reload: true, Default: "64MiB", Help: "`BYTES` that the operations of one LDAP transaction may take; all transactions of a server together may take four times as many"},
	{Name: "limits.transaction-idle", Reload: true, Default: "10m", Help: "`TIME` without an operation after which an LDAP transaction is aborted, 0 for never"},
	{Name: "limits.idle", Reload: true, Default: "1h", Help: "`TIME` after which a silent connection is closed, 0 for never"},
	{Name: "limits.unbound", Reload: true, Default: "0s", Help: "`TIME` that a connection may be without a bound identity, 0 for no limit"},
	{Name: "limits.handshake", Reload: true, Default: "10s", Help: "`TIME` that a TLS handshake or a PROXY header may take"},
	{Name: "limits.write", Reload: true, Default: "5m", Help: "`TIME` in which a client must accept 64 KiB of its answers, 0 for never; a tenth of it while more than 256 clients are slow"},
	{Name: "limits.keep-alive", Reload: true, Default: "1m", Help: "`TIME` of silence after which TCP probes the client, 0 for never"},
	{Name: "cache", Default: "0", Help: "`BYTES` of the cache: nine tenths for entries and names, a tenth for the embedded store's blocks; 0 for a quarter of the machine's memory"},
	{Name: "attribute-options", List: true, Help: "`OPTION` that attributes may have besides lang-..., binary and phonetic; with a hyphen at its end, all options that begin with it"},
	{Name: "lease", Default: "10s", Help: "`TIME` after which other servers of a shared store recover what a silent server left"},
	{Name: "drift", Default: "1m", Help: "`TIME` that this server's clock may be ahead of a shared store's clock before the server stops writing"},
	{Name: "retention", Default: "168h", Help: "`TIME` that the past stays readable, 0 for no limit; on HBase at least 1m"},
	{Name: "branches.age", Default: "720h", Help: "`TIME` after which a branch is parked (the past since its base is no longer kept for it), but not before retention; 0 for never"},
	{Name: "archive.to", Help: "`PLACE` to archive an embedded store at: a folder, or s3://ENDPOINT/BUCKET/PREFIX"},
	{Name: "archive.every", Default: "24h", Help: "`TIME` between two bases, the copies of the whole store at which restores begin"},
	{Name: "archive.lag", Default: "10s", Help: "`TIME` after which a commit is archived"},
	{Name: "archive.keep", Default: "720h", Help: "`TIME` for which any moment can be restored, 0 for no limit"},
	{Name: "archive.recipients", List: true, Help: "`RECIPIENT` (age1...) who can read the archive; the server cannot"},
	{Name: "archive.clear", Default: "false", Help: "`BOOL`: permit an archive in a bucket without recipients, although it contains password hashes"},
	{Name: "archive.drill", Default: "168h", Help: "`TIME` between two drills, which restore the archive and compare it with the store, 0 for none"},
	{Name: "archive.identity", Help: "`FILE` with the identity that reads a sealed archive, for drills and for a standby; without it the server runs no drills of a sealed archive"},
	{Name: "standby.from", Help: "`PLACE` of the archive of another server; this server is a standby of that server until it is promoted"},
	{Name: "standby.primary", Reload: true, List: true, Help: "`URL`, ldap://HOST or ldaps://HOST:PORT, of the server that clients are referred to for changes while this one is a standby"},
	{Name: "compaction", Default: "24h", Help: "least `TIME` between two major compactions of an HBase table, which free the space of removed data; 0 for none"},
	{Name: "secrets.seal", Help: "`FILE` with keys that seal passwords and other secrets before they are sent to HBase, a line each, as of openssl rand -base64 32: the first seals, all of them open; with plain as the first line, new values are not sealed"},
	{Name: "hbase.tls-ca", Help: "`FILE` with the CAs that sign the certificates of HBase's servers, in PEM, or system for those of the machine; connections to HBase then have TLS; read again when it changes"},
	{Name: "hbase.tls-certificate", Help: "`FILE` with the certificate that this server shows to HBase, followed by the intermediate certificates, in PEM; read again when it changes"},
	{Name: "hbase.tls-key", Help: "`FILE` with the key of hbase.tls-certificate, in PEM; read again when it changes"},
	{Name: "hbase.tls-server-name", Help: "`NAME` that the certificates of all of HBase's servers have; default the name of the host that is called"},
	{Name: "hbase.tls-zookeeper", Default: "false", Help: "`BOOL`: connections to ZooKeeper have this TLS too"},
	{Name: "hbase.kerberos-principal", Help: "`PRINCIPAL` of this server, such as ldapd/_HOST@EXAMPLE.COM, where _HOST is the machine's name; connections to HBase then have Kerberos, and never simple authentication"},
	{Name: "hbase.kerberos-keytab", Help: "`FILE` with the keys of hbase.kerberos-principal; read for each new ticket"},
	{Name: "hbase.kerberos-server-principal", Default: "hbase/_HOST", Help: "`PRINCIPAL` of HBase's servers, where _HOST is the name by which a server is called; without @REALM it is in the realm of hbase.kerberos-principal"},
	{Name: "hbase.kerberos-zookeeper-principal", Help: "`PRINCIPAL` of ZooKeeper's servers, such as zookeeper/_HOST, where _HOST is the name in the store's URL; connections to ZooKeeper then have Kerberos too"},
	{Name: "hbase.kerberos-config", Default: "/etc/krb5.conf", Help: "`FILE` that names the KDCs of realms; read for each new ticket"},
	{Name: "hbase.kerberos-protection", Default: "privacy", Help: "`WHAT` Kerberos does for each call: authentication (of the connection only), integrity or privacy; hbase.rpc.protection must contain it"},
	{Name: "grace-period", Default: "10s", Help: "`TIME` that running operations get when the server is stopped"},
	{Name: "people.base", Help: "`DN` below which 'ldapd user' and 'ldapd group' work; default the server's naming context, if it has one"},
	{Name: "people.users", Default: "ou=people", Help: "`NAME`, relative to people.base, of the entry below which 'ldapd user add' adds users"},
	{Name: "people.user-class", Default: "inetOrgPerson", Help: "`CLASSES` of a new user, separated by spaces"},
	{Name: "people.user-name", Default: "uid", Help: "`ATTRIBUTE` that names a user: the first component of the DN"},
	{Name: "people.groups", Default: "ou=groups", Help: "`NAME`, relative to people.base, of the entry below which 'ldapd group add' adds groups"},
	{Name: "people.group-class", Default: "groupOfNames", Help: "`CLASSES` of a new group, separated by spaces; one of them is groupOfNames, groupOfUniqueNames or posixGroup"},
	{Name: "people.services", Default: "ou=services", Help: "`NAME`, relative to people.base, of the entry below which 'ldapd user add --service' adds accounts"},
	{Name: "people.first-number", Default: "10000", Help: "smallest `NUMBER` that --posix gives to users and groups"},
	{Name: "people.home", Default: "/home/$1", Help: "`PATH` of the home directory of a POSIX user; $1 is the user's name"},
	{Name: "people.shell", Default: "/bin/bash", Help: "`PATH` of the shell of a POSIX user"},
	{Name: "scim.attributes", Help: "further `NAME=ATTRIBUTE` pairs, separated by spaces, that map attributes of SCIM users, such as costCenter=departmentNumber; without ATTRIBUTE, NAME is not served"},
	{Name: "log.level", Reload: true, Default: "info", Help: "`LEVEL`: debug, info, warn or error"},
	{Name: "log.format", Default: "text", Help: "`FORMAT`: text or json"},
	{Name: "log.access", Help: "`FILE` for a JSON line of every operation and connection, - for standard error"},
	{Name: "log.access-size", Default: "256MiB", Help: "`BYTES` after which the access log continues in a new file"},
	{Name: "log.access-keep", Default: "10", Help: "`FILES` of the access log to keep, compressed, besides the newest; 0 for all"},
	{Name: "test.in-flight", Default: "0s", Test: true, Help: "for tests only: `TIME` after which a write counts as applied or as lost, 0 for the default; if it is too short, cells of abandoned commits may remain"},
	{Name: "test.clock", Default: "0s", Test: true, Help: "for tests only: `TIME`, perhaps negative, by which this server's clock is put forward for what it commits"},
	{Name: "log.slow", Reload: true, Default: "1s", Help: "`TIME` from which an operation counts as slow and is logged with its plan, 0 for none"},
	{Name: "status.listen", Help: "`URL`, http://HOST:PORT, for /metrics, /live, /ready and /servers; these pages name no entries"},
	{Name: "console.listen", List: true, Help: "`URL`, http://HOST:PORT or https://HOST:PORT, of the pages for administrators and people; http only on loopback addresses or behind proxies; without it there are no pages"},
	{Name: "console.names", List: true, Help: "`HOST` by which browsers call the console, besides those of console.listen and of the certificate"},
	{Name: "console.idle", Default: "30m", Help: "`TIME` without a request after which one must log in again"},
	{Name: "console.session", Default: "8h", Help: "`TIME` after which one must log in again in any case"},
	{Name: "console.reset.relay", Help: "`RELAY` of mail, HOST:PORT (with STARTTLS, unless HOST is a loopback address) or smtps://HOST:PORT, through which people who have forgotten their passwords get links to set new ones; without it they cannot"},
	{Name: "console.reset.relay-ca", Help: "`FILE` with the CAs that sign the relay's certificate, in PEM; default those of the machine"},
	{Name: "console.reset.user", Help: "`NAME` by which this server logs in at the relay (AUTH PLAIN); without it the relay must take mails without"},
	{Name: "console.reset.password-file", Help: "`FILE` whose first line is the password of console.reset.user"},
	{Name: "console.reset.from", Help: "mail `ADDRESS` that these mails are from"},
	{Name: "console.reset.url", Help: "`URL`, https://HOST or https://HOST:PORT, by which people reach the console from their mail"},
	{Name: "console.reset.template", Help: "`FILE` with the mail's subject and text (see docs/console.md); default a text in English"},
	{Name: "trace.endpoint", Help: "`URL`, such as http://127.0.0.1:4318, of a collector that receives traces by OTLP over HTTP"},
	{Name: "trace.ratio", Default: "0.01", Help: "`RATIO` of operations to trace, from 0 to 1; slow and failed ones are always sent"},
}

func findKey(name string) *Key {
	i := slices.IndexFunc(Keys, func(k Key) bool { return k.Name == name })
	if i < 0 {
		return nil
	}
	return &Keys[i]
}

func (r *reader) text(key string) string { return r.ko.String(key) }

func (r *reader) values(k Key) []string {
	if k.List {
		return r.ko.Strings(k.Name)
	}
	return []string{r.text(k.Name)}
}

func (r *reader) list(key string, check func(string) error) []string {
	items := r.ko.Strings(key)
	for _, s := range items {
		if err := check(s); err != nil {
			r.fail(key, "%v", err)
		}
	}
	return items
}

func checkURL(s string) error {
	scheme, rest, ok := strings.Cut(s, "://")
	if ok && rest != "" && slices.Contains([]string{"ldap", "ldaps", "ldapi"}, scheme) {
		return nil
	}
	return fmt.Errorf("%q is not a URL to listen on: ldap://HOST:PORT, ldaps://HOST:PORT or ldapi:///PATH", s)
}

// statusURL reads the URL of the status listener. "" means that there is no listener.
func (r *reader) statusURL(key string) string {
	s := r.text(key)
	u, err := url.Parse(s)
	if s != "" && (err != nil || u.Scheme != "http" || u.Port() == "" || s != "http://"+u.Host) {
		r.fail(key, "%q is not http://HOST:PORT", s)
	}
	return s
}

// console reads where pages are served.
func (r *reader) console() Console {
	c := Console{Names: r.ko.Strings("console.names"), Idle: r.duration("console.idle"), Session: r.duration("console.session")}
	c.Listen = r.list("console.listen", func(s string) error {
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Port() == "" || s != u.Scheme+"://"+u.Host {
			return fmt.Errorf("%q is not http://HOST:PORT or https://HOST:PORT", s)
		}
		ip, err := netip.ParseAddr(u.Hostname())
		isHere := u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
		switch {
		case u.Scheme == "https" && r.text("tls.certificate") == "":
			return fmt.Errorf("https needs tls.certificate and tls.key")
		case u.Scheme == "http" && !isHere && len(r.ko.Strings("proxies")) == 0:
			return fmt.Errorf("%q would send passwords in clear: use https, a loopback address, or proxies", s)
		}
		return nil
	})
	c.Reset = r.reset(c.Listen)
	for _, key := range []string{"console.idle", "console.session"} {
		if r.duration(key) < time.Minute && len(c.Listen) > 0 {
			r.fail(key, "%q is less than a minute", r.text(key))
		}
	}
	return c
}

// reset reads how links to set passwords are sent, but not the files.
func (r *reader) reset(listen []string) Reset {
	x := Reset{Relay: r.text("console.reset.relay"), CA: r.text("console.reset.relay-ca"), User: r.text("console.reset.user"), PasswordFile: r.text("console.reset.password-file"),
		From: r.text("console.reset.from"), URL: r.text("console.reset.url"), Template: r.text("console.reset.template")}
	for key, value := range map[string]string{"relay-ca": x.CA, "user": x.User, "password-file": x.PasswordFile, "from": x.From, "url": x.URL, "template": x.Template} {
		if value != "" && x.Relay == "" {
			r.fail("console.reset."+key, "console.reset.relay is missing, so no mails are sent")
		}
	}
	switch {
	case x.Relay == "":
	case len(listen) == 0:
		r.fail("console.reset.relay", "console.listen is missing, so there are no pages")
	case x.From == "":
		r.fail("console.reset.relay", "console.reset.from is missing: whom mails are from")
	case x.URL == "":
		r.fail("console.reset.relay", "console.reset.url is missing: where links in mails lead")
	case x.User != "" && x.PasswordFile == "":
		r.fail("console.reset.user", "console.reset.password-file is missing")
	case x.User == "" && x.PasswordFile != "":
		r.fail("console.reset.password-file", "console.reset.user is missing")
	}
	return x
}

// traces reads where traces are sent.
func (r *reader) traces() Trace {
	t := Trace{Endpoint: strings.TrimSuffix(r.text("trace.endpoint"), "/")}
	u, err := url.Parse(t.Endpoint)
	if t.Endpoint != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || t.Endpoint != u.Scheme+"://"+u.Host+u.Path) {
		r.fail("trace.endpoint", "%q is not http://HOST:PORT or https://HOST:PORT", t.Endpoint)
	}
	t.Ratio, err = strconv.ParseFloat(r.text("trace.ratio"), 64)
	if err != nil || !(t.Ratio >= 0 && t.Ratio <= 1) {
		r.fail("trace.ratio", "%q is not a number from 0 to 1", r.text("trace.ratio"))
	}
	return t
}

// checkServer checks the URL of a server. It must contain a scheme and a host, and
// nothing behind them.
func checkServer(s string) error {
	u, err := url.Parse(s)
	if err == nil && (u.Scheme == "ldap" || u.Scheme == "ldaps") && s == u.Scheme+"://"+u.Host && u.Hostname() != "" {
		return nil
	}
	return fmt.Errorf("%q is not the URL of a server: ldap://HOST[:PORT] or ldaps://HOST[:PORT]", s)
}

// networks reads a list of networks. A single address is read as a network that
// contains only that address.
func (r *reader) networks(key string) []netip.Prefix {
	var networks []netip.Prefix
	r.list(key, func(s string) error {
		n, err := netip.ParsePrefix(s)
		if a, e := netip.ParseAddr(s); e == nil {
			n, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		networks = append(networks, n.Masked())
		if err != nil {
			return fmt.Errorf("%q is not a network such as 10.0.0.0/8 or an address", s)
		}
		return nil
	})
	return networks
}

// checkOption checks a tagging option (RFC 4512, 2.5).
func checkOption(s string) error {
	bad := func(c rune) bool {
		return c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
	}
	if s == "" || s == "-" || strings.ContainsFunc(s, bad) {
		return fmt.Errorf("%q is not an attribute option, which is made of letters, digits and hyphens", s)
	}
	return nil
}

func checkDN(s string) error {
	if name, err := dn.Parse(s); err != nil {
		return fmt.Errorf("%q is not a DN: %v", s, err)
	} else if len(name) == 0 {
		return fmt.Errorf("an empty DN")
	}
	return nil
}

func (r *reader) oneOf(key string, choices ...string) string {
	s := r.text(key)
	if !slices.Contains(choices, s) {
		r.fail(key, "%q is none of %s", s, strings.Join(choices, ", "))
	}
	return s
}

func (r *reader) count(key string) int {
	return r.countOf(key, r.text(key))
}

func (r *reader) countOf(key, s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		r.fail(key, "%q is not a count", s)
	}
	return n
}

func (r *reader) duration(key string) time.Duration { return r.durationOf(key, r.text(key)) }

// offset reads a duration that may be negative.
func (r *reader) offset(key string) time.Duration {
	d, err := time.ParseDuration(r.text(key))
	if err != nil {
		r.fail(key, "%q is not a time such as -90s or 10m", r.text(key))
	}
	return d
}

func (r *reader) durationOf(key, s string) time.Duration {
	if s == "0" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		r.fail(key, "%q is not a time such as 90s, 10m or 1h", s)
	}
	return d
}

var units = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"", 1}}

func (r *reader) size(key string) int64 { return r.sizeOf(key, r.text(key)) }

func (r *reader) sizeOf(key, s string) int64 {
	for _, u := range units {
		digits, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 32)
		if u.bytes == 1 {
			n, err = strconv.ParseInt(digits, 10, 62)
		}
		if err == nil && n >= 0 {
			return n * u.bytes
		}
		break
	}
	r.fail(key, "%q is not a size such as 4096, 16MiB or 1GiB", s)
	return 0
}
