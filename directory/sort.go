package directory

import (
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/ber"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// Server-side sorting (RFC 2891).
const (
	sortRequest  = "1.2.840.113556.1.4.473"
	sortResponse = "1.2.840.113556.1.4.474"
)

// sorting is what a request's sort control asks for.
type sorting struct {
	critical bool
	value    []byte // as it came, for what must be the same on every page
	items    []sortItem
	keys     []partition.SortKey // of the items, if all can be sorted by
}

// sortItem is one key as the client names it.
type sortItem struct {
	attribute, rule string
	reverse         bool
}

// maxSortKeys bounds how many keys a request may have.
const maxSortKeys = 16

func takeSort(o *operation, _ *op.Message, c *op.Control) error {
	s := &sorting{critical: c.Critical, value: c.Value}
	r := ber.NewReader(c.Value)
	outer := r.Enter(ber.Sequence)
	for r.More() {
		s.items = append(s.items, readSortItem(&r))
	}
	r.Leave(outer)
	r.End()
	if err := r.Err(); err != nil {
		return malformed("sort", err)
	}
	if len(s.items) == 0 {
		return op.Errorf(op.ProtocolError, "sort control: it has no key")
	}
	o.controls.sort = s
	return nil
}

func readSortItem(r *ber.Reader) (i sortItem) {
	outer := r.Enter(ber.Sequence)
	i.attribute = string(r.Bytes(ber.OctetString))
	if r.At(ber.Context(0)) {
		i.rule = string(r.Bytes(ber.Context(0)))
	}
	if r.At(ber.Context(1)) {
		i.reverse = r.Bool(ber.Context(1))
	}
	r.Leave(outer)
	return i
}

// A sortError says why results cannot be sorted.
type sortError struct {
	code      op.Code // of the response control
	attribute string
	text      string
}

func (e *sortError) Error() string { return e.text }

// resolveOrder understands the controls that put results in order.
func (o *operation) resolveOrder() error {
	sorted := o.controls.sort != nil
	if err := o.resolveSort(); err != nil {
		return err
	}
	return o.checkView(sorted)
}

// resolveSort finds out what to sort by. If that cannot be, a critical control
// ends the search; otherwise it goes on unsorted (RFC 2891, 2).
func (o *operation) resolveSort() error {
	s := o.controls.sort
	if s == nil {
		return nil
	}
	keys, problem := s.resolve(o.schema)
	if problem != nil {
		return o.unsorted(problem)
	}
	s.keys = keys
	return nil
}

// unsorted gives up on sorting: the error, if the search must end for that.
func (o *operation) unsorted(e *sortError) error {
	critical := o.controls.sort.critical
	o.controls.sort = nil
	o.sortResponse(e.code, e.attribute)
	if critical {
		return op.Errorf(op.UnavailableCriticalExtension, "sort control: %s", e.text)
	}
	return nil
}

func (o *operation) sortResponse(code op.Code, attribute string) {
	b := ber.Open(nil, ber.Sequence)
	b = ber.AppendInt(b, ber.Enumerated, int64(code))
	if attribute != "" {
		b = ber.AppendString(b, ber.Context(0), attribute)
	}
	o.respond(sortResponse, ber.Close(b, 0))
}

func (s *sorting) resolve(sch *schema.Schema) ([]partition.SortKey, *sortError) {
	if len(s.items) > maxSortKeys {
		return nil, &sortError{op.UnwillingToPerform, "", fmt.Sprintf("more than %d keys", maxSortKeys)}
	}
	var keys []partition.SortKey
	for i := range s.items {
		item := &s.items[i]
		k, problem := item.resolve(sch)
		if problem != nil {
			return nil, problem
		}
		if slices.ContainsFunc(keys, func(o partition.SortKey) bool { return o.Type == k.Type && o.Options == k.Options }) {
			return nil, item.fail(op.UnwillingToPerform, "%s is a key twice", item.attribute)
		}
		keys = append(keys, k)
	}
	return keys, nil
}

func (i *sortItem) fail(code op.Code, format string, args ...any) *sortError {
	return &sortError{code, i.attribute, fmt.Sprintf(format, args...)}
}

func (i *sortItem) resolve(sch *schema.Schema) (k partition.SortKey, problem *sortError) {
	t, options := sch.Describe(i.attribute)
	if t == nil {
		return k, i.fail(op.NoSuchAttribute, "attribute %q is not in the schema, or one of its options is not known", i.attribute)
	}
	if t.Secret() {
		return k, i.fail(op.InsufficientAccessRights, "%s is for binding only", t.Name())
	}
	rule := orderingOf(t, sch)
	if i.rule != "" {
		rule = sch.Rule(i.rule)
	}
	if rule == nil || rule.Use != schema.Ordering || !rule.AppliesTo(t) {
		return k, i.fail(op.InappropriateMatching, "%s has no such ordering rule", t.Name())
	}
	return partition.SortKey{Type: t, Options: entry.SortOptions(options), Rule: rule, Reverse: i.reverse}, nil
}

// orderingOf is the rule that orders values of a type: its own, or the one that
// goes with its equality rule. Attributes that people sort by, cn and sn, have
// none of their own (RFC 4519).
func orderingOf(t *schema.AttributeType, sch *schema.Schema) *schema.MatchingRule {
	if t.Ordering != nil || t.Equality == nil {
		return t.Ordering
	}
	for _, r := range sch.Rules() {
		if r.Use == schema.Ordering && r.Form == t.Equality.Form {
			return r
		}
	}
	return nil
}
