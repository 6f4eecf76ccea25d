package schema

import (
	"errors"
	"strings"
)

// validateEnhancedGuide validates an Enhanced Guide (RFC 4517, 3.3.10), which has the
// form class#criteria#subset.
func validateEnhancedGuide(_ *Schema, v []byte) error {
	parts := strings.Split(string(v), "#")
	if len(parts) != 3 || !validOIDWord(strings.Trim(parts[0], " ")) {
		return errors.New("not an enhanced guide: class#criteria#subset")
	}
	switch strings.ToLower(strings.Trim(parts[2], " ")) {
	case "baseobject", "onelevel", "wholesubtree":
		return validateCriteria(parts[1])
	}
	return errors.New("not an enhanced guide: subset is none of baseobject, oneLevel, wholeSubtree")
}

// validateGuide validates a Guide (RFC 4517, 3.3.14): criteria, optionally preceded by a
// class.
func validateGuide(_ *Schema, v []byte) error {
	class, criteria, ok := strings.Cut(string(v), "#")
	if !ok {
		return validateCriteria(class)
	}
	if !validOIDWord(strings.Trim(class, " ")) {
		return errors.New("not a guide: no object class before #")
	}
	return validateCriteria(criteria)
}

var errCriteria = errors.New("not search criteria, such as sn$EQ|(cn$SUBSTR&!st$EQ)")

func validateCriteria(s string) error {
	rest, ok := criteria(strings.Trim(s, " "), 0)
	if !ok || rest != "" {
		return errCriteria
	}
	return nil
}

// criteria parses and-terms and or-terms and returns the rest of s. It limits the depth,
// because values come from clients.
func criteria(s string, depth int) (string, bool) {
	for depth < 100 {
		rest, ok := criterion(s, depth)
		if !ok {
			return s, false
		}
		if rest == "" || rest[0] != '&' && rest[0] != '|' {
			return rest, true
		}
		s = rest[1:]
	}
	return s, false
}

func criterion(s string, depth int) (string, bool) {
	s = strings.TrimLeft(s, "!")
	if inner, ok := strings.CutPrefix(s, "("); ok {
		rest, ok := criteria(inner, depth+1)
		if !ok || !strings.HasPrefix(rest, ")") {
			return s, false
		}
		return rest[1:], true
	}
	if rest, ok := cutWord(s, "?true", "?false"); ok {
		return rest, true
	}
	name, rest, ok := strings.Cut(s, "$")
	if !ok || !validOIDWord(name) {
		return s, false
	}
	return cutWord(rest, "EQ", "SUBSTR", "GE", "LE", "APPROX")
}

// cutWord removes one of the words from the start of s, ignoring case. The words of an
// ABNF are not case-sensitive (RFC 4234, 2.3).
func cutWord(s string, words ...string) (rest string, ok bool) {
	for _, w := range words {
		if len(s) >= len(w) && strings.EqualFold(s[:len(w)], w) {
			return s[len(w):], true
		}
	}
	return s, false
}
