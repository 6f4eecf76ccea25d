package olc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/tools/aclimport/draft"
)

// A set contains the entries in a scope of a name. The scope is Only, Children, Under or
// Subtree. If open is set, values of the name may have wildcards and markers.
type set struct {
	scope acl.Scope
	name  dn.DN
	open  bool
}

// everywhere is the set of all entries.
var everywhere = set{scope: acl.Subtree}

func (s set) isAll() bool { return s.scope == acl.Subtree && len(s.name) == 0 }

// A region contains the entries of a set that match all filters, without the entries of the
// exceptions.
type region struct {
	set
	filters []filter.Filter
	except  []exception
}

// An exception contains the entries of a set that match the filter. A nil filter matches
// all entries.
type exception struct {
	set
	filter filter.Filter
}

func (s set) key() string {
	return fmt.Sprintf("%d %t %q", s.scope, s.open, strings.ToLower(s.name.String()))
}

func (r region) key() string {
	text := r.set.key()
	for _, f := range r.filters {
		text += " " + f.String()
	}
	for _, e := range r.except {
		text += " -" + e.key()
		if e.filter != nil {
			text += e.filter.String()
		}
	}
	return text
}

// intersect returns the entries that are in both sets. The result some is false if there
// are no such entries, and known is false if rules have no words for them.
func intersect(sch *schema.Schema, a, b set) (both set, some, known bool) {
	if len(a.name) > len(b.name) || len(a.name) == len(b.name) && b.isAll() {
		a, b = b, a
	}
	if a.open || b.open {
		return intersectOpen(sch, a, b)
	}
	below := len(b.name) - len(a.name)
	if !draft.Within(sch, b.name, a.name) {
		return set{}, false, true
	}
	if below == 0 {
		s, some := intersectScopes(a.scope, b.scope)
		return set{scope: s, name: a.name}, some, true
	}
	switch {
	case a.scope == acl.Subtree || a.scope == acl.Under:
		return b, true, true
	case a.scope == acl.Children && below == 1 && (b.scope == acl.Only || b.scope == acl.Subtree):
		return set{scope: acl.Only, name: b.name}, true, true
	}
	return set{}, false, true
}

func intersectScopes(a, b acl.Scope) (acl.Scope, bool) {
	switch {
	case a == acl.Subtree:
		return b, true
	case b == acl.Subtree || a == b:
		return a, true
	case a != acl.Only && b != acl.Only: // one is Children, the other Under
		return acl.Children, true
	}
	return 0, false
}

// intersectOpen returns the entries that are in both sets. At least one of the sets has
// wildcards. The name of a must not be longer than the name of b.
func intersectOpen(sch *schema.Schema, a, b set) (both set, some, known bool) {
	if a.key() == b.key() {
		return a, true, true
	}
	if !a.open && draft.Within(sch, b.name, a.name) && (a.scope == acl.Subtree || a.scope == acl.Under && len(b.name) > len(a.name)) {
		return b, true, true
	}
	if apart(sch, a, b) {
		return set{}, false, true
	}
	return set{}, true, false
}

// apart returns true only if two sets certainly have no entry in common: their names end
// with different RDNs that have no wildcards, or their entries have different depths.
func apart(sch *schema.Schema, a, b set) bool {
	for i := 1; i <= min(len(a.name), len(b.name)); i++ {
		x, y := a.name[len(a.name)-i:len(a.name)-i+1], b.name[len(b.name)-i:len(b.name)-i+1]
		if !strings.ContainsAny(x.String()+y.String(), "*"+marker) && !draft.Same(sch, x, y) {
			return true
		}
	}
	// If the set with the shorter name has the scope Only, its only entry is above the depth
	// of all entries of the other set.
	return len(a.name) < len(b.name) && a.scope == acl.Only || len(b.name) < len(a.name) && b.scope == acl.Only
}

// contains returns true only if a certainly contains each entry of b.
func (a region) contains(sch *schema.Schema, b region) bool {
	both, some, known := intersect(sch, a.set, b.set)
	if !some || !known || both.key() != b.set.key() {
		return false
	}
	for _, f := range a.filters {
		if !slices.ContainsFunc(b.filters, func(g filter.Filter) bool { return f.String() == g.String() }) {
			return false
		}
	}
	for _, e := range a.except {
		if _, some, known := intersect(sch, e.set, b.set); !some && known {
			continue
		}
		same := func(o exception) bool {
			return o.key() == e.key() && (o.filter == nil || e.filter != nil && o.filter.String() == e.filter.String())
		}
		if !slices.ContainsFunc(b.except, same) {
			return false
		}
	}
	return true
}

// The method "and" returns the entries that are in both regions.
func (r region) and(sch *schema.Schema, o region) (both region, some, known bool) {
	both.set, some, known = intersect(sch, r.set, o.set)
	if !some || !known {
		return both, some, known
	}
	both.filters = slices.Clone(r.filters)
	for _, f := range o.filters {
		both = both.narrow(f)
	}
	both.except = slices.Clone(r.except)
	for _, e := range o.except {
		both = both.without(sch, e)
	}
	return both, !both.isEmpty(sch), true
}

func (r region) narrow(f filter.Filter) region {
	if !slices.ContainsFunc(r.filters, func(g filter.Filter) bool { return f.String() == g.String() }) {
		r.filters = append(slices.Clone(r.filters), f)
	}
	return r
}

// without returns the region without the entries of an exception.
func (r region) without(sch *schema.Schema, e exception) region {
	if _, some, known := intersect(sch, r.set, e.set); !some && known {
		return r
	}
	same := func(o exception) bool {
		return o.key() == e.key() && fmt.Sprint(o.filter) == fmt.Sprint(e.filter)
	}
	if !slices.ContainsFunc(r.except, same) {
		r.except = append(slices.Clone(r.except), e)
	}
	return r
}

// isEmpty returns true only if an exception certainly contains all entries of the region.
func (r region) isEmpty(sch *schema.Schema) bool {
	return slices.ContainsFunc(r.except, func(e exception) bool {
		return e.filter == nil && (region{set: e.set}).contains(sch, region{set: r.set})
	})
}

// The method "below" returns the entries whose parents are in the region. It returns false if
// rules have no words for these entries.
func (r region) below() (region, bool) {
	if len(r.filters) > 0 {
		return r, false
	}
	out := region{set: r.set}
	switch r.scope {
	case acl.Only:
		out.scope = acl.Children
	case acl.Subtree:
		if len(r.name) > 0 {
			out.scope = acl.Under
		}
	case acl.Children, acl.Under:
		out.scope = acl.Under
		out.except = append(out.except, exception{set: set{acl.Children, r.name, r.open}})
		if r.scope == acl.Children {
			return r, false
		}
	}
	for _, e := range r.except {
		shifted, ok := region{set: e.set}.below()
		if e.filter != nil || !ok || len(shifted.except) > 0 {
			return r, false
		}
		out.except = append(out.except, exception{set: shifted.set})
	}
	return out, true
}

// The method "what" returns the region as rules write it, relative to a place. It returns false
// if the region has no entry at or below the place.
func (r region) what(sch *schema.Schema, place dn.DN) (*acl.What, bool) {
	var w *acl.What
	t, all, some := r.set.target(sch, place)
	if !some {
		return nil, false
	}
	if !all {
		w = &acl.What{Any: []acl.Target{t}}
	}
	for _, f := range r.filters {
		w = draft.Narrow(w, f)
	}
	for _, e := range r.except {
		t, all, some := e.set.target(sch, place)
		switch {
		case !some:
			continue
		case all && e.filter == nil:
			return nil, false
		}
		t.Filter = e.filter
		w = draft.Without(w, t)
	}
	return w, true
}

// target returns a set as a target relative to a place. The result all means that the
// target is everything at and below the place, and some is false if the set has no entry
// there.
func (s set) target(sch *schema.Schema, place dn.DN) (t acl.Target, all, some bool) {
	if len(s.name) < len(place) || !draft.Within(sch, s.name, place) {
		above := draft.Within(sch, place, s.name)
		depth := len(place) - len(s.name)
		switch {
		case !above || s.scope == acl.Only || s.scope == acl.Children && depth > 1:
			return t, false, false
		case s.scope == acl.Children && len(s.name) > 0:
			return acl.Target{Scope: acl.This}, false, true
		}
		return t, true, true
	}
	rel := s.name[:len(s.name)-len(place)]
	t.Scope = s.scope
	if t.Pattern = acl.EscapeName(rel.String()); s.open {
		t.Pattern = strings.ReplaceAll(rel.String(), "{", `\7b`)
	}
	if len(rel) == 0 {
		if s.scope == acl.Only {
			t.Scope = acl.This
		}
		return t, s.scope == acl.Subtree, true
	}
	return t, false, true
}
