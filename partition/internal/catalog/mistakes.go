package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Mistakes are what is wrong with one entry, all of which its author wants to know.
type Mistakes []*Error

// maxMistakes bounds how many are told.
const maxMistakes = 10

// Add notes an error. It returns false if that is none of the entry's, but one that
// ends the work.
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

// Err is all of them as one error with the first one's problem.
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
