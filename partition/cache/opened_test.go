package cache

import (
	"testing"

	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// TestOpenedIsBounded checks that the newest unpacked entries are kept, and that they are no more than the
// bound allows.
func TestOpenedIsBounded(t *testing.T) {
	c := NewCache(32 * 100_000)
	var items []*Item
	for i := range 1000 {
		item := c.NewItem(1, master.Node{}, []entry.Attribute{{Type: schema.Core().Attribute("cn"), Values: [][]byte{{byte(i)}}}}, nil)
		items = append(items, item)
		if e := c.Entry(entry.ID{1}, item); e != c.Entry(entry.ID{1}, item) || e.Attributes[0].Values[0][0] != byte(i) {
			t.Fatalf("item %d: its entry is %v, or another one the second time", i, e)
		}
	}
	kept := 0
	for i, item := range items {
		if item.Opened() != nil {
			kept++
		} else if i >= 900 {
			t.Errorf("item %d is not kept", i)
		}
	}
	if size := kept * items[0].sizeOfOpened(); size > 100_000 || size < 90_000 {
		t.Errorf("%d entries of %d octets are kept", kept, size)
	}
}
