package console

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/web"
)

func pathOf(segment string) string { return url.PathEscape(segment) }

// monitor returns the numbers of cn=monitor, or none if they may not be seen.
func (v *visit) monitor() (facts []fact, err error) {
	e, err := v.base("cn=monitor", "*", "+")
	if web.IsResult(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for i := range e.Attributes {
		a := &e.Attributes[i]
		if isCalled(a.Type, "objectClass") || isCalled(a.Type, "cn") || isCalled(a.Type, "entryDN") || isCalled(a.Type, "subschemaSubentry") || isCalled(a.Type, "structuralObjectClass") {
			continue
		}
		for n, value := range a.Values {
			facts = append(facts, fact{a.Type.Name(), v.value(e, a, n, value).Text})
		}
	}
	return facts, nil
}

// A serversPage is the data of the page of servers.
type serversPage struct {
	Store  *entryPage   // what is said of the store
	Slots  []*Entry     // the servers of the store
	Views  []*Entry     // how views are kept
	Others []*entryPage // the other entries below cn=monitor
}

// SlotAge returns for how long a server has not published a change.
func (e *Entry) SlotAge() string {
	ms, err := strconv.ParseInt(e.First("slotHeadAge"), 10, 64)
	if err != nil {
		return ""
	}
	return ago(time.Now().Add(-time.Duration(ms) * time.Millisecond))
}

// sayNothing are attributes of the monitor that say nothing of a server.
var sayNothing = strings.Fields("objectClass cn entryDN subschemaSubentry structuralObjectClass hasSubordinates createTimestamp modifyTimestamp creatorsName modifiersName")

// showServers shows the entries below cn=monitor: the store, its servers and its views, and then everything else.
func showServers(v *visit) error {
	f, err := v.search(&op.Search{Base: "cn=monitor", Scope: op.WholeSubtree, Filter: namedLike(""), Attributes: []string{"*", "+"}}, v.r.URL.Query().Get("cookie"))
	if err != nil {
		return err
	}
	var p serversPage
	for _, e := range f.Entries {
		switch {
		case e.First("slotNumber") != "":
			p.Slots = append(p.Slots, e)
			continue
		case strings.HasSuffix(strings.ToLower(e.DN), ",cn=views,cn=monitor"):
			e.DN = e.DN[:len(e.DN)-len(",cn=monitor")] // of the view
			p.Views = append(p.Views, e)
			continue
		}
		one := &entryPage{Entry: e}
		one.User, one.Operational = v.rowsOf(e, nil)
		one.User = slices.DeleteFunc(append(one.User, one.Operational...), func(r *Row) bool {
			return slices.ContainsFunc(sayNothing, func(n string) bool { return isCalled(r.Type, n) })
		})
		switch {
		case len(one.User) == 0:
		case e.First("clusterNewest") != "":
			p.Store = one
		default:
			p.Others = append(p.Others, one)
		}
	}
	return v.render("servers", "Servers", p)
}

// showViews shows the views of the directory, and the records of one.
func showViews(v *visit) error {
	type page struct {
		Views   []*Entry
		View    *Entry
		Records *found
		Columns []string
	}
	var p page
	f, err := v.search(&op.Search{Base: "cn=views", Scope: op.SingleLevel, Filter: namedLike(""), Attributes: []string{"*"}}, "")
	switch {
	case web.IsResult(err, op.NoSuchObject):
		return v.render("views", "Views", p)
	case err != nil:
		return err
	}
	p.Views = f.Entries
	if name := v.r.URL.Query().Get("view"); name != "" {
		if p.View, err = v.base(name, "*"); err != nil {
			return err
		}
		if p.Records, err = v.search(&op.Search{Base: name, Scope: op.SingleLevel, Filter: namedLike(""), Attributes: []string{"*"}}, v.r.URL.Query().Get("cookie")); err != nil {
			return err
		}
		for _, e := range p.Records.Entries {
			for i := range e.Attributes {
				if n := e.Attributes[i].Description(); !isCalled(e.Attributes[i].Type, "objectClass") && !slices.Contains(p.Columns, n) {
					p.Columns = append(p.Columns, n)
				}
			}
		}
	}
	return v.render("views", "Views", p)
}

// kindOf returns the kind of an object class in words.
func kindOf(c *schema.ObjectClass) string {
	return map[schema.Kind]string{schema.Abstract: "abstract", schema.Structural: "structural", schema.Auxiliary: "auxiliary"}[c.Kind]
}

// A schemaPage is the data of the page of the schema.
type schemaPage struct {
	Find       string
	Classes    []*schema.ObjectClass
	Types      []*schema.AttributeType
	Class      *schema.ObjectClass
	Type       *schema.AttributeType
	Shape      *shape
	Definition string
	UsedBy     []*schema.ObjectClass
	Below      []string
}

// showSchema shows definitions, or one with what refers to it.
func showSchema(v *visit) error {
	s := v.schema()
	p := &schemaPage{Find: strings.TrimSpace(v.r.URL.Query().Get("find"))}
	if name := v.r.URL.Query().Get("name"); name != "" {
		if p.Class, p.Type = s.Class(name), s.Attribute(name); p.Class == nil && p.Type == nil {
			return errorf(http.StatusNotFound, "The schema has no object class and no attribute %q.", name)
		}
		v.refer(p)
		return v.render("schema", name, p)
	}
	fits := func(name, desc string) bool {
		return strings.Contains(strings.ToLower(name+" "+desc), strings.ToLower(p.Find))
	}
	for _, c := range s.Classes() {
		if fits(strings.Join(c.Names, " ")+c.OID, c.Desc) {
			p.Classes = append(p.Classes, c)
		}
	}
	for _, t := range s.Attributes() {
		if fits(strings.Join(t.Names, " ")+t.OID, t.Desc) {
			p.Types = append(p.Types, t)
		}
	}
	sortByName(p.Classes)
	sortByName(p.Types)
	return v.render("schema", "Schema", p)
}

func sortByName[D interface{ Name() string }](all []D) {
	slices.SortFunc(all, func(a, b D) int { return strings.Compare(strings.ToLower(a.Name()), strings.ToLower(b.Name())) })
}

// refer adds to a definition what refers to it.
func (v *door) refer(p *schemaPage) {
	s := v.schema()
	kind, oid := "objectClasses", ""
	if p.Class != nil {
		oid = p.Class.OID
		p.Shape = shapeOf(s, []string{p.Class.Name()})
		for _, c := range s.Classes() {
			if slices.Contains(c.Sup, p.Class) {
				p.Below = append(p.Below, c.Name())
			}
		}
	} else {
		kind, oid = "attributeTypes", p.Type.OID
		for _, c := range s.Classes() {
			if slices.Contains(c.Must, p.Type) || slices.Contains(c.May, p.Type) {
				p.UsedBy = append(p.UsedBy, c)
			}
		}
		for _, t := range s.Attributes() {
			if t.Sup == p.Type {
				p.Below = append(p.Below, t.Name())
			}
		}
	}
	for _, d := range s.Definitions(kind) {
		if strings.HasPrefix(d, "( "+oid+" ") {
			p.Definition = d
		}
	}
}
