package console

import (
	"strings"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/web"
)

// A pick is a field for the name of an entry. What is typed may be a name, or a part of one: then the form shows
// entries to choose from, with script while somebody types, and without it by a button.
type pick struct {
	Param, Text string // the parameter, and what is typed in it
	Asked       bool   // for entries to choose from
	Found       []*Entry
	Unknown     bool // it is a name, and no entry that may be seen has it
}

// mostFound is how many entries a field offers.
const mostFound = 20

// picked returns what a form says in a field for a name: an entry that was chosen, or else what was typed.
func (v *visit) picked(param string) *pick {
	p := &pick{Param: param, Text: strings.TrimSpace(v.r.PostForm.Get(param)), Asked: v.r.PostForm.Get("find") == param}
	if chosen := v.r.PostForm.Get("pick-" + param); chosen != "" {
		p.Text = chosen
	}
	return p
}

// find looks for the entry that the text of a field names, and for those with the text in a name if they were asked
// for.
func (v *door) find(p *pick) error {
	if p.Text == "" {
		return nil
	}
	if strings.Contains(p.Text, "=") {
		e, err := v.base(p.Text, summary...)
		if web.IsResult(err) {
			p.Unknown = true
			return nil
		} else if err == nil {
			p.Found = []*Entry{e}
		}
		return err
	}
	p.Unknown = true
	if !p.Asked {
		return nil
	}
	f, err := v.searchNamed(&op.Search{Scope: op.WholeSubtree, Attributes: summary}, p.Text, mostFound, "")
	if err == nil {
		p.Found = f.Entries
	}
	return err
}

// showNames shows what a field for a name has to choose from, for what is being typed.
func showNames(v *visit) error {
	q := v.r.URL.Query()
	p := &pick{Param: q.Get("param"), Text: strings.TrimSpace(q.Get(q.Get("param"))), Asked: true}
	if err := v.find(p); err != nil {
		return err
	}
	return v.write("moments", "matches", "", p)
}
