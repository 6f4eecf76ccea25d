package directory_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// entrySink keeps the entries of an answer.
type entrySink struct {
	answers
	kept []op.SearchEntry
}

func (s *entrySink) Entry(e *op.SearchEntry) error {
	c := op.SearchEntry{Name: e.Name}
	for _, a := range e.Attributes {
		x := entry.Attribute{Type: a.Type, Options: a.Options}
		for _, v := range a.Values {
			x.Values = append(x.Values, bytes.Clone(v))
		}
		c.Attributes = append(c.Attributes, x)
	}
	s.kept = append(s.kept, c)
	return nil
}

func entriesOf(t *testing.T, s *directory.Session, r *op.Search) []op.SearchEntry {
	t.Helper()
	var out entrySink
	s.Serve(t.Context(), &op.Message{Request: r}, &out)
	if out.done.Code != op.Success {
		t.Fatalf("%v: %v", r, &out.done.Result)
	}
	return out.kept
}

// TestAccountFilters checks that filters of account attributes find the entries that a filter would
// find on what reading the entries shows, for the administrator and for somebody whom a rule lets
// see the use of accounts.
func TestAccountFilters(t *testing.T) {
	d, p, s := withPolicy(t, line{"pwdLockout", "TRUE"}, line{"pwdMaxFailure", "2"}, line{"pwdLockoutDuration", "3600"}, line{"pwdLastSuccessInterval", "1"})
	names := []string{"pwdAccountLockedTime", "pwdAccountTmpLockoutEnd", "pwdPolicySubentry", "pwdFailureTime", "pwdGraceUseTime", "pwdResetUseTime", "pwdLastSuccess", "oathTOTPUsedTimeStep"}
	setRules(t, p, "use: allow everyone to use *\nbind: allow everyone to bind\nsee: allow everyone to read *, +\nauditor: allow \"uid=ann,dc=example,dc=com\" to read pwdFailureTime, pwdGraceUseTime, pwdResetUseTime, pwdLastSuccess, oathTOTPUsedTimeStep")
	r := rand.New(rand.NewPCG(22, 31))
	for i := range 90 {
		uid := fmt.Sprintf("u%d", i)
		dn := "uid=" + uid + ",dc=example,dc=com"
		serve(t, s, &op.Add{Name: dn, Attributes: person(uid, line{"userPassword", uid})})
		switch r.IntN(8) {
		case 0:
			withControls(t, s, &op.Modify{Name: dn, Changes: changes([]line{{"add pwdAccountLockedTime", "000001010000Z"}})})
		case 1, 2, 3:
			for range r.IntN(4) {
				withControls(t, d.NewSession(nil), &op.Bind{Version: 3, Name: dn, Password: []byte("wrong")})
			}
		case 4, 5:
			withControls(t, d.NewSession(nil), &op.Bind{Version: 3, Name: dn, Password: []byte(uid)})
		}
	}
	directory.Settle(d)
	auditor := d.NewSession(nil)
	serve(t, auditor, &op.Bind{Version: 3, Name: annDN, Password: []byte("ann")})
	directory.Settle(d)
	for who, session := range map[string]*directory.Session{"administrator": s, "auditor": auditor} {
		shown := map[string]*entry.Entry{}
		values := map[string][][]byte{}
		snapshot := state.Newest(p)
		sch := snapshot.Schema()
		snapshot.Close()
		all := &op.Search{Base: "dc=example,dc=com", Scope: op.WholeSubtree, Filter: &filter.Present{Attribute: "objectClass"}, Attributes: append([]string{"uid"}, names...)}
		for _, e := range entriesOf(t, session, all) {
			x := &entry.Entry{}
			for _, a := range e.Attributes {
				x.Attributes = append(x.Attributes, entry.Attribute{Type: a.Type, Values: a.Values})
				values[a.Type.Name()] = append(values[a.Type.Name()], a.Values...)
			}
			shown[e.Name] = x
		}
		tested := 0
		for _, n := range names {
			fs := []filter.Filter{&filter.Present{Attribute: n}}
			for _, v := range values[n][:min(len(values[n]), 6)] {
				fs = append(fs, &filter.Equal{Attribute: n, Value: v}, &filter.GreaterOrEqual{Attribute: n, Value: v}, &filter.LessOrEqual{Attribute: n, Value: v})
			}
			for _, f := range fs {
				// A negation is Undefined if the requester may not search the attribute.
				not := filter.Filter(&filter.Not{Filter: f})
				if len(values[n]) == 0 {
					not = f
				}
				for _, f := range []filter.Filter{f, not, filter.And{f, &filter.Present{Attribute: "uid"}}, filter.Or{f, &filter.Equal{Attribute: "uid", Value: []byte("u1")}}} {
					var want, got []string
					for name, e := range shown {
						if filter.ResolveSecrets(f, sch).Match(&filter.EntrySource{Schema: sch, Entry: e}) == filter.True {
							want = append(want, name)
						}
					}
					for _, e := range entriesOf(t, session, &op.Search{Base: "dc=example,dc=com", Scope: op.WholeSubtree, Filter: f, Attributes: []string{"1.1"}}) {
						got = append(got, e.Name)
					}
					slices.Sort(want)
					slices.Sort(got)
					if !slices.Equal(got, want) {
						t.Errorf("%s: %s: found %d entries, want %d", who, f, len(got), len(want))
					}
					if len(want) > 0 {
						tested++
					}
				}
			}
		}
		if tested < 40 {
			t.Errorf("%s: only %d filters find anything", who, tested)
		}
	}
}
