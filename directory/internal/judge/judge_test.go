package judge

import (
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// TestZeroJudgeRefuses checks that a zero Judge refuses everything. A Judge is unrestricted
// only after a call of Unrestrict.
func TestZeroJudgeRefuses(t *testing.T) {
	ctx, sch := t.Context(), schema.Core()
	cn := sch.Attribute("cn")
	var j Judge
	j.Read(nil, sch)
	if j.Unrestricted() || j.ReadsAll() || j.SeesAll() || j.Everywhere().Manages() || j.MayUse("1.2.3") {
		t.Error("it lets something be done")
	}
	if j.MayReadPast() == nil {
		t.Error("it lets something be read")
	}
	for _, right := range (acl.EntryRights | acl.AttributeRights).Each() {
		if j.Everywhere().Entry(right) || j.Everywhere().Some(cn, right) {
			t.Errorf("it has the right to %s", right)
		}
	}
	e := &entry.Entry{Attributes: []entry.Attribute{{Type: cn, Values: [][]byte{[]byte("x")}}}}
	name := dn.DN{{{Type: "cn", Value: []byte("x")}}}
	if _, err := j.Decide(ctx, name, e, nil); err != errNoRules {
		t.Errorf("it decides: %v", err)
	}
	if _, err := j.DecideAt(ctx, partition.Located{}); err != errNoRules {
		t.Errorf("it decides: %v", err)
	}
	for _, f := range []filter.Resolved{j.Guard(ctx, filter.Const(filter.True)), j.OnlySeen(ctx, filter.Const(filter.True)), j.OnlyLeading(ctx, filter.Const(filter.True), cn)} {
		if f.Match(&filter.EntrySource{Schema: sch, Entry: e, Name: name}) == filter.True {
			t.Errorf("%s finds an entry", f)
		}
	}
	if shown, err := j.Case(dn.NewName("cn=x"), e).Shown(ctx, e.Attributes); err == nil || len(shown) > 0 {
		t.Errorf("it shows %v, %v", shown, err)
	}
	j.Unrestrict()
	if !j.Unrestricted() || !j.ReadsAll() || !j.SeesAll() || !j.Everywhere().Manages() || !j.MayUse("1.2.3") || !j.Everywhere().All(cn, acl.AttributeRights) {
		t.Error("who is above rules is refused")
	}
}
