package schema

import (
	"slices"
	"strings"
)

// registered are the options that any attribute may have: those of languages (RFC 3866),
// and phonetic, which directories with Japanese names have used since RFC 2849. One that
// ends with a hyphen is a prefix.
var registered = []string{"lang-", "phonetic"}

// WithOptions returns a schema that recognizes more attribute options. An option that
// ends with a hyphen is a prefix: all options that begin with it are recognized. Schemas
// made from the result by Change recognize them too.
func (s *Schema) WithOptions(options ...string) *Schema {
	if len(options) == 0 {
		return s
	}
	with := *s
	with.options = slices.Clone(s.options)
	for _, o := range options {
		with.options = append(with.options, strings.ToLower(o))
	}
	return &with
}

// Describe resolves an attribute description and returns its type and the text of its
// options. The type is nil if the schema lacks it, or does not recognize one of the
// options. A description with an unrecognized option is unrecognized as a whole (RFC
// 4512, 2.5).
func (s *Schema) Describe(description string) (t *AttributeType, options string) {
	name, options, has := strings.Cut(description, ";")
	t = s.Attribute(name)
	if t == nil || has && !s.recognizesAll(t, options) {
		return nil, ""
	}
	return t, options
}

func (s *Schema) recognizesAll(t *AttributeType, options string) bool {
	for o := range strings.SplitSeq(options, ";") {
		if !s.recognizes(t, strings.ToLower(o)) {
			return false
		}
	}
	return true
}

func (s *Schema) recognizes(t *AttributeType, option string) bool {
	if option == "binary" { // the transfer of values that are not text (RFC 4522, 3)
		return t.Syntax.def.says("X-NOT-HUMAN-READABLE")
	}
	is := func(known string) bool {
		return option == known || strings.HasSuffix(known, "-") && strings.HasPrefix(option, known)
	}
	return slices.ContainsFunc(registered, is) || slices.ContainsFunc(s.options, is)
}
