package integration

import "github.com/seed-4dac0d86/ldapd/ldap/op"

const (
	atBase, atOne, atSub, atBelow = op.BaseObject, op.SingleLevel, op.WholeSubtree, op.Subordinates

	groupsDN   = "ou=groups," + suffix
	partnersDN = "ou=partners," + suffix
	asantos    = "uid=asantos," + peopleDN
	whoAmI     = "1.3.6.1.4.1.4203.1.11.3"
)

var (
	manageDsaIT = []op.Control{{OID: "2.16.840.1.113730.3.4.2", Critical: true}}
	bogus       = []op.Control{{OID: "1.2.3.4", Critical: true}}
	ignored     = []op.Control{{OID: "1.2.3.4"}}
	whoami      = &op.Extended{OID: whoAmI}
)

var conformance = []struct {
	name    string
	clauses []clause
}{
	{"RFC 4511", []clause{
		// An attribute type is named by its OID or by any of its short names (ignoring
		// case). Options may follow.
		{"4.1.4", find(jdoe, atBase, "(2.5.4.3=john doe)", "2.5.4.4"), nil, "uid=jdoe sn=Doe; 0"},
		{"4.1.5", find(jdoe, atBase, "(COMMONNAME;lang-DE=johann reh)", "1.1"), nil, "uid=jdoe; 0"},
		// An attribute must not have two equivalent values.
		{"4.1.7", add("cn=x,"+devicesDN, "objectClass=device", "cn=x", "ou=a", "ou=A"), nil, "20"},
		{"4.1.7", add("cn=x,"+devicesDN, "objectClass=device", "cn=x", "ou"), nil, "21"},
		{"4.1.9", find("cn=x,uid=nobody,"+peopleDN, atBase, "(cn=*)"), nil, "32 at " + peopleDN},
		{"4.1.9", find("x", atBase, "(cn=*)"), nil, "34"},
		{"4.1.10", equals("cn=x,"+partnersDN, "cn", "x"), nil, "10 at " + partnersDN + " ldap://ldap1.example.net/cn=x,ou=partners,dc=example,dc=net ldap://ldap2.example.net/cn=x,ou=partners,dc=example,dc=net"},
		{"4.1.11", find(jdoe, atBase, "(cn=*)", "1.1"), bogus, "12"},
		{"4.1.11", find(jdoe, atBase, "(cn=*)", "1.1"), ignored, "uid=jdoe; 0"},
		{"4.1.11", equals(jdoe, "sn", "doe"), paged(1, ""), "12"},
		{"4.2", &op.Bind{Version: 2, Name: adminDN, Password: []byte(adminPassword)}, nil, "2"},
		{"4.2", &op.Bind{Version: 127, Name: adminDN, Password: []byte(adminPassword)}, nil, "2"},
		{"4.2", &op.Bind{Version: 3, SASL: true}, nil, "7"},
		{"4.2.1", &op.Extended{OID: whoAmI}, nil, `0 ""`}, // anonymous after a bind that failed
		{"4.2.2", simple(jdoe, "wrong"), nil, "49"},
		{"4.2.2", simple("uid=nobody,"+suffix, "wrong"), nil, "49"},
		{"4.2.2", simple("nonsense", "wrong"), nil, "34"},
		{"4.2.2", administrator, nil, "0"},
		{"4.5.1.1", find("", atBase, "(objectClass=*)", "supportedLDAPVersion"), nil, " supportedLDAPVersion=3; 0"},
		{"4.5.1.2", find(devicesDN, atBase, "(objectClass=*)", "1.1"), nil, "ou=devices; 0"},
		{"4.5.1.2", find(devicesDN, atOne, "(objectClass=device)", "1.1"), nil, "cn=printer-1; cn=printer-2; 0"},
		{"4.5.1.2", find(devicesDN, atSub, "(objectClass=*)", "1.1"), nil, "cn=Matterhorn; cn=printer-1; cn=printer-2; ou=devices; 0"},
		{"4.5.1.3", with(find("cn=boss,"+suffix, atBase, "(objectClass=*)", "1.1"), func(r *op.Search) { r.Deref = op.DerefFindingBase }), nil, "uid=jdoe; 0"},
		{"4.5.1.3", with(find("cn=boss,"+suffix, atBase, "(objectClass=*)", "1.1"), func(r *op.Search) { r.Deref = op.DerefInSearching }), nil, "cn=boss; 0"},
		{"4.5.1.4", with(find(devicesDN, atSub, "(objectClass=*)", "1.1"), func(r *op.Search) { r.SizeLimit = 4 }), nil, "cn=Matterhorn; cn=printer-1; cn=printer-2; ou=devices; 0"},
		{"4.5.1.4", with(find(jdoe, atSub, "(|(uid=jdoe)(uid=x))", "1.1"), func(r *op.Search) { r.SizeLimit = 1 }), nil, "uid=jdoe; 0"},
		{"4.5.1.5", with(find(jdoe, atBase, "(cn=*)", "1.1"), func(r *op.Search) { r.TimeLimit = 1 }), nil, "uid=jdoe; 0"},
		{"4.5.1.6", with(find(printer, atBase, "(cn=*)", "cn", "l"), func(r *op.Search) { r.TypesOnly = true }), nil, "cn=printer-1 cn l; 0"},
		{"4.5.1.7", find(devicesDN, atSub, "(!(bogus=x))", "1.1"), nil, "0"},
		{"4.5.1.7.1", find(devicesDN, atSub, "(cn=PRINTER-1)", "1.1"), nil, "cn=printer-1; 0"},
		{"4.5.1.7.2", find(devicesDN, atSub, "(cn=p*er*1)", "1.1"), nil, "cn=printer-1; 0"},
		{"4.5.1.7.3", find(groupsDN, atSub, "(gidNumber>=10001)", "1.1"), nil, "cn=developers; 0"},
		{"4.5.1.7.4", find(groupsDN, atSub, "(gidNumber<=10)", "1.1"), nil, "cn=wheel; 0"},
		{"4.5.1.7.5", find(devicesDN, atSub, "(roomNumber=*)", "1.1"), nil, "cn=Matterhorn; 0"},
		{"4.5.1.7.6", find(groupsDN, atSub, "(cn~=wheel)", "1.1"), nil, "cn=wheel; 0"},
		{"4.5.1.7.7", find(suffix, atBelow, "(&(ou:dn:caseIgnoreMatch:=devices)(cn=m*))", "1.1"), nil, "cn=Matterhorn; ref " + reference("sub") + "; 0"},
		{"4.5.1.8", find(jdoe, atBase, "(cn=*)", "1.1"), nil, "uid=jdoe; 0"},
		{"4.5.1.8", find(jdoe, atBase, "(cn=*)", "sn", "SN", "1.1", "bogus"), nil, "uid=jdoe sn=Doe; 0"},
		{"4.5.1.8", find("cn=wheel,"+groupsDN, atBase, "(cn=*)", "*", "structuralObjectClass"), nil, "cn=wheel objectClass=top|posixGroup cn=wheel gidNumber=10 memberUid=jdoe structuralObjectClass=posixGroup; 0"},
		{"4.5.2", find(devicesDN, atSub, "(cn=nothing)"), nil, "0"},
		{"4.5.3", find(suffix, atOne, "(cn=nothing)"), nil, "ref " + reference("base") + "; 0"},
		{"4.5.3.1", find(partnersDN, atOne, "(cn=nothing)"), nil, "10 at " + partnersDN + " " + reference("one")},
		{"4.6", modify(printer, "+description=a", "-description=A", ":serialNumber=1", "-l"), nil, "0"},
		{"4.6", find(printer, atBase, "(cn=*)", "description", "serialNumber", "l"), nil, "cn=printer-1 serialNumber=1 description=Printer on the first floor; 0"},
		{"4.6", modify(printer, "+description=b", "-ou"), nil, "16"},
		{"4.6", equals(printer, "description", "b"), nil, "5"},
		{"4.6", modify(printer, "-cn=printer-1"), nil, "67"},
		{"4.6", modify(printer, ":objectClass=person", "+sn=x"), nil, "69"},
		{"4.6", modify("cn=x,"+devicesDN, ":l=x"), nil, "32 at " + devicesDN},
		{"4.7", add("cn=x,"+devicesDN, "objectClass=device"), nil, "0"},
		{"4.7", equals("cn=x,"+devicesDN, "cn", "x"), nil, "6"},
		{"4.7", add("cn=x,"+devicesDN, "objectClass=device"), nil, "68"},
		{"4.7", add("cn=x,ou=nowhere,"+suffix, "objectClass=device"), nil, "32 at " + suffix},
		{"4.7", add("cn=y,"+devicesDN, "objectClass=device", "creatorsName="+jdoe), nil, "19"},
		{"4.8", &op.Delete{Name: devicesDN}, nil, "66"},
		{"4.8", &op.Delete{Name: "cn=y," + devicesDN}, nil, "32 at " + devicesDN},
		{"4.9", move("cn=x,"+devicesDN, "cn=y", ""), nil, "0"},
		{"4.9", move("cn=y,"+devicesDN, "cn=printer-2", ""), nil, "68"},
		{"4.9", move("cn=y,"+devicesDN, "cn=y", "ou=nowhere,"+suffix), nil, "32 at " + suffix},
		{"4.9", move("cn=y,"+devicesDN, "cn=z", peopleDN), nil, "0"},
		{"4.9", find("cn=z,"+peopleDN, atBase, "(cn=*)", "cn"), nil, "cn=z cn=z; 0"},
		{"4.9", move(peopleDN, "ou=people", "cn=z,"+peopleDN), nil, "53"},
		{"4.8", &op.Delete{Name: "cn=z," + peopleDN}, nil, "0"},
		{"4.10", equals(jdoe, "sn", "DOE"), nil, "6"},
		{"4.10", equals(jdoe, "sn", "x"), nil, "5"},
		{"4.10", equals(jdoe, "street", "x"), nil, "16"},
		{"4.10", equals(jdoe, "bogus", "x"), nil, "17"},
		{"4.12", &op.Extended{OID: "1.2.3.4"}, nil, "2"},
		{"4.12", &op.Extended{OID: "not an OID"}, nil, "2"},
	}},
	{"RFC 4512", []clause{
		{"2.3.2", find("uid=rogasawara+cn=ogasawara\\, rodney,"+peopleDN, atBase, "(cn=*)", "uid"), nil, "cn=Ogasawara\\, Rodney+uid=rogasawara uid=rogasawara; 0"},
		{"2.4.1", add("cn=x,"+devicesDN, "objectClass=top", "cn=x"), nil, "65"},
		{"2.4.2", add("cn=x,"+devicesDN, "objectClass=device", "objectClass=room", "cn=x"), nil, "65"},
		{"2.4.3", modify(printer, "+objectClass=simpleSecurityObject", "+userPassword=x"), nil, "0"},
		{"2.4.3", modify(printer, "-objectClass=simpleSecurityObject", "-userPassword"), nil, "0"},
		{"2.5.1", modify(jdoe, "+jpegPhoto=x"), nil, "18"}, // jpegPhoto has no equality rule
		{"2.5.1", modify("uid=psharma,"+peopleDN, "+telephoneNumber=+41445550213"), nil, "20"},
		{"2.5.2", find(suffix, atBase, "(o;lang-de=*)", "o;lang-de"), nil, "dc=example o;lang-de=Beispiel GmbH; 0"},
		{"2.5.3", find(jdoe, atBase, "(name=johann reh)", "sn"), nil, "uid=jdoe sn=Doe; 0"},
		{"2.6.1", add("cn=x,cn=boss,"+suffix, "objectClass=device"), nil, "33"},
		{"2.6.2", find("cn=boss,"+suffix, atBase, "(cn=*)", "aliasedObjectName"), nil, "cn=boss aliasedObjectName=" + jdoe + "; 0"},
		{"3.3", find(printer, atBase, "(objectClass=top)", "structuralObjectClass"), nil, "cn=printer-1 structuralObjectClass=device; 0"},
		{"3.4", find(printer, atBase, "(createTimestamp=*)", "creatorsName"), nil, "cn=printer-1 creatorsName=cn=admin; 0"},
		{"3.4", modify(printer, ":modifiersName="+jdoe), nil, "19"},
		{"4.2", find(printer, atBase, "(cn=*)", "subschemaSubentry"), nil, "cn=printer-1 subschemaSubentry=cn=Subschema; 0"},
		{"4.2", find("cn=Subschema", atBase, "(&(objectClass=subschema)(attributeTypes=2.5.4.3)(objectClasses=person))", "cn"), nil, "cn=Subschema cn=Subschema; 0"},
		{"4.4", find("cn=Subschema", atBase, "(objectClass=subschema)", "1.1"), nil, "cn=Subschema; 0"},
		{"5.1", find("", atBase, "(objectClass=*)", "namingContexts", "altServer"), nil, " namingContexts=" + suffix + "; 0"},
		{"5.1", find("", atSub, "(supportedLDAPVersion=*)", "1.1"), nil, "ref " + reference("sub") + "; 0"},
	}},
	{"RFC 4513", []clause{
		{"5.1.1", simple("", ""), nil, "0"},
		{"5.1.1", whoami, nil, `0 ""`},
		{"5.1.2", simple(jdoe, ""), nil, "53"},
		{"5.1.3", simple(jdoe, "opensesame"), nil, "0"},
		{"5.1.3", whoami, nil, `0 "dn:` + jdoe + `"`},
		{"5.1.3", simple(jdoe, "Opensesame"), nil, "49"},
		{"4", whoami, nil, `0 ""`}, // anonymous after a bind that failed
		{"4", modify(printer, ":l=x"), nil, "50"},
		{"5.1.3", simple(asantos, "Pão de queijo"), nil, "0"},
		{"5.2.1.2", &op.Bind{Version: 3, SASL: true, Mechanism: "NONE-SUCH"}, nil, "7"},
		{"6.3.1", modify(printer, ":l=x"), nil, "50"},
	}},
	{"RFC 4517", []clause{
		{"3.3.3", modify(jdoe, "+objectClass=extensibleObject", ":hasSubordinates=yes"), nil, "19"},
		{"3.3.6", find(suffix, atBase, "(description=makers*)", "dc"), nil, "dc=example dc=example; 0"},
		{"3.3.9", modify(jdoe, ":seeAlso=nobody"), nil, "21"},
		{"3.3.13", find(printer, atBase, "(createTimestamp>=19700101000000Z)", "1.1"), nil, "cn=printer-1; 0"},
		{"3.3.15", modify(jdoe, ":mail=ü@x"), nil, "21"},
		{"3.3.16", modify(jdoe, ":uidNumber=1.5"), nil, "21"},
		{"3.3.23", modify(jdoe, ":x121Address=1 2"), nil, "0"},
		{"3.3.23", modify(jdoe, ":x121Address=1-2"), nil, "21"},
		{"3.3.28", modify(jdoe, ":postalAddress=a$b\\24c"), nil, "0"},
		{"3.3.31", modify(jdoe, ":telephoneNumber=ü"), nil, "21"},
		{"4.2.2", find(groupsDN, atSub, "(cn:booleanMatch:=TRUE)", "1.1"), nil, "0"},
		{"4.2.4", find(jdoe, atBase, "(cn:caseExactMatch:=John Doe)", "1.1"), nil, "uid=jdoe; 0"},
		{"4.2.4", find(jdoe, atBase, "(cn:caseExactMatch:=john doe)", "1.1"), nil, "0"},
		{"4.2.6", find(jdoe, atBase, "(cn:caseExactSubstringsMatch:=J\\2aDoe)", "1.1"), nil, "uid=jdoe; 0"},
		{"4.2.9", equals(jdoe, "postalAddress", "A$B\\24C"), nil, "6"},
		{"4.2.11", equals(jdoe, "cn", "  JOHN   doe "), nil, "6"},
		{"4.2.15", equals("cn=admins,"+groupsDN, "member", "UID=jdoe, OU=People,"+suffix), nil, "6"},
		{"4.2.19", equals(jdoe, "uidNumber", "10000"), nil, "6"},
		{"4.2.19", find(jdoe, atBase, "(uidNumber=010000)", "1.1"), nil, "0"},
		{"4.2.26", find(jdoe, atBase, "(objectClass=2.5.6.6)", "1.1"), nil, "uid=jdoe; 0"},
		{"4.2.29", find(jdoe, atBase, "(telephoneNumber=+41-44 5550100)", "1.1"), nil, "uid=jdoe; 0"},
		{"4.2.31", find("cn=board,"+groupsDN, atBase, "(uniqueMember=UID=jmuller,"+peopleDN+"#'0101'B)", "1.1"), nil, "cn=board; 0"},
		{"4.2.31", find("cn=board,"+groupsDN, atBase, "(uniqueMember=uid=jmuller,"+peopleDN+")", "1.1"), nil, "0"},
	}},
	{"RFC 2696", []clause{
		{"3", find(devicesDN, atOne, "(objectClass=*)", "1.1"), paged(5, ""), "cn=Matterhorn; cn=printer-1; cn=printer-2; 0 [1.2.840.113556.1.4.319 30050201000400]"},
		{"3", find("uid=nobody,"+peopleDN, atOne, "(objectClass=*)", "1.1"), paged(5, ""), "32 at " + peopleDN},
		{"3", find(devicesDN, atOne, "(objectClass=*)", "1.1"), paged(1, "no cookie"), "53"},
		{"2", find(devicesDN, atOne, "(objectClass=*)", "1.1"), paged(-1, ""), "2"},
		{"2", find(devicesDN, atOne, "(objectClass=*)", "1.1"), []op.Control{{OID: "1.2.840.113556.1.4.319", Critical: true, Value: []byte("x")}}, "2"},
	}},
	{"RFC 3062", []clause{
		{"2", simple("", ""), nil, "0"},
		{"2", passwd("-", "-", "new"), nil, "53"},
		{"2", simple(asantos, "Pão de queijo"), nil, "0"},
		{"2", passwd("-", "wrong", "new"), nil, "53"},
		{"2", passwd("-", "Pão de queijo", "new"), nil, "0"},
		{"2", passwd(jdoe, "-", "new"), nil, "50"},
		{"2", simple(asantos, "new"), nil, "0"},
		{"2", &op.Extended{OID: "1.3.6.1.4.1.4203.1.11.1", Value: []byte("x")}, nil, "2"},
	}},
	{"RFC 3296", []clause{
		{"3.1", find(partnersDN, atBase, "(objectClass=referral)", "ou"), manageDsaIT, "ou=partners ou=partners; 0"},
		{"3.1", modify(partnersDN, "+description=x"), manageDsaIT, "0"},
		{"5.1", find(suffix, atBelow, "(cn=nothing)"), nil, "ref " + reference("sub") + "; 0"},
		{"5.2", modify(partnersDN, "+description=y"), nil, "10 at " + partnersDN + " " + referral},
		{"5.5", find(partnersDN, atSub, "(cn=nothing)"), nil, "10 at " + partnersDN + " " + reference("sub")},
		{"5.6", move(printer, "cn=printer-1", partnersDN), nil, "71"},
	}},
	{"RFC 3673", []clause{
		{"2", find("", atBase, "(supportedFeatures=1.3.6.1.4.1.4203.1.5.1)", "1.1"), nil, "; 0"},
	}},
	{"RFC 3866", []clause{
		{"2.1", find(suffix, atBase, "(o;lang-de=beispiel gmbh)", "o;lang-de"), nil, "dc=example o;lang-de=Beispiel GmbH; 0"},
		{"2.1", find(suffix, atBase, "(o;lang-de=example ltd)", "1.1"), nil, "0"},
		{"2.1", find(suffix, atBase, "(o=beispiel gmbh)", "1.1"), nil, "dc=example; 0"},
		{"2.1.4", add("cn=x,"+devicesDN, "objectClass=device", "description;lang-en=a", "description;lang-EN-gb=a"), nil, "0"},
		{"2.2", find("cn=x,"+devicesDN, atBase, "(cn=x)", "description;lang-en-"), nil, "cn=x description;lang-en=a description;lang-en-gb=a; 0"},
		{"2.2", find("cn=x,"+devicesDN, atBase, "(description;lang-=a)", "description;lang-en"), nil, "cn=x description;lang-en=a; 0"},
		{"2.2", &op.Delete{Name: "cn=x," + devicesDN}, nil, "0"},
	}},
	{"RFC 4525", []clause{
		{"2", modify(jdoe, "#uidNumber=3"), nil, "0"},
		{"2", modify(jdoe, "#uidNumber=-4"), nil, "0"},
		{"2", equals(jdoe, "uidNumber", "9999"), nil, "6"},
		{"2", modify(jdoe, "#uidNumber"), nil, "2"},
		{"2", modify(jdoe, "#sn=1"), nil, "19"},
		{"2", modify(asantos, "#uidNumber=1"), nil, "16"},
	}},
	{"RFC 4526", []clause{
		{"2", find(jdoe, atBase, "(&)", "1.1"), nil, "uid=jdoe; 0"},
		{"2", find(jdoe, atBase, "(|)", "1.1"), nil, "0"},
	}},
	{"RFC 4529", []clause{
		{"2", find(printer, atBase, "(cn=*)", "@person"), nil, "cn=printer-1 objectClass=top|device cn=printer-1 description=Printer on the first floor; 0"},
		{"2", find(printer, atBase, "(cn=*)", "@bogus"), nil, "cn=printer-1; 0"},
	}},
	{"RFC 4530", []clause{
		{"2.1", find(printer, atBase, "(entryUUID=*)", "1.1"), nil, "cn=printer-1; 0"},
		{"2.4", find(suffix, atBase, "(entryUUID=x)", "1.1"), nil, "0"},
		{"2.4", modify(printer, ":entryUUID=00000000-0000-0000-0000-000000000000"), nil, "19"},
	}},
	{"RFC 4532", []clause{
		{"2", whoami, nil, `0 "dn:` + adminDN + `"`},
		{"2", &op.Extended{OID: whoAmI, Value: []byte{}}, nil, "2"},
		{"2", simple("", ""), nil, "0"},
		{"2", whoami, nil, `0 ""`},
	}},
	{"RFC 5020", []clause{
		{"2", find(suffix, atSub, "(entryDN=UID=jdoe,"+peopleDN+")", "entryDN"), nil, "ref " + reference("sub") + "; uid=jdoe entryDN=" + jdoe + "; 0"},
	}},
}

const referral = "ldap://ldap1.example.net/ou=partners,dc=example,dc=net ldap://ldap2.example.net/ou=partners,dc=example,dc=net"

// reference returns the URLs of ou=partners, the only referral object in the sample directory,
// with the given scope in each URL.
func reference(scope string) string {
	return "ldap://ldap1.example.net/ou=partners,dc=example,dc=net??" + scope + " ldap://ldap2.example.net/ou=partners,dc=example,dc=net??" + scope
}
