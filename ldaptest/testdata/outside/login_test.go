package outside

import (
	"testing"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/ldaptest"
)

func TestLogin(t *testing.T) {
	srv := ldaptest.Start(t, ldaptest.LDIF("people.ldif"))
	conn, err := ldap.DialURL(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Bind("uid=ann,dc=example,dc=com", "three blind mice"); err != nil {
		t.Error(err)
	}
}
