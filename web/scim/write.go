package scim

import (
	"maps"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/web"
)

// maxTries is how often a change is tried when others change the entry at the same time.
const maxTries = 8

// read returns the entry of a resource, with at most fewMembers members.
func (c *client) read(k *kind, id string, s selection) (*record, error) {
	r, err := c.one(filter.And{filter.EqualTo("entryUUID", id), filter.EqualTo("objectClass", k.class)}, k.attributesFor(s)...)
	if err == nil && r == nil {
		err = errNotFound
	}
	return r, err
}

// get answers a GET of one resource.
func (c *client) get(r *request, k *kind, id string) (*answer, error) {
	s := selectionOf(r.query)
	e, err := c.read(k, id, s)
	if err != nil {
		return nil, err
	}
	if r.noneMatch != "" && matches(r.noneMatch, e.etag()) {
		return &answer{status: 304, etag: e.etag()}, nil
	}
	return c.answer(r, k, e, 200, s)
}

func (c *client) answer(r *request, k *kind, e *record, status int, s selection) (*answer, error) {
	o, err := c.resource(k, e, r.origin, s)
	return &answer{status: status, etag: e.etag(), location: r.origin + k.endpoint + "/" + e.id(), body: o}, err
}

// body returns the resource that a client sent to be created or to replace another.
func (k *kind) body(r *request) (object, error) {
	sent := object{}
	if err := decode(r.body, &sent); err != nil {
		return nil, err
	}
	has := false
	schemas, _ := get(sent, "schemas").([]any)
	for _, s := range schemas {
		urn, _ := s.(string)
		if urn == "" || k.attributes(urn) == nil {
			return nil, invalid("invalidSyntax", "the schema %q is not served for %s", short(urn), k.name)
		}
		has = has || strings.EqualFold(urn, k.schema.urn)
	}
	if !has {
		return nil, invalid("invalidSyntax", "schemas must contain %s", k.schema.urn)
	}
	m, err := k.normal(sent)
	if err != nil {
		return nil, err
	}
	name := k.login()
	if m[name] == nil {
		return nil, invalid("invalidValue", "%s is required", name)
	}
	return m, nil
}

// login returns the attribute that must be given.
func (k *kind) login() string {
	if k.member != "" {
		return "displayName"
	}
	return "userName"
}

// create answers a POST of a resource.
func (c *client) create(r *request, k *kind) (*answer, error) {
	m, err := k.body(r)
	if err != nil {
		return nil, err
	}
	base, err := c.h.baseOf(c)
	if err != nil {
		return nil, err
	}
	if err := c.unique(k, m, ""); err != nil {
		return nil, err
	}
	s := k.stored(m)
	if len(s.values[k.naming]) == 0 {
		s.put(k.naming, m[k.login()].(string))
	}
	place := base
	if k.place != "" {
		place = k.place + "," + base
	}
	add := &op.Add{Name: rdn(k.naming, s.values[k.naming][0]) + "," + place}
	put := func(name string, values ...string) {
		if len(values) > 0 {
			add.Attributes = append(add.Attributes, op.Attribute(name, values...))
		}
	}
	classes := slices.Clone(k.classes)
	if s.needsClass() {
		classes = append(classes, ownClass)
	}
	put("objectClass", classes...)
	for _, name := range s.names {
		put(name, s.values[name]...)
	}
	if m["active"] == false {
		put(locks[0].ldap, disabled)
	}
	if p, ok := m["password"].(string); ok {
		put("userPassword", p)
	}
	manager, err := c.manager(m)
	if err != nil {
		return nil, err
	}
	if manager != "" {
		put("manager", manager)
	}
	if k.member != "" {
		members, err := c.namesOf(idsIn(m["members"]))
		if err != nil {
			return nil, err
		}
		if len(members) == 0 {
			members = []string{""} // the class requires one
		}
		put(k.member, members...)
	}
	if err := c.add(add, k.place, base); err != nil {
		return nil, err
	}
	e, err := c.reread(k, add.Name, selectionOf(r.query))
	if err != nil {
		return nil, err
	}
	return c.answer(r, k, e, 201, selectionOf(r.query))
}

// add adds an entry. If the unit above it is missing, add makes the unit, as 'ldapd user add' does.
func (c *client) add(a *op.Add, place, base string) error {
	_, err := c.Do(c.ctx, a, web.Answer{})
	kind, unit, _ := strings.Cut(place, "=")
	if !web.IsResult(err, op.NoSuchObject) || !strings.EqualFold(kind, "ou") || strings.ContainsAny(unit, ",+\\") {
		return err
	}
	above := &op.Add{Name: place + "," + base, Attributes: []op.PartialAttribute{
		op.Attribute("objectClass", "organizationalUnit"), op.Attribute("ou", unit)}}
	if _, err := c.Do(c.ctx, above, web.Answer{}); err != nil && !web.IsResult(err, op.EntryAlreadyExists) {
		return err
	}
	_, err = c.Do(c.ctx, a, web.Answer{})
	return err
}

// reread returns an entry by its name.
func (c *client) reread(k *kind, name string, s selection) (found *record, err error) {
	_, err = c.find(&op.Search{Base: name, Filter: &filter.Present{Attribute: "objectClass"}, Attributes: k.attributesFor(s)},
		func(e *record) error { found = e; return nil })
	if err == nil && found == nil {
		err = &Error{403, "", "the change was made, and you may not read " + name}
	}
	return found, err
}

// unique returns an error if another resource has the name of this one.
func (c *client) unique(k *kind, m object, id string) error {
	a := find(k.schema.attributes, k.login())
	e, err := c.one(filter.And{filter.EqualTo("objectClass", k.class), filter.EqualTo(a.ldap, m[a.name].(string))}, "entryUUID")
	if err == nil && e != nil && e.id() != id {
		err = &Error{409, "uniqueness", "another " + k.name + " has this " + a.name + ": " + e.id()}
	}
	return err
}

func (s *stored) needsClass() bool {
	return slices.ContainsFunc(ofOwnClass, func(name string) bool { return len(s.values[name]) > 0 })
}

// manager returns the name of a person's manager, or "".
func (c *client) manager(m object) (string, error) {
	id := managerID(m)
	if id == "" {
		return "", nil
	}
	name, err := c.nameOf(id)
	if err == nil && name == "" {
		err = invalid("invalidValue", "manager: no resource has the id %q", short(id))
	}
	return name, err
}

func managerID(m object) string {
	manager, _ := m["manager"].(object)
	id, _ := manager["value"].(string)
	return id
}

// namesOf returns the names of the entries with these ids. It leaves out ids that no entry has: such a member would
// have left the group when it was deleted.
func (c *client) namesOf(ids []string) (names []string, err error) {
	for _, id := range ids {
		name, err := c.nameOf(id)
		if err != nil {
			return nil, err
		}
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// replace answers a PUT. What the client does not say of active, password and members stays as it is.
func (c *client) replace(r *request, k *kind, id string) (*answer, error) {
	m, err := k.body(r)
	if err != nil {
		return nil, err
	}
	var members membership
	if list, ok := m["members"]; ok {
		members.only()
		for _, id := range idsIn(list) {
			members.set(id, true)
		}
		delete(m, "members")
	}
	return c.change(r, k, id, func(old object) (object, membership, error) {
		sent := maps.Clone(m) // old is another when the change is tried again
		if sent["active"] == nil {
			sent["active"] = old["active"]
		}
		return sent, members, nil
	})
}

// patch answers a PATCH.
func (c *client) patch(r *request, k *kind, id string) (*answer, error) {
	operations, err := parsePatch(r.body)
	if err != nil {
		return nil, err
	}
	return c.change(r, k, id, func(old object) (object, membership, error) {
		m := maps.Clone(old)
		if name, ok := m["name"].(object); ok && name["formatted"] == joined(name) {
			m["name"] = maps.Clone(name)
			delete(m["name"].(object), "formatted") // follows its parts
		}
		var members membership
		for _, o := range operations {
			if err := k.apply(m, &members, o); err != nil {
				return nil, members, err
			}
		}
		return m, members, nil
	})
}

// change changes a resource to what f makes of it, in one commit.
func (c *client) change(r *request, k *kind, id string, f func(old object) (object, membership, error)) (*answer, error) {
	small := selection{without: []string{"members", "groups"}}
	for try := 1; ; try++ {
		e, err := c.read(k, id, small)
		if err != nil {
			return nil, err
		}
		if r.match != "" && !matches(r.match, e.etag()) {
			return nil, errVersion
		}
		old := k.model(e)
		if err := c.addManager(k, e, old); err != nil {
			return nil, err
		}
		m, members, err := f(old)
		if err != nil {
			return nil, err
		}
		name, err := c.write(r, k, e, old, m, members)
		if web.IsResult(err, op.AssertionFailed) && r.match == "" && try < maxTries {
			continue
		}
		if err != nil {
			return nil, err
		}
		s := selectionOf(r.query)
		if e, err = c.reread(k, name, s); err != nil {
			return nil, err
		}
		if e.more && len(s.only) == 0 { // RFC 7644, 3.5.2: instead of a long body
			return &answer{status: 204, etag: e.etag(), location: r.origin + k.endpoint + "/" + id}, nil
		}
		return c.answer(r, k, e, 200, s)
	}
}

// addManager adds the manager of an entry to a model.
func (c *client) addManager(k *kind, e *record, m object) error {
	name := e.first("manager")
	if k.extension == nil || name == "" {
		return nil
	}
	manager, err := c.named(name)
	if manager != nil {
		m["manager"] = object{"value": manager.id()}
	}
	return err
}

// write makes the difference between two models and returns the name that the entry then has.
func (c *client) write(r *request, k *kind, e *record, old, m object, members membership) (string, error) {
	if m[k.login()] != old[k.login()] {
		if err := c.unique(k, m, e.id()); err != nil {
			return "", err
		}
	}
	changes, newRDN, err := c.differences(k, e, old, m)
	if err != nil {
		return "", err
	}
	var asserted []op.Control
	if r.match != "" || len(changes) > 0 || newRDN != "" {
		asserted = []op.Control{{OID: control.OIDAssertion, Critical: true, Value: control.AssertEqual("entryCSN", e.first("entryCSN"))}}
	}
	removes := false
	if members.changes() {
		more, err := c.memberChanges(k, members)
		if err != nil {
			return "", err
		}
		removes = slices.ContainsFunc(more, func(m op.Modification) bool { return m.Kind == op.ModDelete })
		changes = append(changes, more...)
	}
	if newRDN == "" && len(changes) == 0 {
		return e.name, nil
	}
	name, err := c.modify(e.name, newRDN, changes, asserted)
	if removes && web.IsResult(err, op.ObjectClassViolation) { // the last member left
		name, err = c.modify(e.name, newRDN, append(changes, op.Change(op.ModAdd, k.member, "")), asserted)
	}
	return name, err
}

// differences returns the modifications that turn one model into another, and the new RDN if the entry must be renamed.
func (c *client) differences(k *kind, e *record, old, m object) (changes []op.Modification, newRDN string, err error) {
	was, is := k.stored(old), k.stored(m)
	if is.needsClass() && !e.isClass(ownClass) {
		changes = append(changes, op.Change(op.ModAdd, "objectClass", ownClass))
	}
	kind, _, _ := strings.Cut(e.name, "=")
	for _, name := range is.names {
		values := is.values[name]
		switch {
		case slices.Equal(was.values[name], values):
		case strings.EqualFold(name, kind) && len(values) > 0:
			newRDN = rdn(kind, values[0])
		default:
			changes = append(changes, op.Change(op.ModReplace, name, values...))
		}
	}
	if managerID(m) != managerID(old) {
		name, err := c.manager(m)
		if err != nil {
			return nil, "", err
		}
		changes = append(changes, op.Change(op.ModReplace, "manager", nonempty(name)...))
	}
	if active, ok := m["active"].(bool); ok && active != e.active() {
		if !active {
			changes = append(changes, op.Change(op.ModReplace, locks[0].ldap, disabled))
		} else {
			for _, l := range locks {
				if e.first(l.ldap) != "" {
					changes = append(changes, op.Change(op.ModReplace, l.ldap))
				}
			}
		}
	}
	if p, ok := m["password"].(string); ok {
		changes = append(changes, op.Change(op.ModReplace, "userPassword", nonempty(p)...))
	}
	return changes, newRDN, nil
}

// memberChanges returns the modifications of a group's members: single values, unless the client gave all.
func (c *client) memberChanges(k *kind, members membership) ([]op.Modification, error) {
	var join, leave []string
	for _, id := range members.order {
		if members.add[id] {
			join = append(join, id)
		} else {
			leave = append(leave, id)
		}
	}
	join, err := c.namesOf(join)
	if err != nil {
		return nil, err
	}
	if members.replaced {
		if len(join) == 0 {
			join = []string{""}
		}
		return []op.Modification{op.Change(op.ModReplace, k.member, join...)}, nil
	}
	if leave, err = c.namesOf(leave); err != nil {
		return nil, err
	}
	var changes []op.Modification
	if len(join) > 0 {
		changes = append(changes, op.Change(op.ModAdd, k.member, join...), op.Change(op.ModDelete, k.member, ""))
	}
	if len(leave) > 0 {
		changes = append(changes, op.Change(op.ModDelete, k.member, leave...))
	}
	return changes, nil
}

// modify changes an entry and renames it, unless newRDN is "". It does both in one transaction (RFC 5805). It returns the
// name that the entry then has.
func (c *client) modify(name, newRDN string, changes []op.Modification, asserted []op.Control) (string, error) {
	permissive := op.Control{OID: control.OIDPermissiveModify, Critical: true}
	if newRDN == "" {
		_, err := c.Do(c.ctx, &op.Modify{Name: name, Changes: changes}, web.Answer{}, append(asserted, permissive)...)
		return name, err
	}
	parsed, err := dn.Parse(name)
	if err != nil {
		return "", err
	}
	renamed := newRDN + "," + parsed.Parent().String()
	r := &op.ModifyDN{Name: name, NewRDN: newRDN, DeleteOldRDN: true}
	if len(changes) == 0 {
		_, err := c.Do(c.ctx, r, web.Answer{}, asserted...)
		return renamed, err
	}
	started, err := c.Do(c.ctx, &op.Extended{OID: control.OIDStartTransaction}, web.Answer{})
	if err != nil {
		return "", err
	}
	in := op.Control{OID: control.OIDTransaction, Critical: true, Value: started.Value}
	_, err = c.Do(c.ctx, r, web.Answer{}, append(asserted, in)...)
	if err == nil {
		_, err = c.Do(c.ctx, &op.Modify{Name: renamed, Changes: changes}, web.Answer{}, in, permissive)
	}
	end := control.EndTransaction{Commit: err == nil, ID: string(started.Value)}
	_, ended := c.Do(c.ctx, &op.Extended{OID: control.OIDEndTransaction, Value: end.Encode()}, web.Answer{})
	if err == nil {
		err = ended
	}
	return renamed, err
}

// remove answers a DELETE. Groups in which the directory leaves the entry lose it afterwards.
func (c *client) remove(r *request, k *kind, id string) (*answer, error) {
	e, err := c.read(k, id, selection{without: []string{"members", "groups"}})
	if err != nil {
		return nil, err
	}
	var controls []op.Control
	if r.match != "" {
		if !matches(r.match, e.etag()) {
			return nil, errVersion
		}
		controls = append(controls, op.Control{OID: control.OIDAssertion, Critical: true, Value: control.AssertEqual("entryCSN", e.first("entryCSN"))})
	}
	if _, err := c.Do(c.ctx, &op.Delete{Name: e.name}, web.Answer{}, controls...); err != nil {
		return nil, err
	}
	return &answer{status: 204}, c.leaveGroups(e.name)
}

// leaveGroups removes a deleted entry from the groups in which the directory has left it.
func (c *client) leaveGroups(name string) error {
	for _, k := range c.h.kinds {
		if k.member == "" {
			continue
		}
		var groups []string
		search, err := c.below(filter.EqualTo(k.member, name), "1.1")
		if err != nil {
			return err
		}
		if _, err := c.find(search, func(g *record) error { groups = append(groups, g.name); return nil }); err != nil {
			return err
		}
		for _, g := range groups {
			changes := []op.Modification{op.Change(op.ModDelete, k.member, name)}
			_, err := c.Do(c.ctx, &op.Modify{Name: g, Changes: changes}, web.Answer{})
			if web.IsResult(err, op.ObjectClassViolation) {
				_, err = c.Do(c.ctx, &op.Modify{Name: g, Changes: append(changes, op.Change(op.ModAdd, k.member, ""))}, web.Answer{})
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func nonempty(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}

// rdn returns the RDN of a value, escaped.
func rdn(kind, value string) string {
	return dn.RDN{{Type: kind, Value: []byte(value)}}.String()
}
