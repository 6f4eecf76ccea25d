package render

import (
	"context"
	"iter"
	"slices"
	"strconv"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/directory/internal/membership"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/changestream"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/revision"
)

// appendComputed adds attributes that are not stored, if the client requests them by name or by
// "+". For some attributes, "+" is not enough: see isDear and appendMembers.
func (v *Presenter) appendComputed(ctx context.Context, as []entry.Attribute, found *partition.Result) ([]entry.Attribute, error) {
	sel, req := &v.selector, v.Req
	if !sel.operational && len(sel.named) == 0 {
		return as, nil
	}
	for _, t := range req.Known.Computed {
		if !sel.asks(t) && (!sel.operational || isDear(req, t)) {
			continue
		}
		values, err := computed(ctx, req, t, found.Located, &v.groups)
		if err != nil {
			return nil, err
		}
		if len(values) > 0 {
			as = append(as, entry.Attribute{Type: t, Values: values})
		}
	}
	as, err := v.appendMembers(ctx, as, found)
	if err != nil {
		return nil, err
	}
	if as, err = v.appendRules(ctx, as, found); err != nil {
		return nil, err
	}
	return v.appendContextCSN(ctx, as, found)
}

// isDear reports whether the computation of an attribute may take many reads. Such an
// attribute is not included in "+", so clients must request it by name. For a requester who
// does not see everything, subordinates are counted one by one. Memberships are looked for
// in all groups.
func isDear(req *request.Request, t *schema.AttributeType) bool {
	of, _ := membership.Is(req, t)
	return of || t == req.Known.NumSubordinates || t == req.Known.NumAllSubordinates
}

// showsGroups reports whether the client requests memberships.
func (v *Presenter) showsGroups() bool {
	k := v.Req.Known
	return k.MemberOf != nil && v.selector.asks(k.MemberOf) || k.IsMemberOf != nil && v.selector.asks(k.IsMemberOf)
}

// appendMembers adds the members of a dynamic group to the values of member, if the client
// requests member by name.
func (v *Presenter) appendMembers(ctx context.Context, as []entry.Attribute, found *partition.Result) ([]entry.Attribute, error) {
	t := v.Req.Known.Member
	if t == nil || !v.selector.asks(t) {
		return as, nil
	}
	is, err := membership.IsDynamic(ctx, v.Req, found.ID)
	if !is {
		return as, err
	}
	values, err := membership.Found(ctx, v.Req, found.Located)
	if err != nil || len(values) == 0 {
		return as, err
	}
	for i := range as {
		if as[i].Type == t && as[i].Options == "" {
			as[i].Values = union(t, as[i].Values, values)
			return as, nil
		}
	}
	return append(as, entry.Attribute{Type: t, Values: values}), nil
}

// union returns the values of two lists, without duplicates. It does not change the lists.
func union(t *schema.AttributeType, stored, more [][]byte) [][]byte {
	all := slices.Clip(stored)
	known := map[string]bool{}
	for _, v := range stored {
		known[string(valueKey(t, v))] = true
	}
	for _, v := range more {
		if !known[string(valueKey(t, v))] {
			all = append(all, v)
		}
	}
	return all
}

// valueKey returns the key by which a value is compared. If the equality rule has no key for
// the value, it returns the value itself.
func valueKey(t *schema.AttributeType, v []byte) []byte {
	if key, err := t.Equality.Key(v); err == nil {
		return key
	}
	return v
}

// appendContextCSN adds the attribute contextCSN to the entry of a naming context. The
// values of contextCSN are the newest CSNs, one for each slot.
func (v *Presenter) appendContextCSN(ctx context.Context, as []entry.Attribute, found *partition.Result) ([]entry.Attribute, error) {
	req := v.Req
	t := req.Known.ContextCSN
	if found.Parent != entry.Root || t == nil || !v.selector.operational && !v.selector.asks(t) {
		return as, nil
	}
	frontier, err := changestream.Frontier(ctx, req.Snapshot)
	if err != nil || len(frontier) == 0 {
		return as, err
	}
	return append(as, entry.Attribute{Type: t, Values: CSNs(frontier)}), nil
}

// CSNs returns the change sequence numbers of a frontier, as the values of contextCSN.
func CSNs(f revision.Frontier) (values [][]byte) {
	for _, r := range f {
		values = append(values, revision.AppendCSN(nil, r))
	}
	return values
}

// Computed returns the values of a computed attribute.
func Computed(ctx context.Context, req *request.Request, t *schema.AttributeType, at partition.Located) ([][]byte, error) {
	return computed(ctx, req, t, at, nil)
}

func computed(ctx context.Context, req *request.Request, t *schema.AttributeType, at partition.Located, groups *search.Names) ([][]byte, error) {
	known := req.Known
	if is, nested := membership.Is(req, t); is {
		return membership.Of(ctx, req, at.Name, nested, acl.Show, groups)
	}
	switch t {
	case known.EntryDN:
		return [][]byte{[]byte(at.Name.String())}, nil
	case known.SubschemaSubentry:
		return [][]byte{[]byte(catalog.SubschemaName)}, nil
	case known.HasSubordinates:
		has, err := hasChildren(ctx, req, at)
		return [][]byte{boolean(has)}, err
	case known.GoverningStructureRule:
		rule, err := write.GoverningRule(ctx, req.Snapshot, at.ID)
		if rule == nil {
			return nil, err
		}
		return [][]byte{strconv.AppendInt(nil, int64(rule.ID), 10)}, err
	}
	count := countChildren
	if t == known.NumAllSubordinates {
		count = countAll
	}
	n, err := count(ctx, req, at)
	return [][]byte{strconv.AppendInt(nil, int64(n), 10)}, err
}

// hasChildren reports whether an entry has a child that the requester sees.
func hasChildren(ctx context.Context, req *request.Request, at partition.Located) (bool, error) {
	if req.Judge.SeesAll() {
		return req.Snapshot.HasChildren(ctx, at.ID)
	}
	for _, err := range seenChildren(ctx, req, at) {
		return err == nil, err
	}
	return false, req.Judge.Failure()
}

// countChildren returns the number of an entry's children that the requester sees.
func countChildren(ctx context.Context, req *request.Request, at partition.Located) (n int, err error) {
	if req.Judge.SeesAll() {
		return req.Snapshot.CountChildren(ctx, at.ID)
	}
	for _, err := range seenChildren(ctx, req, at) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, req.Judge.Failure()
}

// countAll returns the number of the entries at all levels below an entry. It counts only
// entries that the requester sees.
func countAll(ctx context.Context, req *request.Request, at partition.Located) (int, error) {
	n, err := search.CountBelow(ctx, req.Snapshot, at.ID, req.Judge.Children(ctx), req.Judge.NeededTypes(), req.Limits.Candidates)
	if err == nil {
		err = req.Judge.Failure()
	}
	return n, err
}

func seenChildren(ctx context.Context, req *request.Request, at partition.Located) iter.Seq2[*partition.Result, error] {
	return search.Search(ctx, req.Snapshot, partition.Query{
		Base: at.ID, Scope: op.SingleLevel, Only: req.Judge.NeededTypes(),
		Filter: req.Judge.OnlySeen(ctx, filter.Const(filter.True)),
	})
}

func boolean(b bool) []byte {
	if b {
		return []byte("TRUE")
	}
	return []byte("FALSE")
}
