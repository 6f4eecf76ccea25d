package settings

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// Limits bound what one operation or one connection may use. Zero means unlimited.
type Limits struct {
	Size        int           // entries of a search
	Time        time.Duration // duration of a search
	Candidates  int           // entries and rows that a search reads
	Page        int           // entries of a page (RFC 2696) or of a list's view
	SortMemory  int64         // memory of a sorted search, in bytes
	Outstanding int           // operations that run at once on a connection
}

// A LimitRule sets the limits of the identities in Who. Who is "anonymous", "users" (every
// bound identity except the administrator), "administrator", "dn:NAME" or "subtree:NAME".
type LimitRule struct {
	Who string
	Limits
}

// limitRule is a LimitRule that is ready to use. The function matches tests an identity and the
// identity's normalised name.
type limitRule struct {
	matches func(i *Identity, name []dn.Norm) bool
	limits  *Limits
}

var Unlimited Limits

// limitRules prepares the configured rules. It appends a rule without limits for the
// administrator, and a rule with set.Limits for everyone else.
func limitRules(set *Settings, s *schema.Schema) ([]limitRule, error) {
	rules := set.LimitRules
	var prepared []limitRule
	for i := range rules {
		matches, err := limitedBy(rules[i].Who, s)
		if err != nil {
			return nil, fmt.Errorf("limits for %q: %w", rules[i].Who, err)
		}
		prepared = append(prepared, limitRule{matches, &rules[i].Limits})
	}
	everyone := func(*Identity, []dn.Norm) bool { return true }
	return append(prepared,
		limitRule{func(i *Identity, _ []dn.Norm) bool { return i.IsAdmin() }, &Unlimited},
		limitRule{everyone, &set.Limits}), nil
}

func limitedBy(who string, s *schema.Schema) (func(*Identity, []dn.Norm) bool, error) {
	switch who {
	case "anonymous":
		return func(i *Identity, _ []dn.Norm) bool { return i == nil }, nil
	case "users":
		return func(i *Identity, _ []dn.Norm) bool { return i != nil && !i.Admin }, nil
	case "administrator":
		return func(i *Identity, _ []dn.Norm) bool { return i.IsAdmin() }, nil
	}
	kind, text, _ := strings.Cut(who, ":")
	name, key, err := ParseName(text, s)
	if err != nil || len(name) == 0 || kind != "dn" && kind != "subtree" {
		return nil, fmt.Errorf("not anonymous, users, administrator, dn:NAME or subtree:NAME")
	}
	top := len(name)
	return func(_ *Identity, name []dn.Norm) bool {
		below := len(name) - top
		return below >= 0 && (below == 0 || kind == "subtree") && string(dn.Key(name[below:])) == key
	}, nil
}

// LimitsOf returns the limits of an identity, which the first matching rule sets. It caches
// the limits in the identity. The cached limits are valid while these settings are in force.
func (set *Settings) LimitsOf(i *Identity, s *schema.Schema) *Limits {
	if i == nil {
		return set.anonymous
	}
	if l := i.limits.Load(); l != nil && l.of == set {
		return l.Limits
	}
	l := set.findLimits(i, s)
	i.limits.Store(&foundLimits{l, set})
	return l
}

// foundLimits are the limits of an identity under some settings.
type foundLimits struct {
	*Limits
	of *Settings
}

func (set *Settings) findLimits(i *Identity, s *schema.Schema) *Limits {
	var name []dn.Norm
	if i != nil {
		if parsed, err := i.Name.DN(); err == nil {
			name, _ = parsed.Normalize(s) // nil matches no name
		}
	}
	for _, r := range set.rules {
		if r.matches(i, name) {
			return r.limits
		}
	}
	return &set.Limits
}

// SortBytes returns how much memory a sorted search may use.
func (l *Limits) SortBytes() int64 {
	if l.SortMemory == 0 {
		return math.MaxInt64
	}
	return l.SortMemory
}

// SortBytesText returns the diagnostic for a sorted search that needs more memory than
// SortBytes.
func (l *Limits) SortBytesText() string {
	return fmt.Sprintf("too many entries for the limit on sort memory, %d bytes: narrow the search, or sort by one attribute that is indexed", l.SortMemory)
}

// Smaller returns the smaller one of the limit that a client requests and the server's
// limit. Zero means no limit.
func Smaller[T int | time.Duration](asked, most T) T {
	if most > 0 && (asked == 0 || most < asked) {
		return most
	}
	return asked
}
