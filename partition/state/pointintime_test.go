package state

import (
	"strings"
	"testing"
	"time"
)

func TestParseMoment(t *testing.T) {
	for text, want := range map[string]string{
		"now":                            "now",
		"r65f8c2a41b-0-1":                "revision r65f8c2a41b-0-1",
		"2026-11-20T10:00:00Z":           "2026-11-20T10:00:00Z",
		"2026-11-20T12:00:00.25+02:00":   "2026-11-20T10:00:00.25Z",
		"20261120100000Z":                "2026-11-20T10:00:00Z",
		"202611201000.5+0000":            "2026-11-20T10:00:30Z",
		"20261120100000.123456789Z":      "2026-11-20T10:00:00.123456789Z",
		"20161231235960Z":                "2017-01-01T00:00:00Z",
		"before-upgrade":                 "checkpoint before-upgrade",
		"r65f8c2a41b-0-1x":               "checkpoint r65f8c2a41b-0-1x",
		"":                               "error",
		"2026-11-20":                     "2026-11-20T00:00:00Z",
		"last week":                      "error",
		"-7d":                            "error",
		"70000d":                         "error",
		"0":                              "error",
		"40000d":                         "error",
		"2026-11-20T10:00:00":            "error",
		"20261320100000Z":                "error",
		"2012-12-31T23:59:59Z":           "error",
		"yesterday noon":                 "error",
		"\x00":                           "error",
		strings.Repeat("a", 65):          "error",
		"r65f8c2a41b-0-1\n":              "error",
		"2026-11-20T10:00:00Z and later": "error",
	} {
		m, err := ParsePointInTime(text)
		if got := spell(m, err); got != want {
			t.Errorf("%q: %s, want %s (%v)", text, got, want, err)
		}
	}
}

func TestBefore(t *testing.T) {
	now := time.Date(2026, 11, 25, 10, 30, 0, 0, time.UTC) // a Wednesday
	for text, want := range map[string]string{
		"2026-11-20":     "2026-11-20T00:00:00Z",
		"last monday":    "2026-11-23T00:00:00Z",
		"Last Wednesday": "2026-11-18T00:00:00Z",
		"last thursday":  "2026-11-19T00:00:00Z",
		"7d":             "2026-11-18T10:30:00Z",
		"36h":            "2026-11-23T22:30:00Z",
		"1h30m":          "2026-11-25T09:00:00Z",
		"last":           "",
		"last day":       "",
		"7":              "",
		"-1h":            "",
		"2026-13-01":     "",
	} {
		got, err := before(text, now)
		if (err == nil) != (want != "") || err == nil && got.Format(time.RFC3339) != want {
			t.Errorf("%q: %v %v, want %q", text, got, err, want)
		}
	}
}

func FuzzParseMoment(f *testing.F) {
	for _, s := range []string{"now", "r1-0-1", "2026-11-20T10:00:00Z", "20261120100000.5Z", "release"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := ParsePointInTime(s)
		if err == nil && (m.String() != s || spell(m, nil) == "error") {
			t.Errorf("%q: %#v", s, m)
		}
	})
}

// spell describes the result of parsing a point in time.
func spell(m PointInTime, err error) string {
	switch {
	case err != nil:
		return "error"
	case m.IsNow():
		return "now"
	case m.revision != 0:
		return "revision " + m.revision.String()
	case m.name != "":
		return "checkpoint " + m.name
	case m.time.IsZero():
		return "error"
	}
	return m.time.UTC().Format(time.RFC3339Nano)
}
