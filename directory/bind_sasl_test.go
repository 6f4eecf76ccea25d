package directory_test

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/xdg-go/scram"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/server/certstest"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/store/gss/layer"
)

// A simPeer is a simulated connection of a client.
type simPeer struct {
	auth.NoChannel
	state  *tls.ConnectionState
	layer  *layer.Stream
	local  bool
	remote string
}

func (w simPeer) Remote() string { return w.remote }

func (w simPeer) Layer() *layer.Stream { return w.layer }

func (w simPeer) TLS() *tls.ConnectionState { return w.state }
func (w simPeer) Peer() (uid, gid int, ok bool) {
	return 1000, 100, w.local
}

// inTLS is a confidential connection.
var inTLS = simPeer{state: &tls.ConnectionState{}}

const (
	annDN = "uid=ann,dc=example,dc=com"
	bobDN = "uid=bob,dc=example,dc=com"
	admin = "cn=admin,dc=example,dc=com"
)

// newUsers returns a directory with Ann and Bob, whose passwords are their names, and two
// entries with the uid twin. It offers all mechanisms unless the options set some.
func newUsers(t testing.TB, o directory.Options) *directory.Directory {
	t.Helper()
	if o.Mechanisms == nil {
		o.Mechanisms = auth.Mechanisms
	}
	d := newDirectory(t, newPartition(t), o)
	t.Cleanup(d.Close)
	s := d.NewSession(nil)
	serve(t, s, &op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
	serve(t, s, &op.Add{Name: "dc=example,dc=com", Attributes: attributes([]line{{"objectClass", "domain"}, {"dc", "example"}})})
	for _, uid := range []string{"ann", "bob"} {
		serve(t, s, &op.Add{Name: "uid=" + uid + ",dc=example,dc=com", Attributes: person(uid, line{"userPassword", uid})})
	}
	for _, cn := range []string{"one", "two"} {
		serve(t, s, &op.Add{Name: "cn=" + cn + ",dc=example,dc=com", Attributes: person("twin", line{"userPassword", "twin"}, line{"cn", cn})})
	}
	return d
}

func person(uid string, more ...line) []op.PartialAttribute {
	return attributes(append([]line{{"objectClass", "inetOrgPerson"}, {"uid", uid}, {"cn", uid}, {"sn", uid}}, more...))
}

// send sends one bind and returns the answer.
func send(t testing.TB, s *directory.Session, mechanism string, credentials []byte) *op.Response {
	t.Helper()
	var out answers
	s.Serve(t.Context(), &op.Message{Request: &op.Bind{Version: 3, SASL: true, Mechanism: mechanism, Credentials: credentials}}, &out)
	return out.done
}

// plain returns the message of PLAIN.
func plain(authzID, name, password string) []byte {
	return []byte(authzID + "\x00" + name + "\x00" + password)
}

func TestPlain(t *testing.T) {
	d := newUsers(t, directory.Options{})
	for _, c := range []struct {
		message []byte
		code    op.Code
		who     string
	}{
		{plain("", "ann", "ann"), op.Success, annDN},
		{plain("", "ANN", "ann"), op.Success, annDN},
		{plain("", "u:ann", "ann"), op.Success, annDN},
		{plain("", "dn:"+annDN, "ann"), op.Success, annDN},
		{plain("", "dn:"+admin, "secret"), op.Success, admin},
		{plain("u:ann", "ann", "ann"), op.Success, annDN},
		{plain("dn:UID=Ann, dc=example,dc=com", "ann", "ann"), op.Success, annDN},
		{plain("u:bob", "dn:"+admin, "secret"), op.Success, bobDN},
		{plain("dn:", "dn:"+admin, "secret"), op.Success, ""},
		{plain("u:bob", "ann", "ann"), op.InvalidCredentials, ""},
		{plain("u:nobody", "ann", "ann"), op.InvalidCredentials, ""},
		{plain("nonsense", "ann", "ann"), op.InvalidCredentials, ""},
		{plain("dn:"+admin, "ann", "ann"), op.InvalidCredentials, ""},
		{plain("", "ann", "bob"), op.InvalidCredentials, ""},
		{plain("", "nobody", "x"), op.InvalidCredentials, ""},
		{plain("", "twin", "twin"), op.InvalidCredentials, ""},
		{plain("", "*", "ann"), op.InvalidCredentials, ""},
		{plain("", "dn:", "x"), op.InvalidCredentials, ""},
		{plain("", "dn:nonsense", "x"), op.InvalidCredentials, ""},
		{plain("", "ann", ""), op.ProtocolError, ""},
		{[]byte("ann"), op.ProtocolError, ""},
	} {
		s := d.NewSession(inTLS)
		r := send(t, s, "PLAIN", c.message)
		if r.Code != c.code || s.Name() != c.who {
			t.Errorf("%q: %v as %q", c.message, &r.Result, s.Name())
		}
		if r.Code == op.InvalidCredentials && r.Diagnostic != "" {
			t.Errorf("%q: says more: %s", c.message, r.Diagnostic)
		}
	}
}

// TestWhereMechanismsWork checks that the server offers a client the mechanisms that work
// on the client's connection.
func TestWhereMechanismsWork(t *testing.T) {
	state := inTLS.state // without channel binding: the integration tests test the -PLUS mechanisms
	all := []string{"EXTERNAL", "SCRAM-SHA-512", "SCRAM-SHA-256", "SCRAM-SHA-1", "PLAIN"}
	inClear := []string{"SCRAM-SHA-512", "SCRAM-SHA-256", "SCRAM-SHA-1"}
	for _, c := range []struct {
		name    string
		channel auth.Channel
		options directory.Options
		want    []string
		refused map[string]op.Code
	}{
		{"in clear", nil, directory.Options{}, inClear,
			map[string]op.Code{"PLAIN": op.ConfidentialityRequired, "EXTERNAL": op.InappropriateAuthentication,
				"SCRAM-SHA-1-PLUS": op.AuthMethodNotSupported, "OAUTHBEARER": op.AuthMethodNotSupported, "GSSAPI": op.AuthMethodNotSupported,
				"": op.AuthMethodNotSupported, "plain": op.AuthMethodNotSupported}},
		{"in clear, allowed", nil, directory.Options{PlainInClear: true}, append(slices.Clone(inClear), "PLAIN"), nil},
		{"in clear, allowed and not", nil, directory.Options{PlainInClear: true, ClearPasswords: directory.ClearFromNowhere}, inClear,
			map[string]op.Code{"PLAIN": op.ConfidentialityRequired}},
		{"TLS", simPeer{state: state}, directory.Options{}, all[1:], map[string]op.Code{"EXTERNAL": op.InappropriateAuthentication}},
		{"a socket", simPeer{local: true}, directory.Options{}, all, nil},
		{"a socket with TLS", simPeer{state: state, local: true}, directory.Options{}, all, nil},
		{"some", simPeer{state: state, local: true}, directory.Options{Mechanisms: []string{"PLAIN"}}, []string{"PLAIN"},
			map[string]op.Code{"EXTERNAL": op.AuthMethodNotSupported}},
		{"the default", simPeer{state: state, local: true}, directory.Options{Mechanisms: auth.DefaultMechanisms}, []string{"EXTERNAL", "PLAIN"},
			map[string]op.Code{"SCRAM-SHA-256": op.AuthMethodNotSupported}},
	} {
		if c.options.Mechanisms == nil {
			c.options.Mechanisms = auth.Mechanisms
		}
		s := newDirectory(t, newPartition(t), c.options).NewSession(c.channel)
		var out answers
		s.Serve(t.Context(), &op.Message{Request: &op.Search{Filter: filter.MustParse("(objectClass=*)"), Attributes: []string{"supportedSASLMechanisms"}}}, &out)
		var got []string
		for _, l := range strings.Split(out.entries[0], "\n") {
			if _, m, ok := strings.Cut(l, "supportedSASLMechanisms: "); ok {
				got = append(got, m)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		for m, code := range c.refused {
			if r := send(t, s, m, plain("", "ann", "ann")); r.Code != code {
				t.Errorf("%s, %s: %v", c.name, m, &r.Result)
			}
		}
	}
}

func TestProtectPasswords(t *testing.T) {
	d := newUsers(t, directory.Options{})
	protected := newDirectory(t, directory.PartitionOf(d), directory.Options{ClearPasswords: directory.ClearFromNowhere})
	modify := &op.Extended{OID: "1.3.6.1.4.1.4203.1.11.1"}
	for _, c := range []struct {
		channel auth.Channel
		request op.Request
		code    op.Code
	}{
		{nil, &op.Bind{Version: 3, Name: annDN, Password: []byte("ann")}, op.ConfidentialityRequired},
		{nil, &op.Bind{Version: 3, Name: annDN, Password: []byte("wrong")}, op.ConfidentialityRequired},
		{nil, &op.Bind{Version: 3}, op.Success},
		{nil, modify, op.ConfidentialityRequired},
		{inTLS, &op.Bind{Version: 3, Name: annDN, Password: []byte("ann")}, op.Success},
		{inTLS, modify, op.UnwillingToPerform},
		{simPeer{local: true}, &op.Bind{Version: 3, Name: annDN, Password: []byte("ann")}, op.Success},
	} {
		var out answers
		protected.NewSession(c.channel).Serve(t.Context(), &op.Message{Request: c.request}, &out)
		if out.done.Code != c.code {
			t.Errorf("%+v: %v", c.request, &out.done.Result)
		}
	}
}

// scramBind runs a SCRAM client. It returns the last answer and the salt received.
func scramBind(t testing.TB, s *directory.Session, mechanism, name, password, authzID string) (r *op.Response, salt string) {
	t.Helper()
	base, _ := strings.CutSuffix(mechanism, auth.Plus)
	hash := map[string]scram.HashGeneratorFcn{"SCRAM-SHA-1": scram.SHA1, "SCRAM-SHA-256": scram.SHA256, "SCRAM-SHA-512": scram.SHA512}[base]
	client, err := hash.NewClient(name, password, authzID)
	if err != nil {
		t.Fatal(err)
	}
	conv := client.NewConversation()
	challenge := ""
	for {
		message, err := conv.Step(challenge)
		if err != nil {
			return r, salt
		}
		r = send(t, s, mechanism, []byte(message))
		if r.Code != op.SASLBindInProgress {
			break
		}
		challenge = string(r.SASLCredentials)
		salt = strings.Split(challenge, ",")[1]
	}
	if r.Code == op.Success {
		if _, err := conv.Step(string(r.SASLCredentials)); err != nil || !conv.Valid() {
			t.Errorf("the server has not proved who it is: %v", err)
		}
	}
	return r, salt
}

func TestScram(t *testing.T) {
	d := newUsers(t, directory.Options{})
	for _, m := range []string{"SCRAM-SHA-1", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		for _, c := range []struct {
			name, password, authzID string
			code                    op.Code
			who                     string
		}{
			{"ann", "ann", "", op.Success, annDN},
			{"ANN", "ann", "u:ann", op.Success, annDN},
			{"dn:" + annDN, "ann", "", op.Success, annDN},
			{"ann", "wrong", "", op.InvalidCredentials, ""},
			{"ann", "ann", "u:bob", op.InvalidCredentials, ""},
			{"twin", "twin", "", op.InvalidCredentials, ""},
			{"nobody", "ann", "", op.InvalidCredentials, ""},
			{"dn:" + admin, "secret", "", op.InvalidCredentials, ""},
		} {
			s := d.NewSession(nil)
			r, _ := scramBind(t, s, m, c.name, c.password, c.authzID)
			if r.Code != c.code || s.Name() != c.who {
				t.Errorf("%s, %s, %s: %v as %q", m, c.name, c.password, &r.Result, s.Name())
			}
		}
	}
}

// TestScramOfAdministrator checks that the administrator's keys are those of the
// configuration.
func TestScramOfAdministrator(t *testing.T) {
	keys, err := auth.New(1, nil).ScramKeys(t.Context(), auth.NoChannel{}, []string{"SCRAM-SHA-256"}, []byte("another secret"))
	if err != nil {
		t.Fatal(err)
	}
	d := newUsers(t, directory.Options{AdminKeys: keys})
	for _, c := range []struct {
		mechanism, password string
		code                op.Code
		who                 string
	}{
		{"SCRAM-SHA-256", "another secret", op.Success, admin},
		{"SCRAM-SHA-256", "secret", op.InvalidCredentials, ""},
		{"SCRAM-SHA-512", "another secret", op.InvalidCredentials, ""}, // the administrator has no key for this mechanism
	} {
		s := d.NewSession(nil)
		if r, _ := scramBind(t, s, c.mechanism, "dn:"+admin, c.password, ""); r.Code != c.code || s.Name() != c.who {
			t.Errorf("%s with %q: %v as %q", c.mechanism, c.password, &r.Result, s.Name())
		}
	}
	s := d.NewSession(nil)
	if r, _ := scramBind(t, s, "SCRAM-SHA-256", "dn:"+admin, "another secret", "u:ann"); r.Code != op.Success || s.Name() != annDN {
		t.Errorf("as ann: %v as %q", &r.Result, s.Name())
	}
}

// TestFakeSaltsOfServersAgree checks that servers of one store use the same salts for
// unknown names, whatever the passwords of the servers' administrators are.
func TestFakeSaltsOfServersAgree(t *testing.T) {
	p := newPartition(t)
	secret, err := write.Secret(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	salts := map[string]bool{}
	for _, hash := range []string{adminPassword, "{SSHA}AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="} {
		d, err := directory.New(p, directory.Options{Admin: admin, AdminPassword: hash, Secret: secret, Mechanisms: auth.Mechanisms})
		if err != nil {
			t.Fatal(err)
		}
		_, salt := scramBind(t, d.NewSession(nil), "SCRAM-SHA-256", "nobody", "x", "")
		salts[salt] = true
	}
	if len(salts) != 1 {
		t.Errorf("salts: %v", salts)
	}
}

// TestScramOfNobody checks that SCRAM sends a challenge also for an unknown name, and for a
// name without keys. The salt in the challenge must always be the same for one name, in
// every spelling.
func TestScramOfNobody(t *testing.T) {
	d := newUsers(t, directory.Options{})
	s := d.NewSession(nil)
	serve(t, s, &op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
	serve(t, s, &op.Add{Name: "uid=hashed,dc=example,dc=com", Attributes: person("hashed", line{"userPassword", adminPassword})})
	shape := func(text string) string {
		parts := strings.Split(text, ",")
		return fmt.Sprint(len(parts[0]), len(parts[1]), parts[2:])
	}
	seen := map[string]string{}
	like := ""
	for _, name := range []string{"ann", "nobody", "hashed", "twin", "dn:uid=x,dc=example,dc=com", "dn:" + admin} {
		spellings := []string{name, strings.ToUpper(name[:3]) + name[3:], name}
		if strings.HasPrefix(name, "dn:") {
			spellings[1] = strings.ReplaceAll(name, ",dc=", ", DC = ")
		}
		for _, spelled := range spellings {
			client, err := scram.SHA256.NewClient(spelled, "wrong", "")
			if err != nil {
				t.Fatal(err)
			}
			conv := client.NewConversation()
			first, _ := conv.Step("")
			r := send(t, s, "SCRAM-SHA-256", []byte(first))
			challenge := string(r.SASLCredentials)
			salt := strings.Split(challenge, ",")[1]
			if old, ok := seen[name]; ok && old != salt {
				t.Errorf("%s: the salt of %s differs", name, spelled)
			}
			seen[name] = salt
			if like == "" {
				like = shape(challenge)
			}
			if got := shape(challenge); got != like || r.Code != op.SASLBindInProgress || r.Diagnostic != "" {
				t.Errorf("%s: %s, %v", name, challenge, &r.Result)
			}
			final, err := conv.Step(challenge)
			if err != nil {
				t.Fatal(err)
			}
			r = send(t, s, "SCRAM-SHA-256", []byte(final))
			if r.Code != op.InvalidCredentials || r.Diagnostic != "" || string(r.SASLCredentials) != "e=invalid-proof" {
				t.Errorf("%s: %v %q", name, &r.Result, r.SASLCredentials)
			}
		}
	}
	if len(seen) != 6 || seen["nobody"] == seen["twin"] {
		t.Errorf("%v", seen)
	}
}

// TestExchangesAreAbandoned checks that any other bind request abandons a SASL exchange, and
// that a search in between does not.
func TestExchangesAreAbandoned(t *testing.T) {
	d := newUsers(t, directory.Options{})
	client, err := scram.SHA256.NewClient("ann", "ann", "")
	if err != nil {
		t.Fatal(err)
	}
	for name, between := range map[string]func(s *directory.Session){
		"nothing":           nil,
		"a search":          func(s *directory.Session) { serve(t, s, &op.Search{Filter: filter.MustParse("(objectClass=*)")}) },
		"another mechanism": func(s *directory.Session) { send(t, s, "SCRAM-SHA-1", []byte("n,,n=ann,r=x")) },
		"no mechanism":      func(s *directory.Session) { send(t, s, "", nil) },
		"an unknown one":    func(s *directory.Session) { send(t, s, "X", nil) },
		"a simple bind":     func(s *directory.Session) { serve(t, s, &op.Bind{Version: 3}) },
		"a wrong version": func(s *directory.Session) {
			var out answers
			s.Serve(t.Context(), &op.Message{Request: &op.Bind{Version: 2, SASL: true, Mechanism: "SCRAM-SHA-256"}}, &out)
		},
		"an unknown control": func(s *directory.Session) {
			var out answers
			s.Serve(t.Context(), &op.Message{Request: &op.Bind{Version: 3, SASL: true, Mechanism: "SCRAM-SHA-256"},
				Controls: []op.Control{{OID: "1.2.3", Critical: true}}}, &out)
		},
	} {
		s := d.NewSession(nil)
		conv := client.NewConversation()
		first, _ := conv.Step("")
		r := send(t, s, "SCRAM-SHA-256", []byte(first))
		if s.Name() != "" {
			t.Errorf("%s: bound too early", name)
		}
		if between != nil {
			between(s)
		}
		final, err := conv.Step(string(r.SASLCredentials))
		if err != nil {
			t.Fatal(err)
		}
		goesOn := name == "nothing" || name == "a search"
		if r := send(t, s, "SCRAM-SHA-256", []byte(final)); (r.Code == op.Success) != goesOn {
			t.Errorf("%s: %v", name, &r.Result)
		}
		// A finished exchange cannot continue, so the server must refuse the same
		// proof the second time.
		if r := send(t, s, "SCRAM-SHA-256", []byte(final)); r.Code != op.ProtocolError || s.Name() != "" {
			t.Errorf("%s, once more: %v as %q", name, &r.Result, s.Name())
		}
		if r, _ := scramBind(t, s, "SCRAM-SHA-256", "ann", "ann", ""); r.Code != op.Success {
			t.Errorf("%s, anew: %v", name, &r.Result)
		}
	}
}

// TestEmptyInitialResponse checks that the server requests the client's first message if a
// bind contains no such message.
func TestEmptyInitialResponse(t *testing.T) {
	d := newUsers(t, directory.Options{})
	s := d.NewSession(inTLS)
	r := send(t, s, "PLAIN", nil)
	if r.Code != op.SASLBindInProgress || r.SASLCredentials != nil {
		t.Errorf("%v, %q", &r.Result, r.SASLCredentials)
	}
	if r := send(t, s, "PLAIN", plain("", "ann", "ann")); r.Code != op.Success || s.Name() != annDN {
		t.Errorf("%v", &r.Result)
	}
	if r := send(t, s, "PLAIN", []byte{}); r.Code != op.ProtocolError {
		t.Errorf("an empty message: %v", &r.Result)
	}
}

// TestScramKeysFollowPasswords checks that keys belong to the last password that was set
// in clear. Any other change of passwords must delete the keys.
func TestScramKeysFollowPasswords(t *testing.T) {
	d := newUsers(t, directory.Options{})
	root, user := d.NewSession(nil), d.NewSession(nil)
	login := func() {
		serve(t, root, &op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
	}
	login()
	modify := func(ls ...line) func() {
		return func() { serve(t, root, &op.Modify{Name: annDN, Changes: changes(ls)}) }
	}
	exop := func(s *directory.Session, fields ...string) func() {
		return func() {
			serve(t, s, extended("passwd: "+strings.Join(fields, " | ")))
		}
	}
	var stolen []byte
	before := "wrong"
	for _, c := range []struct {
		name   string
		do     func()
		now    string // the password that SCRAM accepts; "" for none
		simple string // the password that a simple bind accepts
	}{
		{"added", func() {}, "ann", "ann"},
		{"replaced", modify(line{"replace userPassword", "two"}), "two", "two"},
		{"a hash", modify(line{"replace userPassword", adminPassword}), "", "secret"},
		{"another one besides", modify(line{"add userPassword", "three"}), "three", "secret"},
		{"the hash goes", modify(line{"delete userPassword", adminPassword}), "", "three"},
		{"old for new", modify(line{"delete userPassword", "three"}, line{"add userPassword", "four"}), "four", "four"},
		{"new for old", modify(line{"add userPassword", "five"}, line{"delete userPassword", "four"}), "five", "five"},
		{"something else", modify(line{"replace description", "x"}), "five", "five"},
		{"all go", modify(line{"delete userPassword", ""}), "", ""},
		{"by option", modify(line{"add userPassword;lang-a", "six"}), "six", "six"},
		{"exop", exop(root, annDN, "-", "seven"), "seven", "seven"},
		{"exop by name", exop(root, "u:ann", "-", "eight"), "eight", "eight"},
		{"what looks like a hash", exop(root, "u:ann", "-", "{SSHA}x"), "{SSHA}x", "{SSHA}x"},
		{"the user's exop", func() {
			serve(t, user, &op.Bind{Version: 3, Name: annDN, Password: []byte("{SSHA}x")})
			exop(user, "-", "{SSHA}x", "nine")()
		}, "nine", "nine"},
		{"keys given", func() {
			k := auth.FakeScramKey("SCRAM-SHA-256", nil, "")
			stolen = fmt.Appendf(nil, "SCRAM-SHA-256$%d:%s$%s", k.Iters, "AAAA", "x")
			modify(line{"replace userPassword", adminPassword}, line{"replace scramKey", string(stolen)})()
		}, "", "secret"},
	} {
		c.do()
		for _, p := range []string{before, cmp.Or(c.now, c.simple, "wrong")} {
			r, _ := scramBind(t, user, "SCRAM-SHA-256", "ann", p, "")
			if (r.Code == op.Success) != (p == c.now) {
				t.Errorf("%s: SCRAM with %q: %v", c.name, p, &r.Result)
			}
		}
		before = cmp.Or(c.now, before)
		var out answers
		user.Serve(t.Context(), &op.Message{Request: &op.Bind{Version: 3, Name: annDN, Password: []byte(cmp.Or(c.simple, "x"))}}, &out)
		if (out.done.Code == op.Success) != (c.simple != "") {
			t.Errorf("%s: simple bind: %v", c.name, &out.done.Result)
		}
	}
	// The administrator sees the keys if they are requested by name. Nobody else sees
	// them.
	for _, c := range []struct {
		s    *directory.Session
		want bool
	}{{root, true}, {user, false}} {
		var out answers
		c.s.Serve(t.Context(), &op.Message{Request: &op.Search{Base: annDN, Filter: filter.MustParse("(objectClass=*)"),
			Attributes: []string{"scramKey", "+"}}}, &out)
		if strings.Contains(out.entries[0], "scramKey") != c.want {
			t.Errorf("%s", out.entries[0])
		}
	}
}

// TestAuthPassword checks that SCRAM works with keys in authPassword, where RFC 5803 stores
// them.
func TestAuthPassword(t *testing.T) {
	d := newUsers(t, directory.Options{})
	s := d.NewSession(nil)
	serve(t, s, &op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
	keys, err := auth.New(1, nil).ScramKeys(t.Context(), auth.NoChannel{}, []string{"SCRAM-SHA-1"}, []byte("brought"))
	if err != nil {
		t.Fatal(err)
	}
	serve(t, s, &op.Add{Name: "uid=carl,dc=example,dc=com",
		Attributes: person("carl", line{"objectClass", "authPasswordObject"}, line{"authPassword", string(keys[0])})})
	if r, _ := scramBind(t, s, "SCRAM-SHA-1", "carl", "brought", ""); r.Code != op.Success {
		t.Errorf("%v", &r.Result)
	}
	if r, _ := scramBind(t, s, "SCRAM-SHA-256", "carl", "brought", ""); r.Code != op.InvalidCredentials {
		t.Errorf("%v", &r.Result)
	}
}

// TestPasswordChangesDuringExchange checks that a SCRAM exchange in progress fails if the
// password is changed or the entry is deleted.
func TestPasswordChangesDuringExchange(t *testing.T) {
	d := newUsers(t, directory.Options{})
	root, s := d.NewSession(nil), d.NewSession(nil)
	serve(t, root, &op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
	for _, change := range []op.Request{
		&op.Modify{Name: annDN, Changes: changes([]line{{"replace userPassword", "new"}})},
		&op.Delete{Name: bobDN},
	} {
		name := map[bool]string{true: "ann", false: "bob"}[slices.Contains([]string{annDN}, nameOf(change))]
		client, err := scram.SHA256.NewClient(name, name, "")
		if err != nil {
			t.Fatal(err)
		}
		conv := client.NewConversation()
		first, _ := conv.Step("")
		r := send(t, s, "SCRAM-SHA-256", []byte(first))
		serve(t, root, change)
		final, err := conv.Step(string(r.SASLCredentials))
		if err != nil {
			t.Fatal(err)
		}
		if r := send(t, s, "SCRAM-SHA-256", []byte(final)); r.Code != op.InvalidCredentials || string(r.SASLCredentials) != "e=invalid-proof" {
			t.Errorf("%s: %v", name, &r.Result)
		}
	}
}

func nameOf(r op.Request) string {
	if m, ok := r.(*op.Modify); ok {
		return m.Name
	}
	return r.(*op.Delete).Name
}

func rules(t testing.TB, texts ...string) (rs []*auth.Rule) {
	t.Helper()
	for _, text := range texts {
		r, err := auth.ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		rs = append(rs, r)
	}
	return rs
}

// withCertificate returns a connection whose client has sent a certificate. The arguments
// after mail are the AVAs of the certificate's subject, in the order of a DN: the most
// general comes last.
func withCertificate(t testing.TB, mail string, subject ...pkix.AttributeTypeAndValue) simPeer {
	t.Helper()
	slices.Reverse(subject)
	var rdns pkix.RDNSequence
	for _, a := range subject {
		rdns = append(rdns, pkix.RelativeDistinguishedNameSET{a})
	}
	raw, err := asn1.Marshal(rdns)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{RawSubject: raw, EmailAddresses: []string{mail}}
	return simPeer{state: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}, VerifiedChains: [][]*x509.Certificate{{cert}}}}
}

func ava(value string, oid ...int) pkix.AttributeTypeAndValue {
	return pkix.AttributeTypeAndValue{Type: oid, Value: value}
}

func TestExternal(t *testing.T) {
	d := newUsers(t, directory.Options{})
	dc := []int{0, 9, 2342, 19200300, 100, 1, 25}
	uid := []int{0, 9, 2342, 19200300, 100, 1, 1}
	named := func(u string) simPeer {
		return withCertificate(t, "", ava(u, uid...), ava("example", dc...), ava("com", dc...))
	}
	cn := withCertificate(t, "bob@example.com", ava("Somebody", 2, 5, 4, 3))
	root := withCertificate(t, "", ava("admin", 2, 5, 4, 3), ava("example", dc...), ava("com", dc...))
	peer := "gidNumber=100+uidNumber=1000,cn=peercred,cn=external,cn=auth"
	byMail := rules(t, `mail:(.+)@example\.com -> ldap:///??sub?(uid=$1)`)
	toAdmin := rules(t, `dn:gidNumber=100\+uidNumber=1000,cn=peercred,cn=external,cn=auth -> `+admin)
	bare := rules(t, "dn:(.+) -> dn:$1")
	unknown := withCertificate(t, "", ava("x@y", 1, 2, 840, 113549, 1, 9, 1), ava("Example", 2, 5, 4, 10))
	for _, c := range []struct {
		name    string
		channel auth.Channel
		rules   []*auth.Rule
		authzID []byte
		code    op.Code
		who     string
	}{
		{"subject", named("ann"), nil, nil, op.Success, annDN},
		{"subject, empty authzid", named("ann"), nil, []byte{}, op.Success, annDN},
		{"subject, itself", named("ann"), nil, []byte("dn:" + annDN), op.Success, annDN},
		{"subject, itself by name", named("ann"), nil, []byte("u:ann"), op.Success, annDN},
		{"subject, another", named("ann"), nil, []byte("u:bob"), op.InvalidCredentials, ""},
		{"subject, nobody", named("ann"), nil, []byte("u:nobody"), op.InvalidCredentials, ""},
		{"unknown subject", named("zoe"), nil, nil, op.InvalidCredentials, ""},
		{"the administrator's subject", root, nil, nil, op.InvalidCredentials, ""},
		{"no rule for it", cn, nil, nil, op.InvalidCredentials, ""},
		{"mail", cn, byMail, nil, op.Success, bobDN},
		{"no certificate", inTLS, nil, nil, op.InappropriateAuthentication, ""},
		{"peer", simPeer{local: true}, nil, nil, op.Success, peer},
		{"peer, itself", simPeer{local: true}, nil, []byte("dn:" + peer), op.Success, peer},
		{"peer, another", simPeer{local: true}, nil, []byte("u:ann"), op.InvalidCredentials, ""},
		{"peer, the administrator", simPeer{local: true}, toAdmin, nil, op.Success, admin},
		{"peer, as administrator another", simPeer{local: true}, toAdmin, []byte("dn:" + annDN), op.Success, annDN},
		{"a name without an entry", named("zoe"), bare, nil, op.Success, "uid=zoe,dc=example,dc=com"},
		{"a name without an entry, itself", named("zoe"), bare, []byte("dn:UID=Zoe, dc=example,dc=com"), op.Success, "uid=zoe,dc=example,dc=com"},
		{"a name without an entry, another", named("zoe"), bare, []byte("dn:" + annDN), op.InvalidCredentials, ""},
		{"a name with an entry", named("ANN"), bare, nil, op.Success, annDN},
		{"a name of types that are not known", unknown, bare, nil, op.Success, "emailAddress=x@y,o=Example"},
		{"the administrator's name", root, bare, nil, op.InvalidCredentials, ""},
		{"as administrator a name without an entry", simPeer{local: true}, slices.Concat(toAdmin, rules(t, "u:(.+) -> dn:uid=$1,o=out")), []byte("u:zoe"), op.Success, "uid=zoe,o=out"},
		{"a rule to nowhere", simPeer{local: true}, rules(t, "dn:.* -> cn=nobody,dc=example,dc=com"), nil, op.InvalidCredentials, ""},
		{"a rule to two", simPeer{local: true}, rules(t, "dn:.* -> ldap:///dc=example,dc=com??one?(uid=twin)"), nil, op.InvalidCredentials, ""},
		{"a rule by a chain", simPeer{local: true}, rules(t, "dn:.* -> ldap:///dc=example,dc=com??one?(|(uid=ann)(seeAlso:inChainMatch:=uid=bob,dc=example,dc=com))"), nil, op.Success, annDN},
		{"a rule to a base that is not there", simPeer{local: true}, rules(t, "dn:.* -> ldap:///dc=x??one?(uid=ann)"), nil, op.InvalidCredentials, ""},
	} {
		o := directory.Options{Identities: c.rules}
		s := newDirectory(t, directory.PartitionOf(d), o).NewSession(c.channel)
		r := send(t, s, "EXTERNAL", c.authzID)
		if r.Code != c.code || s.Name() != c.who {
			t.Errorf("%s: %v as %q", c.name, &r.Result, s.Name())
		}
		if r.Code == op.InvalidCredentials && r.Diagnostic != "" {
			t.Errorf("%s: says more: %s", c.name, r.Diagnostic)
		}
	}
	for _, c := range []struct {
		name    string
		channel auth.Channel
	}{{peer, simPeer{local: true}}, {"uid=zoe,dc=example,dc=com", named("zoe")}} {
		d := newDirectory(t, directory.PartitionOf(d), directory.Options{Identities: bare})
		readsOnly(t, d.NewSession(c.channel), c.name)
	}
}

// readsOnly binds as an identity without an entry. It checks that this identity may read
// what everybody may read, and may write nothing.
func readsOnly(t *testing.T, s *directory.Session, name string) {
	t.Helper()
	send(t, s, "EXTERNAL", nil)
	var out answers
	s.Serve(t.Context(), &op.Message{Request: &op.Modify{Name: annDN, Changes: changes([]line{{"replace userPassword", "x"}})}}, &out)
	if out.done.Code != op.InsufficientAccessRights {
		t.Errorf("%v", &out.done.Result)
	}
	s.Serve(t.Context(), &op.Message{Request: &op.Extended{OID: "1.3.6.1.4.1.4203.1.11.3"}}, &out)
	if !bytes.Equal(out.done.Value, []byte("dn:"+name)) {
		t.Errorf("%q", out.done.Value)
	}
	s.Serve(t.Context(), &op.Message{Request: &op.Search{Base: annDN, Filter: filter.MustParse("(objectClass=*)")}}, &out)
	if out.done.Code != op.Success || len(out.entries) != 1 {
		t.Errorf("%v, %q", &out.done.Result, out.entries)
	}
}

// TestNameWithoutEntryHasNoPassword checks that PLAIN and SCRAM refuse a name without an
// entry, because such a name has no password.
func TestNameWithoutEntryHasNoPassword(t *testing.T) {
	d := newUsers(t, directory.Options{})
	d = newDirectory(t, directory.PartitionOf(d), directory.Options{Identities: rules(t, "u:(.+) -> dn:uid=$1,o=out"), Mechanisms: auth.Mechanisms})
	s := d.NewSession(inTLS)
	if r := send(t, s, "PLAIN", plain("", "zoe", "zoe")); r.Code != op.InvalidCredentials {
		t.Errorf("PLAIN: %v", &r.Result)
	}
	if r, _ := scramBind(t, s, "SCRAM-SHA-256", "zoe", "zoe", ""); r.Code != op.InvalidCredentials {
		t.Errorf("SCRAM: %v", &r.Result)
	}
}

// TestCertificateInEntry checks that the entry of a client must contain the client's
// certificate as a value of userCertificate, if the configuration says so.
func TestCertificateInEntry(t *testing.T) {
	_, p, root := withPolicy(t)
	ca := certstest.New(t)
	certificate, other := ca.Client(pkix.Name{CommonName: "Ann"}, nil), ca.Client(pkix.Name{CommonName: "Ann"}, nil)
	byName := rules(t, "dn:cn=Ann -> "+annDN)
	strict := newDirectory(t, p, directory.Options{Mechanisms: auth.Mechanisms, CertificateInEntry: true, Identities: byName})
	t.Cleanup(strict.Close)
	lax := newDirectory(t, p, directory.Options{Mechanisms: auth.Mechanisms, Identities: byName})
	t.Cleanup(lax.Close)
	of := func(c tls.Certificate) simPeer {
		chain := []*x509.Certificate{c.Leaf}
		return simPeer{state: &tls.ConnectionState{PeerCertificates: chain, VerifiedChains: [][]*x509.Certificate{chain}}}
	}
	put := func(kind op.ModKind, values ...[]byte) {
		t.Helper()
		serve(t, root, &op.Modify{Name: annDN, Changes: []op.Modification{{Kind: kind, PartialAttribute: op.PartialAttribute{Description: "userCertificate;binary", Values: values}}}})
	}
	for _, c := range []struct {
		what        string
		change      func()
		own, others op.Code
	}{
		{"none in the entry", func() {}, op.InvalidCredentials, op.InvalidCredentials},
		{"another one", func() { put(op.ModAdd, other.Certificate[0]) }, op.InvalidCredentials, op.Success},
		{"both", func() { put(op.ModAdd, certificate.Certificate[0]) }, op.Success, op.Success},
		{"one taken away", func() { put(op.ModDelete, other.Certificate[0]) }, op.Success, op.InvalidCredentials},
	} {
		c.change()
		if r := send(t, strict.NewSession(of(certificate)), "EXTERNAL", nil); r.Code != c.own {
			t.Errorf("%s: %v", c.what, &r.Result)
		}
		if r := send(t, strict.NewSession(of(other)), "EXTERNAL", nil); r.Code != c.others {
			t.Errorf("%s, the other certificate: %v", c.what, &r.Result)
		}
		if r := send(t, lax.NewSession(of(other)), "EXTERNAL", nil); r.Code != op.Success {
			t.Errorf("%s, where it need not be there: %v", c.what, &r.Result)
		}
	}
	// A process on this machine has no certificate.
	if r := send(t, strict.NewSession(simPeer{local: true}), "EXTERNAL", nil); r.Code != op.Success {
		t.Errorf("a process: %v", &r.Result)
	}
}
