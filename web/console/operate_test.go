package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// TestJobs starts and cancels a job, without script.
func TestJobs(t *testing.T) {
	v := newSite(t).logged(admin, "secret")
	v.task("start a job and cancel it", func() {
		v.get("/jobs")
		v.submit("Start gc", "arguments", "--all")
		v.shows("The job has begun.", "gc --all", "running", "collecting")
		v.submit("Cancel")
		v.shows("The job is being canceled.")
	})
	for v.get("/jobs"); !strings.Contains(v.page(), "No job is under way."); v.get("/jobs") {
	}
	v.shows("The last ones", "failed")
	v.submit("Start gc", "arguments", "--all --twice")
	v.shows("its arguments are gc [--all]")
	if v.status != http.StatusUnprocessableEntity || !strings.Contains(v.text, `value="--all --twice"`) {
		t.Errorf("%d, what was typed is gone", v.status)
	}
}

// TestPlan shows how a search is run, and what it costs.
func TestPlan(t *testing.T) {
	v := newSite(t).logged(admin, "secret")
	v.get("/search?q=" + url.QueryEscape("(uid=jdoe)"))
	v.follow("How does the server search?")
	v.shows("value in index_uid")
	v.follow("Run it and count")
	v.shows("entries found1", "entries examined")
}

// TestOperations checks that the page counts what the server does.
func TestOperations(t *testing.T) {
	v := newSite(t).logged(admin, "secret")
	v.get("/operations")
	v.shows("Searches", "Since the server began")
	for _, row := range nodes(v.doc(), "tr") {
		if text := strings.Join(strings.Fields(textOf(row)), " "); strings.HasPrefix(text, "Add") && text < "Add10" {
			t.Errorf("after many adds: %s", text)
		}
	}
}

// TestAccess explains who may see an entry, and by which rule.
func TestAccess(t *testing.T) {
	s := newSite(t)
	v := s.logged(admin, "secret")
	v.get("/entry/" + url.PathEscape("dn:"+jdoe))
	v.follow("Who may see this")
	v.shows("people", "the whole directory")
	v.submit("Explain", "as", "uid=asantos,"+people)
	v.shows("allowed by people@cn=config", "no rule allows it")
	v.get("/access?as=x&name=" + url.QueryEscape("uid=nobody,"+people))
	if v.status != http.StatusNotFound {
		t.Errorf("an entry that is none: %d", v.status)
	}
}

// TestAccounts unlocks an account.
func TestAccounts(t *testing.T) {
	s := newSite(t)
	s.modify(s.admin, jdoe, "pwdAccountLockedTime", "000001010000Z")
	v := s.logged(admin, "secret")
	v.get("/accounts")
	v.shows("There are none")
	v.follow("Disabled")
	v.shows("jdoe")
	v.submit("Enable")
	v.shows("The account is unlocked.")
	s.logged(jdoe, "opensesame")
}

// TestBranches makes a branch, looks at its changes and conflicts, and merges it.
func TestBranches(t *testing.T) {
	s := newSite(t)
	v := s.logged(admin, "secret")
	v.get("/branches")
	v.submit("Make", "branch", "reorg", "about", "new departments")
	v.shows("The branch has been made.", "new departments", "There are none yet.")
	s.modify(s.admin, jdoe+",cn=reorg,cn=branches", "title", "Head")
	v.get("/branches?branch=reorg")
	v.shows("title: Head")
	v.follow("As LDIF")
	if !strings.Contains(v.text, "changetype: modify\nreplace: title\ntitle: Head\n") {
		t.Errorf("the file is %s", v.text)
	}
	v.get("/branches?branch=reorg")
	v.follow("Look into it")
	v.shows("people")
	v.get("/branches?branch=reorg")
	v.submit("Merge")
	v.shows("The branch has been merged", "There are no branches.")
	if now := s.entry(jdoe); !strings.Contains(now, "title: Head") {
		t.Errorf("merged, the entry is\n%s", now)
	}
	v.submit("Make", "branch", "late")
	s.modify(s.admin, jdoe+",cn=late,cn=branches", "title", "Boss in it")
	s.modify(s.admin, jdoe, "title", "Boss")
	v.get("/branches?branch=late")
	v.shows("Conflicts", `title: "Boss in it" in the branch, "Boss" outside`)
	v.submit("Discard")
	v.shows("There are no branches.")
}

// TestOperatingRights checks that pages for operating show and do for others what LDAP does.
func TestOperatingRights(t *testing.T) {
	s := newSite(t)
	s.modify(s.admin, "uid=asantos,"+people, "pwdAccountLockedTime", "000001010000Z")
	direct := s.bound(jdoe, "opensesame")
	v := s.logged(jdoe, "opensesame")
	for page, r := range map[string]*op.Search{
		"/jobs":                       {Base: "cn=Jobs,cn=monitor", Scope: op.SingleLevel},
		"/operations":                 {Base: "cn=monitor", Scope: op.WholeSubtree},
		"/branches":                   {Base: "cn=branches", Scope: op.SingleLevel},
		"/changes":                    {Base: "cn=changelog", Scope: op.SingleLevel},
		"/accounts?list=disabled":     {Scope: op.WholeSubtree, Filter: filter.MustParse("(pwdAccountLockedTime=*)")},
		"/access?as=&name=" + jdoe:    nil,
		"/search?q=jdoe&format=run":   nil,
		"/entry/dn:" + jdoe + "/edit": nil,
	} {
		v.get(page)
		if r == nil {
			continue
		}
		if r.Filter == nil {
			r.Filter = filter.MustParse("(objectClass=*)")
		}
		found, err := ask(t.Context(), direct, r)
		if (err == nil) != (v.status < 400) || len(found) == 0 && strings.Contains(v.page(), "asantos") {
			t.Errorf("%s: %d on the page, %d entries and %v over LDAP: %s", page, v.status, len(found), err, v.page())
		}
	}
	v.get("/search?q=jdoe&format=plan")
	v.shows("explain") // the refusal
	for page, form := range map[string]string{"/jobs": "name=gc", "/branches": "do=make&branch=mine", "/accounts": "name=" + url.QueryEscape("uid=asantos,"+people), "/restore": "moment=1s&name=" + url.QueryEscape(jdoe)} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, v.url+page, strings.NewReader(form))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if v.send(r); v.status < 400 {
			t.Errorf("%s with %s: %d", page, form, v.status)
		}
	}
}

// TestRules edits the rules of the directory with what they change beside them.
func TestRules(t *testing.T) {
	s := newSite(t)
	const staff = "cn=config"
	rules := func() string {
		found := s.ldap(s.admin, &op.Search{Base: staff, Filter: filter.MustParse("(objectClass=*)"), Attributes: []string{"accessRule"}})
		return strings.Join(found, "")
	}
	before := rules()
	v := s.logged(admin, "secret")
	edit := func() string {
		v.get("/access")
		v.follow("Edit")
		return formValues(nodes(v.doc(), "form")[3]).Get("rules")
	}
	var text string
	v.task("add a rule", func() {
		text = edit()
		v.submit("Preview", "rules", text+"\r\nrooms: allow everyone\r\n  to read roomNumber\r\n")
		v.shows("These rules can be saved", "+ gains", "roomNumber")
		if rules() != before {
			t.Error("a preview has changed the rules")
		}
		v.submit("Save")
		v.shows("The rules have been changed", "rooms")
	})
	if now := rules(); !strings.Contains(now, "rooms: allow everyone to read roomNumber") {
		t.Errorf("the rules are %s", now)
	}
	v.task("mean the same", func() {
		text = edit()
		v.submit("Preview", "rules", text+"\nagain: allow everyone to read roomNumber")
		v.shows("they mean the same")
	})
	v.task("mistakes", func() {
		v.submit("Preview", "rules", text+"\nagain: allow everyone to raed roomNumber")
		v.shows("raed")
		if got := formValues(nodes(v.doc(), "form")[3]).Get("rules"); v.status < 400 || !strings.Contains(got, "raed") {
			t.Errorf("%d, typed: %s", v.status, got)
		}
	})
	v.task("somebody else changes them", func() {
		text = edit()
		s.ldap(s.admin, &op.Modify{Name: staff, Changes: []op.Modification{op.Change(op.ModAdd, "accessRule", "theirs: allow everyone to read roomNumber")}})
		v.submit("Save", "rules", text+"\nmine: allow everyone to read roomNumber")
		v.shows("Somebody has changed these rules")
		if v.status != http.StatusConflict || strings.Contains(rules(), "mine:") {
			t.Errorf("%d, saved: %s", v.status, rules())
		}
		v.submit("Save")
	})
	if now := rules(); !strings.Contains(now, "mine:") || !strings.Contains(now, "theirs:") {
		t.Errorf("the rules are %s", now)
	}
	v.task("rules of an entry", func() {
		v.get("/access")
		for _, f := range nodes(v.doc(), "form") {
			if paramOf(f, "edit") != "" {
				v.post(f, nodes(f, "button")[0], []string{"edit", people})
				break
			}
		}
		v.submit("Save", "rules", "boss: allow its manager to write title")
		v.shows("The rules have been changed", "boss")
	})
	v = s.logged(jdoe, "opensesame")
	v.get("/access?edit=" + url.QueryEscape(people))
	v.submit("Save", "rules", "boss: allow everyone to manage")
	if v.status != http.StatusForbidden && v.status != http.StatusUnprocessableEntity || !strings.Contains(v.text, "allow everyone to manage") {
		t.Errorf("jdoe: %d %s", v.status, v.page())
	}
}
