package bulk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/access"
	"github.com/seed-4dac0d86/ldapd/directory/account"
	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// Besides the schema, the servers of a directory share a configuration. It is exported as
// an entry:
//
//	dn: cn=config
//	objectClass: directoryConfiguration
//	namingContexts: dc=example,dc=com
//	index: uid column
//	unique: uid
//	unique: mail 3f2504e0-4f89-11d3-9a0c-0305e82c3301 ou=people,dc=example,dc=com
//	reference: member
//	reference: manager mustExist
//	accessRule: staff: allow users to read cn, sn
//	accessRule: 3f2504e0-4f89-11d3-9a0c-0305e82c3301 own: allow self to read
//	objectClass: pwdPolicy
//	pwdAttribute: userPassword
//	pwdMaxFailure: 10
//
// The UUID before a DN or a rule is the entryUUID of the base entry. The attribute's values
// are unique in the subtree of that entry. A rule applies in the subtree of that entry.
const (
	configClass    = "directoryConfiguration"
	contextsOf     = "namingContexts"
	indexOf        = "index"
	uniqueOf       = "unique"
	referenceOf    = "reference"
	accessOf       = "accessRule"
	policyClass    = "pwdPolicy"
	configurations = "cn=config with objectClass " + configClass
)

// mustExist marks an attribute whose values must name entries that exist.
const mustExist = "mustExist"

// configuration is the content of a record with the shared configuration.
type configuration struct {
	suffixes []string
	indexes  []catalog.Index
	unique   []scope
	refers   []catalog.Reference
	access   []partition.AccessRule
	policy   []catalog.PolicyAttribute // the default password policy; nil: none
	isPolicy bool                      // the record has the class pwdPolicy
	// foreign is set if the record comes from another server. An import takes only references, what is
	// unique and the default policy from such a record. The policy is in the field policy, or in the entry whose name
	// is in the field policyOf.
	foreign     bool
	policyOf    string
	uniqueThere []foreignScope
	noPolicy    bool // the foreign record says nothing about password policies
	notes       []string
}

// A scope is an attribute with the subtree in which its values are unique.
type scope struct {
	catalog.Unique
	name dn.DN // DN of the base; empty: everywhere
}

// writeConfiguration writes the shared configuration of a state. It leaves out a unique
// attribute if the base entry of the attribute has no name, for example because it was deleted.
func writeConfiguration(ctx context.Context, out *ldif.Writer, s *partition.Snapshot) error {
	rec := &ldif.Record{DN: catalog.ConfigName, Attributes: []op.PartialAttribute{op.Attribute("objectClass", configClass)}}
	value := func(attribute, text string) {
		if last := &rec.Attributes[len(rec.Attributes)-1]; last.Description == attribute {
			last.Values = append(last.Values, []byte(text))
			return
		}
		rec.Attributes = append(rec.Attributes, op.Attribute(attribute, text))
	}
	c := s.Catalog.Config()
	for _, x := range c.Suffixes {
		value(contextsOf, x)
	}
	for _, x := range c.Indexes {
		value(indexOf, x.Attribute+" "+string(x.Layout))
	}
	for _, u := range s.Catalog.Unique() {
		text := u.Attribute
		if u.Base != entry.Root {
			name, err := s.Name(ctx, u.Base)
			if err != nil {
				continue
			}
			text += " " + u.Base.String() + " " + name.String()
		}
		value(uniqueOf, text)
	}
	for _, r := range s.Catalog.Header.References {
		text := r.Attribute
		if r.MustExist {
			text += " " + mustExist
		}
		value(referenceOf, text)
	}
	rules, err := accessValues(ctx, s)
	for _, text := range rules {
		value(accessOf, text)
	}
	if err != nil {
		return err
	}
	policy, err := s.Catalog.PolicyAt(ctx, s.Reader)
	if err != nil {
		return err
	}
	if policy != nil {
		classes := &rec.Attributes[0]
		classes.Values = append(classes.Values, []byte(policyClass))
	}
	for _, a := range policy {
		for _, v := range a.Values {
			value(a.Name, v)
		}
	}
	return out.Write(rec)
}

// accessValues returns the access rules of a state as values of the configuration. For a
// directory that never had rules it returns the rules of the profile "open", so that an
// import of the export allows the same access.
func accessValues(ctx context.Context, s *partition.Snapshot) (values []string, err error) {
	if s.Catalog.Access.Rules == nil {
		rules, err := access.Placed(ctx, s)
		for _, r := range rules {
			values = append(values, r.Rule.String())
		}
		return values, err
	}
	for _, r := range s.Catalog.Access.Rules {
		text, err := access.Text(ctx, s, r)
		if err != nil {
			return nil, err
		}
		if text == "" {
			continue
		}
		if r.Place != entry.Root {
			text = r.Place.String() + " " + text
		}
		values = append(values, text)
	}
	return values, nil
}

var errLateConfiguration = errors.New("what servers share must come before all entries: put this in front of them, in the first file")

// configures reports whether a record contains the shared configuration, or the part of another
// server's configuration that an import translates.
func (x *item) configures() bool {
	if x.Record == nil || x.Change != nil {
		return false
	}
	name, err := dn.Parse(x.DN)
	if err != nil {
		return false
	}
	return catalog.IsConfig(name) && x.isOurs() || x.foreignConfig(name)
}

// isOurs reports whether a record has the class of the shared configuration.
func (x *item) isOurs() bool {
	return slices.ContainsFunc(x.Attributes, func(a op.PartialAttribute) bool {
		return strings.EqualFold(a.Description, "objectClass") &&
			slices.ContainsFunc(a.Values, func(v []byte) bool { return strings.EqualFold(string(v), configClass) })
	})
}

// configuration parses a record with the shared configuration.
func (x *item) configuration() (*configuration, error) {
	if !x.isOurs() {
		return x.foreignConfiguration(), nil
	}
	c := &configuration{}
	var bad []error
	for _, a := range x.Attributes {
		for _, v := range a.Values {
			if err := c.take(a.Description, string(v)); err != nil {
				bad = append(bad, fmt.Errorf("%s: %s: %w", a.Description, v, err))
			}
		}
	}
	if err := c.checkPolicy(); err != nil {
		bad = append(bad, err)
	}
	if len(bad) > 0 {
		return nil, x.wrong(errors.Join(bad...))
	}
	return c, nil
}

func (c *configuration) take(attribute, value string) error {
	fields := strings.Fields(value)
	switch strings.ToLower(attribute) {
	case "objectclass":
		c.isPolicy = c.isPolicy || strings.EqualFold(value, policyClass)
		return nil
	case "cn":
		return nil
	case strings.ToLower(contextsOf):
		_, err := dn.Parse(value)
		c.suffixes = append(c.suffixes, value)
		return err
	case indexOf:
		if len(fields) != 2 {
			return errors.New(`expected an attribute and its layout, "row" or "column"`)
		}
		c.indexes = append(c.indexes, catalog.Index{Attribute: fields[0], Layout: catalog.Layout(fields[1])})
		return nil
	case uniqueOf:
		u, err := parseScope(value)
		c.unique = append(c.unique, u)
		return err
	case referenceOf:
		if len(fields) == 0 || len(fields) > 2 || len(fields) == 2 && fields[1] != mustExist {
			return errors.New("expected an attribute, and perhaps " + mustExist)
		}
		c.refers = append(c.refers, catalog.Reference{Attribute: fields[0], MustExist: len(fields) == 2})
		return nil
	case strings.ToLower(accessOf):
		r, err := parseAccess(value)
		c.access = append(c.access, r)
		return err
	}
	if i := slices.IndexFunc(account.Attributes, func(name string) bool { return strings.EqualFold(name, attribute) }); i >= 0 {
		c.policy = catalog.AddPolicyValue(c.policy, account.Attributes[i], value)
		return nil
	}
	return fmt.Errorf("not an attribute of %s", configurations)
}

// checkPolicy returns an error if the record's default password policy is invalid.
func (c *configuration) checkPolicy() error {
	if c.policy == nil && !c.isPolicy {
		return nil
	}
	values := func(name string) []string { return catalog.PolicyValues(c.policy, name) }
	switch {
	case !c.isPolicy:
		return fmt.Errorf("%s is allowed only with objectClass %s", c.policy[0].Name, policyClass)
	case values("pwdAttribute") == nil:
		return fmt.Errorf("objectClass %s requires pwdAttribute", policyClass)
	}
	_, err := account.ParseDefault(catalog.ConfigName, values)
	return err
}

// parseAccess parses an access rule. The UUID of the rule's place may come before the
// rule. A rule without UUID is recognized by its name and colon.
func parseAccess(value string) (r partition.AccessRule, err error) {
	r.Text = value
	if place, text, ok := strings.Cut(value, " "); ok && !strings.Contains(place, ":") {
		if id, e := entry.ParseID(place); e == nil {
			r.Place, r.Text = id, text
		}
	}
	_, err = acl.Parse(r.Text)
	return r, err
}

func parseScope(value string) (u scope, err error) {
	parts := strings.SplitN(value, " ", 3)
	u.Attribute = parts[0]
	if len(parts) == 1 {
		return u, nil
	}
	if len(parts) != 3 {
		return u, errors.New("expected an attribute, or an attribute, the UUID of an entry and its name")
	}
	if u.Base, err = entry.ParseID(parts[1]); err != nil {
		return u, err
	}
	u.name, err = dn.Parse(parts[2])
	return u, err
}

// The type "configured" says which parts of the shared configuration an import has changed
// before it loads entries.
type configured struct {
	p       *partition.Partition
	indexes []catalog.Index // the indexes before the import; nil: unchanged
	unique  []catalog.Unique
	refers  []catalog.Reference    // references that were made
	ended   []catalog.Reference    // references that were ended
	scopes  map[entry.ID]dn.DN     // names of the bases of unique attributes
	access  bool                   // access rules were set
	rules   []partition.AccessRule // the access rules before
	policy  bool                   // the default password policy was set
	before  []catalog.PolicyAttribute
	// policyOf is the name of the entry that becomes the default password policy.
	policyOf string
	// uniqueThere is what becomes unique after the entries are imported.
	uniqueThere []foreignScope
}

// takeConfiguration applies the shared configuration in record x. In a directory without
// entries it replaces the present indexes, references and default password policy. It also
// replaces the access rules if the record has access rules. In a directory with entries it adds
// the missing indexes and references, and sets the access rules or the default password policy
// only if there are none. In both cases it adds the missing unique attributes. A record of
// another server does not change the indexes, and ends no reference. The naming contexts are added later, with the entries.
func takeConfiguration(ctx context.Context, p *partition.Partition, o *Options, records []*item) (*configured, error) {
	d := &configured{p: p, scopes: map[entry.ID]dn.DN{}}
	if len(records) == 0 {
		return d, nil
	}
	x := records[0]
	c, err := x.configuration()
	if err != nil {
		return d, fmt.Errorf("nothing was imported: %w", err)
	}
	for _, more := range records[1:] { // of another server
		c.add(more.foreignConfiguration())
	}
	for _, text := range c.notes {
		o.Note(text)
	}
	d.uniqueThere = c.uniqueThere
	if c.foreign {
		err = d.indexReferences(ctx, c, o)
	} else {
		err = d.replace(ctx, c, o)
	}
	if err == nil {
		err = d.makeUnique(ctx, c)
	}
	if err == nil {
		err = d.makeFollow(ctx, c)
	}
	if err == nil {
		err = d.setAccess(ctx, c)
	}
	if err == nil && !c.noPolicy {
		err = d.setPolicy(ctx, c)
	}
	if err != nil {
		err = fmt.Errorf("nothing was imported: the shared configuration in the file cannot be applied: %w", x.wrong(err))
		return d, errors.Join(err, d.takeBack(context.WithoutCancel(ctx)))
	}
	for _, s := range c.suffixes {
		if !slices.Contains(o.Suffixes, s) {
			o.Suffixes = append(slices.Clip(o.Suffixes), s)
		}
	}
	return d, nil
}

// The method "replace" sets the indexes. In a directory without entries it first ends the
// references that the record lacks, because a reference needs its index.
func (d *configured) replace(ctx context.Context, c *configuration, o *Options) error {
	s := state.Newest(d.p)
	filled, err := s.HasChildren(ctx, entry.Root)
	s.Close()
	if err != nil {
		return err
	}
	before := d.p.Config().Indexes
	want := c.indexes
	if filled {
		want = d.lacking(before, c.indexes, o)
	} else if err := d.endReferences(ctx, c); err != nil {
		return err
	}
	if slices.Equal(before, want) {
		return nil
	}
	d.indexes = append([]catalog.Index{}, before...)
	return onlineschema.SetIndexes(ctx, d.p, want)
}

// The method "add" adds what another record of the same server says.
func (c *configuration) add(o *configuration) {
	c.refers = append(c.refers, o.refers...)
	c.uniqueThere = append(c.uniqueThere, o.uniqueThere...)
	c.notes = append(c.notes, o.notes...)
	c.policy = append(c.policy, o.policy...)
	c.policyOf = cmp.Or(c.policyOf, o.policyOf)
	c.noPolicy = c.noPolicy && o.noPolicy
}

// indexReferences makes the indexes that another server's references need here. References that
// cannot be here are left out, with a note.
func (d *configured) indexReferences(ctx context.Context, c *configuration, o *Options) error {
	before := d.p.Config().Indexes
	s := d.p.Schema()
	want := slices.Clone(before)
	c.refers = slices.DeleteFunc(c.refers, func(r catalog.Reference) bool {
		t := s.Attribute(r.Attribute)
		if t == nil || !t.NamesEntries() || t.NoUserModification {
			o.Note(fmt.Sprintf("the values of %s follow the entries that they name there, and not here: the attribute is unknown, or its values are not names", r.Attribute))
			return true
		}
		if !slices.ContainsFunc(want, func(x catalog.Index) bool { return s.Attribute(x.Attribute) == t }) {
			want = append(want, catalog.Index{Attribute: t.Name()})
		}
		return false
	})
	if len(want) == len(before) {
		return nil
	}
	d.indexes = append([]catalog.Index{}, before...)
	return onlineschema.SetIndexes(ctx, d.p, want)
}

// lacking returns the present indexes, followed by the additional indexes whose attributes
// have no index at present. It writes a note if the present index and the additional index of
// an attribute have different layouts.
func (d *configured) lacking(present, additional []catalog.Index, o *Options) []catalog.Index {
	s := d.p.Schema()
	want := slices.Clone(present)
	for _, x := range additional {
		t := s.Attribute(x.Attribute)
		i := slices.IndexFunc(present, func(y catalog.Index) bool { return t != nil && s.Attribute(y.Attribute) == t })
		switch {
		case i < 0:
			want = append(want, x)
		case present[i].Layout != x.Layout:
			o.Note(fmt.Sprintf("the index of %s keeps its layout %s, which is %s there", x.Attribute, present[i].Layout, x.Layout))
		}
	}
	return want
}

// makeUnique makes attributes unique. It finds the base of a scope by its name if an
// entry of that name exists. Otherwise the base has yet to be imported, and has the
// UUID in the record.
func (d *configured) makeUnique(ctx context.Context, c *configuration) error {
	there, err := onlineschema.Unique(d.p)
	if err != nil {
		return err
	}
	s := state.Newest(d.p)
	defer s.Close()
	for _, u := range c.unique {
		t := d.p.Schema().Attribute(u.Attribute)
		if len(u.name) > 0 {
			if at, err := s.Find(ctx, u.name); err == nil {
				u.Base = at.ID
			} else if problem := (*partition.Error)(nil); !errors.As(err, &problem) {
				return err
			}
			d.scopes[u.Base] = u.name
		}
		if slices.ContainsFunc(there, func(y catalog.Unique) bool {
			return t != nil && d.p.Schema().Attribute(y.Attribute) == t && y.Base == u.Base
		}) {
			continue
		}
		if err := onlineschema.SetUnique(ctx, d.p, []catalog.Unique{u.Unique}, true); err != nil {
			return err
		}
		d.unique = append(d.unique, u.Unique)
	}
	return nil
}

// endReferences ends the references that are not in the record.
func (d *configured) endReferences(ctx context.Context, c *configuration) error {
	there, err := onlineschema.References(d.p)
	for _, r := range there {
		if slices.Contains(c.refers, r) {
			continue
		}
		if err := onlineschema.SetReferences(ctx, d.p, []catalog.Reference{r}, false); err != nil {
			return err
		}
		d.ended = append(d.ended, r)
	}
	return err
}

// makeFollow makes attributes references: when an entry is renamed or moved, the values
// that name the entry change too.
func (d *configured) makeFollow(ctx context.Context, c *configuration) error {
	there, err := onlineschema.References(d.p)
	if err != nil {
		return err
	}
	for _, r := range c.refers {
		t := d.p.Schema().Attribute(r.Attribute)
		if slices.ContainsFunc(there, func(o catalog.Reference) bool { return t != nil && d.p.Schema().Attribute(o.Attribute) == t }) {
			continue
		}
		if err := onlineschema.SetReferences(ctx, d.p, []catalog.Reference{r}, true); err != nil {
			return err
		}
		d.refers = append(d.refers, r)
	}
	return nil
}

// setAccess sets the access rules of c, if c has any and the directory has no access rules or
// no entries.
func (d *configured) setAccess(ctx context.Context, c *configuration) error {
	if c.access == nil {
		return nil
	}
	return onlineschema.SetAccess(ctx, d.p, partition.By{}, func(s *partition.Snapshot, old []partition.AccessRule) ([]partition.AccessRule, error) {
		filled, err := s.HasChildren(ctx, entry.Root)
		if err != nil || old != nil && filled {
			return old, err
		}
		d.access, d.rules = true, old
		return c.access, nil
	})
}

// setPolicy sets the default password policy if the directory has no such policy or no
// entries. In a directory without entries, a record without a policy removes the policy
// with which the store was made. If the record only names the entry of the policy, setPolicy
// changes nothing, and givenPolicies sets the policy later.
func (d *configured) setPolicy(ctx context.Context, c *configuration) error {
	return onlineschema.SetPolicy(ctx, d.p, partition.By{}, func(s *partition.Snapshot, old []catalog.PolicyAttribute) ([]catalog.PolicyAttribute, error) {
		filled, err := s.HasChildren(ctx, entry.Root)
		if err != nil || old != nil && filled {
			return old, err
		}
		if d.policyOf = c.policyOf; c.policyOf != "" {
			return old, nil
		}
		d.policy, d.before = true, old
		return c.policy, nil
	})
}

// takeBack undoes the changes of the configuration after an import has failed.
func (d *configured) takeBack(ctx context.Context) (err error) {
	for _, u := range slices.Backward(d.unique) {
		if err := onlineschema.SetUnique(ctx, d.p, []catalog.Unique{u}, false); err != nil {
			return fmt.Errorf("%s stays unique: %w", u.Attribute, err)
		}
	}
	d.unique = nil
	for _, r := range slices.Backward(d.refers) {
		if err := onlineschema.SetReferences(ctx, d.p, []catalog.Reference{r}, false); err != nil {
			return fmt.Errorf("the values of %s continue to follow entries: %w", r.Attribute, err)
		}
	}
	d.refers = nil
	defer func() {
		for _, r := range d.ended { // when their indexes are there again
			if err == nil {
				err = onlineschema.SetReferences(ctx, d.p, []catalog.Reference{r}, true)
			}
		}
	}()
	if d.access {
		old := func(*partition.Snapshot, []partition.AccessRule) ([]partition.AccessRule, error) { return d.rules, nil }
		if err := onlineschema.SetAccess(ctx, d.p, partition.By{}, old); err != nil {
			return fmt.Errorf("the access rules of %s stay: %w", catalog.ConfigName, err)
		}
		d.access = false
	}
	if d.policy {
		old := func(*partition.Snapshot, []catalog.PolicyAttribute) ([]catalog.PolicyAttribute, error) {
			return d.before, nil
		}
		if err := onlineschema.SetPolicy(ctx, d.p, partition.By{}, old); err != nil {
			return fmt.Errorf("the password policy of %s stays: %w", catalog.ConfigName, err)
		}
		d.policy = false
	}
	if d.indexes == nil {
		return nil
	}
	if err := onlineschema.SetIndexes(ctx, d.p, d.indexes); err != nil {
		return fmt.Errorf("the indexes of %s stay: %w", catalog.ConfigName, err)
	}
	d.indexes = nil
	return nil
}
