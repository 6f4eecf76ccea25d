package virtual

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/directory/internal/policies"
	"github.com/seed-4dac0d86/ldapd/directory/internal/render"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// theConfig serves the entry with the access rules of the whole directory, its naming contexts and
// the default password policy.
type theConfig struct{}

func (theConfig) holds(name dn.DN) bool { return endsIn(name, "config") }

// serves implements Source. A search with a base below cn=config runs in the tree, and finds
// no entry there.
func (theConfig) serves(base dn.DN, _ op.Scope) bool { return catalog.IsConfig(base) }

func (theConfig) Search(ctx context.Context, req *request.Request, _ dn.DN, r *op.Search, sink op.Sink) error {
	return searchSingle(ctx, req, r, sink, func(ctx context.Context, req *request.Request) (*Entry, error) {
		v, err := Config(ctx, req)
		if err == nil && v == nil {
			err = errNoConfig
		}
		return v, err
	})
}

func (theConfig) find(ctx context.Context, req *request.Request, _ dn.DN) (*Entry, error) {
	return Config(ctx, req)
}

func (theConfig) refusal() string {
	return "only the access rules, the naming contexts and the default password policy of " + catalog.ConfigName + " can be changed, by a modify"
}

// errNoConfig is the answer to requesters who do not see the entry.
var errNoConfig = &op.Result{Code: op.NoSuchObject, Diagnostic: "no entry " + catalog.ConfigName}

// Config returns the entry cn=config, or nil if the requester does not see the entry. The
// entry has the access rules only if the requester may be shown them.
func Config(ctx context.Context, req *request.Request) (*Entry, error) {
	v := newEntry(req, catalog.ConfigName, "directoryConfiguration", "cn", "config", "hasSubordinates", "FALSE")
	policy, err := defaultPolicy(ctx, req)
	if err != nil {
		return nil, err
	}
	if policy != nil {
		v.addClass(req, policies.Class)
	}
	for _, a := range policy {
		v.add(req.Schema, a.Name, a.Values...)
	}
	v.add(req.Schema, "namingContexts", req.Snapshot.Catalog.Header.Suffixes...)
	seen, err := req.Judge.Case(v.Name, &v.Entry).Sees(ctx)
	if err != nil || !seen {
		return nil, err
	}
	rules, err := render.Rules(ctx, req, v.Name, &v.Entry)
	if err != nil {
		return nil, err
	}
	if len(rules) > 0 {
		v.Entry.Attributes = append(v.Entry.Attributes, entry.Attribute{Type: req.Known.AccessRule, Values: rules})
	}
	v.judged = true
	return v, nil
}

// defaultPolicy returns the default password policy in the state that the request reads,
// or nil.
func defaultPolicy(ctx context.Context, req *request.Request) ([]catalog.PolicyAttribute, error) {
	if req.IsPast() {
		return req.Snapshot.Catalog.PolicyAt(ctx, req.Snapshot.Reader)
	}
	if d := req.Snapshot.Catalog.Policy; d != nil {
		return d.Attributes, nil
	}
	return nil, nil
}
