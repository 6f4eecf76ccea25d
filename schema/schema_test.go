package schema

import "testing"

func TestSmoke(t *testing.T) {
	s := Core()
	t.Log(len(s.attributes), len(s.classes), len(s.rules), len(s.syntaxes), Version())
	cn := s.Attribute("CN")
	k, err := cn.Equality.Key([]byte("Foo  Bar"))
	t.Logf("%q %v", k, err)
	k, err = cn.Equality.Key([]byte("Straße \u00adΣΊΣΥΦΟΣ ＡＢＣ e\u0301"))
	t.Logf("%q %v", k, err)
	t.Log(len(s.Subtypes(s.Attribute("name"))), s.Attribute("userpassword").Secret())
	for _, d := range s.Definitions("matchingRuleUse")[:3] {
		t.Log(d)
	}
}
