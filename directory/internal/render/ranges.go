package render

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// Ranges of values as in Active Directory: "member;range=0-1499" requests the first 1500
// values, and "range=1500-*" requests the values from index 1500 on. The option in the
// response states the range of the returned values. If the option ends in "*", there are no
// further values. A client that requests no range receives all values.

// A ranged is a request for a range of the values of one description.
type ranged struct {
	typ     *schema.AttributeType
	options string
	from    int
	size    int
}

// rangeSize is the largest number of values in one range. A client that wants more values
// sends another request.
const rangeSize = 1500

// cutRange cuts a range off the options of a description. It returns false if the options
// contain no valid range, or several ranges.
func cutRange(options string) (rest string, from, size int, ok bool) {
	var kept []string
	for _, o := range strings.Split(options, ";") {
		name, bounds, found := strings.Cut(o, "=")
		if !found || !strings.EqualFold(name, "range") {
			kept = append(kept, o)
			continue
		}
		low, high, _ := strings.Cut(bounds, "-")
		first, err := strconv.ParseUint(low, 10, 31)
		last := first + rangeSize - 1
		if high != "*" && err == nil {
			last, err = strconv.ParseUint(high, 10, 31)
		}
		if err != nil || last < first || ok {
			return "", 0, 0, false
		}
		from, size, ok = int(first), int(min(last-first+1, rangeSize)), true
	}
	return strings.Join(kept, ";"), from, size, ok
}

// addRange adds a request for a range. It returns false if the options contain no range. A
// malformed range selects nothing, and so does a range of a secret.
func (s *selector) addRange(t *schema.AttributeType, options string) bool {
	if !strings.Contains(strings.ToLower(options), "range=") {
		return false
	}
	if rest, from, size, ok := cutRange(options); ok && !t.Secret() {
		s.ranged = append(s.ranged, ranged{t, entry.SortOptions(rest), from, size})
	}
	return true
}

// appendRanges appends the requested ranges of an entry's values. If the requester may be
// shown all values, it reads only the values in the range.
func (v *Presenter) appendRanges(ctx context.Context, as []entry.Attribute, found *partition.Result) ([]entry.Attribute, error) {
	for _, r := range v.selector.ranged {
		values, more, err := v.valueRange(ctx, &r, found)
		if err != nil {
			return nil, err
		}
		if len(values) == 0 {
			continue
		}
		end := "*"
		if more {
			end = strconv.Itoa(r.from + len(values) - 1)
		}
		as = append(as, entry.Attribute{Type: r.typ, Options: fmt.Sprintf("%s;range=%d-%s", r.options, r.from, end), Values: values})
	}
	return as, nil
}

// valueRange returns a range of the values that the requester may be shown.
func (v *Presenter) valueRange(ctx context.Context, r *ranged, found *partition.Result) (values [][]byte, more bool, err error) {
	c := v.Req.Judge.Case(found.Name, found.Entry)
	all, err := c.ShowsAll(ctx, r.typ, r.options)
	if err != nil {
		return nil, false, err
	}
	if all {
		return v.storedRange(ctx, r, found)
	}
	whole := ranged{typ: r.typ, options: r.options, size: math.MaxInt32}
	if values, _, err = v.storedRange(ctx, &whole, found); err != nil {
		return nil, false, err
	}
	shown, err := c.Shown(ctx, []entry.Attribute{{Type: r.typ, Options: r.options, Values: values}})
	if err != nil || len(shown) == 0 {
		return nil, false, err
	}
	values = shown[0].Values[min(r.from, len(shown[0].Values)):]
	size := min(r.size, len(values))
	return values[:size], size < len(values), nil
}

func (v *Presenter) storedRange(ctx context.Context, r *ranged, found *partition.Result) (values [][]byte, more bool, err error) {
	if a := found.Entry.Find(r.typ, r.options); a != nil {
		values = a.Values[min(r.from, len(a.Values)):]
		size := min(r.size, len(values))
		return values[:size], size < len(values), nil
	}
	if !found.Wide {
		return nil, false, nil
	}
	return v.Req.Snapshot.ValueRange(ctx, found.ID, r.typ, r.options, r.from, r.size)
}
