package account

import (
	"slices"
	"strings"
	"testing"
)

// TestFrom389 checks what the password policies of 389 Directory Server become.
func TestFrom389(t *testing.T) {
	for name, c := range map[string]struct{ says, want, left string }{
		"nothing is on": {"passwordMaxFailure: 3|passwordMaxAge: 100|passwordMinLength: 9|passwordInHistory: 4", "pwdAttribute: userPassword", ""},
		"expiry": {"passwordExp: on|passwordMaxAge: 30D|passwordWarning: 1w|passwordGraceLimit: 2",
			"pwdAttribute: userPassword|pwdMaxAge: 2592000|pwdExpireWarning: 604800|pwdGraceAuthNLimit: 2", ""},
		"expiry by default": {"passwordExp: on", "pwdAttribute: userPassword|pwdMaxAge: 8640000|pwdExpireWarning: 86400", ""},
		"a warning that is too long": {"passwordExp: on|passwordMaxAge: 3600", "pwdAttribute: userPassword|pwdMaxAge: 3600",
			"pwdExpireWarning: 86400 s is not shorter than pwdMaxAge, so every bind would warn"},
		"lockout": {"passwordLockout: on|passwordMaxFailure: 5|passwordResetFailureCount: 60|passwordLockoutDuration: 120",
			"pwdAttribute: userPassword|pwdLockout: TRUE|pwdMaxFailure: 5|pwdLockoutDuration: 120|pwdFailureCountInterval: 60", ""},
		"lockout by default, for ever": {"passwordLockout: on|passwordUnlock: off",
			"pwdAttribute: userPassword|pwdLockout: TRUE|pwdMaxFailure: 3|pwdFailureCountInterval: 600", ""},
		"syntax": {"passwordCheckSyntax: on|passwordMinLength: 10|passwordMinDigits: 2|passwordMinCategories: 5|passwordMaxRepeats: 2|passwordPalindrome: on|passwordDictCheck: on",
			"pwdAttribute: userPassword|pwdCheckQuality: 1|pwdQuality: unlike uid, cn, sn, givenName, ou, mail|pwdMinLength: 10|pwdQuality: classes 4|pwdQuality: digits 2|pwdQuality: repeats 2|pwdQuality: palindrome",
			"passwordDictCheck: pwdQuality: strength 3 or unlisted does it better"},
		"changes":   {"passwordChange: off|passwordMinAge: 60", "pwdAttribute: userPassword|pwdMinAge: 60|pwdAllowUserChange: FALSE", ""},
		"resets":    {"passwordMustChange: on|passwordTPRMaxUse: 2|passwordTPRDelayExpireAt: 3600", "pwdAttribute: userPassword|pwdMustChange: TRUE|pwdMaxResetUse: 2|pwdMaxResetAge: 3600", ""},
		"history":   {"passwordHistory: on|passwordInHistory: 24|passwordMin8Bit: 1|passwordMaxSeqSets: 0", "pwdAttribute: userPassword|pwdInHistory: 24", "passwordMin8Bit: there is nothing like it here"},
		"no number": {"passwordExp: on|passwordMaxAge: long", "pwdAttribute: userPassword|pwdExpireWarning: 86400", "passwordMaxAge: its value is no number"},
	} {
		says := strings.Split(c.says, "|")
		policy, left := From389(func(attribute string) (values []string) {
			for _, l := range says {
				if k, v, _ := strings.Cut(l, ": "); strings.EqualFold(k, attribute) {
					values = append(values, v)
				}
			}
			return values
		})
		var got []string
		for _, v := range policy {
			got = append(got, v.Name+": "+v.Value)
		}
		if text := strings.Join(got, "|"); text != c.want {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
		if text := strings.Join(left, "|"); text != c.left {
			t.Errorf("%s: left out %s, want %s", name, text, c.left)
		}
	}
	if !Is389("passwordmaxage") || !Is389("passwordDictCheck") || Is389("passwordExpirationTime") || Is389("pwdMaxAge") || slices.Contains(known389, "") && Is389("x") {
		t.Error("Is389")
	}
}
