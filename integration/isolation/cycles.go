package isolation

import (
	"fmt"
	"slices"
	"strings"
)

// Snapshot isolation forbids the cycles in which no two rw dependencies follow each
// other (Cerone and Gotsman, 2016). To find these cycles, the method cycles uses a graph with
// two nodes, 2n and 2n+1, for every node n. An rw edge to n becomes an edge to 2n+1, and any
// other edge to n becomes an edge to 2n. A path may leave node 2n by any dependency, and node
// 2n+1 by any dependency except rw.

// cycles reports a short forbidden cycle of every knot (see the function knots). It first looks
// for cycles without rw, which are worse anomalies. If no cycle is forbidden, it returns the
// number of knots.
func (c *checker) cycles(g graph) (skews int) {
	plain := g.without(rw)
	for _, knot := range knots(plain) {
		c.reportCycle(g, shortest(plain, knot), 1)
	}
	if len(c.found) > 0 {
		return 0
	}
	twice := g.twice()
	forbidden := knots(twice)
	for _, knot := range forbidden {
		c.reportCycle(g, shortest(twice, knot), 2)
	}
	if len(forbidden) > 0 {
		return 0
	}
	return len(knots(g))
}

func (g graph) without(why dependency) graph {
	h := make(graph, len(g))
	for n := range g {
		for _, e := range g[n] {
			if e.why != why {
				h[n] = append(h[n], e)
			}
		}
	}
	return h
}

func (g graph) twice() graph {
	h := make(graph, 2*len(g))
	for n := range g {
		for _, e := range g[n] {
			if e.why == rw {
				h[2*n] = append(h[2*n], edge{2*e.to + 1, rw, e.key})
				continue
			}
			e.to *= 2
			h[2*n] = append(h[2*n], e)
			h[2*n+1] = append(h[2*n+1], e)
		}
	}
	return h
}

// A step is one edge of a cycle, with the node that it leaves.
type step struct {
	from int
	edge
}

// reportCycle reports a cycle of a graph. The parameter copies is the number of nodes
// that the graph has for every transaction.
func (c *checker) reportCycle(g graph, cycle []step, copies int) {
	var b strings.Builder
	for i := 0; i < len(cycle); i++ {
		from, e := cycle[i].from/copies, cycle[i].edge
		if from >= len(c.txns) {
			// This node is a moment, not a transaction. The preceding line already says
			// realTime.
			continue
		}
		fmt.Fprintf(&b, "%s\n  %s", c.txns[from].describe(), dependencies[e.why])
		if e.key != "" {
			fmt.Fprintf(&b, " (%s)", shown(e.key))
		}
		b.WriteByte('\n')
	}
	c.report(kind(cycle), "%s", strings.TrimSuffix(b.String(), "\n"))
}

// kind returns the name of the anomaly that a cycle shows.
func kind(cycle []step) string {
	count := map[dependency]int{}
	keys := map[string]bool{}
	for _, s := range cycle {
		count[s.why]++
		if s.key != "" {
			keys[s.key] = true
		}
	}
	name := "long fork"
	switch {
	case count[rw] == 0 && count[wr] == 0 && count[session]+count[realTime] == 0:
		name = "G0 (write cycle)"
	case count[rw] == 0:
		name = "G1c (circular information flow)"
	case count[rw] == 1 && count[ww] > 0 && count[wr] == 0 && len(keys) == 1:
		name = "lost update"
	case count[rw] == 1:
		name = "G-single (read skew)"
	}
	if count[session] > 0 {
		name += ", against a session's order"
	}
	if count[realTime] > 0 {
		name += ", against real time"
	}
	return name
}

// shortest returns a shortest cycle that stays in a knot and contains one of the first
// nodes of the knot.
func shortest(g graph, knot []int) []step {
	in := map[int]bool{}
	for _, n := range knot {
		in[n] = true
	}
	var best []step
	for _, n := range knot[:min(len(knot), 64)] {
		if c := cycleFrom(g, in, n); best == nil || len(c) < len(best) {
			best = c
		}
	}
	return best
}

// cycleFrom returns a shortest path from start back to start through nodes of the set in.
func cycleFrom(g graph, in map[int]bool, start int) []step {
	reached := map[int]step{}
	queue := []int{start}
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		for _, e := range g[n] {
			if _, ok := reached[e.to]; ok || !in[e.to] {
				continue
			}
			reached[e.to] = step{n, e}
			if e.to == start {
				return trace(reached, start)
			}
			queue = append(queue, e.to)
		}
	}
	return nil
}

func trace(reached map[int]step, start int) (way []step) {
	for n := start; len(way) == 0 || n != start; {
		s := reached[n]
		way = append(way, s)
		n = s.from
	}
	slices.Reverse(way)
	return way
}

// knots returns the strongly connected components that have more than one node
// (Tarjan).
func knots(g graph) [][]int {
	t := &tarjan{g: g, index: make([]int, len(g)), low: make([]int, len(g)), on: make([]bool, len(g))}
	for n := range g {
		if t.index[n] == 0 {
			t.visit(n)
		}
	}
	return t.knots
}

type tarjan struct {
	g          graph
	index, low []int // numbered from 1; 0 if not visited
	on         []bool
	stack      []int
	next       int
	knots      [][]int
}

func (t *tarjan) visit(n int) {
	t.next++
	t.index[n], t.low[n], t.on[n] = t.next, t.next, true
	t.stack = append(t.stack, n)
	for _, e := range t.g[n] {
		switch {
		case t.index[e.to] == 0:
			t.visit(e.to)
			t.low[n] = min(t.low[n], t.low[e.to])
		case t.on[e.to]:
			t.low[n] = min(t.low[n], t.index[e.to])
		}
	}
	if t.low[n] != t.index[n] {
		return
	}
	var knot []int
	for t.on[n] {
		last := len(t.stack) - 1
		knot = append(knot, t.stack[last])
		t.on[t.stack[last]] = false
		t.stack = t.stack[:last]
	}
	if len(knot) > 1 {
		t.knots = append(t.knots, knot)
	}
}
