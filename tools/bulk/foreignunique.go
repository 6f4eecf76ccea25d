package bulk

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/state"
)

// These are the attributes that say what is unique in the configurations of slapd's overlay unique and of
// 389's plug-in for uniqueness.
const (
	slapdUnique     = "olcUniqueURI"
	slapdUniqueType = "olcUniqueAttribute" // the older form, with one base for all
	slapdUniqueBase = "olcUniqueBase"
	unique389       = "uniqueness-attribute-name"
	subtrees389     = "uniqueness-subtrees"
	acrossAll389    = "uniqueness-across-all-subtrees"
)

// restrict389 are the attributes by which 389's plug-in leaves out some entries below the subtrees.
var restrict389 = []string{"uniqueness-exclude-subtrees", "uniqueness-subtree-entries-oc", "uniqueness-top-entry-oc"}

// A foreignScope is an attribute whose values are unique in the subtree of a base on another server. An empty
// base means all entries.
type foreignScope struct{ attribute, base string }

// foreignUnique reads what is unique from another server's configuration. The notes name what cannot
// be so here.
func foreignUnique(values func(name string) []string) (scopes []foreignScope, notes []string) {
	for _, v := range values(slapdUnique) {
		s, err := scopesOfURLs(v)
		if err != nil {
			notes = append(notes, fmt.Sprintf("what %s: %s makes unique there is not unique here: %v", slapdUnique, v, err))
		}
		scopes = append(scopes, s...)
	}
	base := append(values(slapdUniqueBase), "")[0]
	for _, v := range values(slapdUniqueType) {
		for _, a := range strings.Fields(v) {
			scopes = append(scopes, foreignScope{a, base})
		}
	}
	attributes := values(unique389)
	if len(attributes) == 0 {
		return scopes, notes
	}
	for _, name := range restrict389 {
		if len(values(name)) > 0 {
			return scopes, append(notes, fmt.Sprintf("values of %s are unique there, and not here: %s restricts it there", strings.Join(attributes, ", "), name))
		}
	}
	subtrees := values(subtrees389)
	if len(subtrees) == 0 {
		subtrees = []string{""}
	}
	if len(subtrees) > 1 && slices.ContainsFunc(values(acrossAll389), isOn389) {
		notes = append(notes, fmt.Sprintf("values of %s are unique in each of these subtrees here, and over all of them there: %s", strings.Join(attributes, ", "), strings.Join(subtrees, "; ")))
	}
	for _, a := range attributes {
		for _, base := range subtrees {
			scopes = append(scopes, foreignScope{a, base})
		}
	}
	return scopes, notes
}

func isOn389(v string) bool { return strings.EqualFold(v, "on") || strings.EqualFold(v, "true") }

// scopesOfURLs parses a value of olcUniqueURI: keywords and LDAP URLs (RFC 4516).
func scopesOfURLs(value string) (scopes []foreignScope, err error) {
	if strings.Count(value, "://") > 1 {
		return nil, errors.New("values are compared over all of its URLs there")
	}
	for _, text := range strings.Fields(value) {
		switch strings.ToLower(text) {
		case "strict", "serialize": // as here
			continue
		case "ignore":
			return nil, errors.New("all attributes but some are unique there")
		}
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "ldap" {
			return nil, errors.New("it is not a URL of the form ldap:///BASE?ATTRIBUTES?sub")
		}
		parts := append(strings.Split(u.RawQuery, "?"), "", "")
		switch scope := strings.ToLower(parts[1]); {
		case scope != "sub" && scope != "subtree":
			return nil, errors.New("it is for one level or one entry, and here always for a subtree")
		case parts[2] != "":
			return nil, errors.New("it is only for entries that match a filter")
		case parts[0] == "":
			return nil, errors.New("all attributes are unique there")
		}
		for _, a := range strings.Split(parts[0], ",") {
			scopes = append(scopes, foreignScope{a, strings.TrimPrefix(u.Path, "/")})
		}
	}
	return scopes, nil
}

// makeUniqueAs makes attributes unique as on another server, after the entries are imported: the base of a scope
// must be there. What cannot be unique here is left out with a note.
func makeUniqueAs(ctx context.Context, p *partition.Partition, o *Options, scopes []foreignScope) error {
	for _, s := range scopes {
		err := makeOneUnique(ctx, p, s)
		if refused := (*partition.Error)(nil); errors.As(err, &refused) {
			o.Note(fmt.Sprintf("values of %s are unique there%s, and not here: %v", s.attribute, s.below(), err))
		} else if err != nil {
			return fmt.Errorf("the entries are imported, and %s is not unique: %w", s.attribute, err)
		}
	}
	return nil
}

func (s foreignScope) below() string {
	if s.base == "" {
		return ""
	}
	return " below " + s.base
}

func makeOneUnique(ctx context.Context, p *partition.Partition, s foreignScope) error {
	u := catalog.Unique{Attribute: s.attribute}
	if s.base != "" {
		name, err := dn.Parse(s.base)
		if err != nil {
			return catalog.Errorf(catalog.InvalidName, "%s: %v", s.base, err)
		}
		now := state.Newest(p)
		at, err := now.Find(ctx, name)
		now.Close()
		if err != nil {
			return err
		}
		u.Base = at.ID
	}
	there, err := onlineschema.Unique(p)
	if err != nil {
		return err
	}
	t := p.Schema().Attribute(s.attribute)
	if slices.ContainsFunc(there, func(o catalog.Unique) bool {
		return t != nil && p.Schema().Attribute(o.Attribute) == t && o.Base == u.Base
	}) {
		return nil
	}
	indexes := p.Config().Indexes
	if t != nil && !slices.ContainsFunc(indexes, func(x catalog.Index) bool { return p.Schema().Attribute(x.Attribute) == t }) {
		if err := onlineschema.SetIndexes(ctx, p, append(slices.Clip(indexes), catalog.Index{Attribute: t.Name()})); err != nil {
			return err
		}
	}
	return onlineschema.SetUnique(ctx, p, []catalog.Unique{u}, true)
}
