package console

import (
	"net/http"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A usual is a kind of entry that people add, with what its form begins with.
type usual struct {
	Kind, Name, Desc string
	classes, fields  []string
	naming           string
}

var usuals = []usual{
	{"person", "Person", "someone with a name, mail and a telephone", []string{"inetOrgPerson"},
		[]string{"cn", "sn", "givenName", "uid", "mail", "telephoneNumber", "title", "userPassword"}, "uid"},
	{"group", "Group", "members, each the name of an entry", []string{"groupOfNames"}, []string{"cn", "description", "member"}, "cn"},
	{"folder", "Folder", "an organizational unit, to put entries below", []string{"organizationalUnit"}, []string{"ou", "description"}, "ou"},
	{"service", "Service account", "a program that binds with a password", []string{"applicationProcess", "simpleSecurityObject"},
		[]string{"cn", "description", "userPassword"}, "cn"},
	{"posix", "POSIX person", "a person with a home directory and numbers", []string{"inetOrgPerson", "posixAccount"},
		[]string{"cn", "sn", "givenName", "uid", "mail", "uidNumber", "gidNumber", "homeDirectory", "loginShell", "userPassword"}, "uid"},
}

// An addPage is the data of the form that adds an entry, or of the choice before it.
type addPage struct {
	Parent  string
	Under   *pick // of the parent
	Usual   []usual
	Classes []*schema.ObjectClass // structural ones
	Chosen  bool
	Kind    string
	Names   []string // attributes that may name the entry
	Naming  string   // the one that does
	Groups  []*Group
	Wrong   []*Field
	Error   string
	Preview string
	All     []*schema.ObjectClass
	Absent  []*schema.AttributeType
}

// showAdd shows the choice of a kind of entry, or the form for it.
func showAdd(v *visit) error {
	q := v.r.URL.Query()
	p := &addPage{Parent: q.Get("parent")}
	var classes, with []string
	var like *Entry
	switch {
	case q.Get("like") != "":
		e, _, err := v.whole(q.Get("like"))
		if err != nil {
			return err
		}
		like, p.Parent, classes = e, e.Parent(), e.Strings("objectClass")
		if rdn := namingOf(v.schema(), e.DN); len(rdn) > 0 && rdn[0].t != nil {
			p.Naming = rdn[0].t.Name()
		}
	case q.Get("class") != "":
		classes = append([]string{q.Get("class")}, q["aux"]...)
	case q.Get("kind") != "":
		i := slices.IndexFunc(usuals, func(u usual) bool { return u.Kind == q.Get("kind") })
		if i < 0 {
			return errorf(http.StatusNotFound, "There is no form for %q.", q.Get("kind"))
		}
		classes, with, p.Naming = usuals[i].classes, usuals[i].fields, usuals[i].naming
	default:
		p.Usual = usuals
		for _, c := range v.schema().Classes() {
			if c.Kind == schema.Structural && !c.Obsolete {
				p.Classes = append(p.Classes, c)
			}
		}
		sortByName(p.Classes)
		return v.render("add", "Add an entry", p)
	}
	x := shapeOf(v.schema(), classes)
	if len(x.unknown) > 0 || x.structural == nil {
		return errorf(http.StatusUnprocessableEntity, "%q is no structural object class.", strings.Join(classes, " "))
	}
	return v.addForm(p, v.newFields(x, classes, with, like), classes)
}

// newFields returns the fields of a new entry.
func (v *door) newFields(x *shape, classes, with []string, like *Entry) (fields []*Field) {
	s := v.schema()
	seen := map[*schema.AttributeType]bool{}
	add := func(t *schema.AttributeType, text string) {
		f := newField(t, "", nil)
		f.Text, f.Must = text, x.requires(t)
		seen[t] = true
		fields = append(fields, f)
	}
	class := s.Attribute("objectClass")
	for _, c := range classes {
		add(class, c)
	}
	for _, name := range with {
		if t := s.Attribute(name); t != nil && (x.allows(t) || x.any) {
			add(t, "")
		}
	}
	if like != nil {
		for i := range like.Attributes {
			a := &like.Attributes[i]
			if a.Type == class || a.Type.Operational() || a.Type.Secret() || a.Options != "" || isMany(a.Type) && len(a.Values) == rows {
				continue
			}
			for _, value := range a.Values {
				if inputOf(a.Type, string(value)) != "file" {
					add(a.Type, textOf(a.Type, string(value)))
				}
			}
		}
	}
	for _, t := range x.Must {
		if !seen[t] {
			add(t, "")
		}
	}
	sortFields(fields)
	return fields
}

// addForm shows the form of a new entry.
func (v *visit) addForm(p *addPage, fields []*Field, classes []string) error {
	p.Chosen, p.All = true, v.schema().Classes()
	if p.Under == nil {
		p.Under = &pick{Param: "parent", Text: p.Parent}
	}
	var err error
	if p.Groups, err = v.groupsOfFields(fields); err == nil {
		err = v.find(p.Under)
	}
	if err != nil {
		return err
	}
	x := shapeOf(v.schema(), classes)
	for _, f := range fields {
		if f.Type.Secret() {
			f.Input = "password"
		}
		if n := f.Type.Name(); !slices.Contains(p.Names, n) && f.Input == "line" && !isCalled(f.Type, "objectClass") && !f.Type.NamesEntries() {
			p.Names = append(p.Names, n)
		}
		if f.Wrong != "" {
			p.Wrong = append(p.Wrong, f)
		}
	}
	for _, t := range v.schema().Attributes() {
		if t.Usage == schema.UserApplications && !t.NoUserModification && (x.any || x.allows(t)) {
			p.Absent = append(p.Absent, t)
		}
	}
	slices.SortFunc(p.Absent, func(a, b *schema.AttributeType) int { return strings.Compare(a.Name(), b.Name()) })
	if p.Naming == "" {
		p.Naming = v.usualNaming(p)
	}
	for _, g := range p.Groups {
		g.Must = g.Must || g.Name == p.Naming
	}
	return v.render("add", "Add an entry", p)
}

// usualNaming returns the attribute that names the children of the parent, if the new entry may have it.
func (v *door) usualNaming(p *addPage) string {
	f, err := v.searchN(&op.Search{Base: p.Parent, Scope: op.SingleLevel, Filter: namedLike(""), Attributes: []string{"1.1"}}, 1, "")
	if err == nil && len(f.Entries) > 0 {
		if rdn := namingOf(v.schema(), f.Entries[0].DN); len(rdn) > 0 && rdn[0].t != nil && slices.Contains(p.Names, rdn[0].t.Name()) {
			return rdn[0].t.Name()
		}
	}
	if len(p.Names) > 0 {
		return p.Names[0]
	}
	return ""
}

// add adds the entry of a form.
func add(v *visit) error {
	fields, err := v.readForm()
	if err != nil {
		return err
	}
	form := v.r.PostForm
	p := &addPage{Under: v.picked("parent"), Naming: form.Get("naming")}
	p.Parent = p.Under.Text
	var classes []string
	for _, f := range fields {
		if isCalled(f.Type, "objectClass") && f.new() != nil {
			classes = append(classes, f.Text)
		}
	}
	x := shapeOf(v.schema(), classes)
	for _, f := range fields {
		f.Must = x.requires(f.Type)
	}
	if form.Has("more") {
		if t, options := v.schema().Describe(form.Get("with")); t != nil {
			fields = append(fields, newField(t, entry.SortOptions(options), nil))
			sortFields(fields)
		}
		for _, t := range x.Must { // a class that was added may require more
			if !slices.ContainsFunc(fields, func(f *Field) bool { return f.Type == t }) {
				f := newField(t, "", nil)
				f.Must = true
				fields = append(fields, f)
			}
		}
		return v.addForm(p, fields, classes)
	}
	if form.Has("find") {
		return v.addForm(p, fields, classes)
	}
	request := &op.Add{Attributes: nil}
	name := v.nameNew(p, fields)
	if !v.check(fields) || name == "" {
		if name == "" {
			p.Error = "The attribute " + p.Naming + " names the entry, so it needs a value."
		}
		v.answer(http.StatusUnprocessableEntity)
		return v.addForm(p, fields, classes)
	}
	request.Name = name
	for _, c := range changesOf(fields) {
		request.Attributes = append(request.Attributes, c.PartialAttribute)
	}
	if form.Has("preview") {
		p.Preview, err = ldifOf(name, withoutSecrets(v.schema(), request)), v.try(request)
	} else {
		_, err = v.do(request)
	}
	switch {
	case err != nil:
		if !v.problem(err, &p.Error) {
			return err
		}
		return v.addForm(p, fields, classes)
	case p.Preview != "":
		return v.addForm(p, fields, classes)
	}
	return v.redirect("/entry/" + pathOf("dn:"+name) + "?done=added")
}

// nameNew returns the name of the new entry, or "" if the value that names it is missing.
func (v *visit) nameNew(p *addPage, fields []*Field) string {
	for _, f := range fields {
		if value := f.new(); value != nil && strings.EqualFold(f.Type.Name(), p.Naming) {
			rdn := dn.DN{dn.RDN{{Type: f.Type.Name(), Value: value}}}.String()
			return strings.TrimSuffix(rdn+","+p.Parent, ",")
		}
	}
	return ""
}

// withoutSecrets returns an add that can be shown.
func withoutSecrets(s *schema.Schema, r *op.Add) *op.Add {
	shown := *r
	shown.Attributes = slices.Clone(r.Attributes)
	for i, a := range shown.Attributes {
		if t, _ := s.Describe(a.Description); t != nil && t.Secret() {
			shown.Attributes[i].Values = [][]byte{[]byte("(not shown)")}
		}
	}
	return &shown
}
