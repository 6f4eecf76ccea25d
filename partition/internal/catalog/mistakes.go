package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Mistakes are all errors of one entry, for its author.
type Mistakes []*Error

// maxMistakes bounds how many are reported.
const maxMistakes = 10

// Add adds an error. It returns false if the error is not one of the entry but ends the
// work.
func (f *Mistakes) Add(err error) bool {
	var p *Error
	if err == nil {
		return true
	}
	if !errors.As(err, &p) {
		return false
	}
	if !slices.ContainsFunc(*f, func(o *Error) bool { return o.Text == p.Text }) {
		*f = append(*f, p)
	}
	return true
}

// Err returns all of them as one error with the problem of the first.
func (f Mistakes) Err() error {
	switch len(f) {
	case 0:
		return nil
	case 1:
		return f[0]
	}
	texts := make([]string, 0, maxMistakes+1)
	for i, p := range f {
		if i == maxMistakes {
			texts = append(texts, fmt.Sprintf("and %d more", len(f)-i))
			break
		}
		texts = append(texts, p.Text)
	}
	all := *f[0]
	all.Text = strings.Join(texts, "; ")
	return &all
}
