package strength

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory/account"
)

// met reports whether a password of johndoe meets a demand.
func met(t testing.TB, demand, password string) bool {
	t.Helper()
	p, err := account.Parse("cn=p", func(a string) []string {
		return map[string][]string{"pwdCheckQuality": {"1"}, "pwdQuality": {demand}}[a]
	})
	if err != nil {
		t.Fatal(err)
	}
	own := map[string][]string{"uid": {"johndoe"}}
	err = p.Check(&account.Change{Candidate: account.Candidate{Password: password, Own: func(a string) []string { return own[a] }}})
	var refused *account.Error
	if err != nil && (!errors.As(err, &refused) || refused.Kind != account.InsufficientQuality) {
		t.Fatal(err)
	}
	return err == nil
}

func TestDemand(t *testing.T) {
	for password, want := range map[string]bool{"password1": false, "johndoe": false, "correct-zebra-7-ladder": true} {
		if met(t, "strength 3", password) != want {
			t.Errorf("%q meets strength 3: %v", password, !want)
		}
	}
}

// TestStrength compares scores with those of version 4.4.2 of the original zxcvbn.
func TestStrength(t *testing.T) {
	for password, want := range map[string]int{
		"My$tr0ngP4$$w0rd":                          3,
		"StrongP@ss1":                               3,
		"correcthorse":                              2,
		"Xk4mz9qw":                                  2,
		"harborLantern2026":                         4,
		strings.Repeat("qwertyuiop", 6):             0,
		strings.Repeat("ab", 50):                    0,
		"M\xfcller\xdf\x93\x01\xf0\x80\xe4\x11\xa7": 4, // is not UTF-8
	} {
		got := 0
		for got < 4 && met(t, "strength "+string(rune('1'+got)), password) {
			got++
		}
		if got != want {
			t.Errorf("the strength of %q is %d, want %d", password, got, want)
		}
	}
}

// BenchmarkStrength uses a password for which zxcvbn tries many substitutions of letters.
func BenchmarkStrength(b *testing.B) {
	for b.Loop() {
		met(b, "strength 3", strings.Repeat("({[<69!1|07$5+%2@48", 6))
	}
}
