// Package strength lets policies demand a strength of passwords, the score of zxcvbn. Import it for that: its word
// lists are large, and programs without such policies need not link them.
package strength

import (
	"github.com/trustelem/zxcvbn"

	"github.com/seed-4dac0d86/ldapd/directory/account"
)

func init() {
	account.Strength = func(password string, words []string) int { return zxcvbn.PasswordStrength(password, words).Score }
}
