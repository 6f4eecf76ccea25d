#!/bin/sh
# UnboundID LDAP SDK 7.0.5 and ldaptive 2.5.0 encode three values in another way than the RFCs define them.
#
# 1. UnboundID, End Transaction (RFC 5805): the identifier is an OCTET STRING (04). The SDK keeps the
#    tag under which the identifier arrived, which in the result of Start Transaction is [11] (8b), and
#    sends it back under that tag. A program that passes getTransactionID() on, as the SDK's
#    documentation shows, sends 8b. With an identifier of its own it sends 04.
# 2. UnboundID, matched values (RFC 3876): in an extensible match, the type [2] comes before the rule
#    [1]. A SEQUENCE has an order: the rule comes first.
# 3. ldaptive, content synchronization (RFC 4533): the mode is ENUMERATED (0a). ldaptive sends an
#    INTEGER (02). It also writes reloadHint FALSE, a DEFAULT, which is allowed.
#
# OpenLDAP's liblber skips tags that it expects and so takes 2 and 3. A server with a strict decoder
# refuses all three with protocolError. ldapd takes them (docs/protocol.md).
#
# Seen on 2026-11-28 with Java 17. It needs mvn and java. It fails if an encoding changes.
set -eu
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
cd "$dir"
for artifact in com.unboundid:unboundid-ldapsdk:7.0.5 org.ldaptive:ldaptive:2.5.0 org.slf4j:slf4j-api:2.0.9 org.slf4j:slf4j-nop:2.0.9; do
	mvn -q dependency:copy -Dartifact=$artifact -DoutputDirectory=jars > mvn.log 2>&1 || { cat mvn.log; exit 1; }
done
cat > Encodings.java <<'J'
import com.unboundid.asn1.*;
import com.unboundid.ldap.sdk.*;
import com.unboundid.ldap.sdk.controls.*;
import com.unboundid.ldap.sdk.extensions.*;
import java.io.*;
import java.net.*;

public class Encodings {
    static String hex(byte[] octets) {
        StringBuilder s = new StringBuilder();
        for (byte b : octets) s.append(String.format("%02x", b));
        return s.toString();
    }

    public static void main(String[] args) throws Exception {
        System.out.println("own " + hex(new EndTransactionExtendedRequest(new ASN1OctetString("ab"), true).getValue().getValue()));
        try (ServerSocket listener = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            Thread server = new Thread(() -> answer(listener));
            server.start();
            try (LDAPConnection c = new LDAPConnection("127.0.0.1", listener.getLocalPort())) {
                StartTransactionExtendedResult started = (StartTransactionExtendedResult) c.processExtendedOperation(new StartTransactionExtendedRequest());
                System.out.println("received " + hex(new EndTransactionExtendedRequest(started.getTransactionID(), true).getValue().getValue()));
            }
            server.join();
        }
        System.out.println("matched " + hex(new MatchedValuesRequestControl(
            MatchedValuesFilter.createExtensibleMatchFilter("cn", "caseIgnoreMatch", "v")).getValue().getValue()));
        System.out.println("sync " + hex(new org.ldaptive.control.SyncRequestControl(
            org.ldaptive.control.SyncRequestControl.Mode.REFRESH_ONLY, true).encode()));
    }

    // answer reads one request and answers that the transaction "ab" has begun.
    static void answer(ServerSocket listener) {
        try (Socket s = listener.accept()) {
            s.getInputStream().read(new byte[1000]);
            s.getOutputStream().write(new byte[] {0x30, 0x10, 2, 1, 1, 0x78, 0x0b, 0x0a, 1, 0, 4, 0, 4, 0, (byte) 0x8b, 2, 'a', 'b'});
            s.getInputStream().read();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
J
java -cp 'jars/*' Encodings.java > seen
cat seen
cat > expected <<'X'
own 300404026162
received 30048b026162
matched 301aa9188202636e810f6361736549676e6f72654d61746368830176
sync 3006020101010100
X
diff expected seen && echo "as described"
