package scim

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const patchURN = "urn:ietf:params:scim:api:messages:2.0:PatchOp"

// maxChanges bounds the operations of a PATCH request.
const maxChanges = 10000

// An operation is one of a PATCH request (RFC 7644, 3.5.2).
type operation struct {
	Op    string
	Path  string
	Value any
}

// parsePatch parses the body of a PATCH request.
func parsePatch(body []byte) ([]operation, error) {
	var p struct {
		Schemas    []string
		Operations []operation
	}
	if err := decode(body, &p); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(p.Schemas, func(s string) bool { return strings.EqualFold(s, patchURN) }) {
		return nil, invalid("invalidSyntax", "the schemas of a PATCH request must contain %s", patchURN)
	}
	if len(p.Operations) == 0 {
		return nil, invalid("invalidSyntax", "a PATCH request needs Operations")
	}
	if len(p.Operations) > maxChanges {
		return nil, &Error{413, "", "a PATCH request has at most " + strconv.Itoa(maxChanges) + " operations"}
	}
	return p.Operations, nil
}

// membership is how a request changes the members of a group.
type membership struct {
	replaced bool            // these are all members
	order    []string        // ids
	add      map[string]bool // by id; false: the member leaves
}

func (c *membership) set(id string, add bool) {
	if c.add == nil {
		c.add = map[string]bool{}
	}
	if _, ok := c.add[id]; !ok {
		c.order = append(c.order, id)
	}
	c.add[id] = add
}

func (c *membership) only() { *c = membership{replaced: true} }

func (c *membership) changes() bool { return c.replaced || len(c.order) > 0 }

// apply makes an operation on a model. Members are not in the model: how they change is kept in c.
func (k *kind) apply(m object, c *membership, o operation) error {
	verb := strings.ToLower(o.Op)
	if verb != "add" && verb != "replace" && verb != "remove" {
		return invalid("invalidSyntax", "the operation %q is none of add, replace and remove", short(o.Op))
	}
	if o.Path == "" {
		return k.applyAll(m, c, verb, o.Value)
	}
	p, err := parsePath(o.Path)
	if err != nil {
		return err
	}
	if all := p.urn + ":" + p.attribute; k.attributes(all) != nil && p.urn != "" && p.filter == nil {
		if verb != "remove" {
			return k.applyAll(m, c, verb, object{all: o.Value})
		}
		if strings.EqualFold(all, k.schema.urn) {
			return invalid("mutability", "a resource cannot do without %s", all)
		}
		for _, a := range k.extension.attributes {
			delete(m, a.name)
		}
		return nil
	}
	a := find(k.attributes(p.urn), p.attribute)
	if a == nil && slices.ContainsFunc([]string{"id", "meta", "schemas"}, func(s string) bool { return strings.EqualFold(s, p.attribute) }) || a != nil && a.mutability == "readOnly" {
		return invalid("mutability", "%s cannot be changed", p.attribute)
	}
	if a == nil {
		return invalid("invalidPath", "no attribute %q is served: see /Schemas", short(o.Path))
	}
	if a.name == "members" {
		return c.apply(a, verb, p, o.Value)
	}
	return a.apply(m, verb, p, o.Value)
}

// applyAll makes an operation without a path: its value has the attributes, whose names may be paths.
func (k *kind) applyAll(m object, c *membership, verb string, v any) error {
	o, ok := v.(object)
	if !ok || verb == "remove" {
		return invalid("noTarget", "%s without a path needs an object of attributes as its value, and remove needs a path", verb)
	}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if k.attributes(name) != nil {
			part, ok := o[name].(object)
			if !ok {
				return invalid("invalidValue", "%s is not an object", name)
			}
			for _, x := range slices.Sorted(maps.Keys(part)) {
				if err := k.applyNamed(m, c, verb, name+":"+x, part[x]); err != nil {
					return err
				}
			}
		} else if err := k.applyNamed(m, c, verb, name, o[name]); err != nil {
			return err
		}
	}
	return nil
}

// applyNamed is apply for an attribute in a value: what is unknown or cannot be changed is ignored there, as in a PUT.
func (k *kind) applyNamed(m object, c *membership, verb, name string, v any) error {
	p, err := parsePath(name)
	if err != nil {
		return err
	}
	if a := find(k.attributes(p.urn), p.attribute); a == nil || a.mutability == "readOnly" {
		return nil
	}
	return k.apply(m, c, operation{verb, name, v})
}

// apply changes an attribute of an object.
func (a *attribute) apply(into object, verb string, p path, v any) error {
	var sub *attribute
	switch {
	case strings.EqualFold(p.sub, "primary") && a.types != nil:
		return a.choose(into, p, verb != "remove" && truth(v))
	case p.sub != "":
		if sub = find(a.sub, p.sub); sub == nil {
			return invalid("invalidPath", "%s has no sub-attribute %q that is served", a.name, short(p.sub))
		}
	}
	if (p.filter != nil) && !a.multi {
		return invalid("invalidPath", "%s has one value, which needs no filter", a.name)
	}
	if v == nil && verb != "remove" {
		verb = "remove" // RFC 7643, 2.5
	}
	if a.multi && (p.filter != nil || sub != nil) {
		return a.applyEach(into, verb, p, sub, v)
	}
	if sub != nil {
		o, _ := into[a.name].(object)
		o = maps.Clone(o)
		if o == nil {
			o = object{}
		}
		if err := sub.apply(o, verb, path{}, v); err != nil {
			return err
		}
		if into[a.name] = o; len(o) == 0 {
			delete(into, a.name)
		}
		return nil
	}
	var n any
	if verb != "remove" {
		var err error
		if n, err = a.normal(v); err != nil {
			return err
		}
	}
	old := into[a.name]
	switch {
	case n == nil && a.required:
		return invalid("mutability", "%s is required: it can be replaced, not removed", a.name)
	case n == nil && a.returned == "never":
		into[a.name] = "" // there is none in the model, and there shall be none
	case n == nil:
		if list, ok := v.([]any); ok && verb == "remove" && a.multi { // these values
			return a.without(into, list)
		}
		delete(into, a.name)
	case a.multi && verb == "add":
		all, _ := old.([]any)
		for _, e := range n.([]any) {
			if !slices.ContainsFunc(all, func(x any) bool { return maps.Equal(x.(object), e.(object)) }) {
				all = append(slices.Clip(all), e)
			}
		}
		if err := a.checkNumber(all); err != nil {
			return err
		}
		primary := 0
		if slices.ContainsFunc(listOf(v), func(e any) bool { o, _ := e.(object); return truth(get(o, "primary")) }) {
			primary = slices.IndexFunc(all, func(x any) bool { return maps.Equal(x.(object), n.([]any)[0].(object)) })
		}
		all = a.first(all, primary)
		into[a.name] = all
	case a.kind == "complex" && !a.multi:
		o, _ := old.(object)
		if o = maps.Clone(o); o == nil {
			o = object{}
		}
		maps.Copy(o, n.(object))
		into[a.name] = o
	default:
		into[a.name] = n
	}
	return nil
}

// first returns values with the i-th in front, which makes it the primary one.
func (a *attribute) first(all []any, i int) []any {
	all = slices.Concat(all[i:i+1], all[:i], all[i+1:])
	if a.inOrder() {
		for i, e := range all {
			all[i] = withType(maps.Clone(e.(object)), other)
		}
		all[0].(object)["type"] = a.types[0].name
	}
	return all
}

// choose makes the value that a path selects the primary one. That a value is not to be it changes nothing: one of them
// always is.
func (a *attribute) choose(into object, p path, primary bool) error {
	all, _ := into[a.name].([]any)
	for i, e := range all {
		is, err := p.filter == nil, error(nil)
		if !is {
			is, err = a.selects(p.filter, e.(object), i == 0)
		}
		switch {
		case err != nil:
			return err
		case is && primary:
			into[a.name] = a.first(all, i)
			return nil
		case is:
			return nil
		}
	}
	return invalid("noTarget", "no value of %s is selected by the path", a.name)
}

// without removes values of an attribute.
func (a *attribute) without(into object, list []any) error {
	n, err := a.normal(list)
	if err != nil || n == nil {
		return err
	}
	all, _ := into[a.name].([]any)
	all = slices.DeleteFunc(slices.Clone(all), func(x any) bool {
		return slices.ContainsFunc(n.([]any), func(y any) bool { return x.(object)["value"] == y.(object)["value"] })
	})
	if into[a.name] = all; len(all) == 0 {
		delete(into, a.name)
	}
	return nil
}

// applyEach changes those values of a complex attribute that the filter of a path selects; without a filter, all.
func (a *attribute) applyEach(into object, verb string, p path, sub *attribute, v any) error {
	old, _ := into[a.name].([]any)
	all, found := []any{}, false
	for i, e := range old {
		e := maps.Clone(e.(object))
		if p.filter != nil {
			if is, err := a.selects(p.filter, e, i == 0); err != nil {
				return err
			} else if !is {
				all = append(all, e)
				continue
			}
		}
		found = true
		changed, err := a.change(e, verb, sub, v)
		if err != nil {
			return err
		}
		if changed != nil {
			all = append(all, changed)
		}
	}
	if !found {
		if verb != "add" {
			return invalid("noTarget", "no value of %s is selected by the path", a.name)
		}
		e, ok := equalities(p.filter, object{})
		if !ok {
			return invalid("noTarget", "no value of %s is selected by the path, and its filter does not say what a new one is like", a.name)
		}
		changed, err := a.change(e, verb, sub, v)
		if err != nil {
			return err
		}
		if changed != nil {
			all = append(all, changed)
		}
	}
	if into[a.name] = all; len(all) == 0 {
		delete(into, a.name)
	}
	return nil
}

// change changes one value of a complex attribute, or one sub-attribute of it. It returns nil if nothing is left.
func (a *attribute) change(e object, verb string, sub *attribute, v any) (any, error) {
	if sub == nil && verb == "remove" {
		return nil, nil
	}
	if sub != nil {
		if err := sub.apply(e, verb, path{}, v); err != nil {
			return nil, err
		}
	} else if o, ok := v.(object); ok {
		maps.Copy(e, o)
	} else if list, ok := v.([]any); ok && len(list) == 1 {
		return a.change(e, verb, sub, list[0])
	} else {
		e["value"] = v
	}
	n, err := a.one(e)
	if o, ok := n.(object); ok && find(a.sub, "value") != nil && o["value"] == nil {
		return nil, err // only its type is left
	}
	return n, err
}

// selects reports whether a filter selects a value. The first value counts as primary.
func (a *attribute) selects(t test, e object, primary bool) (bool, error) {
	switch t := t.(type) {
	case *both:
		for _, x := range t.all {
			if is, err := a.selects(x, e, primary); !is || err != nil {
				return false, err
			}
		}
		return true, nil
	case *either:
		for _, x := range t.all {
			if is, err := a.selects(x, e, primary); is || err != nil {
				return is, err
			}
		}
		return false, nil
	case *not:
		is, err := a.selects(t.of, e, primary)
		return !is, err
	case *compare:
		if strings.EqualFold(t.path.attribute, "primary") {
			return (t.operator == "eq") == (truth(t.value) == primary), nil
		}
		sub := find(a.sub, t.path.attribute)
		if sub == nil || t.path.sub != "" {
			return false, invalid("invalidFilter", "%s has no sub-attribute %q that is served", a.name, short(t.path.attribute))
		}
		have, _ := e[sub.name].(string)
		return t.holds(have), nil
	}
	return false, invalid("invalidFilter", "a filter of values cannot contain another")
}

// holds reports whether a text, which is "" if there is none, is as the test demands. Case does not matter.
func (c *compare) holds(have string) bool {
	want, _ := c.value.(string)
	have, want = strings.ToLower(have), strings.ToLower(want)
	switch c.operator {
	case "pr":
		return have != ""
	case "eq":
		return have == want
	case "ne":
		return have != want
	case "co":
		return strings.Contains(have, want)
	case "sw":
		return strings.HasPrefix(have, want)
	case "ew":
		return strings.HasSuffix(have, want)
	case "gt":
		return have > want
	case "ge":
		return have >= want
	case "lt":
		return have < want
	}
	return have <= want
}

// equalities adds the values that a filter demands to an object. It returns false if the filter is not one of
// equalities.
func equalities(t test, into object) (object, bool) {
	switch t := t.(type) {
	case nil:
		return into, true
	case *both:
		for _, x := range t.all {
			if _, ok := equalities(x, into); !ok {
				return nil, false
			}
		}
		return into, true
	case *compare:
		into[t.path.attribute] = t.value
		return into, t.operator == "eq" && t.path.sub == ""
	}
	return nil, false
}

// apply changes the members of a group. It looks at none of the others.
func (c *membership) apply(a *attribute, verb string, p path, v any) error {
	if p.sub != "" {
		return invalid("mutability", "parts of a member cannot be changed: remove the member and add another")
	}
	if p.filter != nil {
		ids, ok := alternatives(p.filter)
		if !ok || verb != "remove" {
			return invalid("invalidFilter", `members are selected for removal by members[value eq "ID"]`)
		}
		for _, id := range ids {
			c.set(id, false)
		}
		return nil
	}
	list, isList := v.([]any)
	n, err := a.normal(v)
	if err != nil {
		return err
	}
	ids := idsIn(n)
	switch {
	case verb == "remove" && v == nil, verb == "replace":
		c.only()
	case verb == "remove" && isList && len(list) > 0 && len(ids) == 0:
		return invalid("invalidValue", "a member is removed by its value, the id")
	}
	for _, id := range ids {
		c.set(id, verb != "remove")
	}
	return nil
}

// idsIn returns the ids in normal values.
func idsIn(v any) (ids []string) {
	all, _ := v.([]any)
	for _, e := range all {
		if id, ok := e.(object)["value"].(string); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// alternatives returns the ids of a filter that is value eq "ID", or several of these joined by or.
func alternatives(t test) (ids []string, ok bool) {
	switch t := t.(type) {
	case *compare:
		id, isText := t.value.(string)
		return []string{id}, isText && t.operator == "eq" && strings.EqualFold(t.path.attribute, "value") && t.path.sub == ""
	case *either:
		for _, x := range t.all {
			more, ok := alternatives(x)
			if !ok {
				return nil, false
			}
			ids = append(ids, more...)
		}
		return ids, true
	}
	return nil, false
}

// decode decodes a body.
func decode(body []byte, into any) error {
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.UseNumber()
	err := d.Decode(into)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		return invalid("invalidSyntax", "the body: %s cannot be a JSON %s", cmp.Or(wrong.Field, "it"), wrong.Value)
	}
	if err != nil {
		return invalid("invalidSyntax", "the body is not the JSON that is expected: %v", err)
	}
	if d.More() {
		return invalid("invalidSyntax", "something follows the JSON object in the body")
	}
	return nil
}
