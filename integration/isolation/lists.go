package isolation

import "slices"

// A list is what the history contains about one list of the database.
type list struct {
	key     string
	order   []string // the longest version that was read
	reader  int      // index of the transaction that read that version
	writers map[string]writer
}

// A writer is the transaction that appended a value.
type writer struct {
	txn  int
	last bool // the value is the last one that the transaction appended to the list
}

func (c *checker) list(key string) *list {
	l := c.lists[key]
	if l == nil {
		l = &list{key: key, writers: map[string]writer{}}
		c.lists[key] = l
		c.keys = append(c.keys, key)
	}
	return l
}

// collect records which transaction appended which values.
func (c *checker) collect() {
	for i := range c.txns {
		for _, a := range c.txns[i].Appends {
			l := c.list(a.Key)
			for n, v := range a.Values {
				if _, ok := l.writers[v]; ok {
					c.report("value written twice", "%q to %s: the history cannot be judged", v, shown(a.Key))
				}
				l.writers[v] = writer{i, n == len(a.Values)-1}
			}
		}
	}
}

// order finds the versions of every list, and reports the errors that single reads
// show.
func (c *checker) order() {
	c.reads(func(i int, r *Read, l *list) {
		if len(r.List) > len(l.order) {
			l.order, l.reader = r.List, i
		}
	})
	for _, k := range c.keys {
		c.checkOrder(c.lists[k])
	}
	c.reads(c.checkRead)
}

// reads calls f for every read of a transaction that succeeded.
func (c *checker) reads(f func(i int, r *Read, l *list)) {
	for i := range c.txns {
		t := &c.txns[i]
		if t.Outcome != OK {
			continue
		}
		for n := range t.Reads {
			f(i, &t.Reads[n], c.list(t.Reads[n].Key))
		}
	}
}

// checkOrder checks the values of a list's longest version.
func (c *checker) checkOrder(l *list) {
	seen := map[string]bool{}
	for _, v := range l.order {
		w, ok := l.writers[v]
		switch {
		case seen[v]:
			c.report("duplicate", "%q is twice in %s: %q", v, shown(l.key), l.order)
		case !ok:
			c.report("garbage read", "nobody wrote %q, which is in %s: %q", v, shown(l.key), l.order)
		case c.txns[w.txn].Outcome == Failed:
			c.report("G1a (aborted read)", "%q in %s was read, and its transaction had failed:\n%s\n%s",
				v, shown(l.key), c.txns[w.txn].describe(), c.txns[l.reader].describe())
		}
		seen[v] = true
	}
}

// checkRead checks one version of a list, which transaction i read.
func (c *checker) checkRead(i int, r *Read, l *list) {
	n := len(r.List)
	if !slices.Equal(r.List, l.order[:n]) {
		c.report("incompatible order", "%s was read as %q and as %q\n%s\n%s",
			shown(l.key), r.List, l.order, c.txns[i].describe(), c.txns[l.reader].describe())
		return
	}
	if n == 0 {
		return
	}
	if w, ok := l.writers[r.List[n-1]]; ok && !w.last {
		c.report("G1b (intermediate read)", "%s was read up to %q, in the middle of what one transaction wrote:\n%s\n%s",
			shown(l.key), r.List[n-1], c.txns[w.txn].describe(), c.txns[i].describe())
	}
}
