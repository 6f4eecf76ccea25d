"""What Python's ldap3 does with the server: exit status 0 if all is as it should be.

The server and the subtree to work in come from the environment: URL, STARTTLS
(1 or nothing), CA (a file), PLAIN (the ldap:// URL for referrals), ADMIN,
PASSWORD, BASE.
"""

import os
import ssl
import sys

import ldap3
from ldap3.core import exceptions, results
from ldap3.core.tls import Tls
from ldap3.protocol.rfc4527 import post_read_control, pre_read_control
from pyasn1.codec.ber import encoder
from pyasn1.type import namedtype, univ

E = os.environ
BASE, ADMIN, PASSWORD = E["BASE"], E["ADMIN"], E["PASSWORD"]
PHOTO = bytes(range(256)) * 40
ZOE = "uid=zoë\\, o’c," + BASE  # not ASCII, with an escaped comma

failures = []


def check(what, got, want):
    if got != want:
        failures.append("%s: %r, want %r" % (what, got, want))


def connect(user=ADMIN, password=PASSWORD, **options):
    server = ldap3.Server(E["URL"], get_info=ldap3.ALL, tls=Tls(validate=ssl.CERT_REQUIRED, ca_certs_file=E["CA"]) if E.get("CA") else None)
    c = ldap3.Connection(server, user, password, auto_referrals=False, **options)
    c.open()
    if E.get("STARTTLS"):
        check("StartTLS", c.start_tls(), True)
    check("bind", (c.bind(), c.result["description"]), (True, "success"))
    return c


def sort_value(*names):
    """The value of a sort control (RFC 2891)."""

    class Key(univ.Sequence):
        componentType = namedtype.NamedTypes(namedtype.NamedType("attributeType", univ.OctetString()))

    keys = univ.SequenceOf(componentType=Key())
    for i, name in enumerate(names):
        key = Key()
        key["attributeType"] = name
        keys[i] = key
    return encoder.encode(keys)


def schema(c):
    info, s = c.server.info, c.server.schema
    check("namingContexts", "dc=example,dc=com" in info.naming_contexts, True)
    check("vendorName", info.vendor_name, "ldapd")
    for name in ("cn", "commonName", "userPassword", "entryUUID", "memberUid"):
        check("attribute type " + name, name in s.attribute_types, True)
    cn = s.attribute_types["cn"]
    check("cn", (cn.oid, [x.lower() for x in cn.superior]), ("2.5.4.3", ["name"]))
    check("uidNumber", s.attribute_types["uidNumber"].single_value, True)
    check("person", (sorted(s.object_classes["person"].must_contain), s.object_classes["person"].kind), (["cn", "sn"], "STRUCTURAL"))
    check("syntaxes", "1.3.6.1.4.1.1466.115.121.1.15" in s.ldap_syntaxes, True)
    check("rules", "caseIgnoreMatch" in s.matching_rules, True)
    check("rule uses", "caseIgnoreMatch" in s.matching_rule_uses, True)


def add(c):
    check("add", c.add(BASE, "organizationalUnit"), True)
    person = {"cn": "Zoë", "sn": ["Łódź", "Ünal"], "jpegPhoto": PHOTO, "mail": "zoe@example.com", "userPassword": "first"}
    check("add of a person", (c.add(ZOE, "inetOrgPerson", person), c.result["description"]), (True, "success"))
    for i in range(23):
        c.add("cn=d%02d,%s" % (i, BASE), "device", {"serialNumber": str(23 - i)})
    check("add again", (c.add(BASE, "organizationalUnit"), c.result["description"]), (False, "entryAlreadyExists"))


def read(c):
    check("search", c.search(BASE, "(uid=ZOË, o’c)", attributes=["*", "+"]), True)
    e = c.entries[0]
    check("sn", sorted(e.sn.values), ["Ünal", "Łódź"])
    check("jpegPhoto", e.jpegPhoto.raw_values, [PHOTO])
    check("its name", e.entry_dn, "uid=zoë\\, o’c," + BASE)
    check("createTimestamp", e.createTimestamp.value.tzinfo is not None, True)
    check("entryUUID", len(str(e.entryUUID.value)) >= 36, True)
    check("operational attributes unasked", [c.search(BASE, "(objectClass=device)", attributes="*"), "entryUUID" in c.entries[0]], [True, False])
    check("types only", (c.search(BASE, "(uid=*)", attributes="sn", types_only=True), dict(c.response[0]["attributes"])), (True, {"sn": []}))
    check("binary filter", c.search(BASE, "(userPassword=\\00\\ff)"), False)
    check("size limit", (c.search(BASE, "(cn=d*)", size_limit=5), c.result["description"], len(c.response)), (True, "sizeLimitExceeded", 5))


def pages(c):
    found = c.extend.standard.paged_search(BASE, "(objectClass=device)", attributes="cn", paged_size=7, generator=True)
    names = [e["dn"] for e in found if e["type"] == "searchResEntry"]
    check("pages", (len(names), len(set(names))), (23, 23))


def order(c):
    if "1.2.840.113556.1.4.473" not in [x[0] for x in c.server.info.supported_controls]:
        return
    control = ("1.2.840.113556.1.4.473", True, sort_value("serialNumber"))
    c.search(BASE, "(objectClass=device)", attributes="serialNumber", controls=[control])
    got = [e.serialNumber.value for e in c.entries]
    check("sort", got, sorted(str(i + 1) for i in range(23)))


def modify(c):
    change = {
        "sn": [(ldap3.MODIFY_DELETE, ["Ünal"]), (ldap3.MODIFY_ADD, ["Ek"])],
        "mail": [(ldap3.MODIFY_REPLACE, [])],
        "objectClass": [(ldap3.MODIFY_ADD, ["posixAccount"])],
        "uidNumber": [(ldap3.MODIFY_ADD, ["5"]), (ldap3.MODIFY_INCREMENT, ["3"])],
        "gidNumber": [(ldap3.MODIFY_ADD, ["5"])],
        "homeDirectory": [(ldap3.MODIFY_ADD, ["/home/zoe"])],
    }
    controls = [pre_read_control(["sn"]), post_read_control(["sn", "uidNumber"])]
    check("modify", (c.modify(ZOE, change, controls=controls), c.result["description"]), (True, "success"))
    before, after = [c.result["controls"]["1.3.6.1.1.13." + x]["value"]["result"] for x in "12"]
    check("before and after", (sorted(before["sn"]), sorted(after["sn"]), after["uidNumber"]), (["Ünal", "Łódź"], ["Ek", "Łódź"], ["8"]))
    for what, changes, want in (
        ("an undefined type", {"bogus": [(ldap3.MODIFY_ADD, ["x"])]}, results.RESULT_UNDEFINED_ATTRIBUTE_TYPE),
        ("a value twice", {"sn": [(ldap3.MODIFY_ADD, ["EK"])]}, results.RESULT_ATTRIBUTE_OR_VALUE_EXISTS),
        ("what is not there", {"street": [(ldap3.MODIFY_DELETE, [])]}, results.RESULT_NO_SUCH_ATTRIBUTE),
        ("MUST", {"sn": [(ldap3.MODIFY_DELETE, [])]}, results.RESULT_OBJECT_CLASS_VIOLATION),
        ("the server's", {"creatorsName": [(ldap3.MODIFY_REPLACE, [ADMIN])]}, results.RESULT_CONSTRAINT_VIOLATION),
    ):
        # The schema was read for checks of the client's own: past those.
        c.check_names = False
        check("modify of " + what, (c.modify(ZOE, changes), c.result["result"]), (False, want))
        c.check_names = True


def others(c):
    check("compare", [c.compare(ZOE, "sn", v) for v in ("ŁÓDŹ", "none")], [True, False])
    check("rename", (c.modify_dn("cn=d00," + BASE, "cn=D zero"), c.result["description"]), (True, "success"))
    check("and move", c.modify_dn("cn=d01," + BASE, "cn=d01", new_superior="cn=D zero," + BASE), True)
    check("a non-leaf", (c.delete("cn=D zero," + BASE), c.result["description"]), (False, "notAllowedOnNonLeaf"))
    check("delete", c.delete("cn=d01,cn=D zero," + BASE), True)
    check("what is not there", (c.delete("cn=d01,cn=D zero," + BASE), c.result["dn"]), (False, "cn=D zero," + BASE))
    check("who am I", c.extend.standard.who_am_i(), "dn:" + ADMIN)
    new = c.extend.standard.modify_password(ZOE, "first", None)
    check("generated password", isinstance(new, str) and len(new) > 8, True)
    check("Password Modify", c.extend.standard.modify_password(ZOE, None, "sécond"), True)
    user = connect(ZOE, "sécond")
    check("writing without the right", (user.delete(BASE), user.result["description"]), (False, "insufficientAccessRights"))
    check("a wrong password", (user.rebind(ZOE, "first"), user.result["description"]), (False, "invalidCredentials"))
    user.unbind()


def referrals(c):
    here = "ou=here," + BASE
    values = {"ref": E["PLAIN"] + "/ou=groups,dc=example,dc=com"}
    check("add of a referral", c.add(here, ["referral", "extensibleObject"], values, controls=[("2.16.840.1.113730.3.4.2", True, None)]), True)
    c.search(here, "(cn=admins)", attributes="cn")
    check("a referral", (c.result["description"], c.result["referrals"]), ("referral", [E["PLAIN"] + "/ou=groups,dc=example,dc=com??sub"]))
    c.search(BASE, "(cn=no one)")
    got = [x["uri"] for x in c.response if x["type"] == "searchResRef"]
    check("a reference", got, [[E["PLAIN"] + "/ou=groups,dc=example,dc=com??sub"]])
    c.auto_referrals = True
    c.server.allowed_referral_hosts = [("*", True)]
    check("followed", (c.search(here, "(cn=admins)", attributes="cn"), [e["dn"] for e in c.response]), (True, ["cn=admins,ou=groups,dc=example,dc=com"]))
    c.auto_referrals = False
    check("delete of a referral", c.delete(here, controls=[("2.16.840.1.113730.3.4.2", True, None)]), True)


def main():
    c = connect()
    for part in (schema, add, read, pages, order, modify, others, referrals):
        try:
            part(c)
        except exceptions.LDAPException as e:
            failures.append("%s: %s: %s" % (part.__name__, type(e).__name__, e))
    c.unbind()
    for f in failures:
        print(f)
    sys.exit(len(failures) > 0)


main()
