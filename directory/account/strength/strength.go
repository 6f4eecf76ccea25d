// Package strength lets policies demand a strength of passwords, the score of zxcvbn. Import it for that: its word
// lists are large, and programs without such policies need not link them. The first password that is judged makes dictionaries
// of them, so a program that judges none starts fast.
package strength

import (
	"strings"
	"sync"
	_ "unsafe" // for linkname

	"github.com/trustelem/zxcvbn"

	"github.com/seed-4dac0d86/ldapd/directory/account"
	"github.com/seed-4dac0d86/ldapd/directory/account/strength/words"
)

// dictionaries is zxcvbn's own variable, which has no name outside. From the name of a list, it leads to the rank of each word.
//
//go:linkname dictionaries github.com/trustelem/zxcvbn/matching.defaultRankedDictionnaries
var dictionaries struct{ ranks map[string]map[string]int }

var load = sync.OnceFunc(func() {
	for name, list := range words.Lists {
		ranks := make(map[string]int, len(list))
		for i, word := range list {
			ranks[strings.ToLower(word)] = i + 1
		}
		dictionaries.ranks[name] = ranks
	}
	words.Lists = nil
})

func init() {
	account.Strength = func(password string, words []string) int {
		load()
		return zxcvbn.PasswordStrength(password, words).Score
	}
}
