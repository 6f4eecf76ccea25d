package schema

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"
)

// keyOrProhibited returns the key of the value v. k and err are the results of preparing
// v. If err reports that RFC 4518 prohibits v, the key contains two bytes, both 0xf0 or
// more, for each byte of v. Different values have different keys. UTF-8 never contains
// two such bytes in a row, so no assertion and no piece of an assertion matches the key.
func keyOrProhibited(k, v []byte, err error) ([]byte, error) {
	if _, ok := err.(*ProhibitedError); !ok {
		return k, err
	}
	k = make([]byte, 0, 2*len(v))
	for _, c := range v {
		k = append(k, 0xf0|c>>4, 0xf0|c&0xf)
	}
	return k, nil
}

// integerKey encodes a decimal integer of any size. bytes.Compare orders keys in the
// order of the integers. A key consists of a head, which contains the number n of digits,
// and the digits. If the integer is negative, all bits of the key are inverted. The head
// is
//
//	0x80+n            if n < 0x70
//	0xf0+m, m bytes   otherwise: the m bytes are n, big-endian
func integerKey(v []byte) ([]byte, error) {
	if !validInteger(v) {
		return nil, errInteger
	}
	digits := bytes.TrimPrefix(v, []byte{'-'})
	negative := len(digits) < len(v)
	out := make([]byte, 0, len(digits)+1)
	if n := len(digits); n < 0x70 {
		out = append(out, 0x80+byte(n))
	} else {
		size := big.NewInt(int64(n)).Bytes()
		out = append(append(out, 0xf0+byte(len(size))), size...)
	}
	out = append(out, digits...)
	if negative {
		invert(out)
	}
	return out, nil
}

func invert(b []byte) {
	for i := range b {
		b[i] = ^b[i]
	}
}

var errInteger = errors.New("not an integer: digits with no leading zeros, at most 4096, perhaps a minus sign before them")

// maxDigits bounds the digits of integers, because arithmetic with them is quadratic.
const maxDigits = 4096

// validInteger reports whether v is an integer (RFC 4517, 3.3.16). "-0" is not valid.
func validInteger(v []byte) bool {
	digits := bytes.TrimPrefix(v, []byte{'-'})
	if len(digits) == 0 || len(digits) > maxDigits || !allDigits(digits) {
		return false
	}
	return digits[0] != '0' || len(v) == 1
}

func allDigits(v []byte) bool {
	for _, c := range v {
		if !isDigit(c) {
			return false
		}
	}
	return true
}

// integerOfKey returns the integer that integerKey has encoded as k.
func integerOfKey(k []byte) *big.Int {
	n := new(big.Int)
	if len(k) == 0 {
		return n
	}
	negative := k[0] < 0x80
	if negative {
		k = bytes.Clone(k)
		invert(k)
	}
	skip := 1
	if k[0] >= 0xf0 {
		skip += int(k[0] - 0xf0)
	}
	n.SetString(string(k[min(skip, len(k)):]), 10)
	if negative {
		n.Neg(n)
	}
	return n
}

// timeKey returns a generalized time (RFC 4517, 3.3.13) in UTC as YYYYMMDDHHMMSS,
// followed by a fraction of a second as ".digits" without trailing zeros. It converts a
// fraction of an hour or a minute exactly to minutes and seconds.
func timeKey(v []byte) ([]byte, error) {
	t, err := parseTime(v)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, 16+len(t.fraction))
	out = t.minute.AppendFormat(out, "200601021504")
	out = append(out, '0'+byte(t.second/10), '0'+byte(t.second%10))
	if len(t.fraction) > 0 {
		out = append(append(out, '.'), t.fraction...)
	}
	return out, nil
}

// AppendTime appends the time t as a generalized time with a precision of a second.
func AppendTime(b []byte, t time.Time) []byte { return t.UTC().AppendFormat(b, "20060102150405Z") }

// Time parses a generalized time with a precision of a nanosecond. Package time has no
// leap seconds, so second 60 becomes the first second of the next minute.
func Time(v []byte) (time.Time, error) {
	t, err := parseTime(v)
	if err != nil {
		return time.Time{}, err
	}
	nanos := 0
	for i := range 9 {
		nanos *= 10
		if i < len(t.fraction) {
			nanos += int(t.fraction[i] - '0')
		}
	}
	return t.minute.Add(time.Duration(t.second)*time.Second + time.Duration(nanos)), nil
}

// generalTime is a parsed generalized time. The field minute does not include the second,
// because package time has no leap seconds.
type generalTime struct {
	minute   time.Time // in UTC
	second   int
	fraction []byte // digits of a fraction of a second, without trailing zeros
}

var errTime = errors.New("not a generalized time: YYYYMMDDHH[MM[SS]][.fraction](Z|+HHMM|-HHMM)")

func parseTime(v []byte) (t generalTime, err error) {
	n := 0
	for n < len(v) && isDigit(v[n]) {
		n++
	}
	if n != 10 && n != 12 && n != 14 {
		return t, errTime
	}
	var part [6]int // year, month, day, hour, minute, second
	part[0] = digits2(v)*100 + digits2(v[2:])
	for i := 4; i < n; i += 2 {
		part[i/2-1] = digits2(v[i:])
	}
	if part[1] < 1 || part[1] > 12 || part[2] < 1 || part[2] > daysIn(part[0], part[1]) ||
		part[3] > 23 || part[4] > 59 || part[5] > 60 {
		return t, errTime
	}
	rest := v[n:]
	var fraction []byte
	if len(rest) > 0 && (rest[0] == '.' || rest[0] == ',') {
		end := 1
		for end < len(rest) && isDigit(rest[end]) {
			end++
		}
		if end == 1 {
			return t, errTime
		}
		fraction, rest = bytes.Clone(rest[1:end]), rest[end:]
	}
	offset, ok := zone(rest)
	if !ok {
		return t, errTime
	}
	if n == 10 {
		part[4] = scale60(fraction)
	}
	if n <= 12 {
		part[5] = scale60(fraction)
	}
	t.minute = time.Date(part[0], time.Month(part[1]), part[2], part[3], part[4]-offset, 0, 0, time.UTC)
	if year := t.minute.Year(); year < 0 || year > 9999 {
		return t, errors.New("time outside of the years 0000 to 9999 in UTC")
	}
	t.second = part[5]
	t.fraction = bytes.TrimRight(fraction, "0")
	return t, nil
}

func digits2(v []byte) int { return int(v[0]-'0')*10 + int(v[1]-'0') }

func daysIn(year, month int) int {
	return time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// zone parses "Z" or a time difference from UTC, and returns the difference in minutes.
func zone(v []byte) (minutes int, ok bool) {
	if len(v) == 1 && v[0] == 'Z' {
		return 0, true
	}
	if len(v) != 3 && len(v) != 5 || v[0] != '+' && v[0] != '-' || !allDigits(v[1:]) {
		return 0, false
	}
	minutes = digits2(v[1:]) * 60
	if len(v) == 5 {
		minutes += digits2(v[3:])
		if digits2(v[3:]) > 59 {
			return 0, false
		}
	}
	if v[0] == '-' {
		minutes = -minutes
	}
	return minutes, digits2(v[1:]) <= 23
}

// scale60 multiplies a decimal fraction by 60. It returns the integer part of the product
// and leaves the fractional part in fraction.
func scale60(fraction []byte) int {
	carry := 0
	for i := len(fraction) - 1; i >= 0; i-- {
		carry += int(fraction[i]-'0') * 60
		fraction[i] = '0' + byte(carry%10)
		carry /= 10
	}
	return carry
}

func booleanKey(v []byte) ([]byte, error) {
	if s := string(v); s != "TRUE" && s != "FALSE" {
		return nil, errors.New("not TRUE or FALSE")
	}
	return v, nil
}

func bitStringKey(v []byte) ([]byte, error) {
	if !validBitString(v) {
		return nil, errors.New("not a bit string: '0101'B")
	}
	return v, nil
}

func validBitString(v []byte) bool {
	n := len(v)
	if n < 3 || v[0] != '\'' || v[n-2] != '\'' || v[n-1] != 'B' {
		return false
	}
	for _, c := range v[1 : n-2] {
		if c != '0' && c != '1' {
			return false
		}
	}
	return true
}

// uuidKey returns the 16 bytes of a UUID (RFC 4530, 2).
func uuidKey(v []byte) ([]byte, error) {
	if len(v) != 36 {
		return nil, errUUID
	}
	out := make([]byte, 0, 16)
	for i := 0; i < len(v); {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if v[i] != '-' {
				return nil, errUUID
			}
			i++
			continue
		}
		high, low := hexDigit(v[i]), hexDigit(v[i+1])
		if high < 0 || low < 0 {
			return nil, errUUID
		}
		out = append(out, byte(high<<4|low))
		i += 2
	}
	return out, nil
}

var errUUID = errors.New("not a UUID: 8-4-4-4-12 hexadecimal digits")

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

// csnKey returns a change sequence number (draft-chu-ldap-csn) in the form
// YYYYMMDDHHMMSS.uuuuuuZ#cccccc#sss#mmmmmm, in lower case. In values of older servers,
// the time has no microseconds and the server's number has two digits.
func csnKey(v []byte) ([]byte, error) {
	parts := strings.Split(strings.ToLower(string(v)), "#")
	if len(parts) != 4 {
		return nil, errCSN
	}
	stamp := strings.TrimSuffix(parts[0], "z")
	seconds, micros, _ := strings.Cut(stamp, ".")
	if len(stamp) == len(parts[0]) || len(micros) > 6 || len(seconds) != 14 {
		return nil, errCSN
	}
	if _, err := parseTime([]byte(strings.ToUpper(parts[0]))); err != nil {
		return nil, errCSN
	}
	micros += "000000"[len(micros):]
	if len(parts[2]) == 2 {
		parts[2] = "0" + parts[2]
	}
	if !allHex(parts[1], 6) || !allHex(parts[2], 3) || !allHex(parts[3], 6) {
		return nil, errCSN
	}
	return fmt.Appendf(nil, "%s.%sz#%s#%s#%s", seconds, micros, parts[1], parts[2], parts[3]), nil
}

var errCSN = errors.New("not a CSN: YYYYMMDDHHMMSS.uuuuuuZ#cccccc#sss#mmmmmm")

func allHex(s string, n int) bool {
	for i := 0; i < len(s); i++ {
		if hexDigit(s[i]) < 0 {
			return false
		}
	}
	return len(s) == n
}

// listSeparator separates the lines in the key of a list. String preparation removes this
// character from lines and from pieces of assertions, so a piece never matches text on
// two lines (RFC 4517, 4.2.10).
const listSeparator = '\n'

// listKey returns the key of a postal address. It prepares each line (RFC 4517, 4.2.9).
func listKey(v []byte) ([]byte, error) {
	var out []byte
	for i, line := range bytes.Split(v, []byte{'$'}) {
		if i > 0 {
			out = append(out, listSeparator)
		}
		k, err := stringKey(unescapeLine(line), true)
		if err != nil {
			return keyOrProhibited(nil, v, err)
		}
		out = append(out, k...)
	}
	return out, nil
}

var lineUnescaper = strings.NewReplacer(`\24`, "$", `\5C`, `\`, `\5c`, `\`)

func unescapeLine(line []byte) []byte {
	if bytes.IndexByte(line, '\\') < 0 {
		return line
	}
	return []byte(lineUnescaper.Replace(string(line)))
}
