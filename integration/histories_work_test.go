package integration

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/integration/isolation"
	"github.com/seed-4dac0d86/ldapd/ldap/ber"
)

// These are the numbers of objects of each kind in a generation.
const (
	someCounters  = 2
	someRegisters = 2
	someLists     = 4
	someSets      = 2
	someTrees     = 2 // trees of each kind: family, names, moves, wild
)

const historiesDN = "ou=histories," + suffix

func generationDN(g int) string { return fmt.Sprintf("ou=g%d,%s", g, historiesDN) }

// flat returns the names of the entries directly below a generation's entry: the objects that
// are single entries, and the top entries of the trees.
func flat() []string {
	var names []string
	for _, k := range []struct {
		kind string
		n    int
	}{{"counter", someCounters}, {"register", someRegisters}, {"list", someLists}, {"set", someSets}, {"values", 1},
		{"family", someTrees}, {"names", someTrees}, {"moves", someTrees}, {"wild", someTrees}} {
		for i := range k.n {
			names = append(names, fmt.Sprint(k.kind, "-", i))
		}
	}
	return names
}

// A worker is a client. It uses one server until that server does not answer, and then
// uses the next server.
type worker struct {
	r         *run
	client    int
	at        int
	session   int
	c         *ldap.Conn
	values    int // number of values made so far
	events    []*event
	forbidden func(error) // is called with an error that must not happen
}

// work runs operations until the run ends.
func (w *worker) work() {
	defer w.close()
	for !w.r.stopped.Load() {
		if w.c == nil && !w.connect() {
			continue
		}
		w.one(w.r.now())
	}
}

func (w *worker) connect() bool {
	c, err := dial(w.r.url(w.at), adminDN, adminPassword)
	if err != nil {
		w.at = (w.at + 1) % servers
		time.Sleep(10 * time.Millisecond) // all servers may be down
		return false
	}
	c.SetTimeout(clientPatience)
	w.c, w.session = c, int(w.r.sessions.Add(1))
	return true
}

func (w *worker) close() {
	if w.c != nil {
		w.c.Close()
		w.c = nil
	}
}

// The method "one" runs a single random operation on generation g.
func (w *worker) one(g int) {
	works := []func(int){w.count, w.exchange, w.appendBlind, w.appendKnowing, w.join, w.toggle, w.family, w.names, w.moves, w.wild, w.look}
	works[rand.IntN(len(works))](g)
}

// expected has the result codes that operations may have in this test.
var expected = map[int]bool{
	-1: true, 0: true,
	ldap.LDAPResultNoSuchAttribute: true, ldap.LDAPResultAttributeOrValueExists: true,
	ldap.LDAPResultNoSuchObject: true, ldap.LDAPResultBusy: true, ldap.LDAPResultUnavailable: true,
	ldap.LDAPResultUnwillingToPerform: true, ldap.LDAPResultNotAllowedOnNonLeaf: true,
	ldap.LDAPResultEntryAlreadyExists: true, ldap.LDAPResultOther: true,
}

// do runs an operation and records it.
func (w *worker) do(e *event, run func(*ldap.Conn) error) bool {
	if w.c == nil {
		return false
	}
	e.client, e.session, e.server = w.client, w.session, w.at
	e.call = time.Since(w.r.began)
	err := run(w.c)
	e.ret = time.Since(w.r.began)
	e.code = code(err)
	e.outcome = outcomeOf(e.code)
	if !expected[e.code] {
		w.forbidden(fmt.Errorf("%v: %w", e, err))
	}
	w.events = append(w.events, e)
	if e.outcome != isolation.OK {
		time.Sleep(10 * time.Millisecond) // do not busy-loop: a server that refuses updates answers at once
	}
	if e.code == -1 {
		w.close()
		w.at = (w.at + 1) % servers
	}
	return e.outcome == isolation.OK
}

// value returns a value that no other call in the run returns.
func (w *worker) value() string {
	w.values++
	return fmt.Sprintf("%d-%d", w.client, w.values)
}

// fresh returns the control that makes a read begin on the newest state of all servers
// (RFC 6171). If isFresh is false, it returns no control.
func fresh(isFresh bool) []ldap.Control {
	if !isFresh {
		return nil
	}
	return []ldap.Control{ldap.NewControlString("1.3.6.1.1.22", true, "")}
}

// preReadOf returns the control that requests the values of attributes before the
// change (RFC 4527).
func preReadOf(attributes ...string) []ldap.Control {
	b := ber.Open(nil, ber.Sequence)
	for _, a := range attributes {
		b = ber.AppendString(b, ber.OctetString, a)
	}
	return []ldap.Control{ldap.NewControlString("1.3.6.1.1.13.1", true, string(ber.Close(b, 0)))}
}

// wasRead returns the values of the only attribute in a pre-read response control.
func wasRead(r *ldap.ModifyResult) (values []string) {
	if r == nil || len(r.Controls) == 0 {
		return nil
	}
	b := ber.NewReader([]byte(r.Controls[0].(*ldap.ControlString).ControlValue))
	entry := b.Enter(ber.Application(4) | ber.Constructed)
	b.Bytes(ber.OctetString)
	attributes := b.Enter(ber.Sequence)
	for b.More() {
		attribute := b.Enter(ber.Sequence)
		b.Bytes(ber.OctetString)
		set := b.Enter(ber.Set)
		for b.More() {
			values = append(values, string(b.Bytes(ber.OctetString)))
		}
		b.Leave(set)
		b.Leave(attribute)
	}
	b.Leave(attributes)
	b.Leave(entry)
	return values
}

// read reads the values of one attribute of one entry and passes them to the function
// take.
func (w *worker) read(e *event, dn, attribute string, fromNewest bool, take func([]string)) bool {
	e.fresh = fromNewest
	return w.do(e, func(c *ldap.Conn) error {
		r, err := c.Search(ldap.NewSearchRequest(dn, ldap.ScopeBaseObject, 0, 0, 0, false, "(objectClass=*)", []string{attribute}, fresh(fromNewest)))
		if err == nil {
			take(r.Entries[0].GetAttributeValues(attribute))
		}
		return err
	})
}

// anyOf returns a random object of a kind, and its DN.
func anyOf(kind string, n, g int) (object, dn string) { return named(kind, rand.IntN(n), g) }

func named(kind string, i, g int) (object, dn string) {
	name := fmt.Sprint(kind, "-", i)
	return fmt.Sprint(name, " of ", g), "ou=" + name + "," + generationDN(g)
}

// readAll reads the current state of all objects of a generation.
func (w *worker) readAll(g int) error {
	if w.c == nil && !w.connect() {
		return errors.New("not connected")
	}
	before := len(w.events)
	w.lookAt(g, true)
	for i := range someCounters {
		object, dn := named("counter", i, g)
		w.readCount(g, object, dn)
	}
	for i := range someRegisters {
		object, dn := named("register", i, g)
		w.readRegister(g, object, dn, new(string))
	}
	for i := range someTrees {
		for _, kind := range []string{"family", "names", "moves"} {
			object, dn := named(kind, i, g)
			w.readTree(g, object, dn)
		}
		_, dn := named("wild", i, g)
		w.readTree(g, "", dn)
	}
	for _, value := range colours {
		w.readValue(g, value)
	}
	for _, e := range w.events[before:] {
		if e.outcome != isolation.OK {
			return errors.New(e.String())
		}
	}
	return nil
}

// count increments a counter or reads it.
func (w *worker) count(g int) {
	object, dn := anyOf("counter", someCounters, g)
	if rand.IntN(3) == 0 {
		w.readCount(g, object, dn)
		return
	}
	e := &event{generation: g, step: increment(object)}
	w.do(e, func(c *ldap.Conn) error {
		r := ldap.NewModifyRequest(dn, preReadOf("uidNumber"))
		r.Increment("uidNumber", "1")
		result, err := c.ModifyWithResult(r)
		if err == nil {
			var before int
			before, err = strconv.Atoi(strings.Join(wasRead(result), " and "))
			e.output = strconv.Itoa(before + 1)
		}
		return err
	})
}

func (w *worker) readCount(g int, object, dn string) {
	e := &event{generation: g, step: countRead(object)}
	w.read(e, dn, "uidNumber", true, func(v []string) { e.output = v[0] })
}

// exchange reads a register, and replaces its value if it is still the value that was
// read.
func (w *worker) exchange(g int) {
	object, dn := anyOf("register", someRegisters, g)
	old := ""
	if !w.readRegister(g, object, dn, &old) {
		return
	}
	x := exchange{object, old, w.value()}
	w.do(&event{generation: g, step: x}, func(c *ldap.Conn) error {
		r := ldap.NewModifyRequest(dn, nil)
		r.Delete("description", []string{x.old})
		r.Add("description", []string{x.new})
		return c.Modify(r)
	})
}

func (w *worker) readRegister(g int, object, dn string, value *string) bool {
	e := &event{generation: g, step: registerRead(object)}
	return w.read(e, dn, "description", true, func(v []string) {
		e.output = strings.Join(v, " and ")
		*value = v[0]
	})
}

// appendBlind appends one or two values to a list. The response contains the values that
// the list had before.
func (w *worker) appendBlind(g int) {
	object, dn := anyOf("list", someLists, g)
	w.append(g, object, dn, func(r *ldap.ModifyRequest) {
		if rand.IntN(2) == 0 {
			r.Increment("uidNumber", "1")
		}
	})
}

// appendKnowing reads a list, and appends to it if it still has the version that was
// read.
func (w *worker) appendKnowing(g int) {
	object, dn := anyOf("list", someLists, g)
	version := 0
	e := &event{generation: g}
	if !w.do(e, func(c *ldap.Conn) error {
		r, err := c.Search(ldap.NewSearchRequest(dn, ldap.ScopeBaseObject, 0, 0, 0, false, "(objectClass=*)", []string{"uidNumber", "description"}, nil))
		if err == nil {
			version, err = strconv.Atoi(r.Entries[0].GetAttributeValue("uidNumber"))
			e.lists = []isolation.Read{{Key: object, List: r.Entries[0].GetAttributeValues("description")}}
		}
		return err
	}) {
		return
	}
	w.append(g, object, dn, func(r *ldap.ModifyRequest) {
		r.Delete("uidNumber", []string{strconv.Itoa(version)})
		r.Add("uidNumber", []string{strconv.Itoa(version + 1)})
	})
}

func (w *worker) append(g int, object, dn string, more func(*ldap.ModifyRequest)) {
	values := []string{w.value()}
	if rand.IntN(2) == 0 {
		values = append(values, w.value())
	}
	e := &event{generation: g, appends: []isolation.Append{{Key: object, Values: values}}}
	w.do(e, func(c *ldap.Conn) error {
		r := ldap.NewModifyRequest(dn, preReadOf("description"))
		more(r)
		r.Add("description", values)
		result, err := c.ModifyWithResult(r)
		if err == nil {
			e.lists = []isolation.Read{{Key: object, List: wasRead(result)}}
		}
		return err
	})
}

// join adds a value to a set. Such additions do not conflict with one another.
func (w *worker) join(g int) {
	object, dn := anyOf("set", someSets, g)
	value := w.value()
	w.do(&event{generation: g, adds: []isolation.Append{{Key: object, Values: []string{value}}}}, func(c *ldap.Conn) error {
		r := ldap.NewModifyRequest(dn, nil)
		r.Add("description", []string{value})
		return c.Modify(r)
	})
}

// look reads all lists and sets of a generation in one search.
func (w *worker) look(g int) { w.lookAt(g, rand.IntN(2) == 0) }

func (w *worker) lookAt(g int, fromNewest bool) bool {
	e := &event{generation: g, fresh: fromNewest}
	return w.do(e, func(c *ldap.Conn) error {
		r, err := c.Search(ldap.NewSearchRequest(generationDN(g), ldap.ScopeSingleLevel, 0, 0, 0, false, "(|(ou=list-*)(ou=set-*))", []string{"ou", "description"}, fresh(fromNewest)))
		if err != nil {
			return err
		}
		for _, entry := range r.Entries {
			name := entry.GetAttributeValue("ou")
			read := isolation.Read{Key: fmt.Sprint(name, " of ", g), List: entry.GetAttributeValues("description")}
			if strings.HasPrefix(name, "set-") {
				e.sets = append(e.sets, read)
			} else {
				e.lists = append(e.lists, read)
			}
		}
		if len(e.sets) != someSets || len(e.lists) != someLists {
			w.forbidden(fmt.Errorf("of lists and sets %d were found", len(r.Entries)))
		}
		return nil
	})
}

var colours = []string{"red", "green"}

// toggle adds or deletes a value that other workers also add and delete, or reads
// whether the value is present.
func (w *worker) toggle(g int) {
	value := colours[rand.IntN(len(colours))]
	if rand.IntN(3) == 0 {
		w.readValue(g, value)
		return
	}
	p := put{fmt.Sprint(value, " of ", g), rand.IntN(2) == 0}
	_, dn := named("values", 0, g)
	w.do(&event{generation: g, step: p}, func(c *ldap.Conn) error {
		r := ldap.NewModifyRequest(dn, nil)
		if p.there {
			r.Add("description", []string{value})
		} else {
			r.Delete("description", []string{value})
		}
		return c.Modify(r)
	})
}

func (w *worker) readValue(g int, value string) {
	_, dn := named("values", 0, g)
	e := &event{generation: g, step: hasRead(fmt.Sprint(value, " of ", g))}
	w.read(e, dn, "description", true, func(v []string) { e.output = strconv.FormatBool(slices.Contains(v, value)) })
}

// A server resolves the name of an entry in the state on which an operation begins. Before
// the operation ends, another operation may rename an entry above that entry. So a tree
// with all kinds of operations need not be linearizable, but it must be whole (see treeOf). The
// operations that must be linearizable use separate trees.

// family adds and deletes entries. It moves no entry.
func (w *worker) family(g int) {
	object, dn := anyOf("family", someTrees, g)
	if m, ok := w.readTree(g, object, dn); ok && rand.IntN(2) == 0 {
		w.prune(g, object, dn, anywhere(m))
	} else if ok {
		w.grow(g, object, dn, childOf(anywhere(m)))
	}
}

// The method "names" adds, deletes and renames entries that compete for a few names.
func (w *worker) names(g int) {
	object, dn := anyOf("names", someTrees, g)
	m, ok := w.readTree(g, object, dn)
	if !ok {
		return
	}
	switch rand.IntN(3) {
	case 0:
		w.prune(g, object, dn, anywhere(m))
	case 1:
		w.grow(g, object, dn, childOf(""))
	case 2:
		w.move(g, object, dn, anywhere(m), childOf(""))
	}
}

// moves moves entries, which are never deleted, below one another.
func (w *worker) moves(g int) {
	object, dn := anyOf("moves", someTrees, g)
	if m, ok := w.readTree(g, object, dn); ok {
		from, to := anywhere(m), anywhere(m)
		if above(from) != to {
			w.move(g, object, dn, from, strings.TrimPrefix(to+"/"+from[strings.LastIndexByte(from, '/')+1:], "/"))
		}
	}
}

// wild adds, deletes and moves entries of one tree.
func (w *worker) wild(g int) {
	_, dn := anyOf("wild", someTrees, g)
	m, ok := w.readTree(g, "", dn)
	if !ok {
		return
	}
	switch rand.IntN(3) {
	case 0:
		w.prune(g, "", dn, anywhere(m))
	case 1:
		w.grow(g, "", dn, childOf(anywhere(m)))
	case 2:
		w.move(g, "", dn, anywhere(m), childOf(anywhere(m)))
	}
}

func (w *worker) prune(g int, object, dn, at string) {
	if at == "" {
		return
	}
	w.do(onTree(g, object, prune{object, at}), func(c *ldap.Conn) error {
		return c.Del(ldap.NewDelRequest(below(at, dn), nil))
	})
}

func (w *worker) grow(g int, object, dn, at string) {
	id := w.value()
	w.do(onTree(g, object, grow{object, at, id}), func(c *ldap.Conn) error {
		r := ldap.NewAddRequest(below(at, dn), nil)
		r.Attribute("objectClass", []string{"organizationalUnit"})
		r.Attribute("description", []string{id})
		return c.Add(r)
	})
}

func (w *worker) move(g int, object, dn, from, to string) {
	if from == "" || from == to || strings.HasPrefix(to, from+"/") {
		return
	}
	w.do(onTree(g, object, moveTo{object, from, to}), func(c *ldap.Conn) error {
		r := ldap.NewModifyDNRequest(below(from, dn), "ou="+to[strings.LastIndexByte(to, '/')+1:], true, "")
		if above(from) != above(to) {
			r.NewSuperior = below(above(to), dn)
		}
		return c.ModifyDN(r)
	})
}

// onTree returns the event of a step on a tree. A wild tree is no object, so its events
// have no step.
func onTree(g int, object string, s step) *event {
	e := &event{generation: g}
	if object != "" {
		e.step = s
	}
	return e
}

// readTree reads the current state of a tree, and checks that the tree is whole.
func (w *worker) readTree(g int, object, dn string) (m map[string]string, ok bool) {
	e := onTree(g, object, treeRead(object))
	m = map[string]string{}
	ok = w.do(e, func(c *ldap.Conn) error {
		r, err := c.Search(ldap.NewSearchRequest(dn, ldap.ScopeWholeSubtree, 0, 0, 0, false, "(objectClass=*)", []string{"description"}, fresh(true)))
		if err != nil {
			return err
		}
		var broken error
		if m, broken = treeOf(r.Entries, dn); broken != nil {
			w.forbidden(broken)
		}
		e.output = treeState(m)
		return nil
	})
	return m, ok
}

// treeOf returns the tree that a search found. It returns an error if the tree is not
// whole: if a name or an entry occurs twice, or if an entry has no parent.
func treeOf(entries []*ldap.Entry, top string) (map[string]string, error) {
	m, at := map[string]string{}, map[string]string{}
	for _, entry := range entries {
		if entry.DN == top {
			continue
		}
		path, id := pathOf(entry.DN, top), entry.GetAttributeValue("description")
		if other, twice := at[id]; twice {
			return nil, fmt.Errorf("%s was found at %s and %s", id, path, other)
		}
		if other, twice := m[path]; twice {
			return nil, fmt.Errorf("%s was found twice: %s and %s", path, id, other)
		}
		m[path], at[id] = id, path
	}
	for path := range m {
		if _, ok := m[above(path)]; !ok && above(path) != "" {
			return nil, fmt.Errorf("%s was found, and not what is above it, in %v", path, m)
		}
	}
	return m, nil
}

// anywhere returns the path of a random entry of a tree, or "", the path of the tree's
// top.
func anywhere(m map[string]string) string {
	at := rand.IntN(len(m) + 1)
	for path := range m {
		if at--; at < 0 {
			return path
		}
	}
	return ""
}

// childOf returns a path below the given path, or below an entry above it if the path
// is deep.
func childOf(path string) string {
	for strings.Count(path, "/") >= 2 {
		path = above(path)
	}
	return strings.TrimPrefix(path+"/"+string("abc"[rand.IntN(3)]), "/")
}

// The function "below" returns the DN of an entry from its path and the DN of the tree's top.
func below(path, top string) string {
	for name := range strings.SplitSeq(path, "/") {
		if name != "" {
			top = "ou=" + name + "," + top
		}
	}
	return top
}

func pathOf(dn, top string) string {
	names := strings.Split(strings.TrimSuffix(dn, ","+top), ",")
	slices.Reverse(names)
	return strings.ReplaceAll(strings.Join(names, "/"), "ou=", "")
}
