package acl

import (
	"slices"
	"strings"
)

// Rights are what an identity may do with an entry or with values of an attribute.
type Rights uint32

// The rights on entries.
const (
	See     Rights = 1 << iota // know that the entry exists, and its name
	Add                        // add it
	Delete                     // delete it
	Rename                     // change its RDN
	Move                       // move it away from its parent
	Receive                    // be moved to: the entry at its new place
	Bind                       // bind as it
	Proxy                      // act as it
	Past                       // see past states of it
	Explain                    // ask for explanations of access to it
	Manage                     // be its administrator
	Use                        // of the server: a control, extended operation or matching rule
)

// The rights on values.
const (
	Show    Rights = 1 << (iota + 16) // see them in results
	Search                            // use them in filters and for sorting
	Compare                           // assert them in a Compare
	Insert                            // add them
	Remove                            // delete them
)

// Combined rights with a word of their own.
const (
	Find  = See | Search | Compare
	Read  = Find | Show
	Write = Insert | Remove
	Edit  = Write | Add | Delete | Rename | Move | Receive

	// EntryRights are all rights on one entry, AttributeRights those on values.
	EntryRights     = See | Add | Delete | Rename | Move | Receive | Bind | Proxy | Past | Explain | Manage
	AttributeRights = Show | Search | Compare | Insert | Remove

	onEntries    = EntryRights | Use
	onAttributes = AttributeRights
)

// Each returns the single rights.
func (r Rights) Each() (all []Rights) {
	for bit := Rights(1); bit != 0 && bit <= r; bit <<= 1 {
		if r&bit != 0 {
			all = append(all, bit)
		}
	}
	return all
}

// rightWords are all words for rights. The combined ones come first, so that String
// prefers them.
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

// String returns the rights in as few words as possible.
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

// ParseRights parses words for rights separated by commas.
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

// words returns all words for rights, for messages.
func words() string {
	var all []string
	for _, w := range rightWords {
		all = append(all, w.word)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
