package console

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/web"
)

// A Row is an attribute of an entry as a page shows it.
type Row struct {
	Name    string // the description
	Type    *schema.AttributeType
	Values  []*Value
	More    bool // there are more values than these
	HasPage bool // its values have a page of their own
}

// An entryPage is the data of the page of an entry.
type entryPage struct {
	*Entry
	User, Operational []*Row
	Groups, Children  *found
}

func (v *door) rowsOf(e *Entry, more map[*schema.AttributeType]bool) (user, operational []*Row) {
	for i := range e.Attributes {
		a := &e.Attributes[i]
		r := &Row{Name: a.Description(), Type: a.Type, More: more[a.Type], HasPage: isMany(a.Type)}
		for n, value := range a.Values {
			if n == rows {
				r.More = true
				break
			}
			r.Values = append(r.Values, v.value(e, a, n, value))
		}
		if a.Type.Operational() {
			operational = append(operational, r)
		} else {
			user = append(user, r)
		}
	}
	slices.SortStableFunc(user, func(a, b *Row) int { return importance(a.Type) - importance(b.Type) })
	slices.SortStableFunc(operational, func(a, b *Row) int { return strings.Compare(a.Name, b.Name) })
	return user, operational
}

// firstShown are the attributes that people look for first, in their order.
var firstShown = []string{"cn", "displayName", "givenName", "sn", "uid", "ou", "o", "dc", "description", "title", "mail", "telephoneNumber", "mobile",
	"employeeNumber", "departmentNumber", "manager", "member", "uniqueMember", "memberUid"}

// importance returns the place of an attribute among others: those that people look for first, then others,
// and the classes, which say how the entry is made, last.
func importance(t *schema.AttributeType) int {
	if isCalled(t, "objectClass") {
		return 1000
	}
	for i, n := range firstShown {
		if isCalled(t, n) {
			return i
		}
	}
	return 500
}

func showEntry(v *visit) error {
	e, more, err := v.whole(v.r.PathValue("id"))
	if err != nil {
		return err
	}
	p := &entryPage{Entry: e}
	p.User, p.Operational = v.rowsOf(e, more)
	if p.Groups, err = v.groupsOf(e); err != nil {
		return err
	}
	if !strings.EqualFold(e.First("hasSubordinates"), "FALSE") {
		if p.Children, err = v.searchN(&op.Search{Base: e.DN, Scope: op.SingleLevel, Filter: namedLike(""), Attributes: summary}, 20, ""); err != nil {
			return err
		}
	}
	return v.render("entry", e.Label(), p)
}

// groupsOf returns the groups that name an entry, the first of them.
func (v *door) groupsOf(e *Entry) (*found, error) {
	f := filter.Or{filter.EqualTo("member", e.DN), filter.EqualTo("uniqueMember", e.DN)}
	if uid := e.First("uid"); uid != "" {
		f = append(f, filter.EqualTo("memberUid", uid))
	}
	return v.search(&op.Search{Scope: op.WholeSubtree, Filter: f, Attributes: summary}, "")
}

// downloadEntry sends an entry as LDIF.
func downloadEntry(v *visit) error {
	e, err := v.subject("*", "+")
	if err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	v.w.Header().Set("Content-Security-Policy", "default-src 'none'; sandbox")
	out := ldif.NewWriter(v.w)
	if out.WriteEntry(e.DN, e.Attributes) == nil {
		out.Flush() // an error means that the client is gone
	}
	return nil
}

// downloadValue sends a value as a picture or a file. The length of the value is in the address, so that
// another value that has come to its place is not taken for it.
func downloadValue(v *visit) error {
	e, err := v.subject(v.r.PathValue("at"))
	if err != nil {
		return err
	}
	a := e.find(v.r.PathValue("at"))
	n, err := strconv.Atoi(v.r.PathValue("n"))
	if a == nil || err != nil || n < 0 || n >= len(a.Values) || a.Type.Secret() || v.r.URL.Query().Get("size") != strconv.Itoa(len(a.Values[n])) {
		return errorf(http.StatusNotFound, "There is no such value any more: look at the entry again.")
	}
	kind := imageType(a.Values[n])
	if kind == "" || v.r.URL.Query().Has("file") {
		v.attach("application/octet-stream", a.Type.Name()+".bin")
		kind = "application/octet-stream"
	}
	v.w.Header().Set("Content-Security-Policy", "default-src 'none'; sandbox")
	v.w.Header().Set("Content-Type", kind)
	http.ServeContent(v.w, v.r, "", timeless, bytes.NewReader(a.Values[n]))
	return nil
}

// A valuesPage is the data of the page of an attribute with very many values.
type valuesPage struct {
	*Entry
	Attribute  string
	Names      bool // its values name entries
	Values     []*memberValue
	From, Next int
	Last       bool
	Find       string
	Found      []*memberValue
	Candidates []*Entry
	Error      string
}

// A memberValue is a value with its text, for the form that removes it.
type memberValue struct {
	*Value
	Raw string
}

// valuesOf returns a range of the values of an attribute.
func (v *visit) valuesOf() (*valuesPage, error) {
	description := v.r.PathValue("at")
	t, options := v.schema().Describe(description)
	if t == nil || t.Secret() {
		return nil, errorf(http.StatusNotFound, "There is no attribute %q to look at.", description)
	}
	from, _ := strconv.Atoi(v.r.URL.Query().Get("from")) // 0 if it is no number
	from = max(from, 0)
	ask := t.Name() + options + ";range=" + strconv.Itoa(from) + "-" + strconv.Itoa(from+rows-1)
	e, err := v.subject("entryUUID", "entryCSN", "objectClass", ask)
	if err != nil {
		return nil, err
	}
	p := &valuesPage{Entry: e, Attribute: t.Name() + options, Names: t.NamesEntries(), From: from, Last: true, Find: strings.TrimSpace(v.r.URL.Query().Get("find"))}
	for i := range e.Attributes {
		a := &e.Attributes[i]
		rest, bounds, ok := strings.Cut(a.Options, ";range=")
		if !ok {
			continue
		}
		p.Last = strings.HasSuffix(bounds, "*")
		a.Options = rest
		for n, value := range a.Values {
			p.Values = append(p.Values, &memberValue{v.value(e, a, from+n, value), string(value)})
		}
		p.Next = from + len(a.Values)
	}
	return p, nil
}

// lookUp finds values by what somebody has typed: values that the attribute has, and entries whose names
// could be added.
func (v *visit) lookUp(p *valuesPage) error {
	if p.Find == "" {
		return nil
	}
	t, _ := v.schema().Describe(p.Attribute)
	texts := []string{p.Find}
	if p.Names {
		found := &pick{Text: p.Find, Asked: true}
		if err := v.find(found); err != nil {
			return err
		}
		p.Candidates = found.Found
		if len(found.Found) > 0 || !strings.Contains(p.Find, "=") {
			texts = nil
		}
		for _, e := range found.Found {
			texts = append(texts, e.DN)
		}
	}
	for _, text := range texts {
		r := &op.Compare{Name: p.DN, Description: p.Attribute, Value: []byte(text)}
		if answer, err := v.client.Do(v.r.Context(), r, web.Answer{}, v.controls()...); err != nil || answer.Code != op.CompareTrue {
			continue // it has no such value, or it may not be told
		}
		p.Found = append(p.Found, &memberValue{v.value(p.Entry, &entry.Attribute{Type: t}, 0, []byte(text)), text})
		p.Candidates = slices.DeleteFunc(p.Candidates, func(e *Entry) bool { return e.DN == text })
	}
	return nil
}

func showValues(v *visit) error {
	p, err := v.valuesOf()
	if err == nil {
		err = v.lookUp(p)
	}
	if err != nil {
		return err
	}
	return v.render("values", "Values of "+p.Attribute+" of "+p.Label(), p)
}

// changeValues adds or removes one value.
func changeValues(v *visit) error {
	p, err := v.valuesOf()
	if err != nil {
		return err
	}
	kind, value, done := op.ModAdd, strings.TrimSpace(v.r.PostForm.Get("add")), "value"
	if gone := v.r.PostForm.Get("remove"); gone != "" {
		kind, value, done = op.ModDelete, gone, "valuegone"
	}
	if value == "" {
		return errorf(http.StatusUnprocessableEntity, "Type a value to add.")
	}
	changes := []op.Modification{op.Change(kind, p.Attribute, value)}
	if _, err := v.do(&op.Modify{Name: p.DN, Changes: changes}); err != nil {
		return err
	}
	if kind == op.ModAdd && p.Names {
		named := &pick{Text: value}
		if err := v.find(named); err != nil {
			return err
		}
		if named.Unknown {
			done = "valueunknown"
		}
	}
	return v.redirect(v.ValuesLink(p.Entry, p.Attribute) + "?done=" + done)
}

// ValuesLink returns the address of the page of an attribute.
func (p *place) ValuesLink(e *Entry, attribute string) string {
	return p.EntryLink(e) + "/values/" + url.PathEscape(attribute)
}

// EntryLink returns the path of an entry's page, to which others can be appended.
func (p *place) EntryLink(e *Entry) string { return "/entry/" + url.PathEscape(e.ID()) }
