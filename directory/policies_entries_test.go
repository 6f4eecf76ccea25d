package directory_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/ber"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/changestream"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

const policyDN = "cn=policy,dc=example,dc=com"

// withPolicy returns a directory with Ann and Bob as in newUsers, and with a policy for all
// users. It also returns the partition, and an administrator's session.
func withPolicy(t testing.TB, says ...line) (*directory.Directory, *partition.Partition, *directory.Session) {
	t.Helper()
	p := newPartition(t)
	d := newDirectory(t, p, directory.Options{Mechanisms: auth.Mechanisms})
	t.Cleanup(d.Close)
	s := d.NewSession(nil)
	serve(t, s, &op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
	serve(t, s, &op.Add{Name: "dc=example,dc=com", Attributes: attributes([]line{{"objectClass", "domain"}, {"dc", "example"}})})
	for _, uid := range []string{"ann", "bob"} {
		serve(t, s, &op.Add{Name: "uid=" + uid + ",dc=example,dc=com", Attributes: person(uid, line{"userPassword", uid})})
	}
	serve(t, s, &op.Add{Name: policyDN, Attributes: attributes(append([]line{{"objectClass", "subentry"}, {"objectClass", "pwdPolicy"},
		{"cn", "policy"}, {"subtreeSpecification", "{}"}, {"pwdAttribute", "userPassword"}}, says...))})
	return d, p, s
}

// changePolicy replaces attributes of the policy.
func changePolicy(t testing.TB, s *directory.Session, says ...string) {
	t.Helper()
	var ls []line
	for i := 0; i < len(says); i += 2 {
		ls = append(ls, line{"replace " + says[i], says[i+1]})
	}
	serve(t, s, &op.Modify{Name: policyDN, Changes: changes(ls)})
}

// setChanged sets the time at which Ann's password was last changed.
func setChanged(t testing.TB, s *directory.Session, ago time.Duration) {
	t.Helper()
	relaxed(t, s, &op.Modify{Name: annDN, Changes: changes([]line{{"replace pwdChangedTime", generalized(time.Now().Add(-ago))}})})
}

func generalized(t time.Time) string { return t.UTC().Format("20060102150405Z") }

func relaxed(t testing.TB, s *directory.Session, r op.Request) *op.Response {
	t.Helper()
	return withControls(t, s, r, op.Control{OID: control.OIDRelaxRules, Critical: true})
}

func withControls(t testing.TB, s *directory.Session, r op.Request, cs ...op.Control) *op.Response {
	t.Helper()
	var out answers
	s.Serve(t.Context(), &op.Message{Request: r, Controls: cs}, &out)
	return out.done
}

// policyBind binds as Ann and returns the result and the policy's response.
func policyBind(t testing.TB, s *directory.Session, password string) (op.Code, string) {
	t.Helper()
	r := withControls(t, s, &op.Bind{Version: 3, Name: annDN, Password: []byte(password)}, op.Control{OID: control.OIDPasswordPolicy})
	return r.Code, policyControl(r)
}

func policyControl(r *op.Response) string {
	var said []string
	for _, c := range r.Controls {
		if c.OID == control.OIDPasswordPolicy {
			said = append(said, fmt.Sprintf("%x", c.Value))
		}
	}
	return strings.Join(said, " ")
}

func said(p control.PasswordPolicy) string { return fmt.Sprintf("%x", p.Encode()) }

func failed(kind int) string { return said(control.PasswordPolicy{Error: &kind}) }

func graceLeft(n int) string { return said(control.PasswordPolicy{Grace: &n}) }

func TestLockout(t *testing.T) {
	d, p, s := withPolicy(t, line{"pwdLockout", "TRUE"}, line{"pwdMaxFailure", "3"}, line{"pwdLockoutDuration", "300"})
	before := stamps(t, s)
	for range 3 {
		if code := bindCode(t, d, annDN, "wrong"); code != op.InvalidCredentials {
			t.Fatal(code)
		}
	}
	if got := stamps(t, s); !slices.Equal(got, before) {
		t.Errorf("failures changed the entry: %q, %q", before, got)
	}
	if n := len(valuesOf(t, s, annDN, "pwdFailureTime")); n != 3 {
		t.Errorf("%d failures are written down", n)
	}
	if len(valuesOf(t, s, annDN, "pwdAccountLockedTime")) != 1 || len(valuesOf(t, s, annDN, "pwdAccountTmpLockoutEnd")) != 1 {
		t.Errorf("the lock is not shown")
	}
	written := revisionOf(p)
	for _, password := range []string{"ann", "wrong"} {
		if code := bindCode(t, d, annDN, password); code != op.InvalidCredentials {
			t.Errorf("locked, with %q: %v", password, code)
		}
	}
	if got := revisionOf(p); got != written {
		t.Errorf("attempts on a locked account wrote")
	}
	if code := bindCode(t, d, bobDN, "bob"); code != op.Success {
		t.Errorf("another account: %v", code)
	}
	serve(t, s, &op.Modify{Name: annDN, Changes: changes([]line{{"delete pwdAccountLockedTime", ""}})})
	if code := bindCode(t, d, annDN, "ann"); code != op.Success {
		t.Errorf("unlocked: %v", code)
	}
	if got := valuesOf(t, s, annDN, "pwdFailureTime"); got != nil {
		t.Errorf("failures stay: %q", got)
	}
}

// TestEveryGateCounts checks that each kind of bind, and each kind of password change with an
// old password, counts a wrong password as a failure.
func TestEveryGateCounts(t *testing.T) {
	wrongOld := func(name string) []op.Modification {
		return changes([]line{{"delete userPassword", "wrong"}, {"add userPassword", "new"}})
	}
	for name, guess := range map[string]func(t *testing.T, d *directory.Directory, own *directory.Session) op.Code{
		"simple": func(t *testing.T, d *directory.Directory, _ *directory.Session) op.Code {
			return bindCode(t, d, annDN, "wrong")
		},
		"PLAIN": func(t *testing.T, d *directory.Directory, _ *directory.Session) op.Code {
			return send(t, d.NewSession(inTLS), "PLAIN", plain("", "ann", "wrong")).Code
		},
		"SCRAM": func(t *testing.T, d *directory.Directory, _ *directory.Session) op.Code {
			r, _ := scramBind(t, d.NewSession(nil), "SCRAM-SHA-256", "ann", "wrong", "")
			return r.Code
		},
		"the old password of a modify": func(t *testing.T, d *directory.Directory, own *directory.Session) op.Code {
			return withControls(t, own, &op.Modify{Name: annDN, Changes: wrongOld(annDN)}).Code
		},
		"the old password of Password Modify": func(t *testing.T, d *directory.Directory, own *directory.Session) op.Code {
			return withControls(t, own, &op.Extended{OID: control.OIDPasswordModify, Value: passwordModify("", "wrong", "new")}).Code
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, _, s := withPolicy(t, line{"pwdLockout", "TRUE"}, line{"pwdMaxFailure", "2"})
			own := d.NewSession(nil)
			serve(t, own, &op.Bind{Version: 3, Name: annDN, Password: []byte("ann")})
			for range 2 {
				if code := guess(t, d, own); code == op.Success {
					t.Fatal("a wrong password was right")
				}
			}
			if n := len(valuesOf(t, s, annDN, "pwdFailureTime")); n != 2 {
				t.Errorf("%d failures are written down, want 2", n)
			}
			if code := bindCode(t, d, annDN, "ann"); code != op.InvalidCredentials {
				t.Errorf("not locked: %v", code)
			}
		})
	}
}

// TestSuccessDeletesFailures checks that a bind with the right password deletes the earlier
// failures. The server deletes them after the answer, but from the answer on, they must not
// count at this server.
func TestSuccessDeletesFailures(t *testing.T) {
	d, _, s := withPolicy(t, line{"pwdLockout", "TRUE"}, line{"pwdMaxFailure", "3"})
	for range 20 {
		for range 2 {
			bindCode(t, d, annDN, "wrong")
		}
		if code := bindCode(t, d, annDN, "ann"); code != op.Success {
			t.Fatal(code)
		}
	}
	eventually(t, func() bool { return valuesOf(t, s, annDN, "pwdFailureTime") == nil })
}

func eventually(t *testing.T, is func() bool) {
	t.Helper()
	for range 500 {
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("it does not come about")
}

// TestWritesCounted checks how many commits binds make. A successful bind without earlier
// failures makes no commit. Under a policy that records the last success, the first
// successful bind of a day makes one commit. A bind with a wrong password makes one commit if
// the account is not locked. Consumers of changes must see none of these commits.
func TestWritesCounted(t *testing.T) {
	d, p, s := withPolicy(t, line{"pwdLockout", "TRUE"}, line{"pwdMaxFailure", "10"})
	count := func(do func()) int {
		before := revisionOf(p)
		do()
		return commitsAfter(t, p, before)
	}
	changelog := func() string {
		all, _ := changesOf(t, s, "cn=changelog", op.SingleLevel, "(targetDN="+annDN+")", "changeNumber changeType")
		return strings.Join(all, "\n")
	}
	before := changelog()
	if n := count(func() { bindCode(t, d, annDN, "ann") }); n != 0 {
		t.Errorf("a login: %d commits", n)
	}
	frontier := shownAfter(t, p)
	if n := count(func() { bindCode(t, d, annDN, "wrong") }); n != 1 {
		t.Errorf("a guess: %d commits", n)
	}
	if n := count(func() { bindCode(t, d, annDN, "ann"); directory.Settle(d) }); n != 2 { // one commit for the failure that reserves the attempt, one for the deletion of both failures
		t.Errorf("a login after a failure: %d commits", n)
	}
	if n := frontier(); n != 0 {
		t.Errorf("consumers are told of %d changes", n)
	}
	changePolicy(t, s, "pwdMaxFailure", "1")
	bindCode(t, d, annDN, "wrong")
	if n := count(func() { bindCode(t, d, annDN, "wrong"); bindCode(t, d, annDN, "ann") }); n != 0 {
		t.Errorf("two attempts on a locked account: %d commits", n)
	}
	changePolicy(t, s, "pwdLastSuccessInterval", "86400")
	frontier = shownAfter(t, p)
	logins := func() {
		for range 5 {
			if code := bindCode(t, d, bobDN, "bob"); code != op.Success {
				t.Fatal(code)
			}
			directory.Settle(d)
		}
	}
	if n := count(logins); n != 1 {
		t.Errorf("five logins of a day with last success: %d commits", n)
	}
	if n := frontier(); n != 0 {
		t.Errorf("consumers are told of %d changes by logins", n)
	}
	if said := changelog(); said != before {
		t.Errorf("the changelog has\n%s\nand had\n%s", said, before)
	}
}

func TestExpiry(t *testing.T) {
	d, _, s := withPolicy(t, line{"pwdMaxAge", "1000"}, line{"pwdExpireWarning", "500"}, line{"pwdGraceAuthNLimit", "2"})
	if code, got := policyBind(t, d.NewSession(nil), "ann"); code != op.Success || got != "" {
		t.Errorf("a password of unknown age: %v %s", code, got)
	}
	setChanged(t, s, 100*time.Second)
	if code, got := policyBind(t, d.NewSession(nil), "ann"); code != op.Success || got != "" {
		t.Errorf("a young password: %v %s", code, got)
	}
	setChanged(t, s, 600*time.Second)
	if code, got := policyBind(t, d.NewSession(nil), "ann"); code != op.Success || !strings.HasPrefix(got, "3006a004800201") && !strings.HasPrefix(got, "3006a0048002") {
		t.Errorf("a password that expires soon: %v %s", code, got)
	}
	setChanged(t, s, 2000*time.Second)
	for _, want := range []string{graceLeft(1), graceLeft(0)} {
		if code, got := policyBind(t, d.NewSession(nil), "ann"); code != op.Success || got != want {
			t.Errorf("an expired password: %v %s, want %s", code, got, want)
		}
	}
	if code, got := policyBind(t, d.NewSession(nil), "ann"); code != op.InvalidCredentials || got != failed(0) {
		t.Errorf("an expired password without uses left: %v %s", code, got)
	}
	if code, got := policyBind(t, d.NewSession(nil), "wrong"); code != op.InvalidCredentials || got != "" {
		t.Errorf("a wrong password: %v %s", code, got)
	}
	setChanged(t, s, 0)
	serve(t, s, &op.Modify{Name: annDN, Changes: changes([]line{{"replace userPassword", "second"}})})
	if code, got := policyBind(t, d.NewSession(nil), "second"); code != op.Success || got != "" {
		t.Errorf("a new password: %v %s", code, got)
	}
	if got := valuesOf(t, s, annDN, "pwdGraceUseTime"); got != nil {
		t.Errorf("uses of the old password stay: %q", got)
	}
}

func TestMustChangeAfterReset(t *testing.T) {
	d, _, s := withPolicy(t, line{"pwdMustChange", "TRUE"}, line{"pwdMinAge", "1000"})
	serve(t, s, &op.Modify{Name: annDN, Changes: changes([]line{{"replace userPassword", "reset"}})})
	if got := valuesOf(t, s, annDN, "pwdReset"); !slices.Equal(got, []string{"TRUE"}) {
		t.Fatalf("pwdReset: %q", got)
	}
	own := d.NewSession(nil)
	if code, got := policyBind(t, own, "reset"); code != op.Success || got != failed(2) {
		t.Fatalf("%v %s", code, got)
	}
	for name, r := range map[string]op.Request{
		"a search":                       devices("(objectClass=*)"),
		"another attribute":              &op.Modify{Name: annDN, Changes: changes([]line{{"replace title", "x"}})},
		"another one's password":         &op.Modify{Name: bobDN, Changes: changes([]line{{"replace userPassword", "x"}})},
		"Password Modify of another one": &op.Extended{OID: control.OIDPasswordModify, Value: passwordModify(bobDN, "", "x")},
		"Who am I":                       &op.Extended{OID: control.OIDWhoAmI},
	} {
		if r := withControls(t, own, r); r.Code != op.InsufficientAccessRights {
			t.Errorf("%s: %v", name, &r.Result)
		}
	}
	if r := withControls(t, own, &op.Modify{Name: annDN, Changes: changes([]line{{"replace userPassword", "own"}})}); r.Code != op.Success {
		t.Fatalf("the new password: %v", &r.Result)
	}
	if r := withControls(t, own, &op.Extended{OID: control.OIDWhoAmI}); r.Code != op.Success {
		t.Errorf("after the change: %v", &r.Result)
	}
	if got := valuesOf(t, s, annDN, "pwdReset"); got != nil {
		t.Errorf("pwdReset: %q", got)
	}
}

func TestNewPasswords(t *testing.T) {
	d, _, s := withPolicy(t, line{"pwdCheckQuality", "2"}, line{"pwdMinLength", "6"}, line{"pwdMaxLength", "20"}, line{"pwdInHistory", "2"},
		line{"pwdQuality", "classes 2"}, line{"pwdQuality", "unlike uid"}, line{"pwdSafeModify", "TRUE"})
	own := d.NewSession(nil)
	serve(t, own, &op.Bind{Version: 3, Name: annDN, Password: []byte("ann")})
	now := "ann"
	change := func(old, new string) (*op.Response, string) {
		ls := []line{{"delete userPassword", old}, {"add userPassword", new}}
		if old == "" {
			ls = []line{{"replace userPassword", new}}
		}
		r := withControls(t, own, &op.Modify{Name: annDN, Changes: changes(ls)}, op.Control{OID: control.OIDPasswordPolicy})
		if r.Code == op.Success {
			now = new
		}
		return r, policyControl(r)
	}
	for _, c := range []struct {
		new  string
		kind int
	}{{"ab1", 6}, {"abcdefghijklmnopqrstu1", 5}, {"abcdefg", 5}, {"first-1", -1}, {"second-1", -1}, {"first-1", 8}, {"second-1", 8}, {"third-1", -1}, {"fourth-1", -1}, {"first-1", -1}} {
		r, got := change(now, c.new)
		if c.kind < 0 && r.Code != op.Success || c.kind >= 0 && (r.Code != op.ConstraintViolation || got != failed(c.kind)) {
			t.Errorf("%q: %v %s, want %d", c.new, &r.Result, got, c.kind)
		}
		if strings.Contains(r.Diagnostic, c.new) {
			t.Errorf("the diagnostic has the password: %s", r.Diagnostic)
		}
	}
	if r, got := change("", "fifth-1"); r.Code != op.InsufficientAccessRights || got != failed(4) {
		t.Errorf("without the old password: %v %s", &r.Result, got)
	}
	changePolicy(t, s, "pwdMinAge", "1000")
	if r, got := change(now, "sixth-1"); r.Code != op.ConstraintViolation || got != failed(7) {
		t.Errorf("too young: %v %s", &r.Result, got)
	}
	changePolicy(t, s, "pwdMinAge", "0", "pwdAllowUserChange", "FALSE")
	if r, got := change(now, "sixth-1"); r.Code != op.InsufficientAccessRights || got != failed(3) {
		t.Errorf("not allowed: %v %s", &r.Result, got)
	}
	if r := withControls(t, s, &op.Modify{Name: annDN, Changes: changes([]line{{"replace userPassword", "x"}})}); r.Code != op.ConstraintViolation {
		t.Errorf("a reset is not looked at: %v", &r.Result)
	}
	if r := relaxed(t, s, &op.Modify{Name: annDN, Changes: changes([]line{{"replace userPassword", "x"}})}); r.Code != op.Success {
		t.Errorf("relaxed: %v", &r.Result)
	}
	if r := withControls(t, s, &op.Add{Name: "uid=new,dc=example,dc=com", Attributes: person("new", line{"userPassword", "short"})}); r.Code != op.ConstraintViolation {
		t.Errorf("a new entry: %v", &r.Result)
	}
}

// TestGuessesSideBySide checks that concurrent guesses record exactly as many failures as
// the policy allows.
func TestGuessesSideBySide(t *testing.T) {
	for _, strict := range []bool{false, true} {
		d, _, s := withPolicy(t, line{"pwdLockout", "TRUE"}, line{"pwdMaxFailure", "5"}, line{"pwdLockoutStrict", strings.ToUpper(fmt.Sprint(strict))})
		var all sync.WaitGroup
		for range 30 {
			all.Go(func() { bindCode(t, d, annDN, "wrong") })
		}
		all.Wait()
		if n := len(valuesOf(t, s, annDN, "pwdFailureTime")); n != 5 {
			t.Errorf("strict %v: %d failures", strict, n)
		}
	}
}

func TestImpossiblePolicies(t *testing.T) {
	_, _, s := withPolicy(t)
	for _, l := range []line{{"pwdMaxFailure", "-1"}, {"pwdCheckQuality", "3"}, {"pwdQuality", "rainbows 3"}, {"pwdSecondFactor", "blood"},
		{"pwdPolicyFor", "group"}, {"pwdMaxDelay", "3"}, {"pwdMinLength", "99999999999"}} {
		r := withControls(t, s, &op.Modify{Name: policyDN, Changes: changes([]line{{"replace " + l.key, l.value}})})
		if r.Code != op.ConstraintViolation || !strings.Contains(r.Diagnostic, l.key) {
			t.Errorf("%v: %v", l, &r.Result)
		}
	}
}

func TestWhichPolicy(t *testing.T) {
	d, _, s := withPolicy(t, line{"pwdPriority", "10"})
	other := func(name string, says ...line) {
		serve(t, s, &op.Add{Name: "cn=" + name + ",dc=example,dc=com", Attributes: attributes(append([]line{{"objectClass", "subentry"},
			{"objectClass", "pwdPolicy"}, {"cn", name}, {"subtreeSpecification", "{}"}, {"pwdAttribute", "userPassword"}}, says...))})
	}
	counts := func(name, want string) {
		t.Helper()
		if got := valuesOf(t, s, name, "pwdPolicySubentry"); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, want %s", name, got, want)
		}
	}
	counts(annDN, policyDN)
	serve(t, s, &op.Add{Name: "cn=staff,dc=example,dc=com", Attributes: attributes([]line{{"objectClass", "groupOfNames"}, {"cn", "staff"}, {"member", bobDN}})})
	other("lower", line{"pwdPriority", "5"}, line{"pwdPolicyFor", `group "cn=staff,dc=example,dc=com"`}, line{"pwdLockout", "TRUE"}, line{"pwdMaxFailure", "1"})
	counts(annDN, policyDN)
	counts(bobDN, "cn=lower,dc=example,dc=com")
	serve(t, s, &op.Modify{Name: "cn=staff,dc=example,dc=com", Changes: changes([]line{{"add member", annDN}})})
	counts(annDN, "cn=lower,dc=example,dc=com")
	serve(t, s, &op.Modify{Name: annDN, Changes: changes([]line{{"replace pwdPolicySubentry", policyDN}})})
	counts(annDN, policyDN)
	bindCode(t, d, bobDN, "wrong")
	if code := bindCode(t, d, bobDN, "bob"); code != op.InvalidCredentials {
		t.Errorf("not locked by the group's policy: %v", code)
	}
	// An entry that is no longer a policy does not apply.
	gone := []line{{"delete objectClass", "pwdPolicy"}}
	for _, attribute := range []string{"pwdAttribute", "pwdPriority", "pwdPolicyFor", "pwdLockout", "pwdMaxFailure"} {
		gone = append(gone, line{"delete " + attribute, ""})
	}
	serve(t, s, &op.Modify{Name: "cn=lower,dc=example,dc=com", Changes: changes(gone)})
	counts(bobDN, policyDN)
}

// ending is a sink that records the notice with which its connection must end.
type ending struct {
	answers
	notice *op.Result
}

func (e *ending) End(notice *op.Result) { e.notice = notice }

// TestSessionsAreJudgedAgain checks that a session ends when the account of its user is
// disabled or has ended, or when somebody else resets the account's password.
func TestSessionsAreJudgedAgain(t *testing.T) {
	for _, c := range []struct {
		name   string
		change []line
		ends   bool
	}{
		{"disabled", []line{{"replace pwdAccountLockedTime", "000001010000Z"}}, true},
		{"ended", []line{{"replace pwdEndTime", generalized(time.Now().Add(-time.Hour))}}, true},
		{"reset", []line{{"replace userPassword", "other"}}, true},
		{"changed", []line{{"replace title", "other"}}, false},
	} {
		d, _, s := withPolicy(t, line{"pwdMustChange", "TRUE"})
		own := d.NewSession(nil)
		serve(t, own, &op.Bind{Version: 3, Name: annDN, Password: []byte("ann")})
		serve(t, own, &op.Extended{OID: control.OIDWhoAmI})
		serve(t, s, &op.Modify{Name: annDN, Changes: changes(c.change)})
		var out ending
		own.Serve(t.Context(), &op.Message{Request: &op.Extended{OID: control.OIDWhoAmI}}, &out)
		if ended := out.done.Code == op.StrongerAuthRequired && out.notice != nil; ended != c.ends || own.Name() == "" != c.ends {
			t.Errorf("%s: %v, notice %v", c.name, &out.done.Result, out.notice)
		}
	}
}

// stamps returns the entryCSN and the modifyTimestamp of Ann's entry, which every change of
// the entry sets.
func stamps(t *testing.T, s *directory.Session) []string {
	return slices.Concat(valuesOf(t, s, annDN, "entryCSN"), valuesOf(t, s, annDN, "modifyTimestamp"))
}

func revisionOf(p *partition.Partition) table.Revision {
	s := state.Newest(p)
	defer s.Close()
	return s.Revision()
}

// commitsAfter counts the commits since a revision.
func commitsAfter(t *testing.T, p *partition.Partition, since table.Revision) (n int) {
	t.Helper()
	s := state.Newest(p)
	defer s.Close()
	for _, err := range s.At.CommitsAfter(context.Background(), since) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// shownAfter returns a function that counts the changes that consumers have been shown since
// the call of shownAfter.
func shownAfter(t *testing.T, p *partition.Partition) func() int {
	t.Helper()
	since := revisionOf(p)
	return func() (n int) {
		s := state.Newest(p)
		defer s.Close()
		for _, err := range changestream.ShownAfter(t.Context(), s, since) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
}

// passwordModify returns the value of a Password Modify (RFC 3062).
func passwordModify(identity, old, new string) []byte {
	b := ber.Open(nil, ber.Sequence)
	for i, v := range []string{identity, old, new} {
		if v != "" {
			b = ber.AppendString(b, ber.Context(byte(i)), v)
		}
	}
	return ber.Close(b, 0)
}

// TestSecondFactorOfExternal checks that a certificate is a second factor if the policy
// allows this. The identity of a local process, as the system reports it, must never be a
// second factor.
func TestSecondFactorOfExternal(t *testing.T) {
	d, p, root := withPolicy(t, line{"pwdSecondFactor", "code"})
	rule := rules(t, `dn:gidNumber=100\+uidNumber=1000,cn=peercred,cn=external,cn=auth -> `+annDN)
	local := newDirectory(t, p, directory.Options{Mechanisms: auth.Mechanisms, Identities: rule})
	certificate := withCertificate(t, "", ava("ann", 0, 9, 2342, 19200300, 100, 1, 1), ava("example", 0, 9, 2342, 19200300, 100, 1, 25), ava("com", 0, 9, 2342, 19200300, 100, 1, 25))
	for _, c := range []struct {
		policy          string
		byTLS, bySocket op.Code
	}{
		{"code", op.InvalidCredentials, op.InvalidCredentials},
		{"certificate", op.Success, op.InvalidCredentials},
		{"token", op.InvalidCredentials, op.InvalidCredentials},
	} {
		changePolicy(t, root, "pwdSecondFactor", c.policy)
		if r := send(t, d.NewSession(certificate), "EXTERNAL", nil); r.Code != c.byTLS {
			t.Errorf("%s: by a certificate: %v", c.policy, &r.Result)
		}
		if r := send(t, local.NewSession(simPeer{local: true}), "EXTERNAL", nil); r.Code != c.bySocket {
			t.Errorf("%s: by a socket: %v", c.policy, &r.Result)
		}
	}
}

// TestResetsAreSaid checks that whoever sets a password that the account's owner must change is
// told so, and so is the owner who binds with it; and that services have a way around it.
func TestResetsAreSaid(t *testing.T) {
	d, p, s := withPolicy(t, line{"pwdMustChange", "TRUE"})
	setRules(t, p, "bind: allow everyone to bind\nuse: allow everyone to use *\nown: allow self to write userPassword")
	ppolicy := op.Control{OID: control.OIDPasswordPolicy}
	dn := func(uid string) string { return "uid=" + uid + ",dc=example,dc=com" }
	add := func(uid string, more ...line) *op.Add {
		return &op.Add{Name: dn(uid), Attributes: person(uid, more...)}
	}
	set := func(lines ...line) *op.Modify { return &op.Modify{Name: annDN, Changes: changes(lines)} }
	generated := func(name string) *op.Extended {
		return &op.Extended{OID: control.OIDPasswordModify, Value: passwordModify(name, "", "other")}
	}
	for what, c := range map[string]struct {
		r    op.Request
		said bool
	}{
		"add":                     {add("a", line{"userPassword", "x"}), true},
		"add without a password":  {add("b"), false},
		"add with pwdReset FALSE": {add("c", line{"userPassword", "x"}, line{"pwdReset", "FALSE"}), false},
		"add with pwdReset TRUE":  {add("d", line{"userPassword", "x"}, line{"pwdReset", "TRUE"}), false},
		"modify":                  {set(line{"replace userPassword", "x"}), true},
		"modify with pwdReset":    {set(line{"replace userPassword", "y"}, line{"replace pwdReset", "FALSE"}), false},
		"modify of another":       {set(line{"replace sn", "y"}), false},
		"Password Modify":         {generated("uid=bob,dc=example,dc=com"), true},
	} {
		got := withControls(t, s, c.r, ppolicy)
		if said := policyControl(got) == failed(2) && strings.Contains(got.Diagnostic, "pwdReset: FALSE"); got.Code != op.Success || said != c.said || !said && got.Diagnostic != "" {
			t.Errorf("%s: %v, %s: said %v, want %v", what, &got.Result, policyControl(got), said, c.said)
		}
	}
	own := d.NewSession(nil)
	for _, step := range []struct {
		what string
		r    op.Request
		code op.Code
		says string
	}{
		{"bind", &op.Bind{Version: 3, Name: dn("a"), Password: []byte("x")}, op.Success, "must be changed before anything else"},
		{"search", &op.Search{Base: dn("a"), Scope: op.BaseObject, Filter: &filter.Present{Attribute: "objectClass"}}, op.InsufficientAccessRights, "by Password Modify"},
		{"change", &op.Modify{Name: dn("a"), Changes: changes([]line{{"replace userPassword", "mine"}})}, op.Success, ""},
		{"bind again", &op.Bind{Version: 3, Name: dn("a"), Password: []byte("mine")}, op.Success, ""},
		{"bind of a service", &op.Bind{Version: 3, Name: dn("c"), Password: []byte("x")}, op.Success, ""},
		{"search of a service", &op.Search{Base: dn("c"), Scope: op.BaseObject, Filter: &filter.Present{Attribute: "objectClass"}}, op.Success, ""},
	} {
		got := withControls(t, own, step.r)
		if got.Code != step.code || !strings.Contains(got.Diagnostic, step.says) || step.says == "" && got.Diagnostic != "" {
			t.Errorf("%s: %v, want %v and %q", step.what, &got.Result, step.code, step.says)
		}
	}
}
