package people

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
)

// values are the attributes of a new entry.
type values struct{ all []ldap.Attribute }

// add adds those of the values that are not empty and not there already.
func (v *values) add(name string, more ...string) {
	for _, value := range more {
		i := v.index(name)
		switch {
		case value == "":
		case i < 0:
			v.all = append(v.all, ldap.Attribute{Type: name, Vals: []string{value}})
		case !slices.Contains(v.all[i].Vals, value):
			v.all[i].Vals = append(v.all[i].Vals, value)
		}
	}
}

func (v *values) index(name string) int {
	return slices.IndexFunc(v.all, func(a ldap.Attribute) bool { return strings.EqualFold(a.Type, name) })
}

// set replaces attributes by the values in texts of the form ATTR=VALUE. Several texts may have one
// attribute; classes are added.
func (v *values) set(texts []string) error {
	var seen []string
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" || value == "" {
			return &config.Error{Where: "--set", Text: fmt.Sprintf("%q is not ATTR=VALUE", text)}
		}
		lower := strings.ToLower(name)
		if i := v.index(name); i >= 0 && !slices.Contains(seen, lower) && lower != "objectclass" {
			v.all = slices.Delete(v.all, i, i+1)
		}
		seen = append(seen, lower)
		v.add(name, value)
	}
	return nil
}
