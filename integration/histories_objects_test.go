package integration

import (
	"slices"
	"strconv"
	"strings"
)

// A step is one operation on an object that must be linearizable: operations behave as if
// they ran one after the other, each at some time between its call and its answer. States
// are text.
type step interface {
	object() string
	initial() string
	// next returns the state after the step. It reports !ok if the step is impossible in
	// this state, or if output is not empty and differs from that of the step.
	next(state, output string) (after string, ok bool)
}

// isRead reports whether a step changes nothing.
func isRead(s step) bool {
	switch s.(type) {
	case countRead, registerRead, hasRead, treeRead:
		return true
	}
	return false
}

// Counters count with the increment of RFC 4525.
type (
	increment string // outputs the count after it
	countRead string
)

func (c increment) object() string  { return string(c) }
func (c increment) initial() string { return "0" }
func (c increment) next(state, output string) (string, bool) {
	n, _ := strconv.Atoi(state)
	after := strconv.Itoa(n + 1)
	return after, output == "" || output == after
}

func (c countRead) object() string                           { return string(c) }
func (c countRead) initial() string                          { return "0" }
func (c countRead) next(state, output string) (string, bool) { return state, output == state }

// Registers have one value. An exchange replaces it only if it still has the value that
// was read.
type (
	exchange     struct{ register, old, new string }
	registerRead string
)

func (x exchange) object() string                      { return x.register }
func (x exchange) initial() string                     { return "0" }
func (x exchange) next(state, _ string) (string, bool) { return x.new, state == x.old }

func (r registerRead) object() string                           { return string(r) }
func (r registerRead) initial() string                          { return "0" }
func (r registerRead) next(state, output string) (string, bool) { return state, output == state }

// Values belong to a multi-valued attribute. Each is present or not.
type (
	put struct {
		value string
		there bool // after the step
	}
	hasRead string
)

func (p put) object() string  { return p.value }
func (p put) initial() string { return "false" }
func (p put) next(state, _ string) (string, bool) {
	after := strconv.FormatBool(p.there)
	return after, state != after
}

func (h hasRead) object() string                           { return string(h) }
func (h hasRead) initial() string                          { return "false" }
func (h hasRead) next(state, output string) (string, bool) { return state, output == state }

// Trees are the entries below one entry. The state has a line for each: its path, from
// the top, and an id that distinguishes it from others that have the name at another
// time.
type (
	grow     struct{ tree, path, id string }
	prune    struct{ tree, path string }
	moveTo   struct{ tree, from, to string }
	treeRead string
)

// movers are the initial entries of the trees in which entries are only moved.
var movers = []string{"a", "b", "c", "d", "e"}

func treeAtFirst(name string) string {
	m := map[string]string{}
	if strings.HasPrefix(name, "moves") {
		for _, path := range movers {
			m[path] = path
		}
	}
	return treeState(m)
}

// paths parses a state.
func paths(state string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(state) {
		path, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		m[path] = id
	}
	return m
}

func treeState(m map[string]string) string {
	var lines []string
	for path, id := range m {
		lines = append(lines, path+" "+id)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// above returns the path of the parent.
func above(path string) string {
	return path[:max(strings.LastIndexByte(path, '/'), 0)]
}

// vacant reports whether an entry can be put at a path.
func vacant(m map[string]string, path string) bool {
	_, taken := m[path]
	_, parent := m[above(path)]
	return !taken && (parent || above(path) == "")
}

func (g grow) object() string  { return g.tree }
func (g grow) initial() string { return "" }
func (g grow) next(state, _ string) (string, bool) {
	m := paths(state)
	ok := vacant(m, g.path)
	m[g.path] = g.id
	return treeState(m), ok
}

func (p prune) object() string  { return p.tree }
func (p prune) initial() string { return "" }
func (p prune) next(state, _ string) (string, bool) {
	m := paths(state)
	_, ok := m[p.path]
	delete(m, p.path)
	for path := range m {
		ok = ok && !strings.HasPrefix(path, p.path+"/")
	}
	return treeState(m), ok
}

func (v moveTo) object() string  { return v.tree }
func (v moveTo) initial() string { return treeAtFirst(v.tree) }
func (v moveTo) next(state, _ string) (string, bool) {
	rest, moved := map[string]string{}, map[string]string{}
	for path, id := range paths(state) {
		if path == v.from || strings.HasPrefix(path, v.from+"/") {
			moved[v.to+strings.TrimPrefix(path, v.from)] = id
		} else {
			rest[path] = id
		}
	}
	if len(moved) == 0 || !vacant(rest, v.to) {
		return state, false
	}
	for path, id := range moved {
		rest[path] = id
	}
	return treeState(rest), true
}

func (r treeRead) object() string                           { return string(r) }
func (r treeRead) initial() string                          { return treeAtFirst(string(r)) }
func (r treeRead) next(state, output string) (string, bool) { return state, output == state }
