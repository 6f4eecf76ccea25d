package bulk

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/seed-4dac0d86/ldapd/directory/account"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/write"
)

// policyClass389 is the class of password policies of 389 Directory Server. besides389
// lists the classes that an entry with such a policy does not need on this server.
const policyClass389 = "passwordPolicy"

var besides389 = []string{policyClass389, "ldapsubentry"}

// isPolicy389 reports whether one of an attribute's values is the class of 389's password
// policies.
func isPolicy389(a *op.PartialAttribute) bool {
	return slices.ContainsFunc(a.Values, func(v []byte) bool { return strings.EqualFold(string(v), policyClass389) })
}

// translatePolicy translates the attributes of a password policy of 389 to those of a
// policy of this server. Entries name their policy in pwdPolicySubentry on both servers.
func (s *cleaner) translatePolicy(attributes []op.PartialAttribute) (translated []op.PartialAttribute) {
	policy, left := account.From389(func(name string) (values []string) {
		for i := range attributes {
			if strings.EqualFold(attributes[i].Description, name) {
				for _, v := range attributes[i].Values {
					values = append(values, string(v))
				}
			}
		}
		return values
	})
	for _, a := range attributes {
		switch {
		case strings.EqualFold(a.Description, "objectClass"):
			translated = append(translated, op.PartialAttribute{Description: a.Description, Values: policyClasses(a.Values)})
		case !account.Is389(a.Description):
			translated = append(translated, a)
		}
	}
	for _, text := range left {
		name, reason, _ := strings.Cut(text, ": ")
		s.note(name + " (" + reason + ")")
	}
	s.tally.policy()
	return appendPolicy(translated, policy)
}

// policyClasses returns the object classes of a translated policy.
func policyClasses(classes [][]byte) [][]byte {
	isOne := func(v []byte, of ...string) bool {
		return slices.ContainsFunc(of, func(name string) bool { return strings.EqualFold(string(v), name) })
	}
	classes = slices.DeleteFunc(slices.Clone(classes), func(v []byte) bool { return isOne(v, besides389...) })
	if !slices.ContainsFunc(classes, func(v []byte) bool { return !isOne(v, "top", "extensibleObject") }) {
		classes = append(classes, []byte("device"))
	}
	return append(classes, []byte(policyClass))
}

// appendPolicy appends the attributes of a policy to those of an entry.
func appendPolicy(attributes []op.PartialAttribute, policy []account.Value) []op.PartialAttribute {
	for _, v := range policy {
		i := slices.IndexFunc(attributes, func(a op.PartialAttribute) bool { return a.Description == v.Name })
		if i < 0 {
			i = len(attributes)
			attributes = append(attributes, op.PartialAttribute{Description: v.Name})
		}
		attributes[i].Values = append(attributes[i].Values, []byte(v.Value))
	}
	return attributes
}

// disabledTime is the value of pwdAccountLockedTime of accounts that are disabled.
const (
	lockedTime   = "pwdAccountLockedTime"
	disabledTime = "000001010000Z"
)

// disable sets the attribute that disables an account.
func disable(attributes []op.PartialAttribute) []op.PartialAttribute {
	value := [][]byte{[]byte(disabledTime)}
	for i := range attributes {
		if strings.EqualFold(attributes[i].Description, lockedTime) {
			attributes[i].Values = value
			return attributes
		}
	}
	return append(attributes, op.PartialAttribute{Description: lockedTime, Values: value})
}

func isTrue(values [][]byte) bool {
	return slices.ContainsFunc(values, func(v []byte) bool { return strings.EqualFold(strings.TrimSpace(string(v)), "TRUE") })
}

const (
	// slapdDefault is the attribute that names the default policy in the configuration of
	// slapd's overlay ppolicy.
	slapdDefault = "olcPPolicyDefault"
	// slapdRefint and refint389 are the attributes that list references in the configurations
	// of slapd's overlay refint and of 389's plug-in for referential integrity.
	slapdRefint = "olcRefintAttribute"
	refint389   = "referint-membership-attr"
)

// foreignConfig reports whether a record is a part of another server's configuration that an
// import takes over: the default password policy (389's cn=config, slapd's overlay ppolicy),
// the references (389's plug-in, slapd's overlay refint), or what is unique (389's plug-in, slapd's overlay unique).
func (x *item) foreignConfig(name dn.DN) bool {
	if len(name) == 0 || !name[len(name)-1].IsCN("config") {
		return false
	}
	return slices.ContainsFunc(x.Attributes, func(a op.PartialAttribute) bool {
		return len(name) == 1 && account.Is389(a.Description) || slices.ContainsFunc([]string{slapdDefault, slapdRefint, refint389, slapdUnique, slapdUniqueType, unique389},
			func(known string) bool { return strings.EqualFold(a.Description, known) })
	})
}

// foreignConfiguration reads the default password policy, the references and what is unique from another
// server's configuration, and ignores everything else in it.
func (x *item) foreignConfiguration() *configuration {
	values := func(name string) (values []string) {
		for _, a := range x.Attributes {
			if strings.EqualFold(a.Description, name) {
				for _, v := range a.Values {
					values = append(values, string(v))
				}
			}
		}
		return values
	}
	c := &configuration{foreign: true}
	if vs := values(slapdDefault); len(vs) > 0 {
		c.policyOf = vs[0]
		return c
	}
	if switched := values("nsslapd-pluginEnabled"); len(switched) == 0 || strings.EqualFold(switched[0], "on") {
		for _, v := range append(values(slapdRefint), values(refint389)...) {
			for _, name := range strings.Fields(v) {
				c.refers = append(c.refers, catalog.Reference{Attribute: name})
			}
		}
		c.uniqueThere, c.notes = foreignUnique(values)
	}
	c.noPolicy = !slices.ContainsFunc(x.Attributes, func(a op.PartialAttribute) bool { return account.Is389(a.Description) })
	policy, left := account.From389(values)
	for _, v := range policy {
		c.policy = catalog.AddPolicyValue(c.policy, v.Name, v.Value)
	}
	for _, text := range left {
		c.notes = append(c.notes, "the password policy of "+catalog.ConfigName+" is taken without "+text)
	}
	for _, v := range values("nsslapd-pwpolicy-local") {
		if strings.EqualFold(v, "off") {
			c.notes = append(c.notes, "the password policies of entries and subtrees were switched off there (nsslapd-pwpolicy-local), and are in force here")
		}
	}
	return c
}

// givenPolicies collects, while entries are imported, the records that assign password
// policies. The policies themselves may be imported later.
type givenPolicies struct {
	mu sync.Mutex
	// templates are the CoS templates that assign policies of 389 to subtrees, by the name
	// of the subtree.
	templates map[string]string
	// standard is the name of slapd's default policy. It is empty if the files name none, or if
	// the directory has entries and a default policy.
	standard string
}

// take collects a definition of 389's class of service, if the definition assigns a password
// policy. The policy applies to the subtree of the definition's parent.
func (g *givenPolicies) take(name dn.DN, attributes []op.PartialAttribute) {
	assigns, template := false, ""
	for _, a := range attributes {
		switch {
		case len(a.Values) == 0:
		case strings.EqualFold(a.Description, "cosAttribute"):
			of, _, _ := strings.Cut(string(a.Values[0]), " ")
			assigns = strings.EqualFold(of, "pwdPolicySubentry")
		case strings.EqualFold(a.Description, "cosTemplateDn"):
			template = string(a.Values[0])
		}
	}
	if !assigns || template == "" || len(name) < 2 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.templates == nil {
		g.templates = map[string]string{}
	}
	g.templates[name.Parent().String()] = template
}

// settle puts the collected assignments into effect. It is called when all entries are
// imported.
func (g *givenPolicies) settle(ctx context.Context, p *partition.Partition, o *Options) error {
	for _, subtree := range slices.Sorted(maps.Keys(g.templates)) {
		if err := addSubentry(ctx, p, o, subtree, g.templates[subtree]); err != nil {
			return fmt.Errorf("the entries are imported, the password policy of %s is not: %w", subtree, err)
		}
	}
	if g.standard == "" {
		return nil
	}
	return onlineschema.SetPolicy(ctx, p, o.By, func(s *partition.Snapshot, old []catalog.PolicyAttribute) ([]catalog.PolicyAttribute, error) {
		values, err := policyAt(ctx, s, g.standard)
		if err != nil || values == nil {
			o.Note(fmt.Sprintf("the file has no entry for the default password policy %q, so the directory keeps its own", g.standard))
			return old, err
		}
		c := &configuration{isPolicy: true}
		for _, v := range values {
			c.policy = catalog.AddPolicyValue(c.policy, v.Name, v.Value)
		}
		if err := c.checkPolicy(); err != nil {
			o.Note(fmt.Sprintf("the default password policy %q cannot be used, so the directory keeps its own: %v", g.standard, err))
			return old, nil
		}
		return c.policy, nil
	})
}

// subentryName is the value of cn of the subentries that addSubentry adds.
const subentryName = "nsPwPolicy"

// addSubentry adds a subentry to a subtree, with the policy that a CoS template names.
func addSubentry(ctx context.Context, p *partition.Partition, o *Options, subtree, template string) error {
	_, err := write.Update(ctx, p, o.By, func(tx *partition.Tx) error {
		policy, err := policyOfTemplate(ctx, &tx.Snapshot, template)
		if err != nil {
			return err
		}
		base, err := dn.Parse(subtree)
		if err != nil {
			return err
		}
		if policy == nil {
			o.Note("the password policy of the subtree " + subtree + " is not in the file: add a subentry with a policy there")
			return nil
		}
		attributes := []op.PartialAttribute{
			{Description: "objectClass", Values: [][]byte{[]byte("top"), []byte("subentry"), []byte(policyClass)}},
			{Description: "cn", Values: [][]byte{[]byte(subentryName)}},
			{Description: "subtreeSpecification", Values: [][]byte{[]byte("{}")}},
		}
		name := append(dn.DN{{{Type: "cn", Value: []byte(subentryName)}}}, base...)
		_, err = tx.Add(ctx, name, appendPolicy(attributes, policy), false)
		if partition.Is(err, partition.EntryExists) || partition.Is(err, partition.NoSuchEntry) {
			return nil // imported before, or the subtree was refused
		}
		return err
	})
	return err
}

// policyOfTemplate returns the attributes of the policy that a CoS template names, or nil.
func policyOfTemplate(ctx context.Context, s *partition.Snapshot, template string) ([]account.Value, error) {
	names, err := valuesAt(ctx, s, template, []string{"pwdPolicySubentry"})
	if err != nil || len(names) == 0 {
		return nil, err
	}
	return policyAt(ctx, s, names[0].Value)
}

// policyAt returns the attributes of a policy's entry, or nil if there is no such policy.
func policyAt(ctx context.Context, s *partition.Snapshot, name string) ([]account.Value, error) {
	return valuesAt(ctx, s, name, account.Attributes)
}

// valuesAt returns the values of some attributes of an entry, or nil if the entry does not
// exist.
func valuesAt(ctx context.Context, s *partition.Snapshot, text string, attributes []string) (values []account.Value, err error) {
	name, err := dn.Parse(text)
	if err != nil {
		return nil, nil
	}
	at, err := s.Find(ctx, name)
	if partition.Is(err, partition.NoSuchEntry) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	e, err := s.Entry(ctx, at.ID, false)
	if err != nil || e == nil {
		return nil, err
	}
	for _, a := range attributes {
		t := s.Schema().Attribute(a)
		if t == nil {
			continue
		}
		for _, v := range e.Values(t) {
			values = append(values, account.Value{Name: a, Value: string(v)})
		}
	}
	return values, nil
}
