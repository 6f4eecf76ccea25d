package watch

import (
	"bytes"
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/directory/internal/accountcheck"
	"github.com/seed-4dac0d86/ldapd/directory/internal/identify"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// rules returns the access rules of the newest state for the requester, or nil if access
// rules do not restrict the requester. It returns an error if the requester's account may no
// longer be used.
func rules(ctx context.Context, req *request.Request, newest *partition.Snapshot) (*acl.Program, error) {
	now := req.On(newest)
	if err := accountcheck.Still(ctx, now); err != nil {
		return nil, err
	}
	if req.Controls.Proxied != nil {
		if err := identify.Enabled(ctx, now, req.Who, accountcheck.ErrEnded); err != nil {
			return nil, err
		}
	}
	if err := req.Judged(ctx, newest); err != nil {
		return nil, err
	}
	return req.Judge.Program(), nil
}

// rulesNow calls rules with the newest state.
func rulesNow(ctx context.Context, req *request.Request) (*acl.Program, error) {
	newest := state.Newest(req.Server.Part)
	defer newest.Close()
	return rules(ctx, req, newest)
}

// readsAll reports whether a program lets the requester read everything except secrets and the
// access rules.
func readsAll(p *acl.Program) bool { return p == nil || p.ReadsAll() }

// sameRules reports whether readsAll is true of both programs, or the programs are equal. Every
// state then has the same content under both.
func sameRules(a, b *acl.Program) bool {
	return readsAll(a) && readsAll(b) || a != nil && b != nil && a.Equal(b)
}

// restricted reports whether there may be something that the requester may not read.
func (c *content) restricted() bool { return !c.Req.Judge.ReadsAll() }

// sees reports whether the requester sees an entry of the state. The entry need not be in
// the content.
func (c *content) sees(ctx context.Context, id entry.ID) (bool, error) {
	j := &c.Req.Judge
	q := partition.Query{Base: entry.Root, Scope: op.WholeSubtree, Only: j.NeededTypes(), Filter: j.OnlySeen(ctx, filter.Const(filter.True))}
	_, ok, err := search.Lookup(ctx, c.Req.Snapshot, q, id)
	if err == nil {
		err = c.failure()
	}
	return ok, err
}

// shows returns the name of an entry and everything of the entry that the requester may be
// shown.
func (c *content) shows(ctx context.Context, id entry.ID) (name string, shown []entry.Attribute, err error) {
	e, err := c.Req.Snapshot.Entry(ctx, id, c.Req.Judge.Secrets(acl.Show))
	if err != nil || e == nil {
		return "", nil, err
	}
	n, err := c.Req.Snapshot.Name(ctx, id)
	if err != nil {
		return "", nil, err
	}
	shown, err = c.Req.Judge.Case(n, e).Shown(ctx, slices.Clone(e.Attributes))
	return n.String(), shown, err
}

// sameShown reports whether the requester may be shown the same name and attributes of an
// entry in two states.
func sameShown(ctx context.Context, from, to *content, id entry.ID) (bool, error) {
	name, was, err := from.shows(ctx, id)
	if err != nil {
		return false, err
	}
	newName, is, err := to.shows(ctx, id)
	return name == newName && slices.EqualFunc(was, is, sameAttribute), err
}

func sameAttribute(a, b entry.Attribute) bool {
	return a.Type.OID == b.Type.OID && a.Options == b.Options && slices.EqualFunc(a.Values, b.Values, bytes.Equal)
}
