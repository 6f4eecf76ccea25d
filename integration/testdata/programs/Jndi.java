import java.nio.charset.StandardCharsets;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.Hashtable;
import java.util.List;
import java.util.Objects;
import javax.naming.CompositeName;
import javax.naming.Context;
import javax.naming.InvalidNameException;
import javax.naming.NameAlreadyBoundException;
import javax.naming.NameNotFoundException;
import javax.naming.AuthenticationException;
import javax.naming.ContextNotEmptyException;
import javax.naming.NamingEnumeration;
import javax.naming.NamingException;
import javax.naming.NoPermissionException;
import javax.naming.PartialResultException;
import javax.naming.ReferralException;
import javax.naming.SizeLimitExceededException;
import javax.naming.directory.*;
import javax.naming.event.*;
import javax.naming.ldap.*;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManagerFactory;

/**
 * What Java's own client, JNDI, does with the server: exit status 0 if all is as
 * it should be. The environment is that of ldap3_client.py.
 */
public class Jndi {
    static final String URL = System.getenv("URL"), PLAIN = System.getenv("PLAIN"), BASE = System.getenv("BASE");
    static final String ZOE = "uid=zoë\\, o’c," + BASE;
    static final byte[] PHOTO = new byte[10000];
    static int failures;

    interface Part {
        void run(LdapContext c) throws Exception;
    }

    static void check(String what, Object got, Object want) {
        if (!Objects.equals(got, want)) {
            System.out.println(what + ": " + got + ", want " + want);
            failures++;
        }
    }

    /** Wants a failure of a kind, told with a result code. */
    static void refused(String what, Class<? extends NamingException> kind, int code, Part p, LdapContext c) throws Exception {
        try {
            p.run(c);
            check(what, "done", kind.getName());
        } catch (NamingException e) {
            check(what, e.getClass(), kind);
            check(what + ": " + e.getMessage(), String.valueOf(e.getMessage()).contains("error code " + code + " "), true);
        }
    }

    static LdapContext connect(String user, Object password, String referral) throws Exception {
        Hashtable<String, Object> env = new Hashtable<>();
        env.put(Context.INITIAL_CONTEXT_FACTORY, "com.sun.jndi.ldap.LdapCtxFactory");
        env.put(Context.PROVIDER_URL, URL);
        env.put(Context.REFERRAL, referral);
        env.put("java.naming.ldap.attributes.binary", "jpegPhoto");
        if (URL.startsWith("ldaps:")) {
            env.put("java.naming.ldap.factory.socket", Trusting.class.getName());
        }
        LdapContext c = new InitialLdapContext(env, null);
        if (System.getenv("STARTTLS") != null) {
            StartTlsResponse tls = (StartTlsResponse) c.extendedOperation(new StartTlsRequest());
            tls.negotiate((SSLSocketFactory) Trusting.getDefault());
        }
        c.addToEnvironment(Context.SECURITY_AUTHENTICATION, "simple");
        c.addToEnvironment(Context.SECURITY_PRINCIPAL, user);
        c.addToEnvironment(Context.SECURITY_CREDENTIALS, password);
        c.reconnect(null);
        return c;
    }

    static Attributes attributes(Object... pairs) {
        Attributes as = new BasicAttributes(true);
        for (int i = 0; i < pairs.length; i += 2) {
            Attribute a = as.get((String) pairs[i]);
            if (a == null) {
                as.put(a = new BasicAttribute((String) pairs[i]));
            }
            a.add(pairs[i + 1]);
        }
        return as;
    }

    static SearchControls scope(int scope, String... attributes) {
        SearchControls s = new SearchControls();
        s.setSearchScope(scope);
        s.setReturningAttributes(attributes.length == 0 ? null : attributes);
        return s;
    }

    static List<SearchResult> search(LdapContext c, String base, String filter, SearchControls s) throws NamingException {
        List<SearchResult> found = new ArrayList<>();
        NamingEnumeration<SearchResult> r = c.search(name(base), filter, s);
        while (r.hasMore()) {
            found.add(r.next());
        }
        return found;
    }

    /** JNDI reads names in strings as composite ones; this is one component. */
    static javax.naming.Name name(String dn) throws NamingException {
        return dn.isEmpty() ? new CompositeName() : new LdapName(dn);
    }

    static List<String> values(Attributes as, String type) throws NamingException {
        List<String> list = new ArrayList<>();
        if (as.get(type) != null) {
            for (Object v : Collections.list(as.get(type).getAll())) {
                list.add((String) v);
            }
        }
        Collections.sort(list);
        return list;
    }

    static void schema(LdapContext c) throws Exception {
        Attributes root = c.getAttributes(name(""), new String[] {"namingContexts", "supportedLDAPVersion"});
        check("namingContexts", values(root, "namingContexts"), List.of("dc=example,dc=com"));
        DirContext s = c.getSchema(name("uid=jdoe,ou=people,dc=example,dc=com"));
        Attributes uid = s.getAttributes("AttributeDefinition/uidNumber");
        check("uidNumber", List.of(uid.get("NUMERICOID").get(), uid.get("SINGLE-VALUE").get()), List.of("1.3.6.1.1.1.1.0", "true"));
        Attributes person = s.getAttributes("ClassDefinition/person");
        check("person", values(person, "MUST"), List.of("cn", "sn"));
        check("a syntax", s.getAttributes("SyntaxDefinition/1.3.6.1.4.1.1466.115.121.1.15").get("NUMERICOID") != null, true);
        check("a rule", s.getAttributes("MatchingRule/caseIgnoreMatch").get("NUMERICOID").get(), "2.5.13.2");
        List<String> classes = new ArrayList<>();
        NamingEnumeration<SearchResult> of = c.getSchemaClassDefinition(name("cn=staff,ou=groups,dc=example,dc=com")).search("", null);
        while (of.hasMore()) {
            classes.add(of.next().getName());
        }
        Collections.sort(classes);
        check("classes of an entry", classes, List.of("posixGroup", "top"));
    }

    static void add(LdapContext c) throws Exception {
        c.createSubcontext(name(BASE), attributes("objectClass", "organizationalUnit"));
        c.createSubcontext(name(ZOE), attributes("objectClass", "inetOrgPerson", "cn", "Zoë", "sn", "Łódź", "sn", "Ünal",
            "jpegPhoto", PHOTO, "mail", "zoe@example.com", "userPassword", "first"));
        for (int i = 0; i < 23; i++) {
            c.createSubcontext(name(String.format("cn=d%02d,%s", i, BASE)), attributes("objectClass", "device", "serialNumber", "" + (23 - i)));
        }
        refused("add again", NameAlreadyBoundException.class, 68, x -> x.createSubcontext(name(BASE), attributes("objectClass", "organizationalUnit")), c);
    }

    static void read(LdapContext c) throws Exception {
        SearchResult zoe = search(c, BASE, "(uid=ZOË, o’c)", scope(SearchControls.SUBTREE_SCOPE, "*", "+")).get(0);
        check("its name", new LdapName(zoe.getNameInNamespace()), new LdapName(ZOE));
        check("sn", values(zoe.getAttributes(), "sn"), List.of("Ünal", "Łódź"));
        check("jpegPhoto", Arrays.equals((byte[]) zoe.getAttributes().get("jpegPhoto").get(), PHOTO), true);
        check("entryUUID", zoe.getAttributes().get("entryUUID") != null, true);
        check("by arguments", c.search(name(BASE), "(uid={0})", new Object[] {"zoë, o’c"}, scope(SearchControls.ONELEVEL_SCOPE)).hasMore(), true);
        check("lookup", c.lookup(name("cn=d03," + BASE)) instanceof LdapContext, true);
        SearchControls five = scope(SearchControls.ONELEVEL_SCOPE);
        five.setCountLimit(5);
        refused("size limit", SizeLimitExceededException.class, 4, x -> search(x, BASE, "(cn=d*)", five), c);
        refused("what is not there", NameNotFoundException.class, 32, x -> x.getAttributes(name("cn=x,ou=nowhere," + BASE)), c);
        refused("a malformed name", InvalidNameException.class, 34, x -> x.search("nonsense", "(cn=*)", null), c);
    }

    static void pages(LdapContext c) throws Exception {
        List<String> names = new ArrayList<>();
        byte[] cookie = null;
        do {
            c.setRequestControls(new Control[] {new PagedResultsControl(7, cookie, Control.CRITICAL)});
            for (SearchResult r : search(c, BASE, "(objectClass=device)", scope(SearchControls.SUBTREE_SCOPE, "1.1"))) {
                names.add(r.getName());
            }
            cookie = ((PagedResultsResponseControl) c.getResponseControls()[0]).getCookie();
        } while (cookie != null);
        c.setRequestControls(null);
        check("pages", List.of(names.size(), new HashSet<>(names).size()), List.of(23, 23));
    }

    static void order(LdapContext c) throws Exception {
        if (!values(c.getAttributes(name(""), new String[] {"supportedControl"}), "supportedControl").contains("1.2.840.113556.1.4.473")) {
            return;
        }
        c.setRequestControls(new Control[] {new SortControl("serialNumber", Control.CRITICAL)});
        List<String> got = new ArrayList<>();
        for (SearchResult r : search(c, BASE, "(objectClass=device)", scope(SearchControls.SUBTREE_SCOPE, "serialNumber"))) {
            got.add((String) r.getAttributes().get("serialNumber").get());
        }
        List<String> want = new ArrayList<>(got);
        Collections.sort(want);
        check("sort", List.of(got.size(), got), List.of(23, want));
        check("sort result", ((SortResponseControl) c.getResponseControls()[0]).isSorted(), true);
        c.setRequestControls(null);
    }

    /** JNDI's events come by persistent searches. */
    static void events(LdapContext c) throws Exception {
        List<String> told = Collections.synchronizedList(new ArrayList<>());
        java.util.concurrent.CountDownLatch three = new java.util.concurrent.CountDownLatch(3);
        java.util.concurrent.CountDownLatch begun = new java.util.concurrent.CountDownLatch(1);
        class Listener implements NamespaceChangeListener, ObjectChangeListener {
            void tell(String what, NamingEvent e) {
                javax.naming.Binding b = e.getNewBinding() != null ? e.getNewBinding() : e.getOldBinding();
                if (b.getName().contains("probe")) {
                    begun.countDown();
                    return;
                }
                told.add(what + " " + (e.getChangeInfo() != null));
                three.countDown();
            }
            public void objectAdded(NamingEvent e) { tell("added", e); }
            public void objectRemoved(NamingEvent e) { tell("removed", e); }
            public void objectRenamed(NamingEvent e) { tell("renamed", e); }
            public void objectChanged(NamingEvent e) { tell("changed", e); }
            public void namingExceptionThrown(NamingExceptionEvent e) {
                told.add(e.getException().toString());
                while (three.getCount() > 0) {
                    three.countDown();
                }
            }
        }
        String at = "cn=event," + BASE;
        LdapContext watching = connect(System.getenv("ADMIN"), System.getenv("PASSWORD"), "throw");
        EventDirContext events = (EventDirContext) watching.lookup(name(BASE));
        events.addNamingListener("", "(|(cn=event)(cn=probe))", scope(SearchControls.SUBTREE_SCOPE), new Listener());
        // JNDI sends the search from a thread of its own: some day it is at the server.
        for (int i = 0; i < 100 && !begun.await(50, java.util.concurrent.TimeUnit.MILLISECONDS); i++) {
            c.createSubcontext(name("cn=probe," + BASE), attributes("objectClass", "device"));
            c.destroySubcontext(name("cn=probe," + BASE));
        }
        c.createSubcontext(name(at), attributes("objectClass", "device"));
        c.modifyAttributes(name(at), new ModificationItem[] {item(DirContext.REPLACE_ATTRIBUTE, "description", "x")});
        c.destroySubcontext(name(at));
        three.await(10, java.util.concurrent.TimeUnit.SECONDS);
        check("events", told, List.of("added true", "changed true", "removed true"));
        watching.close();
    }

    static ModificationItem item(int kind, String type, Object... values) {
        Attribute a = new BasicAttribute(type);
        for (Object v : values) {
            a.add(v);
        }
        return new ModificationItem(kind, a);
    }

    static void modify(LdapContext c) throws Exception {
        final int add = DirContext.ADD_ATTRIBUTE, replace = DirContext.REPLACE_ATTRIBUTE, remove = DirContext.REMOVE_ATTRIBUTE;
        c.modifyAttributes(name(ZOE), new ModificationItem[] {item(remove, "sn", "Ünal"), item(add, "sn", "Ek"), item(replace, "mail")});
        Attributes zoe = c.getAttributes(name(ZOE));
        check("modified", List.of(values(zoe, "sn"), zoe.get("mail") == null), List.of(List.of("Ek", "Łódź"), true));
        refused("an undefined type", InvalidAttributeIdentifierException.class, 17, x -> x.modifyAttributes(name(ZOE), new ModificationItem[] {item(add, "bogus", "x")}), c);
        refused("a value twice", AttributeInUseException.class, 20, x -> x.modifyAttributes(name(ZOE), new ModificationItem[] {item(add, "sn", "EK")}), c);
        refused("what is not there", NoSuchAttributeException.class, 16, x -> x.modifyAttributes(name(ZOE), new ModificationItem[] {item(remove, "street")}), c);
        refused("MUST", SchemaViolationException.class, 65, x -> x.modifyAttributes(name(ZOE), new ModificationItem[] {item(remove, "sn")}), c);
        refused("bad syntax", InvalidAttributeValueException.class, 21, x -> x.modifyAttributes(name(ZOE), new ModificationItem[] {item(add, "manager", "x")}), c);
    }

    static void others(LdapContext c) throws Exception {
        SearchControls base = scope(SearchControls.OBJECT_SCOPE, new String[0]);
        base.setReturningAttributes(new String[0]); // so JNDI compares
        check("compare", List.of(c.search(name(ZOE), "(sn={0})", new Object[] {"ŁÓDŹ"}, base).hasMore(), c.search(name(ZOE), "(sn=none)", base).hasMore()), List.of(true, false));
        c.rename(name("cn=d00," + BASE), name("cn=D zero," + BASE));
        c.rename(name("cn=d01," + BASE), name("cn=d01,cn=D zero," + BASE));
        refused("a non-leaf", ContextNotEmptyException.class, 66, x -> x.destroySubcontext(name("cn=D zero," + BASE)), c);
        c.destroySubcontext(name("cn=d01,cn=D zero," + BASE));
        LdapContext user = connect(ZOE, "first", "throw");
        refused("writing without the right", NoPermissionException.class, 50, x -> x.destroySubcontext(name("cn=d02," + BASE)), user);
        user.close();
        refused("a wrong password", AuthenticationException.class, 49, x -> connect(ZOE, "second", "throw"), c);
    }

    static void referrals(LdapContext c) throws Exception {
        String here = "ou=here," + BASE, there = PLAIN + "/ou=groups,dc=example,dc=com";
        LdapContext manage = connect(System.getenv("ADMIN"), System.getenv("PASSWORD"), "ignore"); // sends ManageDsaIT
        manage.createSubcontext(name(here), attributes("objectClass", "referral", "objectClass", "extensibleObject", "ref", there));
        try {
            search(c, here, "(cn=admins)", scope(SearchControls.SUBTREE_SCOPE));
            check("a referral", "none", "one");
        } catch (ReferralException e) {
            check("a referral", e.getReferralInfo(), there + "??sub");
        }
        check("managed", search(manage, BASE, "(ou=here)", scope(SearchControls.ONELEVEL_SCOPE)).size(), 1);
        if (PLAIN.equals(URL)) { // it goes there as it came here
            LdapContext follow = connect(System.getenv("ADMIN"), System.getenv("PASSWORD"), "follow");
            check("followed", search(follow, BASE, "(cn=admins)", scope(SearchControls.SUBTREE_SCOPE)).size(), 1);
            follow.close();
        }
        manage.destroySubcontext(name(here));
        manage.close();
    }

    /** Trusting makes sockets that trust the CA of the test. */
    public static class Trusting extends javax.net.SocketFactory {
        public static javax.net.SocketFactory getDefault() {
            try (java.io.FileInputStream in = new java.io.FileInputStream(System.getenv("CA"))) {
                KeyStore ks = KeyStore.getInstance(KeyStore.getDefaultType());
                ks.load(null, null);
                ks.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(in));
                TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
                trust.init(ks);
                SSLContext ssl = SSLContext.getInstance("TLS");
                ssl.init(null, trust.getTrustManagers(), null);
                return ssl.getSocketFactory();
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        }

        public java.net.Socket createSocket(String host, int port) throws java.io.IOException {
            return getDefault().createSocket(host, port);
        }

        public java.net.Socket createSocket(String host, int port, java.net.InetAddress a, int p) throws java.io.IOException {
            return getDefault().createSocket(host, port, a, p);
        }

        public java.net.Socket createSocket(java.net.InetAddress host, int port) throws java.io.IOException {
            return getDefault().createSocket(host, port);
        }

        public java.net.Socket createSocket(java.net.InetAddress host, int port, java.net.InetAddress a, int p) throws java.io.IOException {
            return getDefault().createSocket(host, port, a, p);
        }
    }

    /** A bind with the password policy control, as somebody whose password was reset. */
    static void policy(LdapContext admin) throws Exception {
        LdapContext c = connect("uid=reset,ou=unix,dc=example,dc=com", "correct horse", "throw");
        c.reconnect(new Control[] {new BasicControl("1.3.6.1.4.1.42.2.27.8.5.1")});
        Control[] answers = c.getResponseControls();
        check("controls of the bind", answers == null ? 0 : answers.length, 1);
        // changeAfterReset (draft-behera-ldap-password-policy-11, 6.2)
        check("password policy", Arrays.toString(answers[0].getEncodedValue()), Arrays.toString(new byte[] {0x30, 3, (byte) 0x81, 1, 2}));
        refused("a search before the change", NoPermissionException.class, 50, x -> x.getAttributes(BASE), c);
        c.close();
    }

    public static void main(String[] args) throws Exception {
        for (int i = 0; i < PHOTO.length; i++) {
            PHOTO[i] = (byte) i;
        }
        LdapContext c = connect(System.getenv("ADMIN"), System.getenv("PASSWORD"), "throw");
        for (Part p : new Part[] {Jndi::schema, Jndi::add, Jndi::read, Jndi::pages, Jndi::order, Jndi::modify, Jndi::others, Jndi::referrals, Jndi::events, Jndi::policy}) {
            try {
                p.run(c);
            } catch (Exception e) {
                e.printStackTrace(System.out);
                failures++;
            }
        }
        c.close();
        System.exit(failures > 0 ? 1 : 0);
    }
}
