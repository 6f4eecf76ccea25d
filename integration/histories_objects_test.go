package integration

import (
	"slices"
	"strconv"
	"strings"
)

// A step is one operation on an object that must be linearizable: the operations on the object
// must behave as if they ran one after the other. Each operation must seem to run at one
// moment between its call and its answer. The state of an object is text.
type step interface {
	object() string
	initial() string
	// The method "next" returns the state after the step. The result ok is false if the step is
	// impossible in the state, or if the step would return an output other than the given
	// output. If the given output of an update is empty, it is not compared.
	next(state, output string) (after string, ok bool)
}

// isRead reports whether a step is a read.
func isRead(s step) bool {
	switch s.(type) {
	case countRead, registerRead, hasRead, treeRead:
		return true
	}
	return false
}

// Counters are changed by the increment of RFC 4525.
type (
	increment string // its output is the count after the increment
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

// A register has one value. An exchange replaces the value only if it is still the
// value that was read.
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

// Each value of one multi-valued attribute is an object. The state of the object says
// whether the value is present.
type (
	put struct {
		value string
		there bool // whether the value is present after the step
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

// A tree consists of the entries below one entry. The state has a line for each entry:
// its path from the top, and an id that distinguishes the entry from entries that have
// the same name at another time.
type (
	grow     struct{ tree, path, id string }
	prune    struct{ tree, path string }
	moveTo   struct{ tree, from, to string }
	treeRead string
)

// movers are the paths of the initial entries in trees whose entries are only moved.
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

// paths parses the state of a tree into a map from path to id.
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

// The function "above" returns the path of an entry's parent.
func above(path string) string {
	return path[:max(strings.LastIndexByte(path, '/'), 0)]
}

// vacant reports whether a path is free and its parent exists.
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
