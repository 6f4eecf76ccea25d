package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/web"
)

// TestCodes checks that people set up one-time codes themselves if the access rules let them, and end them.
func TestCodes(t *testing.T) {
	s := newSite(t)
	v := s.logged(jdoe, "opensesame")
	v.get("/me")
	v.follow("Set up codes")
	v.shows("The access rules do not let you set up codes")
	s.ldap(s.admin, &op.Modify{Name: "cn=config", Changes: []op.Modification{{Kind: op.ModAdd, PartialAttribute: op.PartialAttribute{Description: "accessRule", Values: [][]byte{[]byte("codes: allow self to write objectClass, oathTOTPToken, oathSecret")}}}}})
	v.get("/me/code")
	secret := formValues(nodes(v.doc(), "form")[2]).Get("secret")
	v.submit("Use codes", "code", "12")
	v.shows("The code is wrong")
	if again := formValues(nodes(v.doc(), "form")[2]).Get("secret"); again != secret || v.status != http.StatusUnprocessableEntity {
		t.Errorf("status %d, another secret %q", v.status, again)
	}
	if strings.Contains(s.entry(jdoe), "oathTOTP") {
		t.Error("a wrong code has changed the entry")
	}
	code, err := totp.GenerateCode(secret, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	v.submit("Use codes", "code", code)
	v.shows("type the code after your password", "needs a code")
	if _, err := ask(t.Context(), web.Client{Session: s.dir.NewSession(nil)}, &op.Bind{Version: 3, Name: jdoe, Password: []byte("opensesame")}); err == nil {
		t.Error("a bind without a code")
	}
	v.follow("Change that")
	v.submit("End the codes", "password", "opensesame", "code", "12")
	v.shows("The password or the code is wrong")
	v.submit("End the codes", "password", "opensesame", "code", code)
	v.shows("You log in without codes again", "needs only the password")
	s.logged(jdoe, "opensesame")
}

// TestWords checks what is said of a new password while somebody types it.
func TestWords(t *testing.T) {
	s := newSite(t)
	v := s.logged(jdoe, "opensesame")
	check := func(password string) string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, v.url+"/me/check", strings.NewReader(url.Values{"new": {password}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		v.send(r)
		return v.text
	}
	if got := check("a quiet harbour wall"); got != "This password can be used." {
		t.Error(got)
	}
	var policy []op.Modification
	for _, p := range [][2]string{{"objectClass", "pwdPolicy"}, {"pwdAttribute", "userPassword"}, {"pwdCheckQuality", "1"}, {"pwdMinLength", "12"}} {
		policy = append(policy, op.Modification{Kind: op.ModAdd, PartialAttribute: op.PartialAttribute{Description: p[0], Values: [][]byte{[]byte(p[1])}}})
	}
	s.ldap(s.admin, &op.Modify{Name: "cn=config", Changes: policy})
	if got := check("short"); !strings.Contains(got, "12") {
		t.Error(got)
	}
	if got := check(""); got != "" {
		t.Error(got)
	}
	s.logged(jdoe, "opensesame")
}
