package acl

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/schema"
)

//go:embed profiles/*.rules
var profileFiles embed.FS

// Profiles are the names of the profiles: sets of rules with which a directory can start.
var Profiles = []string{"staff", "private", "public", "services", "open"}

// Profile returns the rules of a profile, for the whole directory. It leaves out
// attributes that the schema does not define. Only the profile "services" depends on the
// naming contexts.
func Profile(name string, sch *schema.Schema, contexts []string) ([]*Rule, error) {
	text, err := profileFiles.ReadFile("profiles/" + name + ".rules")
	if err != nil {
		return nil, fmt.Errorf("the profile %q is not known: %s are", name, strings.Join(Profiles, ", "))
	}
	var rules []*Rule
	for line := range strings.Lines(strings.ReplaceAll(string(text), "SERVICES", services(contexts))) {
		r, err := Parse(strings.TrimSpace(line))
		if err != nil {
			return nil, err
		}
		for i := range r.Parts {
			r.Parts[i].keep(sch)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// keep removes the attributes that the schema does not define.
func (p *Part) keep(sch *schema.Schema) {
	if p.Rights&Use != 0 {
		return
	}
	p.Attributes = slices.DeleteFunc(p.Attributes, func(a Attribute) bool {
		return isDescription(a.Description) && sch.Attribute(a.Description) == nil
	})
}

// services returns the subjects to which the profile "services" grants the right to read:
// the entries below ou=services in each naming context. If there are no contexts, the
// subjects match nobody.
func services(contexts []string) string {
	if len(contexts) == 0 {
		return "users except users"
	}
	all := make([]string, len(contexts))
	for i, c := range contexts {
		all[i] = "below " + quote("ou=services,"+c)
	}
	return strings.Join(all, ", ")
}
