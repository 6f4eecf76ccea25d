package filterprep

import (
	"context"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/internal/membership"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// MaxChain is the largest number of entries that a chain may have. Tests set a smaller
// number.
var MaxChain = 10000

// IsChain reports whether f is a member-in-chain test,
// (member:1.2.840.113556.1.4.1941:=DN).
func IsChain(f filter.Filter) bool {
	e, ok := f.(*filter.Extensible)
	return ok && (e.Rule == schema.InChainOID || strings.EqualFold(e.Rule, schema.InChainName))
}

// chainTest replaces a member-in-chain test ([MS-ADTS], 3.1.1.3.1.3.1) by an Or of equality
// tests: one test for the DN in the member-in-chain test, and one test for the name of each
// entry on a chain to this DN. It leaves out the tests of names that no entry has as a
// value. A member-in-chain test of memberOf becomes a test of isMemberOf.
func chainTest(ctx context.Context, req *request.Request, f *filter.Extensible) (filter.Filter, error) {
	t := req.Schema.Attribute(f.Attribute)
	if of, _ := membership.Is(req, t); of && req.Known.IsMemberOf != nil && !f.DNAttrs {
		return &filter.Equal{Attribute: req.Known.IsMemberOf.OID, Value: f.Value}, nil
	}
	c := &chain{req: req, attribute: f.Attribute, seen: map[string]bool{}}
	if f.DNAttrs || !holdsNames(req, f.Attribute) || !c.add(f.Value) {
		return f, nil // filter.Resolve makes this test Undefined
	}
	names := filter.Or{}
	for len(c.next) > 0 {
		name := c.next[0]
		c.next = c.next[1:]
		led, err := c.follow(ctx, name)
		if err != nil {
			return nil, err
		}
		if led {
			names = append(names, c.test(name))
		}
	}
	return names, nil
}

// holdsNames reports whether the values of an attribute are names, so that chains can
// follow them.
func holdsNames(req *request.Request, description string) bool {
	base, _, _ := strings.Cut(description, ";")
	t := req.Schema.Attribute(base)
	return t != nil && req.Schema.Rule(schema.InChainOID).AppliesTo(t)
}

// A chain searches breadth first: it finds the entries that have a name as a value of the
// attribute, then the entries that have the names of those entries as values, and so on.
type chain struct {
	req       *request.Request
	attribute string
	seen      map[string]bool // keys of the names so far, because chains may be circular
	next      [][]byte
	cost      partition.Cost
}

func (c *chain) test(name []byte) *filter.Equal {
	return &filter.Equal{Attribute: c.attribute, Value: name}
}

// add adds a name to follow, unless the name was added before. It returns false if no
// value of the attribute can equal the name.
func (c *chain) add(name []byte) bool {
	t, ok := resolveFilter(c.req, c.test(name)).(*filter.Test)
	if !ok {
		return false
	}
	if key := string(t.Key); !c.seen[key] {
		c.seen[key] = true
		c.next = append(c.next, name)
	}
	return true
}

// follow adds the names of the entries that have the given name as a value, and reports
// whether there are such entries. It considers only entries that the requester could find by
// a search of the attribute.
func (c *chain) follow(ctx context.Context, name []byte) (led bool, err error) {
	j := &c.req.Judge
	q := partition.Query{
		Base:   entry.Root, // all naming contexts
		Scope:  op.WholeSubtree,
		Filter: j.OnlySeen(ctx, j.Guard(ctx, resolveFilter(c.req, c.test(name)))),
		Only:   append([]*schema.AttributeType{}, j.NeededTypes()...), // only the types that access rules need
		Cost:   &c.cost,
	}
	if most := c.req.Limits.Candidates; most > 0 {
		if q.Most = most - c.cost.Candidates - c.cost.Rows; q.Most <= 0 {
			return false, op.Errorf(op.AdminLimitExceeded, "the chain of %s is longer than the limit on candidates, %d: begin nearer to its end", c.attribute, most)
		}
	}
	for found, err := range search.Search(ctx, c.req.Snapshot, q) {
		if err != nil {
			return false, err
		}
		led = true
		c.add([]byte(found.Name.String()))
		if len(c.seen) > MaxChain {
			return false, op.Errorf(op.AdminLimitExceeded, "the chain of %s goes through more than %d entries: begin nearer to its end", c.attribute, MaxChain)
		}
	}
	return led, j.Failure()
}
