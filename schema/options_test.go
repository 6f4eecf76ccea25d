package schema

import "testing"

func TestDescribe(t *testing.T) {
	s := Core().WithOptions("x-one", "Y-")
	changed, err := s.Extend("attributeTypes: ( 1.2.3.4 NAME 'more' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )")
	if err != nil {
		t.Fatal(err)
	}
	for description, known := range map[string]bool{
		"cn": true, "2.5.4.3": true, "no": false, "": false,
		"cn;lang-de": true, "CN;LANG-DE;lang-fr": true, "cn;lang-": true, "cn;phonetic": true,
		"cn;lang": false, "cn;x-two": false, "cn;lang-de;x-two": false, "no;lang-de": false,
		"cn;x-one": true, "cn;X-ONE": true, "cn;x-oneself": false, "cn;y-": true, "cn;y-whatever": true, "cn;y": false,
		"cn;": false, "cn;;lang-de": false, "cn;lang-de;": false,
		"cn;binary": false, "userCertificate;binary": true, "jpegPhoto;binary;lang-de": true, "userPKCS12;binary": true,
	} {
		for _, s := range []*Schema{s, changed} {
			if typ, _ := s.Describe(description); (typ != nil) != known {
				t.Errorf("%q: %v", description, typ)
			}
		}
	}
	if typ, _ := Core().Describe("cn;x-one"); typ != nil {
		t.Error("WithOptions changes the schema that it is called on")
	}
}
