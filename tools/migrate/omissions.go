package migrate

import (
	"maps"

	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// The type omissions reports what is left out, and remembers it.
type omissions struct {
	note    func(string)
	leftOut func(name, why string)
	noted   map[string]bool // attributes that were reported
	left    map[string]bool // names of entries that were reported
	// refused are the entries that the directory has refused since all entries were compared.
	// No commit names a refused entry, so a comparison of the entries in later commits would
	// miss these entries.
	refused map[suspect]bool
}

// A suspect is an entry that has to be compared. Its name or its id may be missing.
type suspect struct {
	name string
	id   entry.ID
}

func newOmissions(o *Options) omissions {
	return omissions{o.Note, o.LeftOut, map[string]bool{}, map[string]bool{}, map[suspect]bool{}}
}

func (x *omissions) clone() omissions {
	return omissions{x.note, x.leftOut, maps.Clone(x.noted), maps.Clone(x.left), maps.Clone(x.refused)}
}

// attribute reports that an attribute is left out. It does so once for each attribute.
func (x *omissions) attribute(name string) {
	if !x.noted[name] {
		x.noted[name] = true
		x.note("attribute " + name + " of another server is left out")
	}
}

// entry reports that an entry is left out. It does so once for each entry.
func (x *omissions) entry(name string, why error) {
	if !x.left[name] {
		x.left[name] = true
		x.leftOut(name, why.Error())
	}
}

// refuse reports an entry that is left out. Finish compares the entry again.
func (x *omissions) refuse(name string, id entry.ID, why error) {
	x.refused[suspect{name, id}] = true
	x.entry(name, why)
}
