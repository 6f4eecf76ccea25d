package account

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// A Past is an earlier password of an account: a value of pwdHistory (the draft, 5.3.4).
type Past struct {
	Time   time.Time // when the password was replaced
	Hash   []byte
	Stored []byte // the value of pwdHistory
}

const octetString = "1.3.6.1.4.1.1466.115.121.1.40"

// NewPast returns the value of pwdHistory for a password that was replaced at the time t.
func NewPast(t time.Time, hash []byte) Past {
	t = t.UTC()
	v := fmt.Appendf(nil, "%s#%s#%d#", t.Format(timeLayout), octetString, len(hash))
	return Past{t, hash, append(v, hash...)}
}

const timeLayout = "20060102150405Z"

// ParsePast parses a value of pwdHistory. It returns false if the value is invalid.
func ParsePast(v []byte) (Past, bool) {
	parts := bytes.SplitN(v, []byte("#"), 4)
	if len(parts) != 4 {
		return Past{}, false
	}
	t, err := time.Parse(timeLayout, string(parts[0]))
	n, err2 := strconv.Atoi(string(parts[2]))
	if err != nil || err2 != nil || n != len(parts[3]) {
		return Past{}, false
	}
	return Past{t, parts[3], v}, true
}

// Pasts parses values of pwdHistory and returns the valid values, newest first.
func Pasts(values [][]byte) (all []Past) {
	for _, v := range values {
		if h, ok := ParsePast(v); ok {
			all = append(all, h)
		}
	}
	slices.SortStableFunc(all, func(a, b Past) int { return b.Time.Compare(a.Time) })
	return all
}
