package console

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/web"
)

// A change is a change of an entry as pages show it: an entry of cn=changelog, or a record of LDIF.
type change struct {
	*Entry            // of cn=changelog
	Name, Kind string // of the changed entry, of the change
	What       []string
	LDIF       string
}

const (
	parts    = 4   // of a change that its line names
	partSize = 60  // octets of a value that the line shows
	ldifSize = 800 // octets of the LDIF of a change that a list shows
)

// changeOf returns the change of an entry of cn=changelog.
func changeOf(e *Entry) *change {
	c := &change{Entry: e, Name: e.First("targetDN"), Kind: e.First("changeType"), LDIF: e.First("changes")}
	if r, err := ldif.NewReader(strings.NewReader(recordOf(e)), ldif.Options{}).Read(); err == nil {
		c.Kind, c.What = wordsOf(r.Change)
	}
	for line := range strings.Lines(c.LDIF) {
		if name, ok := strings.CutSuffix(strings.TrimSpace(line), " was changed; its values are not kept"); ok && c.Kind == "modify" {
			c.What = append(c.What, strings.TrimPrefix(name, "# ")+" changed")
		}
	}
	c.shorten()
	return c
}

// recordOf returns an entry of cn=changelog as a record of LDIF.
func recordOf(e *Entry) string {
	text := "dn:: " + base64.StdEncoding.EncodeToString([]byte(e.First("targetDN"))) + "\nchangetype: " + e.First("changeType") + "\n" + e.First("changes")
	for _, f := range [][2]string{{"newrdn", "newRDN"}, {"deleteoldrdn", "deleteOldRDN"}, {"newsuperior", "newSuperior"}} {
		if value := e.First(f[1]); value == "TRUE" || value == "FALSE" {
			text += f[0] + ": " + map[string]string{"TRUE": "1", "FALSE": "0"}[value] + "\n"
		} else if value != "" {
			text += f[0] + ":: " + base64.StdEncoding.EncodeToString([]byte(value)) + "\n"
		}
	}
	return text
}

// shorten leaves out of a change what is too much for a line of a page.
func (c *change) shorten() {
	if n := len(c.What) - parts; n > 0 {
		c.What = append(c.What[:parts:parts], fmt.Sprintf("and %d more", n))
	}
	if len(c.LDIF) > ldifSize {
		c.LDIF = strings.ToValidUTF8(c.LDIF[:ldifSize], "") + "\n# and more"
	}
}

// wordsOf returns the kind of a change, and what it does, a part each.
func wordsOf(r op.Request) (kind string, all []string) {
	switch r := r.(type) {
	case *op.Add:
		kind = "add"
		for _, a := range r.Attributes {
			all = append(all, a.Description)
		}
	case *op.Delete:
		kind = "delete"
	case *op.ModifyDN:
		kind, all = "rename", append(all, "now "+r.NewRDN)
		if r.NewSuperior != nil {
			all = append(all, "below "+*r.NewSuperior)
		}
	case *op.Modify:
		kind = "modify"
		for _, m := range r.Changes {
			sign := map[op.ModKind]string{op.ModAdd: "+ ", op.ModDelete: "− ", op.ModReplace: ""}[m.Kind]
			text := sign + m.Description
			switch {
			case len(m.Values) == 0:
				text = "− " + m.Description
			case !isText(m.Values[0]):
				text += fmt.Sprintf(": %d bytes", len(m.Values[0]))
			case len(m.Values[0]) > partSize:
				text += ": " + strings.ToValidUTF8(string(m.Values[0][:partSize]), "") + "…"
			default:
				text += ": " + string(m.Values[0])
			}
			if n := len(m.Values) - 1; n > 0 {
				text += fmt.Sprintf(" and %d more", n)
			}
			all = append(all, text)
		}
	}
	return kind, all
}

// ID returns the entryUUID of the changed entry.
func (c *change) ID() string { return c.First("targetEntryUUID") }

// Who returns the name of who made the change.
func (c *change) Who() string { return c.First("changeInitiatorsName") }

// Revision returns the revision of the commit.
func (c *change) Revision() string { return c.First("changeRevision") }

// UndoLink returns the address of the page that undoes the commit.
func (c *change) UndoLink() string { return link("/undo", "number", c.First("changeNumber")) }

// From returns the host that the change came from.
func (c *change) From() string {
	from := c.First("changeAddress")
	if i := strings.LastIndexByte(from, ':'); i > 0 {
		from = from[:i]
	}
	return from
}

// Time returns when the change was made, and how long ago that is.
func (c *change) Time() (x Value) {
	if t, err := schema.Time([]byte(c.First("changeTime"))); err == nil {
		x.Text, x.Note = t.UTC().Format(clock), ago(t)
	}
	return x
}

// Before returns the moment before the commit.
func (c *change) Before() string {
	r, err := revision.Parse(c.Revision())
	if err != nil {
		return ""
	}
	return (r - 1).String()
}

// ReadsChanges reports whether the requester may read the changelog.
func (v *door) ReadsChanges() bool {
	now := *v
	now.At = ""
	top, err := now.base("", "firstChangeNumber")
	return v.Who != "" && err == nil && top.First("firstChangeNumber") != ""
}

// ReadsPast reports whether the requester may read the past of any entry.
func (v *door) ReadsPast() bool {
	then := *v
	then.At = "now"
	_, err := then.base("cn=config", "1.1")
	return !web.IsResult(err, op.InsufficientAccessRights)
}

// RestoreLink returns the address of the page that restores an entry to the moment before a change.
func (p *place) RestoreLink(c *change) string {
	return link("/restore", "name", c.Name, "moment", c.Before(), "subtree", map[bool]string{true: "1"}[c.Kind == "delete"])
}

// Parent returns the name of the parent of an entry.
func (p *place) Parent(name string) string { return parentOf(name) }

// momentText returns a moment as people write it.
func momentText(text string) string {
	if r, err := revision.Parse(text); err == nil {
		return r.Time().Format(clock + ".000")
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t.UTC().Format(clock)
	}
	return cmp.Or(text, "now")
}

// changes returns changes, the newest first.
func (v *door) changes(f filter.Filter, n int, cookie string) (*found, []*change, error) {
	now := *v
	now.At = "" // the changelog is about all time
	key := control.SortRequest{Keys: []control.SortKey{{Attribute: "changeNumber", Reverse: true}}}
	found, err := now.searchN(&op.Search{Base: "cn=changelog", Scope: op.SingleLevel, Filter: f, Attributes: []string{"*"}}, n, cookie,
		op.Control{OID: control.OIDSortRequest, Critical: true, Value: key.Encode()})
	if err != nil {
		return nil, nil, err
	}
	var all []*change
	for _, e := range found.Entries {
		all = append(all, changeOf(e))
	}
	return found, all, nil
}

// A historyPage is the data of the page of an entry's changes.
type historyPage struct {
	*found
	ID, DN  string
	Entry   *Entry // nil: it is deleted, or may not be seen
	Changes []*change
}

// showHistory shows the changes of an entry, which may be deleted.
func showHistory(v *visit) error {
	v.At = ""
	p := &historyPage{ID: v.r.PathValue("id")}
	e, missing := v.subject(summary...)
	switch {
	case missing == nil:
		p.Entry, p.DN, p.ID = e, e.DN, e.First("entryUUID")
	case !web.IsResult(missing, op.NoSuchObject) || strings.HasPrefix(p.ID, "dn:"):
		return missing
	}
	var err error
	if p.found, p.Changes, err = v.changes(filter.EqualTo("targetEntryUUID", p.ID), rows, v.r.URL.Query().Get("cookie")); err != nil {
		return err
	}
	if p.Entry == nil && len(p.Changes) == 0 {
		return missing
	}
	if p.Entry == nil {
		p.DN = p.Changes[0].Name
	}
	return v.render("history", "History of "+labelOf(p.DN), p)
}

// A comparison is the data of the page of an entry at two moments.
type comparison struct {
	ID, DN string
	At     [2]string
	Found  [2]bool
	Still  bool // nothing was changed between
	Rows   []*comparedRow
	Same   []string // attributes with the same values
}

// A comparedRow is an attribute at two moments.
type comparedRow struct {
	Name   string
	Values [2][]*comparedValue
}

// A comparedValue is a value at one of two moments.
type comparedValue struct {
	*Value
	Only bool // the other moment has no such value
}

// compareMoments shows the values of an entry at two moments side by side.
func compareMoments(v *visit) error {
	q := v.r.URL.Query()
	p := &comparison{ID: v.r.PathValue("id"), At: [2]string{q.Get("from"), q.Get("to")}}
	var texts [2]map[string]string
	var csns [2]string
	for i, at := range p.At {
		then := *v
		then.At = at
		texts[i] = map[string]string{}
		e, more, err := then.whole(p.ID)
		if web.IsResult(err, op.NoSuchObject) {
			continue
		} else if err != nil {
			return err
		}
		p.Found[i], p.DN, csns[i] = true, e.DN, e.First("entryCSN")
		user, _ := then.rowsOf(e, more)
		for _, r := range user {
			n := slices.IndexFunc(p.Rows, func(c *comparedRow) bool { return c.Name == r.Name })
			if n < 0 {
				n = len(p.Rows)
				p.Rows = append(p.Rows, &comparedRow{Name: r.Name})
			}
			for _, x := range r.Values {
				p.Rows[n].Values[i] = append(p.Rows[n].Values[i], &comparedValue{Value: x})
			}
			texts[i][r.Name] = string(bytes.Join(slices.SortedFunc(slices.Values(e.find(r.Name).Values), bytes.Compare), []byte{0}))
		}
	}
	if !p.Found[0] && !p.Found[1] {
		return errorf(http.StatusNotFound, "There was no such entry at either moment, or you may not see it.")
	}
	p.Rows = slices.DeleteFunc(p.Rows, func(r *comparedRow) bool {
		same := texts[0][r.Name] == texts[1][r.Name]
		if same {
			p.Same = append(p.Same, r.Name)
		}
		for i, values := range r.Values {
			for _, x := range values {
				x.Only = !slices.ContainsFunc(r.Values[1-i], func(y *comparedValue) bool { return x.Text == y.Text && x.Note == y.Note })
			}
		}
		return same
	})
	v.At, p.Still = "", csns[0] == csns[1] && csns[0] != ""
	return v.render("compare", "Two moments of "+labelOf(p.DN), p)
}

// A changesPage is the data of the page of all changes.
type changesPage struct {
	*found
	Who, Since, Until string
	Changes           []*change
	Below             string // the next part has smaller numbers; "": there is none
}

// showChanges shows the changes of all entries, the newest first.
func showChanges(v *visit) error {
	q := v.r.URL.Query()
	p := &changesPage{Who: strings.TrimSpace(q.Get("who")), Since: q.Get("since"), Until: q.Get("until")}
	since, err := typedTime(p.Since)
	if err != nil {
		return err
	}
	until, err := typedTime(p.Until)
	if err != nil {
		return err
	}
	wanted := filter.And{&filter.Present{Attribute: "objectClass"}}
	if !until.IsZero() {
		wanted = append(wanted, &filter.LessOrEqual{Attribute: "changeTime", Value: []byte(until.Format("20060102150405Z"))})
	}
	if p.Who != "" {
		who, err := v.named(p.Who)
		if err != nil {
			return err
		}
		if any, ok := who.(filter.Or); ok && len(any) == 0 {
			p.found = &found{}
			return v.render("changes", "Changes", p)
		}
		wanted = append(wanted, who)
	}
	if err := v.changesLike(p, wanted, q.Get("below"), q.Get("cookie")); err != nil {
		return err
	}
	// The server would read the whole journal for older ones.
	if n := slices.IndexFunc(p.Changes, func(c *change) bool {
		t, err := schema.Time([]byte(c.First("changeTime")))
		return err == nil && t.Before(since)
	}); n >= 0 {
		p.Changes, p.Cookie, p.Below = p.Changes[:n], "", ""
	}
	return v.render("changes", "Changes", p)
}

// window is how many changes a search looks at that wants particular ones.
const window = 200

// changesLike adds to a page the changes that a filter wants. It looks for them a window after the other, for a
// second.
func (v *door) changesLike(p *changesPage, wanted filter.And, typed, cookie string) error {
	if len(wanted) == 1 {
		var err error
		p.found, p.Changes, err = v.changes(wanted, rows, cookie)
		return err
	}
	below, err := strconv.Atoi(typed)
	if err != nil {
		top, err := v.base("", "lastChangeNumber")
		if err != nil {
			return err
		}
		last, _ := strconv.Atoi(top.First("lastChangeNumber")) // 0 for whom it is not shown
		below = last + 1
	}
	for begin := time.Now(); ; cookie = "" {
		lower := max(below-window, 1)
		f := append(slices.Clone(wanted), &filter.GreaterOrEqual{Attribute: "changeNumber", Value: fmt.Append(nil, lower)}, &filter.LessOrEqual{Attribute: "changeNumber", Value: fmt.Append(nil, max(below-1, 1))})
		if p.found, p.Changes, err = v.changes(f, rows, cookie); err != nil {
			return err
		}
		switch {
		case p.Cookie != "" || p.Refused != "":
			p.Below = strconv.Itoa(below)
			return nil
		case lower == 1:
			return nil
		}
		p.Below, below = strconv.Itoa(lower), lower
		if len(p.Changes) > 0 || time.Since(begin) > time.Second {
			return nil
		}
	}
}

// typedTime returns the time that somebody has chosen, in UTC; none is the zero time.
func typedTime(text string) (t time.Time, err error) {
	for _, layout := range []string{"", "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02", time.RFC3339} {
		if t, err = time.Parse(layout, text); err == nil && text == "" {
			return time.Time{}, nil
		} else if err == nil {
			return t.UTC(), nil
		}
	}
	return t, errorf(http.StatusUnprocessableEntity, "%.40q is no time: type one such as 2026-11-27T09:00, in UTC.", text)
}

// named returns the filter of changes by somebody: a name, or a part of one.
func (v *door) named(who string) (filter.Filter, error) {
	if strings.Contains(who, "=") {
		return filter.EqualTo("changeInitiatorsName", who), nil
	}
	f, err := v.searchN(&op.Search{Scope: op.WholeSubtree, Filter: namedLike(who), Attributes: []string{"1.1"}}, 20, "")
	if err != nil {
		return nil, err
	}
	any := filter.Or{}
	for _, e := range f.Entries {
		any = append(any, filter.EqualTo("changeInitiatorsName", e.DN))
	}
	if admin := v.dir.Admin(); v.IsAdmin() && strings.Contains(strings.ToLower(labelOf(admin)), strings.ToLower(who)) {
		any = append(any, filter.EqualTo("changeInitiatorsName", admin))
	}
	return any, nil
}

// mostLDIF is how many octets of LDIF a page shows.
const mostLDIF = 60_000

// extended runs an extended operation whose intermediate responses are LDIF, and returns the first octets of
// this, and the value of the response.
func (v *door) extended(oid string, value []byte) (text string, answer []byte, err error) {
	var b []byte
	r, err := v.client.Do(v.r.Context(), &op.Extended{OID: oid, Value: value}, web.Answer{Intermediate: func(_ string, piece []byte) error {
		b = append(b, piece[:min(len(piece), mostLDIF-len(b))]...)
		return nil
	}})
	if err != nil {
		return "", nil, err
	}
	if len(b) == mostLDIF {
		b = append(bytes.TrimSpace(b[:bytes.LastIndexByte(b, '\n')]), "\n# and more"...)
	}
	return string(b), r.Value, nil
}

// A diffPage is the data of the page of a difference.
type diffPage struct {
	From, To, Base, Error string
	Count                 int
	Changes               []*change // the first ones
	Asked                 bool
}

// showDiff shows what differs between two moments.
func showDiff(v *visit) error {
	q := v.r.URL.Query()
	p := &diffPage{From: strings.TrimSpace(q.Get("from")), To: strings.TrimSpace(q.Get("to")), Base: strings.TrimSpace(q.Get("base")), Asked: q.Has("from")}
	if !p.Asked {
		p.From, p.To = "1d", "now"
		return v.render("diff", "Compare two moments", p)
	}
	request := control.Diff{From: p.From, To: p.To, Base: p.Base}.Encode()
	if q.Get("format") == "ldif" {
		begun := false
		_, err := v.client.Do(v.r.Context(), &op.Extended{OID: control.OIDDiff, Value: request}, web.Answer{Intermediate: func(_ string, piece []byte) error {
			begun = true
			v.attach("text/plain; charset=utf-8", "difference.ldif")
			_, err := v.w.Write(piece)
			return err
		}})
		if err != nil && begun {
			panic(http.ErrAbortHandler) // so that the file does not look whole
		}
		return err
	}
	text, answer, err := v.extended(control.OIDDiff, request)
	if err != nil && !v.problem(err, &p.Error) {
		return err
	}
	if d, err := control.ParseDifferences(answer); err == nil {
		p.Count = d.Changes
	}
	p.Changes = recordsOf(text)
	return v.render("diff", "Compare two moments", p)
}

// recordsOf returns the changes of an LDIF file, the first ones.
func recordsOf(text string) (all []*change) {
	for r, err := range ldif.NewReader(strings.NewReader(text), ldif.Options{}).Records() {
		if err != nil || len(all) == rows {
			return all // the end of what was kept
		}
		c := &change{Entry: &Entry{}, Name: r.DN}
		c.Kind, c.What = wordsOf(r.Change)
		c.LDIF = ldifOf(r.DN, r.Change)
		c.shorten()
		all = append(all, c)
	}
	return all
}

// A restorePage is the data of the page that shows what a restore does, before it is made.
type restorePage struct {
	Name, Moment string
	Subtree      bool
	control.Restored
	LDIF, Error string
}

// restoration runs a restore, or tries it.
func (v *door) restoration(r control.Restore) (p *restorePage, err error) {
	p = &restorePage{Name: r.Name, Moment: r.Moment, Subtree: r.Subtree}
	text, answer, err := v.extended(control.OIDRestore, r.Encode())
	if err == nil {
		p.LDIF = strings.TrimPrefix(text, "version: 1\n")
		p.Restored, err = control.ParseRestored(answer)
	}
	return p, err
}

// restore shows what a restore would do, and makes it if it is posted.
func restore(v *visit) error {
	r := control.Restore{Name: strings.TrimSpace(v.r.Form.Get("name")), Moment: strings.TrimSpace(v.r.Form.Get("moment")), Subtree: v.r.Form.Has("subtree")}
	var refused error
	if v.r.Method == http.MethodPost {
		if refused = v.confirm(v.r.PostForm.Get("password")); refused == nil {
			var done *restorePage
			if done, refused = v.restoration(r); refused == nil {
				return v.redirect(link("/entry/"+pathOf("dn:"+done.Name), "done", "restored"))
			}
		}
	}
	if refused == nil && r.Name == "" && r.Moment == "" {
		return v.render("restore", "Restore", &restorePage{})
	}
	r.DryRun = true
	p, err := v.restoration(r)
	if err = cmp.Or(refused, err); err != nil && !v.problem(err, &p.Error) {
		return err
	}
	return v.render("restore", "Restore "+labelOf(p.Name), p)
}

// An undoPage is the data of the page that asks before a commit is undone.
type undoPage struct {
	*restorePage
	Change *change   // one of the commit
	Steps  []*change // what the undo does, the first ones
}

// undo shows how the commit of a change is undone, and does so if it is posted and nobody changed its entries since.
func undo(v *visit) error {
	n, err := strconv.Atoi(v.r.Form.Get("number"))
	if err != nil {
		return errorf(http.StatusNotFound, "The address of this page is damaged: begin with the change that is to be undone.")
	}
	e, err := v.base(fmt.Sprintf("changeNumber=%d,cn=changelog", n), "*")
	if web.IsResult(err, op.NoSuchObject) {
		return errorf(http.StatusNotFound, "There is no such change, or it is not kept any more.")
	} else if err != nil {
		return err
	}
	p := &undoPage{Change: changeOf(e)}
	r := control.Restore{Moment: p.Change.Revision(), Undo: true}
	var refused error
	if v.r.Method == http.MethodPost {
		if refused = v.confirm(v.r.PostForm.Get("password")); refused == nil {
			if _, refused = v.restoration(r); refused == nil {
				return v.redirect("/changes?done=undone")
			}
		}
	}
	r.DryRun = true
	p.restorePage, err = v.restoration(r)
	if err = cmp.Or(refused, err); err != nil && !v.problem(err, &p.Error) {
		return err
	}
	p.Steps = recordsOf(p.LDIF)
	return v.render("undo", "Undo a change", p)
}
