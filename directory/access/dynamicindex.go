package access

import (
	"slices"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// A demands is an index that finds dynamic groups by values that their members must have. Most
// searches of dynamic groups require one value of an attribute. So even with a thousand
// groups, only few of them are tested for an entry.
type demands struct {
	byKey map[*schema.AttributeType]map[string][]int // indexes of groups, by the key of the value that a URL demands
	rest  []int                                      // groups with a URL that demands no value
}

// add adds the group g, whose index in DynamicGroups.groups is i.
func (d *demands) add(i int, g *DynamicGroup) {
	for k := range g.URLs {
		t := demanded(g.URLs[k].Filter)
		if t == nil {
			d.rest = append(d.rest, i)
			continue
		}
		for _, typ := range t.Types {
			if d.byKey == nil {
				d.byKey = map[*schema.AttributeType]map[string][]int{}
			}
			if d.byKey[typ] == nil {
				d.byKey[typ] = map[string][]int{}
			}
			d.byKey[typ][string(t.Key)] = append(d.byKey[typ][string(t.Key)], i)
		}
	}
}

// demanded returns an equality test that holds for every entry that matches the filter, or
// nil if none is known. It avoids objectClass, because most entries share the values of
// objectClass.
func demanded(f filter.Resolved) (found *filter.Test) {
	parts := []filter.Resolved{f}
	if and, ok := f.(*filter.AndNode); ok {
		parts = and.Parts
	}
	for _, p := range parts {
		t, ok := p.(*filter.Test)
		if !ok || t.Op != filter.TestEqual || !t.ByKey || t.DNAttrs || len(t.Types) == 0 {
			continue
		}
		if found = t; t.Types[0].Name() != "objectClass" {
			break
		}
	}
	return found
}

// candidates returns the indexes of the groups that an entry may be in, sorted.
func (d *demands) candidates(src *filter.EntrySource) []int {
	all := slices.Clone(d.rest)
	for t, groups := range d.byKey {
		src.AnyKey(t, "", func(key []byte) bool {
			all = append(all, groups[string(key)]...)
			return false
		})
	}
	slices.Sort(all)
	return slices.Compact(all)
}
