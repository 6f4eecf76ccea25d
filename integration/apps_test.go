package integration

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	godiff "github.com/google/go-cmp/cmp"
)

var allApps = flag.Bool("apps", false, "run all pages of docs/apps, and unpack their packages")

// apps are the pages of docs/apps that TestApps runs.
var apps = []struct {
	page     string
	packages string // which scripts/unpack unpacks
	start    string // shell; what the machine does when it starts
	extra    bool   // only with -apps: slow, or not worth its packages in every run
	program  string // what is installed, if nothing is unpacked
}{
	{"apache", "", `mkdir -p /mnt/www/private; touch /mnt/www/private/index.html; cd /usr/lib/apache2/modules
		{
			printf '%s\n' 'ServerRoot /mnt' 'ServerName localhost' 'Listen 80' 'ErrorLog /dev/stderr' 'User www-data' 'Group www-data' 'DocumentRoot /mnt/www'
			for m in mpm_prefork authn_core authz_core authz_user auth_basic ldap authnz_ldap dir; do echo LoadModule ${m}_module $PWD/mod_$m.so; done
			echo Include /etc/apache2/conf-enabled/ldap.conf
		} >/mnt/apache.conf
		apache2 -f /mnt/apache.conf & await "ss -ltn | grep :80"`, false, "/usr/lib/apache2/modules/mod_authnz_ldap.so"},
	{"airflow", "flask-appbuilder==5.3.0 python3-ldap", python + `
import logging
logging.disable()
from flask import Flask
from flask_appbuilder import AppBuilder
from flask_appbuilder.utils.legacy import get_sqla_class
app = Flask("login")
app.config.from_pyfile("/etc/airflow/webserver_config.py")
app.config.update(SECRET_KEY="x", SQLALCHEMY_DATABASE_URI="sqlite:////mnt/airflow.db")
db = get_sqla_class()()
db.init_app(app)
with app.app_context():
    builder = AppBuilder(app, db.session)
    user = builder.sm.auth_user_ldap(sys.argv[1], sys.argv[2])
    print(user and f"{user.email} {' '.join(r.name for r in user.roles)}")
P
		chmod 755 /mnt/bin/login`, true, ""},
	{"artemis", "org.apache.activemq/artemis-server/2.42.0", java("-Djava.security.auth.login.config=/etc/artemis/login.config", `
import java.util.*;
import javax.security.auth.callback.*;
import javax.security.auth.login.*;
public class Login {
	public static void main(String[] args) throws Exception {
		var c = new LoginContext("activemq", callbacks -> {
			for (var x : callbacks)
				if (x instanceof NameCallback n) n.setName(args[0]); else if (x instanceof PasswordCallback p) p.setPassword(args[1].toCharArray());
		});
		try {
			c.login();
			var names = new TreeSet<String>();
			for (var p : c.getSubject().getPrincipals()) names.add(p.getClass().getSimpleName() + " " + p.getName());
			System.out.println(String.join(", ", names));
		} catch (LoginException e) {
			e.printStackTrace();
			System.out.println("refused");
		}
	}
}`), true, ""},
	{"autofs", "autofs-ldap", "cp /usr/share/autofs/conffiles/auto.master /etc; sed -i s/^automount:.*/automount:files/ /etc/nsswitch.conf", false, ""},
	{"backstage", "@backstage/plugin-catalog-backend-module-ldap@0.12.9", `cat >/mnt/show.js <<'J'
const fs = require("fs")
const { ConfigReader } = require("@backstage/config")
const { LdapOrgEntityProvider } = require("@backstage/plugin-catalog-backend-module-ldap")
const quiet = { error: console.error, warn: console.error, info() {}, debug() {}, child() { return quiet } }
const [provider] = LdapOrgEntityProvider.fromConfig(new ConfigReader(require("yaml").parse(fs.readFileSync("/etc/backstage/app-config.yaml", "utf8"))), { logger: quiet, schedule: "manual" })
const wanted = process.argv.slice(2)
provider.connect({
  applyMutation: async ({ entities }) => {
    for (const { entity: e } of entities) if (wanted.includes(e.metadata.name)) console.log(e.kind, e.metadata.name, ...(e.spec.memberOf ?? []), e.spec.parent ?? "-")
  },
}).then(() => provider.read()).catch((e) => console.log(e.message)).then(() => process.exit())
J
		printf '#!/bin/sh\nNODE_PATH=/usr/lib/apps/node_modules NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt exec node /mnt/show.js "$@" 2>>/mnt/node.log\n' >/mnt/bin/show
		chmod 755 /mnt/bin/show`, true, "/usr/bin/node"},
	{"dhcp", "isc-dhcp-server-ldap", "", true, ""},
	{"dirmngr", "", `cd /mnt; mkdir -p /etc/gnupg/trusted-certs /mnt/.gnupg; chmod 700 /mnt/.gnupg
		openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -subj "/O=Example Ltd/CN=Example CA" -addext keyUsage=critical,keyCertSign,cRLSign
		openssl x509 -in ca.pem -outform DER -out ca.der; cp ca.der /etc/gnupg/trusted-certs
		touch index; printf '%s\n' '[ca]' 'default_ca = d' '[d]' 'database = index' 'default_md = sha256' 'default_crl_days = 30' 'crl_extensions = e' '[e]' 'authorityKeyIdentifier = keyid' >ca.conf
		openssl ca -config ca.conf -gencrl -keyfile ca.key -cert ca.pem | openssl crl -outform DER -out ca.crl
		openssl req -newkey rsa:2048 -nodes -keyout jdoe.key -subj "/O=Example Ltd/CN=John Doe" -addext subjectAltName=email:jdoe@example.com |
			openssl x509 -req -CA ca.pem -CAkey ca.key -copy_extensions copy -outform DER -out jdoe.der
		printf '%s\n' "dn: cn=Example CA,dc=example,dc=com" "changetype: modify" "add: cACertificate;binary" "cACertificate;binary:< file:///mnt/ca.der" - \
			"add: certificateRevocationList;binary" "certificateRevocationList;binary:< file:///mnt/ca.crl" "" \
			"dn: uid=jdoe,ou=people,dc=example,dc=com" "changetype: modify" "add: userCertificate;binary" "userCertificate;binary:< file:///mnt/jdoe.der" |
			ldapmodify -x -H ldap://localhost -D cn=admin,dc=example,dc=com -w secret`, true, "/usr/bin/dirmngr"},
	{"django", "python3-django-auth-ldap", `cat >/mnt/bin/login <<'P'
#!/usr/bin/python3
import os, sys
sys.path.append("/etc/django")
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
import django, django.core.management, django.contrib.auth
django.setup()
django.core.management.call_command("migrate", verbosity=0)
user = django.contrib.auth.authenticate(username=sys.argv[1], password=sys.argv[2])
print(user and f"{user.email} {user.is_staff}")
P
		chmod 755 /mnt/bin/login`, true, ""},
	{"dovecot", "", `printf '%s\n' 'log_path = /dev/stderr' 'ssl = no' 'protocols =' 'passdb {' 'driver = ldap' 'args = /etc/dovecot/dovecot-ldap.conf.ext' '}' \
			'userdb {' 'driver = ldap' 'args = /etc/dovecot/dovecot-ldap.conf.ext' '}' >/etc/dovecot/dovecot.conf
		dovecot & await "test -S /run/dovecot/auth-userdb"`, false, "/usr/lib/dovecot/modules/auth/libauthdb_ldap.so"},
	{"druid", "org.apache.druid.extensions/druid-basic-security/37.0.0 org.apache.druid/druid-server/37.0.0/jar org.apache.druid/druid-processing/37.0.0/jar com.google.inject/guice/5.1.0 " +
		"com.fasterxml.jackson.core/jackson-databind/2.20.1 org.apache.commons/commons-text/1.14.0 jakarta.validation/jakarta.validation-api/2.0.2 " +
		"javax.servlet/javax.servlet-api/3.1.0 org.eclipse.jetty/jetty-client/12.0.9 org.slf4j/slf4j-simple/2.0.17", java("", `
import com.fasterxml.jackson.databind.*;
import com.google.inject.*;
import com.google.inject.util.Providers;
import java.io.*;
import java.lang.reflect.Proxy;
import java.util.*;
import javax.validation.Validator;
import org.apache.druid.guice.JsonConfigurator;
import org.apache.druid.security.basic.*;
import org.apache.druid.security.basic.authentication.BasicHTTPAuthenticator;
import org.apache.druid.security.basic.authentication.validator.LDAPCredentialsValidator;
import org.apache.druid.security.basic.authorization.*;
import org.apache.druid.security.basic.authorization.db.cache.BasicAuthorizerCacheManager;
import org.apache.druid.security.basic.authorization.entity.BasicAuthorizerGroupMapping;
import org.apache.druid.server.security.*;
public class Login {
	@SuppressWarnings("unchecked")
	static <T> T fake(Class<T> type, Object result) {
		return (T) Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (proxy, method, args) -> result);
	}
	public static void main(String[] args) throws Exception {
		var properties = new Properties();
		properties.load(new FileReader("/etc/druid/common.runtime.properties"));
		var mapper = new ObjectMapper().configure(MapperFeature.AUTO_DETECT_GETTERS, false).configure(MapperFeature.AUTO_DETECT_IS_GETTERS, false)
			.configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);
		mapper.registerSubtypes(BasicHTTPAuthenticator.class, LDAPCredentialsValidator.class, LDAPRoleProvider.class);
		var mapping = mapper.readValue(new File("/etc/druid/engineering.json"), BasicAuthorizerGroupMapping.class);
		mapper.setInjectableValues(new InjectableValues() {
			public Object findInjectableValue(Object id, DeserializationContext c, BeanProperty p, Object bean) {
				return id.equals(BasicAuthorizerCacheManager.class.getName()) ? fake(BasicAuthorizerCacheManager.class, Map.of(mapping.getName(), mapping)) : Providers.of(null);
			}
		});
		var configurator = new JsonConfigurator(mapper, fake(Validator.class, Set.of()));
		Guice.createInjector(b -> {
			b.bind(BasicAuthSSLConfig.class).toInstance(configurator.configurate(properties, "druid.auth.basic.ssl", BasicAuthSSLConfig.class));
			b.bind(TLSCertificateChecker.class).to(DefaultTLSCertificateChecker.class);
			b.requestStaticInjection(BasicSecuritySSLSocketFactory.class);
		});
		var authenticator = configurator.configurate(properties, "druid.auth.authenticator.ldap", Authenticator.class);
		var roles = configurator.configurate(properties, "druid.auth.authorizer.ldap.roleProvider", RoleProvider.class);
		try {
			var result = authenticator.authenticateJDBCContext(Map.of("user", args[0], "password", args[1]));
			System.out.println(result == null ? "unknown" : result.getIdentity() + " " + roles.getRoles("ldap", result));
		} catch (BasicSecurityAuthenticationException e) {
			System.out.println(e.getMessage());
		}
	}
}`) + "; ln -s /mnt/trust /etc/druid/trust.jks", true, ""},
	{"exim", "exim4-daemon-heavy", "useradd -r Debian-exim; chgrp Debian-exim /etc/exim4/exim4.conf", false, ""},
	{"freeradius", "", `cd /etc/freeradius/3.0
		{
			printf '%s\n' 'libdir = /usr/lib/freeradius' 'logdir = /mnt' 'run_dir = /mnt' 'client localhost {' 'ipaddr = 127.0.0.1' 'secret = testing123' '}'
			printf '%s\n' 'modules {' '$INCLUDE mods-enabled/ldap' '}'
			printf '%s\n' 'server default {' 'listen {' 'type = auth' 'ipaddr = 127.0.0.1' 'port = 1812' '}' '$INCLUDE sites-enabled/default' '}'
		} >radiusd.conf
		freeradius -d . -D /usr/share/freeradius -X & await "ss -lun | grep :1812"`, false, "/usr/lib/freeradius/rlm_ldap.so"},
	{"hadoop", "", `cat >/mnt/Groups.java <<'J'
public class Groups {
	public static void main(String[] args) throws Exception {
		var conf = new org.apache.hadoop.conf.Configuration();
		conf.addResource(new org.apache.hadoop.fs.Path("/etc/hadoop/core-site.xml"));
		String groups = "";
		try {
			groups = String.join(" ", new java.util.TreeSet<>(new org.apache.hadoop.security.Groups(conf).getGroups(args[1])));
		} catch (java.io.IOException e) { // no groups
		}
		System.out.println((args[1] + " : " + groups).trim());
	}
}
J
		keytool -importcert -noprompt -alias ca -file /etc/ssl/certs/ca-certificates.crt -keystore /mnt/trust -storepass changeit
		printf '#!/bin/sh\nexec java -Djavax.net.ssl.trustStore=/mnt/trust -Djavax.net.ssl.trustStorePassword=changeit -cp "%s/*" /mnt/Groups.java "$@" 2>/mnt/java.log\n' \
			"$(dirname "$home"/.cache/ldapd-hbase/2.6.4-hadoop3*/lib/hadoop-common-3.4.2.jar | tail -1)" >/mnt/bin/hdfs
		chmod 755 /mnt/bin/hdfs`, true, os.ExpandEnv("$HOME/.cache/ldapd-hbase/2.6.4-hadoop3*/lib/hadoop-common-3.4.2.jar")},
	{"hive", "org.apache.hive/hive-service/4.0.1/jar org.apache.hive/hive-common/4.0.1/jar org.apache.hive/hive-storage-api/4.0.1/jar org.apache.hive.shims/hive-shims-common/4.0.1/jar " +
		"org.apache.hadoop/hadoop-client-runtime/3.4.2 com.google.guava/guava/33.4.8-jre org.apache.commons/commons-lang3/3.17.0 org.antlr/ST4/4.0.4", java("", `
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hive.service.auth.AuthenticationProviderFactory;
import org.apache.hive.service.auth.AuthenticationProviderFactory.AuthMethods;
public class Login {
	public static void main(String[] args) throws Exception {
		var conf = new HiveConf();
		conf.addResource(new org.apache.hadoop.fs.Path("/etc/hive/conf/hive-site.xml"));
		var method = AuthMethods.getValidAuthMethod(conf.getVar(HiveConf.ConfVars.HIVE_SERVER2_AUTHENTICATION));
		try {
			AuthenticationProviderFactory.getAuthenticationProvider(method, conf).Authenticate(args[0], args[1]);
			System.out.println("welcome");
		} catch (javax.security.sasl.AuthenticationException e) {
			e.printStackTrace();
			System.out.println("refused: " + e.getMessage());
		}
	}
}`), true, ""},
	{"jupyterhub", "jupyterhub-ldapauthenticator==2.0.2", python + `
from jupyterhub.app import JupyterHub
hub = JupyterHub(log_level=50)
hub.load_config_file("/etc/jupyterhub/jupyterhub_config.py")
user = asyncio.run(hub.authenticator_class(config=hub.config).get_authenticated_user(None, {"username": sys.argv[1], "password": sys.argv[2]}))
print(user and user["name"])
P
		chmod 755 /mnt/bin/login`, true, ""},
	{"kerberos", "krb5-kdc-ldap krb5-kdc krb5-admin-server krb5-user", `printf '%s\n' '[libdefaults]' 'default_realm = EXAMPLE.COM' '[realms]' 'EXAMPLE.COM = {' 'kdc = localhost' '}' >/etc/krb5.conf`, true, ""},
	{"keycloak", "org.keycloak/keycloak-quarkus-dist/26.7.3/zip", `cp -a /usr/lib/apps/keycloak-* /mnt/keycloak; mkdir -p /mnt/keycloak/data/import; cp /etc/keycloak/example-realm.json /mnt/keycloak/data/import
		ln -s /mnt/keycloak/bin/kcadm.sh /mnt/bin
		export KC_BOOTSTRAP_ADMIN_USERNAME=admin KC_BOOTSTRAP_ADMIN_PASSWORD=secret JAVA_OPTS_APPEND=-XX:TieredStopAtLevel=1
		sh /mnt/keycloak/bin/kc.sh start-dev --import-realm --truststore-paths=/etc/ssl/certs/ca-certificates.crt >/mnt/java.log 2>&1 &
		cat >/mnt/bin/login <<'P'
#!/usr/bin/python3
import base64, json, sys, urllib.error, urllib.parse, urllib.request
form = dict(client_id="portal", grant_type="password", scope="openid", username=sys.argv[1], password=sys.argv[2])
try:
    answer = urllib.request.urlopen("http://localhost:8080/realms/example/protocol/openid-connect/token", urllib.parse.urlencode(form).encode())
    claims = json.loads(base64.urlsafe_b64decode(json.load(answer)["access_token"].split(".")[1] + "=="))
    print(claims["name"], f"<{claims['email']}>", *sorted(claims.get("groups", [])))
except urllib.error.HTTPError as e:
    print(json.load(e)["error_description"])
P
		chmod 755 /mnt/bin/login
		for try in 1 2 3; do await 'curl -sf http://localhost:8080/realms/example'; done
		kcadm.sh config credentials --server http://localhost:8080 --realm master --user admin --password secret`, true, ""},
	{"nifi", "org.apache.nifi.registry/nifi-registry-framework/1.18.0/jar org.apache.nifi.registry/nifi-registry-security-api/1.18.0/jar org.apache.nifi.registry/nifi-registry-security-utils/1.18.0/jar " +
		"org.apache.nifi.registry/nifi-registry-utils/1.18.0/jar org.apache.nifi/nifi-utils/1.18.0/jar org.apache.commons/commons-lang3/3.12.0 org.springframework.security/spring-security-ldap/5.7.3 org.bouncycastle/bcprov-jdk15on/1.70", java("", `
import java.io.File;
import java.util.*;
import java.util.stream.Collectors;
import javax.xml.parsers.DocumentBuilderFactory;
import org.apache.nifi.registry.security.authentication.*;
import org.apache.nifi.registry.security.authentication.exception.InvalidCredentialsException;
import org.apache.nifi.registry.security.authorization.*;
import org.apache.nifi.registry.security.identity.IdentityMapper;
import org.apache.nifi.registry.security.ldap.LdapIdentityProvider;
import org.apache.nifi.registry.security.ldap.tenants.LdapUserGroupProvider;
import org.w3c.dom.Element;
public class Login {
	static Map<String, String> read(String file) throws Exception {
		var map = new HashMap<String, String>();
		var properties = DocumentBuilderFactory.newInstance().newDocumentBuilder().parse(new File("/etc/nifi-registry/" + file)).getElementsByTagName("property");
		for (int i = 0; i < properties.getLength(); i++)
			map.put(((Element) properties.item(i)).getAttribute("name"), properties.item(i).getTextContent());
		return map;
	}
	public static void main(String[] args) throws Exception {
		var provider = new LdapIdentityProvider();
		provider.onConfigured(new StandardIdentityProviderConfigurationContext("login", null, read("identity-providers.xml")));
		var users = new LdapUserGroupProvider();
		users.initialize(new UserGroupProviderInitializationContext() {
			public String getIdentifier() { return "users"; }
			public UserGroupProviderLookup getUserGroupProviderLookup() { return null; }
		});
		users.setIdentityMapper(new IdentityMapper() {
			public String mapUser(String name) { return name; }
			public String mapGroup(String name) { return name; }
		});
		try {
			var name = provider.authenticate(new AuthenticationRequest(args[0], args[1], null)).getIdentity();
			users.onConfigured(new StandardAuthorizerConfigurationContext("users", read("authorizers.xml")));
			System.out.println(name + " " + users.getUserAndGroups(name).getGroups().stream().map(Group::getName).sorted().collect(Collectors.joining(" ")));
		} catch (InvalidCredentialsException e) {
			System.out.println(e.getMessage());
		}
		System.exit(0); // it would go on synchronizing
	}
}`) + "; ln -s /mnt/trust /etc/nifi-registry/trust.p12", true, ""},
	{"nslcd", "", "chgrp nslcd /etc/nslcd.conf; mkdir /run/nslcd; chown nslcd:nslcd /run/nslcd; nslcd & await 'test -S /run/nslcd/socket'", false, "/lib/*/libnss_ldap.so.2"},
	{"postfix", "", "echo compatibility_level = 3.6 >/etc/postfix/main.cf", false, "/usr/lib/postfix/postfix-ldap.so"},
	{"powerdns", "pdns-backend-ldap bind9-host", `useradd -r pdns; mkdir /run/pdns; pdns_server --setuid= --setgid= --guardian=no --daemon=no & await "ss -lun | grep :53"`, true, ""},
	{"proftpd", "proftpd-mod-ldap", `cp /usr/share/proftpd/templates/proftpd.conf /usr/share/proftpd/templates/modules.conf /etc/proftpd/; useradd -r proftpd; proftpd -n & await "ss -ltn | grep :21"`, true, ""},
	{"pure-ftpd", "pure-ftpd-ldap", `mkdir -p /home/jdoe; pure-ftpd-ldap -l ldap:/etc/pure-ftpd/db/ldap.conf & await "ss -ltn | grep :21"`, false, ""},
	{"samba", "samba", "mkdir -p /run/samba; echo jdoe:x:10000:10000::/:/bin/sh >>/etc/passwd", true, ""},
	{"shiro", "org.apache.shiro/shiro-core/2.0.5 org.slf4j/jcl-over-slf4j/2.0.17", java("", `
import org.apache.shiro.authc.*;
import org.apache.shiro.env.BasicIniEnvironment;
import org.apache.shiro.subject.Subject;
public class Login {
	public static void main(String[] args) {
		var subject = new Subject.Builder(new BasicIniEnvironment("file:/etc/shiro/shiro.ini").getSecurityManager()).buildSubject();
		try {
			subject.login(new UsernamePasswordToken(args[0], args[1]));
			System.out.println(subject.getPrincipal());
		} catch (AuthenticationException e) {
			e.printStackTrace();
			System.out.println("refused");
		}
	}
}`), true, ""},
	{"slapd-proxy", "", "sed -i '1i modulepath /usr/lib/ldap' /etc/ldap/slapd.conf; for s in nis inetorgperson cosine core; do sed -i \"1i include /etc/ldap/schema/$s.schema\" /etc/ldap/slapd.conf; done; slapd -h ldap://:3890 -f /etc/ldap/slapd.conf -d 0 & await 'ss -ltn | grep :3890'", false, "/usr/lib/ldap/back_ldap.so"},
	{"spring", "org.springframework.security/spring-security-ldap/6.5.2 org.springframework.security/spring-security-config/6.5.2", java("", `
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.security.authentication.*;
import org.springframework.security.core.*;
public class Login {
	public static void main(String[] args) {
		var spring = new AnnotationConfigApplicationContext(LdapSecurity.class);
		try {
			var user = spring.getBean(AuthenticationManager.class).authenticate(new UsernamePasswordAuthenticationToken(args[0], args[1]));
			System.out.println(user.getName() + " " + user.getAuthorities().stream().map(Object::toString).sorted().toList());
		} catch (AuthenticationException e) {
			e.printStackTrace();
			System.out.println("refused");
		}
	}
}`), true, ""},
	{"squid", "squid", `mkdir -p /run/squid /mnt/www && chown -R proxy:proxy /run/squid /var/log/squid /var/spool/squid
		chgrp proxy /etc/squid/ldap.secret
		python3 -m http.server -d /mnt/www 8000 & squid -N & await "ss -ltn | grep :3128 && ss -ltn | grep :8000"`, true, ""},
	{"sssd", "", "sssd -i & await 'getent -s sss passwd jdoe'", false, "/usr/lib/*/sssd/libsss_ldap.so"},
	{"sudo", "sudo-ldap", `echo jdoe:x:10000:10000::/:/bin/sh >>/etc/passwd; echo 'jdoe:*:::::::' >>/etc/shadow; echo jdoe:x:10000: >>/etc/group; echo developers:x:10001:jdoe >>/etc/group
		echo 'sudoers: files ldap' >>/etc/nsswitch.conf`, false, ""},
	{"trino", "io.trino/trino-password-authenticators/449 io.trino/trino-spi/449", `ln -s /usr/lib/jvm/*-25-*/bin/java /usr/lib/jvm/*-25-*/bin/javac /usr/lib/jvm/*-25-*/bin/keytool /mnt/bin
		` + java("", `
import io.trino.plugin.password.PasswordAuthenticatorPlugin;
import io.trino.spi.security.*;
import java.io.FileReader;
import java.util.*;
public class Login {
	public static void main(String[] args) throws Exception {
		var properties = new Properties();
		properties.load(new FileReader("/etc/trino/password-authenticator.properties"));
		var config = new TreeMap<String, String>();
		properties.forEach((k, v) -> config.put((String) k, (String) v));
		var name = config.remove("password-authenticator.name");
		for (var f : new PasswordAuthenticatorPlugin().getPasswordAuthenticatorFactories())
			if (f.getName().equals(name))
				try {
					System.out.println(f.create(config).createAuthenticatedPrincipal(args[0], args[1]).getName());
				} catch (AccessDeniedException e) {
					System.out.println(e.getMessage());
				}
	}
}`), true, "/usr/lib/jvm/*-25-*/bin/java"},
}

// python begins a program "login" with two arguments, which may use packages of PyPI.
const python = `cat >/mnt/bin/login <<'P'
#!/usr/bin/python3
import asyncio, sys
sys.path.insert(0, "/usr/lib/apps")
`

// java returns commands that install a program "login", the class Login, which may use packages of Maven and the classes
// of the page, and trusts the CA.
func java(flags, class string) string {
	return "cat >/mnt/Login.java <<'J'\n" + class + `
J
		keytool -importcert -noprompt -alias ca -file /etc/ssl/certs/ca-certificates.crt -keystore /mnt/trust -storepass changeit
		javac -d /mnt/classes -cp '/usr/lib/apps/*' /mnt/Login.java $(find /etc/spring -name '*.java' 2>/dev/null)
		printf '#!/bin/sh\nexec java -Djavax.net.ssl.trustStore=/mnt/trust -Djavax.net.ssl.trustStorePassword=changeit ` + flags + ` -cp "/mnt/classes:/usr/lib/apps/*" Login "$@" 2>>/mnt/java.log\n' >/mnt/bin/login
		chmod 755 /mnt/bin/login`
}

// TestApps runs the pages of docs/apps: with their rules and their configuration as they are on the page, their commands
// must print what is on the page. Each page has a server of its own, with the profile staff.
func TestApps(t *testing.T) {
	t.Parallel()
	wantMounts(t)
	wantPrograms(t, "/sbin/ip", "/usr/bin/ldapsearch", "/usr/bin/curl")
	f := newTLS(t)
	for _, app := range apps {
		t.Run(app.page, func(t *testing.T) {
			t.Parallel()
			if app.extra && !*allApps {
				t.Skip("only with -apps")
			}
			if app.program != "" {
				wantPrograms(t, app.program)
			}
			runApp(t, f, appPage(t, app.page), app.page, unpacked(t, app.packages), app.start)
		})
	}
}

// unpacked returns the folders of packages that scripts/unpack has unpacked.
func unpacked(t *testing.T, packages string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	var roots []string
	for _, p := range strings.Fields(packages) {
		root := filepath.Join(cache, "ldapd-apps", p)
		if _, err := os.Stat(root); err != nil {
			if !*allApps {
				t.Skipf("%s is not unpacked (scripts/unpack, or the flag -apps)", p)
			}
			if out, err := exec.Command("../scripts/unpack", p).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", p, err, out)
			}
		}
		roots = append(roots, root)
	}
	return strings.Join(roots, " ")
}

// A page is what a page of docs/apps says, written to a folder as testdata/programs/app.sh takes it.
type page struct {
	file, dir, transcript string
}

// ruleLine begins an access rule; fileMode is what a page says of a file.
var ruleLine, fileMode = regexp.MustCompile(`^(".*" )?\S+: (allow|deny) `), regexp.MustCompile(`mode (0[0-7]+)`)

// appPage reads a page of docs/apps. The first line of a block tells what the block is, or else the line before it does,
// which begins with the name of a file.
func appPage(t *testing.T, name string) page {
	t.Helper()
	p := page{file: "../docs/apps/" + name + ".md", dir: t.TempDir()}
	text, err := os.ReadFile(p.file)
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string]string{}
	files := map[string]string{"setup": "", "entries.ldif": "", "rules": "", "commands": ""}
	for _, block := range codeBlocks(string(text)) {
		file := ""
		switch {
		case strings.HasPrefix(block.code, "$ "):
			file, p.transcript = "commands", p.transcript+block.code
			block.code = ""
			for line := range strings.Lines(p.transcript) {
				if c, ok := strings.CutPrefix(line, "$ "); ok {
					block.code += c
				}
			}
		case strings.HasPrefix(block.code, "dn: "):
			file = "entries.ldif"
			block.code += "\n"
		case strings.HasPrefix(block.code, "ldapd "):
			file = "setup"
		case ruleLine.MatchString(block.code):
			file = "rules"
		case strings.HasPrefix(block.before, "/etc/"):
			file = strings.TrimRight(strings.Fields(block.before)[0], ",:")[1:]
			if m := fileMode.FindStringSubmatch(block.before); m != nil {
				modes[file] = m[1]
			}
		default:
			t.Fatalf("%s: which file is this?\n%s", name, block.code)
		}
		files[file] += block.code
	}
	if p.transcript == "" {
		t.Fatalf("%s has no commands", name)
	}
	for file, text := range files {
		path := writeIn(t, p.dir, file, text)
		if mode, err := strconv.ParseUint(modes[file], 8, 32); err == nil {
			if err := os.Chmod(path, os.FileMode(mode)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return p
}

// A codeBlock is a block of a page, and the line of text before it. Lines that can begin a block of another kind do so
// after an empty line.
type codeBlock struct{ before, code string }

func codeBlocks(page string) (blocks []codeBlock) {
	before, code, gap := "", false, ""
	for line := range strings.Lines(page) {
		text, indented := strings.CutPrefix(line, "    ")
		switch {
		case indented && code && (gap == "" || !strings.HasPrefix(text, "$ ") && !strings.HasPrefix(text, "ldapd ") && !ruleLine.MatchString(text) &&
			!(strings.HasPrefix(text, "dn: ") && !strings.HasPrefix(blocks[len(blocks)-1].code, "dn: "))):
			blocks[len(blocks)-1].code += gap + text
			gap = ""
		case indented:
			blocks = append(blocks, codeBlock{before, text})
			code, gap = true, ""
		case line == "\n":
			gap = line
		default:
			before, code = line, false
		}
	}
	return blocks
}

// configurationOf returns a file of a page of docs/apps, with the server and the CA of a test.
func configurationOf(t *testing.T, p *secured, app, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(appPage(t, app).dir, file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("ldap://ldap.example.com", p.url(), "/etc/ssl/certs/ca-certificates.crt", p.ca).Replace(string(text))
}

// serviceEntry writes an LDIF file of the account of a page.
func serviceEntry(t *testing.T, app string) string {
	return writeIn(t, t.TempDir(), "service.ldif", "dn: uid="+app+",ou=services,"+suffix+"\nobjectClass: account\nobjectClass: simpleSecurityObject\n"+
		"userPassword: x4Gq0vWb7Yt2LsPe9KdR\n")
}

// runApp runs the commands of a page, and compares their output with the page.
func runApp(t *testing.T, f *tlsFiles, p page, name, roots, start string) {
	t.Helper()
	sample, err := filepath.Abs(example)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "testdata/programs/app.sh")
	cmd.Env = append(os.Environ(), "PAGE="+p.dir, "NAME="+name, "UNPACKED="+roots, "START="+start, "LDAPD="+ldapd(t), "SAMPLE="+sample,
		"CERTIFICATE="+f.certificate, "KEY="+f.key, "CA="+f.ca)
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.Output()
	if flag.Lookup("rewrite").Value.String() == "true" {
		p.rewrite(t, string(out))
		return
	}
	if diff := godiff.Diff(strings.Split(p.transcript, "\n"), strings.Split(string(out), "\n")); diff != "" || err != nil {
		t.Errorf("%v (- the page, + the application):\n%s%s", err, diff, log.String())
	}
}

// rewrite replaces the transcript of the page.
func (p page) rewrite(t *testing.T, transcript string) {
	text, err := os.ReadFile(p.file)
	if err != nil {
		t.Fatal(err)
	}
	indented := regexp.MustCompile(`(?m)^(.)`)
	old, changed := indented.ReplaceAllString(p.transcript, "    $1"), indented.ReplaceAllString(transcript, "    $1")
	writeIn(t, filepath.Dir(p.file), filepath.Base(p.file), strings.Replace(string(text), old, changed, 1))
}
