package schema

import (
	"slices"
	"strings"
)

// registered are the options that any attribute may have: options of languages (RFC 3866),
// and phonetic, which directories with Japanese names have used since RFC 2849. An option
// that ends with a hyphen is a prefix. The option of-TYPE occurs in the records of views
// (docs/views.md): viewSum;of-uidNumber is the sum of the values of uidNumber, and
// mail;of-manager is the mail of the entry that manager names.
var registered = []string{"lang-", "phonetic", "of-"}

// WithOptions returns a schema that recognizes additional attribute options. An option
// that ends with a hyphen is a prefix: the schema recognizes all options that begin with
// it. If Change is applied to the result, the new schema recognizes the options too.
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

// Describe resolves an attribute description. It returns the type and the text of the
// options. The type is nil if the schema does not define it. The type is also nil if the
// schema does not recognize one of the options, because a description with an
// unrecognized option is unrecognized as a whole (RFC 4512, 2.5).
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
	if option == "binary" { // the option for transferring values that are not text (RFC 4522, 3)
		return t.Syntax.def.says("X-NOT-HUMAN-READABLE")
	}
	is := func(known string) bool {
		return option == known || strings.HasSuffix(known, "-") && strings.HasPrefix(option, known)
	}
	return slices.ContainsFunc(registered, is) || slices.ContainsFunc(s.options, is)
}
