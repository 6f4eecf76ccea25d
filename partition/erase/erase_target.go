package erase

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// A target is the data to be erased: a name or a value.
type target struct {
	k     *catalog.Types
	norms []dn.Norm // normalised name; nil: the target is a value
	name  dn.DN
	typ   *schema.AttributeType // type of the value; nil: any type
	value []byte
	keys  map[*schema.AttributeType]targetKey
}

// A targetKey is the key of the value to be erased, computed by the equality rule of some
// attribute type. ok is false if the value is not a valid value of the type.
type targetKey struct {
	key []byte
	ok  bool
}

func newTarget(c *catalog.Catalog, o *Options) (*target, error) {
	t := &target{k: c.Types, name: o.Name, value: o.Value, keys: map[*schema.AttributeType]targetKey{}}
	switch {
	case len(o.Name) > 0:
		norms, err := o.Name.Normalize(c.Schema)
		if err != nil {
			return nil, catalog.Errorf(catalog.InvalidName, "%q: %v", o.Name, err)
		}
		t.norms = norms
		return t, nil
	case len(o.Value) == 0:
		return nil, catalog.Errorf(catalog.Unwilling, "nothing to erase was given: give a name or a value")
	case o.Attribute == "":
		return t, nil
	}
	var err error
	if t.typ, _, err = c.Describe(o.Attribute); err != nil {
		return nil, err
	}
	if err := t.typ.Syntax.Validate(o.Value); err != nil {
		return nil, catalog.Errorf(catalog.InvalidSyntax, "value of %s: %v", t.typ.Name(), err)
	}
	return t, nil
}

// key returns the key of the value to be erased, computed by the equality rule of a type.
func (t *target) key(of *schema.AttributeType) ([]byte, bool) {
	k, known := t.keys[of]
	if !known {
		if t.concerns(of) && of.Equality != nil {
			key, err := of.Equality.Key(t.value)
			k = targetKey{key, err == nil}
		}
		t.keys[of] = k
	}
	return k.key, k.ok
}

// The method "concerns" reports whether erasing the target removes values from attributes of
// the given type. It returns false if the target is a name.
func (t *target) concerns(of *schema.AttributeType) bool {
	return t.norms == nil && (t.typ == nil || of.Is(t.typ))
}

// The method "is" reports whether a value of a type is the value to be erased.
func (t *target) is(of *schema.AttributeType, v []byte) bool {
	if !t.concerns(of) {
		return false
	}
	if bytes.Equal(v, t.value) {
		return true
	}
	want, ok := t.key(of)
	if !ok {
		return false
	}
	key, err := of.Equality.Key(v)
	return err == nil && bytes.Equal(key, want)
}

// inValue reports whether a value of a type must be erased, because it is the target or a
// name that contains the target.
func (t *target) inValue(of *schema.AttributeType, v []byte) bool {
	return t.is(of, v) || isName(of) && t.inName(nameIn(of, v))
}

const (
	syntaxDN         = "1.3.6.1.4.1.1466.115.121.1.12"
	syntaxNameAndUID = "1.3.6.1.4.1.1466.115.121.1.34"
)

func isName(t *schema.AttributeType) bool {
	return t.Syntax.OID == syntaxDN || t.Syntax.OID == syntaxNameAndUID
}

// nameIn returns the name in a value. It omits the unique identifier that may follow the
// name (RFC 4517, 3.3.21).
func nameIn(t *schema.AttributeType, v []byte) string {
	s := string(v)
	if t.Syntax.OID == syntaxNameAndUID && strings.HasSuffix(s, "'B") {
		if i := strings.LastIndexByte(s, '#'); i >= 0 {
			s = s[:i]
		}
	}
	return s
}

// inName reports whether a name contains the target. A name contains a target name if it is
// equal to the target or below it. A name contains a target value if one of its RDNs has
// this value.
func (t *target) inName(text string) bool {
	name, err := dn.Parse(text)
	return err == nil && t.inDN(name)
}

func (t *target) inDN(name dn.DN) bool {
	if t.norms == nil {
		return slices.ContainsFunc(name, t.inRDN)
	}
	if len(name) < len(t.norms) {
		return false
	}
	norms, err := name.Normalize(t.k.Schema)
	return err == nil && slices.Equal(norms[len(norms)-len(t.norms):], t.norms)
}

// inRDN reports whether one of the values in an RDN is the value to be erased.
func (t *target) inRDN(rdn dn.RDN) bool {
	return slices.ContainsFunc(rdn, func(a dn.AVA) bool {
		of := t.k.Schema.Attribute(a.Type)
		if of == nil {
			return t.norms == nil && t.typ == nil && bytes.Equal(a.Value, t.value)
		}
		return t.is(of, a.Value)
	})
}

// inText reports whether free text contains the target as a word.
func (t *target) inText(text string) bool {
	word := strings.ToLower(string(t.value))
	if t.norms != nil {
		word = strings.ToLower(t.name.String())
	}
	text = strings.ToLower(text)
	for {
		before, after, found := strings.Cut(text, word)
		if !found {
			return false
		}
		last, _ := utf8.DecodeLastRuneInString(before)
		next, _ := utf8.DecodeRuneInString(after)
		if !isWord(last) && !isWord(next) {
			return true
		}
		text = text[len(before)+1:]
	}
}

func isWord(r rune) bool { return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r)) }

// erasedText replaces erased text in the journal.
const erasedText = "(erased)"

// The method "without" returns a name with the erased parts replaced.
func (t *target) without(text string) string {
	name, err := dn.Parse(text)
	if err != nil {
		if t.inText(text) {
			return erasedText
		}
		return text
	}
	if !t.inDN(name) {
		return text
	}
	for i, rdn := range name {
		if t.norms == nil && t.inRDN(rdn) || t.norms != nil && i == len(name)-len(t.norms) {
			name[i] = dn.RDN{{Type: rdn[0].Type, Value: []byte(erasedText)}}
		}
	}
	return name.String()
}
