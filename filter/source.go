package filter

import (
	"bytes"
	"iter"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// EntrySource is a Source for an entry in memory. It computes the keys of an attribute's
// values when a test first needs the keys, and caches the keys. It must not be used
// concurrently.
type EntrySource struct {
	Schema *schema.Schema
	Entry  *entry.Entry
	// Name is the DN of the entry. Only tests of names use it.
	Name dn.DN
	// Stored, if not nil, is the name of the entry as the store has it. Only tests that
	// [Test.Related] made use it. If it is nil, they use Name.
	Stored *dn.Name

	keys [][][]byte // parallel to Entry.Attributes; nil: not computed yet
}

// Reset replaces the entry and reuses the memory of the cached keys.
func (s *EntrySource) Reset(e *entry.Entry, name dn.DN) {
	s.Entry, s.Name, s.Stored = e, name, nil
	clear(s.keys)
	s.keys = s.keys[:0]
}

func (s *EntrySource) storedName() *dn.Name {
	if s.Stored == nil {
		return dn.NameOf(s.Name)
	}
	return s.Stored
}

func asks(a *entry.Attribute, t *schema.AttributeType, options string) bool {
	return a.Type == t && (options == "" || entry.HasOptions(a.Options, options))
}

func (s *EntrySource) Has(t *schema.AttributeType, options string) bool {
	for i := range s.Entry.Attributes {
		a := &s.Entry.Attributes[i]
		if len(a.Values) > 0 && asks(a, t, options) {
			return true
		}
	}
	return false
}

func (s *EntrySource) HasKey(t *schema.AttributeType, options string, key []byte) bool {
	for i := range s.Entry.Attributes {
		if !asks(&s.Entry.Attributes[i], t, options) {
			continue
		}
		for _, k := range s.keysOf(i) {
			if bytes.Equal(k, key) {
				return true
			}
		}
	}
	return false
}

func (s *EntrySource) AnyKey(t *schema.AttributeType, options string, holds func([]byte) bool) bool {
	for i := range s.Entry.Attributes {
		if !asks(&s.Entry.Attributes[i], t, options) {
			continue
		}
		for _, k := range s.keysOf(i) {
			if holds(k) {
				return true
			}
		}
	}
	return false
}

func (s *EntrySource) Keys(t *schema.AttributeType, options string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		s.AnyKey(t, options, func(k []byte) bool { return !yield(k) })
	}
}

// keysOf returns the keys of the values of attribute i. It leaves out values that break
// their syntax.
func (s *EntrySource) keysOf(i int) [][]byte {
	if n := len(s.Entry.Attributes); len(s.keys) < n {
		s.keys = slices.Grow(s.keys, n-len(s.keys))[:n]
	}
	if s.keys[i] != nil {
		return s.keys[i]
	}
	a := &s.Entry.Attributes[i]
	keys := make([][]byte, 0, len(a.Values))
	if rule := a.Type.Equality; rule != nil {
		for _, v := range a.Values {
			if k, err := rule.Key(v); err == nil {
				keys = append(keys, k)
			}
		}
	}
	s.keys[i] = keys
	return keys
}

func (s *EntrySource) Values(t *schema.AttributeType, options string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for i := range s.Entry.Attributes {
			a := &s.Entry.Attributes[i]
			if !asks(a, t, options) {
				continue
			}
			for _, v := range a.Values {
				if !yield(v) {
					return
				}
			}
		}
	}
}

func (s *EntrySource) NameValues() iter.Seq2[*schema.AttributeType, []byte] {
	return func(yield func(*schema.AttributeType, []byte) bool) {
		for _, r := range s.Name {
			for _, a := range r {
				if t := s.Schema.Attribute(a.Type); t != nil && !yield(t, a.Value) {
					return
				}
			}
		}
	}
}
