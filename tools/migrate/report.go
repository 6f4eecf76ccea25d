package migrate

import (
	"fmt"
	"strings"

	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A Difference is an entry that differs between the server and the directory.
type Difference struct {
	Name       string
	Here       bool     // the directory has the entry
	There      bool     // the server has the entry
	Attributes []string // if both have it: the attributes that differ
	Why        string   // if only the server has it: why the directory refuses the entry, or ""
	id         entry.ID
}

func (d *Difference) String() string {
	switch {
	case !d.There:
		return "here only: " + d.Name
	case !d.Here && d.Why != "":
		return "there only: " + d.Name + ": " + d.Why
	case !d.Here:
		return "there only: " + d.Name
	}
	return "different: " + d.Name + ": " + strings.Join(d.Attributes, ", ")
}

// A Report is the result of a comparison.
type Report struct {
	Both        int // entries that both the directory and the server have
	Differences []*Difference
}

// Counts returns three numbers of entries: those that only the directory has, those that only
// the server has, and those that differ.
func (r *Report) Counts() (here, there, different int) {
	for _, d := range r.Differences {
		switch {
		case !d.There:
			here++
		case !d.Here:
			there++
		default:
			different++
		}
	}
	return here, there, different
}

func (r *Report) String() string {
	here, there, different := r.Counts()
	return fmt.Sprintf("%d entries on both, %d here only, %d there only, %d different", r.Both, here, there, different)
}
