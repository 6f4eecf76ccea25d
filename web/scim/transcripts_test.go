package scim_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTranscripts runs the exchanges in testdata/*.txt. A line "> METHOD PATH" begins a request; the lines up to the
// answer are headers and, behind an empty line, its body. A line "< STATUS" begins the answer that is expected; each line
// below it is PATH = JSON, the value at a place of the answer's body: names and numbers with dots between them. A value
// of - is none. "$name = PATH" keeps a value: $name then stands for it. "!NAME: TEXT" is a header of the answer.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(err, len(files))
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, vars := newServer(t), map[string]string{}
			for i, part := range strings.Split("\n"+string(text), "\n> ")[1:] {
				exchange(s, vars, i+1, part)
			}
		})
	}
}

var variable = regexp.MustCompile(`\$[a-zA-Z]+[0-9]*`)

func exchange(s *server, vars map[string]string, n int, text string) {
	s.Helper()
	text = variable.ReplaceAllStringFunc(text, func(name string) string {
		if v, ok := vars[name]; ok {
			return v
		}
		return name
	})
	request, wanted, ok := strings.Cut(text, "\n< ")
	if !ok {
		s.Fatalf("exchange %d has no answer", n)
	}
	head, body, _ := strings.Cut(request, "\n\n")
	first, rest, _ := strings.Cut(head, "\n")
	method, path, _ := strings.Cut(first, " ")
	headers := strings.FieldsFunc(rest, func(c rune) bool { return c == '\n' })
	path = strings.NewReplacer(" ", "%20", `"`, "%22").Replace(path)
	status, o, answer := s.ask(method, path, body, headers...)
	where := fmt.Sprintf("exchange %d, %s", n, first)
	for i, line := range strings.Split(wanted, "\n") {
		line = strings.TrimSpace(line)
		left, right, _ := strings.Cut(line, " = ")
		switch {
		case i == 0 && line != fmt.Sprint(status):
			s.Fatalf("%s: status %d, expected %s\n%v", where, status, line, o)
		case i == 0 || line == "" || line[0] == '#':
		case line[0] == '!':
			name, value, _ := strings.Cut(line[1:], ": ")
			if have := answer.Get(name); have != value {
				s.Errorf("%s: %s: %q", where, name, have)
			}
		case line[0] == '$':
			v, _ := at(o, right).(string)
			if vars[left] = v; v == "" {
				s.Fatalf("%s: no %s in %v", where, right, o)
			}
		default:
			have := "-"
			if v := at(o, left); v != nil {
				b, err := json.Marshal(v)
				if err != nil {
					s.Fatal(err)
				}
				have = string(b)
			}
			if have != right {
				s.Errorf("%s: %s = %s, expected %s\n%v", where, left, have, right, o)
			}
		}
	}
}

// at returns the value at a place; of an object that is the end, its names.
func at(v any, place string) any {
	for step := range strings.SplitSeq(place, "/") {
		switch x := v.(type) {
		case map[string]any:
			v = x[step]
		case []any:
			var i int
			if _, err := fmt.Sscan(step, &i); err != nil || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	if o, ok := v.(map[string]any); ok && len(o) > 5 {
		return slices.Sorted(maps.Keys(o))
	}
	return v
}
