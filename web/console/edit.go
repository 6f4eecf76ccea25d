package console

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/web"
)

var timeless time.Time // the time of values that are sent as files

// do makes a change.
func (v *door) do(r op.Request, controls ...op.Control) (*op.Response, error) {
	if v.At != "" {
		return nil, errorf(http.StatusUnprocessableEntity, "The past cannot be changed: go back to now.")
	}
	return v.client.Do(v.r.Context(), r, web.Answer{}, controls...)
}

// try checks a change without making it.
func (v *door) try(r op.Request, controls ...op.Control) error {
	_, err := v.do(r, append(controls, op.Control{OID: control.OIDNoOp, Critical: true})...)
	if web.IsResult(err, op.NoOperation) {
		return nil
	}
	return err
}

// unchangedSince returns the control with which a change is made only if the entry is still the one of
// the form. Without a revision there is no control.
func unchangedSince(csn string) []op.Control {
	if csn == "" {
		return nil
	}
	return []op.Control{{OID: control.OIDAssertion, Critical: true, Value: control.AssertEqual("entryCSN", csn)}}
}

// ldifOf returns a change as LDIF.
func ldifOf(name string, r op.Request) string {
	var b strings.Builder
	w := ldif.NewWriter(&b)
	if w.Write(&ldif.Record{DN: name, Change: r}) == nil {
		w.Flush() // a strings.Builder returns no error
	}
	return b.String()
}

// An editPage is the data of the form that changes an entry.
type editPage struct {
	*Entry
	CSN     string
	Groups  []*Group
	Absent  []*schema.AttributeType // that the entry may have
	Classes []*schema.ObjectClass
	Wrong   []*Field // the fields with mistakes
	Error   string
	Preview string // the change as LDIF
	Present []*Row // what the entry has now, if it has changed under the form

	may map[*schema.AttributeType]bool // see mayChange
}

// Kept returns the object classes, if the form has no fields for them.
func (p *editPage) Kept() []string {
	if slices.ContainsFunc(p.Groups, func(g *Group) bool { return g.Name == "objectClass" }) {
		return nil
	}
	return p.Strings("objectClass")
}

// fieldsOf returns the fields of an entry: its values, and empty ones for what it must have and for the
// attributes in with.
func (v *door) fieldsOf(p *editPage, with []string) (fields []*Field) {
	s, e := v.schema(), p.Entry
	x := shapeOf(s, e.Strings("objectClass"))
	rdn := namingOf(s, e.DN)
	seen := map[*schema.AttributeType]bool{}
	add := func(f *Field) {
		f.Must = x.requires(f.Type)
		seen[f.Type] = true
		if rights, known := p.may[f.Type]; rights || !known {
			fields = append(fields, f)
		}
	}
	for i := range e.Attributes {
		a := &e.Attributes[i]
		if a.Type.Operational() || a.Type.NoUserModification || a.Type.Secret() || e.paged(a.Type) {
			seen[a.Type] = true
			continue
		}
		for n, value := range a.Values {
			f := newField(a.Type, a.Options, value)
			if f.Input == "file" {
				f.Shown = v.value(e, a, n, value)
			}
			add(f)
			if a.Options == "" && slices.ContainsFunc(rdn, func(r rdnPart) bool { return r.t == a.Type && a.Type.SameValue([]byte(r.value), value) }) {
				f.Fixed = "part of the name: rename the entry to change it"
			}
		}
	}
	for _, t := range x.Must {
		if !seen[t] && !t.Secret() {
			add(newField(t, "", nil))
		}
	}
	for _, name := range with {
		if t, options := s.Describe(name); t != nil && !t.Secret() {
			add(newField(t, entry.SortOptions(options), nil))
		}
	}
	sortFields(fields)
	return fields
}

// An rdnPart is one type and value of an RDN.
type rdnPart struct {
	t     *schema.AttributeType
	value string
}

func namingOf(s *schema.Schema, name string) (all []rdnPart) {
	d, err := dn.Parse(name)
	if err != nil || len(d) == 0 {
		return nil
	}
	for _, a := range d[0] {
		all = append(all, rdnPart{s.Attribute(a.Type), string(a.Value)})
	}
	return all
}

// mayChange asks which attributes of an entry one may change. Attributes that the answer does not name are
// not in the result.
func (v *door) mayChange(e *Entry) map[*schema.AttributeType]bool {
	may := map[*schema.AttributeType]bool{}
	if v.IsAdmin() || v.At != "" {
		return may
	}
	r := &op.Search{Base: e.DN, Scope: op.BaseObject, Filter: namedLike(""), Attributes: []string{"*", "attributeLevelRights"}}
	x, err := v.only(r, op.Control{OID: control.OIDEffectiveRights, Critical: true})
	if err != nil {
		return may // the server refuses what may not be done, in any case
	}
	for _, right := range strings.Split(x.First("attributeLevelRights"), ", ") {
		name, letters, ok := strings.Cut(right, ":")
		if t, _ := v.schema().Describe(name); t != nil && ok {
			may[t] = strings.ContainsAny(letters, "wWoO")
		}
	}
	return may
}

func showEdit(v *visit) error {
	e, _, err := v.whole(v.r.PathValue("id"))
	if err != nil {
		return err
	}
	p := &editPage{Entry: e, CSN: e.First("entryCSN"), may: v.mayChange(e)}
	return v.edit(p, v.fieldsOf(p, v.r.URL.Query()["with"]))
}

// edit shows the form.
func (v *visit) edit(p *editPage, fields []*Field) error {
	if v.At != "" {
		return errorf(http.StatusUnprocessableEntity, "The past cannot be changed: go back to now.")
	}
	var err error
	if p.Groups, err = v.groupsOfFields(fields); err != nil {
		return err
	}
	s := v.schema()
	x := shapeOf(s, p.Strings("objectClass"))
	if p.may == nil {
		p.may = v.mayChange(p.Entry)
	}
	for _, t := range s.Attributes() {
		if rights, known := p.may[t]; (rights || !known) && !t.Secret() && !t.NoUserModification && t.Usage == schema.UserApplications && (x.any || x.allows(t)) && !p.paged(t) &&
			!slices.ContainsFunc(fields, func(f *Field) bool { return f.Type == t && t.SingleValue }) {
			p.Absent = append(p.Absent, t)
		}
	}
	slices.SortFunc(p.Absent, func(a, b *schema.AttributeType) int { return strings.Compare(a.Name(), b.Name()) })
	p.Classes = s.Classes()
	for _, f := range fields {
		if f.Wrong != "" {
			p.Wrong = append(p.Wrong, f)
		}
	}
	return v.render("edit", "Edit "+p.Label(), p)
}

// saveEdit makes the changes of a form, or shows them.
func saveEdit(v *visit) error {
	fields, err := v.readForm()
	if err != nil {
		return err
	}
	e, _, err := v.whole(v.r.PathValue("id"))
	if err != nil {
		return err
	}
	p := &editPage{Entry: e, CSN: v.r.PostForm.Get("csn")}
	v.complete(e, fields)
	if t := v.r.PostForm.Get("with"); v.r.PostForm.Has("more") {
		if at, options := v.schema().Describe(t); at != nil {
			fields = append(fields, newField(at, entry.SortOptions(options), nil))
			sortFields(fields)
		} else {
			p.Error = "Choose the attribute to add a value of."
		}
		return v.edit(p, fields)
	}
	if v.r.PostForm.Has("find") {
		return v.edit(p, fields)
	}
	if !v.check(fields) {
		v.answer(http.StatusUnprocessableEntity)
		return v.edit(p, fields)
	}
	change := &op.Modify{Name: e.DN, Changes: changesOf(fields)}
	if len(change.Changes) == 0 {
		return v.redirect(v.EntryLink(e) + "?done=nothing")
	}
	if v.r.PostForm.Has("preview") {
		p.Preview, err = ldifOf(e.DN, change), v.try(change, unchangedSince(p.CSN)...)
	} else {
		_, err = v.do(change, unchangedSince(p.CSN)...)
	}
	switch {
	case web.IsResult(err, op.AssertionFailed):
		p.Error = "Somebody has changed this entry since you opened the form, so nothing was saved. Below is what it has now, and what you would change. Save again to make your changes to the entry as it is now."
		p.Preview, p.CSN = ldifOf(e.DN, change), e.First("entryCSN")
		p.Present, _ = v.rowsOf(e, nil)
		p.Present = slices.DeleteFunc(p.Present, func(r *Row) bool {
			return !slices.ContainsFunc(change.Changes, func(c op.Modification) bool { return strings.EqualFold(c.Description, r.Name) })
		})
		v.answer(http.StatusConflict)
		return v.edit(p, fields)
	case err != nil:
		if !v.problem(err, &p.Error) {
			return err
		}
		return v.edit(p, fields)
	case p.Preview != "":
		return v.edit(p, fields)
	}
	return v.redirect(v.EntryLink(e) + "?done=saved")
}

// complete adds to the fields of a form what the server knows.
func (v *visit) complete(e *Entry, fields []*Field) {
	x := shapeOf(v.schema(), e.Strings("objectClass"))
	rdn := namingOf(v.schema(), e.DN)
	for _, f := range fields {
		f.Must = x.requires(f.Type)
		if slices.ContainsFunc(rdn, func(p rdnPart) bool {
			return p.t == f.Type && f.Old != "" && f.Type.SameValue([]byte(p.value), f.old())
		}) {
			f.Fixed = "part of the name: rename the entry to change it"
			f.Text, f.Gone = textOf(f.Type, string(f.old())), false
		}
	}
}

// A movePage is the data of the form that renames an entry.
type movePage struct {
	*Entry
	RDN   string
	Under *pick
	Keep  bool // the values of the old name stay
	Error string
}

func showMove(v *visit) error {
	e, err := v.subject(summary...)
	if err != nil {
		return err
	}
	return v.render("move", "Rename "+e.Label(), &movePage{Entry: e, RDN: rdnOf(e.DN), Under: &pick{Param: "under", Text: e.Parent()}})
}

func rdnOf(name string) string {
	d, err := dn.Parse(name)
	if err != nil || len(d) == 0 {
		return ""
	}
	return dn.DN{d[0]}.String()
}

func move(v *visit) error {
	e, err := v.subject(summary...)
	if err != nil {
		return err
	}
	f := v.r.PostForm
	p := &movePage{Entry: e, RDN: strings.TrimSpace(f.Get("rdn")), Under: v.picked("under"), Keep: f.Has("keep")}
	r := &op.ModifyDN{Name: e.DN, NewRDN: p.RDN, DeleteOldRDN: !p.Keep}
	if p.Under.Text != e.Parent() {
		r.NewSuperior = &p.Under.Text
	}
	if !f.Has("find") {
		_, err = v.do(r)
	}
	if f.Has("find") || err != nil {
		if err != nil && !v.problem(err, &p.Error) {
			return err
		}
		if err := v.find(p.Under); err != nil {
			return err
		}
		return v.render("move", "Rename "+e.Label(), p)
	}
	if strings.HasPrefix(e.ID(), "dn:") {
		e.DN = strings.TrimSuffix(p.RDN+","+p.Under.Text, ",")
	}
	return v.redirect(v.EntryLink(e) + "?done=moved")
}

// A deletePage is the data of the page that asks before an entry is deleted.
type deletePage struct {
	*Entry
	Below *found // the first entries below
	Error string
}

const shownBelow = 20

func (v *visit) deletePage() (*deletePage, error) {
	e, err := v.subject(summary...)
	if err != nil {
		return nil, err
	}
	p := &deletePage{Entry: e}
	p.Below, err = v.searchN(&op.Search{Base: e.DN, Scope: op.Subordinates, Filter: namedLike(""), Attributes: summary}, shownBelow, "")
	return p, err
}

func showDelete(v *visit) error {
	p, err := v.deletePage()
	if err != nil {
		return err
	}
	return v.render("delete", "Delete "+p.Label(), p)
}

// remove deletes an entry, and those below it if the form says so.
func remove(v *visit) error {
	p, err := v.deletePage()
	if err != nil {
		return err
	}
	var cs []op.Control
	if v.r.PostForm.Has("subtree") {
		cs = []op.Control{{OID: control.OIDTreeDelete, Critical: true}}
		err = v.confirm(v.r.PostForm.Get("password"))
	}
	if err == nil {
		_, err = v.do(&op.Delete{Name: p.DN}, cs...)
	}
	if err != nil {
		if !v.problem(err, &p.Error) {
			return err
		}
		return v.render("delete", "Delete "+p.Label(), p)
	}
	return v.redirect(link("/tree", "base", p.Parent(), "done", "deleted"))
}
