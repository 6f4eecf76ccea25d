package partition_test

import (
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// TestLongIncrements checks the bound on the digits of integers, because adding them takes time.
func TestLongIncrements(t *testing.T) {
	p := sample(t)
	nines := strings.Repeat("9", 4096)
	must(t, add(t, p, "uid=long,"+domain, "objectClass: account", "objectClass: posixAccount", "cn: Long", "gidNumber: 1",
		"homeDirectory: /", "uidNumber: "+nines))
	for _, c := range []struct {
		operand, says string
		problem       partition.Problem
	}{
		{"1" + nines, "the operand is not an integer: digits with no leading zeros, at most 4096", partition.Constraint},
		{"-1" + nines, "the operand is not an integer", partition.Constraint},
		{"1", "at most 4096", partition.InvalidSyntax},
		{nines, "at most 4096", partition.InvalidSyntax},
	} {
		wantProblem(t, modify(t, p, "uid=long,"+domain, change(op.ModIncrement, "uidNumber", []byte(c.operand))), c.problem, c.says)
	}
	must(t, modify(t, p, "uid=long,"+domain, change(op.ModIncrement, "uidNumber", []byte("-"+nines))))
	wantValues(t, p, "uid=long,"+domain, "uidNumber", "0")
}
