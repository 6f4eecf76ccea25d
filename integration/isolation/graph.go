package isolation

import (
	"slices"
	"sort"
)

// A dependency is the reason why a later transaction comes after an earlier one.
type dependency byte

const (
	ww       dependency = iota // the later one wrote the next version of a list
	wr                         // the later one read what the earlier one wrote
	session                    // the session ran the later one after the earlier one
	realTime                   // the later one is Fresh and began after the end of the earlier one
	rw                         // the later one replaced what the earlier one read
)

var dependencies = [...]string{"its version was followed by that of", "was read by", "came in its session before", "had returned before", "did not see"}

type edge struct {
	to  int
	why dependency
	key string
}

// The first nodes of a graph are the transactions. The other nodes are moments in time. A
// transaction that returned before a moment precedes the moment, and the moment precedes
// each Fresh transaction that began after it.
type graph [][]edge

func (g graph) add(from, to int, why dependency, key string) {
	if from != to {
		g[from] = append(g[from], edge{to, why, key})
	}
}

// graph returns the graph of dependencies. ok is false if anomalies were found already, because
// the order of versions may then be unknown.
func (c *checker) graph() (g graph, ok bool) {
	if len(c.found) > 0 {
		return nil, false
	}
	g = make(graph, len(c.txns))
	for _, k := range c.keys {
		l := c.lists[k]
		for n := range len(l.order) - 1 {
			g.add(l.writers[l.order[n]].txn, l.writers[l.order[n+1]].txn, ww, k)
		}
	}
	unseen := c.unseen()
	c.reads(func(i int, r *Read, l *list) {
		n := len(r.List)
		if n > 0 {
			g.add(l.writers[r.List[n-1]].txn, i, wr, l.key)
		}
		if n < len(l.order) {
			g.add(i, l.writers[l.order[n]].txn, rw, l.key)
			return
		}
		for _, w := range unseen[l] { // transaction w wrote after all versions that were read
			g.add(i, w, rw, l.key)
		}
	})
	c.sessions(g)
	return c.addRealTime(g), true
}

// unseen returns, for each list, the successful transactions whose appends to the list no read
// has shown.
func (c *checker) unseen() map[*list][]int {
	unseen := map[*list][]int{}
	for i := range c.txns {
		if c.txns[i].Outcome != OK {
			continue
		}
		for _, a := range c.txns[i].Appends {
			if l := c.list(a.Key); !slices.Contains(l.order, a.Values[0]) {
				unseen[l] = append(unseen[l], i)
			}
		}
	}
	return unseen
}

// sessions adds the dependencies between consecutive transactions of each session.
func (c *checker) sessions(g graph) {
	last := map[int]int{}
	for _, i := range c.sorted(func(t *Txn) int64 { return int64(t.Invoked) }) {
		s := c.txns[i].Session
		if before, ok := last[s]; ok {
			g.add(before, i, session, "")
		}
		last[s] = i
	}
}

// addRealTime adds the moments and the dependencies of real time.
func (c *checker) addRealTime(g graph) graph {
	returned := c.sorted(func(t *Txn) int64 { return int64(t.Returned) })
	first := len(g)
	for n, i := range returned {
		g = append(g, nil)
		g.add(i, first+n, realTime, "")
		if n > 0 {
			g.add(first+n-1, first+n, realTime, "")
		}
	}
	for i := range c.txns {
		if !c.txns[i].Fresh || c.txns[i].Outcome != OK {
			continue
		}
		n := sort.Search(len(returned), func(n int) bool { return c.txns[returned[n]].Returned >= c.txns[i].Invoked })
		if n > 0 {
			g.add(first+n-1, i, realTime, "")
		}
	}
	return g
}

// sorted returns the transactions that succeeded, sorted by a key. The parameter by
// computes the key.
func (c *checker) sorted(by func(*Txn) int64) []int {
	var order []int
	for i := range c.txns {
		if c.txns[i].Outcome == OK {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(by(&c.txns[a]) - by(&c.txns[b])) })
	return order
}
