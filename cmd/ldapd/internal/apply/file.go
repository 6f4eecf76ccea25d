package apply

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
)

// A file says what a directory must have. It says nothing about anything else, which stays as it is.
type file struct {
	Suffixes   []string    `yaml:"suffixes"`
	Indexes    []string    `yaml:"indexes"` // ATTR or ATTR:LAYOUT
	Unique     []unique    `yaml:"unique"`
	References []reference `yaml:"references"`
	Entries    []record    `yaml:"entries"` // parents before children
	Rules      string      `yaml:"rules"`   // sentences, a line each, as 'ldapd access apply' takes them
}

type unique struct {
	Attribute string `yaml:"attribute"`
	Base      string `yaml:"base"` // "": everywhere
}

type reference struct {
	Attribute string `yaml:"attribute"`
	MustExist bool   `yaml:"mustExist"`
}

// A record is an entry. The attributes that it lists have exactly the values that it lists; an empty
// list removes the attribute.
type record struct {
	DN         string
	Attributes []attribute
}

type attribute struct {
	Name   string
	Values []string
}

// UnmarshalYAML reads a mapping of dn and attributes, in order.
func (r *record) UnmarshalYAML(text []byte) error {
	var fields yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(text, &fields, yaml.UseOrderedMap()); err != nil {
		return err
	}
	for _, f := range fields {
		name := fmt.Sprint(f.Key)
		values, err := valuesOf(f.Value)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		case !strings.EqualFold(name, "dn"):
			r.Attributes = append(r.Attributes, attribute{name, values})
		case len(values) != 1:
			return errors.New("dn: it needs one name")
		default:
			r.DN = values[0]
		}
	}
	if r.DN == "" {
		return errors.New("an entry needs a dn")
	}
	_, err := dn.Parse(r.DN)
	return err
}

// valuesOf returns a scalar or a list of scalars as texts.
func valuesOf(v any) (values []string, err error) {
	list, ok := v.([]any)
	if !ok && v != nil {
		list = []any{v}
	}
	for _, x := range list {
		switch x := x.(type) {
		case string:
			values = append(values, x)
		case bool:
			values = append(values, strings.ToUpper(fmt.Sprint(x))) // RFC 4517, 3.3.3
		case int, int64, uint64:
			values = append(values, fmt.Sprint(x))
		default:
			return nil, fmt.Errorf("%v is neither a text nor a number: put it in quotes", x)
		}
	}
	return values, nil
}

// parse reads the text of the file with a name.
func parse(name string, text []byte) (*file, error) {
	f := &file{}
	if err := yaml.NewDecoder(bytes.NewReader(text), yaml.DisallowUnknownField()).Decode(f); err != nil {
		return nil, &config.Error{Where: name, Text: yaml.FormatError(err, false, true)}
	}
	if _, err := f.rules(); err != nil {
		return nil, &config.Error{Where: name, Text: "rules: " + err.Error()}
	}
	for _, x := range f.Indexes {
		if _, layout, given := strings.Cut(x, ":"); given && !catalog.Layout(layout).Known() {
			return nil, &config.Error{Where: name, Text: fmt.Sprintf("indexes: %s: the layout %q is not one of %q", x, layout, catalog.Layouts())}
		}
	}
	return f, nil
}

func (f *file) rules() ([]acl.Placed, error) { return acl.ReadFile(strings.NewReader(f.Rules)) }
