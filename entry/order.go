package entry

import (
	"iter"
	"slices"
	"strings"
	"unique"

	"github.com/seed-4dac0d86/ldapd/schema"
)

// An Order is the order in which a client sent an entry's user attributes. The zero
// Order is the natural one: objectClass first, then by the names of types, secret ones
// last. Equal orders are stored once, so one costs an entry 8 octets.
type Order struct{ given unique.Handle[string] }

// Described yields attribute descriptions: types and options in the form of
// Attribute.Options.
type Described = iter.Seq2[*schema.AttributeType, string]

// OrderOf returns the order of some attributes. It ignores operational ones.
func OrderOf(as Described) Order {
	if isNatural(as) {
		return Order{}
	}
	var b strings.Builder
	for t, options := range as {
		if t.Operational() {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(t.Name())
		b.WriteString(options)
	}
	return ParseOrder(b.String())
}

// ParseOrder parses what String returns.
func ParseOrder(s string) Order {
	if s == "" {
		return Order{}
	}
	return Order{unique.Make(s)}
}

// String returns the descriptions separated by spaces; "" is the natural order.
func (o Order) String() string {
	if o == (Order{}) {
		return ""
	}
	return o.given.Value()
}

// Valid reports whether no description occurs twice.
func (o Order) Valid() bool {
	seen := map[string]bool{}
	for d := range strings.SplitSeq(o.String(), " ") {
		if d == "" && o != (Order{}) || seen[d] {
			return false
		}
		seen[d] = true
	}
	return true
}

// isNatural reports whether user attributes come in the natural order.
func isNatural(as Described) bool {
	var last *schema.AttributeType
	lastOptions := ""
	for t, options := range as {
		if t.Operational() {
			continue
		}
		if last != nil && !precedes(last, lastOptions, t, options) {
			return false
		}
		last, lastOptions = t, options
	}
	return true
}

// precedes compares attributes as the rows of the master table sort, except that secret
// attributes come after the others.
func precedes(a *schema.AttributeType, aOptions string, b *schema.AttributeType, bOptions string) bool {
	if x, y := unnamedRank(a), unnamedRank(b); x != y {
		return x < y
	}
	if a == b {
		return aOptions < bOptions
	}
	return a.Name()+aOptions < b.Name()+bOptions
}

// Ranks of attributes that an order does not contain.
const (
	rankFirst = -1 // objectClass
	rankUser  = 1<<24 + iota
	rankSecret
	rankOperational
)

func unnamedRank(t *schema.AttributeType) int {
	switch {
	case t.OID == objectClass:
		return rankFirst
	case t.Operational():
		return rankOperational
	case t.Secret():
		return rankSecret
	}
	return rankUser
}

const objectClass = "2.5.4.0"

// Arrange sorts attributes: first those in the order, then newer user attributes, then
// operational ones. Those of the same kind keep their order, which is by name if they
// were read from a row.
func (o Order) Arrange(as []Attribute) {
	var keys [few]int64
	var old [few]Attribute
	ks := keys[:0]
	for i := range as {
		ks = append(ks, sortKey(unnamedRank(as[i].Type), i))
	}
	if len(as) <= few {
		nameFew(o.String(), as, ks)
	} else {
		nameMany(o.String(), as, ks)
	}
	if slices.IsSorted(ks) {
		return
	}
	slices.Sort(ks)
	was := append(old[:0], as...)
	for i, k := range ks {
		as[i] = was[k&indexMask]
	}
}

// few is how many attributes are arranged without allocating memory.
const few = 32

// sortKey combines the rank of an attribute with its index, so that attributes of equal
// rank keep their order.
func sortKey(rank, index int) int64 { return int64(rank)<<indexBits | int64(index) }

const (
	indexBits = 32
	indexMask = 1<<indexBits - 1
)

// nameFew ranks the attributes that an order contains by searching as for each.
func nameFew(order string, as []Attribute, keys []int64) {
	for rank := 0; order != ""; rank++ {
		var d string
		d, order, _ = strings.Cut(order, " ")
		for i := range as {
			if isCalled(&as[i], d) {
				keys[i] = sortKey(rank, i)
				break
			}
		}
	}
}

func isCalled(a *Attribute, d string) bool {
	name := a.Type.Name()
	return len(d) == len(name)+len(a.Options) && d[:len(name)] == name && d[len(name):] == a.Options
}

// nameMany does the same with a map.
func nameMany(order string, as []Attribute, keys []int64) {
	at := make(map[string]int, len(as))
	for i := range as {
		at[as[i].Type.Name()+as[i].Options] = i
	}
	for rank := 0; order != ""; rank++ {
		var d string
		d, order, _ = strings.Cut(order, " ")
		if i, ok := at[d]; ok {
			keys[i] = sortKey(rank, i)
		}
	}
}
