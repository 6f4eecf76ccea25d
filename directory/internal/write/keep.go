package write

import (
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/transaction"
	"github.com/seed-4dac0d86/ldapd/directory/internal/virtual"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
)

// Keep returns the operation that a transaction keeps for an update. If the update cannot be
// part of a transaction (RFC 5805, 3.3), Keep returns an error. It checks only what it can
// check without reading the directory. If a Password Modify has no new password, Keep
// generates the password and adds it to the response.
func Keep(req *request.Request, m *op.Message) (transaction.Operation, error) {
	o := transaction.Operation{Message: m}
	if err := request.TakeControls(req, m); err != nil {
		return o, err
	}
	if req.Controls.Proxied != nil { // RFC 5805, 4.4
		return o, op.Errorf(op.ProtocolError, "proxied authorization control: send it with the start of a transaction, not with its updates")
	}
	if req.Controls.Branch != nil {
		return o, op.Errorf(op.UnwillingToPerform, "a transaction works in the branch of its connection: send this without the branch control")
	}
	if r, ok := m.Request.(*op.Extended); ok {
		p, err := givenPassword(req, r.Value)
		if err == nil && p.New == nil {
			o.Generated = auth.Generate()
			req.Response.Value = control.PasswordModifyResult{Generated: o.Generated}.Encode()
		}
		return o, err
	}
	return o, keepable(m.Request)
}

// keepable returns an error if a name in an update is invalid, or if no transaction can
// change the entry with this name.
func keepable(r op.Request) error {
	var err error
	switch r := r.(type) {
	case *op.Add:
		_, err = target(r.Name)
	case *op.Modify:
		var name dn.DN
		if name, err = dn.Parse(r.Name); err != nil {
			return op.Errorf(op.InvalidDNSyntax, "%v", err)
		}
		switch {
		case catalog.IsSubschema(name):
			return errSchemaAlone
		case !catalog.IsConfig(name):
			err = virtual.RefuseWrite(name)
		}
	case *op.Delete:
		_, err = target(r.Name)
	case *op.ModifyDN:
		return keepableName(r)
	}
	return err
}

// keepableName returns an error if the name, the new RDN or the new superior of a rename is
// invalid, or if package virtual refuses the name or the new superior.
func keepableName(r *op.ModifyDN) error {
	if _, err := target(r.Name); err != nil {
		return err
	}
	if _, err := parseNewRDN(r); err != nil {
		return err
	}
	_, err := newSuperior(r)
	return err
}

// errSchemaAlone is the answer to a change of the schema in a transaction. Servers that
// share a directory put a change of the schema into effect in several commits.
var errSchemaAlone = op.Errorf(op.UnwillingToPerform, "the schema cannot be changed in a transaction: send this without one")
