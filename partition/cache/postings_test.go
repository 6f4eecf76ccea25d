package cache

import (
	"reflect"
	"testing"

	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// TestPostings checks that a Posting is what was put last.
func TestPostings(t *testing.T) {
	var one, two, parents index.Set
	one.Append(entry.ID{1}, entry.ID{100})
	for i := range byte(9) {
		two.Append(entry.ID{i}, entry.ID{100})
		parents.Append(entry.ID{i}, entry.ID{100 + i%3})
	}
	kept, k := newPostings(1<<20), PostingKey{1, 2}
	if kept.Get(k) != nil {
		t.Error("there is a posting before one is put")
	}
	for _, p := range []Posting{{AsOf: 7}, {AsOf: 1 << 40, Set: one}, {AsOf: 8, Set: one}, {AsOf: 2, Set: two}, {AsOf: 3, Set: parents}, {Long: true}, {Long: true, MoreThan: 12}} {
		kept.Put(k, &p)
		got := kept.Get(k)
		if kept.Longer(k, 12) != (p.Long && p.MoreThan >= 12) {
			t.Errorf("%v: Longer is wrong", p)
		}
		if got.AsOf != p.AsOf || got.Long != p.Long || got.MoreThan != p.MoreThan || !reflect.DeepEqual(got.Set.AppendTo(nil), p.Set.AppendTo(nil)) {
			t.Errorf("%v became %v", p, got)
		}
		for i := range p.Set.Len() {
			if got.Set.Parent(i) != p.Set.Parent(i) {
				t.Errorf("%v: parent %d is %v", p, i, got.Set.Parent(i))
			}
		}
	}
}

// TestPostingKeys checks that different types and values have different keys, also if a value is the OID of
// the other type.
func TestPostingKeys(t *testing.T) {
	a, b := schema.Core().Attribute("cn"), schema.Core().Attribute("sn")
	seen := map[PostingKey]bool{}
	for _, typ := range []*schema.AttributeType{a, b} {
		for _, v := range []string{"", "x", "y", a.OID, b.OID} {
			k := PostingKeyOf(typ).Of([]byte(v))
			if seen[k] || k != PostingKeyOf(typ).Of([]byte(v)) {
				t.Errorf("%s=%s has the key of another value, or two keys", typ.Name(), v)
			}
			seen[k] = true
		}
	}
}
