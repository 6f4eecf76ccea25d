package auth

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// A Rule maps names of clients to entries. Its text is
//
//	PATTERN -> DN
//	PATTERN -> dn:DN
//	PATTERN -> ldap:///BASE??SCOPE?FILTER
//
// The pattern is a regular expression for a whole name. A name is "u:" followed by the
// name in a SASL message or an authorization identity (RFC 4513, 5.2.1.8), or one of the
// names that [ExternalNames] returns. In the DN or the URL, $1 or ${name} is replaced by
// the text that the group of the pattern matched. The text is escaped as a value, so it
// cannot change the structure of the DN or the filter. Only text from a name of the kind
// "dn:" is inserted into a DN without escapes, because it already has the form of DNs.
//
// In a rule with "dn:", there need not be an entry with the DN. Such a rule never makes a client
// the administrator: a client that the rule maps to the administrator's DN has no identity.
//
// The search that a URL describes must find exactly one entry. If the base is empty, the
// search covers all naming contexts. The default scope is sub.
type Rule struct {
	text    string
	pattern *regexp.Regexp
	name    string // the DN, or the base of the search
	bare    bool   // there need not be an entry with the DN
	search  bool
	scope   op.Scope
	filter  string
}

// DefaultRules returns a list with one rule, which maps a name to the entry whose uid is the
// name.
func DefaultRules() []*Rule {
	r, err := ParseRule(DefaultRule)
	if err != nil {
		panic(err) // the text is a constant
	}
	return []*Rule{r}
}

// DefaultRule is the text of the rule in DefaultRules.
const DefaultRule = "u:(.+) -> ldap:///??sub?(uid=$1)"

// A Target is the result of a Rule for a name: the entry with a DN, a DN without an
// entry, or the entry that a search finds.
type Target struct {
	Name   dn.DN // the DN, or the base of the search
	Bare   bool  // there need not be an entry with the DN
	Search bool
	Scope  op.Scope
	Filter filter.Filter
}

// ParseRule parses a rule.
func ParseRule(text string) (*Rule, error) {
	pattern, to, ok := strings.Cut(text, " -> ")
	if !ok {
		return nil, fmt.Errorf("the rule %q is not PATTERN -> DN, PATTERN -> dn:DN or PATTERN -> ldap:///BASE??SCOPE?FILTER", text)
	}
	r := &Rule{text: text}
	var err error
	if r.pattern, err = regexp.Compile(`^(?:` + strings.TrimSpace(pattern) + `)$`); err != nil {
		return nil, fmt.Errorf("the rule %q: %v", text, err)
	}
	if err := r.parseTarget(strings.TrimSpace(to)); err != nil {
		return nil, fmt.Errorf("the rule %q: %v", text, err)
	}
	return r, r.check()
}

var scopes = map[string]op.Scope{"": op.WholeSubtree, "base": op.BaseObject, "one": op.SingleLevel, "sub": op.WholeSubtree}

func (r *Rule) parseTarget(to string) error {
	rest, isURL := strings.CutPrefix(to, "ldap:///")
	if !isURL {
		r.name, r.bare = strings.CutPrefix(to, "dn:")
		return nil
	}
	parts := strings.Split(rest, "?")
	if len(parts) != 4 || parts[1] != "" {
		return fmt.Errorf("the URL must be ldap:///BASE??SCOPE?FILTER")
	}
	for i := range parts {
		var err error
		if parts[i], err = url.PathUnescape(parts[i]); err != nil {
			return err
		}
	}
	scope, ok := scopes[parts[2]]
	if !ok {
		return fmt.Errorf("the scope %q is none of base, one, sub", parts[2])
	}
	r.search, r.name, r.scope, r.filter = true, parts[0], scope, parts[3]
	return nil
}

// check checks that the results of the rule are valid names and filters, and that the
// pattern has all groups that the results use.
func (r *Rule) check() error {
	groups := r.pattern.SubexpNames()
	missing := ""
	for _, template := range []string{r.name, r.filter} {
		os.Expand(template, func(group string) string {
			if n, err := strconv.Atoi(group); slices.Index(groups, group) < 1 && (err != nil || n >= len(groups)) {
				missing = group
			}
			return ""
		})
	}
	if missing != "" {
		return fmt.Errorf("the rule %q: its pattern has no group $%s", r.text, missing)
	}
	// In a name of the kind "dn:", a group of the pattern may match a DN, so the second test
	// inserts a DN.
	_, err := r.target("u:x", slices.Repeat([]string{"x"}, len(groups)))
	if _, asDN := r.target("dn:x", slices.Repeat([]string{"cn=x"}, len(groups))); err != nil && asDN != nil {
		return fmt.Errorf("the rule %q: %v", r.text, err)
	}
	return nil
}

// Apply returns the target for a name. It returns false if the rule does not match, or if
// the resulting DN or filter is invalid.
func (r *Rule) Apply(name string) (Target, bool) {
	matched := r.pattern.FindStringSubmatch(name)
	if matched == nil {
		return Target{}, false
	}
	t, err := r.target(name, matched)
	return t, err == nil
}

func (r *Rule) target(name string, matched []string) (t Target, err error) {
	inName := escapeDN
	if strings.HasPrefix(name, "dn:") {
		inName = func(s string) string { return s }
	}
	if t.Name, err = dn.Parse(r.expand(r.name, matched, inName)); err != nil {
		return t, err
	}
	if !r.search {
		if len(t.Name) == 0 {
			err = errors.New("nobody has an empty name")
		}
		t.Bare = r.bare
		return t, err
	}
	t.Search, t.Scope = true, r.scope
	t.Filter, err = filter.Parse(r.expand(r.filter, matched, escapeFilter))
	return t, err
}

func (r *Rule) expand(template string, matched []string, escape func(string) string) string {
	return os.Expand(template, func(group string) string {
		i := r.pattern.SubexpIndex(group)
		if n, err := strconv.Atoi(group); err == nil {
			i = n
		}
		return escape(matched[i])
	})
}

// escapeDN escapes a value for a DN (RFC 4514, 2.4).
func escapeDN(s string) string {
	return strings.TrimPrefix(dn.RDN{{Type: "v", Value: []byte(s)}}.String(), "v=")
}

// escapeFilter escapes a value for a filter (RFC 4515, 3).
var escapeFilter = strings.NewReplacer(`\`, `\5c`, `*`, `\2a`, `(`, `\28`, `)`, `\29`, "\x00", `\00`).Replace

// Find returns the target of the first rule that matches any of the names.
func Find(rules []*Rule, names ...string) (Target, bool) {
	for _, r := range rules {
		for _, name := range names {
			if t, ok := r.Apply(name); ok {
				return t, true
			}
		}
	}
	return Target{}, false
}
