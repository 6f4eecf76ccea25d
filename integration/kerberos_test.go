package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/store/hbase/hbasetest"
)

// A realm is a KDC, and a server whose keytab has a key of it. Ann and the clerk have tickets in caches.
type realm struct {
	*process
	kdc   *hbasetest.KDC
	files *tlsFiles
	dir   string
}

func newRealm(t *testing.T) *realm {
	for _, name := range []string{"kinit", "ldapwhoami"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%v (Debian's krb5-user and ldap-utils)", err)
		}
	}
	if plugins, err := filepath.Glob("/usr/lib/*/sasl2/libgssapiv2.so"); err != nil || len(plugins) == 0 {
		t.Skip("no GSSAPI for ldapwhoami (Debian's libsasl2-modules-gssapi-mit)")
	}
	r := &realm{kdc: hbasetest.StartKDC(t), files: newTLS(t), dir: t.TempDir()}
	// The ticket names the host as the URL does. (libldap compares a certificate with this machine's own name if the
	// URL has localhost.)
	keytab := r.kdc.Keytab("ldap/127.0.0.1", "HTTP/127.0.0.1")
	clients := r.kdc.Keytab("ann", "clerk", "nobody")
	for _, who := range []string{"ann", "clerk", "nobody"} {
		r.run(t, nil, "kinit", "-c", r.cache(who), "-k", "-t", clients, who+"@"+hbasetest.Realm)
	}
	store := filepath.Join(t.TempDir(), "store")
	importInto(t, store, example, serviceEntry(t, "sssd"))
	r.process = serve(t, store, append(r.files.flags(), "--listen", "ldap://127.0.0.1:0", "--listen", "ldaps://127.0.0.1:0", "--sasl-keytab", keytab,
		"--sasl-identity", `krb:clerk@EXAMPLE\.COM -> `+adminDN,
		"--sasl-identity", `krb:host/[^@]+@EXAMPLE\.COM -> uid=sssd,ou=services,`+suffix,
		"--sasl-identity", `krb:([^/@]+)@EXAMPLE\.COM -> ldap:///??sub?(uid=$1)`)...)
	ann := ldap.NewAddRequest(annDN, nil)
	for a, v := range map[string]string{"objectClass": "inetOrgPerson", "cn": "Ann", "sn": "Ann", "userPassword": annPassword} {
		ann.Attribute(a, []string{v})
	}
	if err := r.admin().Add(ann); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *realm) cache(who string) string { return "FILE:" + filepath.Join(r.dir, who) }

// run runs a command, and returns what it prints.
func (r *realm) run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	out, err := r.try(env, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

func (r *realm) try(env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), append(env, "KRB5_CONFIG="+r.kdc.Config, "LDAPTLS_CACERT="+r.files.ca, "LDAPSASL_NOCANON=on")...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestKerberos binds with tickets of MIT's KDC.
func TestKerberos(t *testing.T) {
	t.Parallel()
	r := newRealm(t)
	t.Run("ldapwhoami", r.ldapwhoami)
	t.Run("large", r.large)
	t.Run("JNDI", r.java)
	t.Run("sssd", r.sssd)
}

// sssd asks with the key of its machine, as sssd does that belongs to a realm.
func (r *realm) sssd(t *testing.T) {
	wantSSSD(t)
	conf := strings.NewReplacer("URL", r.urls[0], "KDC", r.kdc.Addr, "KEYTAB", r.kdc.Keytab("host/machine.example.com")).Replace(`[sssd]
services = nss
domains = example
[domain/example]
id_provider = ldap
auth_provider = none
ldap_uri = URL
ldap_search_base = dc=example,dc=com
ldap_schema = rfc2307
ldap_sasl_mech = GSSAPI
ldap_sasl_authid = host/machine.example.com
ldap_sasl_realm = EXAMPLE.COM
ldap_krb5_keytab = KEYTAB
krb5_server = KDC
`)
	askScript(t, "sssd.sh", writeIn(t, t.TempDir(), "sssd.conf", conf), getent, "KRB5_CONFIG="+r.kdc.Config, "LDAPSASL_NOCANON=on")
}

// ldapwhoami binds with OpenLDAP's client, with each security layer, in clear and in TLS.
func (r *realm) ldapwhoami(t *testing.T) {
	clear, tls := []string{"-H", r.urls[0]}, []string{"-H", r.urls[1]}
	startTLS := append([]string{"-ZZ"}, clear...)
	seal, sign, none := []string{"-O", "minssf=56"}, []string{"-O", "maxssf=1,minssf=1"}, []string{"-O", "maxssf=0"}
	for _, c := range []struct {
		name, who string
		args      [][]string
		want      string // the name, or a part of what is printed if it is refused
	}{
		{"sealed", "ann", [][]string{clear, seal, {"-Y", "GSSAPI"}}, annDN},
		{"signed", "ann", [][]string{clear, sign, {"-Y", "GSSAPI"}}, annDN},
		{"in clear", "ann", [][]string{clear, none, {"-Y", "GSSAPI"}}, annDN},
		{"TLS", "ann", [][]string{tls, none, {"-Y", "GSSAPI"}}, annDN},
		{"StartTLS", "ann", [][]string{startTLS, none, {"-Y", "GSSAPI"}}, annDN},
		{"TLS, default", "ann", [][]string{tls, {"-Y", "GSSAPI"}}, annDN},
		{"SPNEGO sealed", "ann", [][]string{clear, seal, {"-Y", "GSS-SPNEGO"}}, annDN},
		{"SPNEGO signed", "ann", [][]string{clear, sign, {"-Y", "GSS-SPNEGO"}}, annDN},
		{"SPNEGO in TLS", "ann", [][]string{tls, none, {"-Y", "GSS-SPNEGO"}}, annDN},
		{"SPNEGO in clear", "ann", [][]string{clear, none, {"-Y", "GSS-SPNEGO"}}, "asks for no signing"},
		{"the administrator", "clerk", [][]string{clear, seal, {"-Y", "GSSAPI"}}, adminDN},
		{"as Ann", "clerk", [][]string{clear, seal, {"-Y", "GSSAPI", "-X", "dn:" + annDN}}, annDN},
		{"as the administrator", "ann", [][]string{clear, seal, {"-Y", "GSSAPI", "-X", "dn:" + adminDN}}, "Invalid credentials"},
		{"a principal without an entry", "nobody", [][]string{clear, seal, {"-Y", "GSSAPI"}}, "Invalid credentials"},
		{"no ticket", "stranger", [][]string{clear, seal, {"-Y", "GSSAPI"}}, "Local error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var args []string
			for _, a := range c.args {
				args = append(args, a...)
			}
			out, err := r.try([]string{"KRB5CCNAME=" + r.cache(c.who)}, "ldapwhoami", args...)
			if !strings.Contains(out, c.want) || (err == nil) != strings.HasPrefix(c.want, "uid=") && c.want != adminDN {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// large sends a value that takes many tokens, and reads it, over each layer.
func (r *realm) large(t *testing.T) {
	value := filepath.Join(r.dir, "value")
	large := strings.Repeat("0123456789", 50_000)
	if err := os.WriteFile(value, []byte(large), 0o600); err != nil {
		t.Fatal(err)
	}
	ldif := filepath.Join(r.dir, "change.ldif")
	if err := os.WriteFile(ldif, []byte("dn: "+annDN+"\nchangetype: modify\nreplace: audio\naudio:< file://"+value+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"KRB5CCNAME=" + r.cache("clerk")}
	for _, mechanism := range []string{"GSSAPI", "GSS-SPNEGO"} {
		for _, ssf := range []string{"minssf=1,maxssf=1", "minssf=56"} {
			with := []string{"-H", r.urls[0], "-Q", "-Y", mechanism, "-O", ssf}
			r.run(t, env, "ldapmodify", append(with, "-f", ldif)...)
			out := r.run(t, env, "ldapsearch", append(with, "-LLL", "-o", "ldif-wrap=no", "-b", annDN, "-s", "base", "audio")...)
			if _, got, _ := strings.Cut(out, "audio: "); strings.TrimSpace(got) != large {
				t.Errorf("%s %s: %d octets", mechanism, ssf, len(got))
			}
		}
	}
}

// java binds by JNDI, whose default is no mutual authentication.
func (r *realm) java(t *testing.T) {
	if _, err := exec.LookPath("javac"); err != nil {
		t.Skip(err)
	}
	jaas := filepath.Join(r.dir, "jaas.conf")
	text := "com.sun.security.jgss.initiate {\n com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true doNotPrompt=true ticketCache=\"" +
		strings.TrimPrefix(r.cache("ann"), "FILE:") + "\";\n};\n"
	if err := os.WriteFile(jaas, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out := r.run(t, nil, "java", "-XX:TieredStopAtLevel=1", "-Djava.security.krb5.conf="+r.kdc.Config, "-Djavax.security.auth.useSubjectCredsOnly=false",
		"-Djava.security.auth.login.config="+jaas, "testdata/programs/Kerberos.java", r.urls[0], annDN, "Ann")
	if strings.Count(out, "GSSAPI auth") != 6 {
		t.Error(out)
	}
}
