package schema

type ruleCase struct{ value, assertion, want string }

// rfc4517Rules contains test cases for each matching rule, in the order of the sections
// of RFC 4517 that define the rules.
var rfc4517Rules = []struct {
	section, rule string
	cases         []ruleCase
}{
	{"4.2.1", "bitStringMatch", []ruleCase{
		{"'0101'B", "'0101'B", yes}, {"'0101'B", "'01010'B", no}, {"''B", "''B", yes}, {"'0101'B", "'0102'B", undefined}}},
	{"4.2.2", "booleanMatch", []ruleCase{
		{"TRUE", "TRUE", yes}, {"FALSE", "TRUE", no}, {"TRUE", "true", undefined}}},
	{"4.2.3", "caseExactIA5Match", []ruleCase{
		{"A b", "A  b ", yes}, {"A", "a", no}, {"Ab", "A b", no}, {"A", "\u00c4", undefined}}},
	{"4.2.4", "caseExactMatch", []ruleCase{
		{"Straße", " Straße", yes}, {"Ann", "ann", no}, {"Ann", "\xff", undefined}, {"Ann", "", undefined}}},
	{"4.2.5", "caseExactOrderingMatch", []ruleCase{
		{"A", "B", yes}, {"a", "B", no}, {"A", "A", no}, {"A", "\xff", undefined}}},
	{"4.2.6", "caseExactSubstringsMatch", []ruleCase{
		{"Ann Marie", "Ann*rie", yes}, {"Ann Marie", "ann*", no}, {"Ann Marie", "*n M*", yes}, {"Ann", "Ann", undefined}}},
	{"4.2.7", "caseIgnoreIA5Match", []ruleCase{
		{"JSmith@Example.com", "jsmith@example.COM", yes}, {"a@b", "a@c", no}, {"a@b", "\u00e4@b", undefined}}},
	{"4.2.8", "caseIgnoreIA5SubstringsMatch", []ruleCase{
		{"JSmith@Example.com", "jsmith@*.COM", yes}, {"JSmith@Example.com", "*@example", no}, {"a@b", "a**b", undefined}}},
	{"4.2.9", "caseIgnoreListMatch", []ruleCase{
		{"1 Main St$Town", "1 MAIN  st$ town", yes}, {"1 Main St$Town", "1 Main St", no}, {`a\24b`, "a$b", no}, {"a$b", `a\b`, undefined}}},
	{"4.2.10", "caseIgnoreListSubstringsMatch", []ruleCase{
		{"1 Main St$Town", "1 main*town", yes}, {"1 Main St$Town", "*St*Town*USA", no}, {"a b$c d", "*b c*", no}, {"a$b", "a", undefined}}},
	{"4.2.11", "caseIgnoreMatch", []ruleCase{
		{"Ann  Lee", " ann LEE", yes}, {"Ann Lee", "AnnLee", no}, {"ΣΊΣΥΦΟΣ", "σίσυφος", yes}, {"Ann", "", undefined}, {"Ann", "\ue000", undefined}}},
	{"4.2.12", "caseIgnoreOrderingMatch", []ruleCase{
		{"ann", "BOB", yes}, {"bob", "ANN", no}, {"Ann", "ann", no}, {"a", "", undefined}}},
	{"4.2.13", "caseIgnoreSubstringsMatch", []ruleCase{
		{"Ann Marie Lee", "ANN*marie*E", yes}, {"Ann Marie Lee", "*lee*marie*", no}, {"Ann", "a**n", undefined}, {"Ann", `\*`, undefined}}},
	{"4.2.14", "directoryStringFirstComponentMatch", []ruleCase{
		{"( 'A  b' x )", "a B", yes}, {"( 'A' x )", "x", no}, {"( 'A' x )", "", undefined}}},
	{"4.2.15", "distinguishedNameMatch", []ruleCase{
		{"CN=J. Smith+OU=Sales,DC=Example", "ou=sales + cn=j.  smith,dc=EXAMPLE", yes}, {"cn=a,dc=b", "cn=a,dc=b,dc=c", no},
		{"cn=a,dc=b", "dc=b,cn=a", no}, {"cn=a", "a", undefined}}},
	{"4.2.16", "generalizedTimeMatch", []ruleCase{
		{"199412161032Z", "19941216103200.0Z", yes}, {"199412161032Z", "199412160532-0500", yes}, {"199412161032Z", "199412161032-0500", no},
		{"199412161032Z", "199412161032", undefined}}},
	{"4.2.17", "generalizedTimeOrderingMatch", []ruleCase{
		{"199412161032Z", "199412161033Z", yes}, {"199412161032Z", "199412161032Z", no}, {"199412161032-0500", "199412161033Z", no},
		{"199412161032Z", "1994", undefined}}},
	{"4.2.18", "integerFirstComponentMatch", []ruleCase{
		{"( 2 FORM x )", "2", yes}, {"( 2 FORM x )", "3", no}, {"( 2 FORM x )", "02", undefined}}},
	{"4.2.19", "integerMatch", []ruleCase{
		{"-5", "-5", yes}, {"10", "100", no}, {"10", "+10", undefined}, {"10", "ten", undefined}}},
	{"4.2.20", "integerOrderingMatch", []ruleCase{
		{"-10", "-9", yes}, {"9", "10", yes}, {"10", "9", no}, {"10", "10", no}, {"10", "", undefined}}},
	{"4.2.21", "keywordMatch", []ruleCase{
		{"Ann-Marie Lee", "MARIE", yes}, {"Ann-Marie Lee", "mar", no}, {"Ann", "\xff", undefined}}},
	{"4.2.22", "numericStringMatch", []ruleCase{
		{"15 079 672", "1507 9672", yes}, {"15 079", "15 078", no}, {"15", "1-5", undefined}}},
	{"4.2.23", "numericStringOrderingMatch", []ruleCase{
		{"1 2", "1 3", yes}, {"1 3", "12", no}, {"1", "a", undefined}}},
	{"4.2.24", "numericStringSubstringsMatch", []ruleCase{
		{"15 079 672", "15*7 1", no}, {"15 079 672", "150*6 7*2", yes}, {"15", "15", undefined}}},
	{"4.2.25", "objectIdentifierFirstComponentMatch", []ruleCase{
		{"( 2.5.4.3 NAME 'cn' SUP name )", "2.5.4.3", yes}, {"( 2.5.4.3 NAME 'cn' SUP name )", "CN", yes},
		{"( 2.5.4.3 NAME 'cn' SUP name )", "sn", no}, {"( 2.5.4.3 NAME 'cn' SUP name )", "noSuchName", undefined}}},
	{"4.2.26", "objectIdentifierMatch", []ruleCase{
		{"person", "2.5.6.6", yes}, {"2.5.6.6", "Person", yes}, {"person", "top", no}, {"person", "noSuchName", undefined}, {"person", "1.", undefined}}},
	{"4.2.27", "octetStringMatch", []ruleCase{
		{"\x00\xff", "\x00\xff", yes}, {"A", "a", no}, {"", "", yes}}},
	{"4.2.28", "octetStringOrderingMatch", []ruleCase{
		{"\x7f", "\x80", yes}, {"a", "aa", yes}, {"aa", "a", no}}},
	{"4.2.29", "telephoneNumberMatch", []ruleCase{
		{"+1 512-315 0280", "+15123150280", yes}, {"+1 512", "+1 513", no}, {"+1", "+1#", undefined}, {"+1", "", undefined}}},
	{"4.2.30", "telephoneNumberSubstringsMatch", []ruleCase{
		{"+1 512-315 0280", "+1*31-50*", yes}, {"+1 512-315 0280", "*5130*", no}, {"+1", "+1", undefined}}},
	{"4.2.31", "uniqueMemberMatch", []ruleCase{
		{"cn=a,dc=b#'01'B", "CN=A,DC=B#'01'B", yes}, {"cn=a,dc=b#'01'B", "cn=a,dc=b#'1'B", no}, {"cn=a,dc=b", "cn=a,dc=b#'01'B", no},
		{"cn=a", "a#'01'B", undefined}}},
	{"4.2.32", "wordMatch", []ruleCase{
		{"Ann Marie Lee", "marie", yes}, {"Ann Marie Lee", "mari", no}, {"Ann", "\xff", undefined}}},
}
