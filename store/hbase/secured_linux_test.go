package hbase_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-krb5/krb5/iana/etypeID"
	"github.com/go-krb5/krb5/keytab"

	"github.com/seed-4dac0d86/ldapd/ldap/server/certstest"
	"github.com/seed-4dac0d86/ldapd/store/hbase"
	"github.com/seed-4dac0d86/ldapd/store/hbase/hbasetest"
	"github.com/seed-4dac0d86/ldapd/store/hbase/internal/alltime"
	"github.com/seed-4dac0d86/ldapd/store/hbase/internal/krb"
	"github.com/seed-4dac0d86/ldapd/store/hbase/internal/zookeeper"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest/conformance"
)

// A fortress is an HBase with Kerberos, and with TLS for clients with a certificate. Its ZooKeeper, too, wants Kerberos.
type fortress struct {
	kdc  *hbasetest.KDC
	ca   *certstest.Authority
	hb   *hbasetest.Instance
	user krb.Options
}

func newFortress(t testing.TB) *fortress {
	if testing.Short() {
		t.Skip("needs an HBase")
	}
	f := &fortress{kdc: hbasetest.StartKDC(t), ca: certstest.New(t)}
	servers := f.kdc.Keytab("hbase/localhost")
	zkServers := f.kdc.Keytab("zookeeper/localhost")
	f.user = krb.Options{
		Principal: "ldapd/me@" + hbasetest.Realm, Server: "hbase/_HOST", Protection: "privacy",
		Keytab: f.kdc.Keytab("ldapd/me"), Config: f.kdc.Config,
	}
	dir := t.TempDir()
	ca := f.ca.WriteCA(dir)
	store := filepath.Join(dir, "server.pem")
	writePEM(t, store, f.ca.Server())
	login, err := krb.New(f.user)
	if err != nil {
		t.Fatal(err)
	}
	zkLogin, err := krb.New(f.user.ForZooKeeper(zkPrincipal))
	if err != nil {
		t.Fatal(err)
	}
	jaas := filepath.Join(dir, "jaas.conf")
	if err := os.WriteFile(jaas, []byte(jaasEntry("Server", "zookeeper/localhost", zkServers)+jaasEntry("Client", "hbase/localhost", servers)), 0o600); err != nil {
		t.Fatal(err)
	}
	principal := "hbase/localhost@" + hbasetest.Realm
	f.hb = hbasetest.Configured(t, hbasetest.Config{
		Properties: [][2]string{
			{"hbase.security.authentication", "kerberos"},
			{"hbase.rpc.protection", "authentication,integrity,privacy"},
			{"hbase.master.kerberos.principal", principal},
			{"hbase.master.keytab.file", servers},
			{"hbase.regionserver.kerberos.principal", principal},
			{"hbase.regionserver.keytab.file", servers},
			{"hbase.unsafe.client.kerberos.hostname.disable.reversedns", "true"},
			{"hbase.server.netty.tls.enabled", "true"},
			{"hbase.server.netty.tls.supportplaintext", "true"},
			{"hbase.server.netty.tls.client.auth.mode", "NEED"},
			{"hbase.rpc.tls.keystore.location", store},
			{"hbase.rpc.tls.keystore.type", "PEM"},
			{"hbase.rpc.tls.truststore.location", ca},
			{"hbase.rpc.tls.truststore.type", "PEM"},
		},
		Core: [][2]string{{"hadoop.security.authentication", "kerberos"}},
		Flags: []string{
			"--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED", // Hadoop 2
			"-Djava.security.krb5.conf=" + f.kdc.Config, "-Djava.security.auth.login.config=" + jaas,
			"-Dzookeeper.authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider", "-Dzookeeper.sessionRequireClientSASLAuth=true",
		},
		User: login.Principal(),
		DialZooKeeper: func(ctx context.Context, network, addr string) (net.Conn, error) {
			line, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return zookeeper.Authenticate(line, func(ask func([]byte) ([]byte, error)) error {
				return zkLogin.Exchange(context.WithoutCancel(ctx), line, "localhost", ask)
			}), nil
		},
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return (&alltime.Dialer{Kerberos: login}).Dial(ctx, network, addr, func(net.Conn) {})
		},
	})
	return f
}

const zkPrincipal = "zookeeper/_HOST"

// jaasEntry returns an entry of a configuration of JAAS, by which Java logs in with a keytab.
func jaasEntry(name, principal, keytab string) string {
	return fmt.Sprintf("%s { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true useTicketCache=false keyTab=%q principal=%q; };\n",
		name, keytab, principal+"@"+hbasetest.Realm)
}

// writePEM writes a certificate and its key to one file.
func writePEM(t testing.TB, path string, c tls.Certificate) {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	b := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})
	b = append(b, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// open opens a store by ZooKeeper, which has a ticket for localhost.
func (f *fortress) open(t testing.TB, prefix string, o hbase.Options) (*hbase.Store, error) {
	if o.Kerberos != nil {
		o.KerberosZooKeeper = zkPrincipal
	}
	return hbase.Open(t.Context(), hbase.Scheme+f.zooKeeper()+"/"+prefix, o)
}

func (f *fortress) zooKeeper() string {
	return strings.Replace(f.hb.Quorum(), "127.0.0.1", "localhost", 1)
}

// openRPC opens a store by the RPC connection registry. One of its servers is away.
func (f *fortress) openRPC(t testing.TB, o hbase.Options) (*hbase.Store, error) {
	return hbase.Open(t.Context(), hbase.RPCScheme+f.hb.Servers()+",localhost:1/"+hbasetest.Prefix(t), o)
}

// tls returns a configuration with a client's certificate or without one.
func (f *fortress) tls(with bool) func() (*tls.Config, error) {
	c := &tls.Config{RootCAs: f.ca.Pool()}
	if with {
		c.Certificates = []tls.Certificate{f.ca.Server()} // HBase compares the names in it with the client's address
	}
	return func() (*tls.Config, error) { return c, nil }
}

var allSecured = flag.Bool("secured", false, "run all of TestSecured, which takes a minute or two, and not only some connections")

// An HBase with Kerberos and TLS passes the contract of tables, and each thing that is wrong has an error that names it.
func TestSecured(t *testing.T) {
	f := newFortress(t)
	t.Run("Conformance", func(t *testing.T) {
		if !*allSecured {
			t.Skip("give -secured")
		}
		conformance.Run(t, func(t *testing.T) table.Store {
			s, err := f.openRPC(t, hbase.Options{Kerberos: &f.user})
			if err != nil {
				t.Fatal(err)
			}
			return s
		})
	})
	with := func(change func(*krb.Options)) *hbase.Kerberos {
		o := f.user
		change(&o)
		return &o
	}
	byZooKeeper := func(t testing.TB, o hbase.Options) (*hbase.Store, error) { return f.open(t, hbasetest.Prefix(t), o) }
	wrong := func(t testing.TB, o hbase.Options) (*hbase.Store, error) {
		o.KerberosZooKeeper = "zookeeper2/_HOST"
		return hbase.Open(t.Context(), hbase.Scheme+f.zooKeeper()+"/"+hbasetest.Prefix(t), o)
	}
	withoutKerberos := "wants Kerberos: set hbase.kerberos-zookeeper-principal"
	if hbasetest.Version() == "3.0.0-alpha-4" { // its ZooKeeper, 3.5, permits sessions without Kerberos
		withoutKerberos = "HBase has Kerberos, and this side does not"
	}
	for _, c := range []struct {
		name string
		open func(testing.TB, hbase.Options) (*hbase.Store, error) // nil: byZooKeeper
		o    hbase.Options
		want string // nothing if all is well
	}{
		{"integrity", nil, hbase.Options{Kerberos: with(func(o *krb.Options) { o.Protection = "integrity" })}, ""},
		{"TLS", nil, hbase.Options{TLS: f.tls(true), Kerberos: with(func(o *krb.Options) { o.Protection = "authentication" })}, ""},
		{"TLS and privacy", nil, hbase.Options{TLS: f.tls(true), Kerberos: &f.user}, ""},
		{"registry", f.openRPC, hbase.Options{Kerberos: &f.user}, ""},
		{"registry and TLS", f.openRPC, hbase.Options{TLS: f.tls(true), Kerberos: &f.user}, ""},
		{"no Kerberos", f.openRPC, hbase.Options{}, "HBase has Kerberos, and this side does not"},
		{"no Kerberos to ZooKeeper", nil, hbase.Options{}, withoutKerberos},
		{"principal of ZooKeeper", wrong, hbase.Options{Kerberos: &f.user}, "does not know zookeeper2/localhost@" + hbasetest.Realm},
		{"no certificate", nil, hbase.Options{TLS: f.tls(false), Kerberos: &f.user}, "certificate"},
		{"another CA", nil, hbase.Options{TLS: (&fortress{ca: certstest.New(t)}).tls(true), Kerberos: &f.user}, "signed by unknown authority"},
		{"principal", nil, hbase.Options{Kerberos: with(func(o *krb.Options) {
			o.Principal, o.Keytab = "nobody@"+hbasetest.Realm, keytabOf(t, "nobody")
		})}, "does not know nobody@" + hbasetest.Realm},
		{"service", nil, hbase.Options{Kerberos: with(func(o *krb.Options) { o.Server = "hbase2/_HOST" })}, "does not know hbase2/localhost@" + hbasetest.Realm},
		{"keytab", nil, hbase.Options{Kerberos: with(func(o *krb.Options) { o.Keytab = keytabOf(t, "ldapd/me") })}, "has another key for ldapd/me@" + hbasetest.Realm + " than the keytab"},
		{"not in the keytab", nil, hbase.Options{Kerberos: with(func(o *krb.Options) { o.Keytab = keytabOf(t, "other") })}, "has no key for ldapd/me@" + hbasetest.Realm},
		{"realm", nil, hbase.Options{Kerberos: with(func(o *krb.Options) { o.Principal = "ldapd/me@OTHER.COM" })}, "names no KDC of the realm OTHER.COM"},
	} {
		if !*allSecured && !slices.Contains([]string{"TLS and privacy", "registry and TLS", "no Kerberos", "no Kerberos to ZooKeeper", "keytab"}, c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			if c.o.TLS != nil && !hasTLS() {
				t.Skip("this release has no TLS")
			}
			c.o.Timeout = 10 * time.Second
			if c.want != "" {
				c.o.Timeout = 5 * time.Second
			}
			if c.open == nil {
				c.open = byZooKeeper
			}
			s, err := c.open(t, c.o)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			writeAndRead(t, s)
		})
	}
	if *allSecured {
		t.Run("ZooKeeper", f.zooKeeperTLS)
		t.Run("KeytabChanges", f.keytabChanges)
		t.Run("TicketEnds", f.ticketEnds)
	}
}

// hasTLS reports whether the release that is tested has TLS.
func hasTLS() bool { return hbasetest.Version() >= "2.6" }

// With TLS to ZooKeeper, its certificate must have the name of the URL, and Kerberos is inside.
func (f *fortress) zooKeeperTLS(t *testing.T) {
	if !hasTLS() {
		t.Skip("with TLS to ZooKeeper there is TLS to HBase")
	}
	o := hbase.Options{TLS: f.tls(true), TLSZooKeeper: true, Kerberos: &f.user, KerberosZooKeeper: zkPrincipal, Timeout: 5 * time.Second}
	open := func(c tls.Certificate) (*hbase.Store, error) {
		return hbase.Open(t.Context(), hbase.Scheme+strings.Replace(f.tunnel(t, c), "127.0.0.1", "localhost", 1)+"/"+hbasetest.Prefix(t), o)
	}
	s, err := open(f.ca.Server())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	writeAndRead(t, s)
	for _, c := range []struct {
		name string
		cert tls.Certificate
		want string
	}{
		{"no name", f.ca.Client(pkix.Name{CommonName: "zk"}, nil), "wanted to match localhost"},
		{"another CA", certstest.New(t).Server(), "signed by unknown authority"},
	} {
		if _, err := open(c.cert); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// tunnel accepts connections with TLS and passes what they send to ZooKeeper. It returns its address.
func (f *fortress) tunnel(t *testing.T, c tls.Certificate) string {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{c}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", f.hb.Quorum())
			if err != nil {
				near.Close()
				return
			}
			go func() { _, _ = io.Copy(far, near); far.Close() }()
			go func() { _, _ = io.Copy(near, far); near.Close() }()
		}
	}()
	return l.Addr().String()
}

// A keytab that is older than the key in the KDC is an error that says so, until a new one is in its place. Connections from
// before stay.
func (f *fortress) keytabChanges(t *testing.T) {
	const principal = "ldapd/changing"
	o := f.user
	o.Principal, o.Keytab = principal+"@"+hbasetest.Realm, filepath.Join(t.TempDir(), "keytab")
	open := func() (*hbase.Store, error) {
		return f.open(t, hbasetest.Prefix(t), hbase.Options{Kerberos: &o, Timeout: 5 * time.Second})
	}
	place := func(keytab []byte) {
		t.Helper()
		if err := os.WriteFile(o.Keytab, keytab, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	export := func() []byte {
		t.Helper()
		b, err := os.ReadFile(f.kdc.Keytab(principal))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	place(export())
	s, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	writeAndRead(t, s)
	changed := export()
	if _, err := open(); err == nil || !strings.Contains(err.Error(), "has another key for "+o.Principal+" than the keytab") {
		t.Errorf("with the old keytab: %v", err)
	}
	place(changed)
	again, err := open()
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
	if _, err := s.Table(data.Name).Get(t.Context(), []byte("r"), table.Select{}); err != nil {
		t.Errorf("on a connection from before: %v", err)
	}
}

// A ticket that ends, while the KDC is away, ends no connection. What needs another ticket fails until the KDC is back.
func (f *fortress) ticketEnds(t *testing.T) {
	f.kdc.Admin("modprinc -maxlife 3seconds ldapd/me")
	o := hbase.Options{Kerberos: &f.user, Timeout: 3 * time.Second}
	s, err := f.open(t, hbasetest.Prefix(t), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	writeAndRead(t, s)
	f.kdc.Stop()
	time.Sleep(4 * time.Second)
	if _, err := s.Table(data.Name).Get(t.Context(), []byte("r"), table.Select{}); err != nil {
		t.Errorf("on a connection from before: %v", err)
	}
	if _, err := f.open(t, hbasetest.Prefix(t), o); err == nil || !strings.Contains(err.Error(), "no KDC of "+hbasetest.Realm+" answers") {
		t.Errorf("without a KDC: %v", err)
	}
	f.kdc.Start()
	again, err := f.open(t, hbasetest.Prefix(t), o)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

// BenchmarkSecured compares a Get on connections that are protected in different ways.
func BenchmarkSecured(b *testing.B) {
	f := newFortress(b)
	plain := hbase.Scheme + hbasetest.Start(b) + "/"
	secured := hbase.RPCScheme + f.hb.Servers() + "/"
	by := func(protection string) *hbase.Kerberos {
		o := f.user
		o.Protection = protection
		return &o
	}
	for _, c := range []struct {
		name, url string
		o         hbase.Options
	}{
		{"plain", plain, hbase.Options{}},
		{"authentication", secured, hbase.Options{Kerberos: by("authentication")}},
		{"TLS", secured, hbase.Options{TLS: f.tls(true), Kerberos: by("authentication")}},
		{"integrity", secured, hbase.Options{Kerberos: by("integrity")}},
		{"privacy", secured, hbase.Options{Kerberos: by("privacy")}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s, err := hbase.Open(b.Context(), c.url+hbasetest.Prefix(b), c.o)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			d := create(b, s, data)
			apply(b, d, 5, put("r", cell('a', "q", strings.Repeat("v", 1000))))
			for b.Loop() {
				if _, err := d.Get(b.Context(), []byte("r"), table.Select{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// writeAndRead writes a large value and other rows, and reads them.
func writeAndRead(t *testing.T, s *hbase.Store) {
	t.Helper()
	d := create(t, s, data)
	large := strings.Repeat("x", 1<<20)
	apply(t, d, 5, put("large", cell('a', "q", large)), put("r", cell('a', "q", "v")))
	row, err := d.Get(t.Context(), []byte("large"), table.Select{})
	if err != nil || len(row.Cells) != 1 || string(row.Cells[0].Value) != large {
		t.Errorf("%d cells, %v", len(row.Cells), err)
	}
	if got := scanText(t, d, table.Range{Start: []byte("r")}, table.Select{}); len(got) != 1 {
		t.Errorf("a scan returns %q", got)
	}
}

// keytabOf returns a keytab with a key that the KDC does not have.
func keytabOf(t *testing.T, principal string) string {
	t.Helper()
	k := keytab.New()
	if err := k.AddEntry(principal, hbasetest.Realm, "guess", time.Now(), 1, etypeID.AES256_CTS_HMAC_SHA1_96); err != nil {
		t.Fatal(err)
	}
	b, err := k.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "keytab")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
