package console

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/web"
)

// An accessPage is the data of the page of access rules.
type accessPage struct {
	Name, As, Attributes, Error string
	Places                      []*ruledEntry
	Asked                       bool
	Rights                      []right // by attribute; the first is of the entry
	More                        bool    // there are more places
	Edit                        *rulesForm
}

// A rulesForm is the form that changes the rules of an entry.
type rulesForm struct {
	DN, Was, Text, Error string
	Checked              bool // the rules of the form can be saved
	Diff                 control.AccessDiff
	Unknown              string // why there is no difference; "": there is one
}

// A ruledEntry is an entry that has rules.
type ruledEntry struct {
	DN    string
	Rules []fact
}

// A right says what somebody may do with an attribute, and by which rules.
type right struct {
	Name string
	May  []string
	Why  []fact // the rules, by right
}

// showAccess shows the rules, and who may do what with an entry.
func showAccess(v *visit) error {
	q := v.r.URL.Query()
	p := &accessPage{Name: strings.TrimSpace(q.Get("name")), As: strings.TrimSpace(q.Get("as")), Attributes: strings.TrimSpace(q.Get("attributes")), Asked: q.Has("as")}
	if p.Asked {
		if err := v.rights(p); err != nil && !v.problem(err, &p.Error) {
			return err
		}
	}
	if at := strings.TrimSpace(q.Get("edit")); at != "" {
		rules, err := v.rulesAt(at)
		if err != nil {
			return err
		}
		p.Edit = &rulesForm{DN: at, Was: rules, Text: rules}
	}
	return v.access(p)
}

func (v *visit) access(p *accessPage) error {
	if err := v.rules(p); err != nil {
		return err
	}
	return v.render("access", "Access", p)
}

// rulesAt returns the rules of an entry, with an empty line between them.
func (v *door) rulesAt(name string) (string, error) {
	e, err := v.base(name, "accessRule")
	if err != nil {
		return "", err
	}
	return strings.Join(e.Strings("accessRule"), "\n\n"), nil
}

// without returns the rules of a list that another one lacks.
func without(rules, others []string) []string {
	return slices.DeleteFunc(slices.Clone(rules), func(r string) bool { return slices.Contains(others, r) })
}

// changeRules changes the rules of an entry, by what differs from those that the form was made from, or shows who would
// gain and lose what.
func changeRules(v *visit) error {
	f := v.r.PostForm
	x := &rulesForm{DN: strings.TrimSpace(f.Get("edit")), Was: f.Get("was"), Text: strings.ReplaceAll(f.Get("rules"), "\r\n", "\n")}
	now, err := v.rulesAt(x.DN)
	if err != nil {
		return err
	}
	was, is := acl.Lines(x.Was), acl.Lines(x.Text)
	gone, added := without(was, is), without(is, was)
	change := &op.Modify{Name: x.DN}
	for _, c := range []op.Modification{op.Change(op.ModDelete, "accessRule", gone...), op.Change(op.ModAdd, "accessRule", added...)} {
		if len(c.Values) > 0 {
			change.Changes = append(change.Changes, c)
		}
	}
	switch {
	case len(change.Changes) == 0:
		x.Error = "These are the rules as they were: nothing is different."
	case !slices.Equal(acl.Lines(now), was):
		x.Was, x.Text = now, strings.Join(append(without(acl.Lines(now), gone), without(added, acl.Lines(now))...), "\n\n")
		x.Error = "Somebody has changed these rules since you opened the form, so nothing was saved. Below are the rules as they are now, with your changes. Look at them, and save again."
		v.answer(http.StatusConflict)
	case f.Has("preview"):
		err = v.preview(x, change)
	default:
		if err = v.confirm(f.Get("password")); err == nil {
			if _, err = v.do(change); err == nil {
				return v.redirect("/access?done=rules")
			}
		}
	}
	if err != nil && !v.problem(err, &x.Error) {
		return err
	}
	return v.access(&accessPage{Edit: x})
}

// preview finds out whether rules can be saved, and who would gain and lose what.
func (v *visit) preview(x *rulesForm, change *op.Modify) error {
	noOp := op.Control{OID: control.OIDNoOp, Critical: true}
	done, err := v.do(change, noOp, op.Control{OID: control.OIDAccessDiff, Critical: true})
	if web.IsResult(err, op.InsufficientAccessRights) { // perhaps they may be saved nevertheless
		x.Unknown = explain(&done.Result)
		err = v.try(change)
	} else if web.IsResult(err, op.NoOperation) {
		err = nil
		if c := done.Control(control.OIDAccessDiff); c != nil {
			x.Diff, err = control.ParseAccessDiff(c.Value)
		}
	}
	x.Checked = err == nil
	return err
}

// rules adds the rules that the requester may be shown.
func (v *door) rules(p *accessPage) error {
	f, err := v.search(&op.Search{Scope: op.WholeSubtree, Filter: &filter.Present{Attribute: "accessRule"}, Attributes: []string{"accessRule"}}, "")
	if err != nil {
		return err
	}
	p.More = f.Cookie != ""
	if e, err := v.base("cn=config", "accessRule"); err == nil { // others are not shown it
		f.Entries = slices.Insert(f.Entries, 0, e)
	}
	for _, e := range f.Entries {
		x := &ruledEntry{DN: e.DN}
		for _, rule := range e.Strings("accessRule") {
			name, text, _ := strings.Cut(rule, ":")
			x.Rules = append(x.Rules, fact{name, strings.TrimSpace(text)})
		}
		if len(x.Rules) > 0 {
			p.Places = append(p.Places, x)
		}
	}
	return nil
}

// rights adds what somebody may do, which the control of effective rights tells.
func (v *visit) rights(p *accessPage) error {
	as := p.As
	switch {
	case as == "" || as == "anonymous":
		as = "dn:"
	case strings.Contains(as, "="):
		as = "dn:" + as
	case !strings.HasPrefix(as, "dn:"):
		as = "u:" + as
	}
	ask := []string{"aclRights", "aclRightsInfo"}
	if p.Attributes == "" {
		ask = append(ask, "*")
	}
	ask = append(ask, (&query{Columns: p.Attributes}).List()...)
	e, err := v.only(&op.Search{Base: p.Name, Scope: op.BaseObject, Filter: namedLike(""), Attributes: ask}, op.Control{OID: control.OIDEffectiveRights, Critical: true, Value: []byte(as)})
	if err != nil {
		return err
	}
	p.Rights = []right{{Name: "the entry itself"}}
	at := func(name string) *right {
		for i := range p.Rights {
			if p.Rights[i].Name == name {
				return &p.Rights[i]
			}
		}
		p.Rights = append(p.Rights, right{Name: name})
		return &p.Rights[len(p.Rights)-1]
	}
	for i := range e.Attributes {
		a := &e.Attributes[i]
		if len(a.Values) == 0 || !isCalled(a.Type, "aclRights") && !isCalled(a.Type, "aclRightsInfo") {
			continue
		}
		options, value := strings.Split(strings.TrimPrefix(a.Options, ";"), ";"), string(a.Values[0])
		switch {
		case isCalled(a.Type, "aclRights"):
			r := &p.Rights[0]
			if len(options) > 1 {
				r = at(strings.Join(options[1:], ";"))
			}
			for _, word := range strings.Split(value, ",") {
				if name, n, _ := strings.Cut(word, ":"); n != "0" {
					r.May = append(r.May, strings.ReplaceAll(name, "_", " ")+map[string]string{"?": " (some values)"}[n])
				}
			}
		case len(options) == 3:
			p.Rights[0].Why = append(p.Rights[0].Why, fact{options[2], value})
		case len(options) > 3:
			r := at(strings.Join(options[3:], ";"))
			r.Why = append(r.Why, fact{options[2], value})
		}
	}
	for i := range p.Rights {
		p.Rights[i].Why = joined(p.Rights[i].Why)
	}
	return nil
}

// joined puts the names of facts with the same text together.
func joined(all []fact) (few []fact) {
	for _, f := range all {
		if i := slices.IndexFunc(few, func(x fact) bool { return x.Text == f.Text }); i >= 0 {
			few[i].Name += ", " + f.Name
		} else {
			few = append(few, f)
		}
	}
	return few
}

// An accountList is a kind of accounts that need to be seen to.
type accountList struct {
	Key, Name, About string
	Filter           string
}

// accountLists are the lists of the page of accounts, by the filters that docs/accounts.md names.
func accountLists() []accountList {
	day := func(n int) string { return time.Now().AddDate(0, 0, n).UTC().Format("20060102150405Z") }
	return []accountList{
		{"locked", "Locked", "that wrong passwords have locked, for a time or until they are unlocked", "(&(pwdAccountLockedTime=*)(!(pwdAccountLockedTime=000001010000Z)))"},
		{"disabled", "Disabled", "that are disabled until they are enabled again", "(pwdAccountLockedTime=000001010000Z)"},
		{"reset", "To change", "whose owner must change the password first", "(pwdReset=TRUE)"},
		{"ending", "Ending", "that end within 30 days, or have ended", "(pwdEndTime<=" + day(30) + ")"},
		{"old", "Old passwords", "whose password is older than 90 days", "(pwdChangedTime<=" + day(-90) + ")"},
		{"unused", "Unused", "that nobody has used for 90 days", "(pwdLastSuccess<=" + day(-90) + ")"},
	}
}

// An accountsPage is the data of the page of accounts.
type accountsPage struct {
	*found
	Lists []accountList
	One   accountList
}

func showAccounts(v *visit) error {
	p := &accountsPage{Lists: accountLists()}
	p.One = p.Lists[0]
	for _, l := range p.Lists {
		if l.Key == v.r.URL.Query().Get("list") {
			p.One = l
		}
	}
	var err error
	p.found, err = v.search(&op.Search{Scope: op.WholeSubtree, Filter: filter.MustParse(p.One.Filter), Attributes: append([]string{"pwdAccountLockedTime", "pwdReset", "pwdEndTime", "pwdChangedTime", "pwdLastSuccess"}, summary...)}, v.r.URL.Query().Get("cookie"))
	if err != nil {
		return err
	}
	return v.render("accounts", "Accounts", p)
}

// unlock removes what locks or disables an account.
func unlock(v *visit) error {
	name := v.r.PostForm.Get("name")
	gone := op.Change(op.ModDelete, "pwdAccountLockedTime")
	if _, err := v.do(&op.Modify{Name: name, Changes: []op.Modification{gone}}); err != nil {
		return err
	}
	return v.redirect(link("/accounts", "list", v.r.PostForm.Get("list"), "done", "unlocked"))
}

// A branchesPage is the data of the page of branches.
type branchesPage struct {
	Branches  []*Entry
	One       *Entry
	Changes   []*change
	Conflicts []*Entry
	Cookie    string
	Name      string // typed for a new one
	About     string
	Error     string
	Bases     []string // below which the branch can be seen
}

// branches returns the branches, and one of them with its changes and conflicts.
func (v *visit) branches(name string) (*branchesPage, error) {
	p := &branchesPage{}
	f, err := v.search(&op.Search{Base: "cn=branches", Scope: op.SingleLevel, Filter: filter.EqualTo("objectClass", "branch"), Attributes: []string{"*", "+"}}, "")
	if err != nil {
		return nil, err
	}
	p.Branches = f.Entries
	n := slices.IndexFunc(p.Branches, func(e *Entry) bool { return e.First("cn") == name })
	switch {
	case name == "":
		return p, nil
	case n < 0:
		return nil, errorf(http.StatusNotFound, "There is no branch %q: it has been merged or discarded.", name)
	}
	p.One = p.Branches[n]
	items := func(below, cookie string) (*found, error) {
		return v.search(&op.Search{Base: below + "," + p.One.DN, Scope: op.SingleLevel, Filter: namedLike(""), Attributes: []string{"*"}}, cookie)
	}
	if f, err = items("cn=changes", v.r.URL.Query().Get("cookie")); err != nil {
		return nil, err
	}
	p.Cookie = f.Cookie
	for _, e := range f.Entries {
		p.Changes = append(p.Changes, changeOf(e))
	}
	if f, err = items("cn=conflicts", ""); err != nil {
		return nil, err
	}
	p.Conflicts = f.Entries
	names, _, err := v.roots()
	for _, n := range names {
		p.Bases = append(p.Bases, n+","+p.One.DN)
	}
	return p, err
}

func showBranches(v *visit) error {
	if v.r.URL.Query().Get("format") == "ldif" {
		return downloadBranch(v)
	}
	p, err := v.branches(v.r.URL.Query().Get("branch"))
	if err != nil {
		return err
	}
	return v.render("branches", "Branches", p)
}

// downloadBranch sends the changes of a branch as LDIF.
func downloadBranch(v *visit) error {
	base := "cn=changes," + branchDN(v.r.URL.Query().Get("branch"))
	for cookie, n := "", 0; ; n++ {
		f, err := v.search(&op.Search{Base: base, Scope: op.SingleLevel, Filter: namedLike(""), Attributes: []string{"*"}}, cookie)
		switch {
		case err != nil && n == 0:
			return err
		case err != nil || f.Refused != "":
			panic(http.ErrAbortHandler) // so that the file does not look whole
		case n == 0:
			v.attach("text/plain; charset=utf-8", "branch.ldif")
			io.WriteString(v.w, "version: 1\n") // an error means that the client is gone
		}
		for _, e := range f.Entries {
			io.WriteString(v.w, "\n"+recordOf(e))
		}
		if cookie = f.Cookie; cookie == "" {
			return nil
		}
	}
}

func branchDN(name string) string {
	return dn.RDN{{Type: "cn", Value: []byte(name)}}.String() + ",cn=branches"
}

// changeBranch makes, merges, parks or discards a branch.
func changeBranch(v *visit) error {
	f := v.r.PostForm
	name, what := strings.TrimSpace(f.Get("branch")), f.Get("do")
	at := branchDN(name)
	var err error
	if what != "make" {
		err = v.confirm(f.Get("password"))
	}
	if err == nil {
		switch state := map[string]string{"merge": "merged", "park": "parked"}[what]; {
		case what == "make":
			attributes := []op.PartialAttribute{op.Attribute("objectClass", "branch")}
			if about := strings.TrimSpace(f.Get("about")); about != "" {
				attributes = append(attributes, op.Attribute("description", about))
			}
			_, err = v.do(&op.Add{Name: at, Attributes: attributes})
		case state != "":
			_, err = v.do(&op.Modify{Name: at, Changes: []op.Modification{op.Change(op.ModReplace, "branchState", state)}})
		case what == "discard":
			_, err = v.do(&op.Delete{Name: at})
		default:
			return errorf(http.StatusBadRequest, "A branch is made, merged, parked or discarded.")
		}
	}
	if err == nil {
		return v.redirect(link("/branches", "done", "branch-"+what, "branch", map[string]string{"make": name, "park": name}[what]))
	}
	shown := name
	if what == "make" {
		shown = ""
	}
	p, err2 := v.branches(shown)
	if err2 != nil {
		return err2
	}
	p.Name, p.About = name, f.Get("about")
	if !v.problem(err, &p.Error) {
		return err
	}
	return v.render("branches", "Branches", p)
}
