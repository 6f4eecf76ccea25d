package cache

import (
	"sync"
	"sync/atomic"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// opened is what is kept of an item that was used recently, so that using it again allocates nothing:
// the unpacked entry, its secrets and the name.
type opened struct {
	entry atomic.Pointer[entry.Entry]
	name  atomic.Pointer[cachedName]
	// secret contains the attributes in a field secrets of the item.
	secret atomic.Pointer[unpackedSecrets]
}

type unpackedSecrets struct {
	of         *secrets
	attributes []entry.Attribute
}

// A cachedName is an entry's whole name. It is valid until any entry is renamed or moved.
type cachedName struct {
	asOf uint64
	name *dn.Name
}

// openedItems are the items that have an opened, in the order in which they got it. There may be
// several for an entry, because a changed entry has a new item.
type openedItems struct {
	mu    sync.Mutex
	most  int // size in octets
	size  int
	items []*Item // a ring
	first int
	n     int
}

// mostOpened is enough for 40,000 entries. More would cost more memory than unpacking saves time.
const mostOpened = 64 << 20

// open returns what is kept of an item. If that is nothing yet, it adds an empty opened, and removes
// those of other items if they are too large together.
func (c *Cache) open(i *Item) *opened {
	if o := i.opened.Load(); o != nil {
		return o
	}
	o := &opened{}
	if i.opened.CompareAndSwap(nil, o) {
		c.opened.add(i)
	}
	return o
}

func (l *openedItems) add(i *Item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n == len(l.items) {
		l.items = append(append(make([]*Item, 0, 2*l.n+16), l.items[l.first:]...), l.items[:l.first]...)
		l.items, l.first = l.items[:cap(l.items)], 0
	}
	l.items[(l.first+l.n)%len(l.items)] = i
	l.n++
	for l.size += i.sizeOfOpened(); l.size > l.most; l.n-- {
		old := l.items[l.first]
		l.items[l.first], l.first = nil, (l.first+1)%len(l.items)
		l.size -= old.sizeOfOpened()
		old.opened.Store(nil)
	}
}

// sizeOfOpened estimates the size of an item's opened.
func (i *Item) sizeOfOpened() int {
	w := 500 + len(i.Node.UpRDN)
	if n := i.Packed.Len(); n > 0 {
		_, values := i.Packed.Numbers(n - 1)
		w += 48*n + 24*values
	}
	return w
}

// Entry returns the entry of an item that is not wide. The id is that of the entry.
func (c *Cache) Entry(id entry.ID, i *Item) *entry.Entry {
	o := c.open(i)
	e := o.entry.Load()
	if e == nil {
		e = i.Packed.Entry(id)
		o.entry.Store(e)
	}
	return e
}

// Opened returns the entry of an item if it is unpacked already, and otherwise nil.
func (i *Item) Opened() *entry.Entry {
	if o := i.opened.Load(); o != nil {
		return o.entry.Load()
	}
	return nil
}

// Name returns an entry's whole name as of an ordinal, or nil if it is not known. The name is valid
// until any entry is renamed or moved.
func (i *Item) Name() (name *dn.Name, asOf uint64) {
	if o := i.opened.Load(); o != nil {
		if n := o.name.Load(); n != nil {
			return n.name, n.asOf
		}
	}
	return nil, 0
}

// SetName sets what Name returns.
func (c *Cache) SetName(i *Item, name *dn.Name, asOf uint64) {
	c.open(i).name.Store(&cachedName{asOf, name})
}

// SetSecrets sets the secret attributes of an entry as of an ordinal. They must not change any more.
func (c *Cache) SetSecrets(i *Item, asOf uint64, as []entry.Attribute) {
	p, _ := c.shapes.Pack(as)
	s := &secrets{asOf, p}
	i.secrets.Store(s)
	if o := i.opened.Load(); o != nil {
		o.secret.Store(&unpackedSecrets{s, as})
	}
}

// Secrets returns the secret attributes of an entry, and the ordinal of SetSecrets. The attributes are not
// nil, unless SetSecrets was not called.
func (c *Cache) Secrets(i *Item) (as []entry.Attribute, asOf uint64) {
	s := i.secrets.Load()
	if s == nil {
		return nil, 0
	}
	o := c.open(i)
	u := o.secret.Load()
	if u == nil || u.of != s {
		u = &unpackedSecrets{s, s.packed.Entry(entry.ID{}).Attributes}
		o.secret.Store(u)
	}
	return u.attributes, s.asOf
}
