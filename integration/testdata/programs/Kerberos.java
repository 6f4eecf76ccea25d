// Binds with GSSAPI by JNDI, with every protection, with and without mutual authentication, and reads an entry.
// Arguments: URL, the DN of an entry, and the DN's cn.
import java.util.Hashtable;
import javax.naming.Context;
import javax.naming.directory.Attributes;
import javax.naming.directory.InitialDirContext;
import javax.naming.ldap.InitialLdapContext;

class Kerberos {
    public static void main(String[] args) throws Exception {
        for (String mechanism : new String[] {"GSSAPI"}) {
            for (String qop : new String[] {"auth", "auth-int", "auth-conf"}) {
                for (String mutual : new String[] {"false", "true"}) {
                    Hashtable<String, String> env = new Hashtable<>();
                    env.put(Context.INITIAL_CONTEXT_FACTORY, "com.sun.jndi.ldap.LdapCtxFactory");
                    env.put(Context.PROVIDER_URL, args[0]);
                    env.put(Context.SECURITY_AUTHENTICATION, mechanism);
                    env.put("javax.security.sasl.qop", qop);
                    env.put("javax.security.sasl.server.authentication", mutual);
                    InitialDirContext c = new InitialLdapContext(env, null);
                    for (int i = 0; i < 20; i++) {
                        Attributes a = c.getAttributes(args[1]);
                        if (!args[2].equals(a.get("cn").get())) {
                            throw new Exception(qop + ": cn is " + a.get("cn"));
                        }
                    }
                    System.out.println(mechanism + " " + qop + " " + mutual);
                    c.close();
                }
            }
        }
    }
}
