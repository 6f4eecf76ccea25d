// Package short cuts long texts for diagnostics and logs. A client can send names and values of
// megabytes, which would fill answers and logs.
package short

import (
	"fmt"
	"unicode/utf8"
)

// most is the number of octets that are kept of a text.
const most = 1024

// Text returns s, or the beginning of s and its length if s is long.
func Text(s string) string {
	if len(s) <= most {
		return s
	}
	end := most
	for end > most-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return fmt.Sprintf("%s... (%d octets)", s[:end], len(s))
}
