package access

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// ErrPast reports that the rules cannot be applied to a state of the past, because a deny rule
// contains a word that the schema of that state does not define.
var ErrPast = errors.New("the access rules have no meaning in this state of the past")

// Past returns a program that decides what an identity may see of the entries of a past
// state, the argument then. It decides by the values and names that the entries had in that
// state. The program consists of two kinds of rules:
//   - the rules of the newest state, the argument now. Their places and targets have the
//     names that the entries had in the past state. A deny rule also applies with the
//     names that the entries have now.
//   - the deny rules of the past state whose places no longer exist.
//
// p is the identity's program in the newest state. The identity and its groups are taken
// from p, and the connection is c. Callers must show no more of the past than the returned
// program allows. Of entries that still exist, they must also show no more than p allows.
func (r *Rules) Past(ctx context.Context, then, now *partition.Snapshot, p *acl.Program, c acl.Connection) (*acl.Program, error) {
	set, err := r.pastSet(ctx, then, now)
	if err != nil {
		return nil, err
	}
	id := p.Identity()
	id.Connection = set.Asked(c)
	if then.Schema() != p.Schema() && id.Entry != nil {
		id.Entry = inSchema(id.Entry, then.Schema())
	}
	return set.Program(&id)
}

// inSchema returns an entry with the types of another schema. It leaves out attributes
// that the schema does not define.
func inSchema(e *entry.Entry, sch *schema.Schema) *entry.Entry {
	out := &entry.Entry{ID: e.ID}
	for _, a := range e.Attributes {
		if t := sch.Attribute(a.Type.OID); t != nil {
			out.Attributes = append(out.Attributes, entry.Attribute{Type: t, Options: a.Options, Values: a.Values})
		}
	}
	return out
}

// A pastKey identifies the rules for a state of the past.
type pastKey struct {
	now  *acl.Set
	then uint64 // the revision of the state
}

// maxPast is the number of past states whose rules are cached.
const maxPast = 16

func (r *Rules) pastSet(ctx context.Context, then, now *partition.Snapshot) (*acl.Set, error) {
	set, err := r.Set(ctx, now)
	if err != nil {
		return nil, err
	}
	key := pastKey{set, uint64(then.Revision())}
	cached := then.Ordinal() == 0 && now.Ordinal() != 0
	if w, ok := r.past.Get(key); ok && cached {
		gone, err := w.goneIn(ctx, now)
		if err != nil || slices.Equal(gone, w.gone) {
			return w.set, err
		}
	}
	w, err := wordsOf(ctx, then, now, set, r.lastPast.Load())
	if err != nil {
		return nil, err
	}
	if w.set == nil {
		placed, err := placedInPast(ctx, then, now, w.old)
		if err != nil {
			return nil, err
		}
		if w.set, err = setOf(then, placed); err != nil {
			return nil, err
		}
		r.lastPast.Store(w)
	}
	if cached {
		r.past.Set(key, w)
	}
	return w.set, nil
}

// pastWords is everything that the compiled rules for a past state depend on. Successive
// states mostly have equal pastWords. States with equal pastWords share one compiled set, and
// so share the decisions that the set caches.
type pastWords struct {
	now    *acl.Set // the rules of the newest state
	schema *schema.Schema
	since  table.Revision // the commit that made the settings of the past state
	old    []partition.AccessRule
	ids    []entry.ID // the places of the rules of both states, and the entries that these rules name
	names  []string   // the names that the entries in ids had in the past state
	gone   []bool     // for each rule in old: whether its place is deleted now
	set    *acl.Set   // the compiled rules; nil: not compiled yet
}

// wordsOf returns the pastWords of a past state, the argument then. If they equal last,
// wordsOf returns last, which also contains the compiled set.
func wordsOf(ctx context.Context, then, now *partition.Snapshot, set *acl.Set, last *pastWords) (w *pastWords, err error) {
	w = &pastWords{now: set, schema: then.Schema()}
	if w.since, err = then.Catalog.SettingsSince(ctx, then.Reader); err != nil {
		return nil, err
	}
	same := last != nil && last.now == set && last.schema == w.schema && last.since == w.since
	if same {
		w.old, w.ids = last.old, last.ids
	} else {
		if w.old, err = then.Catalog.AccessAt(ctx, then.Reader); err != nil {
			return nil, err
		}
		w.ids = entriesOf(slices.Concat(now.Catalog.Access.Rules, w.old))
	}
	for _, id := range w.ids {
		name, err := nameOf(ctx, then, id)
		if err != nil && !errors.Is(err, errGone) {
			return nil, err
		}
		w.names = append(w.names, name.String())
	}
	if w.gone, err = w.goneIn(ctx, now); err != nil {
		return nil, err
	}
	if same && slices.Equal(w.names, last.names) && slices.Equal(w.gone, last.gone) {
		return last, nil
	}
	return w, nil
}

// goneIn reports, for each rule in w.old, whether the place of the rule does not exist in a
// state.
func (w *pastWords) goneIn(ctx context.Context, now *partition.Snapshot) ([]bool, error) {
	gone := make([]bool, len(w.old))
	for i, rule := range w.old {
		there, err := exists(ctx, now, rule.Place)
		if err != nil {
			return nil, err
		}
		gone[i] = !there
	}
	return gone, nil
}

// entriesOf returns the places of rules, and the entries that rules name, each once.
func entriesOf(rules []partition.AccessRule) (ids []entry.ID) {
	for _, rule := range rules {
		ids = append(append(ids, rule.Place), named(rule)...)
	}
	slices.SortFunc(ids, entry.ID.Compare)
	ids = slices.Compact(ids)
	return slices.DeleteFunc(ids, func(id entry.ID) bool { return id == entry.Root })
}

// placedInPast returns the rules that the comment of Past describes. old are the rules of
// the past state.
func placedInPast(ctx context.Context, then, now *partition.Snapshot, old []partition.AccessRule) (all []acl.Placed, err error) {
	rules := now.Catalog.Access.Rules
	if rules == nil {
		if all, err = open(then.Schema()); err != nil {
			return nil, err
		}
	}
	had := map[string]bool{}
	add := func(names, who *partition.Snapshot, rule partition.AccessRule, deny bool) error {
		p, err := placeOf(ctx, names, who, rule)
		if errors.Is(err, errGone) {
			return nil
		}
		if err == nil && (p.Rule.Deny || !deny) && !had[p.String()] {
			had[p.String()] = true
			all = append(all, p)
		}
		return err
	}
	for _, rule := range rules {
		// A rule whose place no longer exists is not in force now.
		there, err := exists(ctx, now, rule.Place)
		if err == nil && there {
			err = errors.Join(add(then, now, rule, false), add(now, now, rule, true))
		}
		if err != nil {
			return nil, err
		}
	}
	for _, rule := range old {
		there, err := exists(ctx, now, rule.Place)
		if err == nil && !there {
			err = add(then, now, rule, true)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// exists reports whether a place exists in a state.
func exists(ctx context.Context, s *partition.Snapshot, place entry.ID) (bool, error) {
	if place == entry.Root {
		return true, nil
	}
	_, err := nameOf(ctx, s, place)
	if errors.Is(err, errGone) {
		return false, nil
	}
	return err == nil, err
}

// setOf compiles rules with the schema of a past state. It leaves out attributes that the
// schema does not define. It also leaves out an allow rule that contains any other word
// that the schema does not define.
func setOf(then *partition.Snapshot, rules []acl.Placed) (*acl.Set, error) {
	sch, contexts := then.Schema(), then.Catalog.ContextNames()
	if set, err := acl.NewSet(sch, contexts, rules); err == nil {
		return set, nil
	}
	var known []acl.Placed
	for _, p := range rules {
		if p.Rule = p.Rule.Known(sch); p.Rule == nil {
			continue
		}
		_, err := acl.NewSet(sch, contexts, []acl.Placed{p})
		switch {
		case err == nil:
			known = append(known, p)
		case p.Rule.Deny:
			return nil, fmt.Errorf("%w: %w", ErrPast, err)
		}
	}
	return acl.NewSet(sch, contexts, known)
}
