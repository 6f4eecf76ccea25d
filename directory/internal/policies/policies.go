// Package policies finds the password policy of an entry, and explains the choice.
package policies

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/seed-4dac0d86/ldapd/directory/access"
	"github.com/seed-4dac0d86/ldapd/directory/account"
	"github.com/seed-4dac0d86/ldapd/directory/internal/wellknown"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/bounded"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// Cache contains the policies of a directory, and caches which policy applies to which
// entry.
type Cache struct {
	set   atomic.Pointer[Set]
	found bounded.Cache[entry.ID, *finding]
	log   *slog.Logger
}

// remembered is the largest number of entries whose policy is cached.
const remembered = 1 << 16

// NewCache returns an empty Cache.
func NewCache(log *slog.Logger) *Cache {
	return &Cache{found: bounded.New[entry.ID, *finding](remembered, nil), log: log}
}

// A Set contains the policies of a state. It is also used for other states that have the
// same policies.
type Set struct {
	schema *schema.Schema
	asOf   uint64
	all    []*placed
	// standard is the policy of entries that no other policy applies to, or nil.
	standard *account.Policy
	settings *catalog.DefaultPolicy // the settings from which the field standard was made
	counts   bool                   // at least one policy counts failures
	ignore   int                    // the largest number of old passwords that a policy ignores
}

// IgnoreOld returns the largest number of old passwords that a policy ignores.
func (set *Set) IgnoreOld() int {
	if set == nil {
		return 0
	}
	return set.ignore
}

// Counts reports whether any policy counts failures.
func (set *Set) Counts() bool { return set != nil && set.counts }

// placed is a policy. If the policy is a subentry, placed also describes the entries that
// the policy applies to.
type placed struct {
	id       entry.ID
	policy   *account.Policy
	point    []dn.Norm // the entry above the subentry
	subtrees []*schema.Subtree
	audience *access.Audience // nil: everybody
}

// Found is a policy and the reason why it applies.
type Found struct {
	Policy *account.Policy
	Why    string
}

// finding is the cached result for an entry.
type finding struct {
	Found
	set   *Set
	asOf  uint64
	still []func(*partition.Snapshot) bool
}

// Set returns the policies of a state. If there is no default policy and HasClass reports that
// no entry is a policy, Set returns nil without a search.
func (c *Cache) Set(ctx context.Context, s *partition.Snapshot, k *wellknown.Elements) (*Set, error) {
	if k.Policy == nil {
		return nil, nil
	}
	settings := s.Catalog.Policy
	set := c.set.Load()
	if set != nil && set.schema == k.Schema && set.settings == settings && state.SameClass(k.Policy, s, set.asOf) && s.SameNames(set.asOf) {
		return set, nil
	}
	if has, err := search.HasClass(ctx, s, k.Policy); err != nil || !has && settings == nil {
		return nil, err
	}
	set, err := read(ctx, s, k, c.log)
	if err == nil && set.asOf != 0 {
		c.set.Store(set)
	}
	return set, err
}

// read reads the policies of a state.
func read(ctx context.Context, s *partition.Snapshot, k *wellknown.Elements, log *slog.Logger) (*Set, error) {
	set := &Set{schema: k.Schema, asOf: s.Ordinal(), settings: s.Catalog.Policy}
	if set.settings != nil {
		p, err := parseDefault(set.settings.Attributes)
		if err != nil {
			warn(log, catalog.ConfigName, err)
		}
		set.standard = p
		set.take(p)
	}
	for found, err := range search.Search(ctx, s, partition.Query{Base: entry.Root, Scope: op.WholeSubtree, Filter: k.IsPolicy}) {
		if err != nil {
			return nil, err
		}
		p, err := place(s, k, found)
		if err != nil {
			warn(log, found.Name.String(), err)
		}
		set.all = append(set.all, p)
		set.take(p.policy)
	}
	return set, nil
}

func warn(log *slog.Logger, name string, err error) {
	log.Warn("a password policy says what cannot be; the rest of it counts", "dn", name, "error", err)
}

// take records what a policy requires of attempts on all accounts, whichever policy applies
// to them.
func (set *Set) take(p *account.Policy) {
	set.counts = set.counts || p.Counts()
	set.ignore = max(set.ignore, p.IgnoreOld)
}

// place reads one policy from its entry. If some values are invalid, place returns the
// policy without these values, and an error that describes them.
func place(s *partition.Snapshot, k *wellknown.Elements, found *partition.Result) (*placed, error) {
	p := &placed{id: found.ID}
	var bad error
	p.policy, bad = Parse(k, found.Name.String(), found.Entry)
	name, err := found.Name.DN()
	if err != nil || len(name) == 0 || !k.Is(found.Entry, k.Subentry) {
		return p, errors.Join(bad, err)
	}
	if p.point, err = name.Parent().Normalize(k.Schema); err != nil {
		return p, errors.Join(bad, err)
	}
	if len(p.policy.For) > 0 {
		if p.audience, err = access.NewAudience(k.Schema, s.Catalog.ContextNames(), p.policy.For); err != nil {
			return p, errors.Join(bad, fmt.Errorf("pwdPolicyFor: %w", err)) // the policy applies to nobody
		}
	}
	for _, v := range found.Entry.Values(k.SubtreeSpecification) {
		sub, err := k.Schema.ParseSubtree(v)
		if err != nil {
			return p, errors.Join(bad, fmt.Errorf("subtreeSpecification: %w", err))
		}
		p.subtrees = append(p.subtrees, sub)
	}
	return p, bad
}

// Parse reads the settings of a policy from the policy's entry.
func Parse(k *wellknown.Elements, name string, e *entry.Entry) (*account.Policy, error) {
	return account.Parse(name, func(attribute string) (values []string) {
		if t := k.Schema.Attribute(attribute); t != nil {
			for _, v := range e.Values(t) {
				values = append(values, string(v))
			}
		}
		return values
	})
}

// Check returns an error if an entry is a policy with invalid values.
func Check(s *partition.Snapshot, k *wellknown.Elements, name *dn.Name, e *entry.Entry) error {
	if k.Policy == nil || e == nil || !k.Is(e, k.Policy) {
		return nil
	}
	_, err := place(s, k, &partition.Result{Located: partition.Located{ID: e.ID, Name: name}, Entry: e})
	return err
}

// Of returns the policy of an entry. The Policy in the result is nil if no policy
// applies.
func (c *Cache) Of(ctx context.Context, s *partition.Snapshot, k *wellknown.Elements, at partition.Located) (Found, error) {
	set, err := c.Set(ctx, s, k)
	if err != nil {
		return Found{}, err
	}
	return c.In(ctx, s, k, set, at)
}

// In is like Of. The caller passes the policies of the state, which c.Set returns.
func (c *Cache) In(ctx context.Context, s *partition.Snapshot, k *wellknown.Elements, set *Set, at partition.Located) (Found, error) {
	if set == nil {
		return Found{}, nil
	}
	if f, ok := c.found.Get(at.ID); ok && f.of(s, set, at.ID) {
		return f.Found, nil
	}
	e, err := s.Some(ctx, at.ID, append(slices.Clone(k.Account.All), k.ObjectClass))
	if err != nil || e == nil {
		return Found{}, err
	}
	f := &finding{set: set, asOf: s.Ordinal()}
	if err := f.find(ctx, s, k, at, e); err != nil {
		return Found{}, err
	}
	if f.asOf != 0 {
		c.found.Set(at.ID, f)
	}
	return f.Found, nil
}

// OfNew returns the policy that will apply to a new entry.
func (c *Cache) OfNew(ctx context.Context, s *partition.Snapshot, k *wellknown.Elements, name dn.DN, e *entry.Entry) (Found, error) {
	set, err := c.Set(ctx, s, k)
	if err != nil || set == nil {
		return Found{}, err
	}
	f := &finding{set: set}
	err = f.find(ctx, s, k, partition.Located{Name: dn.NameOf(name)}, e)
	return f.Found, err
}

// The method "of" reports whether the finding is still valid for the entry with the given id, in
// the state s with the policies in set.
func (f *finding) of(s *partition.Snapshot, set *Set, id entry.ID) bool {
	return f.set == set && s.Unchanged(id, f.asOf) && s.SameNames(f.asOf) &&
		!slices.ContainsFunc(f.still, func(still func(*partition.Snapshot) bool) bool { return !still(s) })
}

func (f *finding) find(ctx context.Context, s *partition.Snapshot, k *wellknown.Elements, at partition.Located, e *entry.Entry) error {
	named, err := f.named(ctx, s, k, e)
	if err != nil || named {
		return err
	}
	name, err := at.Name.DN()
	if err != nil {
		return err
	}
	norms, err := name.Normalize(k.Schema)
	if err != nil {
		return err
	}
	var holding []account.Holding
	for _, p := range f.set.all {
		in, err := f.holds(ctx, s, p, at, norms, func(class string) bool { return k.HasClass(e, class) })
		if err != nil {
			return err
		}
		if in {
			holding = append(holding, account.Holding{Policy: p.policy, Depth: len(p.point)})
		}
	}
	if h := account.Pick(holding); h != nil {
		f.Policy, f.Why = h.Policy, why(h, holding)
	} else if f.set.standard != nil {
		f.Policy, f.Why = f.set.standard, "the default, as no other one holds here"
	}
	return nil
}

const namedByEntry = "named by the entry"

// named sets the finding to the policy that the entry itself names, and reports whether
// the entry names a policy.
func (f *finding) named(ctx context.Context, s *partition.Snapshot, k *wellknown.Elements, e *entry.Entry) (bool, error) {
	values := e.Values(k.Account.Policy)
	if k.Account.Policy == nil || len(values) == 0 {
		return false, nil
	}
	name, err := dn.Parse(string(values[0]))
	if err != nil {
		return false, nil
	}
	if f.set.standard != nil && catalog.IsConfig(name) {
		f.Policy, f.Why = f.set.standard, namedByEntry
		return true, nil
	}
	at, err := s.Find(ctx, name)
	if partition.Is(err, partition.NoSuchEntry) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, p := range f.set.all {
		if p.id == at.ID {
			f.Policy, f.Why = p.policy, namedByEntry
			return true, nil
		}
	}
	return false, nil
}

// holds reports whether a policy applies to an entry. The name and classes of the entry must
// be in one of the policy's subtrees, and the entry must be in the policy's audience, if the
// policy has one.
func (f *finding) holds(ctx context.Context, s *partition.Snapshot, p *placed, at partition.Located, norms []dn.Norm, is func(string) bool) (bool, error) {
	n := len(norms) - len(p.point)
	if len(p.subtrees) == 0 || n < 0 || !slices.Equal(norms[n:], p.point) ||
		!slices.ContainsFunc(p.subtrees, func(t *schema.Subtree) bool { return t.Holds(norms[:n], is) }) {
		return false, nil
	}
	if p.audience == nil {
		return true, nil
	}
	has, still, err := p.audience.Has(ctx, s, at.Name, at.ID)
	f.still = append(f.still, still)
	return has, err
}

// The function "why" explains why the policy h was chosen among all policies that apply to an
// entry.
func why(h *account.Holding, all []account.Holding) string {
	lower := func(a account.Holding) bool { return a.Policy.Priority > h.Policy.Priority }
	further := func(a account.Holding) bool { return a.Depth < h.Depth }
	switch {
	case len(all) == 1:
		return "the only one that holds here"
	case count(all, lower) == len(all)-1:
		return "the lowest pwdPriority"
	case count(all, further) > 0 && count(all, func(a account.Holding) bool { return a.Depth == h.Depth }) == 1:
		return "the nearest subentry"
	}
	return "the first by name"
}

func count(all []account.Holding, is func(account.Holding) bool) (n int) {
	for _, a := range all {
		if is(a) {
			n++
		}
	}
	return n
}
