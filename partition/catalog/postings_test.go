package catalog

import (
	"hash/fnv"
	"testing"

	"github.com/seed-4dac0d86/ldapd/schema"
)

// TestPostingHash checks that PostingHash is the hash FNV-1a. Servers of other versions of the
// program follow the same journal, so the hash must never change.
func TestPostingHash(t *testing.T) {
	for _, key := range []string{"", "a", "dc=example\x00\xff"} {
		h := fnv.New64a()
		h.Write([]byte("2.5.4.31=" + key))
		if got := PostingHash(&schema.AttributeType{OID: "2.5.4.31"}, []byte(key)); got != h.Sum64() {
			t.Errorf("%q: %x, want %x", key, got, h.Sum64())
		}
	}
}
