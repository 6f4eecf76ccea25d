package acl

import (
	"slices"
	"strings"
)

// Rights is a set of actions that an identity may perform on an entry or on values of an
// attribute.
type Rights uint32

// The rights on entries.
const (
	See     Rights = 1 << iota // know that the entry exists, and know its name
	Add                        // add the entry
	Delete                     // delete the entry
	Rename                     // change the entry's RDN
	Move                       // move the entry away from its parent
	Receive                    // receive an entry by a move: the right is tested on the entry with its new name
	Bind                       // bind as the entry
	Proxy                      // act as the entry
	Past                       // read past states of the entry
	Explain                    // request explanations of access to the entry
	Manage                     // be an administrator of the entry
	Use                        // use a control, extended operation or matching rule of the server
)

// The rights on values.
const (
	Show    Rights = 1 << (iota + 16) // read the values in results
	Search                            // use the values in filters and for sorting
	Compare                           // assert values in a Compare
	Insert                            // add values
	Remove                            // delete values
)

// Combinations of rights that have a word in rules.
const (
	Find  = See | Search | Compare
	Read  = Find | Show
	Write = Insert | Remove
	Edit  = Write | Add | Delete | Rename | Move | Receive

	// EntryRights are all rights on one entry. AttributeRights are all rights on values.
	EntryRights     = See | Add | Delete | Rename | Move | Receive | Bind | Proxy | Past | Explain | Manage
	AttributeRights = Show | Search | Compare | Insert | Remove

	onEntries    = EntryRights | Use
	onAttributes = AttributeRights
)

// Each returns the rights of r one by one.
func (r Rights) Each() (all []Rights) {
	for bit := Rights(1); bit != 0 && bit <= r; bit <<= 1 {
		if r&bit != 0 {
			all = append(all, bit)
		}
	}
	return all
}

// rightWords are all words for rights. The words for combinations come first, so String
// prefers these words.
var rightWords = []struct {
	word   string
	rights Rights
}{
	{"edit", Edit}, {"read", Read}, {"find", Find}, {"write", Write},
	{"see", See}, {"show", Show}, {"search", Search}, {"compare", Compare},
	{"insert", Insert}, {"remove", Remove},
	{"add", Add}, {"delete", Delete}, {"rename", Rename}, {"move", Move}, {"receive", Receive},
	{"bind", Bind}, {"proxy", Proxy}, {"past", Past}, {"explain", Explain}, {"manage", Manage}, {"use", Use},
}

func rightsOf(word string) (Rights, bool) {
	for _, w := range rightWords {
		if strings.EqualFold(w.word, word) {
			return w.rights, true
		}
	}
	return 0, false
}

// String returns the words for the rights. It prefers words for combinations.
func (r Rights) String() string {
	var words []string
	for _, w := range rightWords {
		if r&w.rights == w.rights && w.rights != 0 {
			words = append(words, w.word)
			r &^= w.rights
		}
	}
	return strings.Join(words, ", ")
}

// ParseRights parses words for rights that are separated by commas.
func ParseRights(s string) (Rights, bool) {
	var all Rights
	for word := range strings.SplitSeq(s, ",") {
		r, ok := rightsOf(strings.TrimSpace(word))
		if !ok {
			return 0, false
		}
		all |= r
	}
	return all, true
}

// words returns all words for rights, for use in error messages.
func words() string {
	var all []string
	for _, w := range rightWords {
		all = append(all, w.word)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
