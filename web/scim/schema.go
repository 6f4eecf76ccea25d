package scim

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed schemas.txt
var schemasText string

// An attribute is a SCIM attribute (RFC 7643, 2) and the LDAP attribute that has its values.
type attribute struct {
	name, kind, description      string
	urn                          string // of its schema; "": it is a sub-attribute
	multi, required, exact       bool
	mutability, returned, unique string
	canonical, refs              []string
	sub                          []*attribute

	ldap   string // "": it has sub-attributes or types that have LDAP attributes
	types  []typed
	hidden bool // nobody has mapped it
}

// typed is the LDAP attribute for the values of one type.
type typed struct{ name, ldap string }

// A schema is a SCIM schema.
type schema struct {
	urn, name, description string
	attributes             []*attribute
}

// find returns the attribute with a name, in any case, or nil.
func find(in []*attribute, name string) *attribute {
	for _, a := range in {
		if strings.EqualFold(a.name, name) && !a.hidden {
			return a
		}
	}
	return nil
}

// parseSchemas parses the text of schemas.txt.
func parseSchemas(text string) (all []*schema) {
	for line := range strings.Lines(text) {
		left, description, _ := strings.Cut(strings.TrimRight(line, "\n"), " - ")
		words := strings.Fields(left)
		switch {
		case len(words) == 0 || words[0][0] == '#':
		case strings.HasPrefix(left, "urn:"):
			all = append(all, &schema{urn: words[0], name: words[1], description: description})
		default:
			s := all[len(all)-1]
			a := parseAttribute(words)
			a.description = description
			if left[0] == ' ' {
				above := s.attributes[len(s.attributes)-1]
				above.sub = append(above.sub, a)
			} else {
				a.urn = s.urn
				s.attributes = append(s.attributes, a)
			}
		}
	}
	return all
}

func parseAttribute(words []string) *attribute {
	a := &attribute{name: words[0], kind: words[1], mutability: "readWrite", returned: "default", unique: "none"}
	for i, w := range words[2:] {
		switch {
		case w[0] == '=':
			a.mapTo(w[1:])
		case w == "multi":
			a.multi = true
		case w == "required":
			a.required = true
		case w == "exact":
			a.exact = true
		case w == "server" && i < 2:
			a.unique = w
		case a.mutability == "readWrite" && (w == "readOnly" || w == "writeOnly" || w == "immutable"):
			a.mutability = w
		case a.returned == "default" && a.kind != "string" && w == "request" || w == "never" && len(a.canonical) == 0 && a.mutability == "writeOnly":
			a.returned = w
		case a.kind == "reference":
			a.refs = append(a.refs, w)
		default:
			a.canonical = append(a.canonical, w)
		}
	}
	return a
}

// mapTo sets the LDAP attributes of an attribute.
func (a *attribute) mapTo(text string) {
	a.hidden, a.ldap, a.types = text == "?" || text == "", "", nil
	for part := range strings.SplitSeq(text, ",") {
		if name, ldap, ok := strings.Cut(part, ":"); ok {
			a.types = append(a.types, typed{name, ldap})
		} else if !a.hidden {
			a.ldap = text
		}
	}
}

// A kind is a resource type (RFC 7643, 6), and where its resources are in the directory.
type kind struct {
	name, endpoint, description string
	schema, extension           *schema      // extension may be nil
	all                         []*attribute // of both
	classes                     []string
	class                       string // what resources are found by
	place, naming               string // of new resources: relative to the base; the attribute of the RDN
	member                      string // of groups
}

// attributes returns the attributes for the URN of a schema; those of the kind's own schema for "".
func (k *kind) attributes(urn string) []*attribute {
	switch {
	case urn == "" || strings.EqualFold(urn, k.schema.urn):
		return k.schema.attributes
	case k.extension != nil && strings.EqualFold(urn, k.extension.urn):
		return k.extension.attributes
	}
	return nil
}

// remap changes the mapping of attributes by texts of the form NAME=ATTRIBUTE. NAME may be the name of an
// attribute of the extension; "" as ATTRIBUTE takes the attribute away.
func (k *kind) remap(texts []string) error {
	for _, text := range texts {
		name, ldap, ok := strings.Cut(text, "=")
		first, second, nested := strings.Cut(name, ".")
		var a *attribute
		if i := slices.IndexFunc(k.all, func(x *attribute) bool { return strings.EqualFold(x.name, first) }); i >= 0 {
			a = k.all[i]
		}
		if a != nil && nested {
			i := slices.IndexFunc(a.sub, func(x *attribute) bool { return strings.EqualFold(x.name, second) })
			if a.multi || i < 0 {
				a = nil
			} else {
				a = a.sub[i]
			}
		}
		switch {
		case !ok || a == nil:
			return fmt.Errorf("%q is not NAME=ATTRIBUTE with the name of an attribute of %s", text, k.name)
		case a.kind == "complex" || a.required || a.name == "password":
			return fmt.Errorf("%q: the mapping of %s is fixed", text, a.name)
		}
		a.mapTo(ldap)
	}
	return nil
}

// represent returns an attribute in the form of RFC 7643, 7.
func (a *attribute) represent() object {
	o := object{"name": a.name, "type": a.kind, "multiValued": a.multi, "description": a.description, "required": a.required,
		"mutability": a.mutability, "returned": a.returned}
	switch a.kind {
	case "string", "reference":
		o["caseExact"], o["uniqueness"] = a.exact || a.kind == "reference", a.unique
	}
	if len(a.canonical) > 0 {
		o["canonicalValues"] = a.canonical
	}
	if len(a.refs) > 0 {
		o["referenceTypes"] = a.refs
	}
	if len(a.sub) > 0 {
		o["subAttributes"] = representAll(a.sub)
	}
	return o
}

func representAll(as []*attribute) []object {
	all := []object{}
	for _, a := range as {
		if !a.hidden {
			all = append(all, a.represent())
		}
	}
	return all
}

const (
	schemaURN       = "urn:ietf:params:scim:schemas:core:2.0:Schema"
	resourceTypeURN = "urn:ietf:params:scim:schemas:core:2.0:ResourceType"
	configURN       = "urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"
)

// representSchema returns a schema as a resource.
func (h *handler) representSchema(origin string, s *schema) object {
	return object{"schemas": []string{schemaURN}, "id": s.urn, "name": s.name, "description": s.description, "attributes": representAll(s.attributes),
		"meta": object{"resourceType": "Schema", "location": origin + "/Schemas/" + s.urn}}
}

func (h *handler) representKind(origin string, k *kind) object {
	extensions := []object{}
	if k.extension != nil {
		extensions = append(extensions, object{"schema": k.extension.urn, "required": false})
	}
	return object{"schemas": []string{resourceTypeURN}, "id": k.name, "name": k.name, "description": k.description, "endpoint": k.endpoint,
		"schema": k.schema.urn, "schemaExtensions": extensions,
		"meta": object{"resourceType": "ResourceType", "location": origin + "/ResourceTypes/" + k.name}}
}

func (h *handler) representConfig(origin string) object {
	is := object{"supported": true}
	return object{"schemas": []string{configURN},
		"patch": is, "changePassword": is, "sort": is, "etag": is,
		"bulk":   object{"supported": true, "maxOperations": maxOperations, "maxPayloadSize": maxBody},
		"filter": object{"supported": true, "maxResults": maxPage},
		"pagination": object{"cursor": true, "index": true, "defaultPaginationMethod": "index",
			"defaultPageSize": defaultPage, "maxPageSize": maxPage},
		"authenticationSchemes": []object{
			{"type": "oauthbearertoken", "name": "Bearer token", "description": "A token of 'ldapd token add', or of the issuer that is configured"},
			{"type": "httpbasic", "name": "Basic", "description": "A name and a password, as for a bind"}},
		"meta": object{"resourceType": "ServiceProviderConfig", "location": origin + "/ServiceProviderConfig"}}
}

// discover answers requests for what the server can do (RFC 7644, 4).
func (h *handler) discover(r *request, parts []string) (*answer, error) {
	if r.method != "GET" {
		return nil, methodError("GET")
	}
	if r.query.Get("filter") != "" {
		return nil, &Error{Status: 403, Detail: "filters do not apply to " + parts[0]}
	}
	var all []object
	switch parts[0] {
	case "ServiceProviderConfig":
		if len(parts) == 1 {
			return &answer{status: 200, body: h.representConfig(r.origin)}, nil
		}
	case "Schemas":
		for _, s := range h.schemas {
			all = append(all, h.representSchema(r.origin, s))
		}
	case "ResourceTypes":
		for _, k := range h.kinds {
			all = append(all, h.representKind(r.origin, k))
		}
	}
	if len(parts) == 1 {
		return &answer{status: 200, body: object{"schemas": []string{listURN}, "totalResults": len(all), "itemsPerPage": len(all), "startIndex": 1, "Resources": all}}, nil
	}
	for _, o := range all {
		if strings.EqualFold(o["id"].(string), parts[1]) {
			return &answer{status: 200, body: o}, nil
		}
	}
	return nil, errNotFound
}
