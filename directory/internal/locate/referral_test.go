package locate

import "testing"

func TestReferralURL(t *testing.T) {
	for _, c := range []struct{ url, own, scope, want string }{
		{"ldap://h/o=x", "ou=y", "", "ldap://h/o=x"},
		{"ldap://h/o=x??one?(a=b)", "ou=y", "sub", "ldap://h/o=x??sub"},
		{"ldap://h:389", "ou=ä?b", "", "ldap://h:389/ou=%C3%A4%3Fb"},
		{"ldap://h/", "ou=y", "base", "ldap://h/ou=y??base"},
		{"LDAPS://h/o=x", "ou=y", "base", "LDAPS://h/o=x??base"},
		{"http://h/page", "ou=y", "sub", "http://h/page"},
		{"nonsense", "ou=y", "sub", "nonsense"},
	} {
		if got := referralURL(c.url, c.own, nil, c.scope); got != c.want {
			t.Errorf("%s: %s, want %s", c.url, got, c.want)
		}
	}
}
