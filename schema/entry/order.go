package entry

import (
	"iter"
	"slices"
	"strings"
	"unique"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// An Order is the order in which a client sent the user attributes of an entry. The zero
// Order is the natural order: objectClass first, then the other attributes by the names
// of their types, except that secret attributes come last. The process stores equal
// orders once, so the order of an entry costs 8 octets.
type Order struct{ given unique.Handle[string] }

// Described yields attribute descriptions: each type with its options in the form of
// Attribute.Options.
type Described = iter.Seq2[*schema.AttributeType, string]

// OrderOf returns the order of the described user attributes. It ignores operational
// attributes.
func OrderOf(as Described) Order {
	if isNatural(as) {
		return Order{}
	}
	var b strings.Builder
	bare := false // the last description is a code
	for t, options := range as {
		if t.Operational() {
			continue
		}
		if b.Len() > 0 && !bare {
			b.WriteByte(' ')
		}
		b.WriteString(t.InValues())
		b.WriteString(options)
		bare = options == "" && dn.CodeLength(t.InValues()) > 0
	}
	return ParseOrder(b.String())
}

// ParseOrder parses an order in the form that [Order.String] returns.
func ParseOrder(s string) Order {
	if s == "" {
		return Order{}
	}
	return Order{unique.Make(s)}
}

// String returns the attribute descriptions, or "" for the natural order. Types are written as in the
// columns of values. A space separates descriptions, but does not follow a code without options.
func (o Order) String() string {
	if o == (Order{}) {
		return ""
	}
	return o.given.Value()
}

// In returns the order with types as they are written in stores for which the schema was made. The schema must have
// been made from the same definitions as that of the store from which the order comes.
func (o Order) In(from, to *schema.Schema) Order {
	var b strings.Builder
	bare := true
	for rest := o.String(); rest != ""; {
		var d string
		d, rest = cutDescription(rest)
		if !bare {
			b.WriteByte(' ')
		}
		text, options := d, ""
		if i := strings.IndexByte(d, ';'); i >= 0 {
			text, options = d[:i], d[i:]
		}
		if t := from.StoredAs(text); t != nil {
			text = to.Attribute(t.OID).InValues()
		}
		b.WriteString(text)
		b.WriteString(options)
		bare = options == "" && dn.CodeLength(text) > 0
	}
	return ParseOrder(b.String())
}

// Valid reports whether the order contains each description only once.
func (o Order) Valid() bool {
	seen := map[string]bool{}
	for rest := o.String(); rest != ""; {
		var d string
		if d, rest = cutDescription(rest); d == "" || seen[d] {
			return false
		}
		seen[d] = true
	}
	return !strings.HasSuffix(o.String(), " ")
}

// cutDescription returns the first description of an order and the rest of the order.
func cutDescription(order string) (d, rest string) {
	if n := dn.CodeLength(order); n > 0 && (len(order) == n || order[n] != ';') {
		return order[:n], order[n:]
	}
	d, rest, _ = strings.Cut(order, " ")
	return d, rest
}

// isNatural reports whether the described user attributes are in the natural order.
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

// precedes reports whether attribute a comes before attribute b in the natural order:
// objectClass comes first, secret attributes come last, and the others are sorted by name.
func precedes(a *schema.AttributeType, aOptions string, b *schema.AttributeType, bOptions string) bool {
	if x, y := unnamedRank(a), unnamedRank(b); x != y {
		return x < y
	}
	return aOptions < bOptions
}

// These are the ranks of attributes that an order does not contain. The rank of the name among the names of all
// types is added to all of them but the first.
const (
	rankFirst       = -1 // objectClass
	rankUser        = 1 << 24
	rankSecret      = 2 << 24
	rankOperational = 3 << 24
	rankID          = 4 << 24 // entryUUID
	rankHidden      = 5 << 24 // operational and secret
)

func unnamedRank(t *schema.AttributeType) int {
	switch {
	case t.OID == objectClass:
		return rankFirst
	case t.Operational() && t.Secret():
		return rankHidden + t.NameRank()
	case t.OID == schema.EntryUUIDOID:
		return rankID
	case t.Operational():
		return rankOperational + t.NameRank()
	case t.Secret():
		return rankSecret + t.NameRank()
	}
	return rankUser + t.NameRank()
}

const objectClass = "2.5.4.0"

// Arrange sorts attributes: first objectClass if o does not contain it; then the attributes
// that o contains, in the order that o defines; then the other user attributes, with secret
// attributes last; then operational attributes, with entryUUID last. Attributes that o does not contain are in the order of their
// names. Those with equal names keep their order, which is that of their options if they were read from a row.
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

// few is the largest number of attributes that Arrange sorts without allocating memory.
const few = 32

// sortKey combines the rank of an attribute with its index in the slice, so that
// attributes of equal rank keep their order.
func sortKey(rank, index int) int64 { return int64(rank)<<indexBits | int64(index) }

const (
	indexBits = 32
	indexMask = 1<<indexBits - 1
)

// nameFew sets the keys of the attributes that order contains. It searches the attributes
// once for each description.
func nameFew(order string, as []Attribute, keys []int64) {
	for rank := 0; order != ""; rank++ {
		var d string
		d, order = cutDescription(order)
		for i := range as {
			if isCalled(&as[i], d) {
				keys[i] = sortKey(rank, i)
				break
			}
		}
	}
}

func isCalled(a *Attribute, d string) bool {
	name := a.Type.InValues()
	return len(d) == len(name)+len(a.Options) && d[:len(name)] == name && d[len(name):] == a.Options
}

// nameMany sets the same keys as nameFew, but looks up each description in a map.
func nameMany(order string, as []Attribute, keys []int64) {
	at := make(map[string]int, len(as))
	for i := range as {
		at[as[i].Type.InValues()+as[i].Options] = i
	}
	for rank := 0; order != ""; rank++ {
		var d string
		d, order = cutDescription(order)
		if i, ok := at[d]; ok {
			keys[i] = sortKey(rank, i)
		}
	}
}
