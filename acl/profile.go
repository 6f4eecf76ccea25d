package acl

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed profiles/*.rules
var profileFiles embed.FS

// Profiles are the names of the sets of rules that a directory can begin with.
var Profiles = []string{"staff", "private", "public", "services", "open"}

// Profile returns the rules of a profile, for cn=config. Contexts are the naming
// contexts of the directory.
func Profile(name string, contexts []string) ([]*Rule, error) {
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
		rules = append(rules, r)
	}
	return rules, nil
}

// services are whom the profile of that name lets read.
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
