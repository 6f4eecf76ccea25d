// Package krb speaks Kerberos with servers of HBase: it gets tickets with a keytab, exchanges SASL tokens (RFC 4752) as
// HBase frames them, and signs or seals what follows.
package krb

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-krb5/krb5/client"
	"github.com/go-krb5/krb5/config"
	"github.com/go-krb5/krb5/iana/nametype"
	"github.com/go-krb5/krb5/keytab"
	"github.com/go-krb5/krb5/messages"
	"github.com/go-krb5/krb5/types"
)

// Options are the settings of a Login.
type Options struct {
	// Principal is the name of this server, such as ldapd/_HOST@EXAMPLE.COM. _HOST is this machine's name.
	Principal string
	// Server is the name of HBase's servers, such as hbase/_HOST@EXAMPLE.COM. _HOST is the name by which a server is
	// called. Without a realm, it is in the realm of Principal.
	Server string
	// Keytab is the file with the keys of Principal. It is read for each new ticket.
	Keytab string
	// Config is the file krb5.conf. It is read for each new ticket.
	Config string
	// Protection is what HBase calls hbase.rpc.protection: authentication, integrity or privacy.
	Protection string
}

// A Login gets tickets for servers of HBase, and keeps them while they last. It may be used concurrently.
type Login struct {
	o            Options
	name, realm  string
	service      string // the name of servers, with _HOST
	serviceRealm string
	protection   byte
	asking       chan struct{} // has one element while somebody asks the KDC
	mu           sync.Mutex
	tickets      map[string]*ticket // by host
}

// A ticket is a ticket for one server.
type ticket struct {
	ticket     messages.Ticket
	key        types.EncryptionKey
	renew, end time.Time // when to get the next one, and when this one ends
}

// protections are the QOP of SASL by the names of HBase.
var protections = map[string]byte{"authentication": 1, "integrity": 2, "privacy": 4}

// New returns a Login. It does not ask the KDC.
func New(o Options) (*Login, error) {
	l := &Login{o: o, asking: make(chan struct{}, 1), tickets: map[string]*ticket{}}
	var ok bool
	if l.protection, ok = protections[o.Protection]; !ok {
		return nil, fmt.Errorf("protection %q is not authentication, integrity or privacy", o.Protection)
	}
	if l.name, l.realm, ok = strings.Cut(o.Principal, "@"); !ok || l.name == "" || l.realm == "" {
		return nil, fmt.Errorf("principal %q does not look like ldapd/_HOST@REALM", o.Principal)
	}
	l.service, l.serviceRealm, ok = strings.Cut(o.Server, "@")
	if !ok {
		l.serviceRealm = l.realm
	}
	if !strings.Contains(l.service, "/") || l.serviceRealm == "" {
		return nil, fmt.Errorf("principal of servers %q does not look like hbase/_HOST@REALM", o.Server)
	}
	if strings.Contains(l.name, "_HOST") {
		host, err := thisHost()
		if err != nil {
			return nil, err
		}
		l.name = strings.ReplaceAll(l.name, "_HOST", host)
	}
	return l, nil
}

// Check returns an error if New would.
func (o Options) Check() error {
	_, err := New(o)
	return err
}

// ForZooKeeper returns the options for servers of ZooKeeper, whose principal is given. ZooKeeper only authenticates.
func (o Options) ForZooKeeper(principal string) Options {
	o.Server, o.Protection = principal, "authentication"
	return o
}

// Principal returns the name that servers know this one by.
func (l *Login) Principal() string { return l.name + "@" + l.realm }

// thisHost returns the full name of this machine.
func thisHost() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", err
	}
	if !strings.Contains(host, ".") {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		if full, err := net.DefaultResolver.LookupCNAME(ctx, host); err == nil {
			host = strings.TrimSuffix(full, ".")
		}
	}
	return strings.ToLower(host), nil
}

// server returns the principal of the server at a host in lower case, without its realm.
func (l *Login) server(host string) string {
	return strings.ReplaceAll(l.service, "_HOST", host)
}

// ticket returns a ticket for the server at a host. It gets the next one when five sixths of the time of the last one
// are over, and returns the last one if the KDC does not give the next.
func (l *Login) ticket(ctx context.Context, host string) (*ticket, error) {
	if t := l.kept(host); t != nil && time.Now().Before(t.renew) {
		return t, nil
	}
	select {
	case l.asking <- struct{}{}:
	case <-ctx.Done():
		return nil, l.silent(ctx)
	}
	last := l.kept(host)
	if last != nil && time.Now().Before(last.renew) {
		<-l.asking
		return last, nil
	}
	type answer struct {
		t   *ticket
		err error
	}
	got := make(chan answer, 1)
	go func() { // asking has time limits of its own, and no context
		defer func() { <-l.asking }()
		t, err := l.ask(host)
		if err == nil {
			l.mu.Lock()
			l.tickets[host] = t
			l.mu.Unlock()
		}
		got <- answer{t, err}
	}()
	var a answer
	select {
	case a = <-got:
	case <-ctx.Done():
		a.err = l.silent(ctx)
	}
	if a.err != nil && last != nil && time.Now().Before(last.end) {
		return last, nil
	}
	return a.t, a.err
}

func (l *Login) silent(ctx context.Context) error {
	return fmt.Errorf("kerberos: no KDC of %s has answered yet: %w", l.realm, context.Cause(ctx))
}

func (l *Login) kept(host string) *ticket {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tickets[host]
}

// forget removes a ticket that a server refused.
func (l *Login) forget(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.tickets, host)
}

// ask logs in with the keytab and gets a ticket from the KDC.
func (l *Login) ask(host string) (t *ticket, err error) {
	defer func() {
		if r := recover(); r != nil { // the library panics on some octets that are no answer of a KDC
			err = fmt.Errorf("kerberos: a KDC of %s sends nonsense: %v", l.realm, r)
		}
	}()
	keys, err := keytab.Load(l.o.Keytab)
	if err != nil {
		return nil, fmt.Errorf("kerberos: keytab %s: %w", l.o.Keytab, err)
	}
	conf, err := config.Load(l.o.Config)
	if err != nil {
		return nil, fmt.Errorf("kerberos: %s: %w", l.o.Config, err)
	}
	cl := client.NewWithKeytab(l.name, l.realm, keys, conf)
	defer cl.Destroy() // ends what a referral may have begun
	req, err := messages.NewASReqForTGT(l.realm, conf, cl.Credentials.CName())
	if err != nil {
		return nil, l.explain(err, l.Principal(), l.realm)
	}
	as, err := cl.ASExchange(l.realm, req, 0)
	if err != nil {
		return nil, l.explain(err, l.Principal(), l.realm)
	}
	tgt, key := as.Ticket, as.DecryptedEncPart.Key
	if l.serviceRealm != l.realm {
		krbtgt := types.PrincipalName{NameType: nametype.KRB_NT_SRV_INST, NameString: []string{"krbtgt", l.serviceRealm}}
		_, rep, err := cl.TGSREQGenerateAndExchange(krbtgt, l.realm, tgt, key, false)
		if err != nil {
			return nil, l.explain(err, "krbtgt/"+l.serviceRealm+"@"+l.realm, l.realm)
		}
		tgt, key = rep.Ticket, rep.DecryptedEncPart.Key
	}
	spn := l.server(host)
	_, rep, err := cl.TGSREQGenerateAndExchange(types.NewPrincipalName(nametype.KRB_NT_SRV_HST, spn), l.serviceRealm, tgt, key, false)
	if err != nil {
		return nil, l.explain(err, spn+"@"+l.serviceRealm, l.serviceRealm)
	}
	now, end := time.Now(), rep.DecryptedEncPart.EndTime
	return &ticket{rep.Ticket, rep.DecryptedEncPart.Key, now.Add(end.Sub(now) * 5 / 6), end}, nil
}

// reasons explains answers of a KDC. The library returns only texts.
var reasons = []struct{ code, text string }{
	{"KDC_ERR_C_PRINCIPAL_UNKNOWN", "the KDC of REALM does not know PRINCIPAL: is hbase.kerberos-principal right, and its realm?"},
	{"KDC_ERR_S_PRINCIPAL_UNKNOWN", "the KDC of REALM does not know PRINCIPAL: is hbase.kerberos-server-principal right, and the host that HBase names?"},
	{"KDC_ERR_PREAUTH_FAILED", "the KDC of REALM has another key for PRINCIPAL than the keytab KEYTAB: export it again"},
	{"KDC_ERR_CLIENT_REVOKED", "the KDC of REALM has locked PRINCIPAL"},
	{"KDC_ERR_WRONG_REALM", "the KDC says that PRINCIPAL is not in the realm REALM"},
	{"KDC_ERR_ETYPE_NOSUPP", "the KDC of REALM has no key of PRINCIPAL for an encryption that krb5.conf permits"},
	{"KRB_AP_ERR_SKEW", "the clocks of this machine and of the KDC of REALM differ by more than the KDC permits: set them by NTP"},
	{"clock skew with KDC too large", "the clocks of this machine and of the KDC of REALM differ by more than clockskew in CONFIG: set them by NTP"},
	{"matching key not found in keytab", "the keytab KEYTAB has no key for PRINCIPAL that the KDC asks for: see klist -ket KEYTAB"},
	{"no KDCs defined in configuration", "CONFIG names no KDC of the realm REALM"},
	{"Networking_Error", "no KDC of REALM answers"},
}

func (l *Login) explain(err error, principal, realm string) error {
	for _, r := range reasons {
		if strings.Contains(err.Error(), r.code) {
			text := strings.NewReplacer("REALM", realm, "PRINCIPAL", principal, "KEYTAB", l.o.Keytab, "CONFIG", l.o.Config).Replace(r.text)
			return fmt.Errorf("kerberos: %s (%s)", text, firstLine(err))
		}
	}
	return fmt.Errorf("kerberos: a ticket for %s: %w", principal, err)
}

func firstLine(err error) string {
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
}
