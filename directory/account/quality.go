package account

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Strength returns how hard a password is to guess, 0 to 4, for somebody who knows some words. Package strength
// sets it.
var Strength func(password string, words []string) int

// A Demand is one value of pwdQuality: a property that new passwords must have or must
// not have.
type Demand struct {
	Text  string
	word  string
	met   func(c *Candidate) bool
	lacks string // describes a password that does not meet the demand
}

// A Candidate is a new password with the values that the demands compare it with.
type Candidate struct {
	Password string
	Old      string // the old password; "": unknown
	// Own returns the values of an attribute of the account's entry.
	Own func(attribute string) []string
	// Listed reports whether the password is in the list of known passwords. Nil means
	// that there is no such list.
	Listed func(password []byte) bool
}

// counted are the demands that consist of a word and a number.
var counted = map[string]struct {
	lacks string
	met   func(c *Candidate, n int) bool
}{
	"classes":    {"it needs %d of these classes: upper case, lower case, digits, others", func(c *Candidate, n int) bool { return classes(c.Password) >= n }},
	"letters":    {"it needs at least %d letters", atLeast(unicode.IsLetter)},
	"digits":     {"it needs at least %d digits", atLeast(unicode.IsDigit)},
	"upper":      {"it needs at least %d letters in upper case", atLeast(unicode.IsUpper)},
	"lower":      {"it needs at least %d letters in lower case", atLeast(unicode.IsLower)},
	"special":    {"it needs at least %d characters that are neither letters nor digits", atLeast(isSpecial)},
	"repeats":    {"it has a character more than %d times in a row", func(c *Candidate, n int) bool { return longestRepeat(c.Password) <= n }},
	"sequence":   {"it has a sequence like abcd or 4321 of more than %d characters", func(c *Candidate, n int) bool { return longestSequence(c.Password) <= n }},
	"unlike-old": {"it is less than %d edits apart from the old one", func(c *Candidate, n int) bool { return c.Old == "" || distance(c.Old, c.Password) >= n }},
	strengthWord: {"it is too easy to guess: its strength is below %d of 4", func(c *Candidate, n int) bool { return strength(c) >= n }},
}

// readQuality reads the values of pwdQuality.
func readQuality(p *Policy, values []string) error {
	for _, v := range values {
		d, err := parseDemand(v)
		if err != nil {
			return err
		}
		p.Quality = append(p.Quality, d)
	}
	return nil
}

const (
	unlisted     = "unlisted" // the demand that a password is in no list of known passwords
	strengthWord = "strength" // the word of a demand for Strength
)

func parseDemand(text string) (Demand, error) {
	d := Demand{Text: strings.TrimSpace(text)}
	word, rest, _ := strings.Cut(d.Text, " ")
	d.word, rest = word, strings.TrimSpace(rest)
	switch {
	case word == "palindrome" && rest == "":
		d.lacks, d.met = "it is the same backwards", func(c *Candidate) bool { return !isPalindrome(c.Password) }
	case word == unlisted && rest == "":
		d.lacks, d.met = "it is in a list of passwords that others know", func(c *Candidate) bool { return !c.Listed([]byte(c.Password)) }
	case word == "unlike" && rest != "":
		types := strings.FieldsFunc(rest, func(r rune) bool { return r == ',' || r == ' ' })
		d.lacks, d.met = "it has a part of one's own "+strings.Join(types, ", "), func(c *Candidate) bool { return !hasPartOf(c, types) }
	default:
		k, ok := counted[word]
		n, err := strconv.Atoi(rest)
		if !ok || err != nil || n < 1 || n > 100 {
			return d, fmt.Errorf("%q is no demand, such as %s", text, strings.Join(demandExamples(), "; "))
		}
		d.lacks, d.met = fmt.Sprintf(k.lacks, n), func(c *Candidate) bool { return k.met(c, n) }
	}
	return d, nil
}

func demandExamples() []string {
	all := []string{"palindrome", unlisted, "unlike uid, cn"}
	for word := range counted {
		all = append(all, word+" 3")
	}
	slices.Sort(all)
	return all
}

func count(s string, is func(rune) bool) (n int) {
	for _, r := range s {
		if is(r) {
			n++
		}
	}
	return n
}

func atLeast(is func(rune) bool) func(*Candidate, int) bool {
	return func(c *Candidate, n int) bool { return count(c.Password, is) >= n }
}

func isSpecial(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }

func classes(s string) (n int) {
	for _, is := range []func(rune) bool{unicode.IsUpper, unicode.IsLower, unicode.IsDigit, isSpecial} {
		if count(s, is) > 0 {
			n++
		}
	}
	return n
}

func longestRepeat(s string) int {
	return longestRun(s, func(before, now rune) int {
		if before == now {
			return 1
		}
		return 0
	})
}

// longestSequence returns the length of the longest run of characters whose code points rise
// by one from each character to the next, or fall by one.
func longestSequence(s string) int {
	return longestRun(s, func(before, now rune) int {
		if d := int(now - before); d == 1 || d == -1 {
			return d
		}
		return 0
	})
}

// longestRun returns the length of the longest part of s in which step returns the same
// number, other than 0, for all pairs of neighbouring characters.
func longestRun(s string, step func(before, now rune) int) int {
	longest, run, last := 0, 0, 0
	var before rune
	for i, r := range []rune(s) {
		d := 0
		if i > 0 {
			d = step(before, r)
		}
		switch {
		case d == 0:
			run = 1
		case d == last:
			run++
		default:
			run = 2
		}
		before, last, longest = r, d, max(longest, run)
	}
	return longest
}

func isPalindrome(s string) bool {
	rs := []rune(strings.ToLower(s))
	back := slices.Clone(rs)
	slices.Reverse(back)
	return len(rs) > 0 && slices.Equal(rs, back)
}

// distance returns how many characters must be inserted, deleted or replaced to turn
// cut(a) into cut(b).
func distance(a, b string) int {
	x, y := []rune(cut(a)), []rune(cut(b))
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		diagonal := row[0]
		row[0] = i + 1
		for j := range y {
			next := min(row[j], row[j+1]) + 1
			if x[i] == y[j] {
				next = min(next, diagonal)
			} else {
				next = min(next, diagonal+1)
			}
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(y)]
}

// judged is the number of characters that cut keeps. The functions distance and strength,
// whose work grows faster than the length of a text, judge only these characters.
const judged = 64

func cut(s string) string {
	for i, n := 0, 0; i < len(s); n++ {
		if n == judged {
			return s[:i]
		}
		_, size := utf8.DecodeRuneInString(s[i:])
		i += size
	}
	return s
}

// Under the demand "unlike", a password must not contain partLength successive characters of
// a value.
const partLength = 4

func hasPartOf(c *Candidate, types []string) bool {
	password := strings.ToLower(c.Password)
	for _, t := range types {
		for _, v := range c.Own(t) {
			rs := []rune(strings.ToLower(v))
			for i := 0; i+partLength <= len(rs); i++ {
				if strings.Contains(password, string(rs[i:i+partLength])) {
					return true
				}
			}
		}
	}
	return false
}

// strength returns the score of the password by Strength. The words in the entry's names, uid
// and mail count as dictionary words. The score of texts that are not UTF-8 would be 0, so such a
// password is read as ISO 8859-1.
func strength(c *Candidate) int {
	var words []string
	for _, t := range []string{"uid", "cn", "sn", "givenName", "mail"} {
		for _, v := range c.Own(t) {
			words = append(words, strings.FieldsFunc(strings.ToLower(cut(v)), func(r rune) bool { return isSpecial(r) })...)
		}
	}
	password := c.Password
	if !utf8.ValidString(password) {
		chars := make([]rune, len(password)) // one for each byte
		for i := range chars {
			chars[i] = rune(password[i])
		}
		password = string(chars)
	}
	return Strength(cut(password), words)
}
