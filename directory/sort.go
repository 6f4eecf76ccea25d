package directory

import (
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/control"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// sorting is what a request's sort control asks for (RFC 2891).
type sorting struct {
	critical bool
	value    []byte // as it came, for what must be the same on every page
	asked    []control.SortKey
	keys     []partition.SortKey // those asked for, if all can be sorted by
}

// maxSortKeys bounds how many keys a request may have.
const maxSortKeys = 16

func takeSort(o *operation, _ *op.Message, c *op.Control) error {
	s, err := control.ParseSortRequest(c.Value)
	if err != nil {
		return malformed("sort", err)
	}
	o.controls.sort = &sorting{critical: c.Critical, value: c.Value, asked: s.Keys}
	return nil
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
	o.respond(control.OIDSortResponse, control.SortResponse{Code: code, Attribute: attribute}.Encode())
}

func (s *sorting) resolve(sch *schema.Schema) ([]partition.SortKey, *sortError) {
	if len(s.asked) > maxSortKeys {
		return nil, &sortError{op.UnwillingToPerform, "", fmt.Sprintf("more than %d keys", maxSortKeys)}
	}
	var keys []partition.SortKey
	for i := range s.asked {
		asked := &s.asked[i]
		k, problem := resolveSortKey(asked, sch)
		if problem != nil {
			return nil, problem
		}
		if slices.ContainsFunc(keys, func(o partition.SortKey) bool { return o.Type == k.Type && o.Options == k.Options }) {
			return nil, unsortable(asked, op.UnwillingToPerform, "%s is a key twice", asked.Attribute)
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// unsortable returns the error of a key that cannot be sorted by.
func unsortable(asked *control.SortKey, code op.Code, format string, args ...any) *sortError {
	return &sortError{code, asked.Attribute, fmt.Sprintf(format, args...)}
}

// resolveSortKey looks a key up in the schema.
func resolveSortKey(asked *control.SortKey, sch *schema.Schema) (k partition.SortKey, problem *sortError) {
	t, options := sch.Describe(asked.Attribute)
	if t == nil {
		return k, unsortable(asked, op.NoSuchAttribute, "attribute %q is not in the schema, or one of its options is not known", asked.Attribute)
	}
	if t.Secret() {
		return k, unsortable(asked, op.InsufficientAccessRights, "%s is for binding only", t.Name())
	}
	rule := orderingOf(t, sch)
	if asked.Rule != "" {
		rule = sch.Rule(asked.Rule)
	}
	if rule == nil || rule.Use != schema.Ordering || !rule.AppliesTo(t) {
		return k, unsortable(asked, op.InappropriateMatching, "%s has no such ordering rule", t.Name())
	}
	return partition.SortKey{Type: t, Options: entry.SortOptions(options), Rule: rule, Reverse: asked.Reverse}, nil
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
