package write

import (
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/virtual"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
)

// contextChanges splits changes of cn=config into those of its naming contexts and all others.
func contextChanges(req *request.Request, changes []op.Modification) (contexts, rest []op.Modification) {
	for _, c := range changes {
		if t, _ := req.Schema.Describe(c.Description); t != nil && t.Name() == "namingContexts" {
			contexts = append(contexts, c)
		} else {
			rest = append(rest, c)
		}
	}
	return contexts, rest
}

// changeContexts changes the naming contexts, in a transaction. The type namingContexts has no
// equality rule, so changeContexts compares names as distinguishedNameMatch does.
func changeContexts(ctx context.Context, req *request.Request, tx *partition.Tx, changes []op.Modification) error {
	if len(changes) == 0 {
		return nil
	}
	now := slices.Clone(tx.Catalog.Header.Suffixes)
	find := func(key string) int {
		return slices.IndexFunc(now, func(have string) bool { _, k, err := contextKey(req, have); return err == nil && k == key })
	}
	for _, c := range changes {
		if _, options := req.Schema.Describe(c.Description); options != "" {
			return op.Errorf(op.ConstraintViolation, "namingContexts takes no options")
		}
		if c.Kind == op.ModAdd && len(c.Values) == 0 {
			return op.Errorf(op.ProtocolError, "add of namingContexts: no values given")
		}
		if c.Kind == op.ModReplace || c.Kind == op.ModDelete && len(c.Values) == 0 {
			now = nil
		}
		for _, v := range c.Values {
			name, key, err := contextKey(req, string(v))
			if err != nil {
				return err
			}
			if virtual.Holds(name) {
				return op.Errorf(op.UnwillingToPerform, "%s cannot be a naming context: the server has entries of its own there", v)
			}
			switch i := find(key); {
			case c.Kind == op.ModIncrement:
				return op.Errorf(op.ConstraintViolation, "namingContexts cannot be incremented")
			case c.Kind != op.ModDelete && i < 0:
				now = append(now, string(v))
			case c.Kind == op.ModDelete && i >= 0:
				now = slices.Delete(now, i, i+1)
			case req.Controls.Rules.Permissive:
			case c.Kind == op.ModDelete:
				return op.Errorf(op.NoSuchAttribute, "%s is no naming context", v)
			default:
				return op.Errorf(op.AttributeOrValueExists, "%s is a naming context already", v)
			}
		}
	}
	return onlineschema.ReplaceSuffixes(ctx, tx, now)
}

// contextKey parses the name of a naming context. It also returns what all its spellings have in common.
func contextKey(req *request.Request, text string) (name dn.DN, key string, err error) {
	var norms []dn.Norm
	if name, err = dn.Parse(text); err == nil {
		norms, err = name.Normalize(req.Schema)
	}
	switch {
	case err != nil:
		return nil, "", op.Errorf(op.InvalidDNSyntax, "namingContexts: %v", err)
	case len(norms) == 0:
		return nil, "", op.Errorf(op.InvalidAttributeSyntax, "namingContexts: the empty name is the root DSE's")
	}
	return name, string(dn.Key(norms)), nil
}
