package foreign

import (
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
)

// Fit turns the drafts into rules that a directory accepts. It leaves out identities that
// the directory does not have. It also leaves out attributes that the schema does not
// define, because no entry has them. If nothing is left of a rule, or if the directory
// refuses the rule for another reason, Fit moves the rule to Refused.
func (im *Import) Fit() error {
	for _, x := range im.Originals {
		var kept []acl.Placed
		for _, r := range x.Rules {
			reason, err := im.fit(x, &r)
			if err != nil {
				return err
			}
			if reason != "" {
				x.Refused = append(x.Refused, Refused{r, reason})
				continue
			}
			kept = append(kept, r)
		}
		x.Rules = kept
	}
	return nil
}

// A Refused is a rule that the directory does not accept.
type Refused struct {
	Rule   acl.Placed
	Reason string
}

func (im *Import) fit(x *Original, r *acl.Placed) (reason string, err error) {
	if len(r.Place) > 0 {
		if there, err := im.Exists(r.Place); err != nil || !there {
			return "there is no entry at which it would stand", err
		}
	}
	rule := *r.Rule
	var missing []string
	for _, list := range []*[]acl.Term{&rule.Who.Any, &rule.Who.Except} {
		var kept []acl.Term
		for _, t := range *list {
			gone, err := missingName(t, im.Exists)
			if err != nil {
				return "", err
			}
			if gone == "" {
				kept = append(kept, t)
			} else if !slices.Contains(missing, gone) {
				missing = append(missing, gone)
			}
		}
		*list = kept
	}
	if len(rule.Who.Any) == 0 {
		return "there is no entry " + strings.Join(missing, ", nor "), nil
	}
	unknown := im.prune(&rule)
	r.Rule = &rule
	if len(rule.Parts) == 0 {
		return "the schema does not define " + strings.Join(unknown, ", "), nil
	}
	if err := im.accepts(*r); err != nil {
		return strings.TrimPrefix(err.Error(), "rule "+r.Label()+": "), nil
	}
	for _, n := range missing {
		x.Hints = append(x.Hints, "left out: "+n+", which no entry has as its name")
	}
	for _, n := range unknown {
		x.Hints = append(x.Hints, "left out: "+n+", which the schema does not define")
	}
	return "", nil
}

// accepts returns an error if the directory does not accept a rule.
func (im *Import) accepts(r acl.Placed) error {
	if im.Accepts != nil {
		return im.Accepts(r)
	}
	_, err := acl.NewSet(im.Schema, im.Contexts, []acl.Placed{r})
	return err
}

// missingName returns a name that a term contains although no entry has this name.
func missingName(t acl.Term, exists func(dn.DN) (bool, error)) (string, error) {
	for _, s := range t {
		if s.Kind != acl.Named && s.Kind != acl.Group || strings.ContainsAny(s.Name, "*{") {
			continue
		}
		d, err := dn.Parse(s.Name)
		if err != nil {
			return s.Name, nil
		}
		if there, err := exists(d); err != nil || !there {
			return s.Name, err
		}
	}
	return "", nil
}

// prune removes the attributes that the schema does not define, and then the parts that
// have no attributes left.
func (im *Import) prune(r *acl.Rule) (unknown []string) {
	known := func(all []acl.Attribute) (kept []acl.Attribute) {
		for _, a := range all {
			name := strings.TrimPrefix(a.Description, "@")
			t, _ := im.Schema.Describe(name)
			switch {
			case a.Description == "*", a.Description == "+", t != nil, name != a.Description && im.Schema.Class(name) != nil:
				kept = append(kept, a)
			case !slices.Contains(unknown, a.Description):
				unknown = append(unknown, a.Description)
			}
		}
		return kept
	}
	var parts []acl.Part
	for _, p := range r.Parts {
		if p.Rights&acl.Use != 0 || len(p.Attributes) == 0 {
			parts = append(parts, p)
			continue
		}
		if p.Attributes, p.Except = known(p.Attributes), known(p.Except); len(p.Attributes) > 0 {
			parts = append(parts, p)
		}
	}
	r.Parts = parts
	return unknown
}
