package hbase

import (
	"context"
	"slices"
	"testing"

	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/hbase/hbasetest"
	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// TestRegions looks up where the regions of new tables begin, on a cluster whose region server counts as several. A table that an earlier version has
// made, with one region, stays as it is.
func TestRegions(t *testing.T) {
	spreadFrom = 1
	t.Cleanup(func() { spreadFrom = 2 })
	s, err := Open(t.Context(), Scheme+hbasetest.Start(t)+"/"+hbasetest.Prefix(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	core := schema.Core()
	const zero = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	unique := write.UniqueSpec(core, []catalog.Unique{{Attribute: "uid", Base: entry.Root}, {Attribute: "member", Base: entry.ID{0x70}}})
	early := index.Spec(core.Attribute("cn"))
	early.Splits = nil
	want := map[string][]string{
		"index_cn":          nil,
		"index_mail":        {"*\x80", "=", "= k \x00\x01"},
		"index_uidNumber":   {"*\x80", "=", "=\x8510000\x00\x01"},
		"index_member":      {"*\x80", "="},
		"index_objectClass": {"=\xb6\x00\x01"},
		"unique": {zero + "0.9.2342.19200300.100.1.1\x00", zero + "0.9.2342.19200300.100.1.1\x00= k \x00\x01",
			"\x70" + zero[1:] + "2.5.4.31\x00"},
		"journal": {"\x00\x02", "\x00\x03", "\x00\x04", "\x00\x05", "\x00\x06", "\x00\x07", "\x00\x08", "\x00\x09", "\x40\x00"},
		"cluster": nil,
	}
	specs := append(journal.Specs(), unique)
	for _, name := range []string{"cn", "mail", "uidNumber", "member", "objectClass"} {
		specs = append(specs, index.Spec(core.Attribute(name)))
	}
	t.Cleanup(func() {
		for name := range want {
			if err := s.Drop(context.Background(), name); err != nil {
				t.Error(err)
			}
		}
		s.Close()
	})
	for _, specs := range [][]table.Spec{{early}, specs} {
		if err := s.Create(t.Context(), specs...); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range want {
		var got []string
		for _, k := range s.table(name).cuts(t.Context()) {
			got = append(got, string(k))
		}
		if !slices.Equal(got, want) {
			t.Errorf("table %s has regions at %q, want %q", name, got, want)
		}
	}
}
