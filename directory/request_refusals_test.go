package directory_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// TestRefusalsNameWhatRefused checks that an unavailableCriticalExtension names the OID and the
// name of the control, and that an insufficientAccessRights names the rule for whoever has the
// right to explain. The access log names the rule in both cases, and has the diagnostic.
func TestRefusalsNameWhatRefused(t *testing.T) {
	var access bytes.Buffer
	p, d := newBranched(t, branchStores["embedded"](t), directory.Options{Access: slog.New(slog.NewJSONHandler(&access, nil))})
	c := &client{t: t, p: p, d: d, s: d.NewSession(nil)}
	serve(t, c.s, everyRequest[0].request)
	serve(t, c.s, &op.Add{Name: "dc=example,dc=com", Attributes: values("objectClass", "domain")})
	for _, name := range []string{"ann", "bob"} {
		serve(t, c.s, &op.Add{Name: "uid=" + name + ",dc=example,dc=com", Attributes: attributes(lines("objectClass: inetOrgPerson\ncn: x\nsn: x\nuserPassword: secret"))})
	}
	for _, rule := range []string{
		"seen: allow users to see, read",
		"told: allow \"uid=ann,dc=example,dc=com\" to explain",
		"frozen: deny users to write description",
		"lent: allow \"uid=bob,dc=example,dc=com\" to proxy in \"uid=ann,dc=example,dc=com\"",
	} {
		serve(t, c.s, &op.Modify{Name: "cn=config", Changes: changes(lines("add accessRule: " + rule))})
	}
	modify := &op.Modify{Name: "dc=example,dc=com", Changes: changes(lines("replace description: x"))}
	for _, e := range []struct {
		who        string
		request    op.Request
		control    op.Control
		code       op.Code
		diagnostic string
		logged     string
	}{
		{"ann", modify, op.Control{}, op.InsufficientAccessRights, "the access rules do not allow this: frozen@cn=config", "frozen@cn=config"},
		{"bob", modify, op.Control{}, op.InsufficientAccessRights, "the access rules do not allow this", "frozen@cn=config"},
		{"bob", search(), op.Control{OID: "1.2.840.113556.1.4.417", Critical: true}, op.UnavailableCriticalExtension, "control 1.2.840.113556.1.4.417 (show deleted) is not supported", "show deleted"},
		{"bob", search(), op.Control{OID: "1.2.3", Critical: true}, op.UnavailableCriticalExtension, "control 1.2.3 is not supported", "1.2.3"},
		{"bob", search(), op.Control{OID: control.OIDTreeDelete, Critical: true}, op.UnavailableCriticalExtension, "control 1.2.840.113556.1.4.805 (tree delete) cannot be used with this operation", "tree delete"},
		// Whoever may act as anyone may act as the anonymous.
		{"bob", search(), op.Control{OID: control.OIDProxiedAuthorization, Value: []byte("dn:uid=ann,dc=example,dc=com")}, op.Success, "", `"as":"dn:uid=ann`},
		{"bob", &op.Extended{OID: control.OIDWhoAmI}, op.Control{OID: control.OIDProxiedAuthorization, Value: []byte{}}, op.Success, "", `"as":""`},
		{"ann", search(), op.Control{OID: control.OIDProxiedAuthorization, Value: []byte{}}, op.AuthorizationDenied, "this identity cannot be assumed", "123"},
	} {
		s := d.NewSession(nil)
		serve(t, s, &op.Bind{Version: 3, Name: "uid=" + e.who + ",dc=example,dc=com", Password: []byte("secret")})
		access.Reset()
		var controls []op.Control
		if e.control.OID != "" {
			controls = []op.Control{e.control}
		}
		var out answers
		s.Serve(t.Context(), &op.Message{ID: 1, Request: e.request, Controls: controls}, &out)
		if out.done.Code != e.code || out.done.Diagnostic != e.diagnostic {
			t.Errorf("%s, %T: %v", e.who, e.request, &out.done.Result)
		}
		if !strings.Contains(access.String(), e.logged) {
			t.Errorf("%s, %T: the log has no %s: %s", e.who, e.request, e.logged, &access)
		}
	}
}
