package console

import (
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/web"
)

// A searchPlan is how the server searches, and what that has cost if it has.
type searchPlan struct {
	control.Explained
	Run   bool
	Found int
	Error string
}

// Took returns how long the search took.
func (p *searchPlan) Took() time.Duration { return time.Duration(p.Microseconds) * time.Microsecond }

// planOf asks how the server searches: with "run", it searches.
func (v *visit) planOf(q *query, how string) (*searchPlan, error) {
	r, cs := q.request("1.1")
	r.TimeLimit = seconds
	p := &searchPlan{Run: how == "run"}
	done, err := v.client.Do(v.r.Context(), r, web.Answer{Entry: func(*op.SearchEntry) error {
		p.Found++
		return nil
	}}, append(v.controls(cs...), op.Control{OID: control.OIDExplain, Critical: true, Value: []byte(how)})...)
	if web.IsResult(err) {
		p.Error = explain(&done.Result)
	} else if err != nil {
		return nil, err
	}
	if c := done.Control(control.OIDExplain); c != nil {
		if p.Explained, err = control.ParseExplained(c.Value); err != nil {
			return nil, err
		}
	}
	return p, nil
}
