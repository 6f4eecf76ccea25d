package account

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Value is a value of an attribute of a policy entry.
type Value struct{ Name, Value string }

// Is389 reports whether an attribute belongs to the password policies of 389 Directory Server.
func Is389(attribute string) bool {
	return slices.ContainsFunc(known389, func(name string) bool { return strings.EqualFold(name, attribute) })
}

var known389 = append(names389(), "passwordStorageScheme", "passwordMin8Bit", "passwordMaxClassChars", "passwordMaxSeqSets",
	"passwordBadWords", "passwordDictCheck", "passwordDictPath", "passwordAdminDN", "passwordAdminSkipInfoUpdate", "passwordTrackUpdateTime",
	"passwordIsGlobalPolicy", "passwordLegacyPolicy", "passwordSendExpiringTime", "passwordTPRDelayValidFrom", "passwordUserAttributes", "passwordMinTokenLength")

// noteless389 are attributes of 389 that have no effect here, and that From389 leaves out
// without a note.
var noteless389 = []string{"passwordStorageScheme", "passwordIsGlobalPolicy", "passwordTrackUpdateTime", "passwordLegacyPolicy",
	"passwordUserAttributes", "passwordMinTokenLength", "passwordAdminSkipInfoUpdate"}

func names389() (names []string) {
	for _, x := range switches389 {
		if x.name != "" { // the last switch has no name
			names = append(names, x.name)
		}
		for _, s := range x.with {
			names = append(names, s.from)
		}
	}
	return names
}

// A switch389 is an attribute of 389 that is on or off, with the attributes that have an
// effect only while the switch is on.
type switch389 struct {
	name string
	on   []Value // the attributes of this server's policies that have the same effect
	with []setting389
}

// A setting389 is an attribute of 389 whose value is a number. The fields are the attribute's
// name in 389 (from), the default in 389 (not), and the name in this server's policies (to). If
// the string in the field to ends in a space, the number belongs to a demand of pwdQuality.
type setting389 struct {
	from string
	not  int // the default in 389
	to   string
}

var switches389 = []switch389{
	{"passwordExp", nil, []setting389{{"passwordMaxAge", 8640000, "pwdMaxAge"}, {"passwordWarning", 86400, "pwdExpireWarning"}, {"passwordGraceLimit", 0, "pwdGraceAuthNLimit"}}},
	{"passwordHistory", nil, []setting389{{"passwordInHistory", 6, "pwdInHistory"}}},
	{"passwordLockout", []Value{{"pwdLockout", "TRUE"}}, []setting389{{"passwordMaxFailure", 3, "pwdMaxFailure"},
		{"passwordLockoutDuration", 3600, "pwdLockoutDuration"}, {"passwordResetFailureCount", 600, "pwdFailureCountInterval"}}},
	{"passwordCheckSyntax", []Value{{"pwdCheckQuality", "1"}, {"pwdQuality", "unlike uid, cn, sn, givenName, ou, mail"}}, []setting389{
		{"passwordMinLength", 8, "pwdMinLength"}, {"passwordMinCategories", 3, "classes "}, {"passwordMinAlphas", 0, "letters "}, {"passwordMinDigits", 0, "digits "},
		{"passwordMinUppers", 0, "upper "}, {"passwordMinLowers", 0, "lower "}, {"passwordMinSpecials", 0, "special "},
		{"passwordMaxRepeats", 0, "repeats "}, {"passwordMaxSequence", 0, "sequence "}}},
	{"passwordPalindrome", []Value{{"pwdQuality", "palindrome"}}, nil},
	{"passwordMustChange", []Value{{"pwdMustChange", "TRUE"}}, []setting389{{"passwordTPRMaxUse", -1, "pwdMaxResetUse"}, {"passwordTPRDelayExpireAt", -1, "pwdMaxResetAge"}}},
	{"passwordUnlock", nil, nil},
	{"passwordChange", nil, nil},
	{"", nil, []setting389{{"passwordMinAge", 0, "pwdMinAge"}}},
}

// From389 translates a password policy of 389 Directory Server. The call values(attribute)
// must return the values of the attribute. The result left contains the attributes that From389
// leaves out, each with the reason: it has no counterpart here, or its values cannot be used.
// The result does not contain the attributes in noteless389, nor attributes that are off.
func From389(values func(attribute string) []string) (policy []Value, left []string) {
	t := &from389{values: values}
	t.put("pwdAttribute", "userPassword")
	for _, x := range switches389 {
		if x.name != "" && !t.is(x.name, false) {
			continue
		}
		t.policy = append(t.policy, x.on...)
		for _, s := range x.with {
			t.number(s)
		}
	}
	if !t.is("passwordChange", true) {
		t.put("pwdAllowUserChange", "FALSE")
	}
	if !t.is("passwordUnlock", true) { // a lock lasts until somebody unlocks the account
		t.drop("pwdLockoutDuration")
	}
	t.settle()
	for _, name := range known389 {
		if vs := values(name); len(vs) > 0 && slices.Contains(known389[len(names389()):], name) && !slices.Contains(noteless389, name) && !off389(vs[0]) {
			t.leave(name, reasons389[name])
		}
	}
	return t.policy, t.left
}

var reasons389 = map[string]string{
	"passwordDictCheck":        "pwdQuality: strength 3 or unlisted does it better",
	"passwordDictPath":         "pwdQuality: unlisted has a list",
	"passwordBadWords":         "pwdQuality: unlisted has a list",
	"passwordAdminDN":          "access rules say who may do what",
	"passwordSendExpiringTime": "clients that ask are told",
}

func off389(v string) bool {
	return strings.EqualFold(v, "off") || strings.EqualFold(v, "false") || v == "0" || v == "-1" || v == ""
}

type from389 struct {
	values func(string) []string
	policy []Value
	left   []string
}

func (t *from389) put(name, value string) { t.policy = append(t.policy, Value{name, value}) }

func (t *from389) drop(name string) {
	t.policy = slices.DeleteFunc(t.policy, func(v Value) bool { return v.Name == name })
}

func (t *from389) leave(name, reason string) {
	if reason == "" {
		reason = "there is nothing like it here"
	}
	t.left = append(t.left, name+": "+reason)
}

// The method "is" reports whether an attribute is on. The parameter otherwise is the result if
// the attribute has no value.
func (t *from389) is(name string, otherwise bool) bool {
	vs := t.values(name)
	if len(vs) == 0 {
		return otherwise
	}
	return strings.EqualFold(vs[0], "on") || strings.EqualFold(vs[0], "true") || vs[0] == "1"
}

func (t *from389) number(s setting389) {
	n := s.not
	if vs := t.values(s.from); len(vs) > 0 {
		var err error
		if n, err = seconds389(vs[0]); err != nil {
			t.leave(s.from, err.Error())
			return
		}
	}
	switch demand, is := strings.CutSuffix(s.to, " "); {
	case n <= 0:
	case is && demand == "classes":
		t.put("pwdQuality", "classes "+strconv.Itoa(min(n, 4))) // 389 has a fifth class, of 8-bit characters
	case is:
		t.put("pwdQuality", s.to+strconv.Itoa(min(n, 100)))
	default:
		t.put(s.to, strconv.Itoa(n))
	}
}

// seconds389 parses a number, or a time that ends with the letter of its unit.
func seconds389(v string) (int, error) {
	unit := 1
	for letter, seconds := range map[string]int{"M": 60, "H": 3600, "D": 86400, "W": 604800} {
		if digits, is := strings.CutSuffix(strings.ToUpper(v), letter); is {
			v, unit = digits, seconds
			break
		}
	}
	n, err := strconv.Atoi(strings.TrimSpace(v))
	if err != nil {
		return 0, errors.New("its value is no number")
	}
	return n * unit, nil
}

// settle leaves out values that this server does not allow, and values that contradict other
// values.
func (t *from389) settle() {
	for {
		_, err := Parse("", t.get)
		if err == nil {
			return
		}
		name, reason, _ := strings.Cut(err.Error(), ": ")
		reason, _, _ = strings.Cut(reason, "\n")
		before := len(t.policy)
		if t.drop(name); len(t.policy) == before {
			t.left = append(t.left, fmt.Sprintf("the policy cannot be: %v", err))
			return
		}
		t.left = append(t.left, name+": "+reason)
	}
}

func (t *from389) get(name string) (values []string) {
	for _, v := range t.policy {
		if v.Name == name {
			values = append(values, v.Value)
		}
	}
	return values
}
