package acl_test

import (
	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// An outcome is the range of results that the documentation allows for a filter. For a single
// test, least and most differ in one case: the identity may search every value of the test
// vocabulary, but the text of the rules does not grant the right to search all values. In this
// case the result may be False or Undefined.
type outcome struct{ least, most filter.Tri }

func exactly(t filter.Tri) outcome { return outcome{t, t} }

// guarded returns the results that a filter may have for a visible entry. Apart from
// (objectClass=*) and tests of the entry's name, only a value that the identity may search can
// make a test True.
func (j *judge) guarded(f filter.Resolved) outcome {
	switch f := f.(type) {
	case *filter.AndNode:
		all := exactly(filter.True)
		for _, p := range f.Parts {
			one := j.guarded(p)
			all = outcome{min(all.least, one.least), min(all.most, one.most)}
		}
		return all
	case *filter.OrNode:
		all := exactly(filter.False)
		for _, p := range f.Parts {
			one := j.guarded(p)
			all = outcome{max(all.least, one.least), max(all.most, one.most)}
		}
		return all
	case *filter.NotNode:
		one := j.guarded(f.Part)
		return outcome{-one.most, -one.least}
	case filter.Const:
		return exactly(filter.Tri(f))
	case *filter.Test:
		return j.guardedTest(f)
	}
	panic("a filter that the oracle does not know")
}

func (j *judge) guardedTest(t *filter.Test) outcome {
	if t.String() == "(objectClass=*)" || t.DNAttrs && t.OfName().Match(j.entry.source()) == filter.True {
		return exactly(filter.True)
	}
	for _, a := range j.entry.entry.Attributes {
		for _, v := range a.Values {
			if t.MatchValue(&a, v) && j.valueRight(acl.Search, value{a.Type, a.Options, v}) {
				return exactly(filter.True)
			}
		}
	}
	least, most := true, true
	for _, typ := range t.Asks() {
		least = least && j.surely(acl.Search, typ, "", true)
		most = most && j.searchesProbes(typ)
	}
	switch {
	case least:
		return exactly(filter.False)
	case !most:
		return exactly(filter.Undefined)
	}
	return outcome{filter.False, filter.Undefined}
}

// searchesProbes reports whether the identity may search all values of the type in the
// vocabulary, under any options.
func (j *judge) searchesProbes(t *schema.AttributeType) bool {
	for _, options := range optionSets {
		for _, v := range vocabularies[t] {
			if !j.valueRight(acl.Search, value{t, options, v}) {
				return false
			}
		}
	}
	return true
}
