package schema

import "testing"

// The smallest values with the right structure. They contain no names, keys or
// signatures.
const (
	aCertificate     = "\x30\x14" + "\x30\x0d\x02\x01\x01" + "\x30\x00\x30\x00\x30\x00\x30\x00\x30\x00" + "\x30\x00" + "\x03\x01\x00"
	aCertificateList = "\x30\x1a" + "\x30\x13" + "\x30\x00\x30\x00" + "\x17\x0d240229120000Z" + "\x30\x00" + "\x03\x01\x00"
)

func TestSyntaxes(t *testing.T) {
	cases := map[string]struct{ good, bad []string }{
		syntaxAttributeType: {[]string{"( 1.2 NAME 'a' SYNTAX 1.3 )"}, []string{"", "1.2", "( 1.2 MUST x )"}},
		syntaxAudio:         {[]string{"", "\x00"}, nil},
		syntaxBinary:        {[]string{"", "\x00"}, nil},
		syntaxBitString:     {[]string{"''B", "'0101'B"}, []string{"", "'02'B", "'01'b", "'B", "0101", "'01'H"}},
		syntaxBoolean:       {[]string{"TRUE", "FALSE"}, []string{"", "true", "1", "TRUE "}},
		syntaxCertificate: {
			[]string{aCertificate, "\x30\x19\x30\x12\xa0\x03\x02\x01\x02" + aCertificate[4:]},
			[]string{"", "\x30", "\x30\x00", "MIIC", aCertificate + "x", aCertificate[:21], "\x30\x80" + aCertificate[2:] + "\x00\x00"},
		},
		syntaxCertificateList: {[]string{aCertificateList}, []string{"", "x", "\x30\x00", aCertificate, aCertificateList + "x"}},
		syntaxCertificatePair: {
			[]string{"\x30\x18\xa0\x16" + aCertificate, "\x30\x18\xa1\x16" + aCertificate, "\x30\x30\xa0\x16" + aCertificate + "\xa1\x16" + aCertificate},
			[]string{"", "x", "\x30\x00", aCertificate, "\x30\x18\xa2\x16" + aCertificate, "\x30\x02\xa0\x00"},
		},
		syntaxCountryString: {[]string{"DE", "us"}, []string{"", "D", "DEU", "D\xe4", "D*"}},
		syntaxDN: {
			[]string{"", "cn=a,dc=b", `cn=\e4\ff+sn=x`, "2.5.4.3=#040141", "cn=a, ou=b"},
			[]string{"a", "cn", "=a", "cn=a,", "cn=a,,dc=b", `cn=\`},
		},
		syntaxDeliveryMethod:   {[]string{"telephone", "any $ mhs$g3fax"}, []string{"", "phone", "any$", "any mhs"}},
		syntaxDirectoryString:  {[]string{"a", "ä日本", " ", "\x00"}, []string{"", "\xff", "a\xc3"}},
		syntaxDITContentRule:   {[]string{"( 2.5.6.4 DESC 'x' MUST ( a $ b ) )"}, []string{"", "2.5", "( a", "( a ) )", "( 'a )"}},
		syntaxDITStructureRule: {[]string{"( 2 DESC 'x' FORM f SUP ( 1 2 ) )"}, []string{"", "2 ( )"}},
		syntaxEnhancedGuide: {
			[]string{"person#(sn$EQ)#oneLevel", "person # sn$SUBSTR|!cn$GE&(a$LE|?true) # wholeSubtree", "2.5.6.6#?false#baseobject"},
			[]string{"", "person#sn$EQ", "#sn$EQ#oneLevel", "person#sn$XX#oneLevel", "person#sn$EQ#all", "person#(sn$EQ#oneLevel", "person##oneLevel", "person#sn$EQ|#oneLevel"},
		},
		syntaxFacsimile: {[]string{"+1 800 555 0100", "+1$a3Width$fineResolution"}, []string{"", "$a3Width", "+1$a9", "+1#"}},
		syntaxFax:       {[]string{"\x00"}, nil},
		syntaxGeneralizedTime: {
			[]string{"2024022912Z", "202402291200Z", "20240229120000Z", "20240229120000.5Z", "20240229120000,5+0130", "2024022912-05", "20161231235960Z", "00000101000000Z"},
			[]string{"", "2024", "20240229", "20240229120000", "20230229120000Z", "20241301000000Z", "20240001000000Z", "20240100000000Z",
				"2024010124Z", "202401012360Z", "20240101235961Z", "20240101000000.Z", "20240101000000z", "20240101000000+2400",
				"20240101000000+0060", "20240101000000+1", "20240101000000ZZ", "2024010100000Z", "x"},
		},
		syntaxGuide:           {[]string{"sn$EQ", "person#sn$APPROX", "!(sn$EQ|?true)"}, []string{"", "#sn$EQ", "sn", "p#q#r", "(sn$EQ))"}},
		syntaxIA5String:       {[]string{"", "a@b", "\x7f"}, []string{"ä", "\x80"}},
		syntaxInteger:         {[]string{"0", "-1", "12345678901234567890123"}, []string{"", "-", "-0", "01", "1.0", "+1", " 1"}},
		syntaxJPEG:            {[]string{"\xff\xd8\xff", ""}, nil},
		syntaxMatchingRule:    {[]string{"( 1.2 NAME 'x' SYNTAX 1.3 )"}, []string{"( 1.2 SUP x )"}},
		syntaxMatchingRuleUse: {[]string{"( 1.2 NAME 'x' APPLIES ( a $ b ) )"}, []string{"( 1.2 SYNTAX 1.3 )"}},
		syntaxNameAndOptionalUID: {
			[]string{"cn=a", "cn=a#'0101'B", "cn=a#b", "", "#'0'B"},
			[]string{"cn", "cn#'0'B"},
		},
		syntaxNameForm:        {[]string{"( 1.2 NAME 'x' OC person MUST cn )"}, []string{"(", ")"}},
		syntaxNumericString:   {[]string{"1", "1 2 ", " "}, []string{"", "1a", "-1"}},
		syntaxObjectClass:     {[]string{"( 1.2 SUP top MUST a MAY ( b $ c ) )"}, []string{"( 1.2 SYNTAX 1.3 )", "(1.2"}},
		syntaxOID:             {[]string{"1.2.3", "cn", "a-b", "2.5.4.0", "0.0"}, []string{"", "0", "1.", "1 ", ".1", "01.2", "1..2", "a b", "-a", "ä"}},
		syntaxOtherMailbox:    {[]string{"internet$a@b", "x$"}, []string{"", "a@b", "$a", "ä$b", "x$ä"}},
		syntaxOctetString:     {[]string{"", "\x00\xff"}, nil},
		syntaxPostalAddress:   {[]string{"1 Main St$Town", `\241M \5c$x`, "ä$ $b"}, []string{"", "ä$$b", "$a", "a$", "$", "\xff", `a\x`, `a\`, `a\2`}},
		syntaxPrintableString: {[]string{"aZ09 '()+,-./:=?"}, []string{"", "a*", "a@b", "a_b", "ä", "\""}},
		syntaxSubtreeSpecification: {
			[]string{"{}", "{ }", `{ base "ou=people" }`, `{base "cn=""a""", minimum 1, maximum 2}`,
				`{ specificExclusions { chopBefore:"cn=x", chopAfter: "cn=y" } }`,
				`{ specificationFilter and:{ item:person, not:or:{ item:2.5.6.6 } } }`},
			[]string{"", "{", "}", "{} x", `{ base ou=people }`, `{ base "x" }`, "{ minimum x }", "{ bogus 1 }", `{ base "cn=x`,
				`{ specificExclusions { chop:"cn=x" } }`, "{ specificationFilter item: }", "{ minimum 1 maximum 2 }"},
		},
		syntaxSupportedAlgorithm: {[]string{"\x30\x00"}, []string{"x"}},
		syntaxTelephoneNumber:    {[]string{"+1 800 555-0100", "(0)30/12.34"}, []string{"", "+1#", "\u0661"}},
		syntaxTeletex:            {[]string{"abc", "abc$graphic:\x00$misc:x"}, []string{"", "abc$x:y", "abc$graphic", "$misc:x"}},
		syntaxTelexNumber:        {[]string{"123$de$abc"}, []string{"", "123", "123$de", "123$de$", "1$2$3$4"}},
		syntaxUTCTime: {
			[]string{"240229120000Z", "2402291200Z", "2402291200+0100", "240229120000"},
			[]string{"", "24022912Z", "20240229120000Z", "240229120000.5Z", "240229256000Z", "2402291200+1", "2402291200+01", "2402291200X", "161231235960Z"},
		},
		syntaxLDAPSyntax:           {[]string{"( 1.2 DESC 'x' X-Y 'z' )"}, []string{"( 1.2 SUP x )", "( )"}},
		syntaxSubstringAssertion:   {[]string{"a*", "*a", "a*b*c", `*\2A*`, "*"}, []string{"", "a", "a**b", `a\*`, `\2b*`, "\xff*"}},
		syntaxUUID:                 {[]string{"597ae2f6-16a6-1027-98f4-d28b5365dc14"}, []string{"", "597ae2f616a6102798f4d28b5365dc14", "597ae2f6-16a6-1027-98f4-d28b5365dc1g", "597ae2f6+16a6-1027-98f4-d28b5365dc14"}},
		syntaxCSN:                  {[]string{"20240229120000.000000Z#000000#000#000000", "20240229120000Z#000000#00#000000"}, []string{"", "20240229120000.000000Z", "20240230120000.000000Z#000000#000#000000"}},
		syntaxCertificateExact:     {[]string{`{ serialNumber 0, issuer rdnSequence:"cn=a" }`, `1$cn=a`, aCertificate}, []string{"", "{ }", "x", "\x30"}},
		syntaxCertificateListExact: {[]string{`{ issuer rdnSequence:"", thisUpdate utcTime:"0610200000Z" }`, aCertificateList}, []string{"", "{ }", "1$cn=a", aCertificate}},
		syntaxAttributeCertificate: {[]string{"\x30\x00"}, []string{"", "x"}},
		syntaxAuthz:                {[]string{"dn:cn=a", "u:a"}, []string{"", "\xff"}},
		syntaxDNWithBinary:         {[]string{"B:4:a1B2:cn=x", "B:0::", "B:2:ff:"}, []string{"", "B:4:a1B:cn=x", "B:3:a1B:cn=x", "B:2:xx:cn=x", "S:2:ff:cn=x", "B:2:ffcn=x", "B:2:ff", "B:-1:f:", "B:2:ff:x", "B:99999999999:ff:"}},
		syntaxDNWithString:         {[]string{"S:3:a:b:cn=x", "S:0::"}, []string{"", "S:4:abc:cn=x", "B:2:ff:cn=x", "S:x:a:"}},
		syntaxADCaseIgnore:         {[]string{"a"}, []string{"", "\xff"}},
		syntaxADLargeInteger:       {[]string{"0", "-9223372036854775808", "133500000000000000"}, []string{"", "9223372036854775808", "+1", "01", "x"}},
		syntaxADSecurity:           {[]string{"\x01\x00"}, nil},
		syntaxADCaseExact:          {[]string{"a"}, []string{"", "\xff"}},
		syntaxNISNetgroupTriple:    {[]string{"(a,b,c)", "(,,)", "(-,b,-)"}, []string{"", "a,b,c", "(a,b)", "(a,b,c,d)", "(ä,,)"}},
		syntaxBootParameter:        {[]string{"root=server:/path"}, []string{"", "root", "root=server", "=s:/p", "r=s:", "r=:p"}},
	}
	for oid := range validators {
		x := Core().SyntaxOf(oid)
		if x == nil {
			t.Errorf("no definition of syntax %s", oid)
			continue
		}
		c, ok := cases[oid]
		if !ok {
			t.Errorf("syntax %s (%s) is not tested", oid, x.Desc)
		}
		for _, v := range c.good {
			if err := x.Validate([]byte(v)); err != nil {
				t.Errorf("%s: %q: %v", x.Desc, v, err)
			}
		}
		for _, v := range c.bad {
			if err := x.Validate([]byte(v)); err == nil {
				t.Errorf("%s: %q is let pass", x.Desc, v)
			}
		}
	}
}

// TestDeepNestingEnds checks that deeply nested criteria and refinements, which clients
// may send, are refused.
func TestDeepNestingEnds(t *testing.T) {
	deep := func(open string) []byte {
		b := []byte{}
		for range 200000 {
			b = append(b, open...)
		}
		return b
	}
	if Core().SyntaxOf(syntaxGuide).Validate(deep("(")) == nil {
		t.Error("a guide of nothing but parentheses is let pass")
	}
	if Core().SyntaxOf(syntaxSubtreeSpecification).Validate(append([]byte("{ specificationFilter "), deep("not:")...)) == nil {
		t.Error("a refinement of nothing but not is let pass")
	}
}

// FuzzValidValuesHaveKeys checks that a value that a syntax accepts has a key under the
// equality rules of the types with this syntax. It leaves out names, because the validator of
// names does not look up types.
func FuzzValidValuesHaveKeys(f *testing.F) {
	for _, v := range []string{"", "a", "20240229120000Z", "1", "'0'B", "cn=a#'0'B", "TRUE", "( 1.2 NAME 'a' )", `a\24$b`, "a*b", "{ base \"\" }"} {
		f.Add([]byte(v))
	}
	s := Core()
	f.Fuzz(func(t *testing.T, v []byte) {
		for _, a := range s.Attributes() {
			if a.Equality == nil || a.Syntax.Validate(v) != nil || a.Syntax.OID == syntaxDN || a.Syntax.OID == syntaxNameAndOptionalUID {
				continue
			}
			if _, err := a.Equality.Key(v); err != nil {
				t.Fatalf("%s takes %q but has no key: %v", a.Name(), v, err)
			}
		}
	})
}
