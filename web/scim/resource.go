package scim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	ldapschema "github.com/seed-4dac0d86/ldapd/schema"
)

// An object is a JSON object. A model is an object with the attributes of a resource, named as in the schemas; those of
// the extension are among the others.
type object = map[string]any

// A record is an entry of the directory.
type record struct {
	name   string
	values map[string][]string // by descriptions in lower case, without ranges
	more   bool                // the group has more members than were read
}

func recordOf(e *op.SearchEntry) *record {
	r := &record{name: e.Name, values: map[string][]string{}}
	for i := range e.Attributes {
		a := &e.Attributes[i]
		description := strings.ToLower(a.Description())
		if d, bounds, ok := strings.Cut(description, ";range="); ok {
			description, r.more = d, !strings.HasSuffix(bounds, "-*")
		}
		for _, v := range a.Values {
			r.values[description] = append(r.values[description], string(v))
		}
	}
	return r
}

func (r *record) first(description string) string {
	if vs := r.values[strings.ToLower(description)]; len(vs) > 0 {
		return vs[0]
	}
	return ""
}

func (r *record) id() string   { return r.first("entryUUID") }
func (r *record) etag() string { return `W/"` + r.first("entryCSN") + `"` }

func (r *record) isClass(class string) bool {
	return slices.ContainsFunc(r.values["objectclass"], func(c string) bool { return strings.EqualFold(c, class) })
}

// disabled is the time since which an account is locked for good, as by 'ldapd user lock'.
const disabled = "000001010000Z"

// locks are the attributes that lock an account, with the values that do.
var locks = []struct{ ldap, value string }{
	{"pwdAccountLockedTime", disabled}, {"nsAccountLock", "TRUE"}, {"ds-pwp-account-disabled", "TRUE"},
}

func (r *record) active() bool {
	for _, l := range locks {
		if strings.EqualFold(r.first(l.ldap), l.value) {
			return false
		}
	}
	return true
}

// Attributes of the class scimObject, which an entry gets with the first of them.
const ownClass = "scimObject"

var ofOwnClass = []string{"scimExternalId", "co", "personalTitle", "generationQualifier"}

// model returns the attributes of a resource that the entry has, except for those that name other entries.
func (k *kind) model(r *record) object {
	m := object{}
	for _, a := range k.all {
		if v := a.of(r); v != nil {
			m[a.name] = v
		}
	}
	if k.extension != nil { // a person
		hideDefaults(m)
	}
	return m
}

// hideDefaults removes the names that a person without names has because its class requires them.
func hideDefaults(m object) {
	name, _ := m["name"].(object)
	for _, part := range []string{"formatted", "familyName"} {
		if name[part] == m["userName"] {
			delete(name, part)
		}
	}
	if len(name) == 0 {
		delete(m, "name")
	}
}

// of returns the value of an attribute that an entry has, or nil.
func (a *attribute) of(r *record) any {
	switch {
	case a.hidden || a.returned == "never" || a.name == "members" || a.name == "groups" || a.name == "manager":
		return nil
	case a.name == "active":
		return r.active()
	case a.kind == "complex" && a.multi:
		var all []any
		for _, t := range a.types {
			if t.ldap == "" {
				if o := a.parts(r); o != nil {
					all = append(all, withType(o, t.name))
				}
			}
			for i, v := range r.values[strings.ToLower(t.ldap)] {
				name := t.name
				if i > 0 && a.inOrder() {
					name = other
				}
				all = append(all, object{"value": v, "type": name})
			}
		}
		if all == nil {
			return nil
		}
		return all
	case a.kind == "complex":
		if o := a.parts(r); o != nil {
			return o
		}
		return nil
	}
	v := r.first(a.ldap)
	if a.ldap == "postalAddress" {
		v = strings.Join(ldapschema.PostalLines(v), "\n")
	}
	if v == "" {
		return nil
	}
	return v
}

// other is the type of values after the first of an attribute whose types are the order of values.
const other = "other"

// inOrder reports whether the types of values are their order, because one LDAP attribute has them all. So a client that
// replaces the value of the type work replaces one.
func (a *attribute) inOrder() bool { return len(a.types) == 1 && a.types[0].ldap != "" }

func withType(o object, name string) object { o["type"] = name; return o }

// parts returns the sub-attributes that an entry has, or nil.
func (a *attribute) parts(r *record) object {
	o := object{}
	for _, s := range a.sub {
		if s.ldap != "" {
			if v := s.of(r); v != nil {
				o[s.name] = v
			}
		}
	}
	if len(o) == 0 {
		return nil
	}
	return o
}

// stored are the LDAP attributes of a resource, in the order of the schemas.
type stored struct {
	names  []string
	values map[string][]string
}

// put adds a value; "" adds none.
func (s *stored) put(name, value string) {
	if _, ok := s.values[name]; !ok {
		s.names = append(s.names, name)
		s.values[name] = nil
	}
	if value != "" && !slices.Contains(s.values[name], value) {
		s.values[name] = append(s.values[name], value)
	}
}

// stored returns the values of all attributes that are mapped to LDAP attributes, except for those that model leaves
// out.
func (k *kind) stored(m object) *stored {
	s := &stored{values: map[string][]string{}}
	for _, a := range k.all {
		a.store(s, m[a.name])
	}
	if k.extension != nil { // a person
		name, _ := m["name"].(object)
		login, _ := m["userName"].(string)
		if len(s.values["cn"]) == 0 {
			if s.put("cn", joined(name)); len(s.values["cn"]) == 0 {
				s.put("cn", login)
			}
		}
		if len(s.values["sn"]) == 0 {
			s.put("sn", login)
		}
	}
	return s
}

// joined returns the given and the family name, or "" if one is missing.
func joined(name object) string {
	given, _ := name["givenName"].(string)
	family, _ := name["familyName"].(string)
	if given == "" || family == "" {
		return ""
	}
	return given + " " + family
}

func (a *attribute) store(s *stored, v any) {
	switch {
	case a.hidden || a.returned == "never" || a.mutability == "readOnly" || a.name == "active" || a.name == "members" || a.name == "manager":
	case a.kind == "complex" && !a.multi:
		o, _ := v.(object)
		for _, x := range a.sub {
			x.store(s, o[x.name])
		}
	case a.kind == "complex":
		for _, t := range a.types {
			if t.ldap != "" {
				s.put(t.ldap, "")
			}
		}
		all, _ := v.([]any)
		var whole object // of an address
		for _, e := range all {
			e := e.(object)
			i := max(0, slices.IndexFunc(a.types, func(t typed) bool { return t.name == e["type"] }))
			if value, ok := e["value"].(string); ok && a.types[i].ldap != "" {
				s.put(a.types[i].ldap, value)
			} else if whole == nil {
				whole = e
			}
		}
		for _, x := range a.sub {
			x.store(s, whole[x.name])
		}
	case a.ldap != "":
		text, _ := v.(string)
		if a.ldap == "postalAddress" {
			text = ldapschema.PostalAddress(text)
		}
		s.put(a.ldap, text)
	}
}

// normal returns what a client sent as a resource of the kind: without what nobody may write, what is not mapped, and
// what is null or empty. It accepts the forms of values that clients are known to send.
func (k *kind) normal(sent object) (object, error) {
	m := object{}
	for name, v := range sent {
		if in := k.attributes(name); name != "" && in != nil {
			o, ok := v.(object)
			if !ok {
				return nil, invalid("invalidValue", "%s is not an object", name)
			}
			if err := normalAll(m, in, o); err != nil {
				return nil, err
			}
		}
	}
	return m, normalAll(m, k.schema.attributes, sent)
}

func normalAll(into object, in []*attribute, sent object) error {
	for name, v := range sent {
		if a := find(in, name); a != nil {
			v, err := a.normal(v)
			if err != nil {
				return err
			}
			if v != nil {
				into[a.name] = v
			} else if list, ok := sent[name].([]any); ok && a.name == "members" && list != nil {
				into[a.name] = []any{} // no members, which is not the same as not saying
			}
		}
	}
	return nil
}

// normal returns a value in the form of the schema; nil if there is none.
func (a *attribute) normal(v any) (any, error) {
	if a.mutability == "readOnly" {
		return nil, nil
	}
	if !a.multi {
		if list, ok := v.([]any); ok && len(list) == 1 {
			v = list[0]
		}
		return a.one(v)
	}
	var all, main, work []any
	for _, e := range listOf(v) {
		one, err := a.one(e)
		switch o, _ := e.(object); {
		case err != nil:
			return nil, err
		case one == nil:
		case truth(get(o, "primary")):
			main = append(main, one)
		case a.inOrder() && one.(object)["type"] != other && get(o, "type") != nil:
			work = append(work, one)
		default:
			all = append(all, one)
		}
	}
	if len(main) > 1 {
		return nil, invalid("invalidValue", "%s: more than one value is primary", a.name)
	}
	if all = slices.Concat(main, work, all); len(all) == 0 {
		return nil, nil
	}
	return all, a.checkNumber(all)
}

// maxValues bounds the values of an attribute other than members, because each change looks at all of them.
const maxValues = 500

func (a *attribute) checkNumber(all []any) error {
	if len(all) > maxValues && a.name != "members" {
		return invalid("invalidValue", "%s has at most %d values", a.name, maxValues)
	}
	return nil
}

// listOf returns what may be one value or a list of them as a list.
func listOf(v any) []any {
	list, ok := v.([]any)
	if !ok && v != nil {
		list = []any{v}
	}
	return list
}

// get returns the value of a name in any case.
func get(o object, name string) any {
	for k, v := range o {
		if strings.EqualFold(k, name) {
			return v
		}
	}
	return nil
}

func truth(v any) bool {
	text, _ := v.(string)
	return v == true || strings.EqualFold(text, "true")
}

func (a *attribute) one(v any) (any, error) {
	o, isObject := v.(object)
	if a.kind != "complex" {
		if value := get(o, "value"); value != nil { // Entra sends such objects
			v = value
		}
		return a.simple(v)
	}
	if text, ok := v.(string); ok && find(a.sub, "value") != nil {
		o, isObject = object{"value": text}, true
	}
	if v == nil || v == "" {
		return nil, nil
	}
	if !isObject {
		return nil, invalid("invalidValue", "%s: an object is expected", a.name)
	}
	n := object{}
	if err := normalAll(n, a.sub, o); err != nil {
		return nil, err
	}
	return a.complete(n)
}

// complete sets the type of a value, and the value of one that has only a reference.
func (a *attribute) complete(n object) (any, error) {
	if ref, ok := n["$ref"].(string); ok && n["value"] == nil {
		n["value"] = ref[strings.LastIndexByte(ref, '/')+1:]
	}
	delete(n, "$ref")
	if a.types == nil {
		if len(n) == 0 || find(a.sub, "value") != nil && n["value"] == nil {
			return nil, nil
		}
		return n, nil
	}
	name, _ := n["type"].(string)
	i := slices.IndexFunc(a.types, func(t typed) bool { return strings.EqualFold(t.name, name) })
	if i < 0 && name != "" && len(a.types) > 1 {
		return nil, invalid("invalidValue", "%s: the type %q is not served, only %s", a.name, short(name), strings.Join(find(a.sub, "type").canonical, ", "))
	}
	if delete(n, "type"); len(n) == 0 {
		return nil, nil
	}
	n["type"] = a.types[max(i, 0)].name
	if i < 0 && name != "" && a.inOrder() {
		n["type"] = other
	}
	return n, nil
}

func (a *attribute) simple(v any) (any, error) {
	text, isText := v.(string)
	switch n := v.(type) {
	case json.Number:
		text, isText = n.String(), true
	case nil:
		return nil, nil
	case bool:
		if a.kind == "boolean" {
			return n, nil
		}
	}
	switch {
	case isText && a.kind == "boolean":
		b, err := strconv.ParseBool(strings.ToLower(text))
		if err != nil {
			return nil, invalid("invalidValue", "%s: %q is neither true nor false", a.name, short(text))
		}
		return b, nil
	case !isText:
		return nil, invalid("invalidValue", "%s: a %s is expected", a.name, a.kind)
	case text == "":
		return nil, nil
	}
	return text, nil
}

// short cuts a text that a client sent, for diagnostics.
func short(text string) string {
	if len(text) <= 100 {
		return text
	}
	return strings.ToValidUTF8(text[:100], "") + "..."
}

func invalid(scimType, format string, args ...any) *Error {
	return &Error{400, scimType, fmt.Sprintf(format, args...)}
}
