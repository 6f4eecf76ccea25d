package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Mistakes are the errors that were found in one entry. The client gets them in one diagnostic
// message: see Err.
type Mistakes []*Error

// maxMistakes is the largest number of errors that Err reports.
const maxMistakes = 10

// Add adds an error to the list. It returns false for an error that is not an *Error:
// such an error is not a mistake in the entry and ends the operation.
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

// Err returns one error for all, with the problem of the first error and the texts of the
// first maxMistakes errors. It returns nil if there are no errors.
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
