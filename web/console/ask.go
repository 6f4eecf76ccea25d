package console

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/web"
)

const (
	rows    = 100 // of a part of a page
	seconds = 2   // that a search of a page may take
)

// An Entry is a found entry.
type Entry struct {
	DN         string
	Attributes []entry.Attribute
}

// keep copies an entry, which is valid only until the sink's function returns.
func keep(e *op.SearchEntry) *Entry {
	k := &Entry{DN: e.Name, Attributes: slices.Clone(e.Attributes)}
	for i := range k.Attributes {
		a := &k.Attributes[i]
		a.Values = slices.Clone(a.Values)
		for j := range a.Values {
			a.Values[j] = bytes.Clone(a.Values[j])
		}
	}
	return k
}

// all returns the values of a type and its subtypes, whatever their options.
func (e *Entry) all(t *schema.AttributeType) (vs [][]byte) {
	for i := range e.Attributes {
		if t != nil && e.Attributes[i].Type.Is(t) {
			vs = append(vs, e.Attributes[i].Values...)
		}
	}
	return vs
}

// First returns the first value of an attribute without options, or "".
func (e *Entry) First(name string) string {
	for i := range e.Attributes {
		if a := &e.Attributes[i]; a.Options == "" && len(a.Values) > 0 && isCalled(a.Type, name) {
			return string(a.Values[0])
		}
	}
	return ""
}

// Strings returns the values of an attribute without options.
func (e *Entry) Strings(name string) (vs []string) {
	for i := range e.Attributes {
		if a := &e.Attributes[i]; a.Options == "" && isCalled(a.Type, name) {
			for _, v := range a.Values {
				vs = append(vs, string(v))
			}
		}
	}
	return vs
}

func isCalled(t *schema.AttributeType, name string) bool {
	return slices.ContainsFunc(t.Names, func(n string) bool { return strings.EqualFold(n, name) })
}

// find returns the attribute with a description, or nil.
func (e *Entry) find(description string) *entry.Attribute {
	for i := range e.Attributes {
		if strings.EqualFold(e.Attributes[i].Description(), description) {
			return &e.Attributes[i]
		}
	}
	return nil
}

// ID returns what stands for the entry in addresses: its entryUUID, or its name if the UUID is not
// shown.
func (e *Entry) ID() string {
	if id := e.First("entryUUID"); id != "" {
		return id
	}
	return "dn:" + e.DN
}

// Label returns a short name of the entry.
func (e *Entry) Label() string { return labelOf(e.DN) }

// About returns what the entry is besides its short name: the name of a person that is called by a user name,
// or else a description.
func (e *Entry) About() string {
	for _, name := range []string{"displayName", "cn", "description"} {
		if text := e.First(name); text != "" && !strings.EqualFold(text, e.Label()) && !strings.Contains(e.Label(), text) {
			return shortened(text)
		}
	}
	return ""
}

// shortened returns the beginning of a text that is too long for a line.
func shortened(text string) string {
	n := 0
	for i := range text {
		if n++; n > 80 {
			return text[:i] + "…"
		}
	}
	return text
}

// labelOf returns the values of the first RDN of a name.
func labelOf(name string) string {
	d, err := dn.Parse(name)
	if err != nil || len(d) == 0 {
		return name
	}
	var parts []string
	for _, a := range d[0] {
		parts = append(parts, string(a.Value))
	}
	return strings.Join(parts, " + ")
}

// parentOf returns the name of the parent.
func parentOf(name string) string {
	d, err := dn.Parse(name)
	if err != nil || len(d) == 0 {
		return ""
	}
	return d.Parent().String()
}

// Parent returns the name of the entry's parent.
func (e *Entry) Parent() string { return parentOf(e.DN) }

// kindsByClass are the pictures of entries, by class, the most particular first.
var kindsByClass = []struct{ class, kind string }{
	{"groupOfNames", "group"}, {"groupOfUniqueNames", "group"}, {"posixGroup", "group"}, {"groupOfURLs", "group"}, {"groupOfMembers", "group"},
	{"person", "person"}, {"posixAccount", "person"}, {"account", "person"},
	{"organizationalUnit", "folder"}, {"organization", "folder"}, {"domain", "folder"}, {"dcObject", "folder"}, {"container", "folder"}, {"locality", "folder"},
	{"device", "device"}, {"ipHost", "device"}, {"simpleSecurityObject", "service"}, {"applicationProcess", "service"},
	{"alias", "alias"}, {"referral", "alias"},
}

// Kind returns what kind of thing the entry is, for its picture.
func (e *Entry) Kind() string {
	classes := e.Strings("objectClass")
	for _, k := range kindsByClass {
		if slices.ContainsFunc(classes, func(c string) bool { return strings.EqualFold(c, k.class) }) {
			return k.kind
		}
	}
	return "entry"
}

// controls adds the control at to the controls of a read, if the page shows the past.
func (v *door) controls(cs ...op.Control) []op.Control {
	if v.At != "" {
		cs = append(cs, op.Control{OID: control.OIDAt, Critical: true, Value: []byte(v.At)})
	}
	return cs
}

// A found is a part of the results of a search.
type found struct {
	Entries []*Entry
	Cookie  string // for the next part; "": there is none
	Refused string // why the results are not all
}

// search returns one part of the results of a search. A limit that ends the search is no error, but in
// Refused.
func (v *door) search(r *op.Search, cookie string, more ...op.Control) (*found, error) {
	return v.searchN(r, rows, cookie, more...)
}

func (v *door) searchN(r *op.Search, n int, cookie string, more ...op.Control) (*found, error) {
	raw, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil {
		return nil, errorf(http.StatusBadRequest, "The address of this page is damaged: search again.")
	}
	f := &found{}
	r.TimeLimit = seconds
	cs := append(v.controls(more...), op.Control{OID: control.OIDPagedResults, Critical: true, Value: control.PagedResults{Size: n, Cookie: raw}.Encode()})
	done, err := v.client.Do(v.r.Context(), r, web.Answer{Entry: func(e *op.SearchEntry) error {
		f.Entries = append(f.Entries, keep(e))
		return nil
	}}, cs...)
	if web.IsResult(err, op.TimeLimitExceeded, op.SizeLimitExceeded, op.AdminLimitExceeded) {
		f.Refused = explain(&done.Result)
	} else if err != nil {
		return nil, err
	}
	if c := done.Control(control.OIDPagedResults); c != nil {
		if p, err := control.ParsePagedResults(c.Value); err == nil {
			f.Cookie = base64.RawURLEncoding.EncodeToString(p.Cookie)
		}
	}
	return f, nil
}

// base returns the entry with a name. The error is a *op.Result if it is not shown.
func (v *door) base(name string, attributes ...string) (*Entry, error) {
	return v.only(&op.Search{Base: name, Scope: op.BaseObject, Filter: &filter.Present{Attribute: "objectClass"}, Attributes: attributes})
}

// only returns the only result of a search.
func (v *door) only(r *op.Search, more ...op.Control) (*Entry, error) {
	var e *Entry
	r.TimeLimit = seconds
	_, err := v.client.Do(v.r.Context(), r, web.Answer{Entry: func(x *op.SearchEntry) error {
		e = keep(x)
		return nil
	}}, v.controls(more...)...)
	if err == nil && e == nil {
		err = &op.Result{Code: op.NoSuchObject}
	}
	return e, err
}

// summary are the attributes that lists of entries need.
var summary = []string{"entryUUID", "objectClass", "cn", "displayName", "description", "hasSubordinates"}

// subject returns the entry that the address of the page names, with some attributes.
func (v *visit) subject(attributes ...string) (*Entry, error) {
	return v.entry(v.r.PathValue("id"), attributes...)
}

// entry returns the entry with an ID, with some attributes.
func (v *door) entry(id string, attributes ...string) (*Entry, error) {
	if name, ok := strings.CutPrefix(id, "dn:"); ok {
		return v.base(name, attributes...)
	}
	if _, err := entry.ParseID(id); err != nil {
		return nil, errorf(http.StatusNotFound, "%q is no entryUUID, nor dn: and a name.", id)
	}
	return v.only(&op.Search{Scope: op.WholeSubtree, Filter: filter.EqualTo("entryUUID", id), Attributes: attributes})
}

// whole returns the entry with an ID, with everything, except that attributes of many values come with the first of
// these. The map has the types of those that have more.
func (v *door) whole(id string) (*Entry, map[*schema.AttributeType]bool, error) {
	e, err := v.entry(id, "objectClass", "entryUUID")
	if err != nil {
		return nil, nil, err
	}
	e, err = v.base(e.DN, v.wanted(e)...)
	if err != nil {
		return nil, nil, err
	}
	more := map[*schema.AttributeType]bool{}
	for i := range e.Attributes {
		a := &e.Attributes[i]
		if rest, bounds, ok := strings.Cut(a.Options, ";range="); ok {
			a.Options = rest
			more[a.Type] = !strings.HasSuffix(bounds, "*")
		}
	}
	return e, more, nil
}

// wanted returns the attributes to ask for of an entry with certain classes. Attributes that may have
// very many values are asked for by a range, so that the others have to be named.
func (v *door) wanted(e *Entry) (names []string) {
	s := v.schema()
	shape := shapeOf(s, e.Strings("objectClass"))
	for _, t := range s.Attributes() {
		switch {
		case t.Usage == schema.UserApplications && (shape.any || shape.allows(t) || t.Collective), t.Operational() && !isCalled(t, "memberOf"):
			name := t.SentName()
			if isMany(t) {
				name += ";range=0-" + strconv.Itoa(rows-1)
			}
			names = append(names, name)
		}
	}
	return names
}

// isMany reports whether an attribute may have very many values.
func isMany(t *schema.AttributeType) bool {
	return !t.SingleValue && t.Usage == schema.UserApplications && (t.NamesEntries() || isCalled(t, "memberUid"))
}

// paged reports whether the values of an attribute are changed on a page of their own, because they are too many for
// the form of the entry.
func (e *Entry) paged(t *schema.AttributeType) bool { return isMany(t) && len(e.all(t)) > 10 }

// A shape is what the object classes of an entry require and allow.
type shape struct {
	classes    []*schema.ObjectClass // with their superclasses
	any        bool                  // everything is allowed
	Must, May  []*schema.AttributeType
	unknown    []string
	structural *schema.ObjectClass // the most particular one
}

func shapeOf(s *schema.Schema, names []string) *shape {
	x := &shape{}
	for _, n := range names {
		c := s.Class(n)
		if c == nil {
			x.unknown = append(x.unknown, n)
			continue
		}
		x.add(c)
	}
	if r := s.ContentRule(x.structural); x.structural != nil && r != nil {
		x.Must, x.May = union(x.Must, r.Must), union(x.May, r.May)
	}
	x.May = slices.DeleteFunc(x.May, func(t *schema.AttributeType) bool { return slices.Contains(x.Must, t) })
	return x
}

func (x *shape) add(c *schema.ObjectClass) {
	if slices.Contains(x.classes, c) {
		return
	}
	x.classes = append(x.classes, c)
	x.any = x.any || c.Name() == "extensibleObject"
	x.Must, x.May = union(x.Must, c.Must), union(x.May, c.May)
	if c.Kind == schema.Structural && (x.structural == nil || c.Is(x.structural)) {
		x.structural = c
	}
	for _, sup := range c.Sup {
		x.add(sup)
	}
}

func union(a, b []*schema.AttributeType) []*schema.AttributeType {
	for _, t := range b {
		if !slices.Contains(a, t) {
			a = append(slices.Clip(a), t)
		}
	}
	return a
}

func (x *shape) requires(t *schema.AttributeType) bool { return slices.Contains(x.Must, t) }

// allows reports whether an entry may have a type, or a subtype of one that it may have.
func (x *shape) allows(t *schema.AttributeType) bool {
	is := func(u *schema.AttributeType) bool { return t == u }
	return slices.ContainsFunc(x.Must, is) || slices.ContainsFunc(x.May, is)
}
