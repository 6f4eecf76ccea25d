package control

import (
	"errors"
	"unicode/utf8"
)

// OIDBranch is the OID of the branch control, which makes an operation work in a branch.
// The OID is made from a UUID.
const OIDBranch = "2.25.220932908602969335986291669498557466831"

// Branch is the value of the branch control, which is the name of a branch.
type Branch struct{ Name string }

// ParseBranch parses the value of a request. A missing or empty value is an error.
func ParseBranch(value []byte) (b Branch, err error) {
	switch {
	case len(value) == 0:
		return b, errors.New("it has no value: the value is the name of a branch")
	case !utf8.Valid(value):
		return b, errors.New("the name of the branch is not UTF-8")
	}
	return Branch{string(value)}, nil
}
