package config

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// A layer has the values from one source. It is a koanf.Provider, so that koanf can
// merge layers.
type layer []value

type value struct {
	key    string
	items  []string // one item, unless the key is a list
	origin string
}

// Read returns the layer as nested maps.
func (l layer) Read() (map[string]any, error) {
	m := map[string]any{}
	for _, v := range l {
		in, name := m, v.key
		if group, rest, ok := strings.Cut(v.key, "."); ok {
			if m[group] == nil {
				m[group] = map[string]any{}
			}
			in, name = m[group].(map[string]any), rest
		}
		if findKey(v.key).List {
			in[name] = v.items
		} else {
			in[name] = v.items[0]
		}
	}
	return m, nil
}

// ReadBytes is not supported.
func (l layer) ReadBytes() ([]byte, error) { return nil, errors.ErrUnsupported }

func defaults() layer {
	var l layer
	for _, k := range Keys {
		l = append(l, value{k.Name, split(k, k.Default), "default"})
	}
	return l
}

// split splits a list that is written in one string. Its items are separated by
// semicolons, because DNs contain commas. The URLs of the key listen may also be
// separated by spaces.
func split(k Key, s string) []string {
	if !k.List {
		return []string{s}
	}
	return strings.FieldsFunc(s, func(c rune) bool { return c == ';' || c == ' ' && k.Name == "listen" })
}

// readEnv reads the variables LDAPD_*. An unknown variable is an error, because its name
// is probably misspelled.
func readEnv(env []string) (l layer, mistakes []*Error) {
	for _, e := range env {
		name, s, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, "LDAPD_") || name == FileEnv {
			continue
		}
		k := keyOfEnv(name)
		if k == nil {
			mistakes = append(mistakes, &Error{name, "unknown configuration variable: `ldapd config` lists the keys"})
			continue
		}
		l = append(l, value{k.Name, split(*k, s), name})
	}
	return l, mistakes
}

// FileEnv is the variable with the name of the file of a command without --config.
const FileEnv = "LDAPD_CONFIG"

// DefaultFile is the file of a command without --config that names no store either, if there is
// no variable FileEnv.
const DefaultFile = "/etc/ldapd/ldapd.yaml"

// FileOf returns the name of the file of a command without --config, or "". The argument store
// reports whether the command line names a store.
func FileOf(env []string, store bool) string {
	for _, e := range slices.Backward(env) {
		name, s, _ := strings.Cut(e, "=")
		if name == FileEnv {
			return s
		}
		store = store || name == "LDAPD_STORE"
	}
	if store {
		return ""
	}
	f, err := os.Open(DefaultFile)
	if err != nil {
		return "" // the machine has none, or it is not for this user
	}
	f.Close()
	return DefaultFile
}

func keyOfEnv(name string) *Key {
	for i := range Keys {
		if Keys[i].Env() == name && !Keys[i].Test {
			return &Keys[i]
		}
	}
	return nil
}

func flags(given map[string][]string) layer {
	var l layer
	for _, k := range Keys {
		if items, ok := given[k.Name]; ok {
			if k.List && len(items) == 1 && items[0] == "" {
				items = nil // --limits-rules "" empties a list
			}
			l = append(l, value{k.Name, items, "--" + k.Flag()})
		}
	}
	return l
}

func readFile(path string) (layer, []*Error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, []*Error{{"--config", err.Error()}}
	}
	return readYAML(path, b)
}

// yamlPlace matches the position at the beginning of the parser's messages.
var yamlPlace = regexp.MustCompile(`^\[(\d+):\d+\] (.*)`)

func readYAML(path string, b []byte) (layer, []*Error) {
	file, err := parser.ParseBytes(b, 0)
	if err != nil {
		if m := yamlPlace.FindStringSubmatch(err.Error()); m != nil {
			return nil, []*Error{{path + ":" + m[1], m[2]}}
		}
		return nil, []*Error{{path, err.Error()}}
	}
	y := yamlReader{path: path}
	for _, doc := range file.Docs {
		if doc.Body != nil {
			y.mapping("", doc.Body)
		}
	}
	return y.layer, y.mistakes
}

// A yamlReader walks the syntax tree, because its nodes have line numbers.
type yamlReader struct {
	path     string
	layer    layer
	mistakes []*Error
}

func (y *yamlReader) fail(n ast.Node, format string, args ...any) {
	y.mistakes = append(y.mistakes, &Error{y.origin(n), fmt.Sprintf(format, args...)})
}

func (y *yamlReader) origin(n ast.Node) string {
	return fmt.Sprintf("%s:%d", y.path, n.GetToken().Position.Line)
}

func (y *yamlReader) mapping(prefix string, n ast.Node) {
	switch n := n.(type) {
	case *ast.MappingNode:
		for _, v := range n.Values {
			y.entry(prefix, v)
		}
	case *ast.MappingValueNode:
		y.entry(prefix, n)
	case *ast.NullNode, *ast.CommentGroupNode:
	default:
		y.fail(n, "expected keys and values")
	}
}

func (y *yamlReader) entry(prefix string, n *ast.MappingValueNode) {
	name := prefix + n.Key.GetToken().Value
	if k := findKey(name); k != nil && !k.Test {
		y.value(*k, n)
		return
	}
	if isGroup(name) {
		y.mapping(name+".", n.Value)
		return
	}
	y.fail(n.Key, "unknown key %q: `ldapd config` lists the keys", name)
}

func isGroup(name string) bool {
	for _, k := range Keys {
		if strings.HasPrefix(k.Name, name+".") && !k.Test {
			return true
		}
	}
	return false
}

func (y *yamlReader) value(k Key, n *ast.MappingValueNode) {
	v := value{key: k.Name, origin: y.origin(n.Key)}
	for _, item := range items(n.Value) {
		s, ok := scalar(item)
		if !ok {
			y.fail(n.Key, "%s: expected a plain value", k.Name)
			return
		}
		v.items = append(v.items, s)
	}
	if !k.List && len(v.items) != 1 {
		y.fail(n.Key, "%s: expected one value, not a list", k.Name)
		return
	}
	y.layer = append(y.layer, v)
}

func items(n ast.Node) []ast.Node {
	if s, ok := n.(*ast.SequenceNode); ok {
		return s.Values
	}
	return []ast.Node{n}
}

func scalar(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return strings.TrimSpace(n.Value.Value), true
	case *ast.NullNode:
		return "", true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	return "", false
}
