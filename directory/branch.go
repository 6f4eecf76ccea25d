package directory

import (
	"context"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/internal/bind"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/virtual"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// Three things can put a request in a branch, in this order of precedence: names in the
// request that end in the name of the branch's entry, the branch control, and a session that
// works in the branch.

// enter makes a request that is in a branch read and change that branch. It returns the
// message that withoutBranch returns.
func enter(ctx context.Context, req *request.Request, m *op.Message) (*op.Message, error) {
	inner, end, err := withoutBranch(m)
	if err != nil {
		return nil, err
	}
	session := req.Session.Branch.Load()
	switch {
	case end != nil:
		if req.Suffix = end.suffix; req.Controls.Branch != nil && *req.Controls.Branch != end.branch {
			return nil, op.Errorf(op.UnwillingToPerform, "the branch control and the names in the request mean different branches")
		}
		return inner, req.Enter(ctx, end.branch)
	case req.Controls.Branch != nil && !isOutside(m.Request):
		return m, req.Enter(ctx, *req.Controls.Branch)
	case session != nil && !isOutside(m.Request):
		return m, req.Enter(ctx, *session)
	}
	return m, nil
}

// isOutside reports whether a request has nothing to do with the entries of a branch. The
// branch control and the session's branch have no effect on such a request.
func isOutside(r op.Request) bool {
	switch r := r.(type) {
	case *op.Extended:
		return r.OID != control.OIDPasswordModify && r.OID != control.OIDEndTransaction
	case *op.Search:
		if r.Base == "" && r.Scope == op.BaseObject {
			return true
		}
	}
	name := op.NameOf(r)
	return name == nil || isOutsideName(*name)
}

func isOutsideName(text string) bool {
	name, err := dn.Parse(text)
	return err == nil && virtual.OutsideBranches(name)
}

// An ending is a branch, and the suffix with which the names of entries in the branch end.
type ending struct{ branch, suffix string }

// withoutBranch cuts the name of a branch from the end of the names in a message. It returns
// the changed message and the ending that was cut off. If the name of the message's entry
// does not end in the name of a branch, withoutBranch returns the message unchanged, and a
// nil ending.
func withoutBranch(m *op.Message) (*op.Message, *ending, error) {
	name := op.NameOf(m.Request)
	if name == nil {
		return m, nil, nil
	}
	rest, end := cutBranch(*name)
	if end == nil {
		return m, nil, nil
	}
	inner := *m
	inner.Request = op.CopyOf(m.Request)
	*op.NameOf(inner.Request) = rest
	if x, ok := inner.Request.(*op.ModifyDN); ok && x.NewSuperior != nil {
		superior, there := cutBranch(*x.NewSuperior)
		if there == nil || there.branch != end.branch {
			return nil, nil, op.Errorf(op.UnwillingToPerform, "newSuperior: it is not in the branch %s", end.branch)
		}
		x.NewSuperior = &superior
	}
	return &inner, end, nil
}

// cutBranch cuts the name of a branch from the end of the name of an entry in the branch.
// For any other name, such as the name of the branch's own entry, cutBranch returns the name
// unchanged, and a nil ending.
func cutBranch(text string) (rest string, end *ending) {
	if !mayEndInBranch(text) {
		return text, nil
	}
	name, err := dn.Parse(text)
	if err != nil {
		return text, nil // the operation refuses a malformed name later
	}
	branch, inside := virtual.BranchOf(name)
	if inside == nil {
		return text, nil
	}
	return inside.String(), &ending{branch, name[len(inside):].String()}
}

// mayEndInBranch is a quick test that avoids parsing most names. It returns true for every
// name that ends in the name of a branch.
func mayEndInBranch(text string) bool {
	const end = "branches"
	if strings.ContainsAny(text[strings.LastIndexByte(text, ',')+1:], `\#`) {
		return true // the word may be written with escapes, or in hexadecimal form
	}
	text = strings.TrimRight(text, ` "`)
	return len(text) > len(end) && strings.EqualFold(text[len(text)-len(end):], end)
}

// bindIn runs a bind. If the name in a simple bind ends in the name of a branch, the session
// works in that branch after a successful bind.
func (d *Directory) bindIn(ctx context.Context, req *request.Request, b *op.Bind, x *request.Exchange) error {
	rest, end := cutBranch(b.Name)
	if b.SASL || end == nil {
		return bind.Run(ctx, req, b, x)
	}
	inner := *b
	inner.Name = rest
	if err := bind.Run(ctx, req, &inner, x); err != nil {
		return err
	}
	req.Who = req.Session.Who.Load()
	err := req.MayBranch()
	if err == nil {
		_, err = req.BranchNamed(ctx, end.branch)
	}
	if err != nil {
		req.Session.Forget()
		req.Response.Controls = nil
		return err
	}
	req.Session.Enter(end.branch)
	return nil
}
