package short

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for _, s := range []string{"", "cn=a", strings.Repeat("x", most)} {
		if got := Text(s); got != s {
			t.Errorf("%q: %q", s, got)
		}
	}
	for shift := range 4 {
		s := strings.Repeat("x", shift) + strings.Repeat("\U0001f40a", 1000)
		got := Text(s)
		head, tail, _ := strings.Cut(got, "...")
		if !strings.HasPrefix(s, head) || len(head) < most-4 || len(got) > most+30 || !utf8.ValidString(got) || tail == "" {
			t.Errorf("%d: %q", shift, got)
		}
	}
	if got := Text(strings.Repeat("\xbf", 2000)); len(got) > most+30 {
		t.Errorf("not UTF-8: %d octets", len(got))
	}
}
