package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// A Format is how a command prints what it lists or shows.
type Format string

// The formats.
const (
	Text Format = ""
	JSON Format = "json" // an object a line
	CSV  Format = "csv"  // comma-separated values (RFC 4180), with a line of names first
)

// formatFlag is a boolean flag that sets a format.
type formatFlag struct {
	format *Format
	sets   Format
}

func (f formatFlag) String() string   { return "false" }
func (f formatFlag) Type() string     { return "bool" }
func (f formatFlag) IsBoolFlag() bool { return true }

func (f formatFlag) Set(text string) error {
	switch text {
	case "true":
		*f.format = f.sets
	case "false":
	default:
		return fmt.Errorf("it takes no value")
	}
	return nil
}

// AddTo adds the flags --json and --csv to a command, and returns the command.
func (f *Format) AddTo(c *cobra.Command) *cobra.Command {
	for _, x := range []struct {
		sets Format
		help string
	}{{JSON, "print JSON, an object a line"}, {CSV, "print comma-separated values, with a line of names first"}} {
		c.Flags().VarPF(formatFlag{f, x.sets}, string(x.sets), "", x.help).NoOptDefVal = "true"
	}
	c.MarkFlagsMutuallyExclusive(string(JSON), string(CSV))
	return c
}

// A Row is a row whose fields are known only when the command runs, in order.
type Row []Field

// A Field is a field of a Row. Its value is what encoding/json encodes.
type Field struct {
	Name  string
	Value any
}

// MarshalJSON implements json.Marshaler.
func (r Row) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, f := range r {
		name, err := json.Marshal(f.Name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(f.Value)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = slices.Concat(b, name, []byte{':'}, value)
	}
	return append(b, '}'), nil
}

// Readable returns the values of an attribute as texts. Values that are no text are in base64.
func Readable(values ...[]byte) []string {
	texts := make([]string, len(values))
	for i, v := range values {
		if texts[i] = string(v); !utf8.Valid(v) {
			texts[i] = base64.StdEncoding.EncodeToString(v)
		}
	}
	return texts
}

// Print prints rows in a format. As text, it calls the function text for each row, which may be nil if
// the format is never Text. JSON and CSV have the fields that encoding/json writes of a row; in CSV,
// the values of a list are separated by " | ".
func Print[T any](w io.Writer, f Format, rows []T, text func(T) string) error {
	switch f {
	case JSON:
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		for _, r := range rows {
			if err := e.Encode(r); err != nil {
				return err
			}
		}
		return nil
	case CSV:
		return printCSV(w, rows)
	}
	for _, r := range rows {
		if _, err := fmt.Fprintln(w, text(r)); err != nil {
			return err
		}
	}
	return nil
}

// printCSV prints the columns in the order in which the rows have them. A struct type has all columns,
// also those that no row has.
func printCSV[T any](w io.Writer, rows []T) error {
	columns := columnsOf(reflect.TypeFor[T]())
	var values []map[string]string
	for _, r := range rows {
		names, row, err := fields(r)
		if err != nil {
			return err
		}
		for i, name := range names {
			if !slices.Contains(columns, name) {
				after := 0 // a column that earlier rows lack stays beside the one before it
				if i > 0 {
					after = slices.Index(columns, names[i-1]) + 1
				}
				columns = slices.Insert(columns, after, name)
			}
		}
		values = append(values, row)
	}
	out := csv.NewWriter(w)
	if len(columns) > 0 {
		out.Write(columns)
	}
	for _, row := range values {
		line := make([]string, len(columns))
		for i, name := range columns {
			line[i] = row[name]
		}
		out.Write(line)
	}
	out.Flush()
	return out.Error()
}

// columnsOf returns the names of a struct type's fields in JSON, or nil for another type.
func columnsOf(t reflect.Type) (names []string) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// fields returns the names of the fields that encoding/json writes of a value, in order, and their values.
func fields(v any) (names []string, values map[string]string, err error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, nil, err
	}
	values = map[string]string{}
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		return nil, nil, err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, nil, err
		}
		names = append(names, name.(string))
		values[name.(string)] = field(value)
	}
	return names, values, nil
}

// field returns a JSON value as a field of CSV.
func field(value json.RawMessage) string {
	var text string
	var list []string
	switch {
	case string(value) == "null":
		return ""
	case json.Unmarshal(value, &text) == nil:
		return text
	case json.Unmarshal(value, &list) == nil:
		return strings.Join(list, " | ")
	}
	return string(value)
}
