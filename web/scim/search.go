package scim

import (
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/web"
)

const (
	listURN   = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
	searchURN = "urn:ietf:params:scim:api:messages:2.0:SearchRequest"

	defaultPage = 100
	maxPage     = 1000
	// A group that has more members is not returned with them.
	maxMembers = 10000
	// The answer to a change of a group that has more members has no body.
	fewMembers = 100
)

// A client runs the operations of one request.
type client struct {
	web.Client
	h   *handler
	ctx context.Context
	ids map[string]*record // entries that values name, by name; nil: none
}

// find calls f for each entry that a search below the base finds. Referrals are entries for it: a client could not
// follow them, and would find them in totalResults.
func (c *client) find(r *op.Search, f func(*record) error, controls ...op.Control) (*op.Response, error) {
	controls = append(controls, op.Control{OID: control.OIDManageDsaIT, Critical: true})
	return c.Do(c.ctx, r, web.Answer{Entry: func(e *op.SearchEntry) error { return f(recordOf(e)) }}, controls...)
}

// below returns a search below the base.
func (c *client) below(f filter.Filter, attributes ...string) (*op.Search, error) {
	base, err := c.h.baseOf(c)
	return &op.Search{Base: base, Scope: op.WholeSubtree, Filter: f, Attributes: attributes}, err
}

// one returns the entry that a filter finds, or nil.
func (c *client) one(f filter.Filter, attributes ...string) (found *record, err error) {
	r, err := c.below(f, attributes...)
	if err != nil {
		return nil, err
	}
	_, err = c.find(r, func(e *record) error { found = e; return nil })
	return found, err
}

// nameOf returns the name of the entry with an id, or "".
func (c *client) nameOf(id string) (string, error) {
	found, err := c.one(filter.EqualTo("entryUUID", id), "1.1")
	if found == nil || err != nil {
		return "", err
	}
	return found.name, nil
}

// named returns the entry with a name, with its id and classes; nil if it cannot be seen.
func (c *client) named(name string) (*record, error) {
	if e, ok := c.ids[name]; ok {
		return e, nil
	}
	var found *record
	_, err := c.find(&op.Search{Base: name, Filter: &filter.Present{Attribute: "objectClass"}, Attributes: []string{"entryUUID", "objectClass"}},
		func(e *record) error { found = e; return nil })
	if web.IsResult(err, op.NoSuchObject) {
		err = nil
	}
	if c.ids == nil {
		c.ids = map[string]*record{}
	}
	c.ids[name] = found
	return found, err
}

// selection is which attributes of resources are returned (RFC 7644, 3.9): their names, in lower case.
type selection struct{ only, without []string }

func selectionOf(q url.Values) selection {
	parse := func(text string) (all []string) {
		for name := range strings.SplitSeq(text, ",") {
			if name = strings.ToLower(strings.TrimSpace(name)); name != "" {
				all = append(all, name)
			}
		}
		return all
	}
	return selection{parse(q.Get("attributes")), parse(q.Get("excludedAttributes"))}
}

// names reports whether a list names an attribute, in whole or in part.
func names(list []string, urn, name string) (whole, part bool) {
	name, urn = strings.ToLower(name), strings.ToLower(urn)
	for _, x := range list {
		x = strings.TrimPrefix(x, urn+":")
		whole = whole || x == name || x == urn
		part = part || strings.HasPrefix(x, name+".")
	}
	return whole, part
}

// wants reports whether an attribute is returned, in whole or in part.
func (s selection) wants(a *attribute) bool {
	if len(s.only) > 0 {
		whole, part := names(s.only, a.urn, a.name)
		return whole || part
	}
	without, _ := names(s.without, a.urn, a.name)
	return !without && a.returned == "default"
}

// cut removes what is not selected from a model.
func (s selection) cut(in []*attribute, m object) {
	for _, a := range in {
		v, ok := m[a.name]
		if !ok {
			continue
		}
		if !s.wants(a) {
			delete(m, a.name)
			continue
		}
		whole, part := names(s.only, a.urn, a.name)
		all, ok := v.([]any)
		if !ok {
			all = []any{v}
		}
		for _, e := range all {
			if o, ok := e.(object); ok {
				maps.DeleteFunc(o, func(sub string, _ any) bool {
					kept, _ := names(s.only, a.urn, a.name+"."+sub)
					removed, _ := names(s.without, a.urn, a.name+"."+sub)
					return part && !whole && !kept || removed
				})
			}
		}
	}
}

// attributesFor returns the LDAP attributes that must be read for a resource.
func (k *kind) attributesFor(s selection) []string {
	all := []string{"objectClass", "entryUUID", "entryCSN", "createTimestamp", "modifyTimestamp"}
	for _, l := range locks {
		all = append(all, l.ldap)
	}
	for _, a := range k.all {
		switch {
		case a.hidden || a.name == "active" || a.name == "password" || a.name == "groups" && !s.wants(a):
		case a.name == "members":
			if s.wants(a) {
				all = append(all, k.member+";range=0-"+strconv.Itoa(fewMembers-1))
			}
		default:
			all = append(all, a.ldap)
		}
		for _, t := range a.types {
			all = append(all, t.ldap)
		}
		for _, x := range a.sub {
			all = append(all, x.ldap)
		}
	}
	return slices.DeleteFunc(all, func(name string) bool { return name == "" })
}

// allMembers reads the members of a group of which record has the first.
func (c *client) allMembers(k *kind, r *record) error {
	member := strings.ToLower(k.member)
	for {
		n := len(r.values[member])
		if n > maxMembers {
			return invalid("tooMany", "the group %s has more than %d members: ask with excludedAttributes=members", r.id(), maxMembers)
		}
		if !r.more {
			return nil
		}
		var next *record
		_, err := c.find(&op.Search{Base: r.name, Filter: &filter.Present{Attribute: "objectClass"}, Attributes: []string{k.member + ";range=" + strconv.Itoa(n) + "-*"}},
			func(e *record) error { next = e; return nil })
		if err != nil || next == nil {
			return errors.Join(err, errNotFound)
		}
		if r.more = next.more && len(next.values[member]) > 0; len(next.values[member]) > 0 {
			r.values[member] = append(r.values[member], next.values[member]...)
		}
	}
}

// resource returns an entry as a resource.
func (c *client) resource(k *kind, r *record, origin string, s selection) (object, error) {
	m := k.model(r)
	for _, a := range k.all {
		if a.name != "members" && a.name != "groups" && a.name != "manager" || !s.wants(a) {
			continue
		}
		if a.name == "members" {
			if err := c.allMembers(k, r); err != nil {
				return nil, err
			}
		}
		refs, err := c.references(a, r.values[strings.ToLower(a.ldap)], origin)
		if err != nil {
			return nil, err
		}
		if a.multi && len(refs) > 0 {
			m[a.name] = refs
		} else if len(refs) > 0 {
			m[a.name] = refs[0]
		}
	}
	s.cut(k.all, m)
	schemas := []string{k.schema.urn}
	if x := k.extension; x != nil {
		part := object{}
		for _, a := range x.attributes {
			if v, ok := m[a.name]; ok {
				part[a.name] = v
				delete(m, a.name)
			}
		}
		if len(part) > 0 {
			m[x.urn], schemas = part, append(schemas, x.urn)
		}
	}
	m["schemas"], m["id"] = schemas, r.id()
	if s.wants(&attribute{name: "meta", urn: k.schema.urn, returned: "default"}) {
		m["meta"] = object{"resourceType": k.name, "created": timeOf(r.first("createTimestamp")), "lastModified": timeOf(r.first("modifyTimestamp")),
			"location": origin + k.endpoint + "/" + r.id(), "version": r.etag()}
	}
	return m, nil
}

// references returns values that name entries as they are in resources. It leaves out what the client cannot see.
func (c *client) references(a *attribute, values []string, origin string) (all []any, err error) {
	for _, name := range values {
		if name == "" {
			continue // the group has no members
		}
		e, err := c.named(name)
		if err != nil {
			return nil, err
		}
		if e == nil {
			continue
		}
		k := c.h.kindOf(e)
		if k == nil {
			k = c.h.kinds[0]
		}
		o := object{"value": e.id(), "$ref": origin + k.endpoint + "/" + e.id()}
		if find(a.sub, "type") != nil {
			o["type"] = k.name
		}
		all = append(all, o)
	}
	return all, nil
}

// kindOf returns the kind of an entry, or nil.
func (h *handler) kindOf(r *record) *kind {
	for _, k := range h.kinds {
		if r.isClass(k.class) {
			return k
		}
	}
	return nil
}

// list answers a query (RFC 7644, 3.4.2) for resources of some kinds.
func (c *client) list(r *request, kinds []*kind) (*answer, error) {
	f, err := c.filterOf(kinds, r.query.Get("filter"))
	if err != nil {
		return nil, err
	}
	s := selectionOf(r.query)
	var attributes []string
	for _, k := range kinds {
		attributes = append(attributes, k.attributesFor(s)...)
	}
	slices.Sort(attributes)
	search, err := c.below(f, slices.Compact(attributes)...)
	if err != nil {
		return nil, err
	}
	var found []*record
	add := func(e *record) error {
		if c.h.kindOf(e) != nil {
			found = append(found, e)
		}
		return nil
	}
	body := object{"schemas": []string{listURN}}
	count, err := number(r.query, "count", defaultPage)
	if err != nil {
		return nil, err
	}
	count = min(max(count, 0), maxPage)
	if r.query.Has("cursor") {
		err = c.byCursor(r, kinds, search, count, body, add)
	} else {
		err = c.byIndex(r, kinds, search, count, body, add)
	}
	if err != nil {
		return nil, err
	}
	resources := []object{}
	for _, e := range found { // after the search, because members are searches of their own
		o, err := c.resource(c.h.kindOf(e), e, r.origin, s)
		if err != nil {
			return nil, err
		}
		resources = append(resources, o)
	}
	body["Resources"], body["itemsPerPage"] = resources, len(resources)
	return &answer{status: 200, body: body}, nil
}

// filterOf returns the LDAP filter for resources of some kinds.
func (c *client) filterOf(kinds []*kind, text string) (filter.Filter, error) {
	var any filter.Or
	var t test
	var err error
	if text != "" {
		if t, err = parseFilter(text); err != nil {
			return nil, err
		}
	}
	for _, k := range kinds {
		f := filter.And{filter.EqualTo("objectClass", k.class)}
		if t != nil {
			x, err := c.translate(scope{kind: k, others: len(kinds) > 1}, t)
			if err != nil {
				return nil, err
			}
			f = append(f, x)
		}
		any = append(any, f)
	}
	return any, nil
}

func number(q url.Values, name string, otherwise int) (int, error) {
	if !q.Has(name) {
		return otherwise, nil
	}
	n, err := strconv.Atoi(q.Get(name))
	if err != nil {
		return 0, invalid("invalidValue", "%s: %q is not a number", name, short(q.Get(name)))
	}
	return n, nil
}

// byCursor reads a page by a cursor (RFC 9865), which is the cookie of paged results.
func (c *client) byCursor(r *request, kinds []*kind, search *op.Search, count int, body object, add func(*record) error) error {
	cookie, err := base64.RawURLEncoding.DecodeString(r.query.Get("cursor"))
	if err != nil {
		return invalid("invalidCursor", "this is not a cursor of this server: begin with an empty one")
	}
	if count == 0 {
		return invalid("invalidCount", "with a cursor, count must be at least 1")
	}
	controls := []op.Control{{OID: control.OIDPagedResults, Critical: true, Value: control.PagedResults{Size: count, Cookie: cookie}.Encode()}}
	if r.query.Get("sortBy") != "" {
		key, err := c.h.sortKey(r, kinds)
		if err != nil {
			return err
		}
		controls = append(controls, key)
	}
	done, err := c.find(search, add, controls...)
	if web.IsResult(err, op.UnwillingToPerform) && len(cookie) > 0 {
		return invalid("invalidCursor", "the cursor does not belong to this query, or is too old: begin with an empty one")
	}
	if err != nil {
		return err
	}
	if x := done.Control(control.OIDPagedResults); x != nil {
		if p, err := control.ParsePagedResults(x.Value); err == nil && len(p.Cookie) > 0 {
			body["nextCursor"] = base64.RawURLEncoding.EncodeToString(p.Cookie)
		}
	}
	return nil
}

// byIndex reads a page by its place in the list of all results, as a virtual list view.
func (c *client) byIndex(r *request, kinds []*kind, search *op.Search, count int, body object, add func(*record) error) error {
	first, err := number(r.query, "startIndex", 1)
	if err != nil {
		return err
	}
	first = min(max(first, 1), math.MaxInt32) // of a virtual list view
	key, err := c.h.sortKey(r, kinds)
	if err != nil {
		return err
	}
	total := 0
	view := func(offset, count int) error {
		if count < 1 {
			add, count = func(*record) error { return nil }, 1
		}
		done, err := c.find(search, add, key, op.Control{OID: control.OIDVLVRequest, Critical: true, Value: control.VLVRequest{Offset: offset, After: count - 1}.Encode()})
		if done == nil {
			return err
		}
		if x := done.Control(control.OIDVLVResponse); x != nil {
			if v, parsed := control.ParseVLVResponse(x.Value); parsed == nil {
				if total = v.Count; v.Code == control.OffsetRangeError {
					return errRange
				}
			}
		}
		return err
	}
	if err = view(first, count); err == errRange {
		err = view(1, 0) // only to count
	}
	body["totalResults"], body["startIndex"] = total, first
	return err
}

var errRange = errors.New("behind the last result")

// sortKey returns the control that sorts a query: by sortBy, else by name.
func (h *handler) sortKey(r *request, kinds []*kind) (op.Control, error) {
	by := r.query.Get("sortBy")
	key := control.SortKey{Reverse: strings.EqualFold(r.query.Get("sortOrder"), "descending")}
	if order := r.query.Get("sortOrder"); order != "" && !key.Reverse && !strings.EqualFold(order, "ascending") {
		return op.Control{}, invalid("invalidValue", "sortOrder is ascending or descending")
	}
	switch strings.ToLower(by) {
	case "":
		if key.Attribute = kinds[0].naming; len(kinds) > 1 {
			key.Attribute = "cn"
		}
	case "id":
		key.Attribute = "entryUUID"
	case "meta.created":
		key.Attribute = "createTimestamp"
	case "meta.lastmodified":
		key.Attribute = "modifyTimestamp"
	default:
		p, err := parsePath(by)
		if err != nil {
			return op.Control{}, err
		}
		for _, k := range kinds {
			a := find(k.attributes(p.urn), p.attribute)
			if a != nil && p.sub != "" && a.types == nil {
				a = find(a.sub, p.sub)
			}
			if a != nil && len(a.types) > 0 {
				key.Attribute = a.types[0].ldap
			} else if a != nil && a.name != "active" && a.returned != "never" {
				key.Attribute = a.ldap
			}
			if t := h.d.Schema().Attribute(key.Attribute); t != nil && t.NamesEntries() {
				key.Attribute = "" // names of entries, which clients do not see
			}
		}
		if key.Attribute == "" {
			return op.Control{}, invalid("invalidPath", "resources cannot be sorted by %q", short(by))
		}
	}
	return op.Control{OID: control.OIDSortRequest, Critical: true, Value: control.SortRequest{Keys: []control.SortKey{key}}.Encode()}, nil
}
